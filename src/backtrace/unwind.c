#include "backtrace/unwind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifndef WEFT_LIBUNWIND
#define WEFT_LIBUNWIND 0
#endif
#if WEFT_LIBUNWIND
#include <libunwind.h>
#endif

#include "backtrace/loaded_object.h"
#include "backtrace/sample.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "context/sanitizer.h"
#include "task/fork.h"
#include "worker/worker.h"

/* --- copying a stack ------------------------------------------------------------------------ */

#define RED_ZONE 128 /* bytes below the stack pointer that a leaf function may use */

/* Word by word and volatile, so that no sanitizer's memcpy is called: parts of a stack are
 * poisoned. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void
copy_words(uint64_t *to, uint64_t from, size_t bytes)
{
    const volatile uint64_t *words = (const volatile uint64_t *)from;
    for (size_t i = 0; i < bytes / sizeof *to; i++) {
        to[i] = words[i];
    }
#if WEFT__VALGRIND
    (void)VALGRIND_MAKE_MEM_DEFINED(to, bytes);
#endif
}

void weft__stack_sample_copy(struct weft__stack_sample *stack_sample, const char *bottom,
                             const char *top)
{
    uint64_t low = (uint64_t)bottom, high = (uint64_t)top;
    uint64_t sp = stack_sample->regs[WEFT__REG_SP] & ~(uint64_t)7;
    stack_sample->first = stack_sample->bytes = 0;
    if (sp < low || sp >= high) {
        return; /* it runs on another stack, such as that of a signal handler */
    }
    stack_sample->first = sp - low < RED_ZONE ? low : sp - RED_ZONE;
    stack_sample->bytes = high - stack_sample->first < WEFT__STACK_SAMPLE_BYTES
                              ? high - stack_sample->first
                              : WEFT__STACK_SAMPLE_BYTES;
    copy_words(stack_sample->stack, stack_sample->first, stack_sample->bytes);
}

void weft__stack_sample_copy_held(struct weft__stack_sample *stack_sample,
                                  const struct weft__task *task)
{
    memset(stack_sample->regs, 0, sizeof stack_sample->regs);
    stack_sample->regs[WEFT__REG_PC] = (uint64_t)task->ctx.pc;
    stack_sample->regs[WEFT__REG_SP] = (uint64_t)task->ctx.sp;
    stack_sample->regs[WEFT__REG_FP] = (uint64_t)task->ctx.fp;
    weft__stack_sample_copy(stack_sample, weft__stack_bottom(task->stack, task->stack_class),
                            task->stack->top);
}

/* --- libunwind, reading the copy -------------------------------------------------------------- */

#if WEFT_LIBUNWIND

int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *table,
                                       unw_proc_info_t *out, int need_unwind_info, void *arg);

struct walk {
    struct weft__stack_sample *stack_sample; /* NULL: only tables are read */
    uint64_t first, end;                     /* the segment that was read last */
};

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                      void *arg)
{
    struct walk *walk = arg;
    const struct weft__stack_sample *stack_sample = walk->stack_sample;
    (void)space;
    if (write) {
        return -UNW_EINVAL;
    }
    if (stack_sample && address - stack_sample->first < stack_sample->bytes &&
        stack_sample->bytes >= sizeof *value &&
        address - stack_sample->first <= stack_sample->bytes - sizeof *value) {
        memcpy(value, (const char *)stack_sample->stack + (address - stack_sample->first),
               sizeof *value);
        return 0;
    }
    if ((address < walk->first || address >= walk->end) &&
        !weft__loaded_object_segment(address, &walk->first, &walk->end)) {
        walk->first = walk->end = 0;
        return -UNW_EINVAL;
    }
    /* The last word of a segment may be incomplete. */
    size_t there = walk->end - address < sizeof *value ? walk->end - address : sizeof *value;
    *value = 0;
    memcpy(value, (const void *)address, there);
    return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write,
                      void *arg)
{
    const struct walk *walk = arg;
    (void)space;
    if (write || reg < 0 || reg >= WEFT__REGS) {
        return -UNW_EBADREG;
    }
    *value = walk->stack_sample->regs[reg];
    return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write,
                        void *arg)
{
    (void)space, (void)reg, (void)value, (void)write, (void)arg;
    return -UNW_EBADREG;
}

/* The header before an object's sorted table, as every linker writes it. */
struct eh_frame_hdr {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
};

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *out,
                          int need_unwind_info, void *arg)
{
    struct weft__loaded_object object;
    if (!weft__loaded_object_find(ip, &object) || !object.unwind_tables) {
        return -UNW_ENOINFO;
    }
    const struct eh_frame_hdr *head = object.unwind_tables;
    /* Signed offsets of 4 bytes to here, a count of 4 bytes. */
    if (head->version != 1 || head->frame_encoding != 0x1b || head->count_encoding != 0x03 ||
        head->table_encoding != 0x3b) {
        return -UNW_ENOINFO;
    }
    unw_dyn_info_t table = {
        .start_ip = object.first,
        .end_ip = object.end,
        .format = UNW_INFO_FORMAT_REMOTE_TABLE,
        .u.rti = {.segbase = (unw_word_t)head,
                  .table_len = (unw_word_t)head->count * 8 / sizeof(unw_word_t),
                  .table_data = (unw_word_t)(head + 1)},
    };
    return UNW_OBJ(dwarf_search_unwind_table)(space, ip, &table, out, need_unwind_info, arg);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *arg)
{
    unw_get_accessors(unw_local_addr_space)->put_unwind_info(space, info, arg);
}

static int no_dyn_info(unw_addr_space_t space, unw_word_t *list, void *arg)
{
    (void)space, (void)list, (void)arg;
    return -UNW_ENOINFO;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
    (void)space, (void)cursor, (void)arg;
    return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t space, unw_word_t ip, char *buf, size_t size,
                   unw_word_t *offset, void *arg)
{
    (void)space, (void)ip, (void)buf, (void)size, (void)offset, (void)arg;
    return -UNW_ENOINFO;
}

/* Without a fork meanwhile: libunwind has locks of its own, which a child could not release. */
static unw_addr_space_t make_space(void)
{
    static unw_accessors_t accessors = {
        .find_proc_info = find_proc_info,
        .put_unwind_info = put_unwind_info,
        .get_dyn_info_list_addr = no_dyn_info,
        .access_mem = access_mem,
        .access_reg = access_reg,
        .access_fpreg = access_fpreg,
        .resume = no_resume,
        .get_proc_name = no_name,
    };
    unw_addr_space_t space = unw_create_addr_space(&accessors, 0);
    if (space) {
        unw_set_caching_policy(space, UNW_CACHE_NONE); /* objects are loaded and unloaded */
    }
    return space;
}

/* Created once, never freed. */
static unw_addr_space_t unwind_space(void)
{
    static _Atomic(unw_addr_space_t) made;
    unw_addr_space_t space = atomic_load_explicit(&made, memory_order_acquire); /* pairs: below */
    if (!space) {
        weft__fork_block();
        space = atomic_load_explicit(&made, memory_order_relaxed);
        if (!space && (space = make_space())) {
            atomic_store_explicit(&made, space, memory_order_release); /* pairs: above */
        }
        weft__fork_unblock();
    }
    return space;
}

bool weft__unwind_works(void)
{
    return true;
}

bool weft__unwind_prepare(void)
{
    return unwind_space() != NULL;
}

/* The return addresses from a waiting fiber's stack pointer to its entry, and their positions.
 * Besides these, only the two registers that the switch saved matter, so a stack with the same
 * words at the same positions has the same frames, without a search in the unwind tables: some
 * twenty times faster, and most fibers of a large program are alike. */
static bool matches(const struct weft__unwind_cache_entry *cache_entry,
                    const struct weft__stack_sample *stack_sample)
{
    uint64_t sp = stack_sample->regs[WEFT__REG_SP];
    if (cache_entry->count == 0 ||
        cache_entry->pcs[0] != (void *)stack_sample->regs[WEFT__REG_PC] ||
        cache_entry->fp != stack_sample->regs[WEFT__REG_FP] - sp) {
        return false;
    }
    for (int i = 1; i < cache_entry->count; i++) {
        uint64_t at = sp + cache_entry->at[i] - stack_sample->first;
        if (at + sizeof(void *) > stack_sample->bytes || at % sizeof(void *) ||
            stack_sample->stack[at / sizeof(void *)] != (uint64_t)cache_entry->pcs[i]) {
            return false;
        }
    }
    return true;
}

static int unwind(struct weft__stack_sample *stack_sample,
                  struct weft__unwind_cache_entry *cache_entry, int max)
{
    unw_cursor_t cursor;
    struct walk walk = {.stack_sample = stack_sample};
    struct weft__loaded_object object;
    unw_addr_space_t space = unwind_space();
    uint64_t below = 0;
    int n = 0;
    if (!space || unw_init_remote(&cursor, space, &walk) != 0) {
        return 0;
    }
    while (n < max) {
        unw_word_t pc, sp;
        unw_save_loc_t saved;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 ||
            unw_get_reg(&cursor, UNW_REG_SP, &sp) != 0 || sp < below ||
            !weft__loaded_object_find(pc, &object)) {
            break;
        }
        bool in_memory =
            unw_get_save_loc(&cursor, UNW_REG_IP, &saved) == 0 && saved.type == UNW_SLT_MEMORY;
        cache_entry->at[n] =
            in_memory ? saved.u.addr - stack_sample->regs[WEFT__REG_SP] : UINT64_MAX / 2;
        cache_entry->pcs[n++] = (void *)pc;
        below = sp;
        if (unw_step(&cursor) <= 0) {
            break;
        }
    }
    return n;
}

int weft__stack_sample_unwind(struct weft__stack_sample *stack_sample,
                              struct weft__unwind_cache *unwind_cache, void **pcs, int max)
{
    struct weft__unwind_cache_entry own, *cache_entry = &own;
    int found = 0;
    max = max < WEFT__UNWIND_CACHE_FRAMES ? max : WEFT__UNWIND_CACHE_FRAMES;
    if (unwind_cache) {
        while (found < WEFT__UNWIND_CACHE_ENTRIES &&
               !matches(&unwind_cache->entries[found], stack_sample)) {
            found++;
        }
        unsigned oldest = found < WEFT__UNWIND_CACHE_ENTRIES
                              ? 0
                              : unwind_cache->next++ % WEFT__UNWIND_CACHE_ENTRIES;
        cache_entry =
            &unwind_cache->entries[found < WEFT__UNWIND_CACHE_ENTRIES ? (unsigned)found : oldest];
    }
    if (!unwind_cache || found == WEFT__UNWIND_CACHE_ENTRIES) {
        cache_entry->fp = stack_sample->regs[WEFT__REG_FP] - stack_sample->regs[WEFT__REG_SP];
        cache_entry->count = unwind(stack_sample, cache_entry, max);
    }
    memcpy(pcs, cache_entry->pcs, (size_t)cache_entry->count * sizeof *pcs);
    return cache_entry->count;
}

/* libunwind returns the nearest symbol before an address. In a stripped file that symbol may belong
 * to another function: functions whose symbols were removed still have unwind tables, which record
 * where the function begins. */
static bool is_symbol_valid(unw_word_t at, unw_word_t symbol)
{
    struct walk walk = {.stack_sample = NULL};
    unw_proc_info_t info;
    unw_addr_space_t space = unwind_space();
    return space && find_proc_info(space, at, &info, 0, &walk) == 0 && symbol >= info.start_ip;
}

void weft__symbol_format(const void *pc, bool returns, char *buf, size_t size)
{
    char name[128];
    unw_word_t offset, at = (unw_word_t)pc - returns;
    unw_accessors_t *local = unw_get_accessors(unw_local_addr_space);
    int err = local->get_proc_name(unw_local_addr_space, at, name, sizeof name, &offset, NULL);
    if ((err == 0 || err == -UNW_ENOMEM) && /* the latter: truncated */
        is_symbol_valid(at, at - offset)) {
        snprintf(buf, size, "%s+0x%" PRIx64, name, offset + returns);
    } else {
        weft__loaded_object_format((uint64_t)pc, buf, size);
    }
}

#else

bool weft__unwind_works(void)
{
    return false;
}

bool weft__unwind_prepare(void)
{
    return true;
}

int weft__stack_sample_unwind(struct weft__stack_sample *stack_sample,
                              struct weft__unwind_cache *unwind_cache, void **pcs, int max)
{
    (void)stack_sample, (void)unwind_cache, (void)pcs, (void)max;
    return 0;
}

void weft__symbol_format(const void *pc, bool returns, char *buf, size_t size)
{
    (void)returns;
    weft__loaded_object_format((uint64_t)pc, buf, size);
}

#endif

/* --- copy and unwind -------------------------------------------------------------------------- */

#define SAMPLE_TIMEOUT_NS 20000000

int weft__unwind_waiting(struct weft__task *task, void **pcs, int max)
{
    struct weft__stack_sample *stack_sample = weft__alloc(sizeof *stack_sample);
    if (!stack_sample) {
        return -ENOMEM;
    }
    int n = -EAGAIN;
    if (!weft__task_is_stackless(task) && weft__task_hold(task)) {
        weft__stack_sample_copy_held(stack_sample, task);
        if (weft__task_unhold(task)) {
            weft__place(task, WEFT__BACK);
        }
        n = weft__stack_sample_unwind(stack_sample, NULL, pcs, max);
    }
    weft__free(stack_sample);
    return n;
}

int weft__unwind_running(struct weft__worker *worker, void **pcs, int max)
{
    struct weft__stack_sample *stack_sample = weft__alloc(sizeof *stack_sample);
    if (!stack_sample) {
        return -ENOMEM;
    }
    int tid = atomic_load_explicit(&worker->tid, memory_order_relaxed);
    int n = weft__sample_begin(0);
    if (n == 0) {
        n = weft__sample(tid, WEFT_NO_FIBER, weft__clock_ns() + SAMPLE_TIMEOUT_NS, stack_sample);
        weft__sample_end();
    }
    if (n == 0) {
        n = weft__stack_sample_unwind(stack_sample, NULL, pcs, max);
    }
    weft__free(stack_sample);
    return n;
}
