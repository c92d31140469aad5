/* The cost of perf events: a span (begin and end) without a listener, with an empty callback, and
 * with the stock collector; and a yield of one of 1,000 fibers without a listener, and while queue
 * delays are collected. */
#include "program.h"

enum { SPANS = 100000000, FIBERS = 1000, YIELDS = 1000 };

static double span(int rounds)
{
    unsigned type = (unsigned)weft_perf_register("span");
    uint64_t start = now_ns();
    for (int i = 0; i < rounds; i++)
        weft_perf_end(type, weft_perf_begin(type), 1, 0);
    return ns_since(start) / rounds;
}

static void nothing(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                    void *arg)
{
    (void)type, (void)cost_ns, (void)count, (void)sum, (void)pool, (void)arg;
}

static void *yield_often(void *countdown)
{
    for (int i = 0; i < YIELDS; i++)
        weft_yield();
    countdown_done(countdown);
    return NULL;
}

static double yields(void)
{
    struct countdown all;
    countdown_init(&all, FIBERS);
    uint64_t start = now_ns();
    for (int i = 0; i < FIBERS; i++)
        must(weft_spawn(NULL, yield_often, &all, NULL), "weft_spawn");
    countdown_wait();
    return ns_since(start) / (FIBERS * YIELDS);
}

static void *measure(void *arg)
{
    const struct weft_perf perf = {.on_event = nothing};
    weft_collector *collector;
    report("weft", "perf_off", "", span(SPANS), "ns/span");
    must(weft_perf_install(&perf), "weft_perf_install");
    report("weft", "perf_on", "", span(SPANS / 50), "ns/span");
    must(weft_perf_remove(&perf), "weft_perf_remove");
    must(weft_collector_create(&collector, NULL), "weft_collector_create");
    must(weft_collector_start(collector), "weft_collector_start");
    report("weft", "perf_collect", "", span(SPANS / 50), "ns/span");
    weft_collector_stop(collector);
    yields(); /* warm-up */
    report("weft", "perf_yield_off", "", yields(), "ns/yield");
    must(weft_collector_start(collector), "weft_collector_start");
    report("weft", "perf_yield_on", "", yields(), "ns/yield");
    weft_collector_destroy(collector);
    return arg;
}

int main(void)
{
    run_main_fiber("1", measure);
}
