/* Compute pools: shared ones, and sets of isolated one-thread pools with a placement rule. */
/* labels: valgrind */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "pool/fixture.h"
#include "sched/pool.h"

static weft_pool_set *pool_set_open(const struct weft_pool_set_opts *opts)
{
    weft_pool_set *pools = NULL;
    CHECK_EQ(weft_pool_set_create(&pools, opts), 0);
    CHECK_EQ(weft_pool_set_start(pools), 0);
    return pools;
}

static void pool_set_close(weft_pool_set *pools)
{
    CHECK_EQ(weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_set_destroy(pools);
}

/* --- options -------------------------------------------------------------------- */

TEST(default_pool_set_has_one_member_per_usable_cpu)
{
    weft_pool_set *pools;
    CHECK_EQ(weft_pool_set_create(&pools, NULL), 0);
    CHECK_EQ(weft_pool_set_size(pools), weft_usable_cpus());
    CHECK_STR(weft_pool_name(weft_pool_set_member(pools, 0)), "pools0");
    CHECK(weft_pool_set_member(pools, weft_pool_set_size(pools)) == NULL);
    weft_pool_set_destroy(pools);
    weft_pool_set_destroy(NULL);
    for (unsigned members = 1; members <= 8; members++) { /* whatever follows the last member */
        CHECK_EQ(weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = members}), 0);
        CHECK(weft_pool_set_member(pools, members - 1) != NULL);
        CHECK(weft_pool_set_member(pools, members) == NULL);
        weft_pool_set_destroy(pools);
    }
    CHECK(!weft__pools.first); /* none is left */
}

static void check_refused(const struct weft_pool_set_opts *opts)
{
    weft_pool_set *pools = NULL;
    CHECK_EQ(weft_pool_set_create(&pools, opts), -EINVAL);
    CHECK(pools == NULL);
    CHECK(!weft__pools.first); /* the already created members are gone */
}

TEST(pool_set_rejects_bad_options)
{
    check_refused(&(struct weft_pool_set_opts){.members = 1001});
    check_refused(&(struct weft_pool_set_opts){.placement = (enum weft_placement)5});
    check_refused(&(struct weft_pool_set_opts){.members = 2, .stack_bytes = SIZE_MAX});
    check_refused(&(struct weft_pool_set_opts){.members = 2, .cpu_count = 1});
    check_refused(&(struct weft_pool_set_opts){.members = 2, .cpus = (int[]){-1}, .cpu_count = 1});
    check_refused(
        &(struct weft_pool_set_opts){.members = 2, .cpus = (int[]){CPU_SETSIZE}, .cpu_count = 1});
}

struct place {
    weft_pool *pool;
    int worker, tid;
    char thread[17];
    cpu_set_t cpus;
};

static void *report_place(void *arg)
{
    struct place *place = arg;
    place->pool = weft_pool_self();
    place->worker = weft_worker_self();
    place->tid = (int)syscall(SYS_gettid);
    CHECK_EQ(prctl(PR_GET_NAME, place->thread, 0, 0, 0), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof place->cpus, &place->cpus), 0);
    return place;
}

TEST(pool_set_members_are_one_thread_pools)
{
    enum { MEMBERS = 3 };
    weft_pool_set *pools = pool_set_open(
        &(struct weft_pool_set_opts){.name = "image-compression", .members = MEMBERS});
    CHECK_EQ(weft_pool_set_size(pools), MEMBERS);
    struct place places[MEMBERS];
    for (unsigned i = 0; i < MEMBERS; i++) {
        weft_pool *member = weft_pool_set_member(pools, i);
        CHECK_EQ(weft_pool_workers(member), 1);
        memset(&places[i], 0, sizeof places[i]);
        CHECK_EQ(
            weft_pool_call(member, NULL, WEFT_ANY_WORKER, report_place, &places[i], WEFT_FOREVER),
            0);
        CHECK(places[i].pool == member);
        CHECK_EQ(places[i].worker, 0);
        char name[17];
        snprintf(name, sizeof name, "image-compre%u_0", i);
        CHECK_STR(places[i].thread, name);
        char whole[32];
        snprintf(whole, sizeof whole, "image-compression%u", i);
        CHECK_STR(weft_pool_name(member), whole);
        for (unsigned n = 0; n < i; n++) {
            CHECK(places[n].tid != places[i].tid);
        }
    }
    pool_set_close(pools);
}

TEST(pool_set_members_are_pinned_to_cpu_list_in_turn)
{
    cpu_set_t allowed;
    int cpus[2], n = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && n < 2; cpu--) {
        if (CPU_ISSET(cpu, &allowed)) {
            cpus[n++] = cpu;
        }
    }
    weft_pool_set *pools = pool_set_open(
        &(struct weft_pool_set_opts){.members = 3, .cpus = cpus, .cpu_count = (size_t)n});
    for (unsigned i = 0; i < 3; i++) {
        struct place place;
        CHECK_EQ(weft_pool_call(weft_pool_set_member(pools, i), NULL, 0, report_place, &place,
                                WEFT_FOREVER),
                 0);
        CHECK_EQ(CPU_COUNT(&place.cpus), 1);
        CHECK(CPU_ISSET(cpus[i % (unsigned)n], &place.cpus));
    }
    pool_set_close(pools);
}

static void *hold(void *arg)
{
    return weft_fiber_park(WEFT_FOREVER) ? NULL : arg;
}

TEST(pool_set_max_fibers_is_per_member)
{
    weft_pool_set *pools =
        pool_set_open(&(struct weft_pool_set_opts){.members = 2, .max_fibers = 1});
    weft_fiber held[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_set_spawn(pools, &held[i], hold, NULL, NULL), 0);
    }
    CHECK_EQ(weft_pool_set_submit(pools, hold, NULL), -EAGAIN);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_fiber_unpark(held[i]), 0);
        CHECK_EQ(weft_join(held[i], NULL, WEFT_FOREVER), 0);
    }
    pool_set_close(pools);
}

/* --- placement -------------------------------------------------------------------- */

TEST(round_robin_visits_members_in_turn)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 3});
    for (unsigned i = 0; i < 10; i++) {
        CHECK(weft__pool_set_next(pools) == weft_pool_set_member(pools, i % 3));
    }
    for (unsigned i = 10; i < 30; i++) { /* submit, spawn and call use the same rule */
        struct place place = {.pool = NULL};
        weft_fiber fiber;
        if (i % 2) {
            CHECK_EQ(weft_pool_set_spawn(pools, &fiber, report_place, &place, NULL), 0);
            CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        } else {
            CHECK_EQ(weft_pool_set_call(pools, NULL, report_place, &place, WEFT_FOREVER), 0);
        }
        CHECK(place.pool == weft_pool_set_member(pools, i % 3));
    }
    pool_set_close(pools);
}

static void *count_member(void *arg)
{
    atomic_int *counts = arg;
    const char *name = weft_pool_name(weft_pool_self());
    atomic_fetch_add(&counts[name[strlen(name) - 1] - '0'], 1);
    return NULL;
}

enum { SUBMITTERS = 4, MEETINGS = 2000, AT_ONCE = 32 };

struct submitter {
    weft_pool_set *pools;
    atomic_int *counts;
    atomic_int *meetings; /* shared with another thread: how often either has arrived */
    int picked[4];
};

/* Both threads start each round at the same moment: without this the threads of a busy machine run
 * one after another. */
static void meet(atomic_int *meetings, int n)
{
    atomic_fetch_add(meetings, 1);
    for (int spins = 0; atomic_load(meetings) < 2 * n; spins++) {
        if (spins > 1000) {
            sched_yield();
        }
    }
}

/* Submits are expensive, so most iterations only pick a member. */
static void *submit_and_pick(void *arg)
{
    struct submitter *s = arg;
    long meetings = check_scale(MEETINGS);
    weft_pool *members[4];
    for (unsigned i = 0; i < 4; i++) {
        members[i] = weft_pool_set_member(s->pools, i);
    }
    for (int n = 1; n <= meetings; n++) {
        weft_pool *next[AT_ONCE];
        meet(s->meetings, n);
        for (int i = 0; i < AT_ONCE; i++) {
            next[i] = weft__pool_set_next(s->pools);
        }
        for (int i = 0; i < 4 * AT_ONCE; i++) {
            s->picked[i % 4] += next[i / 4] == members[i % 4];
        }
        if (n % 50 == 0) {
            CHECK_EQ(weft_pool_set_submit(s->pools, count_member, s->counts), 0);
        }
    }
    return NULL;
}

/* No turn is given twice, and none is left out: every member gets exactly the same share of all
 * turns. */
TEST(round_robin_from_many_threads_is_even)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 4});
    atomic_int counts[4] = {0};
    struct submitter submitters[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    atomic_int meetings[SUBMITTERS / 2] = {0};
    int shares[4], all = 0;
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] =
            (struct submitter){.pools = pools, .counts = counts, .meetings = &meetings[i / 2]};
        threads[i] = thread_open(submit_and_pick, &submitters[i]);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        thread_close(threads[i]);
    }
    pool_set_close(pools);
    for (int member = 0; member < 4; member++) {
        shares[member] = atomic_load(&counts[member]);
        for (int i = 0; i < SUBMITTERS; i++) {
            shares[member] += submitters[i].picked[member];
        }
        all += shares[member];
    }
    for (int member = 0; member < 4; member++) {
        CHECK_EQ(shares[member], all / 4 + (member < all % 4));
    }
}

TEST(least_loaded_picks_member_with_fewest_fibers)
{
    weft_pool_set *pools =
        pool_set_open(&(struct weft_pool_set_opts){.members = 3, .placement = WEFT_LEAST_LOADED});
    weft_fiber held[6];
    for (int i = 0; i < 6; i++) { /* loads 3, 1, 2 */
        static const unsigned at[] = {0, 0, 0, 1, 2, 2};
        CHECK_EQ(weft_pool_spawn(weft_pool_set_member(pools, at[i]), &held[i], hold, NULL, NULL),
                 0);
    }
    CHECK(weft__pool_set_next(pools) == weft_pool_set_member(pools, 1));
    CHECK(weft__pool_set_next(pools) == weft_pool_set_member(pools, 1)); /* picking adds no load */
    CHECK_EQ(weft_fiber_unpark(held[4]), 0);
    CHECK_EQ(weft_fiber_unpark(held[5]), 0);
    while (pool_live(weft_pool_set_member(pools, 2)) > 0) {
        sched_yield();
    }
    CHECK(weft__pool_set_next(pools) == weft_pool_set_member(pools, 2));
    weft_fiber more;
    CHECK_EQ(weft_pool_set_spawn(pools, &more, hold, NULL, NULL), 0);
    CHECK_EQ(pool_live(weft_pool_set_member(pools, 2)), 1);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_fiber_unpark(held[i]), 0);
    }
    CHECK_EQ(weft_fiber_unpark(more), 0);
    pool_set_close(pools);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_join(held[i], NULL, 0), 0);
    }
    CHECK_EQ(weft_join(more, NULL, 0), 0);
}

/* --- isolation --------------------------------------------------------------------- */

static void *check_home(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK(weft_pool_self() == arg);
        weft_yield();
    }
    return NULL;
}

TEST(pool_set_members_do_not_steal)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 3});
    weft_pool *busy = weft_pool_set_member(pools, 1);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_pool_submit(busy, check_home, busy), 0);
    }
    CHECK_EQ(weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct weft_pool_stats stats;
        weft_pool_stats(weft_pool_set_member(pools, i), &stats);
        CHECK_EQ(stats.total.finished, i == 1 ? 200 : 0);
        CHECK_EQ(stats.total.steals, 0);
    }
    weft_pool_set_destroy(pools);
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* All in one turn, so that nothing has been dequeued when the queues are inspected. */
static void *submit_from_inside(void *arg)
{
    weft_pool *here = weft_pool_self();
    struct weft_worker_stats before, after;
    weft_fiber created;
    CHECK_EQ(weft_worker_stats(here, &before, 0), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_submit(here, end_at_once, NULL), 0);
    }
    struct weft_fiber_opts opts = {.detached = true, .bound = true, .worker = 0};
    CHECK_EQ(weft_pool_spawn(here, NULL, end_at_once, NULL, &opts), 0);
    CHECK_EQ(weft_fiber_create(&created, end_at_once, NULL, &opts), 0);
    CHECK_EQ(weft_fiber_submit(created, here, 0), 0);
    CHECK_EQ(weft_worker_stats(here, &after, 0), 0);
    struct weft_pool_stats pool;
    weft_pool_stats(here, &pool);
    CHECK_EQ(after.fresh, before.fresh + 10);
    CHECK_EQ(after.inbox, 0);
    CHECK_EQ(pool.global, 0);
    return arg;
}

TEST(submit_from_own_member_thread_skips_inbox)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 1});
    CHECK_EQ(weft_pool_set_call(pools, NULL, submit_from_inside, NULL, WEFT_FOREVER), 0);
    pool_set_close(pools);
}

/* --- calls from other pools ------------------------------------------------------------ */

static void *square(void *arg)
{
    intptr_t n = (intptr_t)arg;
    CHECK_EQ(weft_worker_self(), 0);
    weft_yield();
    return (void *)(n * n);
}

static void *call_pool_set(void *arg)
{
    weft_pool *home = weft_pool_self();
    int worker = weft_worker_self();
    for (intptr_t i = 0; i < 50; i++) {
        void *result = NULL;
        CHECK_EQ(weft_pool_set_call(arg, &result, square, (void *)i, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i * i);
        CHECK(weft_pool_self() == home);
        CHECK_EQ(weft_worker_self(), worker);
    }
    return NULL;
}

TEST(pool_set_call_returns_to_pool_and_worker_of_caller)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 2});
    weft_pool *home = pool_open(&(struct weft_pool_opts){.workers = 3});
    for (int i = 0; i < 6; i++) {
        struct weft_fiber_opts bound = {.bound = true, .worker = i % 3};
        CHECK_EQ(weft_pool_spawn(home, NULL, call_pool_set, pools, &bound), 0);
    }
    pool_close(home);
    pool_set_close(pools);
}

TEST(plain_thread_can_call_pool_set)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 2});
    for (intptr_t i = 0; i < 20; i++) {
        void *result = NULL;
        CHECK_EQ(weft_pool_set_call(pools, &result, square, (void *)i, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i * i);
    }
    pool_set_close(pools);
}

struct meanwhile {
    weft_pool_set *pools;
    atomic_bool computing, progress;
};

/* Ends only if the worker of the caller's pool runs another fiber meanwhile. */
static void *compute_until_progress(void *arg)
{
    struct meanwhile *meanwhile = arg;
    atomic_store(&meanwhile->computing, true);
    while (!atomic_load(&meanwhile->progress)) {
        sched_yield();
    }
    return NULL;
}

static void *make_progress(void *arg)
{
    struct meanwhile *meanwhile = arg;
    while (!atomic_load(&meanwhile->computing)) {
        weft_yield();
    }
    atomic_store(&meanwhile->progress, true);
    return NULL;
}

static void *call_meanwhile(void *arg)
{
    struct meanwhile *meanwhile = arg;
    CHECK_EQ(weft_spawn(NULL, make_progress, meanwhile, NULL), 0);
    CHECK_EQ(
        weft_pool_set_call(meanwhile->pools, NULL, compute_until_progress, meanwhile, WEFT_FOREVER),
        0);
    CHECK(atomic_load(&meanwhile->progress));
    return NULL;
}

TEST(pool_set_call_does_not_block_worker_of_caller)
{
    struct meanwhile meanwhile = {.pools =
                                      pool_set_open(&(struct weft_pool_set_opts){.members = 1})};
    run_in_fiber(1, call_meanwhile, &meanwhile);
    pool_set_close(meanwhile.pools);
}

static void *call_stopped(void *arg)
{
    weft_pool *home = weft_pool_self();
    CHECK_EQ(weft_pool_set_call(arg, NULL, square, NULL, WEFT_FOREVER), -ESHUTDOWN);
    CHECK(weft_pool_self() == home);
    return NULL;
}

TEST(stopped_pool_set_rejects_calls_and_fiber_stays)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 2});
    CHECK_EQ(weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    run_in_fiber(1, call_stopped, pools);
    CHECK_EQ(weft_pool_set_submit(pools, square, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_set_start(pools), 0); /* and starts again */
    CHECK_EQ(weft_pool_set_call(pools, NULL, square, NULL, WEFT_FOREVER), 0);
    pool_set_close(pools);
}

/* --- operations available in a member --------------------------------------------------- */

static void *wait_in_every_way(void *arg)
{
    weft_pool *here = weft_pool_self();
    weft_fiber child;
    CHECK_EQ(weft_fiber_park(weft_after(200000)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&child, hold, arg, NULL), 0);
    await_state(child, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark(child), 0);
    void *result;
    CHECK_EQ(weft_join(child, &result, WEFT_FOREVER), 0);
    CHECK(result == arg);
    CHECK(weft_pool_self() == here);
    return NULL;
}

TEST(sleep_park_and_join_work_in_compute_pools)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 2});
    weft_pool *shared = pool_open(&(struct weft_pool_opts){.compute = true, .workers = 2});
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_set_submit(pools, wait_in_every_way, pools), 0);
        CHECK_EQ(weft_pool_submit(shared, wait_in_every_way, pools), 0);
    }
    pool_close(shared);
    pool_set_close(pools);
}

static void *count_up(void *arg)
{
    weft_yield();
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

TEST(pool_set_stop_drains_members)
{
    for (int round = 0; round < 10; round++) {
        atomic_int ran = 0;
        weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){
            .members = 3, .placement = round % 2 ? WEFT_LEAST_LOADED : WEFT_ROUND_ROBIN});
        for (int i = 0; i < 100; i++) {
            CHECK_EQ(weft_pool_set_submit(pools, count_up, &ran), 0);
        }
        pool_set_close(pools);
        CHECK_EQ(atomic_load(&ran), 100);
    }
}

static void *stop_own_crew(void *arg)
{
    CHECK_EQ(weft_pool_set_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER), -EINPROGRESS);
    return NULL;
}

/* A fiber of a member in the middle calls stop; that member cannot be waited for from there. The
 * others are stopped anyway, and the error is not lost among their zeros. */
TEST(pool_set_stop_tries_all_members_and_returns_first_error)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 3});
    CHECK_EQ(weft_pool_call(weft_pool_set_member(pools, 1), NULL, WEFT_ANY_WORKER, stop_own_crew,
                            pools, WEFT_FOREVER),
             0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(weft_pool_set_member(pools, i), end_at_once, NULL), -ESHUTDOWN);
    }
    pool_set_close(pools);
}

TEST(cancelling_pool_set_stop_ends_endless_waits)
{
    weft_pool_set *pools = pool_set_open(&(struct weft_pool_set_opts){.members = 3});
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(weft_pool_set_submit(pools, hold, NULL), 0);
    }
    CHECK_EQ(weft_pool_set_stop(pools, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_set_destroy(pools);
}
