/* The ways to stop a pool, and the guarantees during and after each. */
/* labels: valgrind */
#include <fcntl.h>

#include "pool/fixture.h"

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

static weft_fiber spawn_held(weft_pool *pool)
{
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, hold, NULL, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    return fiber;
}

static intptr_t joined(weft_fiber fiber)
{
    void *result;
    CHECK_EQ(weft_join(fiber, &result, 0), 0);
    return (intptr_t)result;
}

/* --- drain ------------------------------------------------------------------------- */

static atomic_int leaves;

static void *grow(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0) {
        weft_fiber_park(weft_after(100000));
        atomic_fetch_add(&leaves, 1);
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_spawn(NULL, grow, (void *)(depth - 1), NULL), 0);
    }
    return NULL;
}

TEST(draining_stop_waits_for_fibers_and_their_spawns)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = workers});
        CHECK_EQ(weft_pool_submit(pool, grow, (void *)5), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_exchange(&leaves, 0), 243);
        CHECK_EQ(pool_live(pool), 0);
        weft_pool_destroy(pool);
    }
}

TEST(draining_stop_within_deadline_cancels_nothing)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber held = spawn_held(pool);
    CHECK_EQ(weft_fiber_unpark(held), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, weft_after(300000000000)), 0);
    CHECK_EQ(joined(held), 0);
    weft_pool_destroy(pool);
}

TEST(draining_stop_cancels_at_its_deadline)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber held[10];
    for (int i = 0; i < 10; i++) {
        held[i] = spawn_held(pool);
    }
    int64_t deadline = weft_after(5000000);
    CHECK_EQ(stop_by(pool, deadline), 0);
    CHECK(weft_now() >= deadline);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(joined(held[i]), -ECANCELED);
    }
    weft_pool_destroy(pool);
}

TEST(draining_stop_with_past_deadline_cancels_immediately)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber held = spawn_held(pool);
    CHECK_EQ(stop_by(pool, 0), 0);
    CHECK_EQ(joined(held), -ECANCELED);
    weft_pool_destroy(pool);
}

/* --- cancel ------------------------------------------------------------------------ */

struct waits {
    weft_pool *pool;
    atomic_int cancelled;
};

static void *join_a_held_one(void *arg)
{
    struct waits *waits = arg;
    weft_fiber child;
    CHECK_EQ(weft_spawn(&child, hold, NULL, NULL), 0);
    int err = weft_join(child, NULL, WEFT_FOREVER);
    CHECK(err == -ECANCELED || err == 0); /* the child may have been cancelled and ended first */
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    CHECK(weft_fiber_is_cancelled());
    CHECK_EQ(weft_fiber_park(weft_after(1000000000)), -ECANCELED); /* a state, not an event */
    return count_up(&waits->cancelled);
}

static void *compute_until_cancelled(void *arg)
{
    struct waits *waits = arg;
    while (!weft_fiber_is_cancelled()) {
        weft_yield();
    }
    return count_up(&waits->cancelled);
}

static void *nap_until_cancelled(void *arg)
{
    struct waits *waits = arg;
    CHECK_EQ(weft_fiber_park(weft_after(3600000000000)), -ECANCELED);
    return count_up(&waits->cancelled);
}

TEST(cancelling_stop_ends_every_kind_of_wait)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct waits waits = {.pool = pool_open(&(struct weft_pool_opts){.workers = workers})};
        struct weft_fiber_opts bound = {.bound = true, .worker = (int)workers - 1};
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(weft_pool_submit(waits.pool, join_a_held_one, &waits), 0);
            CHECK_EQ(weft_pool_spawn(waits.pool, NULL, nap_until_cancelled, &waits, &bound), 0);
            CHECK_EQ(weft_pool_submit(waits.pool, compute_until_cancelled, &waits), 0);
        }
        CHECK_EQ(weft_pool_stop(waits.pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&waits.cancelled), 15);
        weft_pool_destroy(waits.pool);
    }
}

TEST(unstarted_fibers_run_once_and_see_cancel)
{
    struct waits waits = {.cancelled = 0};
    CHECK_EQ(weft_pool_create(&waits.pool, &(struct weft_pool_opts){.workers = 1}), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_submit(waits.pool, nap_until_cancelled, &waits), 0);
    }
    CHECK_EQ(weft_pool_stop(waits.pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&waits.cancelled), 10);
    weft_pool_destroy(waits.pool);
}

/* Each fiber ends when it is cancelled, but leaves a child that waits for ever: if the stop misses
 * a child, the stop hangs. */
static void *leave_a_child(void *arg)
{
    struct waits *waits = arg;
    while (!weft_fiber_is_cancelled()) {
        CHECK_EQ(weft_spawn(NULL, hold, NULL, NULL), 0);
        weft_yield();
        struct weft_pool_stats stats;
        weft_pool_stats(waits->pool, &stats);
        if (stats.live > 500) {
            weft_fiber_park(WEFT_FOREVER);
        }
    }
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    CHECK_EQ(weft_spawn(NULL, hold, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, hold, NULL, &bound), 0);
    struct weft_job job = {hold, NULL};
    CHECK_EQ(weft_pool_submit_batch(waits->pool, &job, 1), 0);
    return NULL;
}

TEST(cancelling_stop_reaches_fibers_spawned_during_stop)
{
    long rounds = check_scale(200) + 5;
    for (long i = 0; i < rounds; i++) {
        struct waits waits = {.pool = pool_open(&(struct weft_pool_opts){.workers = 3})};
        for (int n = 0; n < 4; n++) {
            CHECK_EQ(weft_pool_submit(waits.pool, leave_a_child, &waits), 0);
        }
        while (pool_live(waits.pool) < 50) {
            sched_yield();
        }
        CHECK_EQ(weft_pool_stop(waits.pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ(pool_live(waits.pool), 0);
        weft_pool_destroy(waits.pool);
    }
}

TEST(stop_cancels_nothing_in_other_pools)
{
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber ours = spawn_held(a), theirs = spawn_held(b);
    weft_fiber unsubmitted;
    CHECK_EQ(weft_fiber_create(&unsubmitted, hold, NULL, NULL), 0);
    CHECK_EQ(weft_pool_stop(a, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    CHECK_EQ(joined(ours), -ECANCELED);
    CHECK_EQ(weft_fiber_submit(unsubmitted, b, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_unpark(theirs), 0);
    CHECK_EQ(weft_fiber_unpark(unsubmitted), 0);
    pool_close(b);
    CHECK_EQ(joined(theirs), 0);
    CHECK_EQ(joined(unsubmitted), 0);
    weft_pool_destroy(a);
}

TEST(unknown_stop_mode_is_rejected)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_stop(pool, (enum weft_stop_mode)9, WEFT_FOREVER), -EINVAL);
    atomic_int ran = 0;
    CHECK_EQ(weft_pool_call(pool, NULL, 0, count_up, &ran, WEFT_FOREVER),
             0); /* nothing was stopped */
    pool_close(pool);
}

/* --- fibers that do not end --------------------------------------------------------- */

static void *ignore_cancel(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        weft_fiber_park(weft_after(1000000)); /* -ECANCELED at once */
        weft_yield();
    }
    return NULL;
}

/* Redirects stderr to a file. */
static int capture_begin(void)
{
    char path[] = "/tmp/weft-stop-XXXXXX";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    CHECK(file >= 0 && before >= 0);
    unlink(path);
    fflush(stderr);
    CHECK(dup2(file, STDERR_FILENO) >= 0);
    close(file);
    return before;
}

static void capture_end(int before, char *text, size_t size)
{
    fflush(stderr);
    int file = dup(STDERR_FILENO);
    CHECK(file >= 0 && dup2(before, STDERR_FILENO) >= 0);
    ssize_t n = pread(file, text, size - 1, 0);
    CHECK(n >= 0);
    text[n] = '\0';
    close(before);
    close(file);
}

TEST(stop_gives_up_on_stuck_fiber_with_dump_and_can_be_retried)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "mulish"});
    atomic_bool let_go = false;
    atomic_int ran = 0;
    char text[8192];
    CHECK_EQ(weft_pool_spawn(pool, NULL, ignore_cancel, &let_go,
                             &(struct weft_fiber_opts){.name = "mule"}),
             0);
    int before = capture_begin();
    int64_t deadline = weft_after(20000000);
    int err = weft_pool_stop(pool, WEFT_STOP_CANCEL, deadline);
    int again = weft_pool_stop(pool, WEFT_STOP_CANCEL, weft_after(1000000));
    int64_t ended = weft_now();
    capture_end(before, text, sizeof text);
    CHECK_EQ(err, -EBUSY);
    CHECK_EQ(again, -EBUSY);
    CHECK(ended >= deadline);
    CHECK(strstr(text, "pool mulish") != NULL);
    CHECK(strstr(text, "mule") != NULL);
    CHECK(strstr(text, "stopping=yes") != NULL);
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), -ESHUTDOWN);
    atomic_store(&let_go, true);
    pool_close(pool);
}

/* --- concurrent stops ----------------------------------------------------------------- */

static void *stop_too(void *arg)
{
    return (void *)(intptr_t)weft_pool_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER);
}

TEST(concurrent_stops_all_succeed)
{
    long rounds = check_scale(100) + 5;
    for (long i = 0; i < rounds; i++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
        CHECK_EQ(weft_pool_submit(pool, grow, (void *)2), 0);
        pthread_t others[3];
        for (int n = 0; n < 3; n++) {
            others[n] = thread_open(stop_too, pool);
        }
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_exchange(&leaves, 0), 9);
        for (int n = 0; n < 3; n++) {
            CHECK_EQ((intptr_t)thread_close(others[n]), 0);
        }
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, 0), 0);
        weft_pool_destroy(pool);
    }
}

TEST(cancelling_stop_overtakes_draining_stop)
{
    for (int i = 0; i < 20; i++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
        weft_fiber held = spawn_held(pool);
        pthread_t other = thread_open(stop_too, pool);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)thread_close(other), 0);
        CHECK_EQ(joined(held), -ECANCELED);
        weft_pool_destroy(pool);
    }
}

static void *start_it(void *arg)
{
    return (void *)(intptr_t)weft_pool_start(arg);
}

TEST(concurrent_stop_and_start_leave_pool_stopped_or_running)
{
    long rounds = check_scale(200) + 10;
    for (long i = 0; i < rounds; i++) {
        weft_pool *pool;
        atomic_int ran = 0;
        CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
        pthread_t starter = thread_open(start_it, pool);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        intptr_t err = (intptr_t)thread_close(starter);
        CHECK(err == 0 || err == -EBUSY);
        if (weft_pool_submit(pool, count_up, &ran) == 0) {
            await_count(&ran, 1);
        }
        pool_close(pool);
    }
}

/* --- stop races with submit --------------------------------------------------------------- */

struct storm {
    weft_pool *pool;
    atomic_int accepted, ran;
    atomic_bool stopped;
};

static void *note_run(void *arg)
{
    struct storm *storm = arg;
    CHECK(!atomic_load(&storm->stopped));
    weft_yield();
    CHECK(!atomic_load(&storm->stopped));
    atomic_fetch_add(&storm->ran, 1);
    return NULL;
}

static void *submit_until_refused(void *arg)
{
    struct storm *storm = arg;
    struct weft_job jobs[3] = {{note_run, storm}, {note_run, storm}, {note_run, storm}};
    weft_fiber created;
    struct weft_fiber_opts detached = {.detached = true};
    struct weft_fiber_opts bound = {.bound = true, .worker = 1};
    int err;
    do {
        while (atomic_load(&storm->accepted) - atomic_load(&storm->ran) > 100) {
            sched_yield(); /* a backlog would only prolong the stop */
        }
        err = weft_pool_submit(storm->pool, note_run, storm);
        atomic_fetch_add(&storm->accepted, err == 0);
        err = err ? err : weft_pool_submit_batch(storm->pool, jobs, 3);
        atomic_fetch_add(&storm->accepted, err == 0 ? 3 : 0);
        err = err ? err : weft_pool_spawn(storm->pool, NULL, note_run, storm, &bound);
        atomic_fetch_add(&storm->accepted, err == 0);
    } while (err == 0);
    CHECK_EQ(err, -ESHUTDOWN);
    CHECK_EQ(weft_pool_submit(storm->pool, note_run, storm), -ESHUTDOWN);
    CHECK_EQ(weft_fiber_create(&created, note_run, storm, &detached), 0);
    CHECK_EQ(weft_fiber_submit(created, storm->pool, WEFT_ANY_WORKER), -ESHUTDOWN);
    CHECK_EQ(weft_fiber_discard(created), 0);
    return NULL;
}

TEST(late_submit_is_rejected_and_nothing_runs_after_stop)
{
    long rounds = check_scale(100) + 5;
    for (long i = 0; i < rounds; i++) {
        struct storm storm = {.pool = pool_open(&(struct weft_pool_opts){.workers = 2})};
        pthread_t submitters[2];
        for (int n = 0; n < 2; n++) {
            submitters[n] = thread_open(submit_until_refused, &storm);
        }
        await_count(&storm.ran, (int)(i % 20));
        CHECK_EQ(weft_pool_stop(storm.pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        atomic_store(&storm.stopped, true);
        for (int n = 0; n < 2; n++) {
            thread_close(submitters[n]);
        }
        CHECK_EQ(atomic_load(&storm.ran), atomic_load(&storm.accepted));
        CHECK_EQ(pool_live(storm.pool), 0);
        weft_pool_destroy(storm.pool);
    }
}

/* --- from a fiber of another pool -------------------------------------------------------- */

struct other {
    weft_pool *pool;
    atomic_bool progress, stopped;
    int err;
};

static void *stop_other(void *arg)
{
    struct other *other = arg;
    other->err = weft_pool_stop(other->pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    atomic_store(&other->stopped, true);
    return NULL;
}

static void *go_on_meanwhile(void *arg)
{
    struct other *other = arg;
    atomic_store(&other->progress, true);
    return NULL;
}

static void *end_after_progress(void *arg)
{
    struct other *other = arg;
    while (!atomic_load(&other->progress)) {
        weft_yield();
    }
    return NULL;
}

TEST(fiber_stopping_other_pool_does_not_block_its_worker)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    for (int i = 0; i < 50; i++) {
        struct other other = {.pool = pool_open(&(struct weft_pool_opts){.workers = 1})};
        CHECK_EQ(weft_pool_submit(other.pool, end_after_progress, &other), 0);
        weft_fiber stopper;
        CHECK_EQ(weft_pool_spawn(pool, &stopper, stop_other, &other, NULL), 0);
        await_state(stopper, WEFT_FIBER_WAITING);
        CHECK_EQ(weft_pool_submit(pool, go_on_meanwhile, &other), 0);
        CHECK_EQ(weft_join(stopper, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(other.err, 0);
        weft_pool_destroy(other.pool);
    }
    pool_close(pool);
}

TEST(fiber_cancelled_while_stopping_other_pool_can_stop_again)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct other other = {.pool = pool_open(&(struct weft_pool_opts){.workers = 1})};
    CHECK_EQ(weft_pool_submit(other.pool, end_after_progress, &other), 0);
    weft_fiber stopper;
    CHECK_EQ(weft_pool_spawn(pool, &stopper, stop_other, &other, NULL), 0);
    await_state(stopper, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(stopper), 0);
    CHECK_EQ(weft_join(stopper, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(other.err, -ECANCELED);
    atomic_store(&other.progress, true);
    pool_close(other.pool);
    pool_close(pool);
}

/* --- many short-lived pools --------------------------------------------------------------- */

TEST(short_lived_pools_lose_no_wake_up_and_leak_nothing)
{
    long rounds = check_scale(300) + 20;
    struct weft_memory_stats warm, now;
    weft_memory_stats(&warm);
    for (long i = 0; i < rounds; i++) {
        atomic_int ran = 0;
        weft_pool *pool;
        struct weft_pool_opts opts = {.workers = (unsigned)(i % 4) + 1,
                                      .caller = i % 3 == 0,
                                      .ring_slots = 4,
                                      .fresh_slots = 2,
                                      .spin_ns = i % 5 ? -1 : 10000};
        CHECK_EQ(weft_pool_create(&pool, &opts), 0);
        if (i % 7) {
            CHECK_EQ(weft_pool_start(pool), 0);
        }
        int submits = (int)(i % 6);
        for (int n = 0; n < submits; n++) {
            struct weft_fiber_opts bound = {.bound = n % 2, .worker = (int)(opts.workers - 1)};
            CHECK_EQ(weft_pool_spawn(pool, NULL, count_up, &ran, &bound), 0);
        }
        CHECK_EQ(weft_pool_stop(pool, i % 2 ? WEFT_STOP_DRAIN : WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&ran), submits);
        weft_pool_destroy(pool);
        if (i == rounds / 2) {
            weft_memory_stats(&warm);
        }
    }
    weft_memory_stats(&now);
    CHECK_EQ(now.blocks, warm.blocks);
    CHECK_EQ(now.reserved_bytes, warm.reserved_bytes);
}
