#include "buf/worker_cache.h"

#include <errno.h>

#include "base/alloc.h"
#include "lock/lock.h"

struct weft__limits weft__buf_limits = {
    .worker_class = WEFT__LIMIT_WORKER_CLASS,
    .worker = WEFT__LIMIT_WORKER,
    .shared_class = WEFT__LIMIT_SHARED_CLASS,
    .shared = WEFT__LIMIT_SHARED,
};

static struct weft__lock caches_lock;
static _Atomic(struct weft__buf_cache *) caches; /* all caches; grows under the lock */
static _Atomic(uint32_t) trims;                  /* trim requests so far */

/* --- open and close ----------------------------------------------------------------------- */

static struct weft__buf_cache *find_closed_locked(void)
{
    struct weft__buf_cache *cache = atomic_load_explicit(&caches, memory_order_relaxed);
    while (cache && cache->used) {
        cache = cache->next;
    }
    return cache;
}

int weft__buf_cache_open(struct weft__buf_cache **out)
{
    weft__lock(&caches_lock);
    struct weft__buf_cache *cache = find_closed_locked();
    if (cache) {
        cache->used = true;
    }
    weft__unlock(&caches_lock);
    if (!cache) {
        cache = weft__alloc(sizeof *cache);
        if (!cache) {
            return -ENOMEM;
        }
        cache->used = true;
        weft__lock(&caches_lock);
        cache->next = atomic_load_explicit(&caches, memory_order_relaxed);
        atomic_store_explicit(&caches, cache, memory_order_release); /* pairs: add_stats */
        weft__unlock(&caches_lock);
    }
    cache->trims = atomic_load_explicit(&trims, memory_order_relaxed);
    weft__remote_free_open(&cache->remote_free);
    *out = cache;
    return 0;
}

void weft__buf_cache_release(struct weft__buf_cache *cache)
{
    weft_buf *block = weft__remote_free_close(&cache->remote_free);
    while (block) {
        weft_buf *next = block->weft_next;
        weft__buf_cache_add(&cache->foreign[block->weft_class].drained, 1);
        weft__block_destroy(block);
        block = next;
    }
    weft__buf_cache_trim(cache);
}

void weft__buf_cache_close(struct weft__buf_cache *cache)
{
    if (cache) {
        weft__buf_cache_release(cache);
        weft__lock(&caches_lock);
        cache->used = false;
        weft__unlock(&caches_lock);
    }
}

/* --- the free lists ------------------------------------------------------------- */

static void drain(struct weft__buf_cache *cache)
{
    weft_buf *block = weft__remote_free_drain(&cache->remote_free);
    while (block) {
        weft_buf *next = block->weft_next;
        weft__buf_cache_add(&cache->foreign[block->weft_class].drained, 1);
        weft__buf_cache_push(cache, block);
        block = next;
    }
}

weft_buf *weft__buf_cache_get_slow(struct weft__buf_cache *cache, unsigned class)
{
    struct weft__buf_cache_counts *counts = &cache->counts[class];
    drain(cache);
    weft_buf *block = weft__buf_cache_pop(cache, class);
    if (block) {
        weft__buf_cache_add(&counts->hits, 1);
        return block;
    }
    block = weft__block_make(class, 0, cache);
    if (block) {
        weft__buf_cache_add(&counts->misses, 1);
    }
    return block;
}

/* The block is counted first: so never more blocks are in transit than the counters say. If for a
 * moment there are fewer, a block may be freed to the system needlessly. */
void weft__buf_cache_put_remote(struct weft__buf_cache *cache, weft_buf *block)
{
    unsigned class = block->weft_class;
    struct weft__buf_cache_remote *foreign = &cache->foreign[class];
    uint64_t n = atomic_fetch_add_explicit(&foreign->freed, 1, memory_order_relaxed) + 1;
    int64_t in_transit = (int64_t)(n - weft__buf_cache_read(&foreign->drained) -
                                   weft__buf_cache_read(&foreign->to_system));
    int64_t total = (int64_t)weft__class_total(class);
    int64_t most = (int64_t)weft__limit(&weft__buf_limits.worker_class) + total;
    if (in_transit * total > most || !weft__remote_free_push(&cache->remote_free, block)) {
        atomic_fetch_add_explicit(&foreign->to_system, 1, memory_order_relaxed);
        weft__block_destroy(block);
    }
}

/* --- trimming --------------------------------------------------------------------------- */

size_t weft__buf_cache_trim(struct weft__buf_cache *cache)
{
    size_t before = cache->kept_bytes;
    for (unsigned class = 0; class < WEFT__BLOCK_SMALL; class ++) {
        weft_buf *block;
        while ((block = weft__buf_cache_pop(cache, class))) {
            weft__block_destroy(block);
        }
    }
    return before;
}

void weft__buf_cache_request_trim(void)
{
    atomic_fetch_add_explicit(&trims, 1, memory_order_relaxed);
}

void weft__buf_cache_tick(struct weft__buf_cache *cache)
{
    drain(cache);
    uint32_t called = atomic_load_explicit(&trims, memory_order_relaxed);
    if (__builtin_expect(called != cache->trims, 0)) {
        cache->trims = called;
        weft__buf_cache_trim(cache);
    }
}

bool weft__buf_cache_shrink(struct weft__buf_cache *cache, unsigned most)
{
    weft__buf_cache_tick(cache);
    if (cache->kept_bytes <= weft__limit(&weft__buf_limits.worker_class) &&
        cache->kept_bytes <= weft__limit(&weft__buf_limits.worker)) {
        return false;
    }
    for (unsigned class = WEFT__BLOCK_SMALL; class -- > 0;) {
        while (weft__buf_cache_is_over(cache, class, 1)) {
            if (most-- == 0) {
                return true;
            }
            weft__block_destroy(weft__buf_cache_pop(cache, class));
        }
    }
    return false;
}

/* --- statistics -------------------------------------------------------------------------- */

void weft__buf_cache_add_stats(unsigned class, struct weft_buf_class_stats *out)
{
    const struct weft__buf_cache *cache =
        atomic_load_explicit(&caches, memory_order_acquire); /* pairs: weft__buf_cache_open */
    for (; cache; cache = cache->next) {
        const struct weft__buf_cache_counts *counts = &cache->counts[class];
        const struct weft__buf_cache_remote *foreign = &cache->foreign[class];
        uint64_t hits = weft__buf_cache_read(&counts->hits),
                 misses = weft__buf_cache_read(&counts->misses);
        uint64_t freed = weft__buf_cache_read(&foreign->freed);
        out->hits += hits;
        out->misses += misses;
        out->foreign += freed;
        out->live += hits + misses - weft__buf_cache_read(&counts->put) - freed;
        out->kept += weft__buf_cache_read(&counts->kept) + freed -
                     weft__buf_cache_read(&foreign->drained) -
                     weft__buf_cache_read(&foreign->to_system);
    }
}

/* --- fork -------------------------------------------------------------------------------- */

void weft__buf_cache_fork_prepare(void)
{
    weft__lock(&caches_lock);
}

void weft__buf_cache_fork_done(void)
{
    weft__unlock(&caches_lock);
}
