/* Join: by fibers and plain threads, by many joiners at once, with counted join rights, and with
 * deadlines and cancels that race with the fiber's end. */
/* labels: valgrind */
#include "base/assert.h"
#include "pool/fixture.h"

static void *gives_back(void *arg)
{
    return arg;
}

static void *parks(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

static weft_fiber spawn(weft_fn fn, intptr_t arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, fn, (void *)arg, NULL), 0);
    return fiber;
}

/* --- one joiner ------------------------------------------------------------- */

static void *joins_finished(void *arg)
{
    weft_fiber fiber = spawn(gives_back, 5);
    void *result = NULL;
    (void)arg;
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_join(fiber, &result, 0), 0); /* nothing to wait for */
    CHECK_EQ((intptr_t)result, 5);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -ESRCH);

    fiber = spawn(gives_back, 6);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(finished_fiber_keeps_result_for_one_join)
{
    run_in_fiber(1, joins_finished, NULL);
    run_in_fiber(2, joins_finished, NULL);
}

TEST(plain_thread_joins_finished_and_unfinished_fiber)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber;
    void *result = NULL;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, gives_back, (void *)7, NULL), 0);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 7);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -ESRCH);

    CHECK_EQ(weft_pool_spawn(pool, &fiber, parks, (void *)8, NULL), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 8);
    pool_close(pool);
}

static void *joins_itself(void *arg)
{
    void *result = &result;
    CHECK_EQ(weft_join(weft_self(), &result, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_join(weft_self(), &result, 0), -EDEADLK);
    CHECK(result == &result);
    return arg;
}

static void joins_itself_at_its_end(void *arg)
{
    joins_itself(arg);
}

static void *joins_itself_twice(void *arg)
{
    struct weft_fiber_cleanup node;
    weft_fiber_cleanup_push(&node, joins_itself_at_its_end, arg);
    weft_fiber_exit(joins_itself(arg));
}

static void *joins_a_self_joiner(void *arg)
{
    void *result;
    (void)arg;
    joins_itself(NULL);
    CHECK_EQ(weft_join(spawn(joins_itself_twice, 3), &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 3);
    return NULL;
}

TEST(self_join_is_rejected_and_uses_no_join_right)
{
    run_in_fiber(1, joins_a_self_joiner, NULL);
}

static void *joins_next_of_chain(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    void *result;
    if (depth == 0) {
        return NULL;
    }
    CHECK_EQ(weft_join(spawn(joins_next_of_chain, depth - 1), &result, WEFT_FOREVER), 0);
    return (void *)((intptr_t)result + 1);
}

TEST(long_chain_of_joins_unwinds)
{
    intptr_t depth = check_scale(2000) + 20;
    CHECK_EQ((intptr_t)run_in_fiber(1, joins_next_of_chain, (void *)depth), depth);
    CHECK_EQ((intptr_t)run_in_fiber(3, joins_next_of_chain, (void *)depth), depth);
}

static void *joins_what_arg_points_to(void *arg)
{
    void *result = NULL;
    CHECK_EQ(weft_join(*(weft_fiber *)arg, &result, WEFT_FOREVER), 0);
    return result;
}

TEST(join_of_created_fiber_waits_for_submit)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber, joiner;
    void *result;
    CHECK_EQ(weft_fiber_create(&fiber, gives_back, (void *)9, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_pool_spawn(pool, &joiner, joins_what_arg_points_to, &fiber, NULL), 0);
    await_state(joiner, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_join(joiner, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 9);
    pool_close(pool);
}

TEST(fiber_joins_fiber_of_other_pool)
{
    weft_pool *one = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *two = pool_open(&(struct weft_pool_opts){.workers = 1});
    for (long i = 0, n = check_scale(300) + 5; i < n; i++) {
        weft_fiber fiber, joiner;
        void *result;
        CHECK_EQ(weft_pool_spawn(one, &fiber, parks, (void *)i, NULL), 0);
        CHECK_EQ(weft_pool_spawn(two, &joiner, joins_what_arg_points_to, &fiber, NULL), 0);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        CHECK_EQ(weft_join(joiner, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i);
    }
    pool_close(two);
    pool_close(one);
}

/* --- many joiners ---------------------------------------------------------------- */

#define JOINERS 40
#define THREADS 3

TEST(fibers_and_threads_join_concurrently_one_right_each)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber fiber, joiners[JOINERS];
    pthread_t threads[THREADS];
    void *result;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, parks, (void *)11, NULL), 0);
    for (int i = 1; i < JOINERS + THREADS; i++) { /* the fiber starts with one right */
        CHECK_EQ(weft_fiber_share(fiber), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_open(joins_what_arg_points_to, &fiber);
    }
    for (int i = 0; i < JOINERS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &joiners[i], joins_what_arg_points_to, &fiber, NULL), 0);
        if (i == JOINERS / 2) {
            CHECK_EQ(weft_fiber_unpark(fiber), 0);
        }
    }
    for (int i = 0; i < JOINERS; i++) {
        CHECK_EQ(weft_join(joiners[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 11);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ((intptr_t)thread_close(threads[i]), 11);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ESRCH);
    pool_close(pool);
}

static void *joins_by_many(void *arg)
{
    weft_fiber fiber = spawn(parks, 12), joiners[JOINERS];
    (void)arg;
    for (int i = 0; i < JOINERS; i++) {
        joiners[i] = spawn(joins_what_arg_points_to, (intptr_t)&fiber);
        await_state(joiners[i], WEFT_FIBER_WAITING);
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    for (int i = 0; i < JOINERS; i++) {
        void *result;
        CHECK_EQ(weft_join(joiners[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 12);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ESRCH);
    return NULL;
}

TEST(concurrent_joins_with_one_right_have_one_winner)
{
    run_in_fiber(1, joins_by_many, NULL);
    run_in_fiber(3, joins_by_many, NULL);
}

/* Joiners leave by their deadlines, from the middle and both ends of the list, while others
 * stay. */
static void *joins_until(void *arg)
{
    void **what = arg;
    void *result;
    int err = weft_join((weft_fiber)(uintptr_t)what[0], &result, (int64_t)(intptr_t)what[1]);
    return (void *)(intptr_t)err;
}

static void *some_joiners_leave(void *arg)
{
    weft_fiber fiber = spawn(parks, 13), joiners[JOINERS];
    void *what[JOINERS][2];
    (void)arg;
    for (int i = 0; i < JOINERS; i++) {
        what[i][0] = (void *)(uintptr_t)fiber;
        what[i][1] = (void *)(intptr_t)(i % 3 == 0 ? WEFT_FOREVER : weft_after(i * 20000));
        joiners[i] = spawn(joins_until, (intptr_t)what[i]);
    }
    for (int i = 0; i < JOINERS; i++) {
        void *err;
        if (i % 3 == 0) {
            await_state(joiners[i], WEFT_FIBER_WAITING);
        } else {
            CHECK_EQ(weft_join(joiners[i], &err, WEFT_FOREVER), 0);
            CHECK_EQ((intptr_t)err, -ETIMEDOUT);
        }
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    for (int i = 0; i < JOINERS; i += 3) {
        void *err;
        CHECK_EQ(weft_join(joiners[i], &err, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)err, 0);
    }
    CHECK_EQ(weft_join(fiber, NULL, 0), -ESRCH);
    return NULL;
}

TEST(joiner_giving_up_does_not_disturb_other_joiners)
{
    run_in_fiber(1, some_joiners_leave, NULL);
    run_in_fiber(3, some_joiners_leave, NULL);
}

/* --- rights ------------------------------------------------------------------------- */

static void *shares(void *arg)
{
    void *result;
    (void)arg;
    weft_fiber fiber = spawn(gives_back, 14);
    CHECK_EQ(weft_fiber_share(fiber), 0);
    CHECK_EQ(weft_fiber_share(fiber), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 14);
    }
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -ESRCH);
    CHECK_EQ(weft_fiber_share(fiber), -ESRCH);

    fiber = spawn(gives_back, 15);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_share(fiber), 0); /* also after the fiber's end */
    CHECK_EQ(weft_fiber_detach(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 15);
    CHECK_EQ(weft_fiber_detach(fiber), -ESRCH);
    return NULL;
}

TEST(each_shared_join_right_allows_one_join)
{
    run_in_fiber(1, shares, NULL);
    run_in_fiber(2, shares, NULL);
}

static void *shares_too_often(void *arg)
{
    weft_fiber fiber = spawn(gives_back, 16);
    void *result;
    (void)arg;
    for (int i = 1; i < 250; i++) {
        CHECK_EQ(weft_fiber_share(fiber), 0);
    }
    CHECK_EQ(weft_fiber_share(fiber), -EOVERFLOW);
    CHECK_EQ(weft_fiber_detach(fiber), 0);
    CHECK_EQ(weft_fiber_share(fiber), 0);
    CHECK_EQ(weft_fiber_share(fiber), -EOVERFLOW);
    for (int i = 0; i < 250; i++) {
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 16);
    }
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -ESRCH);
    return NULL;
}

TEST(join_rights_are_counted_up_to_250)
{
    run_in_fiber(1, shares_too_often, NULL);
}

static void *detaches(void *arg)
{
    weft_fiber joiner, fiber = spawn(parks, 17);
    void *result;
    (void)arg;
    /* The last right is detached while a joiner already waits: the joiner gets the result. */
    joiner = spawn(joins_what_arg_points_to, (intptr_t)&fiber);
    await_state(joiner, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_detach(fiber), 0);
    CHECK_EQ(weft_fiber_detach(fiber), -EINVAL);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_fiber_share(fiber), -EINVAL);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(joiner, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 17);
    CHECK_EQ(weft_fiber_detach(fiber), -ESRCH);

    /* Detached after its end: the result is dropped. */
    fiber = spawn(gives_back, 18);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_detach(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ESRCH);
    return NULL;
}

TEST(detach_serves_current_joiners_and_rejects_new_ones)
{
    run_in_fiber(1, detaches, NULL);
    run_in_fiber(2, detaches, NULL);
}

static void *detaches_itself(void *arg)
{
    CHECK_EQ(weft_fiber_detach(weft_self()), 0);
    CHECK_EQ(weft_fiber_detach(weft_self()), -EINVAL);
    return arg;
}

static void *lets_it_detach_itself(void *arg)
{
    weft_fiber fiber = spawn(detaches_itself, 1);
    int err;
    (void)arg;
    while ((err = weft_join(fiber, NULL, 0)) == -ETIMEDOUT || err == -EINVAL) {
        weft_yield();
    }
    CHECK_EQ(err, -ESRCH);
    return NULL;
}

TEST(fiber_can_detach_itself)
{
    run_in_fiber(1, lets_it_detach_itself, NULL);
}

/* --- deadlines ------------------------------------------------------------------------ */

static void check_join_times_out(weft_fiber fiber)
{
    /* A deadline before the start of the program is a bug in debug builds. */
    const int64_t past[] = {0, weft_now() - 1, WEFT_DEBUG ? 0 : -1, WEFT_DEBUG ? 0 : INT64_MIN};
    void *result = &result;
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_join(fiber, &result, past[i]), -ETIMEDOUT);
    }
    CHECK_EQ(weft_join(fiber, &result, weft_now()), -ETIMEDOUT);
    for (int64_t ns = 1; ns <= 1000000; ns *= 1000) {
        int64_t deadline = weft_after(ns);
        CHECK_EQ(weft_join(fiber, &result, deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline); /* never early */
    }
    CHECK(result == &result);
}

static void *join_times_out(void *arg)
{
    weft_fiber fiber = spawn(parks, 19);
    void *result;
    (void)arg;
    check_join_times_out(fiber);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, weft_after(INT64_MAX)), 0); /* no right was used */
    CHECK_EQ((intptr_t)result, 19);
    return NULL;
}

TEST(join_times_out_and_keeps_its_right)
{
    run_in_fiber(1, join_times_out, NULL);
    run_in_fiber(2, join_times_out, NULL);

    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, parks, NULL, NULL), 0);
    check_join_times_out(fiber); /* a plain thread */
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, weft_after(INT64_MAX)), 0);
    pool_close(pool);
}

/* --- races with the fiber's end ---------------------------------------------------------- */

static void *ends_after_a_while(void *arg)
{
    intptr_t yields = (intptr_t)arg % 8;
    for (intptr_t i = 0; i < yields; i++) {
        weft_yield();
    }
    return arg;
}

/* A join with a deadline near the fiber's end returns the result, or an error first and the result
 * later. */
static void join_near_the_end(weft_fiber fiber, intptr_t value, uint64_t *random)
{
    void *result = NULL;
    int err = weft_join(fiber, &result, weft_after(dice(random) % 30000));
    if (err != 0) {
        CHECK_EQ(err, -ETIMEDOUT);
        CHECK(result == NULL);
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    }
    CHECK_EQ((intptr_t)result, value);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -ESRCH);
}

static void *races_deadlines(void *arg)
{
    uint64_t random = check_seed() + (uint64_t)(uintptr_t)arg;
    for (intptr_t i = 1, n = check_scale(2000) + 20; i < n; i++) {
        join_near_the_end(spawn(ends_after_a_while, i), i, &random);
    }
    return NULL;
}

static void *races_deadlines_side_by_side(void *arg)
{
    weft_fiber fibers[3];
    (void)arg;
    for (int i = 0; i < 3; i++) {
        fibers[i] = spawn(races_deadlines, i);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(join_deadline_racing_with_fiber_end_loses_no_result)
{
    run_in_fiber(1, races_deadlines_side_by_side, NULL);
    run_in_fiber(2, races_deadlines_side_by_side, NULL);
}

static void *thread_races_deadlines(void *arg)
{
    uint64_t random = check_seed() + 99;
    for (intptr_t i = 1, n = check_scale(1000) + 20; i < n; i++) {
        weft_fiber fiber;
        CHECK_EQ(weft_pool_spawn(arg, &fiber, ends_after_a_while, (void *)i, NULL), 0);
        join_near_the_end(fiber, i, &random);
    }
    return NULL;
}

TEST(thread_join_deadline_racing_with_end_loses_no_result)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        threads[i] = thread_open(thread_races_deadlines, pool);
    }
    for (int i = 0; i < 2; i++) {
        thread_close(threads[i]);
    }
    pool_close(pool);
}

static void *joins_and_tells_why(void *arg)
{
    void *result = NULL;
    int err = weft_join(*(weft_fiber *)arg, &result, WEFT_FOREVER);
    CHECK(err == 0 ? result == (void *)21 : err == -ECANCELED && result == NULL);
    return (void *)(intptr_t)err;
}

static void *races_cancels(void *arg)
{
    uint64_t random = check_seed() + (uint64_t)(uintptr_t)arg;
    int cancelled = 0;
    for (intptr_t i = 1, n = check_scale(2000) + 20; i < n; i++) {
        weft_fiber fiber = spawn(parks, 21), joiner = spawn(joins_and_tells_why, (intptr_t)&fiber);
        void *why;
        for (uint32_t k = dice(&random) % 3; k > 0; k--) {
            weft_yield();
        }
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        for (uint32_t k = dice(&random) % 3; k > 0; k--) {
            weft_yield();
        }
        int err = weft_cancel(joiner);
        CHECK(err == 0 || err == -ESRCH);
        CHECK_EQ(weft_join(joiner, &why, WEFT_FOREVER), 0);
        cancelled += why != NULL;
        /* A cancelled joiner left its right to others. */
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), why != NULL ? 0 : -ESRCH);
    }
    return (void *)(intptr_t)cancelled;
}

TEST(cancel_racing_with_fiber_end_uses_or_keeps_join_right)
{
    run_in_fiber(1, races_cancels, (void *)1);
    run_in_fiber(3, races_cancels, (void *)2);
}

/* Many joiners with one right each race with the fiber's end: every joiner gets the result, and no
 * right is left over. */
struct storm {
    weft_fiber fiber;
    atomic_int served;
};

static void *joins_in_a_storm(void *arg)
{
    struct storm *storm = arg;
    void *result;
    CHECK_EQ(weft_join(storm->fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 22);
    atomic_fetch_add(&storm->served, 1);
    return NULL;
}

static void *makes_storms(void *arg)
{
    uint64_t random = check_seed() + 7;
    (void)arg;
    for (long i = 0, n = check_scale(200) + 5; i < n; i++) {
        weft_fiber joiners[16];
        struct storm storm = {.fiber = spawn(parks, 22)};
        for (int k = 0; k < 16; k++) {
            CHECK_EQ(weft_fiber_share(storm.fiber), 0);
        }
        uint32_t when = dice(&random) % 16;
        for (uint32_t k = 0; k < 16; k++) {
            joiners[k] = spawn(joins_in_a_storm, (intptr_t)&storm);
            if (k == when) {
                CHECK_EQ(weft_fiber_unpark(storm.fiber), 0);
            }
            if (dice(&random) % 4 == 0) {
                weft_yield();
            }
        }
        for (int k = 0; k < 16; k++) {
            CHECK_EQ(weft_join(joiners[k], NULL, WEFT_FOREVER), 0);
        }
        CHECK_EQ(atomic_load(&storm.served), 16);
        CHECK_EQ(weft_join(storm.fiber, NULL, 0), 0); /* the seventeenth */
        CHECK_EQ(weft_join(storm.fiber, NULL, 0), -ESRCH);
    }
    return NULL;
}

TEST(join_rights_balance_when_many_join_around_fiber_end)
{
    run_in_fiber(1, makes_storms, NULL);
    run_in_fiber(3, makes_storms, NULL);
}

static void *answer(void *arg)
{
    return arg;
}

TEST(unbounded_join_on_only_worker_thread_is_rejected)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .caller = true});
    weft_fiber fiber;
    void *result = NULL;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, answer, &result, NULL), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), -EDEADLK);
    CHECK_EQ(weft_join(fiber, &result, 0), -ETIMEDOUT);
    CHECK(weft_pool_poll(pool) > 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK(result == &result);
    pool_close(pool);
}
