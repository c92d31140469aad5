/* Storage for control blocks: slabs of 2 MiB that are never unmapped.
 *
 * Type-stable memory: a block is always a task, free or not. So a stale handle can be followed, a
 * late fire can read the state word, and a dump can walk all slots without slowing down spawn.
 *
 * Free blocks move in batches of 64 between per-thread caches and a shared pool, so that a thread
 * that only spawns and a thread that only ends fibers take one lock per 64 fibers. Slabs request
 * huge pages: touching 4 KiB at a time would cost 48 ns per block.
 *
 * A thread reads a batch that another thread filled as a chain of cache misses. Each free block
 * therefore also names the block that was put WEFT__SLAB_AHEAD puts before it: that block is taken
 * as many gets later, and its cache lines are requested now. The name is only a hint. It is wrong
 * for the first blocks of a batch and where gets came between the puts; then only the prefetch is
 * wasted. */
#ifndef WEFT_TASK_SLAB_H
#define WEFT_TASK_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "task/ident.h"
#include "task/task.h"

#define WEFT__SLAB_BATCH 64u
#define WEFT__SLAB_AHEAD 4u /* divides the batch */

/* One per worker and per spawning thread. Zeroed = empty. */
struct weft__slab_cache {
    struct weft__task *free; /* the batch in use */
    unsigned count;
    struct weft__task *spare;                    /* a full batch, or NULL */
    struct weft__task *recent[WEFT__SLAB_AHEAD]; /* the last blocks put, by count */
    struct weft__task *bump, *bump_end;          /* never-used blocks */
    bool waits_for_recycled; /* for a plain thread: other threads end the fibers it
                                         * spawns */
    unsigned skip_waits;     /* batches of new blocks until it waits for recycled ones again */
};

/* Returns NULL without memory. */
struct weft__task *weft__slab_refill(struct weft__slab_cache *cache);
void weft__slab_spill(struct weft__slab_cache *cache);
void weft__slab_cache_flush(struct weft__slab_cache *cache);

static inline struct weft__task *weft__slab_get(struct weft__slab_cache *cache)
{
    struct weft__task *task = cache->free;
    if (__builtin_expect(!task, 0)) {
        return weft__slab_refill(cache);
    }
    /* If other threads end this thread's fibers, the blocks are in another CPU's cache. */
    const char *ahead = (const char *)task->ahead;
    __builtin_prefetch(ahead, 1);
    __builtin_prefetch(ahead + WEFT__CACHE_LINE, 1);
    cache->free = (struct weft__task *)task->link.next;
    cache->count--;
    return task;
}

/* The task is FREE and its generation is retired. */
static inline void weft__slab_put(struct weft__slab_cache *cache, struct weft__task *task)
{
    if (__builtin_expect(weft__ident_is_exhausted(task), 0)) {
        return; /* 2^32 fibers used this slot: another one could be mistaken for the first */
    }
    if (__builtin_expect(cache->count == WEFT__SLAB_BATCH, 0)) {
        weft__slab_spill(cache);
    }
    unsigned at = cache->count % WEFT__SLAB_AHEAD;
    task->ahead = cache->recent[at];
    cache->recent[at] = task;
    task->link.next = (struct weft__link *)cache->free;
    cache->free = task;
    cache->count++;
}

/* Returns the block of a slot number; NULL if there is none. */
struct weft__task *weft__slab_find(uint32_t slot);
/* Is this address in a control block, including blocks from before a fork? Async-signal-safe. */
bool weft__slab_holds(const void *block);
/* Returns the highest slot number; slots start at 1. */
uint32_t weft__slab_slots(void);

/* Around a fork; the child has none of the parent's fibers. For pool/fork.c. */
void weft__slab_fork_prepare(void);
void weft__slab_fork_parent(void);
void weft__slab_fork_child(void);
/* Is this a slot of the parent process, from before the fork? */
bool weft__slab_is_from_parent(uint32_t slot);

#endif
