#include "task/slab.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "lock/lock.h"

#define SLAB_BYTES ((size_t)2 << 20)
#define SLAB_TASKS (SLAB_BYTES / sizeof(struct weft__task))
#define SLOW_NS 400000 /* to touch a slab */
#define SMALL_SLABS 32u
#define RECYCLE_FROM 4096u /* blocks in a process before a thread waits for recycled ones */
#define RECYCLE_PAUSES 128 /* pauses, about 5 us */
#define SKIP_BATCHES 64u   /* batches */
#define MAX_SLABS 16384u   /* 268 million fibers */

static struct weft__lock lock;
/* under lock */
static _Atomic(struct weft__task *)
    batches; /* linked by `home` of their first blocks; may be read without the lock */
/* written under lock, read by any thread */
static _Atomic(struct weft__task *) slabs[MAX_SLABS];
static _Atomic(struct weft__task *) memory[MAX_SLABS]; /* same, but kept in a forked child */
static _Atomic(uint32_t) slots;
/* under lock: blocks of ended threads, until they fill a batch */
static struct weft__slab_cache leftovers;
/* In a forked child, all slabs of the parent point here: blocks without a fiber. Only read, so the
 * array costs no memory. */
static struct weft__task empty_slab[SLAB_TASKS];
static uint32_t
    parent_slots; /* slots created before the last fork; written while there is one thread */

static struct weft__task *batch_next(const struct weft__task *batch)
{
    return (struct weft__task *)(void *)batch->home;
}

static void push_batch_locked(struct weft__task *batch)
{
    batch->home = (struct weft_pool *)(void *)atomic_load_explicit(&batches, memory_order_relaxed);
    atomic_store_explicit(&batches, batch, memory_order_relaxed);
}

/* A huge page is populated at once, which costs 11 ns per block if memory is available, against 46
 * ns for small pages one by one. In a virtual machine that returns free memory to its host it can
 * cost 130 ns and a stall of 2 ms: then the next slabs use small pages before a huge page is tried
 * again. */
static void populate_locked(char *slab)
{
    static unsigned small_slabs_left; /* slabs until a huge page is tried again */
    if (small_slabs_left) {
        small_slabs_left--;
        return;
    }
    int64_t began = weft__clock_ns();
    madvise(slab, SLAB_BYTES, MADV_HUGEPAGE);
    *(volatile char *)slab = 0;
    if (weft__clock_ns() - began > SLOW_NS) {
        small_slabs_left = SMALL_SLABS;
    }
}

/* Aligned to its size, so that it can be one huge page. The upper of two possible positions: the
 * kernel places mappings downwards, so the next slab then merges with this one into one mapping. */
static struct weft__task *slab_create(void)
{
    char *twice = weft__map(2 * SLAB_BYTES);
    if (!twice) {
        return NULL;
    }
    size_t after = (uintptr_t)twice % SLAB_BYTES;
    char *slab = twice + SLAB_BYTES - after;
    weft__unmap(twice, SLAB_BYTES - after);
    weft__unmap(after ? slab + SLAB_BYTES : NULL, after);
    populate_locked(slab);
    return (struct weft__task *)(void *)slab;
}

/* The next 64 never-used blocks. */
static struct weft__task *carve_locked(void)
{
    uint32_t used = atomic_load_explicit(&slots, memory_order_relaxed);
    uint32_t slab = used / SLAB_TASKS;
    if (used % SLAB_TASKS == 0) {
        struct weft__task *created = slab < MAX_SLABS ? slab_create() : NULL;
        if (!created) {
            return NULL;
        }
        atomic_store_explicit(&memory[slab], created, memory_order_relaxed);
        atomic_store_explicit(&slabs[slab], created, memory_order_relaxed);
    }
    struct weft__task *first =
        atomic_load_explicit(&slabs[slab], memory_order_relaxed) + used % SLAB_TASKS;
    for (unsigned i = 0; i < WEFT__SLAB_BATCH; i++) {
        first[i].slot = used + i + 1;
    }
    /* Release: slots up to here have their numbers and their slab. pairs: weft__slab_find */
    atomic_store_explicit(&slots, used + WEFT__SLAB_BATCH, memory_order_release);
    return first;
}

/* A plain thread that submits faster than its fibers end would keep using new memory: 64 new
 * blocks cost 3 to 6 us and are in no cache. So the thread first gives the workers that end fibers
 * a short time to return blocks. If that fails, the thread does not wait for the next batches,
 * because the workers may be busy with other work. */
static void await_batch(struct weft__slab_cache *cache)
{
    if (atomic_load_explicit(&slots, memory_order_relaxed) < RECYCLE_FROM) {
        return;
    }
    if (cache->skip_waits) {
        cache->skip_waits--;
        return;
    }
    for (int i = 0; i < RECYCLE_PAUSES; i++) {
        if (atomic_load_explicit(&batches, memory_order_relaxed)) {
            return;
        }
        weft__cpu_pause();
    }
    cache->skip_waits = SKIP_BATCHES;
}

struct weft__task *weft__slab_refill(struct weft__slab_cache *cache)
{
    if (cache->spare) {
        cache->free = cache->spare;
        cache->count = WEFT__SLAB_BATCH;
        cache->spare = NULL;
        return weft__slab_get(cache);
    }
    if (cache->bump == cache->bump_end) {
        if (cache->waits_for_recycled) {
            await_batch(cache);
        }
        weft__lock(&lock);
        struct weft__task *batch = atomic_load_explicit(&batches, memory_order_relaxed);
        if (batch) {
            atomic_store_explicit(&batches, batch_next(batch), memory_order_relaxed);
        } else {
            struct weft__task *first = carve_locked();
            cache->bump = first;
            cache->bump_end = first ? first + WEFT__SLAB_BATCH : NULL;
        }
        weft__unlock(&lock);
        if (batch) {
            cache->free = batch;
            cache->count = WEFT__SLAB_BATCH;
            return weft__slab_get(cache);
        }
    }
    return cache->bump != cache->bump_end ? cache->bump++ : NULL;
}

void weft__slab_spill(struct weft__slab_cache *cache)
{
    if (cache->spare) {
        weft__lock(&lock);
        push_batch_locked(cache->spare);
        weft__unlock(&lock);
    }
    cache->spare = cache->free;
    cache->free = NULL;
    cache->count = 0;
}

/* The blocks of a thread that exits. Batches must be full, so leftover blocks are topped up from
 * the bump range; what does not fill a batch is kept in a shared remainder. */
void weft__slab_cache_flush(struct weft__slab_cache *cache)
{
    weft__lock(&lock);
    if (cache->spare) {
        push_batch_locked(cache->spare);
        cache->spare = NULL;
    }
    for (;;) {
        struct weft__task *task = cache->free;
        if (task) {
            cache->free = (struct weft__task *)task->link.next;
        } else if (cache->bump != cache->bump_end) {
            task = cache->bump++;
        } else {
            break;
        }
        task->link.next = (struct weft__link *)leftovers.free;
        leftovers.free = task;
        if (++leftovers.count == WEFT__SLAB_BATCH) {
            push_batch_locked(leftovers.free);
            leftovers.free = NULL;
            leftovers.count = 0;
        }
    }
    cache->count = 0;
    weft__unlock(&lock);
}

struct weft__task *weft__slab_find(uint32_t slot)
{
    /* pairs: carve_locked */
    if (slot == 0 || slot > atomic_load_explicit(&slots, memory_order_acquire)) {
        return NULL;
    }
    uint32_t index = slot - 1;
    return atomic_load_explicit(&slabs[index / SLAB_TASKS], memory_order_relaxed) +
           index % SLAB_TASKS;
}

bool weft__slab_holds(const void *block)
{
    uint32_t used = weft__slab_slots();
    for (uint32_t slab = 0; slab * SLAB_TASKS < used; slab++) {
        const char *first = (const char *)atomic_load_explicit(&memory[slab], memory_order_relaxed);
        if ((const char *)block >= first && (const char *)block < first + SLAB_BYTES) {
            return true;
        }
    }
    return false;
}

uint32_t weft__slab_slots(void)
{
    return atomic_load_explicit(&slots, memory_order_acquire);
}

/* --- fork ------------------------------------------------------------------------- */

void weft__slab_fork_prepare(void)
{
    weft__lock(&lock);
}

void weft__slab_fork_parent(void)
{
    weft__unlock(&lock);
}

/* The parent's fibers do not exist in the child, but their control blocks may be in any state,
 * even locked. The child starts with slabs of its own; every handle from the parent finds an empty
 * block. */
void weft__slab_fork_child(void)
{
    uint32_t used = atomic_load_explicit(&slots, memory_order_relaxed);
    uint32_t full = (used + SLAB_TASKS - 1) / SLAB_TASKS;
    for (uint32_t slab = 0; slab < full; slab++) {
        atomic_store_explicit(&slabs[slab], empty_slab, memory_order_relaxed);
    }
    parent_slots = full * (uint32_t)SLAB_TASKS;
    atomic_store_explicit(&slots, parent_slots, memory_order_release);
    atomic_store_explicit(&batches, NULL, memory_order_relaxed);
    leftovers = (struct weft__slab_cache){0};
    weft__unlock(&lock);
}

bool weft__slab_is_from_parent(uint32_t slot)
{
    return slot > 0 && slot <= parent_slots;
}
