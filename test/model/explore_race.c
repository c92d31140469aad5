/* Plain memory: data races by vector clocks, and the memory of one execution with use after free
 * and leaks.
 *
 * The compiler's thread instrumentation calls __tsan_read8 and similar functions before each plain
 * access; this file implements them. For each byte it keeps the last plain write and each thread's
 * last plain read, as (thread, clock), and which atomic location is there. Two accesses conflict if
 * one writes and not both are atomic; they race if neither thread had seen the other's clock.
 * Freeing is a write to all of the memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/explore_internal.h"

#define CELLS 8192 /* a power of two */
#define ARENA_BYTES (64 * 1024)
#define BLOCKS 128

/* Eight bytes of memory. */
struct cell {
    uintptr_t granule;
    uint32_t execution;  /* the cell belongs to this execution, or is free */
    uint8_t location[8]; /* index + 1 of the atomic */
    uint8_t writer[8];
    int16_t written[8]; /* clock of the writer, 0: never */
    int16_t read[X_THREADS][8];
    uint8_t readers; /* threads that have read any of it, as bits */
    uintptr_t write_pc, read_pc;
};

struct block {
    char *start;
    size_t bytes;
    bool freed;
};

static struct cell cells[CELLS];
static uint32_t execution;
static int cells_used;
static struct location *by_index[LOCATIONS];

static char arenas[X_THREADS + 1][ARENA_BYTES] __attribute__((aligned(64)));
static size_t arena_used[X_THREADS + 1];
static struct block blocks[BLOCKS];
static int block_count, freed_count;

void race_reset(void)
{
    execution++;
    cells_used = 0;
    block_count = 0;
    freed_count = 0;
    memset(arena_used, 0, sizeof arena_used);
}

/* NULL: there is none, and none is to be created. */
static struct cell *cell_find(uintptr_t granule, bool make)
{
    size_t at = (granule * 0x9e3779b97f4a7c15u) >> 51;
    for (;; at = (at + 1) % CELLS) {
        struct cell *cell = &cells[at];
        if (cell->execution != execution) {
            if (!make) {
                return NULL;
            }
            if (++cells_used > CELLS / 2) {
                x_fail("explorer: more than %d words of plain memory", CELLS / 2);
            }
            memset(cell, 0, sizeof *cell);
            cell->execution = execution;
            cell->granule = granule;
            return cell;
        }
        if (cell->granule == granule) {
            return cell;
        }
    }
}

static struct cell *cell_of(uintptr_t granule)
{
    return cell_find(granule, true);
}

static void check_freed(uintptr_t at)
{
    if (freed_count == 0 || at - (uintptr_t)arenas >= sizeof arenas) {
        return;
    }
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].freed && at - (uintptr_t)blocks[i].start < blocks[i].bytes) {
            x_fail("use after free: %s", memory_name(at));
        }
    }
}

static void race(uintptr_t at, const char *mine, int other, const char *theirs, uintptr_t pc)
{
    char message[sizeof failure];
    int n = snprintf(message, sizeof message, "data race on %s: %s by T%d, %s by T%d",
                     memory_name(at), mine, self->index, theirs, other);
    if (pc) {
        snprintf(message + n, sizeof message - (size_t)n, " (pc %#lx)", (unsigned long)pc);
    }
    if (!ahead_keep_back(message)) {
        x_fail("%s", message);
    }
}

/* Has this thread seen that event? */
static bool seen(int thread, int clock)
{
    return thread == self->index || clock <= self->view.clock[thread];
}

/* Checks this access against plain ones of other threads. */
static void against_plain(const struct cell *cell, int byte, bool write, const char *mine)
{
    uintptr_t at = cell->granule * 8 + (uintptr_t)byte;
    if (!seen(cell->writer[byte], cell->written[byte])) {
        race(at, mine, cell->writer[byte], "plain write", cell->write_pc);
    }
    for (int i = 0; write && cell->readers >> i; i++) {
        if (!seen(i, cell->read[i][byte])) {
            race(at, mine, i, "plain read", cell->read_pc);
        }
    }
}

static void against_atomic(const struct cell *cell, int byte, bool write, const char *mine)
{
    const struct location *location = by_index[cell->location[byte] - 1];
    for (int i = 0; i <= X_THREADS; i++) {
        if (!seen(i, location->writes[i])) {
            race(location->at, mine, i, "atomic write", 0);
        }
        if (write && !seen(i, location->reads[i])) {
            race(location->at, mine, i, "atomic read", 0);
        }
    }
}

/* Nothing runs concurrently with setup and check, and the threads have seen all of setup; but an
 * atomic that is written plainly loses its history. */
static void plain_alone(uintptr_t at, size_t bytes)
{
    for (uintptr_t granule = at >> 3; granule <= (at + bytes - 1) >> 3; granule++) {
        struct cell *cell = cell_find(granule, false);
        for (uintptr_t byte = 0; cell && byte < 8; byte++) {
            if (granule * 8 + byte - at < bytes) {
                cell->location[byte] = 0;
            }
        }
    }
}

static void plain(uintptr_t at, size_t bytes, bool write, uintptr_t pc)
{
    if (!self || at == (uintptr_t)&errno) { /* which real threads do not share */
        return;
    }
    check_freed(at);
    if (self->index == MAIN) {
        if (write && bytes) {
            plain_alone(at, bytes);
        }
        return;
    }
    const char *mine = write ? "plain write" : "plain read";
    struct cell *cell = NULL;
    for (size_t i = 0; i < bytes; i++, at++) {
        if (!cell || (at & 7) == 0) {
            cell = cell_of(at >> 3);
            *(write ? &cell->write_pc : &cell->read_pc) = pc;
        }
        int byte = at & 7;
        int16_t clock = (int16_t)(self->events + 1);
        against_plain(cell, byte, write, mine);
        if (cell->location[byte]) {
            against_atomic(cell, byte, write, mine);
        }
        if (write) {
            cell->writer[byte] = (uint8_t)self->index;
            cell->written[byte] = clock;
            cell->location[byte] = 0; /* an atomic at this address loses its history */
        } else {
            cell->read[self->index][byte] = clock;
            cell->readers |= (uint8_t)(1 << self->index);
        }
    }
}

void x_plain(const volatile void *memory, size_t bytes, bool write)
{
    plain((uintptr_t)memory, bytes, write, (uintptr_t)__builtin_return_address(0));
}

struct location *race_atomic(uintptr_t at, int bytes, bool write)
{
    check_freed(at);
    struct cell *cell = cell_of(at >> 3);
    for (int byte = at & 7; byte < (int)(at & 7) + bytes; byte++) {
        against_plain(cell, byte, write, write ? "atomic write" : "atomic read");
    }
    return cell->location[at & 7] ? by_index[cell->location[at & 7] - 1] : NULL;
}

void race_new_location(struct location *location)
{
    by_index[location->index] = location;
    struct cell *cell = cell_of(location->at >> 3);
    for (int i = 0; i < location->bytes; i++) {
        cell->location[(location->at & 7) + (uintptr_t)i] = (uint8_t)(location->index + 1);
    }
}

/* ---- memory ---- */

void *x_alloc(size_t bytes, bool poison)
{
    size_t rounded = (bytes + 63) / 64 * 64;
    size_t used = arena_used[self->index];
    if (rounded > ARENA_BYTES - used || block_count == BLOCKS) {
        x_fail("explorer: out of memory");
    }
    char *memory = arenas[self->index] + used;
    arena_used[self->index] += rounded;
    blocks[block_count++] = (struct block){memory, rounded, false};
    memset(memory, poison ? 0xa5 : 0, rounded);
    plain((uintptr_t)memory, bytes, true, (uintptr_t)__builtin_return_address(0));
    return memory;
}

void x_free(void *memory)
{
    if (!memory) {
        return;
    }
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].start == memory) {
            plain((uintptr_t)memory, blocks[i].bytes, true, (uintptr_t)__builtin_return_address(0));
            memset(memory, 0xdb, blocks[i].bytes);
            blocks[i].freed = true;
            freed_count++;
            return;
        }
    }
    x_fail("free of what was not allocated: %p", memory);
}

void race_end(void)
{
    for (int i = 0; i < block_count; i++) {
        if (!blocks[i].freed) {
            x_fail("leak: %zu bytes at %p", blocks[i].bytes, (void *)blocks[i].start);
        }
    }
}

/* ---- the compiler's calls ---- */

#define PC (uintptr_t) __builtin_return_address(0)
#define ACCESS(name, bytes, write)                                                                 \
    void __tsan_##name(void *at);                                                                  \
    void __tsan_##name(void *at)                                                                   \
    {                                                                                              \
        plain((uintptr_t)at, bytes, write, PC);                                                    \
    }
#define ACCESSES(bytes) ACCESS(read##bytes, bytes, false) ACCESS(write##bytes, bytes, true)
#define UNALIGNED(bytes)                                                                           \
    ACCESS(unaligned_read##bytes, bytes, false) ACCESS(unaligned_write##bytes, bytes, true)

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_read_range(void *at, unsigned long bytes)
{
    plain((uintptr_t)at, bytes, false, PC);
}

void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes)
{
    plain((uintptr_t)at, bytes, true, PC);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
