/* The watchdog: a plain thread that aborts a stalled test.
 *
 * Stress tests wait without time limits, so that a lost wake-up shows as a stall and is not hidden
 * by a timeout. The watchdog checks a progress counter from outside; if the counter has not changed
 * for WEFT_STALL seconds (default 240), the watchdog prints the dump of every watched pool and
 * aborts.
 */
#ifndef WEFT_TEST_STRESS_WATCHDOG_H
#define WEFT_TEST_STRESS_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <weft/weft.h>

#include "check.h"

#define WATCHDOG_POOLS 8

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool end;                         /* under lock */
    weft_pool *pools[WATCHDOG_POOLS]; /* under lock */
    const char *what;
    _Atomic(uint64_t) progress;
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Reports progress. */
__attribute__((unused)) static inline void watchdog_progress(void)
{
    atomic_fetch_add_explicit(&watchdog.progress, 1, memory_order_relaxed);
}

static void watchdog_bark(int seconds)
{
    fprintf(stderr, "stall: %s: no progress for %d s after %" PRIu64 " steps, seed %" PRIu64 "\n",
            watchdog.what, seconds, atomic_load(&watchdog.progress), check_seed());
    for (int i = 0; i < WATCHDOG_POOLS; i++) {
        if (watchdog.pools[i] != NULL) {
            weft_pool_dump(watchdog.pools[i], stderr, 50);
        }
    }
    weft_dump(stderr, NULL);
    for (int i = 0; i < WATCHDOG_POOLS; i++) {
        if (watchdog.pools[i] != NULL) {
            weft_pool_trace_dump(watchdog.pools[i], stderr);
        }
    }
    fflush(NULL);
    abort();
}

static void *watchdog_main(void *arg)
{
    const char *text = getenv("WEFT_STALL");
    int limit = text != NULL ? atoi(text) : 240;
    uint64_t last = atomic_load(&watchdog.progress);
    struct timespec at;
    int still = 0;
    (void)arg;
    pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.end) {
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec++;
        pthread_cond_timedwait(&watchdog.ended, &watchdog.lock, &at);
        uint64_t now = atomic_load(&watchdog.progress);
        still = now == last ? still + 1 : 0;
        last = now;
        if (!watchdog.end && still >= limit) {
            watchdog_bark(still);
        }
    }
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

static void watchdog_start(const char *what)
{
    pthread_condattr_t attr;
    (void)check_seed(); /* printed before anything can go wrong */
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.ended, &attr);
    watchdog.end = false;
    watchdog.what = what;
    CHECK_EQ(pthread_create(&watchdog.thread, NULL, watchdog_main, NULL), 0);
}

static void watchdog_stop(void)
{
    pthread_mutex_lock(&watchdog.lock);
    watchdog.end = true;
    pthread_cond_signal(&watchdog.ended);
    pthread_mutex_unlock(&watchdog.lock);
    CHECK_EQ(pthread_join(watchdog.thread, NULL), 0);
    pthread_cond_destroy(&watchdog.ended);
}

/* Adds the pool to the dumps at a stall, until it is removed; the pool is destroyed only after
 * that. */
__attribute__((unused)) static void watchdog_watch(weft_pool *pool)
{
    pthread_mutex_lock(&watchdog.lock);
    int i = 0;
    while (watchdog.pools[i] != NULL) {
        CHECK(++i < WATCHDOG_POOLS);
    }
    watchdog.pools[i] = pool;
    pthread_mutex_unlock(&watchdog.lock);
}

__attribute__((unused)) static void watchdog_forget(weft_pool *pool)
{
    pthread_mutex_lock(&watchdog.lock);
    for (int i = 0; i < WATCHDOG_POOLS; i++) {
        if (watchdog.pools[i] == pool) {
            watchdog.pools[i] = NULL;
        }
    }
    pthread_mutex_unlock(&watchdog.lock);
}

/* Creates a running pool that is watched. */
__attribute__((unused)) static weft_pool *watched_open(const struct weft_pool_opts *opts)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    return pool;
}

__attribute__((unused)) static void watched_close(weft_pool *pool)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
}

#endif
