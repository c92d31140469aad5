/* The cache of small blocks of one worker.
 *
 * Its free lists are used by the owner only. Another thread that frees a block of this cache pushes
 * it on the remote-free list (buf/remote_free.h); the owner drains that list when a free list is
 * empty, at its ticks and before it sleeps. The blocks in transit are limited like the kept ones:
 * beyond the limit the freeing thread frees the block to the system.
 *
 * Caches are never unmapped. A worker that ends closes its cache: kept blocks are freed to the
 * system, and blocks that are still in use are when they are freed. The next worker that starts
 * reopens a closed cache, and then those blocks return to it. So a block may point to its cache
 * forever, without a reference count.
 */
#ifndef WEFT_BUF_WORKER_CACHE_H
#define WEFT_BUF_WORKER_CACHE_H

#include <stdalign.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "buf/block.h"
#include "buf/remote_free.h"

/* Per class: written by the owner only, read by any thread. */
struct weft__buf_cache_counts {
    _Atomic(uint64_t) hits, misses, put, kept;
};

/* Per class, blocks freed by other threads: separate from the counters above, which change at every
 * use. */
struct weft__buf_cache_remote {
    _Atomic(uint64_t) freed;     /* any thread */
    _Atomic(uint64_t) to_system; /* any thread: of those, freed to the system instead of pushed */
    _Atomic(uint64_t) drained;   /* written by the owner */
};

struct weft__buf_cache {
    /* owner only */
    weft_buf *free[WEFT__BLOCK_SMALL];
    size_t kept_bytes;
    uint32_t trims; /* the number of trim requests it has handled */

    /* written by the owner, read by any thread */
    alignas(WEFT__CACHE_LINE) struct weft__buf_cache_counts counts[WEFT__BLOCK_SMALL];

    /* any thread */
    alignas(WEFT__CACHE_LINE) struct weft__remote_free remote_free;
    struct weft__buf_cache_remote foreign[WEFT__BLOCK_SMALL];

    /* under the lock of the list of caches */
    bool used;
    struct weft__buf_cache *next; /* immutable: list of all caches ever created */
};

/* The calling thread becomes a worker with this cache; `fiber` returns the handle of the fiber that
 * runs on it, or 0. Both NULL: it is a plain thread again. */
void weft__buf_set_thread(struct weft__buf_cache *cache, uint64_t (*fiber)(void));
/* The calling worker's cache; NULL: a plain thread. */
struct weft__buf_cache *weft__buf_cache_self(void);
/* The calling fiber, for messages; 0: none. */
uint64_t weft__buf_fiber(void);

/* 0 or -ENOMEM. */
int weft__buf_cache_open(struct weft__buf_cache **out);
/* By the former owner, or by code that has seen its end. NULL is ignored. */
void weft__buf_cache_close(struct weft__buf_cache *cache);
/* The first half of close: no remote free is accepted any more, and all blocks here are freed to
 * the system. */
void weft__buf_cache_release(struct weft__buf_cache *cache);

/* Owner only: when the list is empty. NULL: no memory. */
weft_buf *weft__buf_cache_get_slow(struct weft__buf_cache *cache, unsigned class);
/* Any thread except the owner's. */
void weft__buf_cache_put_remote(struct weft__buf_cache *cache, weft_buf *block);

/* Owner only: drains the remote-free list, and handles a trim request. */
void weft__buf_cache_tick(struct weft__buf_cache *cache);
/* Owner only, when it is out of work: frees up to `most` blocks that exceed the limits to the
 * system. True: there are more. */
bool weft__buf_cache_shrink(struct weft__buf_cache *cache, unsigned most);
/* Owner only: frees all kept blocks. Returns the number of bytes. */
size_t weft__buf_cache_trim(struct weft__buf_cache *cache);
/* Requests that every cache is trimmed by its owner. */
void weft__buf_cache_request_trim(void);

/* Any thread: adds the counters of the class in all caches to *out. */
void weft__buf_cache_add_stats(unsigned class, struct weft_buf_class_stats *out);

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

static inline uint64_t weft__buf_cache_read(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* By the owner, which is the only writer. */
static inline void weft__buf_cache_add(_Atomic(uint64_t) *counter, int64_t n)
{
    atomic_store_explicit(counter, weft__buf_cache_read(counter) + (uint64_t)n,
                          memory_order_relaxed);
}

static inline void weft__buf_cache_push(struct weft__buf_cache *cache, weft_buf *block)
{
    unsigned class = block->weft_class;
    block->weft_next = cache->free[class];
    cache->free[class] = block;
    cache->kept_bytes += weft__class_total(class);
    weft__buf_cache_add(&cache->counts[class].kept, 1);
}

static inline weft_buf *weft__buf_cache_pop(struct weft__buf_cache *cache, unsigned class)
{
    weft_buf *block = cache->free[class];
    if (block) {
        cache->free[class] = block->weft_next;
        cache->kept_bytes -= weft__class_total(class);
        weft__buf_cache_add(&cache->counts[class].kept, -1);
    }
    return block;
}

/* Whether the class, or all classes together, exceed `times` the limits. */
static inline bool weft__buf_cache_is_over(const struct weft__buf_cache *cache, unsigned class,
                                           unsigned times)
{
    size_t of_class = weft__buf_cache_read(&cache->counts[class].kept) * weft__class_total(class);
    return of_class > times * weft__limit(&weft__buf_limits.worker_class) ||
           (of_class && cache->kept_bytes > times * weft__limit(&weft__buf_limits.worker));
}

/* Owner only. NULL: no memory. */
static inline weft_buf *weft__buf_cache_get(struct weft__buf_cache *cache, unsigned class)
{
    weft_buf *block = weft__buf_cache_pop(cache, class);
    if (__builtin_expect(!block, 0)) {
        return weft__buf_cache_get_slow(cache, class);
    }
    weft__buf_cache_add(&cache->counts[class].hits, 1);
    return block;
}

/* Owner only. */
static inline void weft__buf_cache_put_local(struct weft__buf_cache *cache, weft_buf *block)
{
    weft__buf_cache_add(&cache->counts[block->weft_class].put, 1);
    if (__builtin_expect(weft__buf_cache_is_over(cache, block->weft_class, 2), 0)) {
        weft__block_destroy(block);
    } else {
        weft__buf_cache_push(cache, block);
    }
}

/* Around a fork, in the parent and in the child. In the child, the workers' caches have no owner.
 * For pool/fork.c. */
void weft__buf_cache_fork_prepare(void);
void weft__buf_cache_fork_done(void);

#endif
