/* Snapshots: counters that can be read at any time, per worker and summed, and per fiber. */
/* labels: valgrind */
#include <sys/syscall.h>

#include "context/stack.h"
#include "pool/fixture.h"

static struct weft_worker_stats worker_stats(weft_pool *pool, unsigned worker)
{
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(pool, &stats, worker), 0);
    return stats;
}

static struct weft_pool_stats pool_stats(weft_pool *pool)
{
    struct weft_pool_stats stats;
    weft_pool_stats(pool, &stats);
    return stats;
}

/* Each at least once: a worker counts as idle, and is parked, a moment before that is counted. */
static void await_all_parked(weft_pool *pool)
{
    for (unsigned i = 0; i < weft_pool_workers(pool); i++) {
        while (worker_stats(pool, i).state != WEFT_WORKER_PARKED ||
               worker_stats(pool, i).parks == 0) {
            sched_yield();
        }
    }
}

/* --- workers ----------------------------------------------------------------------- */

TEST(stats_of_missing_worker_return_einval)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(pool, &stats, 2), -EINVAL);
    pool_close(pool);
}

struct seen {
    struct weft_worker_stats stats;
    int tid;
};

static void *look_at_oneself(void *arg)
{
    struct seen *seen = arg;
    weft_yield();
    seen->stats = worker_stats(weft_pool_self(), (unsigned)weft_worker_self());
    seen->tid = (int)syscall(SYS_gettid);
    CHECK_EQ(seen->stats.current, weft_self());
    return NULL;
}

TEST(worker_stats_show_state_thread_and_current_fiber)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(worker_stats(pool, 0).state, WEFT_WORKER_ABSENT);
    CHECK_EQ(worker_stats(pool, 0).tid, 0);
    CHECK_EQ(pool_stats(pool).started, false);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(pool_stats(pool).started, true);
    for (unsigned i = 0; i < 2; i++) {
        struct seen seen;
        await_all_parked(pool);
        CHECK_EQ(worker_stats(pool, i).state, WEFT_WORKER_PARKED);
        CHECK_EQ(worker_stats(pool, i).current, WEFT_NO_FIBER);
        CHECK_EQ(weft_pool_call(pool, NULL, (int)i, look_at_oneself, &seen, WEFT_FOREVER), 0);
        CHECK_EQ(seen.stats.state, WEFT_WORKER_RUNNING);
        CHECK_EQ(seen.stats.tid, seen.tid);
        CHECK_EQ(seen.stats.bound, 1);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(worker_stats(pool, 0).state, WEFT_WORKER_ABSENT);
    CHECK_EQ(worker_stats(pool, 0).tid, 0);
    CHECK_EQ(pool_stats(pool).started, false);
    CHECK_EQ(pool_stats(pool).active, 0);
    CHECK_EQ(pool_stats(pool).idle, 0);
    weft_pool_destroy(pool);
}

static void *end_at_once(void *arg)
{
    return arg;
}

static void *yield_three_times(void *arg)
{
    for (int i = 0; i < 3; i++) {
        weft_yield();
    }
    return arg;
}

static void *spawn_ten(void *arg)
{
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_spawn(NULL, end_at_once, NULL, NULL), 0);
    }
    return arg;
}

TEST(stats_count_executed_spawned_and_finished_fibers)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_submit(pool, spawn_ten, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    struct weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.submitted, 1);
    CHECK_EQ(stats.total.spawned, 10);
    CHECK_EQ(stats.total.finished, 11);
    CHECK_EQ(stats.total.executed, 11);
    CHECK_EQ(stats.live, 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_submit(pool, yield_three_times, NULL), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    stats = pool_stats(pool);
    CHECK_EQ(stats.submitted, 11);
    CHECK_EQ(stats.total.finished, 21);
    CHECK(stats.total.executed >= 11 + 10 + 20); /* a yield without another fiber is not a switch */
    CHECK(stats.total.executed <= 11 + 40);
    weft_pool_destroy(pool);
}

TEST(stats_do_not_count_refused_submits)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .max_fibers = 1});
    CHECK_EQ(weft_pool_submit(pool, end_at_once, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_pool_submit(pool, end_at_once, NULL), -ESHUTDOWN);
    }
    CHECK_EQ(pool_stats(pool).submitted, 1);
    weft_pool_destroy(pool);
}

struct busy {
    atomic_bool stop;
    atomic_int running;
};

static void *spin_and_yield(void *arg)
{
    struct busy *busy = arg;
    atomic_fetch_add(&busy->running, 1);
    while (!atomic_load(&busy->stop)) {
        weft_yield();
    }
    return NULL;
}

TEST(stats_counters_advance_while_pool_runs)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    struct busy busy = {.stop = false};
    for (int i = 0; i < 4; i++) {
        struct weft_fiber_opts bound = {.bound = true, .worker = i % 2};
        CHECK_EQ(weft_pool_spawn(pool, NULL, spin_and_yield, &busy, &bound), 0);
    }
    await_count(&busy.running, 4);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = worker_stats(pool, i).executed;
        while (worker_stats(pool, i).executed < before + 1000) {
            sched_yield(); /* read live, from another thread */
        }
        CHECK_EQ(worker_stats(pool, i).bound, 2);
    }
    CHECK_EQ(pool_stats(pool).live, 4);
    CHECK_EQ(pool_stats(pool).active, 2);
    atomic_store(&busy.stop, true);
    pool_close(pool);
}

TEST(stats_count_parks_and_wakes)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .spin_ns = -1});
    await_all_parked(pool);
    for (int i = 0; i < 20; i++) {
        struct weft_worker_stats before = worker_stats(pool, 0);
        CHECK_EQ(weft_pool_call(pool, NULL, 0, end_at_once, NULL, WEFT_FOREVER), 0);
        while (worker_stats(pool, 0).parks == before.parks) {
            sched_yield();
        }
        CHECK_EQ(worker_stats(pool, 0).parks, before.parks + 1);
        CHECK_EQ(worker_stats(pool, 0).wakes, before.wakes + 1);
    }
    pool_close(pool);
}

static void *count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

/* Worker 0 is kept busy, so that only a thief can run the fibers that it spawned. */
static void *spawn_and_hog(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_spawn(NULL, count_up, arg, NULL), 0);
    }
    while (atomic_load((atomic_int *)arg) < 20) {
        sched_yield();
    }
    return NULL;
}

TEST(stats_count_steals_at_thief)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    uint64_t before;
    do { /* fibers that the watchdog moves from a hogged worker before a thief comes are not
          * stolen */
        atomic_int ran = 0;
        before = worker_stats(pool, 1).stolen;
        CHECK_EQ(weft_pool_call(pool, NULL, 0, spawn_and_hog, &ran, WEFT_FOREVER), 0);
        CHECK(worker_stats(pool, 1).stolen - before <= 20);
    } while (worker_stats(pool, 1).stolen - before < 20);
    CHECK(worker_stats(pool, 1).steals > 0);
    CHECK(worker_stats(pool, 1).steals <= worker_stats(pool, 1).stolen);
    struct weft_pool_stats stats = pool_stats(pool);
    CHECK(stats.total.stolen >= worker_stats(pool, 1).stolen);
    pool_close(pool);
}

static void *overflow(void *arg)
{
    struct busy *busy = arg;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_spawn(NULL, spin_and_yield, busy, NULL), 0);
    }
    while (atomic_load(&busy->running) < 50) {
        weft_yield();
    }
    atomic_store(&busy->stop, true);
    return NULL;
}

TEST(stats_count_ring_overflows)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .ring_slots = 4});
    struct busy busy = {.stop = false};
    CHECK_EQ(weft_pool_call(pool, NULL, 0, overflow, &busy, WEFT_FOREVER), 0);
    CHECK(worker_stats(pool, 0).overflows > 0);
    pool_close(pool);
}

static void *look_at_queues(void *arg)
{
    weft_pool *pool = weft_pool_self();
    struct weft_job jobs[3] = {{end_at_once, NULL}, {end_at_once, NULL}, {end_at_once, NULL}};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_spawn(NULL, end_at_once, NULL, NULL), 0);
    }
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, 3), 0);
    CHECK_EQ(worker_stats(pool, 0).fresh, 5);
    CHECK_EQ(pool_stats(pool).global, 3);
    CHECK_EQ(pool_stats(pool).live, 9);
    CHECK_EQ(pool_stats(pool).total.fresh, 5);
    return arg;
}

TEST(stats_show_queue_lengths)
{
    run_in_fiber(1, look_at_queues, NULL);
}

/* --- fibers --------------------------------------------------------------------------- */

struct wanted {
    weft_fiber fiber;
    struct weft_fiber_info info;
    int seen, total;
};

static bool find(const struct weft_fiber_info *info, void *arg)
{
    struct wanted *wanted = arg;
    wanted->total++;
    if (info->fiber == wanted->fiber) {
        wanted->info = *info;
        wanted->seen++;
    }
    return true;
}

static struct wanted look_up(weft_pool *pool, weft_fiber fiber)
{
    struct wanted wanted = {.fiber = fiber};
    weft_fiber_each(pool, find, &wanted);
    return wanted;
}

static void *hold(void *arg)
{
    return weft_fiber_park(WEFT_FOREVER) ? NULL : arg;
}

static void *join_it(void *arg)
{
    weft_fiber fiber = *(weft_fiber *)arg;
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(each_fiber_visits_every_fiber_with_its_state)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber held, joiner, theirs;
    struct weft_fiber_opts named = {.name = "held", .bound = true, .worker = 1};
    CHECK_EQ(weft_pool_spawn(pool, &held, hold, NULL, &named), 0);
    CHECK_EQ(weft_pool_spawn(pool, &joiner, join_it, &held, NULL), 0);
    CHECK_EQ(weft_pool_spawn(other, &theirs, hold, NULL, NULL), 0);
    await_state(held, WEFT_FIBER_WAITING);
    await_state(joiner, WEFT_FIBER_WAITING);

    struct wanted wanted = look_up(pool, held);
    CHECK_EQ(wanted.seen, 1);
    CHECK_EQ(wanted.total, 2);
    CHECK_STR(wanted.info.name, "held");
    CHECK_EQ(wanted.info.state, WEFT_FIBER_WAITING);
    CHECK_EQ(wanted.info.worker, 1);
    CHECK_EQ(wanted.info.bound, 1);
    CHECK_STR(wanted.info.waits, "park");
    CHECK_EQ(wanted.info.on, WEFT_NO_FIBER);

    wanted = look_up(pool, joiner);
    CHECK_STR(wanted.info.name, "");
    CHECK_EQ(wanted.info.bound, -1);
    CHECK_STR(wanted.info.waits, "join");
    CHECK_EQ(wanted.info.on, held);

    wanted = look_up(NULL, theirs); /* of all pools */
    CHECK_EQ(wanted.seen, 1);
    CHECK(wanted.total >= 3);
    CHECK_EQ(look_up(pool, theirs).seen, 0);

    CHECK_EQ(weft_fiber_unpark(held), 0);
    CHECK_EQ(weft_join(joiner, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark(theirs), 0);
    CHECK_EQ(weft_join(theirs, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
    CHECK_EQ(look_up(pool, held).seen, 0);
    pool_close(other);
}

static bool stop_at_two(const struct weft_fiber_info *info, void *arg)
{
    (void)info;
    return ++*(int *)arg < 2;
}

TEST(each_fiber_stops_when_callback_returns_false)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber held[5];
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &held[i], hold, NULL, NULL), 0);
    }
    int visits = 0;
    weft_fiber_each(pool, stop_at_two, &visits);
    CHECK_EQ(visits, 2);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

TEST(fiber_age_increases)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber held;
    struct timespec
        coarse; /* its start is known to one tick of this clock, which may itself be late */
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse), 0);
    CHECK_EQ(weft_pool_spawn(pool, &held, hold, NULL, NULL), 0);
    int64_t made = weft_now();
    while (weft_now() < made + 3000000) {
    }
    int64_t age = look_up(pool, held).info.age_ns;
    CHECK(age >= 3000000);
    CHECK(age <= weft_now() - (coarse.tv_sec * INT64_C(1000000000) + coarse.tv_nsec));
    CHECK_EQ(weft_fiber_unpark(held), 0);
    CHECK_EQ(weft_join(held, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

static void *come_and_go(void *arg)
{
    atomic_bool *stop = arg;
    while (!atomic_load(stop)) {
        weft_fiber child;
        struct weft_fiber_opts opts = {.name = "child"};
        CHECK_EQ(weft_spawn(&child, yield_three_times, NULL, &opts), 0);
        CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

static bool check_sane(const struct weft_fiber_info *info, void *arg)
{
    weft_pool *pool = arg;
    CHECK(info->fiber != WEFT_NO_FIBER);
    CHECK(strcmp(info->name, "child") == 0 || strcmp(info->name, "parent") == 0);
    CHECK((unsigned)info->state <= WEFT_FIBER_DONE);
    CHECK(info->worker >= -1 && info->worker < (int)weft_pool_workers(pool));
    CHECK_EQ(info->bound, -1);
    CHECK(info->age_ns >= 0);
    return true;
}

TEST(each_fiber_is_safe_while_fibers_start_and_end)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    atomic_bool stop = false;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, come_and_go, &stop,
                                 &(struct weft_fiber_opts){.name = "parent"}),
                 0);
    }
    for (long i = check_scale(3000); i >= 0; i--) {
        weft_fiber_each(pool, check_sane, pool);
    }
    atomic_store(&stop, true);
    pool_close(pool);
}

static bool counts_visit(const struct weft_fiber_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return true;
}

/* The next pool may have the address of the last one. */
TEST(unjoined_fiber_is_not_listed_in_later_pool)
{
    weft_fiber left[10];
    for (int i = 0; i < 10; i++) {
        int visits = 0;
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
        weft_fiber_each(pool, counts_visit, &visits);
        CHECK_EQ(visits, 0);
        CHECK_EQ(weft_pool_spawn(pool, &left[i], yield_three_times, NULL, NULL), 0);
        pool_close(pool);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_join(left[i], NULL, WEFT_FOREVER), 0);
    }
}

/* --- memory ------------------------------------------------------------------------------ */

TEST(memory_stats_are_shown_and_idle_stacks_trimmed)
{
    run_in_fiber(1, spawn_ten, NULL);
    struct weft_memory_stats stats;
    weft_memory_stats(&stats);
    CHECK(stats.blocks >= 11);
    CHECK(stats.stacks >= 1);
    CHECK(stats.mappings >= 1);
    CHECK(stats.reserved_bytes >= stats.stacks * 16384);
    CHECK(stats.guard != NULL && stats.guard[0] != '\0');
    weft_memory_trim();
    CHECK_EQ(weft__stack_trim(0, SIZE_MAX), 0); /* nothing is left to free */
}
