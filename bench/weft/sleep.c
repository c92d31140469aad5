/* 100,000 fibers sleep 0 to 1000 ms each on one worker: CPU time of the whole process. The first
 * round also creates the stacks; its floor, the same fibers without the sleep, is measured too. The
 * second round finds the stacks warm. */
#include "program.h"

#include <sys/resource.h>

enum { FIBERS = 100000 };

static struct countdown countdown;

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static void *sleeper(void *arg)
{
    must(weft_sleep(weft_after((int64_t)(intptr_t)arg * 1000000)), "weft_sleep");
    countdown_done(&countdown);
    return NULL;
}

static void *parker(void *arg)
{
    must(weft_fiber_park(WEFT_FOREVER), "weft_fiber_park");
    countdown_done(&countdown);
    return arg;
}

static double sleep_round(void)
{
    double before = cpu_ms();
    uint64_t seed = 1;
    countdown_init(&countdown, FIBERS);
    for (int i = 0; i < FIBERS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        must(weft_spawn(NULL, sleeper, (void *)(intptr_t)((seed >> 33) % 1000), NULL),
             "weft_spawn");
    }
    countdown_wait();
    return cpu_ms() - before;
}

/* All fibers are parked at once, as in the first round, but are unparked explicitly. */
static void *floor_round(void *arg)
{
    static weft_fiber fibers[FIBERS];
    double before = cpu_ms();
    countdown_init(&countdown, FIBERS);
    for (int i = 0; i < FIBERS; i++)
        must(weft_spawn(&fibers[i], parker, NULL, NULL), "weft_spawn");
    weft_sleep(weft_after(1000000));
    for (int i = 0; i < FIBERS; i++)
        must(weft_fiber_unpark(fibers[i]), "weft_fiber_unpark");
    countdown_wait();
    report("weft", "sleep100k_floor", "", cpu_ms() - before, "ms");
    return arg;
}

static void *rounds(void *arg)
{
    double first = sleep_round();
    report("weft", "sleep100k", "", sleep_round(), "ms");
    report("weft", "sleep100k_first", "", first, "ms");
    return arg;
}

int main(int argc, char **argv)
{
    run_main_fiber("1", argc > 1 && !strcmp(argv[1], "floor") ? floor_round : rounds);
}
