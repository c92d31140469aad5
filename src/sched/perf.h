/* Perf events inside: which types are accepted, and the way to whoever accepted them. The contract
 * is <weft/perf.h>.
 *
 * Callbacks have places. An event: enter (count a user), look for the callback in each place, call
 * it, leave. A removal: take the callback away, then wait until each count of users has been seen
 * at zero. Both do their store before their load and all four are seq_cst, so an event that still
 * found the callback was counted before the removal looked. The counts are spread over some cache
 * lines, by worker; they are the same for all places.
 *
 * A place's mask is written before its callback when one is installed, and looked at again after it
 * was found: nobody gets events of a type that only the one before has accepted. The common mask
 * is what any of them accepts.
 */
#ifndef WEFT_SCHED_PERF_H
#define WEFT_SCHED_PERF_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/perf.h>

#include "base/atomic.h"
#include "base/lock.h"

#define WEFT__PERF_SHARDS 8u
#ifdef WEFT_EXPLORE
#define WEFT__PERF_PLACES 2u
#else
#define WEFT__PERF_PLACES WEFT_PERF_CALLBACKS
#endif

struct weft__perf_place {
    _Atomic(const struct weft_perf *) callback; /* NULL: free */
    _Atomic(uint64_t) mask;                     /* what it accepts; 0 while it is free */
};

struct weft__perf {
    _Atomic(uint64_t) mask; /* bit per type that anybody accepts */
    struct weft__perf_place places[WEFT__PERF_PLACES];
    struct weft__lock lock; /* one install, remove or register at a time */
    struct {
        alignas(WEFT__CACHE_LINE) _Atomic(uint32_t) users;
    } shards[WEFT__PERF_SHARDS];
};
extern struct weft__perf weft__perf;

#ifdef WEFT_EXPLORE
/* Nobody listens where waits are explored; client_perf.c is about the rest. */
static inline uint64_t weft__perf_mask(void)
{
    return 0;
}
#else
static inline uint64_t weft__perf_mask(void)
{
    return atomic_load_explicit(&weft__perf.mask, memory_order_relaxed);
}
#endif

static inline bool weft__perf_on(unsigned type)
{
    return __builtin_expect((weft__perf_mask() >> type & 1) != 0, 0);
}

/* Tells whoever is installed, if it accepts the type. */
void weft__perf_tell(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum);

/* For counts that are spread: the calling worker's share, or that of plain threads. */
unsigned weft__perf_shard(void);

#endif
