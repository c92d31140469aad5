/* 1,000 fibers yield 1,000 times each. usage: yield WORKERS */
#include "program.h"

enum { FIBERS = 1000, YIELDS = 1000 };

static const char *workers = "1";

static void *yield_often(void *countdown)
{
    for (int i = 0; i < YIELDS; i++)
        weft_yield();
    countdown_done(countdown);
    return NULL;
}

static void *measure(void *arg)
{
    struct countdown all;
    countdown_init(&all, FIBERS);
    uint64_t start = now_ns();
    for (int i = 0; i < FIBERS; i++)
        must(weft_spawn(NULL, yield_often, &all, NULL), "weft_spawn");
    countdown_wait();
    report("weft", "yield", workers, ns_since(start) / (FIBERS * YIELDS), "ns/yield");
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        workers = argv[1];
    run_main_fiber(workers, measure);
}
