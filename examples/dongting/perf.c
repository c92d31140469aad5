/* Dongting: PerfCallback, SimplePerfCallback: accept, onEvent, printStats, and periodic statistics.
 * FIBER_D_POLL is WEFT_PERF_POLL, FIBER_D_WORK is WEFT_PERF_WORK; the wait in the queue has a
 * separate event. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

static atomic_long polls, works;

static bool accepts(unsigned type, void *arg)
{
    (void)arg;
    return type == WEFT_PERF_POLL || type == WEFT_PERF_WORK;
}

static void on_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                     void *arg)
{
    (void)cost_ns, (void)count, (void)sum, (void)pool, (void)arg;
    atomic_fetch_add(type == WEFT_PERF_POLL ? &polls : &works, 1);
}

static void *work(void *arg)
{
    int i = 0;
    do { /* on a busy machine it may be too late to sleep */
        weft_sleep(weft_after(WEFT_US(500)));
    } while (++i < 20 || !atomic_load(&polls));
    return arg;
}

/* Calls callback.printStats() periodically, as a fiber of the group. */
static void *report(void *collector)
{
    while (weft_group_sleep(weft_after(WEFT_MS(5))) != 0) {
        weft_collector_dump(collector, stdout);
        weft_collector_reset(collector);
    }
    return NULL;
}

static int run(weft_collector *collector, const struct weft_perf *callback)
{
    const struct weft_dispatcher_opts opts = {.name = "my-dispatcher", .perf = callback};
    weft_dispatcher *dispatcher;
    weft_group *group;
    weft_fiber fiber;
    if (weft_dispatcher_create(&dispatcher, &opts) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL) ||
        (collector && weft_group_spawn(group, NULL, report, collector, NULL)) ||
        weft_group_spawn(group, &fiber, work, NULL, NULL)) {
        return 1;
    }
    weft_join(fiber, NULL, WEFT_FOREVER);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    return 0;
}

int main(void)
{
    static const struct weft_perf callback = {.accept = accepts, .on_event = on_event};
    weft_collector *collector;
    int failed = run(NULL, &callback); /* new Dispatcher("my-dispatcher", factory, callback) */
    printf("%ld polls, %ld stretches of work\n", atomic_load(&polls), atomic_load(&works));

    /* SimplePerfCallback("myapp_"): the stock collector, with histograms. */
    if (weft_collector_create(&collector, &(struct weft_collector_opts){.prefix = "myapp"}) ||
        weft_collector_start(collector)) {
        return 1;
    }
    failed |= run(collector, NULL);
    weft_collector_destroy(collector);
    return failed || !atomic_load(&polls) || !atomic_load(&works);
}
