/* The parts that Weft's benchmark programs share: a check of results, a main fiber, and a countdown
 * that unparks its waiter. */
#ifndef BENCH_WEFT_PROGRAM_H
#define BENCH_WEFT_PROGRAM_H

#include "../measure.h" /* first: _GNU_SOURCE */

#include <stdatomic.h>
#include <string.h>
#include <weft/weft.h>

static inline void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
    _exit(1); /* other threads may be running */
}

/* Runs `body` as the main fiber of a pool whose worker 0 is this thread. */
static inline void run_main_fiber(const char *workers, weft_fn body)
{
    /* Most benchmark fibers are hogs, by intent. */
    struct weft_pool_opts opts = {.workers = (unsigned)atoi(workers), .hog_ns = -1};
    must(weft_run(NULL, body, NULL, &opts, WEFT_FOREVER), "weft_run");
}

struct countdown {
    atomic_long left;
    weft_fiber waiter;
};

static inline void countdown_init(struct countdown *countdown, long n)
{
    atomic_init(&countdown->left, n);
    countdown->waiter = weft_self();
}

/* The waiter and its countdown may be gone as soon as `left` is zero, so the handle is read
 * before. */
static inline void countdown_done(struct countdown *countdown)
{
    weft_fiber waiter = countdown->waiter;
    if (atomic_fetch_sub_explicit(&countdown->left, 1, memory_order_acq_rel) == 1)
        weft_fiber_unpark(waiter);
}

static inline void countdown_wait(void)
{
    must(weft_fiber_park(WEFT_FOREVER), "weft_fiber_park");
}

#endif
