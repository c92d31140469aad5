/* Resident memory per parked fiber, including its guarded stack and its control block.
 * usage: memory FIBERS
 */
#include "program.h"

static long fibers = 100000;
static atomic_long parked;

static void *park_for_ever(void *arg)
{
    atomic_fetch_add_explicit(&parked, 1, memory_order_relaxed);
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void require_guards(void)
{
    struct weft_memory_stats stats;
    weft_memory_stats(&stats);
    if (!strcmp(stats.guard, "canary")) {
        fprintf(stderr, "stacks have no guard here, only a canary\n");
        _exit(1);
    }
}

static void *measure(void *arg)
{
    double before = resident_bytes();
    for (long i = 0; i < fibers; i++)
        must(weft_spawn(NULL, park_for_ever, NULL, NULL), "weft_spawn");
    while (atomic_load_explicit(&parked, memory_order_relaxed) != fibers)
        weft_yield();
    double each = (resident_bytes() - before) / (double)fibers;
    require_guards();
    char row[32];
    snprintf(row, sizeof row, "memory_%ldk", fibers / 1000);
    report("weft", row, "", each, "B/fiber");
    (void)arg;
    _exit(0); /* skips the parked fibers */
}

int main(int argc, char **argv)
{
    if (argc > 1)
        fibers = atol(argv[1]);
    run_main_fiber("1", measure);
}
