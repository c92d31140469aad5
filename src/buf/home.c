#include "buf/home.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/lock.h"

struct weft__limits weft__buf_limits = {
    .worker_class = WEFT__LIMIT_WORKER_CLASS,
    .worker = WEFT__LIMIT_WORKER,
    .shared_class = WEFT__LIMIT_SHARED_CLASS,
    .shared = WEFT__LIMIT_SHARED,
};

static struct weft__lock homes_lock;
static _Atomic(struct weft__home *) homes; /* all caches; grows under the lock */
static _Atomic(uint32_t) trims;            /* trim requests so far */

/* --- open and close ----------------------------------------------------------------------- */

static struct weft__home *find_closed_locked(void)
{
    struct weft__home *home = atomic_load_explicit(&homes, memory_order_relaxed);
    while (home && home->used) {
        home = home->next;
    }
    return home;
}

int weft__home_open(struct weft__home **out)
{
    weft__lock(&homes_lock);
    struct weft__home *home = find_closed_locked();
    if (home) {
        home->used = true;
    }
    weft__unlock(&homes_lock);
    if (!home) {
        home = weft__alloc(sizeof *home);
        if (!home) {
            return -ENOMEM;
        }
        home->used = true;
        weft__lock(&homes_lock);
        home->next = atomic_load_explicit(&homes, memory_order_relaxed);
        atomic_store_explicit(&homes, home, memory_order_release); /* pairs: add_stats */
        weft__unlock(&homes_lock);
    }
    home->trims = atomic_load_explicit(&trims, memory_order_relaxed);
    weft__returns_open(&home->returns);
    *out = home;
    return 0;
}

void weft__home_shut(struct weft__home *home)
{
    weft_buf *block = weft__returns_close(&home->returns);
    while (block) {
        weft_buf *next = block->weft_next;
        weft__home_count(&home->foreign[block->weft_class].taken_in, 1);
        weft__block_destroy(block);
        block = next;
    }
    weft__home_trim(home);
}

void weft__home_close(struct weft__home *home)
{
    if (home) {
        weft__home_shut(home);
        weft__lock(&homes_lock);
        home->used = false;
        weft__unlock(&homes_lock);
    }
}

/* --- the free lists ------------------------------------------------------------- */

static void drain(struct weft__home *home)
{
    weft_buf *block = weft__returns_drain_local(&home->returns);
    while (block) {
        weft_buf *next = block->weft_next;
        weft__home_count(&home->foreign[block->weft_class].taken_in, 1);
        weft__home_keep(home, block);
        block = next;
    }
}

weft_buf *weft__home_take_slow(struct weft__home *home, unsigned class)
{
    struct weft__home_counts *counts = &home->counts[class];
    drain(home);
    weft_buf *block = weft__home_unkeep(home, class);
    if (block) {
        weft__home_count(&counts->hits, 1);
        return block;
    }
    block = weft__block_make(class, 0, home);
    if (block) {
        weft__home_count(&counts->misses, 1);
    }
    return block;
}

/* The block is counted first: so never more blocks are in transit than the counters say. If for a
 * moment there are fewer, a block may be freed to the system needlessly. */
void weft__home_give_remote(struct weft__home *home, weft_buf *block)
{
    unsigned class = block->weft_class;
    struct weft__home_foreign *foreign = &home->foreign[class];
    uint64_t n = atomic_fetch_add_explicit(&foreign->freed, 1, memory_order_relaxed) + 1;
    int64_t on_the_way =
        (int64_t)(n - weft__home_get(&foreign->taken_in) - weft__home_get(&foreign->strays));
    int64_t total = (int64_t)weft__class_total(class);
    int64_t most = (int64_t)weft__limit(&weft__buf_limits.worker_class) + total;
    if (on_the_way * total > most || !weft__returns_push_remote(&home->returns, block)) {
        atomic_fetch_add_explicit(&foreign->strays, 1, memory_order_relaxed);
        weft__block_destroy(block);
    }
}

/* --- trimming --------------------------------------------------------------------------- */

size_t weft__home_trim(struct weft__home *home)
{
    size_t before = home->kept_bytes;
    for (unsigned class = 0; class < WEFT__BLOCK_SMALL; class ++) {
        weft_buf *block;
        while ((block = weft__home_unkeep(home, class))) {
            weft__block_destroy(block);
        }
    }
    return before;
}

void weft__home_call_trim(void)
{
    atomic_fetch_add_explicit(&trims, 1, memory_order_relaxed);
}

void weft__home_tick(struct weft__home *home)
{
    drain(home);
    uint32_t called = atomic_load_explicit(&trims, memory_order_relaxed);
    if (__builtin_expect(called != home->trims, 0)) {
        home->trims = called;
        weft__home_trim(home);
    }
}

bool weft__home_settle(struct weft__home *home, unsigned most)
{
    weft__home_tick(home);
    if (home->kept_bytes <= weft__limit(&weft__buf_limits.worker_class) &&
        home->kept_bytes <= weft__limit(&weft__buf_limits.worker)) {
        return false;
    }
    for (unsigned class = WEFT__BLOCK_SMALL; class -- > 0;) {
        while (weft__home_exceeds(home, class, 1)) {
            if (most-- == 0) {
                return true;
            }
            weft__block_destroy(weft__home_unkeep(home, class));
        }
    }
    return false;
}

/* --- statistics -------------------------------------------------------------------------- */

void weft__home_add_stats(unsigned class, struct weft_buf_class_stats *out)
{
    const struct weft__home *home =
        atomic_load_explicit(&homes, memory_order_acquire); /* pairs: weft__home_open */
    for (; home; home = home->next) {
        const struct weft__home_counts *counts = &home->counts[class];
        const struct weft__home_foreign *foreign = &home->foreign[class];
        uint64_t hits = weft__home_get(&counts->hits), misses = weft__home_get(&counts->misses);
        uint64_t freed = weft__home_get(&foreign->freed);
        out->hits += hits;
        out->misses += misses;
        out->foreign += freed;
        out->live += hits + misses - weft__home_get(&counts->put) - freed;
        out->kept += weft__home_get(&counts->kept) + freed - weft__home_get(&foreign->taken_in) -
                     weft__home_get(&foreign->strays);
    }
}

/* --- fork -------------------------------------------------------------------------------- */

void weft__home_fork_prepare(void)
{
    weft__lock(&homes_lock);
}

void weft__home_fork_done(void)
{
    weft__unlock(&homes_lock);
}
