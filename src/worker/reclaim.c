#include "worker/reclaim.h"

#include "base/alloc.h"
#include "buf/block.h"
#include "buf/shared_pool.h"
#include "buf/worker_cache.h"
#include "context/stack.h"
#include "worker/worker.h"

#define PERIOD_NS 1000000000
#define KEEP_STACKS 64u /* of each size class */
#define SLICE 32u       /* stacks: about 50 us */
#define MUCH_BYTES ((size_t)1 << 20)
#define BURST_STACKS 256u /* unused stacks: with that many, their fibers had buffers too */

enum { NONE = 0, TAKEN = -1 }; /* no period; a worker is opening or closing one */

static _Atomic(int64_t) due; /* the end of the period */
/* Written by the worker that has taken it. */
static _Atomic(size_t) settled;   /* warm stacks that cannot be given back: no surplus */
static _Atomic(unsigned) trimmed; /* stacks, in this period */
static _Atomic(size_t) heap_high; /* peak bytes of buffers since malloc last gave memory back */
static _Atomic(size_t) heap_now;  /* the same in this period */

static bool has_surplus(void)
{
    size_t warm = weft__stack_warm();
    size_t allowed = atomic_load_explicit(&settled, memory_order_relaxed);
    if (__builtin_expect(warm < allowed, 0)) {
        atomic_store_explicit(&settled, warm, memory_order_relaxed);
        allowed = warm;
    }
    return warm > (allowed > KEEP_STACKS ? allowed : KEEP_STACKS) || weft__block_freed_to_system();
}

static bool take(int64_t from)
{
    return atomic_compare_exchange_strong_explicit(&due, &from, TAKEN, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void raise_to(_Atomic(size_t) *high, size_t bytes)
{
    if (bytes > atomic_load_explicit(high, memory_order_relaxed)) {
        atomic_store_explicit(high, bytes, memory_order_relaxed);
    }
}

static void note_heap(void)
{
    size_t bytes = weft__block_bytes_held();
    raise_to(&heap_now, bytes);
    raise_to(&heap_high, bytes);
}

static int64_t open_period(struct weft__worker *w)
{
    int64_t at = w->now + PERIOD_NS;
    if (!take(NONE)) {
        return INT64_MAX;
    }
    weft__stack_low_water_begin();
    atomic_store_explicit(&trimmed, 0, memory_order_relaxed);
    atomic_store_explicit(&heap_now, 0, memory_order_relaxed);
    note_heap();
    atomic_store_explicit(&due, at, memory_order_release);
    return at;
}

int64_t weft__reclaim_at(struct weft__worker *w)
{
    int64_t at = atomic_load_explicit(&due, memory_order_relaxed);
    if (at == NONE) {
        return has_surplus() ? open_period(w) : INT64_MAX;
    }
    return at == TAKEN ? INT64_MAX : at;
}

/* The buffer pools were sized for load that is gone; buffers that are needed again soon are
 * allocated again, once. Other workers trim at their next tick or before they sleep. */
static void give_back_buffers(struct weft__worker *w)
{
    weft__buf_shared_trim();
    weft__buf_cache_request_trim();
    weft__buf_cache_tick(w->bufs);
}

/* malloc's heaps belong to the program too, and trimming them takes time in proportion to their
 * size: only after a burst, or when buffers have left much in them. */
static void give_back_heap(void)
{
    weft__alloc_release();
    atomic_store_explicit(&heap_high, weft__block_bytes_held(), memory_order_relaxed);
}

static void close_period(struct weft__worker *w, int64_t at)
{
    if (!take(at)) {
        return;
    }
    unsigned stacks = atomic_load_explicit(&trimmed, memory_order_relaxed);
    note_heap();
    bool much = stacks >= BURST_STACKS ||
                atomic_load_explicit(&heap_high, memory_order_relaxed) >=
                    atomic_load_explicit(&heap_now, memory_order_relaxed) + MUCH_BYTES;
    if (stacks || much) {
        give_back_buffers(w);
    }
    if (much) {
        give_back_heap();
    }
    if (!stacks && !weft__stack_low_water_passed()) {
        atomic_store_explicit(&settled, weft__stack_warm(), memory_order_relaxed);
    }
    weft__block_freed_to_system_clear();
    atomic_store_explicit(&due, NONE, memory_order_release);
}

void weft__reclaim(struct weft__worker *w)
{
    int64_t at = atomic_load_explicit(&due, memory_order_relaxed);
    if (at == NONE || at == TAKEN || w->now < at) {
        return;
    }
    unsigned stacks = (unsigned)weft__stack_trim_unused(KEEP_STACKS, SLICE);
    if (stacks) {
        atomic_fetch_add_explicit(&trimmed, stacks, memory_order_relaxed);
    } else {
        close_period(w, at);
    }
}
