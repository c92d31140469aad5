/* Unused stacks return their pages to the kernel soon, also in a program that is always busy; an
 * idle program stays asleep afterwards. */
#include <poll.h>

#include <weft/weft.h>

#include "check.h"
#include "context/stack.h"

#define WAIT_LIMIT 60 /* seconds */
enum { FIBERS = 3000, KEPT = 64 };

static weft_event go;
static _Atomic(int) started;

static void *wait_for_go(void *arg)
{
    (void)arg;
    started++;
    weft_event_wait(&go, WEFT_FOREVER);
    return NULL;
}

static weft_pool *pool_start(void)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    return pool;
}

static void pool_end(weft_pool *pool)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

/* Starts all fibers at once, then ends them. */
static void come_and_go(weft_pool *pool)
{
    static weft_fiber fibers[FIBERS];
    weft_event_init(&go, NULL);
    started = 0;
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], wait_for_go, NULL, NULL), 0);
    }
    while (started < FIBERS) {
        poll(NULL, 0, 1);
    }
    weft_event_set(&go);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    weft_event_deinit(&go);
}

static bool await_few_warm(void)
{
    double from = check_seconds();
    while (weft__stack_warm() > KEPT && check_seconds() - from < WAIT_LIMIT) {
        poll(NULL, 0, 20);
    }
    printf("    %zu warm after %.1f s\n", weft__stack_warm(), check_seconds() - from);
    return weft__stack_warm() <= KEPT;
}

static uint64_t parks(weft_pool *pool)
{
    struct weft_pool_stats stats;
    weft_pool_stats(pool, &stats);
    return stats.total.parks;
}

TEST(unused_stacks_release_their_pages)
{
    weft_pool *pool = pool_start();
    come_and_go(pool);
    CHECK(await_few_warm());
    come_and_go(pool); /* and again */
    CHECK(await_few_warm());
    pool_end(pool);
}

static _Atomic(bool) over;

static void *never_rest(void *arg)
{
    (void)arg;
    while (!over) {
        weft_sleep(weft_after(2000000));
    }
    return NULL;
}

TEST(busy_pool_releases_unused_stack_pages)
{
    weft_pool *pool = pool_start();
    weft_fiber busy[2];
    over = false;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &busy[i], never_rest, NULL,
                                 &(struct weft_fiber_opts){.worker = i, .bound = true}),
                 0);
    }
    come_and_go(pool);
    CHECK(await_few_warm());
    over = true;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(busy[i], NULL, WEFT_FOREVER), 0);
    }
    pool_end(pool);
}

TEST(idle_pool_has_no_wake_ups_after_reclaim)
{
    weft_pool *pool = pool_start();
    come_and_go(pool);
    CHECK(await_few_warm());
    uint64_t before, after = parks(pool);
    int changes = 0;
    do { /* the last period may still be ending */
        before = after;
        poll(NULL, 0, 1500);
        after = parks(pool);
    } while (after != before && ++changes < 5);
    printf("    %d seconds with a wake-up\n", changes);
    CHECK_EQ(after, before);
    pool_end(pool);
}
