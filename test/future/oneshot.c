/* labels: valgrind */
#include <weft/sync.h>

#include "future/oneshot.h"
#include "sync/fixture.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_oneshot oneshot;
static int thing;

static void fresh(void)
{
    weft_oneshot_init(&oneshot, &(struct weft_sync_opts){.name = "answer"});
}

/* Returns the error, or 1 for the value. */
static void *wait_for_it(void *arg)
{
    (void)arg;
    void *value = NULL;
    int err = weft_oneshot_wait(&oneshot, &value, WEFT_FOREVER);
    CHECK_EQ(value == &thing, err == 0);
    return (void *)(intptr_t)(err ? err : 1);
}

static weft_fiber waiting(void)
{
    return waiting_in(wait_for_it, NULL);
}

TEST(notify_before_wait_is_kept_and_second_notify_is_rejected)
{
    void *value = NULL;
    int other;
    fresh();
    CHECK_EQ(weft_oneshot_wait(&oneshot, &value, 0), -ETIMEDOUT);
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0);
    CHECK_EQ(weft_oneshot_notify(&oneshot, &other), -EALREADY);
    CHECK_EQ(weft_oneshot_close(&oneshot), -EALREADY);
    CHECK_EQ(weft_oneshot_wait(&oneshot, &value, 0), 0);
    CHECK(value == &thing);
    CHECK_EQ(weft_oneshot_notify(&oneshot, &other), -EALREADY);
    weft_oneshot_deinit(&oneshot);
}

static void *notify_one_that_waits(void *arg)
{
    (void)arg;
    weft_fiber fiber = waiting();
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0);
    CHECK_EQ(weft_oneshot_notify(&oneshot, NULL), -EALREADY);
    CHECK_EQ(answer_of(fiber), 1);
    return NULL;
}

TEST(notify_ends_oneshot_wait_with_value)
{
    fresh();
    run_in_fiber(1, notify_one_that_waits, NULL);
    weft_oneshot all_zero = WEFT_ONESHOT_INIT;
    oneshot = all_zero;
    run_in_fiber(2, notify_one_that_waits, NULL);
    weft_oneshot_deinit(&oneshot);
}

static void *close_one_that_waits(void *arg)
{
    (void)arg;
    weft_fiber fiber = waiting();
    CHECK_EQ(weft_oneshot_close(&oneshot), 0);
    CHECK_EQ(answer_of(fiber), -EPIPE);
    CHECK_EQ(weft_oneshot_close(&oneshot), -EALREADY);
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), -EPIPE);
    CHECK_EQ(weft_oneshot_wait(&oneshot, NULL, WEFT_FOREVER), -EPIPE);
    return NULL;
}

TEST(close_ends_oneshot_wait_and_rejects_value)
{
    fresh();
    run_in_fiber(1, close_one_that_waits, NULL);
    fresh();
    run_in_fiber(2, close_one_that_waits, NULL);
    weft_oneshot_deinit(&oneshot);
}

static void *waits_in_vain_then_not(void *arg)
{
    (void)arg;
    void *value;
    int64_t before = weft_now();
    CHECK_EQ(weft_oneshot_wait(&oneshot, &value, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK(weft_now() - before >= 2 * MS);
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0); /* nothing was consumed */
    CHECK_EQ(weft_oneshot_wait(&oneshot, &value, WEFT_FOREVER), 0);
    CHECK(value == &thing);
    return NULL;
}

TEST(oneshot_wait_can_be_repeated_after_timeout)
{
    fresh();
    run_in_fiber(1, waits_in_vain_then_not, NULL);
    fresh();
    waits_in_vain_then_not(NULL); /* a plain thread */
    weft_oneshot_deinit(&oneshot);
}

static void *cancelled_or_interrupted(void *arg)
{
    bool cancel = arg != NULL;
    weft_fiber fiber = waiting();
    end_wait(fiber, cancel);
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0); /* kept for another waiter */
    CHECK_EQ((intptr_t)wait_for_it(NULL), 1);
    return NULL;
}

TEST(cancel_and_interrupt_end_oneshot_wait_and_lose_no_value)
{
    fresh();
    run_in_fiber(1, cancelled_or_interrupted, NULL);
    fresh();
    run_in_fiber(2, cancelled_or_interrupted, &oneshot);
    weft_oneshot_deinit(&oneshot);
}

TEST(stackless_task_waits_for_oneshot)
{
    struct body body;
    fresh();
    struct weft__oneshot *o = weft__oneshot_of(&oneshot);
    body_arm(&body);
    CHECK(weft__oneshot_arm(o, &body.node));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0); /* the wait has timed out: kept */
    weft__oneshot_finish(o, &body.node);

    body_arm(&body);
    CHECK(!weft__oneshot_arm(o, &body.node));
    CHECK(body.node.value == &thing && body.node.status == 0);
    body_disarm(&body);

    fresh();
    body_arm(&body);
    CHECK(weft__oneshot_arm(o, &body.node));
    CHECK(!body_told(&body));
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0);
    CHECK(body_told(&body));
    weft__oneshot_finish(o, &body.node);
    CHECK(body.node.value == &thing && body.node.status == 0);
    weft_oneshot_deinit(&oneshot);
}

static void *notify_it(void *arg)
{
    CHECK_EQ(weft_oneshot_notify(arg, &thing), 0);
    return NULL;
}

/* Each oneshot is on the waiter's stack, which is reused at once. */
static void *ask_many_times(void *arg)
{
    for (int i = 0; i < 200; i++) {
        weft_oneshot own = WEFT_ONESHOT_INIT;
        void *value = NULL;
        if (arg) {
            CHECK_EQ(weft_pool_submit(arg, notify_it, &own), 0);
        } else {
            CHECK_EQ(weft_spawn(NULL, notify_it, &own, NULL), 0);
        }
        CHECK_EQ(weft_oneshot_wait(&own, &value, WEFT_FOREVER), 0);
        CHECK(value == &thing);
        memset(&own, 0xff, sizeof own);
    }
    return NULL;
}

TEST(oneshot_shared_by_threads_and_pools_can_be_freed_after_wait)
{
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    CHECK_EQ(weft_pool_submit(b, ask_many_times, NULL), 0);
    CHECK_EQ(weft_pool_submit(b, ask_many_times, a), 0);
    pthread_t thread = thread_open(ask_many_times, a);
    ask_many_times(b);
    thread_close(thread);
    pool_close(b);
    pool_close(a);
}

TEST(plain_thread_notifies_fiber_through_oneshot)
{
    fresh();
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, wait_for_it, NULL, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    thread_close(thread_open(notify_it, &oneshot));
    CHECK_EQ(answer_of(fiber), 1);
    pool_close(pool);
    weft_oneshot_deinit(&oneshot);
}

/* --- misuse --------------------------------------------------------------------------- */

static void *use_owned(void *arg)
{
    weft_oneshot_init(&oneshot,
                      &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    notify_one_that_waits(NULL);
    if (arg) {
        thread_close(thread_open(notify_it, &oneshot));
    }
    weft_oneshot_deinit(&oneshot);
    return NULL;
}

TEST(owned_oneshot_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void wait_again(void *arg)
{
    (void)arg;
    fresh();
    CHECK_EQ(weft_oneshot_notify(&oneshot, &thing), 0);
    CHECK_EQ(weft_oneshot_wait(&oneshot, NULL, 0), 0);
    weft_oneshot_wait(&oneshot, NULL, 0);
}

static void *wait_beside_another(void *arg)
{
    waiting();
    weft_oneshot_wait(&oneshot, NULL, 0);
    return arg;
}

TEST(second_concurrent_oneshot_wait_aborts)
{
    must_stop(wait_again, NULL, "oneshot answer was waited for twice");
    fresh();
    must_stop_in_fiber(wait_beside_another, NULL, "oneshot answer was waited for twice");
}

static void *destroy_while_waited_on(void *arg)
{
    waiting();
    weft_oneshot_deinit(&oneshot);
    return arg;
}

TEST(destroy_of_oneshot_with_waiter_aborts)
{
    fresh();
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "oneshot answer was destroyed while a fiber or thread waits on it");
}
