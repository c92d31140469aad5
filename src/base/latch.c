#include "base/latch.h"

#include <sched.h>

#include "base/cpu.h"

/* Pauses between two looks: 0.4 us at first, 3 us at last, where a pause is 12 ns. */
#define FIRST_PAUSES 32
#define MOST_PAUSES 256

void weft__latch_take_slow(struct weft__latch *latch)
{
    int pauses = FIRST_PAUSES;
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
        } else {
            sched_yield();
        }
    }
}
