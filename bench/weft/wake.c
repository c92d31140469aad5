/* The time from the submit of a fiber by a plain thread to its first instruction, in a pool of one
 * idle worker, unpinned: the worker has parked (`wake`), or still spins after its last fiber
 * (`wake_spin`). */
#include "program.h"

enum { WAKES = 2000 };

static uint64_t latency[WAKES];
static uint64_t submitted;
static atomic_int answered;

static void *answer(void *arg)
{
    int i = atomic_load(&answered);
    latency[i] = now_ns() - submitted;
    atomic_store(&answered, i + 1);
    return arg;
}

static void measure(weft_pool *pool, const char *workload, useconds_t pause_us)
{
    atomic_store(&answered, 0);
    for (int i = 0; i < WAKES; i++) {
        if (pause_us)
            usleep(pause_us);
        submitted = now_ns();
        must(weft_pool_submit(pool, answer, NULL), "weft_pool_submit");
        while (atomic_load(&answered) != i + 1)
            sched_yield();
    }
    report_latency("weft", workload, latency, WAKES);
}

int main(void)
{
    weft_pool *pool;
    must(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), "weft_pool_create");
    must(weft_pool_start(pool), "weft_pool_start");
    usleep(10000);
    measure(pool, "wake", 500);
    measure(pool, "wake_spin", 0);
    must(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), "weft_pool_stop");
    weft_pool_destroy(pool);
}
