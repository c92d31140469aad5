/* Spawns 1,000,000 fibers that only count, and waits for them: all at once (`spawn`), or in batches
 * of 1,000 (`spawnb`). usage: spawn spawn|spawnb WORKERS */
#include "program.h"

enum { FIBERS = 1000000 };

static const char *workload = "spawn", *workers = "1";
static int batch = FIBERS;

static void *count(void *countdown)
{
    countdown_done(countdown);
    return NULL;
}

static void *measure(void *arg)
{
    uint64_t start = now_ns();
    for (int done = 0; done < FIBERS; done += batch) {
        struct countdown all;
        countdown_init(&all, batch);
        for (int i = 0; i < batch; i++)
            must(weft_spawn(NULL, count, &all, NULL), "weft_spawn");
        countdown_wait();
    }
    report("weft", workload, workers, ns_since(start) / FIBERS, "ns/spawn");
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        workload = argv[1];
    if (argc > 2)
        workers = argv[2];
    if (!strcmp(workload, "spawnb"))
        batch = 1000;
    run_main_fiber(workers, measure);
}
