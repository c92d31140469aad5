#include "lock/lock.h"

#include "base/cpu.h"

/* A holder keeps the lock for tens of nanoseconds unless it was preempted: spin for about a
 * microsecond, then let the kernel run the holder. */
#define SPINS 100

void weft__lock_slow(struct weft__lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 && weft__lock_try(lock)) {
            return;
        }
        weft__cpu_pause();
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) !=
           0) { /* pairs: weft__unlock */
        weft__futex_wait(&lock->word, 2, INT64_MAX);
    }
}
