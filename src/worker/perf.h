/* Perf events, internals: which types are accepted, and delivery to the callbacks. The contract is
 * in <weft/perf.h>.
 *
 * Callbacks are in slots. An event: enter (count a user), read the callback of each slot, call it,
 * leave. A removal: clear the callback, then wait until each user count has been seen at zero.
 * Both do their store before their load and all four are seq_cst, so an event that still found the
 * callback was counted before the removal read the counts. The counts are spread over several
 * cache lines, by worker; all slots share them.
 *
 * On install, a slot's mask is written before its callback, and an event reads it after the
 * callback: no callback gets events of a type that only the slot's previous callback accepted. The
 * common mask is the union of what all callbacks accept. */
#ifndef WEFT_WORKER_PERF_H
#define WEFT_WORKER_PERF_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/perf.h>

#include "base/atomic.h"
#include "lock/lock.h"

#define WEFT__PERF_SHARDS 8u
#ifdef WEFT_EXPLORE
#define WEFT__PERF_SLOTS 2u
#else
#define WEFT__PERF_SLOTS WEFT_PERF_CALLBACKS
#endif

struct weft__perf_slot {
    _Atomic(const struct weft_perf *) callback; /* NULL: free */
    _Atomic(uint64_t) mask;                     /* the types it accepts; 0 while the slot is free */
};

struct weft__perf {
    _Atomic(uint64_t) mask; /* bit per type that any callback accepts */
    struct weft__perf_slot slots[WEFT__PERF_SLOTS];
    struct weft__lock lock; /* one install, remove or register at a time */
    struct {
        alignas(WEFT__CACHE_LINE) _Atomic(uint32_t) users;
    } shards[WEFT__PERF_SHARDS];
};
extern struct weft__perf weft__perf;

#ifdef WEFT_EXPLORE
/* No callbacks where waits are explored; client_perf.c tests the rest. */
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

static inline bool weft__perf_is_on(unsigned type)
{
    return __builtin_expect((weft__perf_mask() >> type & 1) != 0, 0);
}

/* Calls every installed callback that accepts the type. */
void weft__perf_emit(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum);

/* For counts that are spread over shards: the calling worker's shard, or that of plain threads. */
unsigned weft__perf_shard(void);

/* The name of an event type: a string that is never freed; NULL if there is no such type. */
const char *weft__perf_name(unsigned type);

#endif
