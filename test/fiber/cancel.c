/* Cancel is a state that lasts until the fiber ends: the current wait and every later wait return
 * -ECANCELED. */
/* labels: valgrind */
#include "fiber/fibers.h"

/* In a cancelled fiber every wait ends at once, and nothing else changes. */
static void check_every_wait_is_cancelled(void)
{
    weft_fiber other;
    void *result = NULL;
    CHECK(weft_fiber_is_cancelled());
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
        CHECK_EQ(weft_fiber_park(weft_after(1000000000)), -ECANCELED);
        CHECK_EQ(weft_fiber_park(weft_now()), -ECANCELED);
        CHECK_EQ(weft_fiber_park(0), -ETIMEDOUT); /* a try, not a wait */
    }
    /* A cancelled fiber may still spawn; its children are not cancelled; it cannot wait for
     * them. */
    other = spawn(parks, (void *)3);
    CHECK_EQ(weft_join(other, &result, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_join(other, &result, weft_after(1000000000)), -ECANCELED);
    CHECK_EQ(weft_fiber_unpark(other), 0);
    await_state(other, WEFT_FIBER_DONE);
    CHECK_EQ(weft_join(other, &result, WEFT_FOREVER), 0); /* no wait */
    CHECK_EQ((intptr_t)result, 3);
    CHECK_EQ(weft_fiber_unpark(weft_self()), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0); /* no wait either */
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    CHECK(weft_fiber_is_cancelled());
}

static void *is_cancelled_while_parked(void *arg)
{
    CHECK(!weft_fiber_is_cancelled());
    CHECK_EQ(weft_fiber_park((int64_t)(intptr_t)arg), -ECANCELED);
    check_every_wait_is_cancelled();
    return (void *)1;
}

static void *cancels_a_parked_one(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int64_t deadline = i == 0 ? WEFT_FOREVER : weft_after(INT64_C(3600000000000));
        weft_fiber fiber = spawn(is_cancelled_while_parked, (void *)(intptr_t)deadline);
        void *result;
        await_state(fiber, WEFT_FIBER_WAITING);
        CHECK_EQ(weft_cancel(fiber), 0);
        CHECK_EQ(weft_cancel(fiber), 0); /* a second cancel changes nothing */
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, 1);
        CHECK_EQ(weft_cancel(fiber), -ESRCH);
    }
    CHECK(!weft_fiber_is_cancelled());
    return NULL;
}

TEST(cancel_ends_park_and_every_later_wait)
{
    CHECK(!weft_fiber_is_cancelled());
    run_in_fiber(1, cancels_a_parked_one, NULL);
    run_in_fiber(2, cancels_a_parked_one, NULL);
}

static void *is_cancelled_while_joining(void *arg)
{
    CHECK_EQ(weft_join(*(weft_fiber *)arg, NULL, WEFT_FOREVER), -ECANCELED);
    check_every_wait_is_cancelled();
    return NULL;
}

static void *cancels_a_joiner(void *arg)
{
    weft_fiber fiber = spawn(parks, NULL), joiner = spawn(is_cancelled_while_joining, &fiber);
    (void)arg;
    await_state(joiner, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(joiner), 0);
    CHECK_EQ(weft_join(joiner, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), 0); /* the joined fiber continues undisturbed */
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(cancel_ends_join_and_leaves_joined_fiber_running)
{
    run_in_fiber(1, cancels_a_joiner, NULL);
    run_in_fiber(2, cancels_a_joiner, NULL);
}

static void *was_cancelled_before(void *arg)
{
    check_every_wait_is_cancelled();
    return arg;
}

static void *cancels_before_the_first_run(void *arg)
{
    weft_fiber fiber = spawn(was_cancelled_before, (void *)2), created;
    void *result;
    (void)arg;
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 2); /* a cancelled fiber still runs: only it knows how to clean up */

    CHECK_EQ(weft_fiber_create(&created, was_cancelled_before, (void *)3, NULL), 0);
    CHECK_EQ(weft_cancel(created), 0);
    CHECK_EQ(weft_fiber_submit(created, weft_pool_self(), WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_join(created, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 3);
    return NULL;
}

TEST(fiber_cancelled_before_start_runs_without_waiting)
{
    run_in_fiber(1, cancels_before_the_first_run, NULL); /* with more it may start first */
}

static void *cancels_itself(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    check_every_wait_is_cancelled();
    return arg;
}

static void *is_not_cancelled(void *arg)
{
    CHECK(!weft_fiber_is_cancelled());
    CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    return arg;
}

static void *recycles_a_cancelled_slot(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        weft_fiber one = spawn(cancels_itself, NULL);
        CHECK_EQ(weft_join(one, NULL, WEFT_FOREVER), 0);
        weft_fiber two = spawn(is_not_cancelled, NULL);
        CHECK_EQ(weft_cancel(one), -ESRCH);
        CHECK_EQ(weft_join(two, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(cancel_state_ends_with_its_fiber)
{
    run_in_fiber(1, recycles_a_cancelled_slot, NULL);
}

static void waits_at_the_end(void *arg)
{
    CHECK(weft_fiber_is_cancelled());
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    *(int *)arg = 1;
}

static void *leaves_when_cancelled(void *arg)
{
    struct weft_fiber_cleanup node;
    weft_fiber_cleanup_push(&node, waits_at_the_end, arg);
    if (weft_fiber_park(WEFT_FOREVER) == -ECANCELED) {
        weft_fiber_exit((void *)4);
    }
    return NULL;
}

static void *cancels_one_with_cleanups(void *arg)
{
    int cleaned = 0;
    weft_fiber fiber = spawn(leaves_when_cancelled, &cleaned);
    void *result;
    (void)arg;
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 4);
    CHECK_EQ(cleaned, 1);
    return NULL;
}

TEST(cleanups_of_cancelled_fiber_run_and_see_cancel)
{
    run_in_fiber(1, cancels_one_with_cleanups, NULL);
}

static void *computes_until_cancelled(void *arg)
{
    atomic_int *started = arg;
    atomic_fetch_add(started, 1);
    while (!weft_fiber_is_cancelled()) {
    }
    return NULL;
}

TEST(computing_fiber_can_poll_its_cancel)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    atomic_int started = 0;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, computes_until_cancelled, &started, NULL), 0);
    await_count(&started, 1);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

/* --- races ---------------------------------------------------------------------- */

/* A cancel races with an unpark: the unpark lets exactly one park through, before or after the
 * cancel. */
static void *parks_three_times(void *arg)
{
    int through = 0, cancelled = 0;
    atomic_int *ready = arg;
    atomic_fetch_add(ready, 1);
    for (int i = 0; i < 3; i++) {
        int err = weft_fiber_park(WEFT_FOREVER);
        CHECK(err == 0 || err == -ECANCELED);
        through += err == 0;
        cancelled += err == -ECANCELED;
    }
    while (!weft_fiber_is_cancelled()) {
        weft_yield();
    }
    return (void *)(intptr_t)(through * 10 + cancelled);
}

static void *unparks(void *arg)
{
    int err = weft_fiber_unpark(*(weft_fiber *)arg);
    CHECK(err == 0 || err == -ESRCH);
    return NULL;
}

static void *cancels(void *arg)
{
    CHECK_EQ(weft_cancel(*(weft_fiber *)arg), 0);
    return NULL;
}

static void *races_unparks(void *arg)
{
    (void)arg;
    uint64_t random = check_seed();
    for (long i = 0, n = check_scale(1500) + 20; i < n; i++) {
        atomic_int ready = 0;
        weft_fiber fiber = spawn(parks_three_times, &ready);
        if (dice(&random) % 2) {
            await_count(&ready, 1);
        }
        bool first = dice(&random) % 2;
        weft_fiber one = spawn(first ? unparks : cancels, &fiber);
        weft_fiber two = spawn(first ? cancels : unparks, &fiber);
        void *result;
        CHECK_EQ(weft_join(one, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(two, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        /* An unpark that arrives after all three parks finds no fiber to wake. */
        CHECK((intptr_t)result == 12 || (intptr_t)result == 3);
    }
    return NULL;
}

TEST(concurrent_cancel_and_unpark_each_count_once)
{
    run_in_fiber(1, races_unparks, NULL);
    run_in_fiber(3, races_unparks, NULL);
}

static void *sleeps_until_cancelled(void *arg)
{
    atomic_int *slept = arg;
    int err;
    while ((err = weft_fiber_park(weft_after(20000))) != -ECANCELED) {
        CHECK_EQ(err, -ETIMEDOUT);
        atomic_fetch_add(slept, 1);
    }
    CHECK_EQ(weft_fiber_park(weft_after(20000)), -ECANCELED);
    return NULL;
}

static void *races_deadlines(void *arg)
{
    uint64_t random = check_seed() + 5;
    (void)arg;
    for (long i = 0, n = check_scale(500) + 10; i < n; i++) {
        atomic_int slept = 0;
        weft_fiber fiber = spawn(sleeps_until_cancelled, &slept);
        if (dice(&random) % 4 == 0) {
            await_count(&slept, 1);
        } else {
            for (uint32_t k = dice(&random) % 20; k > 0; k--) {
                weft_yield();
            }
        }
        CHECK_EQ(weft_cancel(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(cancel_racing_with_deadline_is_not_lost)
{
    run_in_fiber(1, races_deadlines, NULL);
    run_in_fiber(2, races_deadlines, NULL);
}

/* Stopping one pool visits every fiber in the process, also those that another pool is creating. */
static void *spawns_all_the_time(void *arg)
{
    atomic_bool *over = arg;
    while (!atomic_load(over)) {
        weft_fiber fiber = spawn(nothing, NULL);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK(!weft_fiber_is_cancelled());
    }
    return NULL;
}

static void *ends_by_cancel(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    return arg;
}

TEST(cancelling_one_pool_leaves_other_pools_running)
{
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = 2});
    atomic_bool over = false;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_submit(other, spawns_all_the_time, &over), 0);
    }
    for (long i = 0, n = check_scale(30) + 5; i < n; i++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
        CHECK_EQ(weft_pool_submit(pool, ends_by_cancel, NULL), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        weft_pool_destroy(pool);
    }
    atomic_store(&over, true);
    pool_close(other);
}

/* Fibers are created while the stop walks over all fibers. If the walk misses one, the stop
 * hangs. */
static atomic_int born;

static void *makes_children(void *arg)
{
    for (unsigned i = 0; !weft_fiber_is_cancelled(); i++) {
        weft_fiber fiber;
        switch (i % 3) {
        case 0:
            CHECK_EQ(weft_spawn(NULL, ends_by_cancel, NULL, NULL), 0);
            break;
        case 1:
            CHECK_EQ(weft_fiber_create(&fiber, ends_by_cancel, NULL, NULL), 0);
            CHECK_EQ(weft_fiber_detach(fiber), 0);
            CHECK_EQ(weft_fiber_submit(fiber, arg, WEFT_ANY_WORKER), 0);
            break;
        default:
            CHECK_EQ(weft_pool_submit_batch(arg, &(struct weft_job){ends_by_cancel, NULL}, 1), 0);
            break;
        }
        atomic_fetch_add(&born, 1);
        weft_yield();
    }
    return NULL;
}

TEST(cancelling_stop_reaches_every_fiber_being_spawned)
{
    for (long i = 0, n = check_scale(30) + 5; i < n; i++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
        atomic_store(&born, 0);
        for (int k = 0; k < 3; k++) {
            CHECK_EQ(weft_pool_submit(pool, makes_children, pool), 0);
        }
        await_count(&born, 20);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, weft_after(INT64_C(60000000000))), 0);
        weft_pool_destroy(pool);
    }
}
