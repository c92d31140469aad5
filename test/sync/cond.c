/* labels: valgrind */
#include <weft/sync.h>

#include "sync/cond.h"
#include "sync/fixture.h"
#include "sync/mutex.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_mutex mutex;
static weft_cond cond, other;
static int ready; /* under the mutex */
static atomic_int passed;

static void fresh(void)
{
    weft_mutex_init(&mutex, NULL);
    weft_cond_init(&cond, &(struct weft_sync_opts){.name = "news"});
    weft_cond_init(&other, NULL);
    ready = 0;
    atomic_store(&passed, 0);
}

static void fresh_end(void)
{
    weft_cond_deinit(&cond);
    weft_cond_deinit(&other);
    weft_mutex_deinit(&mutex);
}

/* Consumes one unit of `ready`. */
static void *consume(void *arg)
{
    (void)arg;
    int err = 0;
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    while (!ready && err == 0) {
        err = weft_cond_wait(&cond, &mutex, WEFT_FOREVER);
        CHECK(weft__mutex_is_mine(&mutex));
    }
    if (err == 0) {
        ready--;
        atomic_fetch_add(&passed, 1);
    }
    weft_mutex_unlock(&mutex);
    return (void *)(intptr_t)err;
}

static void produce(int n, void (*tell)(weft_cond *))
{
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    ready += n;
    tell(&cond);
    weft_mutex_unlock(&mutex);
}

static void *signal_and_broadcast(void *arg)
{
    weft_fiber fibers[4];
    for (int i = 0; i < 4; i++) {
        fibers[i] = waiting_in(consume, NULL);
    }
    produce(1, weft_cond_signal);
    CHECK_EQ(weft_join(fibers[0], NULL, WEFT_FOREVER), 0); /* the longest waiter */
    CHECK_EQ(atomic_load(&passed), 1);
    produce(3, weft_cond_broadcast);
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(atomic_load(&passed), 4);
    return arg;
}

TEST(signal_wakes_first_waiter_and_broadcast_wakes_all)
{
    fresh();
    run_in_fiber(1, signal_and_broadcast, NULL);
    fresh();
    run_in_fiber(3, signal_and_broadcast, NULL);
    fresh_end();
}

static void *times_out(void *arg)
{
    int64_t deadline = weft_after(2 * MS);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft_cond_wait(&cond, &mutex, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK(weft__mutex_is_mine(&mutex));
    CHECK_EQ(weft_cond_wait(&cond, &mutex, 0), -ETIMEDOUT);
    CHECK(weft__mutex_is_mine(&mutex));
    weft_mutex_unlock(&mutex);
    return arg;
}

TEST(condition_wait_ends_at_deadline_with_mutex_held)
{
    fresh();
    run_in_fiber(1, times_out, NULL);
    times_out(NULL);
    fresh_end();
}

/* The wait takes the mutex again when it ends: a cancel must not keep the waiter from waiting for
 * the mutex. */
static void *cancel_while_locked(void *arg)
{
    bool cancel = arg != NULL;
    weft_fiber fiber;
    void *result;
    fiber = waiting_in(consume, NULL);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    for (int i = 0; i < 20; i++) {
        weft_yield();
    }
    CHECK(weft__mutex_is_mine(&mutex));
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, cancel ? -ECANCELED : -EINTR);
    return NULL;
}

TEST(cancel_and_interrupt_end_condition_wait_but_not_mutex_relock)
{
    fresh();
    run_in_fiber(1, cancel_while_locked, NULL);
    run_in_fiber(2, cancel_while_locked, &cond);
    fresh_end();
}

static void *wait_for_both(void *arg)
{
    weft_cond *both[] = {&cond, &other};
    unsigned which = 7;
    int err = weft_cond_wait_any(&which, both, 2, NULL, arg ? weft_after(2 * MS) : WEFT_FOREVER);
    return (void *)(intptr_t)(err ? err : (int)which);
}

static void *several(void *arg)
{
    weft_fiber fiber, second;
    void *result;
    for (int i = 0; i < 2; i++) {
        fiber = waiting_in(wait_for_both, NULL);
        weft_cond_signal(i ? &other : &cond);
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i);
    }
    CHECK_EQ((intptr_t)wait_for_both(&cond), -ETIMEDOUT);

    /* Both conditions are signalled, and one wait uses the first signal: the second goes to the
     * next waiter. */
    fiber = waiting_in(wait_for_both, NULL);
    second = waiting_in(wait_for_both, NULL);
    weft_cond_signal(&cond);
    weft_cond_signal(&other);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 0);
    CHECK_EQ(weft_join(second, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 1);
    return arg;
}

TEST(wait_for_several_conditions_names_fired_and_uses_one_signal)
{
    fresh();
    run_in_fiber(1, several, NULL);
    fresh_end();
}

TEST(stackless_task_waits_for_condition)
{
    struct body body, next;
    fresh();
    struct weft__cond *c = weft__cond_of(&cond);
    weft_cond_signal(&cond); /* is not kept */
    body_arm(&body);
    weft__cond_arm(c, &body.node);
    CHECK(!body_told(&body));
    weft_cond_signal(&cond);
    CHECK(body_told(&body));
    weft__cond_finish(c, &body.node);

    /* A signal that arrives after the first waiter gave up, but before it finished, goes to the
     * next. */
    body_arm(&body);
    body_arm(&next);
    weft__cond_arm(c, &body.node);
    weft__cond_arm(c, &next.node);
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    weft_cond_signal(&cond);
    CHECK(body_told(&next));
    weft__cond_finish(c, &body.node);
    weft__cond_finish(c, &next.node);
    fresh_end();
}

TEST(threads_and_pools_share_one_condition)
{
    fresh();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    CHECK_EQ(weft_pool_spawn(a, NULL, consume, NULL, NULL), 0);
    CHECK_EQ(weft_pool_spawn(b, NULL, consume, NULL, NULL), 0);
    pthread_t thread = thread_open(consume, NULL);
    for (int i = 0; i < 3; i++) {
        produce(1, i ? weft_cond_signal : weft_cond_broadcast);
    }
    CHECK_EQ((intptr_t)thread_close(thread), 0);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(atomic_load(&passed), 3);
    fresh_end();
}

static void *use_owned(void *arg)
{
    weft_cond_init(&cond, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    weft_cond_init(&other, &(struct weft_sync_opts){.owner = weft_pool_self()});
    several(NULL);
    if (arg) {
        thread_close(thread_open(wait_for_both, NULL));
    }
    return NULL;
}

TEST(owned_condition_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void *destroy_while_waited_on(void *arg)
{
    waiting_in(consume, NULL);
    weft_cond_deinit(&cond);
    return arg;
}

static void waits_without_the_mutex(void *arg)
{
    (void)arg;
    fresh();
    weft_cond_wait(&cond, &mutex, WEFT_FOREVER);
}

TEST(condition_misuse_aborts_with_message)
{
    fresh();
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "condition news was destroyed while a fiber or thread waits on it");
    must_stop(waits_without_the_mutex, NULL,
              "waited for with a mutex that the caller does not hold");
}

/* --- the object of an ended wait -------------------------------------------------------------- */

static struct weft_fiber_ended_wait ended;

static void *wait_for_three(void *arg)
{
    weft_cond *conds = arg, *all[] = {&conds[0], &conds[1], &conds[2]};
    unsigned which;
    int err = weft_cond_wait_any(&which, all, 3, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_fiber_ended_wait(&ended), 0);
    return (void *)(intptr_t)err;
}

static void *wait_for_one(void *arg)
{
    int err = weft_cond_wait(arg, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_fiber_ended_wait(&ended), 0);
    return (void *)(intptr_t)err;
}

static void *interrupt_conditions(void *arg)
{
    weft_cond conds[3];
    for (int i = 0; i < 3; i++) {
        weft_cond_init(&conds[i], &(struct weft_sync_opts){.name = i ? NULL : "empty"});
    }
    for (int one = 0; one <= 1; one++) {
        end_wait(waiting_in(one ? wait_for_one : wait_for_three, conds), false);
        CHECK_STR(ended.what, "condition");
        CHECK_STR(ended.name, "empty");
        CHECK(ended.object == &conds[0]);
        CHECK_EQ(ended.others, one ? 0 : 2);
    }
    for (int i = 0; i < 3; i++) {
        weft_cond_deinit(&conds[i]);
    }
    return arg;
}

TEST(interrupted_condition_wait_reports_first_name_and_count)
{
    run_in_fiber(1, interrupt_conditions, NULL);
}
