/* A signalled wait with a deadline, while many other timers are pending: two fibers of one worker
 * park with a deadline and unpark each other. The limit is the same in the same process before the
 * other timers were set. Usage: timedwait OTHERS */
#include "program.h"

enum { ROUNDS = 1000000 };

static weft_timer *parked;
static long others;

static void nothing(weft_timer *timer, void *arg, uint64_t times)
{
    (void)timer;
    (void)arg;
    (void)times;
}

static void *answer(void *first)
{
    int64_t deadline = weft_after(10000000000);
    for (int i = 0; i < ROUNDS; i++) {
        must(weft_fiber_park(deadline + i), "weft_fiber_park");
        must(weft_fiber_unpark((weft_fiber)(uintptr_t)first), "weft_fiber_unpark");
    }
    return NULL;
}

/* Nanoseconds per wait. */
static double wait_rounds(void)
{
    weft_fiber other;
    must(weft_spawn(&other, answer, (void *)(uintptr_t)weft_self(), NULL), "weft_spawn");
    weft_yield();
    int64_t deadline = weft_after(20000000000);
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        must(weft_fiber_unpark(other), "weft_fiber_unpark");
        must(weft_fiber_park(deadline + i), "weft_fiber_park");
    }
    double took = ns_since(start);
    must(weft_join(other, NULL, WEFT_FOREVER), "weft_join");
    return took / ROUNDS / 2;
}

static void set_others(void)
{
    uint64_t seed = 1;
    for (long i = 0; i < others; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        weft_timer_init(&parked[i], nothing, NULL, NULL);
        weft_timer_set(&parked[i],
                       weft_after(60000000000 + (int64_t)(seed >> 33) % 3600000 * 1000000));
    }
}

static void *ask(void *arg)
{
    char suffix[32] = "_0";
    if (others) {
        snprintf(suffix, sizeof suffix, "_%ldk", others / 1000);
        wait_rounds(); /* warm-up */
        report("limit", "timedwait", suffix, wait_rounds(), "ns");
    }
    set_others();
    report("weft", "timedwait", suffix, wait_rounds(), "ns");
    for (long i = 0; i < others; i++)
        weft_timer_cancel(&parked[i]);
    return arg;
}

int main(int argc, char **argv)
{
    others = argc > 1 ? atol(argv[1]) : 0;
    parked = calloc((size_t)others + 1, sizeof *parked);
    run_main_fiber("1", ask);
}
