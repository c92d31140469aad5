/* labels: valgrind */
#include <weft/future.h>

#include "base/alloc.h"
#include "future/future.h"
#include "sync/fixture.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_future *future;
static int things[4];

static weft_future *make(void)
{
    weft_future *made;
    CHECK_EQ(weft_future_create(&made, &(struct weft_sync_opts){.name = "reply"}), 0);
    return made;
}

/* Returns the error, or 1 for the first value. */
static void *wait_for_it(void *arg)
{
    (void)arg;
    void *value = NULL;
    int err = weft_future_get(future, &value, WEFT_FOREVER);
    CHECK_EQ(value == &things[0], err == 0);
    return (void *)(intptr_t)(err ? err : 1);
}

static weft_fiber waiting(void)
{
    return waiting_in(wait_for_it, NULL);
}

/* --- one future ---------------------------------------------------------------------------- */

TEST(first_completion_of_future_wins)
{
    void *value = NULL;
    future = make();
    CHECK(!weft_future_is_done(future));
    CHECK_EQ(weft_future_result(future, &value), -EINPROGRESS);
    CHECK_EQ(weft_future_wait(future, 0), -ETIMEDOUT);
    CHECK_EQ(weft_future_complete(future, &things[0]), 0);
    CHECK_EQ(weft_future_complete(future, &things[1]), -EALREADY);
    CHECK_EQ(weft_future_fail(future, -EIO), -EALREADY);
    CHECK_EQ(weft_future_cancel(future), -EALREADY);
    CHECK(weft_future_is_done(future));
    CHECK_EQ(weft_future_result(future, &value), 0);
    CHECK(value == &things[0]);
    CHECK_EQ(weft_future_wait(future, 0), 0);
    CHECK_EQ(weft_future_which(future), -1);
    weft_future_unref(future);

    future = make();
    CHECK_EQ(weft_future_fail(future, -EIO), 0);
    CHECK_EQ(weft_future_complete(future, NULL), -EALREADY);
    CHECK_EQ(weft_future_result(future, &value), -EIO);
    CHECK_EQ(weft_future_wait(future, 0), 0);
    CHECK_EQ(weft_future_get(future, &value, 0), -EIO);
    CHECK(value == &things[0]); /* not written */
    weft_future_unref(future);
    weft_future_unref(NULL);
}

enum how { COMPLETE, FAIL, CANCEL };

static void *decide_with_many_waiting(void *arg)
{
    enum how how = (enum how)(intptr_t)arg;
    weft_fiber fibers[8];
    future = make();
    for (int i = 0; i < 8; i++) {
        fibers[i] = waiting();
    }
    CHECK_EQ(how == COMPLETE ? weft_future_complete(future, &things[0])
             : how == FAIL   ? weft_future_fail(future, -EIO)
                             : weft_future_cancel(future),
             0);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(answer_of(fibers[i]), how == COMPLETE ? 1 : how == FAIL ? -EIO : -ECANCELED);
    }
    weft_future_unref(future);
    return NULL;
}

TEST(every_waiter_gets_result_of_future)
{
    for (int how = COMPLETE; how <= CANCEL; how++) {
        run_in_fiber(1, decide_with_many_waiting, (void *)(intptr_t)how);
        run_in_fiber(2, decide_with_many_waiting, (void *)(intptr_t)how);
    }
}

static void *times_out(void *arg)
{
    (void)arg;
    int64_t before = weft_now();
    CHECK_EQ(weft_future_wait(future, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK(weft_now() - before >= 2 * MS);
    CHECK_EQ(weft_future_get(future, NULL, 0), -ETIMEDOUT);
    return NULL;
}

TEST(future_wait_ends_at_deadline)
{
    future = make();
    run_in_fiber(1, times_out, NULL);
    times_out(NULL); /* a plain thread */
    weft_future_unref(future);
}

static void *cancelled_or_interrupted(void *arg)
{
    bool cancel = arg != NULL;
    future = make();
    weft_fiber fiber = waiting(), other = waiting();
    end_wait(fiber, cancel);
    CHECK_EQ(weft_future_complete(future, &things[0]), 0);
    CHECK_EQ(answer_of(other), 1);
    weft_future_unref(future);
    return NULL;
}

TEST(cancel_and_interrupt_end_wait_but_not_future)
{
    run_in_fiber(1, cancelled_or_interrupted, NULL);
    run_in_fiber(2, cancelled_or_interrupted, things);
}

TEST(stackless_task_waits_for_future)
{
    struct body body;
    future = make();
    body_arm(&body);
    CHECK(weft__future_arm(future, &body.node));
    CHECK(body_end(&body, WEFT__REASON_CANCEL));
    weft__future_finish(future, &body.node);
    body_arm(&body);
    CHECK(weft__future_arm(future, &body.node));
    CHECK(!body_told(&body));
    CHECK_EQ(weft_future_complete(future, NULL), 0);
    CHECK(body_told(&body));
    weft__future_finish(future, &body.node);
    body_arm(&body);
    CHECK(!weft__future_arm(future, &body.node));
    body_disarm(&body);
    weft_future_unref(future);
}

static void *complete_it(void *arg)
{
    CHECK_EQ(weft_future_complete(future, &things[0]), 0);
    return arg;
}

TEST(threads_and_pools_share_one_future)
{
    future = make();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    weft_fiber in_a, in_b;
    CHECK_EQ(weft_pool_spawn(a, &in_a, wait_for_it, NULL, NULL), 0);
    CHECK_EQ(weft_pool_spawn(b, &in_b, wait_for_it, NULL, NULL), 0);
    pthread_t waits = thread_open(wait_for_it, NULL);
    await_state(in_a, WEFT_FIBER_WAITING);
    await_state(in_b, WEFT_FIBER_WAITING);
    thread_close(thread_open(complete_it, NULL));
    CHECK_EQ((intptr_t)thread_close(waits), 1);
    CHECK_EQ(answer_of(in_a), 1);
    CHECK_EQ(answer_of(in_b), 1);
    pool_close(a);
    pool_close(b);
    weft_future_unref(future);
}

/* --- callbacks -------------------------------------------------------------------------------- */

struct seen {
    int times, err;
    void *value;
    weft_fiber in;
};

static void note(void *arg, int err, void *value)
{
    struct seen *seen = arg;
    seen->times++;
    seen->err = err;
    seen->value = value;
    seen->in = weft_self();
}

static void *calls_back(void *arg)
{
    struct seen seen[3] = {{0}};
    future = make();
    CHECK_EQ(weft_future_then(future, note, &seen[0]), 0);
    CHECK_EQ(weft_future_then(future, note, &seen[1]), 0);
    CHECK_EQ(seen[0].times, 0);
    CHECK_EQ(weft_future_complete(future, &things[2]), 0);
    CHECK_EQ(weft_future_then(future, note, &seen[2]), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(seen[i].times == 1 && seen[i].err == 0 && seen[i].value == &things[2]);
        CHECK(seen[i].in == weft_self());
    }
    weft_future_unref(future);

    future = make();
    CHECK_EQ(weft_future_then(future, note, &seen[0]), 0);
    CHECK_EQ(weft_future_fail(future, -EIO), 0);
    CHECK(seen[0].times == 2 && seen[0].err == -EIO);
    weft_future_unref(future);
    return arg;
}

TEST(future_callbacks_run_once_inline_in_completing_thread)
{
    run_in_fiber(1, calls_back, NULL);
    calls_back(NULL);
}

static void drop_it(void *arg, int err, void *value)
{
    (void)err, (void)value;
    weft_future_unref(arg);
}

static void complete_another(void *arg, int err, void *value)
{
    CHECK_EQ(err, 0);
    CHECK_EQ(weft_future_complete(arg, value), 0);
}

TEST(future_callback_can_use_futures_including_its_own)
{
    weft_future *other = make();
    future = make();
    CHECK_EQ(weft_future_then(future, complete_another, other), 0);
    CHECK_EQ(weft_future_then(future, drop_it, weft_future_ref(future)), 0);
    CHECK_EQ(weft_future_complete(future, &things[1]), 0);
    CHECK(weft_future_is_done(other));
    weft_future_unref(future);
    weft_future_unref(other);
}

/* --- derived futures -------------------------------------------------------------------------- */

static atomic_int converted;

static int next_thing(void *arg, void *value, void **out)
{
    CHECK(arg == things);
    atomic_fetch_add(&converted, 1);
    *out = (int *)value + 1;
    return 0;
}

static int refuse(void *arg, void *value, void **out)
{
    (void)arg, (void)value, (void)out;
    return -ERANGE;
}

TEST(map_converts_value_and_passes_failure_on)
{
    weft_future *one, *two, *bad, *late;
    void *value;
    atomic_store(&converted, 0);
    future = make();
    CHECK_EQ(weft_future_map(future, &one, next_thing, things), 0);
    CHECK_EQ(weft_future_map(one, &two, next_thing, things), 0);
    CHECK_EQ(weft_future_map(future, &bad, refuse, NULL), 0);
    CHECK_EQ(weft_future_complete(future, &things[0]), 0);
    CHECK_EQ(weft_future_result(two, &value), 0);
    CHECK(value == &things[2]);
    CHECK_EQ(weft_future_result(bad, NULL), -ERANGE);
    CHECK_EQ(weft_future_map(future, &late, next_thing, things), 0);
    CHECK_EQ(weft_future_result(late, &value), 0);
    CHECK(value == &things[1]);
    CHECK_EQ(atomic_load(&converted), 3);
    weft_future_unref(future);
    weft_future_unref(one);
    weft_future_unref(two);
    weft_future_unref(bad);
    weft_future_unref(late);

    future = make();
    CHECK_EQ(weft_future_map(future, &one, next_thing, things), 0);
    CHECK_EQ(weft_future_map(one, &two, next_thing, things), 0);
    weft_future_unref(one); /* the chain holds without this reference */
    CHECK_EQ(weft_future_fail(future, -EIO), 0);
    CHECK_EQ(weft_future_result(two, NULL), -EIO);
    CHECK_EQ(atomic_load(&converted), 3);
    weft_future_unref(future);
    weft_future_unref(two);
}

static int pass_on(void *arg, void *value, void **out)
{
    (void)arg, (void)value, (void)out;
    return 0;
}

static void *long_chain(void *arg)
{
    weft_future *last;
    void *value;
    future = last = make();
    weft_future_ref(future);
    for (int i = 0; i < 20000; i++) {
        weft_future *next;
        CHECK_EQ(weft_future_map(last, &next, pass_on, NULL), 0);
        weft_future_unref(last);
        last = next;
    }
    CHECK_EQ(weft_future_complete(future, &things[3]), 0);
    CHECK_EQ(weft_future_result(last, &value), 0);
    CHECK(value == &things[3]);
    weft_future_unref(last);
    weft_future_unref(future);
    return arg;
}

TEST(long_chain_of_futures_needs_no_deep_stack)
{
    run_in_fiber(1, long_chain, NULL);
}

static void make_three(weft_future **three)
{
    for (int i = 0; i < 3; i++) {
        three[i] = make();
    }
}

static void drop_three(weft_future **three)
{
    for (int i = 0; i < 3; i++) {
        weft_future_unref(three[i]);
    }
}

TEST(all_returns_values_in_input_order)
{
    weft_future *three[3], *all;
    void *values;
    make_three(three);
    CHECK_EQ(weft_future_all(&all, three, 3), 0);
    CHECK_EQ(weft_future_complete(three[2], &things[2]), 0);
    CHECK_EQ(weft_future_complete(three[0], &things[0]), 0);
    CHECK(!weft_future_is_done(all));
    CHECK_EQ(weft_future_complete(three[1], &things[1]), 0);
    drop_three(three);
    CHECK_EQ(weft_future_result(all, &values), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(((void **)values)[i] == &things[i]);
    }
    CHECK_EQ(weft_future_which(all), -1);
    weft_future_unref(all);

    CHECK_EQ(weft_future_all(&all, NULL, 0), 0);
    CHECK_EQ(weft_future_result(all, &values), 0);
    weft_future_unref(all);
}

TEST(all_fails_immediately_with_first_failure)
{
    weft_future *three[3], *all;
    make_three(three);
    CHECK_EQ(weft_future_all(&all, three, 3), 0);
    CHECK_EQ(weft_future_fail(three[1], -EIO), 0);
    CHECK_EQ(weft_future_result(all, NULL), -EIO);
    CHECK_EQ(weft_future_which(all), 1);
    CHECK_EQ(weft_future_fail(three[0], -EPERM), 0); /* too late */
    CHECK_EQ(weft_future_complete(three[2], NULL), 0);
    CHECK_EQ(weft_future_result(all, NULL), -EIO);
    drop_three(three);
    weft_future_unref(all);
}

TEST(any_takes_first_success_or_last_failure)
{
    weft_future *three[3], *any;
    void *value;
    make_three(three);
    CHECK_EQ(weft_future_any(&any, three, 3), 0);
    CHECK_EQ(weft_future_fail(three[0], -EIO), 0);
    CHECK(!weft_future_is_done(any));
    CHECK_EQ(weft_future_complete(three[2], &things[2]), 0);
    CHECK_EQ(weft_future_result(any, &value), 0);
    CHECK(value == &things[2]);
    CHECK_EQ(weft_future_which(any), 2);
    CHECK_EQ(weft_future_complete(three[1], &things[1]), 0);
    CHECK_EQ(weft_future_which(any), 2);
    drop_three(three);
    weft_future_unref(any);

    make_three(three);
    CHECK_EQ(weft_future_any(&any, three, 3), 0);
    CHECK_EQ(weft_future_fail(three[1], -EIO), 0);
    CHECK_EQ(weft_future_fail(three[2], -ERANGE), 0);
    CHECK_EQ(weft_future_cancel(three[0]), 0);
    CHECK_EQ(weft_future_result(any, &value), -ECANCELED);
    CHECK_EQ(weft_future_which(any), 0);
    drop_three(three);
    weft_future_unref(any);
    CHECK_EQ(weft_future_any(&any, NULL, 0), -EINVAL);
}

TEST(same_future_can_be_passed_twice_to_all_and_any)
{
    weft_future *both[2], *all, *any;
    both[0] = both[1] = make();
    CHECK_EQ(weft_future_all(&all, both, 2), 0);
    CHECK_EQ(weft_future_any(&any, both, 2), 0);
    CHECK_EQ(weft_future_complete(both[0], &things[0]), 0);
    CHECK_EQ(weft_future_result(all, NULL), 0);
    CHECK_EQ(weft_future_which(any), 0);
    weft_future_unref(both[0]);
    weft_future_unref(all);
    weft_future_unref(any);
}

TEST(dropping_incomplete_future_fails_derived_futures)
{
    weft_future *one, *all, *two[2];
    struct seen seen = {0};
    future = make();
    CHECK_EQ(weft_future_map(future, &one, next_thing, things), 0);
    CHECK_EQ(weft_future_then(one, note, &seen), 0);
    two[0] = one;
    two[1] = make();
    CHECK_EQ(weft_future_all(&all, two, 2), 0);
    weft_future_unref(one);
    weft_future_unref(future);
    CHECK(seen.times == 1 && seen.err == -EPIPE);
    CHECK_EQ(weft_future_result(all, NULL), -EPIPE);
    CHECK_EQ(weft_future_which(all), 0);
    weft_future_unref(two[1]);
    weft_future_unref(all);
}

/* A long-lived future, such as one that signals the end of the program, does not accumulate the
 * futures derived from it. */
TEST(completed_derived_future_releases_its_sources)
{
    weft_future *two[2], *any;
    future = two[0] = make();
    for (int i = 0; i < 3; i++) {
        two[1] = make();
        CHECK_EQ(weft_future_any(&any, two, 2), 0);
        CHECK(future->continuations.first);
        if (i == 0) {
            CHECK_EQ(weft_future_complete(two[1], NULL), 0); /* by one of the sources */
        } else if (i == 1) {
            CHECK_EQ(weft_future_cancel(any), 0); /* directly */
            CHECK(!two[1]->continuations.first);
            CHECK_EQ(weft_future_complete(two[1], NULL), 0);
        } else {
            CHECK_EQ(weft_future_cancel(any), 0);
            weft_future_unref(any);
            CHECK_EQ(weft_future_map(future, &any, next_thing, things), 0);
            CHECK_EQ(weft_future_cancel(any), 0);
        }
        CHECK(!future->continuations.first);
        weft_future_unref(any);
        weft_future_unref(two[1]);
    }
    weft_future_unref(future);
}

TEST(future_without_memory_fails_and_changes_nothing)
{
    weft_future *one, *two[2];
    future = make();
    two[0] = two[1] = future;
    weft__alloc_fail_after(1, true);
    CHECK_EQ(weft_future_create(&one, NULL), -ENOMEM);
    CHECK_EQ(weft_future_then(future, note, NULL), -ENOMEM);
    for (int i = 1; i <= 2; i++) {
        weft__alloc_fail_after(i, false);
        CHECK_EQ(weft_future_map(future, &one, next_thing, NULL), -ENOMEM);
        weft__alloc_fail_after(i, false);
        CHECK_EQ(weft_future_all(&one, two, 2), -ENOMEM);
    }
    weft__alloc_fail_after(0, false);
    CHECK(!future->continuations.first);
    weft_future_unref(future);
}

/* --- owners and misuse ------------------------------------------------------------------------ */

static void *use_owned(void *arg)
{
    const struct weft_sync_opts opts = {.name = "mine", .owner = weft_pool_self()};
    weft_future *next, *all, *two[2];
    CHECK_EQ(weft_future_create(&future, &opts), 0);
    CHECK_EQ(weft_future_map(future, &next, pass_on, NULL), 0);
    two[0] = next;
    two[1] = future;
    CHECK_EQ(weft_future_all(&all, two, 2), 0);
    weft_fiber fiber = waiting();
    if (arg) {
        thread_close(thread_open(complete_it, NULL));
    }
    CHECK_EQ(weft_future_complete(future, &things[0]), 0);
    CHECK_EQ(answer_of(fiber), 1);
    CHECK_EQ(weft_future_result(all, NULL), 0);
    weft_future_unref(weft_future_ref(future));
    weft_future_unref(future);
    weft_future_unref(next);
    weft_future_unref(all);
    return NULL;
}

static void *mix_owners(void *arg)
{
    weft_future *two[2], *all;
    CHECK_EQ(weft_future_create(&two[0], &(struct weft_sync_opts){.owner = weft_pool_self()}), 0);
    two[1] = make();
    weft_future_all(&all, two, 2);
    return arg;
}

TEST(owned_future_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
    must_stop_in_fiber(mix_owners, NULL, "derived from futures of different owners");
}

static void *drop_while_waited_on(void *arg)
{
    future = make();
    waiting();
    weft_future_unref(future);
    return arg;
}

static void fails_with_success(void *arg)
{
    (void)arg;
    weft_future_fail(make(), 0);
}

TEST(dropping_last_reference_with_waiters_aborts)
{
    must_stop_in_fiber(drop_while_waited_on, NULL,
                       "future reply was destroyed while a fiber or thread waits on it");
    must_stop(fails_with_success, NULL, "weft_future_fail: 0 is not a negative errno");
}
