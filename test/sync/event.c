/* labels: valgrind */
#include <weft/sync.h>

#include "sync/event.h"
#include "sync/fixture.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_event event;
static atomic_int passed;

static void *wait_for_it(void *arg)
{
    (void)arg;
    int err = weft_event_wait(&event, WEFT_FOREVER);
    if (err == 0) {
        atomic_fetch_add(&passed, 1);
    }
    return (void *)(intptr_t)err;
}

static void fresh(void)
{
    weft_event_init(&event, &(struct weft_sync_opts){.name = "go"});
    atomic_store(&passed, 0);
}

static void *set_lets_all_pass(void *arg)
{
    (void)arg;
    weft_fiber fibers[8];
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], wait_for_it, NULL, NULL), 0);
    }
    for (int i = 0; i < 8; i++) {
        await_state(fibers[i], WEFT_FIBER_WAITING);
    }
    CHECK(!weft_event_is_set(&event));
    CHECK_EQ(atomic_load(&passed), 0);
    weft_event_set(&event);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(atomic_load(&passed), 8);
    return NULL;
}

TEST(event_set_releases_current_and_later_waiters)
{
    fresh();
    run_in_fiber(2, set_lets_all_pass, NULL);
    CHECK(weft_event_is_set(&event));
    CHECK_EQ(weft_event_wait(&event, 0), 0);
    weft_event_reset(&event);
    CHECK_EQ(weft_event_wait(&event, 0), -ETIMEDOUT);
    weft_event_deinit(&event);
}

static void *times_out(void *arg)
{
    (void)arg;
    int64_t before = weft_now();
    CHECK_EQ(weft_event_wait(&event, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK(weft_now() - before >= 2 * MS);
    return NULL;
}

TEST(event_wait_ends_at_deadline)
{
    fresh();
    run_in_fiber(1, times_out, NULL);
    times_out(NULL); /* a plain thread */
    weft_event_deinit(&event);
}

static void *cancelled_or_interrupted(void *arg)
{
    bool cancel = arg != NULL;
    end_wait(waiting_in(wait_for_it, NULL), cancel);
    return NULL;
}

TEST(cancel_and_interrupt_end_event_wait)
{
    fresh();
    run_in_fiber(1, cancelled_or_interrupted, NULL);
    run_in_fiber(2, cancelled_or_interrupted, &event);
    weft_event_deinit(&event);
}

TEST(stackless_task_waits_for_event)
{
    struct body body, late;
    fresh();
    struct weft__event *e = weft__event_of(&event);
    body_arm(&body);
    CHECK(weft__event_arm(e, &body.node));
    CHECK(!body_told(&body));
    weft_event_set(&event);
    CHECK(body_told(&body));
    weft__event_finish(e, &body.node);

    body_arm(&late);
    CHECK(!weft__event_arm(e, &late.node));
    body_disarm(&late);

    weft_event_reset(&event);
    body_arm(&body);
    CHECK(weft__event_arm(e, &body.node));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    weft__event_finish(e, &body.node);
    weft_event_set(&event);
    CHECK_EQ(weft__waiter_reason(&body.waiter), WEFT__REASON_TIMEOUT);
    weft_event_deinit(&event);
}

static void *set_from_a_thread(void *arg)
{
    weft_event_set(&event);
    return arg;
}

TEST(threads_and_pools_share_one_event)
{
    fresh();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    weft_fiber in_a, in_b;
    CHECK_EQ(weft_pool_spawn(a, &in_a, wait_for_it, NULL, NULL), 0);
    CHECK_EQ(weft_pool_spawn(b, &in_b, wait_for_it, NULL, NULL), 0);
    pthread_t waits = thread_open(wait_for_it, NULL);
    await_state(in_a, WEFT_FIBER_WAITING);
    await_state(in_b, WEFT_FIBER_WAITING);
    pthread_t sets = thread_open(set_from_a_thread, NULL);
    CHECK_EQ((intptr_t)thread_close(waits), 0);
    thread_close(sets);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(weft_join(in_a, NULL, 0), 0);
    CHECK_EQ(weft_join(in_b, NULL, 0), 0);
    CHECK_EQ(atomic_load(&passed), 3);
    weft_event_deinit(&event);
}

static void *use_owned(void *arg)
{
    weft_event_init(&event, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    weft_fiber fiber = waiting_in(wait_for_it, NULL);
    weft_event_set(&event);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    if (arg) {
        thread_close(thread_open(set_from_a_thread, NULL));
    }
    weft_event_deinit(&event);
    return NULL;
}

TEST(owned_event_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void *own_an_event(void *arg)
{
    weft_event_init(&event, &(struct weft_sync_opts){.owner = weft_pool_self()});
    weft_event_set(&event);
    return arg;
}

TEST(owned_event_outlives_its_owner)
{
    run_in_fiber(1, own_an_event, NULL);
    weft_event_deinit(&event);
}

static void *destroy_while_waited_on(void *arg)
{
    waiting_in(wait_for_it, NULL);
    weft_event_deinit(&event);
    return arg;
}

TEST(destroy_of_event_with_waiters_aborts)
{
    fresh();
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "event go was destroyed while a fiber or thread waits on it");
}
