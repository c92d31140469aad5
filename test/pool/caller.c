/* The creating thread as worker 0: run, stop, and what other threads can do while it is absent. */
/* labels: valgrind */
#include <sys/syscall.h>

#include "pool/fixture.h"

static int this_tid(void)
{
    return (int)syscall(SYS_gettid);
}

static weft_pool *caller_pool(unsigned workers)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {.caller = true, .workers = workers};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    return pool;
}

static void *end_at_once(void *arg)
{
    return arg;
}

static void *count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

static void *hold(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_fiber_park(WEFT_FOREVER);
}

/* --- run ------------------------------------------------------------------------ */

static void *report_tid(void *arg)
{
    *(int *)arg = this_tid();
    return arg;
}

TEST(run_lends_calling_thread_until_main_fiber_ends)
{
    weft_pool *pool = caller_pool(1);
    int tid = 0;
    void *result = NULL;
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_run(pool, &result, report_tid, &tid, WEFT_FOREVER), 0);
    CHECK_EQ(tid, this_tid());
    CHECK(result == &tid);
    CHECK(weft_pool_self() == NULL);
    CHECK_EQ(weft_pool_run(pool, NULL, end_at_once, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

TEST(run_returns_at_deadline_and_leaves_main_fiber)
{
    weft_pool *pool = caller_pool(1);
    void *result = &pool;
    CHECK_EQ(weft_pool_start(pool), 0);
    int64_t deadline = weft_after(2000000);
    CHECK_EQ(weft_pool_run(pool, &result, hold, NULL, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK(result == &pool); /* not written */
    CHECK_EQ(pool_live(pool), 1);
    CHECK_EQ(weft_pool_run(pool, &result, end_at_once, NULL, weft_after(INT64_C(60000000000))), 0);
    CHECK(result == NULL);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

static void *count_after_park(void *arg)
{
    int err = weft_fiber_park(WEFT_FOREVER);
    atomic_fetch_add((atomic_int *)arg, err == -ECANCELED ? 1 : 100);
    return arg;
}

static void *leave_one(void *arg)
{
    CHECK_EQ(weft_spawn(NULL, count_after_park, arg, NULL), 0);
    return arg;
}

TEST(program_run_until_deadline_cancels_its_fibers)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        atomic_int ended = 0;
        struct weft_pool_opts opts = {.workers = workers};
        /* The main fiber is late. */
        CHECK_EQ(weft_run(NULL, count_after_park, &ended, &opts, weft_after(2000000)), -ETIMEDOUT);
        CHECK_EQ(atomic_load(&ended), 1);
        /* Another one is, and the main fiber has ended. */
        CHECK_EQ(weft_run(NULL, leave_one, &ended, &opts, weft_after(2000000)), 0);
        CHECK_EQ(atomic_load(&ended), 2);
    }
}

static void *join_children(void *arg)
{
    weft_fiber children[20];
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_spawn(&children[i], count_up, arg, NULL), 0);
    }
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_join(children[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_fiber_park(weft_after(1000000)), -ETIMEDOUT);
    return NULL;
}

TEST(run_completes_with_caller_as_only_worker)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(1);
    CHECK_EQ(weft_pool_run(pool, NULL, join_children, &ran, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ran), 20);
    pool_close(pool);
}

TEST(run_sleeps_while_its_fibers_run_on_other_workers)
{
    weft_pool *pool = caller_pool(3);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < 50; i++) {
        atomic_int ran = 0;
        CHECK_EQ(weft_pool_run(pool, NULL, join_children, &ran, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&ran), 20);
    }
    pool_close(pool);
}

static void *spawn_and_leave(void *arg)
{
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_spawn(NULL, count_up, arg, NULL), 0);
    }
    return NULL;
}

TEST(other_workers_run_fibers_that_outlive_main_fiber)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(2);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, spawn_and_leave, &ran, WEFT_FOREVER), 0);
    await_count(&ran, 100); /* without this thread */
    pool_close(pool);
}

TEST(fibers_that_outlive_main_fiber_wait_without_other_workers)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(1);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, spawn_and_leave, &ran, WEFT_FOREVER), 0);
    CHECK(atomic_load(&ran) < 100);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 100);
}

struct leftover {
    weft_pool *pool;
    atomic_int ran;
};

static void *unbind_and_yield(void *arg)
{
    struct leftover *leftover = arg;
    CHECK_EQ(weft_fiber_migrate(leftover->pool, WEFT_ANY_WORKER), 0);
    while (weft_worker_self() == 0) {
        weft_yield(); /* into the ring, which wakes no worker */
    }
    return count_up(&leftover->ran);
}

static void *leave_one_in_the_ring(void *arg)
{
    struct leftover *leftover = arg;
    struct weft_worker_stats other;
    CHECK_EQ(weft_fiber_migrate(leftover->pool, 0), 0);
    do {
        sched_yield(); /* no turn passes */
        CHECK_EQ(weft_worker_stats(leftover->pool, &other, 1), 0);
    } while (other.state != WEFT_WORKER_PARKED);
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    CHECK_EQ(weft_spawn(NULL, unbind_and_yield, leftover, &bound), 0);
    weft_yield();
    return NULL;
}

TEST(caller_leaving_wakes_worker_for_its_ring)
{
    struct leftover leftover = {.pool = caller_pool(2)};
    CHECK_EQ(weft_pool_start(leftover.pool), 0);
    for (int i = 1; i <= 20; i++) {
        CHECK_EQ(weft_pool_run(leftover.pool, NULL, leave_one_in_the_ring, &leftover, WEFT_FOREVER),
                 0);
        await_count(&leftover.ran, i);
    }
    pool_close(leftover.pool);
}

static void *nap(void *arg)
{
    CHECK_EQ(weft_fiber_park(weft_after(2000000)), -ETIMEDOUT);
    return count_up(arg);
}

struct nap {
    weft_pool *pool;
    atomic_int done;
};

/* The deadline is set on worker 0, and the main fiber ends on another worker. */
static void *leave_a_napping_fiber(void *arg)
{
    struct nap *job = arg;
    weft_fiber fiber;
    CHECK_EQ(weft_fiber_migrate(job->pool, 0), 0);
    CHECK_EQ(weft_spawn(&fiber, nap, &job->done, NULL), 0);
    enum weft_fiber_state state;
    do { /* on a slow machine the nap may end before it is observed */
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING && state != WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_detach(fiber), 0);
    CHECK_EQ(weft_fiber_migrate(job->pool, 1), 0);
    CHECK_EQ(weft_fiber_park(weft_after(300000)), -ETIMEDOUT);
    return NULL;
}

TEST(deadline_started_on_caller_is_kept_by_other_workers)
{
    struct nap job = {.pool = caller_pool(2)};
    CHECK_EQ(weft_pool_start(job.pool), 0);
    for (int i = 1; i <= 20; i++) {
        CHECK_EQ(weft_pool_run(job.pool, NULL, leave_a_napping_fiber, &job, WEFT_FOREVER), 0);
        await_count(&job.done, i); /* without this thread */
    }
    pool_close(job.pool);
}

static void *run_elsewhere(void *arg)
{
    CHECK_EQ(weft_pool_run(arg, NULL, end_at_once, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pool_poll(arg), -EINVAL);
    return NULL;
}

TEST(run_from_non_creating_thread_is_rejected)
{
    weft_pool *pool = caller_pool(1);
    thread_close(thread_open(run_elsewhere, pool));
    pool_close(pool);
    pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_run(pool, NULL, end_at_once, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pool_poll(pool), -EINVAL);
    CHECK_EQ(weft_pool_fd(pool), -EINVAL);
    pool_close(pool);
}

static void *run_inside(void *arg)
{
    CHECK_EQ(weft_pool_run(arg, NULL, end_at_once, NULL, WEFT_FOREVER), -EBUSY);
    CHECK_EQ(weft_pool_poll(arg), -EBUSY);
    return NULL;
}

TEST(fiber_cannot_run_its_own_pool)
{
    weft_pool *pool = caller_pool(1);
    CHECK_EQ(weft_pool_run(pool, NULL, run_inside, pool, WEFT_FOREVER), 0);
    pool_close(pool);
}

/* --- one thread, one pool ------------------------------------------------------------ */

static void *join_second_pool(void *arg)
{
    weft_pool *pool = arg;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.caller = true}), -EBUSY);
    CHECK(pool == arg);
    CHECK_EQ(weft_run(NULL, end_at_once, NULL, NULL, WEFT_FOREVER), -EBUSY);
    return NULL;
}

TEST(worker_thread_cannot_be_caller_of_second_pool)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_call(pool, NULL, 0, join_second_pool, pool, WEFT_FOREVER), 0);
    pool_close(pool);
}

TEST(caller_cannot_join_second_pool_until_first_is_destroyed)
{
    weft_pool *pool = caller_pool(1);
    join_second_pool(NULL);
    CHECK_EQ(weft_pool_run(pool, NULL, join_second_pool, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
    CHECK_EQ(
        weft_run(NULL, end_at_once, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER), 0);
}

static void *destroy_pool(void *arg)
{
    weft_pool_destroy(arg);
    return NULL;
}

TEST(caller_is_free_after_other_thread_destroyed_its_pool)
{
    weft_pool *pool = caller_pool(1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    thread_close(thread_open(destroy_pool, pool));
    CHECK_EQ(
        weft_run(NULL, end_at_once, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER), 0);
}

static void *use_threaded_pool(void *arg)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_submit(pool, count_up, arg), 0);
    pool_close(pool);
    return NULL;
}

TEST(fiber_can_create_and_stop_pools_with_own_threads)
{
    atomic_int ran = 0;
    run_in_fiber(1, use_threaded_pool, &ran);
    CHECK_EQ(atomic_load(&ran), 1);
}

/* --- all work done inside stop ------------------------------------------------------ */

struct tids {
    int seen[8];
    atomic_int count;
};

static void *note_tid(void *arg)
{
    struct tids *tids = arg;
    weft_yield();
    tids->seen[atomic_fetch_add(&tids->count, 1)] = this_tid();
    return NULL;
}

TEST(stop_runs_all_fibers_with_caller_as_only_worker)
{
    weft_pool *pool = caller_pool(1);
    struct tids tids = {.count = 0};
    CHECK_EQ(weft_pool_start(pool), 0);
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, note_tid, &tids, i % 2 ? &bound : NULL), 0);
    }
    CHECK_EQ(atomic_load(&tids.count), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&tids.count), 8);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(tids.seen[i], this_tid());
    }
    weft_pool_destroy(pool);
}

TEST(stop_without_start_runs_submitted_fibers)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(1);
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 1);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 2);
}

TEST(caller_in_stop_keeps_deadlines)
{
    weft_pool *pool = caller_pool(1);
    atomic_int ran = 0;
    CHECK_EQ(weft_pool_submit(pool, nap, &ran), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 1);
}

TEST(caller_in_stop_cancels_at_deadline_and_keeps_serving)
{
    weft_pool *pool = caller_pool(1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, hold, NULL), 0);
    }
    CHECK_EQ(stop_by(pool, weft_after(2000000)), 0);
    weft_pool_destroy(pool);
}

/* --- an absent caller ----------------------------------------------------------------- */

static void *stop_elsewhere(void *arg)
{
    return (void *)(intptr_t)weft_pool_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER);
}

static intptr_t stop_from_a_thread(weft_pool *pool)
{
    return (intptr_t)thread_close(thread_open(stop_elsewhere, pool));
}

TEST(stop_needing_absent_caller_returns_edeadlk)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(1);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
    CHECK_EQ(stop_from_a_thread(pool), -EDEADLK);
    CHECK_EQ(stop_from_a_thread(pool), -EDEADLK);
    CHECK_EQ(atomic_load(&ran), 0);
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), -ESHUTDOWN); /* the stop has begun */
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 1);
}

TEST(stop_needing_absent_caller_for_bound_fiber_returns_edeadlk)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(2);
    CHECK_EQ(weft_pool_start(pool), 0);
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    CHECK_EQ(weft_pool_spawn(pool, NULL, count_up, &ran, &bound), 0);
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
    CHECK_EQ(stop_from_a_thread(pool), -EDEADLK);
    await_count(&ran, 1);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 2);
}

static void *bind_to_caller_when_stopping(void *arg)
{
    CHECK_EQ(weft_fiber_migrate(arg, 1), 0);
    struct weft_pool_stats stats;
    do {
        weft_yield();
        weft_pool_stats(arg, &stats);
    } while (!stats.stopping);
    CHECK_EQ(weft_fiber_migrate(arg, 0), 0);
    return NULL;
}

TEST(migration_to_absent_caller_during_stop_does_not_hang_stop)
{
    for (int i = 0; i < 50; i++) {
        weft_pool *pool = caller_pool(2);
        CHECK_EQ(weft_pool_start(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, bind_to_caller_when_stopping, pool), 0);
        CHECK_EQ(stop_from_a_thread(pool), -EDEADLK);
        pool_close(pool);
    }
}

TEST(stop_without_need_of_absent_caller_succeeds)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(2);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
    }
    CHECK_EQ(stop_from_a_thread(pool), 0);
    CHECK_EQ(atomic_load(&ran), 10);
    weft_pool_destroy(pool);

    pool = caller_pool(1);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(stop_from_a_thread(pool), 0); /* nothing to do */
    weft_pool_destroy(pool);
}

struct watched_run {
    weft_pool *pool;
    atomic_bool stopping;
    bool leave_one;
};

static void *run_until_stopping(void *arg)
{
    struct watched_run *run = arg;
    struct weft_pool_stats stats;
    do {
        weft_yield();
        weft_pool_stats(run->pool, &stats);
    } while (!stats.stopping);
    if (run->leave_one) {
        struct weft_fiber_opts bound = {.bound = true, .worker = 0};
        CHECK_EQ(weft_spawn(NULL, hold, NULL, &bound), 0);
        weft_yield();
    }
    return NULL;
}

TEST(stop_while_caller_runs_ends_with_last_fiber)
{
    for (long i = 0; i < check_scale(100) + 5; i++) {
        struct watched_run run = {.pool = caller_pool((unsigned)i % 2 + 1)};
        CHECK_EQ(weft_pool_start(run.pool), 0);
        pthread_t stopper = thread_open(stop_elsewhere, run.pool);
        int err = weft_pool_run(run.pool, NULL, run_until_stopping, &run, WEFT_FOREVER);
        CHECK(err == 0 || err == -ESHUTDOWN);
        CHECK_EQ((intptr_t)thread_close(stopper), 0);
        weft_pool_destroy(run.pool);
    }
}

TEST(stop_returns_edeadlk_when_running_caller_leaves_work)
{
    for (long i = 0; i < check_scale(100) + 5; i++) {
        struct watched_run run = {.pool = caller_pool((unsigned)i % 2 + 1), .leave_one = true};
        CHECK_EQ(weft_pool_start(run.pool), 0);
        pthread_t stopper = thread_open(stop_elsewhere, run.pool);
        int err = weft_pool_run(run.pool, NULL, run_until_stopping, &run, WEFT_FOREVER);
        CHECK(err == 0 || err == -ESHUTDOWN);
        CHECK_EQ((intptr_t)thread_close(stopper), err ? 0 : -EDEADLK);
        CHECK_EQ(weft_pool_stop(run.pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        weft_pool_destroy(run.pool);
    }
}

struct guest {
    weft_pool *home, *away;
    atomic_bool entered, open;
};

static void *wait_at_gate(void *arg)
{
    struct guest *guest = arg;
    atomic_store(&guest->entered, true);
    while (!atomic_load(&guest->open)) {
        weft_yield();
    }
    return NULL;
}

static void *visit(void *arg)
{
    struct guest *guest = arg;
    CHECK_EQ(weft_pool_call(guest->away, NULL, 0, wait_at_gate, guest, WEFT_FOREVER), 0);
    return NULL;
}

static void *send_visitor(void *arg)
{
    struct guest *guest = arg;
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    CHECK_EQ(weft_spawn(NULL, visit, guest, &bound), 0);
    while (!atomic_load(&guest->entered)) {
        weft_yield();
    }
    return NULL;
}

TEST(stop_needing_absent_caller_for_migrated_fiber_is_edeadlk)
{
    struct guest guest = {.away = pool_open(&(struct weft_pool_opts){.workers = 1})};
    guest.home = caller_pool(2);
    CHECK_EQ(weft_pool_start(guest.home), 0);
    CHECK_EQ(weft_pool_run(guest.home, NULL, send_visitor, &guest, WEFT_FOREVER), 0);
    CHECK_EQ(stop_from_a_thread(guest.home), -EDEADLK);
    atomic_store(&guest.open, true);
    pool_close(guest.home);
    pool_close(guest.away);
}

/* --- restart --------------------------------------------------------------------------- */

static void *stop_own_pool(void *arg)
{
    CHECK_EQ(weft_pool_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER), -EINPROGRESS);
    CHECK_EQ(weft_pool_stop(arg, WEFT_STOP_DRAIN, 0), -EINPROGRESS);
    weft_yield();
    return NULL;
}

TEST(stop_by_own_fiber_begins_and_other_thread_completes)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    CHECK_EQ(weft_pool_call(pool, NULL, WEFT_ANY_WORKER, stop_own_pool, pool, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_submit(pool, end_at_once, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_start(pool), -EBUSY);
    pool_close(pool);
    pool = caller_pool(1);
    CHECK_EQ(weft_pool_run(pool, NULL, stop_own_pool, pool, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, end_at_once, NULL, WEFT_FOREVER), -ESHUTDOWN);
    pool_close(pool);
}

static void *cancel_own_pool(void *arg)
{
    CHECK_EQ(weft_pool_stop(arg, WEFT_STOP_CANCEL, WEFT_FOREVER), -EINPROGRESS);
    return (void *)(intptr_t)weft_fiber_park(WEFT_FOREVER);
}

TEST(cancelling_stop_by_own_fiber_cancels_immediately)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber held, stopper;
    void *result;
    CHECK_EQ(weft_pool_spawn(pool, &held, hold, NULL, NULL), 0);
    CHECK_EQ(weft_pool_spawn(pool, &stopper, cancel_own_pool, pool, NULL), 0);
    CHECK_EQ(weft_join(held, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    CHECK_EQ(weft_join(stopper, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    pool_close(pool);
}

TEST(second_start_changes_nothing)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    int before[2], after[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_call(pool, NULL, i, report_tid, &before[i], WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_call(pool, NULL, i, report_tid, &after[i], WEFT_FOREVER), 0);
        CHECK_EQ(before[i], after[i]);
    }
    pool_close(pool);
}

TEST(stopped_pool_can_be_restarted)
{
    atomic_int ran = 0;
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    for (int i = 1; i <= 20; i++) {
        weft_fiber held;
        CHECK_EQ(weft_pool_start(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
        CHECK_EQ(weft_pool_spawn(pool, &held, hold, NULL, NULL), 0);
        void *result;
        if (i % 2) { /* a cancelling stop leaves no trace after the restart */
            CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        } else {
            CHECK_EQ(weft_fiber_unpark(held), 0);
            CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        }
        CHECK_EQ(weft_join(held, &result, 0), 0);
        CHECK_EQ((intptr_t)result, i % 2 ? -ECANCELED : 0);
        CHECK_EQ(atomic_load(&ran), i);
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), -ESHUTDOWN);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    }
    weft_pool_destroy(pool);
}

TEST(stopped_pool_with_caller_can_be_restarted)
{
    atomic_int ran = 0;
    weft_pool *pool = caller_pool(2);
    for (int i = 1; i <= 20; i++) {
        CHECK_EQ(weft_pool_start(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
        CHECK_EQ(weft_pool_run(pool, NULL, end_at_once, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&ran), i);
        CHECK_EQ(weft_pool_run(pool, NULL, end_at_once, NULL, WEFT_FOREVER), -ESHUTDOWN);
    }
    weft_pool_destroy(pool);
}

TEST(pool_never_started_can_be_stopped_and_destroyed)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, NULL), 0);
    weft_pool_destroy(pool);
    CHECK_EQ(weft_pool_create(&pool, NULL), 0);
    pool_close(pool);
    weft_pool_destroy(NULL);
}

static void destroy_running(void *arg)
{
    (void)arg;
    weft_pool_destroy(pool_open(&(struct weft_pool_opts){.workers = 1, .name = "early"}));
}

static void destroy_filled(void *arg)
{
    (void)arg;
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .name = "early"}), 0);
    CHECK_EQ(weft_pool_submit(pool, end_at_once, NULL), 0);
    weft_pool_destroy(pool);
}

static void check_asserts(void (*fn)(void *))
{
    char err[CHECK_ERR];
    int status = check_child(fn, NULL, err, sizeof err);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    CHECK(strstr(err, "pool early is destroyed") != NULL);
}

TEST(destroy_of_pool_before_stop_aborts)
{
    check_asserts(destroy_running);
    check_asserts(destroy_filled);
}
