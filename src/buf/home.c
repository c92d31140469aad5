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
static _Atomic(struct weft__home *) homes; /* all of them; grows under the lock */
static _Atomic(uint32_t) trims;            /* calls for a trim so far */

static inline uint64_t count_of(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* By the owner, who alone writes it. */
static inline void count(_Atomic(uint64_t) *counter, int64_t n)
{
    atomic_store_explicit(counter, count_of(counter) + (uint64_t)n, memory_order_relaxed);
}

/* --- life ---------------------------------------------------------------------- */

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
        count(&home->counts[block->weft_class].taken_in, 1);
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

static void keep(struct weft__home *home, weft_buf *block)
{
    unsigned class = block->weft_class;
    block->weft_next = home->free[class];
    home->free[class] = block;
    home->kept_bytes += weft__class_total(class);
    count(&home->counts[class].kept, 1);
}

static weft_buf *unkeep(struct weft__home *home, unsigned class)
{
    weft_buf *block = home->free[class];
    if (block) {
        home->free[class] = block->weft_next;
        home->kept_bytes -= weft__class_total(class);
        count(&home->counts[class].kept, -1);
    }
    return block;
}

/* Is there more of the class, or of all, than `times` the limits? */
static bool exceeds(const struct weft__home *home, unsigned class, unsigned times)
{
    size_t of_class = count_of(&home->counts[class].kept) * weft__class_total(class);
    return of_class > times * weft__limit(&weft__buf_limits.worker_class) ||
           (of_class && home->kept_bytes > times * weft__limit(&weft__buf_limits.worker));
}

static void drain(struct weft__home *home)
{
    weft_buf *block = weft__returns_drain_local(&home->returns);
    while (block) {
        weft_buf *next = block->weft_next;
        count(&home->counts[block->weft_class].taken_in, 1);
        keep(home, block);
        block = next;
    }
}

weft_buf *weft__home_take(struct weft__home *home, unsigned class)
{
    struct weft__home_counts *counts = &home->counts[class];
    if (!home->free[class]) {
        drain(home);
    }
    weft_buf *block = unkeep(home, class);
    if (block) {
        count(&counts->hits, 1);
        return block;
    }
    block = weft__block_make(class, 0, home);
    if (block) {
        count(&counts->misses, 1);
    }
    return block;
}

void weft__home_give_local(struct weft__home *home, weft_buf *block)
{
    unsigned class = block->weft_class;
    count(&home->counts[class].put, 1);
    if (__builtin_expect(exceeds(home, class, 2), 0)) {
        weft__block_destroy(block);
    } else {
        keep(home, block);
    }
}

/* Counted first, so that what is on its way is never more than the count says; it may be less for a moment, and
 * then a block goes to the system that need not. */
void weft__home_give_remote(struct weft__home *home, weft_buf *block)
{
    unsigned class = block->weft_class;
    uint64_t n = atomic_fetch_add_explicit(&home->foreign[class], 1, memory_order_relaxed) + 1;
    int64_t on_the_way =
        (int64_t)(n - count_of(&home->counts[class].taken_in) - count_of(&home->strays[class]));
    size_t most = weft__limit(&weft__buf_limits.worker_class) / weft__class_total(class) + 1;
    if (on_the_way > (int64_t)most || !weft__returns_push_remote(&home->returns, block)) {
        atomic_fetch_add_explicit(&home->strays[class], 1, memory_order_relaxed);
        weft__block_destroy(block);
    }
}

/* --- giving back ------------------------------------------------------------------- */

size_t weft__home_trim(struct weft__home *home)
{
    size_t before = home->kept_bytes;
    for (unsigned class = 0; class < WEFT__BLOCK_SMALL; class ++) {
        weft_buf *block;
        while ((block = unkeep(home, class))) {
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
    for (unsigned class = WEFT__BLOCK_SMALL; class -- > 0;) {
        while (exceeds(home, class, 1)) {
            if (most-- == 0) {
                return true;
            }
            weft__block_destroy(unkeep(home, class));
        }
    }
    return false;
}

/* --- seeing -------------------------------------------------------------------------- */

void weft__home_add_stats(unsigned class, struct weft_buf_class_stats *out)
{
    const struct weft__home *home =
        atomic_load_explicit(&homes, memory_order_acquire); /* pairs: weft__home_open */
    for (; home; home = home->next) {
        const struct weft__home_counts *counts = &home->counts[class];
        uint64_t hits = count_of(&counts->hits), misses = count_of(&counts->misses);
        uint64_t foreign = count_of(&home->foreign[class]);
        out->hits += hits;
        out->misses += misses;
        out->foreign += foreign;
        out->live += hits + misses - count_of(&counts->put) - foreign;
        out->kept += count_of(&counts->kept) + foreign - count_of(&counts->taken_in) -
                     count_of(&home->strays[class]);
    }
}
