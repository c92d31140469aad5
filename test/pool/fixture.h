/* Setup and teardown shared by most fiber tests. */
#ifndef WEFT_TEST_POOL_FIXTURE_H
#define WEFT_TEST_POOL_FIXTURE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

/* Runs fn in the first fiber of a pool whose worker 0 is this thread. With one worker everything
 * happens on one thread, and the order of events is exact. Hog reports are disabled: on a busy
 * machine any fiber can look like a hog, and a report uses descriptors, signals and stderr. */
__attribute__((unused)) static void *run_in_fiber(unsigned workers, weft_fn fn, void *arg)
{
    void *result = NULL;
    CHECK_EQ(weft_run(&result, fn, arg, &(struct weft_pool_opts){.workers = workers, .hog_ns = -1},
                      WEFT_FOREVER),
             0);
    return result;
}

/* Creates a pool with its own threads. */
__attribute__((unused)) static weft_pool *pool_open(const struct weft_pool_opts *opts)
{
    weft_pool *pool = NULL;
    CHECK_EQ(weft_pool_create(&pool, opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    return pool;
}

__attribute__((unused)) static void pool_close(weft_pool *pool)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

/* Stops the pool and cancels at the deadline. Cancelled fibers then get one second to end, which a
 * busy machine may exceed: the result is -EBUSY, and the next stop continues. */
__attribute__((unused)) static int stop_by(weft_pool *pool, int64_t deadline)
{
    int err;
    do {
        err = weft_pool_stop(pool, WEFT_STOP_DRAIN, deadline);
    } while (err == -EBUSY);
    return err;
}

__attribute__((unused)) static uint64_t pool_live(weft_pool *pool)
{
    struct weft_pool_stats stats;
    weft_pool_stats(pool, &stats);
    return stats.live;
}

__attribute__((unused)) static pthread_t thread_open(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

__attribute__((unused)) static void *thread_close(pthread_t thread)
{
    void *result;
    CHECK_EQ(pthread_join(thread, &result), 0);
    return result;
}

/* Yields (a plain thread: gives up the CPU) until the fiber is in the given state. */
__attribute__((unused)) static void await_state(weft_fiber fiber, enum weft_fiber_state state)
{
    enum weft_fiber_state now;
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &now), 0);
    } while (now != state);
}

/* Waits until no fiber is left and every worker is asleep. */
__attribute__((unused)) static void await_idle(weft_pool *pool)
{
    struct weft_pool_stats stats;
    do {
        weft_yield();
        weft_pool_stats(pool, &stats);
    } while (stats.live > 0 || stats.active > 0);
}

__attribute__((unused)) static void await_count(atomic_int *counter, int n)
{
    while (atomic_load(counter) < n) {
        weft_yield();
    }
}

/* A separate generator for each user, seeded from check_seed. */
__attribute__((unused)) static uint32_t dice(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
