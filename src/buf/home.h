/* The cache of small blocks of one worker.
 *
 * Its free lists are used by the owner only. Another thread that frees a block of this cache pushes
 * it on the remote-free list (buf/returns.h); the owner drains that list when a free list is empty,
 * at its ticks and before it sleeps. The blocks in transit are limited like the kept ones: beyond
 * the limit the freeing thread frees the block to the system.
 *
 * Caches are never unmapped. A worker that ends closes its cache: kept blocks are freed to the
 * system, and blocks that are still in use are when they are freed. The next worker that starts
 * reopens a closed cache, and then those blocks return to it. So a block may point to its cache
 * forever, without a reference count.
 */
#ifndef WEFT_BUF_HOME_H
#define WEFT_BUF_HOME_H

#include <stdalign.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "buf/block.h"
#include "buf/returns.h"

/* Per class: written by the owner only, read by any thread. */
struct weft__home_counts {
    _Atomic(uint64_t) hits, misses, put, kept;
};

/* Per class, blocks freed by other threads: separate from the counters above, which change at every
 * use. */
struct weft__home_foreign {
    _Atomic(uint64_t) freed;    /* any thread */
    _Atomic(uint64_t) strays;   /* any thread: of those, freed to the system instead of pushed */
    _Atomic(uint64_t) taken_in; /* written by the owner */
};

struct weft__home {
    /* owner only */
    weft_buf *free[WEFT__BLOCK_SMALL];
    size_t kept_bytes;
    uint32_t trims; /* the number of trim requests it has handled */

    /* written by the owner, read by any thread */
    alignas(WEFT__CACHE_LINE) struct weft__home_counts counts[WEFT__BLOCK_SMALL];

    /* any thread */
    alignas(WEFT__CACHE_LINE) struct weft__returns returns;
    struct weft__home_foreign foreign[WEFT__BLOCK_SMALL];

    /* under the lock of the list of caches */
    bool used;
    struct weft__home *next; /* immutable: list of all caches ever created */
};

/* The calling worker's cache; NULL: a plain thread. Defined by the scheduler, which knows
 * workers. */
struct weft__home *weft__home_self(void);
/* The calling fiber, for messages; 0: none. Defined there as well. */
uint64_t weft__home_fiber(void);

/* 0 or -ENOMEM. */
int weft__home_open(struct weft__home **out);
/* By the former owner, or by code that has seen its end. NULL is ignored. */
void weft__home_close(struct weft__home *home);
/* The first half of close: no remote free is accepted any more, and all blocks here are freed to
 * the system. */
void weft__home_shut(struct weft__home *home);

/* Owner only: when the list is empty. NULL: no memory. */
weft_buf *weft__home_take_slow(struct weft__home *home, unsigned class);
/* Any thread except the owner's. */
void weft__home_give_remote(struct weft__home *home, weft_buf *block);

/* Owner only: drains the remote-free list, and handles a trim request. */
void weft__home_tick(struct weft__home *home);
/* Owner only, when it is out of work: frees up to `most` blocks that exceed the limits to the
 * system. True: there are more. */
bool weft__home_settle(struct weft__home *home, unsigned most);
/* Owner only: frees all kept blocks. Returns the number of bytes. */
size_t weft__home_trim(struct weft__home *home);
/* Requests that every cache is trimmed by its owner. */
void weft__home_call_trim(void);

/* Any thread: adds the counters of the class in all caches to *out. */
void weft__home_add_stats(unsigned class, struct weft_buf_class_stats *out);

/* Limits of the worker caches and of the shared pool. */
#define WEFT__LIMIT_WORKER_CLASS ((size_t)256 << 10)
#define WEFT__LIMIT_WORKER ((size_t)1 << 20)
#define WEFT__LIMIT_SHARED_CLASS ((size_t)16 << 20)
#define WEFT__LIMIT_SHARED ((size_t)64 << 20)

struct weft__limits {
    _Atomic(size_t) worker_class, worker, shared_class, shared;
};
extern struct weft__limits weft__buf_limits;

static inline size_t weft__limit(const _Atomic(size_t) *limit)
{
    return atomic_load_explicit(limit, memory_order_relaxed);
}

/* --- the owner's fast path ------------------------------------------------------ */

static inline uint64_t weft__home_get(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* By the owner, which is the only writer. */
static inline void weft__home_count(_Atomic(uint64_t) *counter, int64_t n)
{
    atomic_store_explicit(counter, weft__home_get(counter) + (uint64_t)n, memory_order_relaxed);
}

static inline void weft__home_keep(struct weft__home *home, weft_buf *block)
{
    unsigned class = block->weft_class;
    block->weft_next = home->free[class];
    home->free[class] = block;
    home->kept_bytes += weft__class_total(class);
    weft__home_count(&home->counts[class].kept, 1);
}

static inline weft_buf *weft__home_unkeep(struct weft__home *home, unsigned class)
{
    weft_buf *block = home->free[class];
    if (block) {
        home->free[class] = block->weft_next;
        home->kept_bytes -= weft__class_total(class);
        weft__home_count(&home->counts[class].kept, -1);
    }
    return block;
}

/* Whether the class, or all classes together, exceed `times` the limits. */
static inline bool weft__home_exceeds(const struct weft__home *home, unsigned class, unsigned times)
{
    size_t of_class = weft__home_get(&home->counts[class].kept) * weft__class_total(class);
    return of_class > times * weft__limit(&weft__buf_limits.worker_class) ||
           (of_class && home->kept_bytes > times * weft__limit(&weft__buf_limits.worker));
}

/* Owner only. NULL: no memory. */
static inline weft_buf *weft__home_take(struct weft__home *home, unsigned class)
{
    weft_buf *block = weft__home_unkeep(home, class);
    if (__builtin_expect(!block, 0)) {
        return weft__home_take_slow(home, class);
    }
    weft__home_count(&home->counts[class].hits, 1);
    return block;
}

/* Owner only. */
static inline void weft__home_give_local(struct weft__home *home, weft_buf *block)
{
    weft__home_count(&home->counts[block->weft_class].put, 1);
    if (__builtin_expect(weft__home_exceeds(home, block->weft_class, 2), 0)) {
        weft__block_destroy(block);
    } else {
        weft__home_keep(home, block);
    }
}

/* Around a fork, in the parent and in the child. In the child, the workers' caches have no owner.
 * For sched/fork.c. */
void weft__home_fork_prepare(void);
void weft__home_fork_done(void);

#endif
