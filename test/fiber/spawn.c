/* Creating fibers: spawned from fibers and plain threads, created first and submitted later, or
 * refused with a clear error and without side effects. */
/* labels: valgrind */
#include "pool/fixture.h"

static atomic_int ran;

static void *count_run(void *arg)
{
    atomic_fetch_add(&ran, 1);
    return arg;
}

static void *add_one(void *arg)
{
    return (void *)((intptr_t)arg + 1);
}

static void *wait_for_unpark(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

/* --- from a fiber ------------------------------------------------------------ */

static void *spawns_joinable(void *arg)
{
    (void)arg;
    weft_fiber fibers[50];
    for (intptr_t i = 0; i < 50; i++) {
        fibers[i] = WEFT_NO_FIBER;
        CHECK_EQ(weft_spawn(&fibers[i], add_one, (void *)i, NULL), 0);
        CHECK(fibers[i] != WEFT_NO_FIBER);
    }
    for (intptr_t i = 0; i < 50; i++) {
        void *result = NULL;
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i + 1);
    }
    return (void *)50;
}

TEST(join_returns_value_of_fiber)
{
    CHECK_EQ((intptr_t)run_in_fiber(1, spawns_joinable, NULL), 50);
    CHECK_EQ((intptr_t)run_in_fiber(3, spawns_joinable, NULL), 50);
}

static void *spawns_detached(void *arg)
{
    weft_fiber named = WEFT_NO_FIBER;
    (void)arg;
    atomic_store(&ran, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_spawn(NULL, count_run, NULL, NULL), 0);
    }
    CHECK_EQ(weft_spawn(&named, wait_for_unpark, NULL, &(struct weft_fiber_opts){.detached = true}),
             0);
    CHECK(named != WEFT_NO_FIBER);
    CHECK_EQ(weft_join(named, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_fiber_unpark(named), 0);
    await_count(&ran, 20);
    while (weft_fiber_unpark(named) != -ESRCH) {
        weft_yield();
    }
    CHECK_EQ(weft_join(named, NULL, WEFT_FOREVER), -ESRCH);
    return NULL;
}

TEST(detached_fiber_runs_and_is_freed)
{
    run_in_fiber(1, spawns_detached, NULL);
    run_in_fiber(2, spawns_detached, NULL);
}

static void *tells_where_it_is(void *arg)
{
    weft_fiber *self = arg;
    CHECK(weft_pool_self() != NULL);
    CHECK(weft_worker_self() >= 0);
    *self = weft_self();
    return NULL;
}

static void *asks_child_who_it_is(void *arg)
{
    weft_fiber told = WEFT_NO_FIBER, child;
    (void)arg;
    CHECK_EQ(weft_spawn(&child, tells_where_it_is, &told, NULL), 0);
    CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(told, child);
    CHECK(weft_self() != child);
    return NULL;
}

TEST(self_returns_own_handle)
{
    CHECK_EQ(weft_self(), WEFT_NO_FIBER);
    CHECK(weft_pool_self() == NULL);
    CHECK_EQ(weft_worker_self(), -1);
    run_in_fiber(1, asks_child_who_it_is, NULL);
}

/* --- from plain threads --------------------------------------------------------- */

TEST(spawn_from_plain_thread_without_pool_is_rejected)
{
    weft_fiber fiber = 77;
    CHECK_EQ(weft_spawn(&fiber, add_one, NULL, NULL), -ENXIO);
    CHECK_EQ(weft_spawn(NULL, add_one, NULL, NULL), -ENXIO);
    CHECK_EQ(fiber, 77);
}

#define THREADS 4

static void *spawns_from_outside(void *arg)
{
    weft_pool *pool = arg;
    intptr_t sum = 0;
    for (intptr_t i = 0, n = check_scale(400) + 20; i < n; i++) {
        weft_fiber fiber;
        void *result;
        CHECK_EQ(weft_pool_spawn(pool, &fiber, add_one, (void *)i, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, count_run, NULL), 0);
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        sum += (intptr_t)result - i;
    }
    return (void *)sum;
}

TEST(concurrent_spawns_from_plain_threads_lose_nothing)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    pthread_t threads[THREADS];
    int expected = (int)check_scale(400) + 20;
    atomic_store(&ran, 0);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_open(spawns_from_outside, pool);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ((intptr_t)thread_close(threads[i]), expected);
    }
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), THREADS * expected);
}

TEST(fiber_spawned_before_pool_start_runs_after_start)
{
    weft_pool *pool;
    weft_fiber fiber;
    enum weft_fiber_state state;
    void *result;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, add_one, (void *)41, NULL), 0);
    CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    CHECK_EQ(state, WEFT_FIBER_READY);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 42);
    pool_close(pool);
}

/* --- refused ----------------------------------------------------------------------- */

static const struct weft_fiber_opts bad_opts[] = {
    {.stack_bytes = ((size_t)64 << 20) + 1},
    {.stack_bytes = SIZE_MAX},
    {.bound = true, .worker = 2},
    {.bound = true, .worker = -1},
    {.bound = true, .worker = INT32_MIN},
    {.bound = true, .worker = INT32_MAX},
};

static void *tries_bad_options(void *arg)
{
    weft_fiber fiber = 77;
    uint64_t before = pool_live(weft_pool_self());
    (void)arg;
    for (size_t i = 0; i < sizeof bad_opts / sizeof *bad_opts; i++) {
        CHECK_EQ(weft_spawn(&fiber, add_one, NULL, &bad_opts[i]), -EINVAL);
        CHECK_EQ(weft_spawn(NULL, add_one, NULL, &bad_opts[i]), -EINVAL);
    }
    CHECK_EQ(weft_spawn(&fiber, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(fiber, 77);
    CHECK_EQ(pool_live(weft_pool_self()), before);
    return NULL;
}

TEST(spawn_with_bad_options_fails_and_leaks_nothing)
{
    run_in_fiber(2, tries_bad_options, NULL);

    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber fiber = 77;
    for (size_t i = 0; i < sizeof bad_opts / sizeof *bad_opts; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fiber, add_one, NULL, &bad_opts[i]), -EINVAL);
    }
    CHECK_EQ(weft_pool_spawn(pool, &fiber, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_pool_submit(pool, NULL, NULL), -EINVAL);
    CHECK_EQ(fiber, 77);
    CHECK_EQ(pool_live(pool), 0);
    pool_close(pool);
}

TEST(stopped_pool_rejects_spawn)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber = 77;
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, add_one, NULL, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_submit(pool, add_one, NULL), -ESHUTDOWN);
    CHECK_EQ(fiber, 77);
    CHECK_EQ(pool_live(pool), 0);
    weft_pool_destroy(pool);
}

/* --- created first, submitted later -------------------------------------------------- */

TEST(created_fiber_runs_only_after_submit)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber fiber;
    enum weft_fiber_state state;
    void *result;
    atomic_store(&ran, 0);
    CHECK_EQ(weft_fiber_create(&fiber, count_run, (void *)5, NULL), 0);
    CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    CHECK_EQ(state, WEFT_FIBER_CREATED);
    CHECK_EQ(pool_live(pool), 0);
    CHECK_EQ(atomic_load(&ran), 0);

    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -EALREADY);
    CHECK_EQ(weft_fiber_discard(fiber), -EALREADY);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -EALREADY);
    CHECK_EQ(weft_fiber_discard(fiber), -EALREADY);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 5);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -ESRCH);
    CHECK_EQ(weft_fiber_discard(fiber), -ESRCH);
    CHECK_EQ(atomic_load(&ran), 1);
    pool_close(pool);
}

TEST(running_or_waiting_fiber_cannot_be_submitted_again)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, wait_for_unpark, NULL, NULL), 0);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -EALREADY);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -EALREADY);
    CHECK_EQ(weft_fiber_discard(fiber), -EALREADY);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

struct submit_race {
    weft_pool *pool;
    weft_fiber fiber;
    pthread_barrier_t begin;
    atomic_int won;
};

static void *submits_in_a_race(void *arg)
{
    struct submit_race *race = arg;
    pthread_barrier_wait(&race->begin);
    int err = weft_fiber_submit(race->fiber, race->pool, WEFT_ANY_WORKER);
    CHECK(err == 0 || err == -EALREADY);
    atomic_fetch_add(&race->won, err == 0);
    return NULL;
}

TEST(concurrent_submits_of_one_fiber_have_one_winner)
{
    struct submit_race race = {.pool = pool_open(&(struct weft_pool_opts){.workers = 2})};
    pthread_barrier_init(&race.begin, NULL, THREADS);
    for (long round = 0, n = check_scale(40) + 3; round < n; round++) {
        pthread_t threads[THREADS];
        atomic_store(&ran, 0);
        atomic_store(&race.won, 0);
        CHECK_EQ(weft_fiber_create(&race.fiber, count_run, NULL, NULL), 0);
        for (int i = 0; i < THREADS; i++) {
            threads[i] = thread_open(submits_in_a_race, &race);
        }
        for (int i = 0; i < THREADS; i++) {
            thread_close(threads[i]);
        }
        CHECK_EQ(weft_join(race.fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&race.won), 1);
        CHECK_EQ(atomic_load(&ran), 1);
    }
    pthread_barrier_destroy(&race.begin);
    pool_close(race.pool);
}

TEST(failed_submit_leaves_fiber_submittable_elsewhere)
{
    weft_pool *stopped = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *full = pool_open(&(struct weft_pool_opts){.workers = 1, .max_fibers = 1});
    weft_pool *good = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber fiber, filler;
    enum weft_fiber_state state;
    void *result;
    CHECK_EQ(weft_pool_stop(stopped, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_spawn(full, &filler, wait_for_unpark, NULL, NULL), 0);
    CHECK_EQ(weft_fiber_create(&fiber, add_one, (void *)1, NULL), 0);

    CHECK_EQ(weft_fiber_submit(fiber, stopped, WEFT_ANY_WORKER), -ESHUTDOWN);
    CHECK_EQ(weft_fiber_submit(fiber, full, WEFT_ANY_WORKER), -EAGAIN);
    CHECK_EQ(weft_fiber_submit(fiber, good, 2), -EINVAL);
    CHECK_EQ(weft_fiber_submit(fiber, good, -2), -EINVAL);
    CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    CHECK_EQ(state, WEFT_FIBER_CREATED);
    CHECK_EQ(pool_live(full), 1);
    CHECK_EQ(weft_fiber_submit(fiber, good, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 2);

    CHECK_EQ(weft_fiber_unpark(filler), 0);
    CHECK_EQ(weft_join(filler, NULL, WEFT_FOREVER), 0);
    pool_close(good);
    pool_close(full);
    weft_pool_destroy(stopped);
}

static void *stays_on_worker(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_worker_self(), (intptr_t)arg);
        if (i % 4 == 0) {
            CHECK_EQ(weft_fiber_park(weft_after(1)), -ETIMEDOUT);
        } else {
            weft_yield();
        }
    }
    return NULL;
}

TEST(fiber_submitted_to_one_worker_stays_there)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
    weft_fiber fibers[6];
    for (intptr_t i = 0; i < 6; i++) {
        CHECK_EQ(weft_fiber_create(&fibers[i], stays_on_worker, (void *)(i % 3), NULL), 0);
        CHECK_EQ(weft_fiber_submit(fibers[i], pool, (int)(i % 3)), 0);
    }
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    pool_close(pool);
}

static void *submits_during_drain(void *arg)
{
    weft_pool *pool = weft_pool_self();
    weft_fiber fiber = *(weft_fiber *)arg, spawned;
    void *result;
    struct weft_pool_stats stats;
    do {
        weft_yield();
        weft_pool_stats(pool, &stats);
    } while (!stats.stopping);
    CHECK_EQ(weft_spawn(&spawned, add_one, (void *)1, NULL), 0);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_pool_submit_batch(pool, &(struct weft_job){count_run, NULL}, 1), 0);
    CHECK_EQ(weft_join(spawned, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 7);
    return NULL;
}

TEST(fiber_of_draining_pool_can_still_submit_to_pool)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = workers});
        weft_fiber fiber;
        atomic_store(&ran, 0);
        CHECK_EQ(weft_fiber_create(&fiber, add_one, (void *)6, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, submits_during_drain, &fiber), 0);
        pool_close(pool);
        CHECK_EQ(atomic_load(&ran), 1);
    }
}

TEST(discarded_fiber_never_runs_and_is_freed)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    atomic_store(&ran, 0);
    for (int i = 0; i < 200; i++) {
        weft_fiber fiber;
        struct weft_fiber_opts opts = {.detached = i % 2 == 0, .name = "unwanted"};
        CHECK_EQ(weft_fiber_create(&fiber, count_run, NULL, &opts), 0);
        CHECK_EQ(weft_fiber_discard(fiber), 0);
        CHECK_EQ(weft_fiber_discard(fiber), -ESRCH);
        CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -ESRCH);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ESRCH);
    }
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 0);
}

static void *joins_what_is_discarded(void *arg)
{
    CHECK_EQ(weft_join(*(weft_fiber *)arg, NULL, WEFT_FOREVER), -ECANCELED);
    return NULL;
}

TEST(discard_ends_pending_joins)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber, joiners[3];
    CHECK_EQ(weft_fiber_create(&fiber, count_run, NULL, NULL), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &joiners[i], joins_what_is_discarded, &fiber, NULL), 0);
        await_state(joiners[i], WEFT_FIBER_WAITING);
    }
    CHECK_EQ(weft_fiber_discard(fiber), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(joiners[i], NULL, WEFT_FOREVER), 0);
    }
    pool_close(pool);
}

TEST(fiber_create_rejects_bad_options)
{
    weft_fiber fiber = 77;
    CHECK_EQ(weft_fiber_create(&fiber, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_fiber_create(NULL, add_one, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_fiber_create(&fiber, add_one, NULL,
                               &(struct weft_fiber_opts){.stack_bytes = SIZE_MAX}),
             -EINVAL);
    CHECK_EQ(fiber, 77);
}

static void *create_and_exit(void *arg)
{
    weft_fiber *out = arg;
    CHECK_EQ(weft_fiber_create(out, add_one, (void *)9, NULL), 0);
    return NULL;
}

TEST(created_fiber_outlives_creating_thread)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fiber;
    void *result;
    thread_close(thread_open(create_and_exit, &fiber));
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 10);
    pool_close(pool);
}

/* --- the limit on fibers --------------------------------------------------------------- */

#define LIMIT 8

static void *fills_the_pool(void *arg)
{
    weft_pool *pool = weft_pool_self();
    weft_fiber fibers[LIMIT], none = 77;
    (void)arg;
    for (int i = 0; i < LIMIT - 1; i++) { /* one is this fiber itself */
        CHECK_EQ(weft_spawn(&fibers[i], wait_for_unpark, NULL, NULL), 0);
        CHECK_EQ(pool_live(pool), i + 2);
    }
    for (int i = 0; i < 3 * LIMIT; i++) {
        int last = i % (LIMIT - 1);
        CHECK_EQ(weft_spawn(&none, add_one, NULL, NULL), -EAGAIN);
        CHECK_EQ(weft_spawn(NULL, add_one, NULL, NULL), -EAGAIN);
        CHECK_EQ(weft_pool_submit_batch(pool, &(struct weft_job){add_one, NULL}, 1), -EAGAIN);
        CHECK_EQ(none, 77);
        CHECK_EQ(weft_fiber_unpark(fibers[last]), 0);
        CHECK_EQ(weft_join(fibers[last], NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_spawn(&fibers[last], wait_for_unpark, NULL, NULL), 0);
        CHECK_EQ(pool_live(pool), LIMIT);
    }
    for (int i = 0; i < LIMIT - 1; i++) {
        CHECK_EQ(weft_fiber_unpark(fibers[i]), 0);
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        CHECK_EQ(pool_live(pool), LIMIT - 1 - i);
    }
    return NULL;
}

TEST(max_fibers_limit_is_exact)
{
    struct weft_pool_opts opts = {.workers = 1, .max_fibers = LIMIT};
    CHECK_EQ(weft_run(NULL, fills_the_pool, NULL, &opts, WEFT_FOREVER), 0);
}

struct crowd {
    weft_pool *pool;
    atomic_bool over;
};

/* Takes one place, frees it, takes it again: there is one place for each fiber that does so. */
static void *takes_its_own_place(void *arg)
{
    (void)arg;
    for (long i = 0, n = check_scale(4000) + 50; i < n; i++) {
        weft_fiber fiber;
        CHECK_EQ(weft_spawn(&fiber, add_one, NULL, NULL), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

/* Asks for far too many places, again and again. */
static void *asks_for_too_much(void *arg)
{
    struct crowd *crowd = arg;
    struct weft_job jobs[LIMIT + 1];
    for (int i = 0; i <= LIMIT; i++) {
        jobs[i] = (struct weft_job){add_one, NULL};
    }
    while (!atomic_load(&crowd->over)) {
        CHECK_EQ(weft_pool_submit_batch(crowd->pool, jobs, LIMIT + 1), -EAGAIN);
        weft_yield();
    }
    return NULL;
}

TEST(spawn_within_limit_succeeds_while_other_spawns_fail)
{
    struct weft_pool_opts opts = {.workers = 4, .max_fibers = LIMIT};
    struct crowd crowd = {.pool = pool_open(&opts)};
    weft_fiber fibers[LIMIT / 2];
    for (int i = 0; i < LIMIT / 2; i++) {
        CHECK_EQ(weft_pool_spawn(crowd.pool, &fibers[i], takes_its_own_place, NULL, NULL), 0);
    }
    pthread_t greedy = thread_open(asks_for_too_much, &crowd);
    for (int i = 0; i < LIMIT / 2; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    atomic_store(&crowd.over, true);
    thread_close(greedy);
    pool_close(crowd.pool);
}

static atomic_int inside_now, inside_most;

static void *counts_itself(void *arg)
{
    int now = atomic_fetch_add(&inside_now, 1) + 1;
    int most = atomic_load(&inside_most);
    while (now > most && !atomic_compare_exchange_weak(&inside_most, &most, now)) {
    }
    weft_yield();
    atomic_fetch_sub(&inside_now, 1);
    return arg;
}

static void *pushes_against_the_limit(void *arg)
{
    for (long i = 0, n = check_scale(4000) + 50; i < n; i++) {
        int err = weft_pool_submit(arg, counts_itself, NULL);
        CHECK(err == 0 || err == -EAGAIN);
        if (err) {
            weft_yield();
        }
    }
    return NULL;
}

TEST(live_fibers_never_exceed_max_fibers)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3, .max_fibers = LIMIT});
    pthread_t threads[2];
    atomic_store(&inside_most, 0);
    for (int i = 0; i < 2; i++) {
        threads[i] = thread_open(pushes_against_the_limit, pool);
    }
    for (int i = 0; i < 2; i++) {
        thread_close(threads[i]);
    }
    pool_close(pool);
    CHECK_EQ(atomic_load(&inside_now), 0);
    CHECK(atomic_load(&inside_most) > 0);
    CHECK(atomic_load(&inside_most) <= LIMIT);
}

/* --- several stack sizes -------------------------------------------------------------------- */

/* Fills a large array, lets other fibers run, and checks the array. */
#define FILLS_ARRAY(name, bytes)                                                                   \
    static void *name(void *arg)                                                                   \
    {                                                                                              \
        volatile unsigned char array[bytes];                                                       \
        unsigned char key = (unsigned char)(uintptr_t)arg;                                         \
        for (size_t i = 0; i < sizeof array; i += 509) {                                           \
            array[i] = (unsigned char)(i * 7 + key);                                               \
        }                                                                                          \
        for (int turn = 0; turn < 3; turn++) {                                                     \
            weft_yield();                                                                          \
            for (size_t i = 0; i < sizeof array; i += 509) {                                       \
                CHECK_EQ(array[i], (unsigned char)(i * 7 + key));                                  \
            }                                                                                      \
        }                                                                                          \
        return arg;                                                                                \
    }

FILLS_ARRAY(fills_8k, 8 << 10)
FILLS_ARRAY(fills_100k, 100 << 10)
FILLS_ARRAY(fills_900k, 900 << 10)
FILLS_ARRAY(fills_7m, 7 << 20)

static const struct {
    weft_fn fn;
    size_t stack_bytes;
} arrays[] = {
    {fills_8k, 16 << 10},  {fills_8k, 0},       {fills_100k, 128 << 10},
    {fills_900k, 1 << 20}, {fills_7m, 8 << 20},
};

#define ARRAYS (sizeof arrays / sizeof *arrays)

static void *fills_arrays(void *arg)
{
    weft_fiber fibers[4 * ARRAYS];
    (void)arg;
    for (size_t i = 0; i < 4 * ARRAYS; i++) {
        struct weft_fiber_opts opts = {.stack_bytes = arrays[i % ARRAYS].stack_bytes};
        CHECK_EQ(weft_spawn(&fibers[i], arrays[i % ARRAYS].fn, (void *)i, &opts), 0);
    }
    for (size_t i = 0; i < 4 * ARRAYS; i++) {
        void *result;
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        CHECK_EQ((size_t)result, i);
    }
    return NULL;
}

TEST(concurrent_fibers_can_use_large_stacks)
{
    run_in_fiber(1, fills_arrays, NULL);
    run_in_fiber(2, fills_arrays, NULL);
}
