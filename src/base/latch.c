#include "base/latch.h"

#include <sched.h>
#include <time.h>

#include "base/cpu.h"

/* Pauses between two looks: 0.4 us at first, 3 us at last, where a pause is 12 ns. */
#define FIRST_PAUSES 32
#define MOST_PAUSES 256
/* So often the CPU is given away; then it sleeps, or a thread of a higher priority would keep the holder off it. */
#define YIELDS 32

void weft__latch_take_slow(struct weft__latch *latch)
{
    static const struct timespec nap = {.tv_nsec = 50000};
    int pauses = FIRST_PAUSES, yields = 0;
    for (;;) {
        for (int i = 0; i < pauses; i++) {
            weft__cpu_pause();
        }
        if (atomic_load_explicit(&latch->taken, memory_order_relaxed) == 0 &&
            weft__latch_try(latch)) {
            return;
        }
        if (pauses < MOST_PAUSES) {
            pauses *= 2;
        } else if (yields < YIELDS) {
            yields++;
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
        }
    }
}
