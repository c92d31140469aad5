#include "base/spin.h"

#include <sched.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"

#define SPINS 100 /* about a microsecond: longer than any holder that runs */
#define YIELDS 16
#define FIRST_NAP_NS 20000
#define LONGEST_NAP_NS 1000000

/* The explorer has no time that passes: a nap would be a loop without end there. */
#ifdef WEFT_EXPLORE
#define NEVER_NAPS 1
#else
#define NEVER_NAPS 0
#endif

static void wait_a_while(struct weft__spin *lock, unsigned turn, int64_t *nap)
{
    if (turn < SPINS) {
        weft__cpu_pause();
    } else if (turn < SPINS + YIELDS || NEVER_NAPS) {
        sched_yield();
    } else {
        /* As a sleep; nobody wakes it. Not for ever in the CPU: a holder of lower priority must get to run. */
        weft__futex_wait(&lock->word, 1, weft__clock_ns() + *nap);
        *nap = *nap < LONGEST_NAP_NS / 2 ? *nap * 2 : LONGEST_NAP_NS;
    }
}

void weft__spin_slow(struct weft__spin *lock)
{
    int64_t nap = FIRST_NAP_NS;
    for (unsigned turn = 0;; turn += turn < SPINS + YIELDS) {
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
            atomic_exchange_explicit(&lock->word, 1, memory_order_acquire) ==
                0) { /* pairs: weft__spin_unlock */
            return;
        }
        wait_a_while(lock, turn, &nap);
    }
}
