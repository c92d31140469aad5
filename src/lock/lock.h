/* A small lock: 4 bytes, spins briefly, then sleeps in the kernel. For short critical sections of
 * worker threads; never held across a fiber switch. A few locks are held while a thread starts or
 * ends (sched/pool.h, watchdog/watchdog.c, obs/dump_on_signal.c, process/signal.c): threads that
 * wait for those sleep. pthread mutexes are not used, because the preload hooks or a sanitizer
 * would intercept them.
 *
 * Word: 0 free, 1 held, 2 held and a thread may be sleeping. A thread that had to wait leaves 2 in
 * the word, so there may be one wake too many, but never one too few.
 */
#ifndef WEFT_LOCK_LOCK_H
#define WEFT_LOCK_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "lock/futex.h"

struct weft__lock {
    _Atomic(uint32_t) word;
};

void weft__lock_slow(struct weft__lock *lock);

static inline bool weft__lock_try(struct weft__lock *lock)
{
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1,
                                                   memory_order_acquire, /* pairs: weft__unlock */
                                                   memory_order_relaxed);
}

static inline void weft__lock(struct weft__lock *lock)
{
    if (!weft__lock_try(lock)) {
        weft__lock_slow(lock);
    }
}

static inline void weft__unlock(struct weft__lock *lock)
{
    WEFT__DEBUG_ASSERT(atomic_load_explicit(&lock->word, memory_order_relaxed) != 0); /* held */
    /* pairs: weft__lock_try, weft__lock_slow */
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2) {
        weft__futex_wake(&lock->word, 1);
    }
}

#endif
