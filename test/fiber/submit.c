/* Submitting: to any worker or bound to one, singly or in a batch; and which pool and worker a
 * fiber runs on. */
/* labels: valgrind */
#include "pool/fixture.h"

/* --- current pool and worker --------------------------------------------------- */

TEST(plain_thread_belongs_to_no_pool)
{
    CHECK(weft_pool_self() == NULL);
    CHECK_EQ(weft_worker_self(), -1);
    CHECK_EQ(weft_self(), WEFT_NO_FIBER);
}

struct place {
    weft_pool *pool;
    int worker;
    weft_fiber self;
};

static void *report_place(void *arg)
{
    struct place *place = arg;
    *place = (struct place){weft_pool_self(), weft_worker_self(), weft_self()};
    return NULL;
}

TEST(fiber_knows_its_pool_worker_and_handle)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
    for (int i = 0; i < 3; i++) {
        struct place place;
        weft_fiber fiber;
        struct weft_fiber_opts bound = {.bound = true, .worker = i};
        CHECK_EQ(weft_pool_spawn(pool, &fiber, report_place, &place, &bound), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK(place.pool == pool);
        CHECK_EQ(place.worker, i);
        CHECK_EQ(place.self, fiber);
    }
    pool_close(pool);
}

static void *check_pool(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK(weft_pool_self() == arg);
        weft_yield();
    }
    return NULL;
}

TEST(several_pools_in_one_process_are_independent)
{
    enum { POOLS = 4, FIBERS = 50 };
    weft_pool *pools[POOLS];
    for (int i = 0; i < POOLS; i++) {
        pools[i] = pool_open(&(struct weft_pool_opts){.workers = (unsigned)i % 2 + 1});
    }
    for (int n = 0; n < FIBERS; n++) {
        for (int i = 0; i < POOLS; i++) {
            CHECK_EQ(weft_pool_submit(pools[i], check_pool, pools[i]), 0);
        }
    }
    for (int i = 0; i < POOLS; i++) {
        pool_close(pools[i]);
    }
}

static void *submit_to_other(void *arg)
{
    struct place place;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(arg, &fiber, report_place, &place, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK(place.pool == arg);
    CHECK(weft_pool_self() != arg);
    return NULL;
}

TEST(fiber_submits_to_other_pool_and_joins)
{
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_submit(a, submit_to_other, b), 0);
    pool_close(a);
    pool_close(b);
}

/* --- plain submits -------------------------------------------------------------- */

static void *count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

TEST(submit_before_start_runs_after_start)
{
    weft_pool *pool;
    atomic_int ran = 0;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    struct weft_fiber_opts bound = {.bound = true, .worker = 1};
    CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
    CHECK_EQ(weft_pool_spawn(pool, NULL, count_up, &ran, &bound), 0);
    CHECK_EQ(atomic_load(&ran), 0);
    CHECK_EQ(pool_live(pool), 2);
    CHECK_EQ(weft_pool_start(pool), 0);
    await_count(&ran, 2);
    pool_close(pool);
}

TEST(submit_without_function_is_rejected)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_submit(pool, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_pool_spawn(pool, NULL, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(pool_live(pool), 0);
    pool_close(pool);
}

struct storm {
    weft_pool *pool;
    int fibers;
    atomic_int *runs;
};

static void *submit_storm(void *arg)
{
    struct storm *storm = arg;
    for (int i = 0; i < storm->fibers; i++) {
        CHECK_EQ(weft_pool_submit(storm->pool, count_up, &storm->runs[i]), 0);
    }
    return NULL;
}

TEST(concurrent_submits_each_run_exactly_once)
{
    enum { THREADS = 4 };
    int each = (int)check_scale(3000);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3, .ring_slots = 8});
    struct storm storms[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        storms[i] = (struct storm){pool, each, calloc((size_t)each, sizeof(atomic_int))};
        threads[i] = thread_open(submit_storm, &storms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        thread_close(threads[i]);
    }
    pool_close(pool);
    for (int i = 0; i < THREADS; i++) {
        for (int n = 0; n < each; n++) {
            CHECK_EQ(atomic_load(&storms[i].runs[n]), 1);
        }
        free(storms[i].runs);
    }
}

/* --- bound ------------------------------------------------------------------------- */

TEST(binding_to_invalid_worker_is_rejected)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 2; i++) {
        struct weft_fiber_opts bad = {.bound = true, .worker = i ? 2 : -1};
        weft_fiber fiber;
        CHECK_EQ(weft_pool_spawn(pool, NULL, count_up, NULL, &bad), -EINVAL);
        CHECK_EQ(weft_fiber_create(&fiber, count_up, NULL, NULL), 0);
        CHECK_EQ(weft_fiber_submit(fiber, pool, i ? 2 : -2), -EINVAL);
        CHECK_EQ(weft_fiber_discard(fiber), 0);
    }
    pool_close(pool);
}

static void *end_at_once(void *arg)
{
    return arg;
}

static void *stay_bound(void *arg)
{
    int rounds = (int)(intptr_t)arg;
    int home = weft_worker_self();
    for (int i = 0; i < rounds; i++) {
        weft_yield();
        CHECK_EQ(weft_worker_self(), home);
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        CHECK_EQ(weft_worker_self(), home);
        weft_fiber child;
        CHECK_EQ(weft_spawn(&child, end_at_once, NULL, NULL), 0);
        CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_worker_self(), home);
        if (i % 64 == 0) {
            int err = weft_fiber_park(weft_after(100000));
            CHECK(err == -ETIMEDOUT || err == 0);
            CHECK_EQ(weft_worker_self(), home);
        }
    }
    return (void *)(intptr_t)home;
}

/* Unparks come from plain threads and from fibers that move between workers. */
struct wakers {
    weft_fiber fibers[4];
    atomic_bool stop;
};

static void *keep_waking(void *arg)
{
    struct wakers *wakers = arg;
    while (!atomic_load(&wakers->stop)) {
        for (int i = 0; i < 4; i++) {
            weft_fiber_unpark(wakers->fibers[i]);
        }
        weft_yield();
    }
    return NULL;
}

TEST(binding_survives_every_kind_of_suspension)
{
    intptr_t rounds = check_scale(2000);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 4});
    struct wakers wakers = {.stop = false};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_fiber_create(&wakers.fibers[i], stay_bound, (void *)rounds, NULL), 0);
        CHECK_EQ(weft_fiber_submit(wakers.fibers[i], pool, i), 0);
    }
    weft_fiber inside;
    CHECK_EQ(weft_pool_spawn(pool, &inside, keep_waking, &wakers, NULL), 0);
    pthread_t outside = thread_open(keep_waking, &wakers);
    for (int i = 0; i < 4; i++) {
        void *home;
        CHECK_EQ(weft_join(wakers.fibers[i], &home, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)home, i);
    }
    atomic_store(&wakers.stop, true);
    thread_close(outside);
    CHECK_EQ(weft_join(inside, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

static void *check_worker(void *arg)
{
    CHECK_EQ(weft_worker_self(), (intptr_t)arg);
    return NULL;
}

static void *spawn_for_others(void *arg)
{
    for (intptr_t i = 0; i < 200; i++) {
        intptr_t worker = i % (intptr_t)arg;
        struct weft_fiber_opts opts = {.bound = true, .worker = (int)worker};
        CHECK_EQ(weft_spawn(NULL, check_worker, (void *)worker, &opts), 0);
    }
    return NULL;
}

TEST(fibers_spawned_for_other_workers_run_there)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, spawn_for_others, (void *)3), 0);
    }
    pool_close(pool);
}

/* --- batches ------------------------------------------------------------------------- */

enum { BATCH = 100 };

static void fill_batch(struct weft_job *jobs, atomic_int *ran)
{
    for (int i = 0; i < BATCH; i++) {
        jobs[i] = (struct weft_job){count_up, ran};
    }
}

TEST(every_job_of_batch_runs_once)
{
    struct weft_job jobs[BATCH];
    atomic_int ran[BATCH] = {0};
    for (int i = 0; i < BATCH; i++) {
        jobs[i] = (struct weft_job){count_up, &ran[i]};
    }
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .ring_slots = 4});
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, BATCH), 0);
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, 0), 0);
    pool_close(pool);
    for (int i = 0; i < BATCH; i++) {
        CHECK_EQ(atomic_load(&ran[i]), 1);
    }
}

static void *hold(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

TEST(rejected_batch_runs_no_job)
{
    struct weft_job jobs[BATCH];
    atomic_int ran = 0;
    fill_batch(jobs, &ran);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .max_fibers = BATCH});
    jobs[BATCH - 1].fn = NULL;
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, BATCH), -EINVAL);
    CHECK_EQ(pool_live(pool), 0);

    weft_fiber held;
    jobs[BATCH - 1].fn = count_up;
    CHECK_EQ(weft_pool_spawn(pool, &held, hold, NULL, NULL), 0);
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, BATCH), -EAGAIN);
    CHECK_EQ(pool_live(pool), 1);
    CHECK_EQ(weft_fiber_unpark(held), 0);
    CHECK_EQ(weft_fiber_detach(held), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 0);
}

TEST(stopped_pool_rejects_batch)
{
    struct weft_job jobs[BATCH];
    atomic_int ran = 0;
    fill_batch(jobs, &ran);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, BATCH), -ESHUTDOWN);
    CHECK_EQ(pool_live(pool), 0);
    weft_pool_destroy(pool);
    CHECK_EQ(atomic_load(&ran), 0);
}

static void await_parked(weft_pool *pool, unsigned worker)
{
    struct weft_worker_stats stats;
    do {
        sched_yield();
        CHECK_EQ(weft_worker_stats(pool, &stats, worker), 0);
    } while (stats.state != WEFT_WORKER_PARKED);
}

static uint64_t wakes_of(weft_pool *pool)
{
    struct weft_pool_stats stats;
    weft_pool_stats(pool, &stats);
    return stats.total.wakes;
}

TEST(batch_wakes_sleeping_worker_once)
{
    struct weft_job jobs[BATCH];
    atomic_int ran = 0;
    fill_batch(jobs, &ran);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .spin_ns = -1});
    for (int round = 1; round <= 20; round++) {
        await_parked(pool, 0);
        uint64_t before = wakes_of(pool);
        CHECK_EQ(weft_pool_submit_batch(pool, jobs, BATCH), 0);
        await_count(&ran, round * BATCH);
        await_parked(pool, 0);
        CHECK_EQ(wakes_of(pool), before + 1);
    }
    pool_close(pool);
}

/* --- from inside, during a stop ------------------------------------------------------- */

struct late {
    weft_pool *pool;
    atomic_int ran;
};

static void *go_on_submitting(void *arg)
{
    struct late *late = arg;
    CHECK_EQ(weft_pool_stop(late->pool, WEFT_STOP_DRAIN, WEFT_FOREVER), -EINPROGRESS);
    struct weft_job jobs[BATCH];
    weft_fiber created;
    fill_batch(jobs, &late->ran);
    CHECK_EQ(weft_spawn(NULL, count_up, &late->ran, NULL), 0);
    CHECK_EQ(weft_pool_submit(late->pool, count_up, &late->ran), 0);
    CHECK_EQ(weft_pool_submit_batch(late->pool, jobs, BATCH), 0);
    struct weft_fiber_opts detached = {.detached = true};
    CHECK_EQ(weft_fiber_create(&created, count_up, &late->ran, &detached), 0);
    CHECK_EQ(weft_fiber_submit(created, late->pool, WEFT_ANY_WORKER), 0);
    return NULL;
}

TEST(fibers_of_stopping_pool_can_submit_to_pool)
{
    struct late late = {.ran = 0};
    late.pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    CHECK_EQ(weft_pool_submit(late.pool, go_on_submitting, &late), 0);
    pool_close(late.pool);
    CHECK_EQ(atomic_load(&late.ran), 3 + BATCH);
}
