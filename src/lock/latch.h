/* A latch: a spinlock with backoff that is released by one plain store, for critical sections of a
 * few nanoseconds on hot paths.
 *
 * A lock that wakes sleeping threads (lock/lock.h) has to find out whether there are any, and that
 * takes an atomic operation, which waits until every earlier store has reached the cache: half of
 * the cost of lock and unlock. A latch never sleeps until woken. A thread that finds it taken stays
 * away from its cache line for a while, longer each time, so that the other CPU completes many
 * sections before the line moves; eventually it yields the CPU, so that a preempted holder can run.
 */
#ifndef WEFT_LOCK_LATCH_H
#define WEFT_LOCK_LATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

struct weft__latch {
    _Atomic(uint32_t) taken;
};

void weft__latch_lock_slow(struct weft__latch *latch);
/* Backs off for a while; `times` is the number of earlier backoffs for the same acquisition. */
void weft__latch_backoff(unsigned times);

/* An exchange: it needs no load before it, and makes setting and cancelling a timer a quarter
 * cheaper. */
static inline bool weft__latch_try(struct weft__latch *latch)
{
    return atomic_exchange_explicit(&latch->taken, 1, memory_order_acquire) ==
           0; /* pairs: unlock */
}

static inline void weft__latch_lock(struct weft__latch *latch)
{
    if (__builtin_expect(!weft__latch_try(latch), 0)) {
        weft__latch_lock_slow(latch);
    }
}

static inline void weft__latch_unlock(struct weft__latch *latch)
{
    WEFT__DEBUG_ASSERT(atomic_load_explicit(&latch->taken, memory_order_relaxed) != 0); /* held */
    WEFT__STEP();
    atomic_store_explicit(&latch->taken, 0, memory_order_release); /* pairs: try */
}

#endif
