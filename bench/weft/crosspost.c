/* A plain thread on CPU 1 submits 1,000,000 fibers to a pool of one worker on CPU 0. */
#include "program.h"

enum { POSTS = 1000000 };

static atomic_long ran;

static void *count(void *arg)
{
    atomic_fetch_add_explicit(&ran, 1, memory_order_release);
    return arg;
}

int main(void)
{
    weft_pool *pool;
    must(weft_pool_create(
             &pool, &(struct weft_pool_opts){.workers = 1, .cpus = (int[]){0}, .cpu_count = 1}),
         "weft_pool_create");
    must(weft_pool_start(pool), "weft_pool_start");
    pin_to(1);
    usleep(10000);
    uint64_t start = now_ns();
    for (int i = 0; i < POSTS; i++)
        must(weft_pool_submit(pool, count, NULL), "weft_pool_submit");
    while (atomic_load_explicit(&ran, memory_order_acquire) != POSTS)
        sched_yield();
    report("weft", "crosspost1", "", POSTS * 1e3 / ns_since(start), "Mtask/s");
    must(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), "weft_pool_stop");
    weft_pool_destroy(pool);
}
