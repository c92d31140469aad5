#include "lock/latch.h"

#include <sched.h>
#include <time.h>

#include "base/cpu.h"

/* Pauses between two checks: 0.4 us at first, doubled three times, 3 us at last, if one pause takes
 * 12 ns. */
#define FIRST_PAUSES 32
#define DOUBLINGS 3
/* Number of times the CPU is yielded; then the thread sleeps, because otherwise a thread of a
 * higher priority would keep the holder off the CPU. */
#define YIELDS 32

void weft__latch_backoff(unsigned times)
{
    static const struct timespec nap = {.tv_nsec = 50000};
    if (times > DOUBLINGS + YIELDS) {
        nanosleep(&nap, NULL);
    } else if (times > DOUBLINGS) {
        sched_yield();
    }
    int pauses = FIRST_PAUSES << (times < DOUBLINGS ? times : DOUBLINGS);
    for (int i = 0; i < pauses; i++) {
        weft__cpu_pause();
    }
}

void weft__latch_lock_slow(struct weft__latch *latch)
{
    unsigned times = 0;
    do {
        weft__latch_backoff(times++);
    } while (atomic_load_explicit(&latch->taken, memory_order_relaxed) != 0 ||
             !weft__latch_try(latch));
}
