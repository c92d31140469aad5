/* A lock whose release is one plain store: for critical sections of some ten nanoseconds that are entered so often
 * that a second read-modify-write would show, as in the timer wheel.
 *
 * Word: 0 free, 1 held. Nobody who waits leaves a trace in it, so the holder wakes nobody: a waiter
 * spins, then gives the CPU away, then naps for ever longer, up to 1 ms. That is the price, paid only where a
 * holder was preempted or does a long slice. Where it would be paid often, use base/lock.h.
 */
#ifndef WEFT_BASE_SPIN_H
#define WEFT_BASE_SPIN_H

#include <stdint.h>

#include "base/atomic.h"

struct weft__spin {
    _Atomic(uint32_t) word;
};

void weft__spin_slow(struct weft__spin *lock);

static inline void weft__spin_lock(struct weft__spin *lock)
{
    if (__builtin_expect(atomic_exchange_explicit(&lock->word, 1, memory_order_acquire) !=
                             0, /* pairs: weft__spin_unlock */
                         0)) {
        weft__spin_slow(lock);
    }
}

static inline void weft__spin_unlock(struct weft__spin *lock)
{
    /* pairs: weft__spin_lock, weft__spin_slow */
    atomic_store_explicit(&lock->word, 0, memory_order_release);
}

#endif
