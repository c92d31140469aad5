/* A fiber of a group stays in the group: it cannot migrate, but may run functions on pools, and
 * wait for them. */
#include <sched.h>
#include <stdatomic.h>

#include <weft/blocking.h>
#include <weft/fiber.h>

#include "dispatch/fixture.h"

static weft_pool *pool;

static void open_pool(void)
{
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2, .name = "far"}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
}

static void close_pool(void)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

static void *tries_to_hop(void *arg)
{
    struct weft_migration hop;
    CHECK_EQ(weft_fiber_migrate(pool, WEFT_ANY_WORKER), -EPERM);
    CHECK_EQ(weft_fiber_migrate(pool, 0), -EPERM);
    CHECK_EQ(weft_migration_enter(&hop, pool, WEFT_ANY_WORKER), -EPERM);
    /* The place where it already is. */
    for (int worker = WEFT_ANY_WORKER; worker <= 0; worker++) {
        CHECK_EQ(weft_fiber_migrate(weft_pool_self(), worker), 0);
        CHECK_EQ(weft_migration_enter(&hop, weft_pool_self(), worker), 0);
        weft_yield();
        CHECK_EQ(weft_sleep(weft_after(1000)), 0);
        weft_migration_leave(&hop);
    }
    CHECK_EQ(weft_fiber_migrate(weft_pool_self(), 1), -EINVAL);
    weft_yield();
    CHECK(weft_group_self());
    return arg;
}

static void *tries_to_come(void *arg)
{
    struct weft_migration hop;
    CHECK_EQ(weft_fiber_migrate(arg, WEFT_ANY_WORKER), -EPERM);
    CHECK_EQ(weft_migration_enter(&hop, arg, 0), -EPERM);
    CHECK_EQ(weft_pool_call(arg, NULL, WEFT_ANY_WORKER, tries_to_hop, NULL, WEFT_FOREVER), -EPERM);
    return NULL;
}

static void *sends_another_here(void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, tries_to_come, weft_pool_self(), NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(group_fiber_cannot_migrate_out_and_none_can_migrate_in)
{
    open_pool();
    run_in_group(tries_to_hop, NULL);
    run_in_group(sends_another_here, NULL);
    close_pool();
}

/* --- functions that run on a pool ------------------------------------------------------------ */

static void *is_far(void *arg)
{
    CHECK(weft_pool_self() == pool);
    CHECK(!weft_group_self());
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    return arg;
}

/* Interrupts its caller, which waits for it and passes the interrupt on; the function itself does
 * not wait. */
static void *is_interrupted_and_does_not_wait(void *arg)
{
    CHECK_EQ(weft_fiber_interrupt(*(weft_fiber *)arg), 0);
    while (!weft_fiber_is_interrupted()) {
        sched_yield();
    }
    return arg;
}

static void *calls_what_does_not_wait(void *arg)
{
    weft_fiber self = weft_self();
    void *result = NULL;
    CHECK_EQ(weft_pool_call(pool, &result, WEFT_ANY_WORKER, is_interrupted_and_does_not_wait, &self,
                            WEFT_FOREVER),
             0);
    CHECK(result == &self);
    CHECK(weft_fiber_is_interrupted()); /* as if the function had run here */
    CHECK_EQ(weft_sleep(weft_after(1000)), -EINTR);
    return arg;
}

TEST(interrupt_unused_by_called_function_stays_with_caller)
{
    open_pool();
    run_in_group(calls_what_does_not_wait, NULL);
    close_pool();
}

static void *is_interrupted_and_waits(void *arg)
{
    CHECK_EQ(weft_fiber_interrupt(*(weft_fiber *)arg), 0);
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -EINTR);
    return arg;
}

static void *calls_what_waits(void *arg)
{
    weft_fiber self = weft_self();
    CHECK_EQ(
        weft_pool_call(pool, NULL, WEFT_ANY_WORKER, is_interrupted_and_waits, &self, WEFT_FOREVER),
        0);
    CHECK(!weft_fiber_is_interrupted());
    return arg;
}

TEST(interrupt_consumed_by_called_function_is_gone)
{
    open_pool();
    run_in_group(calls_what_waits, NULL);
    close_pool();
}

static void *is_on_worker_1(void *arg)
{
    CHECK_EQ(weft_worker_self(), 1);
    return arg;
}

static void *calls_far(void *arg)
{
    void *result = NULL;
    weft_group *group = weft_group_self();
    CHECK_EQ(weft_pool_call(pool, &result, WEFT_ANY_WORKER, is_far, &result, WEFT_FOREVER), 0);
    CHECK(result == &result);
    CHECK(weft_group_self() == group);
    CHECK_EQ(weft_pool_call(pool, NULL, 1, is_on_worker_1, arg, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_call(pool, NULL, 7, is_far, arg, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(
        weft_pool_call(weft_pool_self(), NULL, WEFT_ANY_WORKER, tries_to_hop, arg, WEFT_FOREVER),
        0); /* a plain call */
    return arg;
}

TEST(group_fiber_calls_function_on_pool_and_waits)
{
    open_pool();
    run_in_group(calls_far, NULL);
    close_pool();
}

static struct {
    _Atomic(int) began, ended;
    int result, wait;
} far;

static void *waits_far(void *arg)
{
    atomic_store(&far.began, 1);
    far.wait = weft_sleep(WEFT_FOREVER);
    atomic_store(&far.ended, 1);
    return arg;
}

static void *calls_and_is_ended(void *arg)
{
    void *result = NULL;
    far.result = weft_pool_call(pool, &result, WEFT_ANY_WORKER, waits_far, arg, WEFT_FOREVER);
    CHECK_EQ(atomic_load(&far.ended), 1); /* never before */
    CHECK(result == arg);
    return NULL;
}

static void end_meanwhile(int (*how)(weft_fiber), int expected)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    weft_fiber fiber;
    atomic_store(&far.began, 0);
    atomic_store(&far.ended, 0);
    CHECK_EQ(weft_group_spawn(group, &fiber, calls_and_is_ended, &far, NULL), 0);
    while (!atomic_load(&far.began)) {
        sched_yield();
    }
    CHECK_EQ(how(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(far.result, 0);
    CHECK_EQ(far.wait, expected);
    stop_dispatcher(d);
}

TEST(cancel_and_interrupt_during_pool_call_reach_function)
{
    open_pool();
    end_meanwhile(weft_cancel, -ECANCELED);
    end_meanwhile(weft_fiber_interrupt, -EINTR);
    close_pool();
}

/* --- the blocking pool, and channels to other pools ------------------------------------------ */

static void *blocks(void *arg)
{
    usleep(1000);
    return arg;
}

struct pipes {
    weft_chan *there, *back;
};

static void *answers(void *arg)
{
    struct pipes *p = arg;
    int item;
    while (weft_chan_recv(p->there, &item, WEFT_FOREVER) == 0) {
        item *= 2;
        CHECK_EQ(weft_chan_send(p->back, &item, WEFT_FOREVER), 0);
    }
    return NULL;
}

static void *asks(void *arg)
{
    struct pipes *p = arg;
    void *result = NULL;
    weft_fiber fiber;
    CHECK_EQ(weft_blocking_call(NULL, &result, blocks, p, WEFT_FOREVER), 0);
    CHECK(result == p);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, answers, p, NULL), 0);
    for (int i = 0; i < 100; i++) {
        int item = i, got = 0;
        CHECK_EQ(weft_chan_send(p->there, &item, WEFT_FOREVER), 0);
        CHECK_EQ(weft_chan_recv(p->back, &got, WEFT_FOREVER), 0);
        CHECK_EQ(got, 2 * i);
    }
    weft_chan_close(p->there);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(channels_connect_group_fibers_and_pools)
{
    struct pipes p;
    open_pool();
    CHECK_EQ(weft_chan_create(&p.there, sizeof(int), NULL), 0);
    CHECK_EQ(weft_chan_create(&p.back, sizeof(int), NULL), 0);
    run_in_group(asks, &p);
    weft_chan_destroy(p.there);
    weft_chan_destroy(p.back);
    close_pool();
}
