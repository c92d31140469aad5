/* How long idle workers of a function pool stay. The clock is moved only by the test, and the pool
 * is polled on this thread. */
#include <errno.h>

#include <weft/weft.h>

#include "check.h"
#include "virtual_clock.h"

#define SECOND INT64_C(1000000000)
#define TICK (INT64_C(1) << 16)

static weft_pool *pool;
static weft_funcpool *functions;

static int nothing(const weft_buf *input, weft_buf **output, void *arg)
{
    (void)input, (void)output, (void)arg;
    return 0;
}

static void *call(void *arg)
{
    CHECK_EQ(weft_funcpool_call(functions, NULL, NULL, WEFT_FOREVER), 0);
    return arg;
}

static void *stop(void *arg)
{
    CHECK_EQ(weft_funcpool_stop(functions, WEFT_FOREVER), 0);
    return arg;
}

static unsigned workers_at(int64_t time)
{
    struct weft_funcpool_stats stats;
    virtual_clock_set(time);
    CHECK(weft_pool_poll(pool) >= 0);
    weft_funcpool_stats(functions, &stats);
    return stats.workers;
}

static int64_t open_functions(enum weft_funcpool_kind kind)
{
    struct weft_pool_opts opts = {
        .workers = 1, .caller = true, .timer_tick_ns = TICK, .hog_ns = -1};
    int64_t now = virtual_clock_stop(TICK);
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_funcpool_create(&functions, nothing, NULL,
                                  &(struct weft_funcpool_opts){.kind = kind, .pool = pool}),
             0);
    return now;
}

static void close_functions(void)
{
    CHECK_EQ(weft_pool_submit(pool, stop, NULL), 0);
    CHECK(weft_pool_poll(pool) > 0);
    weft_funcpool_destroy(functions);
    virtual_clock_go();
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

TEST(lazy_funcpool_worker_exits_after_30_idle_seconds)
{
    int64_t now = open_functions(WEFT_FUNCPOOL_LAZY);
    CHECK_EQ(weft_pool_submit(pool, call, NULL), 0);
    CHECK_EQ(workers_at(now), 1);
    CHECK_EQ(workers_at(now + 30 * SECOND - 1), 1);
    CHECK_EQ(weft_pool_submit(pool, call, NULL), 0); /* and again from this moment */
    CHECK_EQ(workers_at(now + 30 * SECOND - 1), 1);
    CHECK_EQ(workers_at(now + 60 * SECOND - 2), 1);
    CHECK_EQ(workers_at(now + 60 * SECOND + TICK), 0);
    close_functions();
}

TEST(static_funcpool_worker_never_exits_idle)
{
    int64_t now = open_functions(WEFT_FUNCPOOL_STATIC);
    CHECK_EQ(workers_at(now), weft_usable_cpus());
    CHECK_EQ(workers_at(now + 3600 * SECOND), weft_usable_cpus());
    close_functions();
}
