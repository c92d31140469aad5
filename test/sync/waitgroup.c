/* labels: valgrind */
#include <weft/sync.h>

#include "sync/fixture.h"
#include "sync/stackless.h"
#include "sync/waitgroup.h"

#define MS INT64_C(1000000)

static weft_waitgroup group;
static long written[8]; /* plain: the group orders them */

static void fresh(void)
{
    weft_waitgroup_init(&group, &(struct weft_sync_opts){.name = "crowd"});
}

static void *wait_for_it(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_waitgroup_wait(&group, WEFT_FOREVER);
}

static void *work(void *arg)
{
    *(long *)arg = 1;
    weft_waitgroup_done(&group);
    return NULL;
}

static void *wait_for_eight(void *arg)
{
    for (int round = 0; round < 3; round++) {
        memset(written, 0, sizeof written);
        weft_waitgroup_add(&group, 8);
        for (int i = 0; i < 8; i++) {
            CHECK_EQ(weft_spawn(NULL, work, &written[i], NULL), 0);
        }
        CHECK_EQ(weft_waitgroup_wait(&group, WEFT_FOREVER), 0);
        for (int i = 0; i < 8; i++) {
            CHECK_EQ(written[i], 1);
        }
        CHECK_EQ(weft_waitgroup_count(&group), 0);
    }
    return arg;
}

TEST(waitgroup_wait_ends_when_all_done_and_group_is_reusable)
{
    fresh();
    CHECK_EQ(weft_waitgroup_wait(&group, 0), 0); /* nothing to wait for */
    run_in_fiber(1, wait_for_eight, NULL);
    run_in_fiber(3, wait_for_eight, NULL);
    weft_waitgroup_deinit(&group);
}

static void *ended_otherwise(void *arg)
{
    weft_fiber fibers[3];
    void *result;
    (void)arg;
    weft_waitgroup_add(&group, 2);
    CHECK_EQ(weft_waitgroup_wait(&group, 0), -ETIMEDOUT);
    CHECK_EQ(weft_waitgroup_wait(&group, weft_after(MS)), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        fibers[i] = waiting_in(wait_for_it, NULL);
    }
    CHECK_EQ(weft_cancel(fibers[0]), 0);
    CHECK_EQ(weft_fiber_interrupt(fibers[1]), 0);
    weft_waitgroup_add(&group, -2);
    weft_waitgroup_add(&group, 1); /* reused before the third has run */
    static const int expected[] = {-ECANCELED, -EINTR, 0};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, expected[i]);
    }
    weft_waitgroup_done(&group);
    return NULL;
}

TEST(deadline_cancel_and_interrupt_end_waitgroup_wait)
{
    fresh();
    run_in_fiber(1, ended_otherwise, NULL);
    run_in_fiber(2, ended_otherwise, NULL);
    weft_waitgroup_deinit(&group);
}

TEST(stackless_task_waits_for_waitgroup)
{
    struct body body;
    fresh();
    struct weft__waitgroup *g = weft__waitgroup_of(&group);
    body_arm(&body);
    CHECK(!weft__waitgroup_arm(g, &body.node));
    body_disarm(&body);
    weft_waitgroup_add(&group, 1);
    body_arm(&body);
    CHECK(weft__waitgroup_arm(g, &body.node));
    CHECK(!body_told(&body));
    weft_waitgroup_done(&group);
    CHECK(body_told(&body));
    weft__waitgroup_finish(g, &body.node);
    weft_waitgroup_deinit(&group);
}

static void *done_in_frame(void *arg)
{
    weft_waitgroup_done(arg);
    return NULL;
}

static void *wait_in_frame(void *arg)
{
    for (int i = 0; i < 200; i++) {
        weft_waitgroup here = WEFT_WAITGROUP_INIT;
        weft_waitgroup_add(&here, 2);
        CHECK_EQ(weft_spawn(NULL, done_in_frame, &here, NULL), 0);
        CHECK_EQ(weft_spawn(NULL, done_in_frame, &here, NULL), 0);
        CHECK_EQ(weft_waitgroup_wait(&here, WEFT_FOREVER), 0);
        memset(&here, 0xee, sizeof here);
    }
    return arg;
}

TEST(waitgroup_can_live_on_stack_of_waiter)
{
    run_in_fiber(3, wait_in_frame, NULL);
}

TEST(threads_and_pools_share_one_waitgroup)
{
    fresh();
    memset(written, 0, sizeof written);
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    weft_fiber in_a;
    weft_waitgroup_add(&group, 3);
    CHECK_EQ(weft_pool_spawn(a, &in_a, wait_for_it, NULL, NULL), 0);
    pthread_t waits = thread_open(wait_for_it, NULL);
    CHECK_EQ(weft_pool_submit(a, work, &written[0]), 0);
    CHECK_EQ(weft_pool_submit(b, work, &written[1]), 0);
    thread_close(thread_open(work, &written[2]));
    CHECK_EQ((intptr_t)thread_close(waits), 0);
    CHECK_EQ(written[0] + written[1] + written[2], 3);
    CHECK_EQ(weft_join(in_a, NULL, WEFT_FOREVER), 0);
    pool_close(a);
    pool_close(b);
    weft_waitgroup_deinit(&group);
}

static void *use_owned(void *arg)
{
    weft_waitgroup_init(&group,
                        &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    wait_for_eight(NULL);
    ended_otherwise(NULL);
    if (arg) {
        thread_close(thread_open(wait_for_it, NULL));
    }
    weft_waitgroup_deinit(&group);
    return NULL;
}

TEST(owned_waitgroup_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void *destroy_while_waited_on(void *arg)
{
    weft_waitgroup_add(&group, 1);
    waiting_in(wait_for_it, NULL);
    weft_waitgroup_deinit(&group);
    return arg;
}

static void goes_below_zero(void *arg)
{
    fresh();
    weft_waitgroup_add(arg, 2);
    weft_waitgroup_add(arg, -3);
}

TEST(waitgroup_misuse_aborts_with_message)
{
    fresh();
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "wait group crowd was destroyed while a fiber or thread waits on it");
    must_stop(goes_below_zero, &group, "wait group crowd: count 2 plus -3 is below zero");
}
