/* labels: valgrind */
#include <weft/sync.h>

#include "base/assert.h"
#include "sync/fixture.h"
#include "sync/mutex.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_mutex mutex, other;
static atomic_int passed;
static long counted;

static void fresh(void)
{
    weft_mutex_init(&mutex, &(struct weft_sync_opts){.name = "door"});
    weft_mutex_init(&other, &(struct weft_sync_opts){.name = "window"});
    atomic_store(&passed, 0);
    counted = 0;
}

static void *lock_once(void *arg)
{
    int64_t deadline = arg ? *(int64_t *)arg : WEFT_FOREVER;
    int err = weft_mutex_lock(&mutex, deadline);
    if (err == 0) {
        atomic_fetch_add(&passed, 1);
        CHECK(weft__mutex_is_mine(&mutex));
        weft_mutex_unlock(&mutex);
    }
    return (void *)(intptr_t)err;
}

static void *count(void *arg)
{
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
        long before = counted;
        if (i % 16 == 0) {
            weft_yield(); /* with the lock held: the others must wait */
        }
        counted = before + 1;
        weft_mutex_unlock(&mutex);
    }
    return arg;
}

static void *count_together(void *arg)
{
    weft_fiber fibers[6];
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], count, NULL, NULL), 0);
    }
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(mutex_has_one_holder_at_a_time)
{
    fresh();
    run_in_fiber(1, count_together, NULL);
    run_in_fiber(3, count_together, NULL);
    CHECK_EQ(counted, 2 * 6 * 200);
    weft_mutex_deinit(&mutex);
}

TEST(zeroed_memory_is_valid_mutex)
{
    weft_mutex zero = WEFT_MUTEX_INIT;
    CHECK_EQ(weft_mutex_lock(&zero, 0), 0);
    CHECK(weft__mutex_is_mine(&zero));
    weft_mutex_unlock(&zero);
    CHECK(!weft__mutex_is_mine(&zero));
    weft_mutex_deinit(&zero);
}

static void *try_and_time_out(void *arg)
{
    int64_t try = 0, soon = weft_after(2 * MS);
    weft_fiber fiber;
    void *result;
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft_spawn(&fiber, lock_once, &try, NULL), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&fiber, lock_once, &soon, NULL), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ETIMEDOUT);
    CHECK(weft_now() >= soon);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), 0);
    weft_mutex_unlock(&mutex);
    return arg;
}

TEST(mutex_try_fails_immediately_and_timed_lock_at_deadline)
{
    fresh();
    run_in_fiber(1, try_and_time_out, NULL);
    run_in_fiber(2, try_and_time_out, NULL);
    int64_t soon = weft_after(MS);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), 0);
    pthread_t thread = thread_open(lock_once, &soon);
    CHECK_EQ((intptr_t)thread_close(thread), -ETIMEDOUT);
    weft_mutex_unlock(&mutex);
    weft_mutex_deinit(&mutex);
}

static void *cancelled_or_interrupted(void *arg)
{
    bool cancel = arg != NULL;
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    weft_fiber fiber = waiting_in(lock_once, NULL), patient = waiting_in(lock_once, NULL);
    end_wait(fiber, cancel);
    weft_mutex_unlock(&mutex);
    joined(patient, 0);
    return NULL;
}

TEST(cancel_and_interrupt_end_lock_wait_and_next_gets_mutex)
{
    fresh();
    run_in_fiber(1, cancelled_or_interrupted, NULL);
    run_in_fiber(2, cancelled_or_interrupted, &mutex);
    weft_mutex_deinit(&mutex);
}

static void *take_free_one(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    weft_mutex_unlock(&mutex);
    return arg;
}

TEST(cancelled_fiber_still_locks_free_mutex)
{
    fresh();
    run_in_fiber(1, take_free_one, NULL);
    weft_mutex_deinit(&mutex);
}

/* With one worker and a fiber that lets no other fiber run between unlock and lock, only the
 * hand-off can transfer the lock: an old waiter gets it in the unlock itself. */
static void *hand_over(void *arg)
{
    weft_fiber fibers[3];
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    for (int i = 0; i < 3; i++) {
        fibers[i] = waiting_in(lock_once, NULL);
    }
    int64_t until = weft_after(3 * MS);
    while (weft_now() < until) {
    }
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft__mutex_holder((uint64_t)(uintptr_t)&mutex), fibers[0]);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), -ETIMEDOUT); /* no fiber runs between */
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&passed), 3);
    weft_mutex_unlock(&mutex);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(waiter_of_one_millisecond_is_handed_mutex)
{
    fresh();
    run_in_fiber(1, hand_over, NULL);
    weft_mutex_deinit(&mutex);
}

/* Two fibers wait; the first is woken to retry, but does not get to run; the second becomes old in
 * the queue, and is handed the lock. */
static void *overtake(void *arg)
{
    weft_fiber first, second;
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    first = waiting_in(lock_once, NULL);
    second = waiting_in(lock_once, NULL);
    do {
        weft_mutex_unlock(&mutex);
    } while (weft_mutex_lock(&mutex, 0) == 0);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(free_mutex_can_be_barged_but_not_forever)
{
    fresh();
    run_in_fiber(1, overtake, NULL);
    CHECK_EQ(atomic_load(&passed), 2);
    weft_mutex_deinit(&mutex);
}

TEST(stackless_task_is_handed_mutex)
{
    enum { ME = 8 << 3 | WEFT__HOLDER_THREAD };
    struct body body;
    fresh();
    struct weft__mutex *m = weft__mutex_of(&mutex);
    body_arm(&body);
    CHECK(!weft__mutex_arm(m, &body.node, ME)); /* free: taken at once */
    body_disarm(&body);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), -ETIMEDOUT);
    weft__mutex_unlock_as(m, ME);

    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    body_arm(&body);
    CHECK(weft__mutex_arm(m, &body.node, ME));
    CHECK(!body_told(&body));
    weft_mutex_unlock(&mutex);
    CHECK(body_told(&body));
    weft__mutex_finish(m, &body.node);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), -ETIMEDOUT);
    weft__mutex_unlock_as(m, ME);

    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    body_arm(&body);
    CHECK(weft__mutex_arm(m, &body.node, ME));
    CHECK(body_end(&body, WEFT__REASON_CANCEL));
    weft_mutex_unlock(&mutex); /* the waiter has left */
    weft__mutex_finish(m, &body.node);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), 0);
    weft_mutex_unlock(&mutex);
    weft_mutex_deinit(&mutex);
}

TEST(threads_and_pools_share_one_mutex)
{
    fresh();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_spawn(a, NULL, count, NULL, NULL), 0);
        CHECK_EQ(weft_pool_spawn(b, NULL, count, NULL, NULL), 0);
        threads[i] = thread_open(count, NULL);
    }
    thread_close(threads[0]);
    thread_close(threads[1]);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(counted, 6 * 200);
    weft_mutex_deinit(&mutex);
}

static void *look_at_holder(void *arg)
{
    weft_fiber fiber;
    struct weft_fiber_ended_wait ended;
    CHECK_EQ(weft__mutex_holder((uint64_t)(uintptr_t)&mutex), WEFT_NO_FIBER);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft__mutex_holder((uint64_t)(uintptr_t)&mutex), weft_self());
    fiber = waiting_in(lock_once, NULL);
    CHECK_EQ(weft__mutex_holder((uint64_t)(uintptr_t)&mutex), weft_self());
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_ended_wait(&ended), -ENOENT);
    return arg;
}

TEST(mutex_holder_is_reported)
{
    fresh();
    run_in_fiber(1, look_at_holder, NULL);
    weft_mutex_deinit(&mutex);
}

static void *use_owned(void *arg)
{
    weft_mutex_init(&mutex, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    atomic_store(&passed, 0);
    counted = 0;
    count_together(NULL);
    CHECK_EQ(counted, 6 * 200);
    hand_over(NULL);
    if (arg) {
        thread_close(thread_open(lock_once, NULL));
    }
    weft_mutex_deinit(&mutex);
    return NULL;
}

TEST(owned_mutex_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

/* --- caller bugs ---------------------------------------------------------------------- */

static void *unlocks_anothers(void *arg)
{
    weft_mutex_unlock(&mutex);
    return arg;
}

static void *locks_twice(void *arg)
{
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    weft_mutex_lock(&mutex, WEFT_FOREVER);
    return arg;
}

static void *is_destroyed_locked(void *arg)
{
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    weft_mutex_deinit(&mutex);
    return arg;
}

static void *is_destroyed_waited_on(void *arg)
{
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    waiting_in(lock_once, NULL);
    weft_mutex_deinit(&mutex);
    return arg;
}

static void *breaks_ranks(void *arg)
{
    weft_mutex_init(&mutex, &(struct weft_sync_opts){.name = "low", .rank = 3});
    weft_mutex_init(&other, &(struct weft_sync_opts){.name = "high", .rank = 7});
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft_mutex_lock(&other, WEFT_FOREVER), 0);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), 0); /* a try is not checked */
    weft_mutex_unlock(&mutex);
    weft_mutex_lock(&mutex, WEFT_FOREVER);
    return arg;
}

TEST(mutex_misuse_aborts_with_message)
{
    fresh();
    must_stop_in_fiber(unlocks_anothers, NULL, "unlocks mutex door, which is held by nobody");
    must_stop_in_fiber(locks_twice, NULL, "locks mutex door, which it holds already");
    must_stop_in_fiber(is_destroyed_locked, NULL, "mutex door was destroyed while fiber #");
    must_stop_in_fiber(is_destroyed_waited_on, NULL,
                       "mutex door was destroyed while a fiber or thread waits on it");
    if (WEFT_DEBUG) {
        must_stop_in_fiber(breaks_ranks, NULL,
                           "locks mutex low of rank 3 while it holds mutex high of rank 7");
    }
}

static void *ends_with_both(void *arg)
{
    CHECK_EQ(weft_fiber_set_name("careless"), 0);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft_mutex_lock(&other, WEFT_FOREVER), 0);
    return arg;
}

static void *after_the_careless(void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, ends_with_both, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_mutex_lock(&mutex, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft__mutex_holder((uint64_t)(uintptr_t)&mutex), WEFT_NO_FIBER);
    return arg;
}

TEST(fiber_ending_with_locks_is_reported_and_locks_stay_locked)
{
    char err[CHECK_ERR];
    fresh();
    CHECK_EQ(
        check_child(run_it_in_fiber, &(struct in_fiber){after_the_careless, NULL}, err, sizeof err),
        0);
    CHECK(strstr(err, "(careless) ended while it held mutex door"));
    CHECK(strstr(err, "(careless) ended while it held mutex window"));
}

/* Locked in any order, unlocked in any order. */
static void *hold_many(void *arg)
{
    weft_mutex many[5] = {WEFT_MUTEX_INIT};
    static const int order[] = {2, 0, 4, 1, 3};
    memset(many, 0, sizeof many);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_mutex_lock(&many[i], WEFT_FOREVER), 0);
    }
    for (int i = 0; i < 5; i++) {
        weft_mutex_unlock(&many[order[i]]);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_mutex_lock(&many[i], 0), 0);
        weft_mutex_unlock(&many[i]);
    }
    return arg;
}

TEST(mutexes_can_be_unlocked_in_any_order)
{
    char err[CHECK_ERR];
    CHECK_EQ(check_child(run_it_in_fiber, &(struct in_fiber){hold_many, NULL}, err, sizeof err), 0);
    CHECK_STR(check_without_hogs(err), "");
}
