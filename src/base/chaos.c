/* Seeded noise between the steps of lock-free code, for tests: WEFT_CHAOS=seed in the environment
 * of a build that has WEFT_CHAOS defined. Most steps do nothing; some spin, a few yield the CPU. */
#ifdef WEFT_CHAOS
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/cpu.h"
#include "base/rand.h"

static _Atomic(uint64_t) seed; /* 0: not read yet, 1: off */
static _Atomic(uint64_t) threads;
static _Thread_local struct weft__rand noise;

/* Never inlined: in a caller that switches fibers, the address of `noise` would be computed only
 * once. */
__attribute__((noinline)) void weft__chaos_step(void)
{
    uint64_t s = atomic_load_explicit(&seed, memory_order_relaxed);
    if (s == 1) {
        return;
    }
    if (s == 0) {
        const char *text = getenv("WEFT_CHAOS");
        s = text ? strtoull(text, NULL, 10) * 2 + 2 : 1;
        atomic_store_explicit(&seed, s, memory_order_relaxed);
        return;
    }
    if (!noise.state) {
        weft__rand_seed(&noise, s + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed));
    }
    uint32_t dice = weft__rand_next(&noise);
    if (dice % 64 == 0) {
        sched_yield();
    } else if (dice % 8 == 0) {
        for (uint32_t i = 0; i < (dice >> 8) % 64; i++) {
            weft__cpu_pause();
        }
    }
}
#else
typedef int weft__chaos_is_off; /* an empty translation unit is not valid C */
#endif
