/* A latch: a lock that is let go by one plain store, for sections of a few nanoseconds that are
 * entered at every turn.
 *
 * A lock that wakes those who sleep (base/lock.h) has to find out whether there are any, and that
 * takes an atomic operation, which waits until every store before it has reached the cache: half of
 * what lock and unlock cost. Nobody sleeps for a latch until told; who finds it taken stays away
 * from its line for a while, longer each time, so that the other CPU gets many turns done before
 * the line moves, and in the end gives the CPU away, to let one run that was preempted inside.
 */
#ifndef WEFT_BASE_LATCH_H
#define WEFT_BASE_LATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

struct weft__latch {
    _Atomic(uint32_t) taken;
};

void weft__latch_take_slow(struct weft__latch *latch);
/* Stays away for a while; `times` is how often it did before, for the same thing. */
void weft__latch_stay_away(unsigned times);

/* An exchange: it needs no look before, and is a quarter of a timer's set and cancel cheaper. */
static inline bool weft__latch_try(struct weft__latch *latch)
{
    return atomic_exchange_explicit(&latch->taken, 1, memory_order_acquire) == 0; /* pairs: drop */
}

static inline void weft__latch_take(struct weft__latch *latch)
{
    if (__builtin_expect(!weft__latch_try(latch), 0)) {
        weft__latch_take_slow(latch);
    }
}

static inline void weft__latch_drop(struct weft__latch *latch)
{
    WEFT__DEBUG_ASSERT(atomic_load_explicit(&latch->taken, memory_order_relaxed) != 0); /* held */
    WEFT__STEP();
    atomic_store_explicit(&latch->taken, 0, memory_order_release); /* pairs: try */
}

#endif
