/* Compute pools: shared ones, and crews of isolated threads with a placement rule. */
/* labels: valgrind */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sched/fixture.h"
#include "sched/pool.h"

static weft_crew *crew_open(const struct weft_crew_opts *opts)
{
    weft_crew *crew = NULL;
    CHECK_EQ(weft_crew_create(&crew, opts), 0);
    CHECK_EQ(weft_crew_start(crew), 0);
    return crew;
}

static void crew_close(weft_crew *crew)
{
    CHECK_EQ(weft_crew_stop(crew, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_crew_destroy(crew);
}

/* --- options -------------------------------------------------------------------- */

TEST(without_options_a_crew_has_a_member_for_every_usable_cpu)
{
    weft_crew *crew;
    CHECK_EQ(weft_crew_create(&crew, NULL), 0);
    CHECK_EQ(weft_crew_size(crew), weft_usable_cpus());
    CHECK_STR(weft_pool_name(weft_crew_member(crew, 0)), "crew0");
    CHECK(weft_crew_member(crew, weft_crew_size(crew)) == NULL);
    weft_crew_destroy(crew);
    weft_crew_destroy(NULL);
    for (unsigned members = 1; members <= 8; members++) { /* whatever lies behind the last */
        CHECK_EQ(weft_crew_create(&crew, &(struct weft_crew_opts){.members = members}), 0);
        CHECK(weft_crew_member(crew, members - 1) != NULL);
        CHECK(weft_crew_member(crew, members) == NULL);
        weft_crew_destroy(crew);
    }
    CHECK(!weft__pools.first); /* none is left */
}

static void check_refused(const struct weft_crew_opts *opts)
{
    weft_crew *crew = NULL;
    CHECK_EQ(weft_crew_create(&crew, opts), -EINVAL);
    CHECK(crew == NULL);
    CHECK(!weft__pools.first); /* the members that had been made are gone */
}

TEST(bad_options_are_refused)
{
    check_refused(&(struct weft_crew_opts){.members = 1001});
    check_refused(&(struct weft_crew_opts){.placement = (enum weft_placement)5});
    check_refused(&(struct weft_crew_opts){.members = 2, .stack_bytes = SIZE_MAX});
    check_refused(&(struct weft_crew_opts){.members = 2, .cpu_count = 1});
    check_refused(&(struct weft_crew_opts){.members = 2, .cpus = (int[]){-1}, .cpu_count = 1});
    check_refused(
        &(struct weft_crew_opts){.members = 2, .cpus = (int[]){CPU_SETSIZE}, .cpu_count = 1});
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

TEST(members_are_pools_of_one_thread_each)
{
    enum { MEMBERS = 3 };
    weft_crew *crew =
        crew_open(&(struct weft_crew_opts){.name = "image-compression", .members = MEMBERS});
    CHECK_EQ(weft_crew_size(crew), MEMBERS);
    struct place places[MEMBERS];
    for (unsigned i = 0; i < MEMBERS; i++) {
        weft_pool *member = weft_crew_member(crew, i);
        CHECK_EQ(weft_pool_workers(member), 1);
        memset(&places[i], 0, sizeof places[i]);
        CHECK_EQ(weft_call_on(member, WEFT_ANY_WORKER, report_place, &places[i], NULL), 0);
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
    crew_close(crew);
}

TEST(members_are_pinned_to_the_cpus_of_the_list_in_turn)
{
    cpu_set_t allowed;
    int cpus[2], n = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && n < 2; cpu--) {
        if (CPU_ISSET(cpu, &allowed)) {
            cpus[n++] = cpu;
        }
    }
    weft_crew *crew =
        crew_open(&(struct weft_crew_opts){.members = 3, .cpus = cpus, .cpu_count = (size_t)n});
    for (unsigned i = 0; i < 3; i++) {
        struct place place;
        CHECK_EQ(weft_call_on(weft_crew_member(crew, i), 0, report_place, &place, NULL), 0);
        CHECK_EQ(CPU_COUNT(&place.cpus), 1);
        CHECK(CPU_ISSET(cpus[i % (unsigned)n], &place.cpus));
    }
    crew_close(crew);
}

static void *hold(void *arg)
{
    return weft_park(WEFT_FOREVER) ? NULL : arg;
}

TEST(max_fibers_is_per_member)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 2, .max_fibers = 1});
    weft_fiber held[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_crew_spawn(crew, &held[i], hold, NULL, NULL), 0);
    }
    CHECK_EQ(weft_crew_submit(crew, hold, NULL), -EAGAIN);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_unpark(held[i]), 0);
        CHECK_EQ(weft_join(held[i], NULL, WEFT_FOREVER), 0);
    }
    crew_close(crew);
}

/* --- placement -------------------------------------------------------------------- */

TEST(round_robin_goes_round)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 3});
    for (unsigned i = 0; i < 10; i++) {
        CHECK(weft_crew_next(crew) == weft_crew_member(crew, i % 3));
    }
    for (unsigned i = 10; i < 30; i++) { /* submit, spawn and call go by the same rule */
        struct place place = {.pool = NULL};
        weft_fiber fiber;
        if (i % 2) {
            CHECK_EQ(weft_crew_spawn(crew, &fiber, report_place, &place, NULL), 0);
            CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        } else {
            CHECK_EQ(weft_crew_call(crew, report_place, &place, NULL), 0);
        }
        CHECK(place.pool == weft_crew_member(crew, i % 3));
    }
    crew_close(crew);
}

static void *count_member(void *arg)
{
    atomic_int *counts = arg;
    const char *name = weft_pool_name(weft_pool_self());
    atomic_fetch_add(&counts[name[4] - '0'], 1);
    return NULL;
}

enum { SUBMITTERS = 4, MEETINGS = 2000, AT_ONCE = 32 };

struct submitter {
    weft_crew *crew;
    atomic_int *counts;
    atomic_int *meetings; /* of this thread and another: how often either has come */
    int picked[4];
};

/* Both begin at the same moment, time and again: left to themselves the threads of a busy machine
 * run one after another. */
static void meet(atomic_int *meetings, int n)
{
    atomic_fetch_add(meetings, 1);
    for (int spins = 0; atomic_load(meetings) < 2 * n; spins++) {
        if (spins > 1000) {
            sched_yield();
        }
    }
}

/* Submits cost much, so most only ask whose turn it is. */
static void *submit_and_pick(void *arg)
{
    struct submitter *s = arg;
    long meetings = check_scale(MEETINGS);
    weft_pool *members[4];
    for (unsigned i = 0; i < 4; i++) {
        members[i] = weft_crew_member(s->crew, i);
    }
    for (int n = 1; n <= meetings; n++) {
        weft_pool *next[AT_ONCE];
        meet(s->meetings, n);
        for (int i = 0; i < AT_ONCE; i++) {
            next[i] = weft_crew_next(s->crew);
        }
        for (int i = 0; i < 4 * AT_ONCE; i++) {
            s->picked[i % 4] += next[i / 4] == members[i % 4];
        }
        if (n % 50 == 0) {
            CHECK_EQ(weft_crew_submit(s->crew, count_member, s->counts), 0);
        }
    }
    return NULL;
}

/* Nobody's turn is given twice, and none is left out: of all turns every member has the same share,
 * to the last one. */
TEST(round_robin_from_many_threads_is_even)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 4});
    atomic_int counts[4] = {0};
    struct submitter submitters[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    atomic_int meetings[SUBMITTERS / 2] = {0};
    int shares[4], all = 0;
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] =
            (struct submitter){.crew = crew, .counts = counts, .meetings = &meetings[i / 2]};
        threads[i] = thread_open(submit_and_pick, &submitters[i]);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        thread_close(threads[i]);
    }
    crew_close(crew);
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

TEST(least_loaded_picks_the_member_with_the_fewest_fibers)
{
    weft_crew *crew =
        crew_open(&(struct weft_crew_opts){.members = 3, .placement = WEFT_LEAST_LOADED});
    weft_fiber held[6];
    for (int i = 0; i < 6; i++) { /* loads 3, 1, 2 */
        static const unsigned at[] = {0, 0, 0, 1, 2, 2};
        CHECK_EQ(weft_pool_spawn(weft_crew_member(crew, at[i]), &held[i], hold, NULL, NULL), 0);
    }
    CHECK(weft_crew_next(crew) == weft_crew_member(crew, 1));
    CHECK(weft_crew_next(crew) == weft_crew_member(crew, 1)); /* asking loads nobody */
    CHECK_EQ(weft_unpark(held[4]), 0);
    CHECK_EQ(weft_unpark(held[5]), 0);
    while (pool_live(weft_crew_member(crew, 2)) > 0) {
        sched_yield();
    }
    CHECK(weft_crew_next(crew) == weft_crew_member(crew, 2));
    weft_fiber more;
    CHECK_EQ(weft_crew_spawn(crew, &more, hold, NULL, NULL), 0);
    CHECK_EQ(pool_live(weft_crew_member(crew, 2)), 1);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_unpark(held[i]), 0);
    }
    CHECK_EQ(weft_unpark(more), 0);
    crew_close(crew);
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

TEST(members_do_not_steal_from_one_another)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 3});
    weft_pool *busy = weft_crew_member(crew, 1);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_pool_submit(busy, check_home, busy), 0);
    }
    CHECK_EQ(weft_crew_stop(crew, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct weft_pool_stats stats;
        weft_pool_stats(weft_crew_member(crew, i), &stats);
        CHECK_EQ(stats.total.finished, i == 1 ? 200 : 0);
        CHECK_EQ(stats.total.steals, 0);
    }
    weft_crew_destroy(crew);
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* All in one turn, so nothing has been taken yet when the queues are looked at. */
static void *submit_from_inside(void *arg)
{
    weft_pool *here = weft_pool_self();
    struct weft_worker_stats before, after;
    weft_fiber created;
    CHECK_EQ(weft_worker_stats(here, 0, &before), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_submit(here, end_at_once, NULL), 0);
    }
    struct weft_fiber_opts opts = {.detached = true, .bound = true, .worker = 0};
    CHECK_EQ(weft_pool_spawn(here, NULL, end_at_once, NULL, &opts), 0);
    CHECK_EQ(weft_fiber_create(&created, end_at_once, NULL, &opts), 0);
    CHECK_EQ(weft_fiber_submit(created, here, 0), 0);
    CHECK_EQ(weft_worker_stats(here, 0, &after), 0);
    struct weft_pool_stats pool;
    weft_pool_stats(here, &pool);
    CHECK_EQ(after.fresh, before.fresh + 10);
    CHECK_EQ(after.inbox, 0);
    CHECK_EQ(pool.global, 0);
    return arg;
}

TEST(submits_from_a_members_own_thread_skip_the_inbox)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 1});
    CHECK_EQ(weft_crew_call(crew, submit_from_inside, NULL, NULL), 0);
    crew_close(crew);
}

/* --- calls from other pools ------------------------------------------------------------ */

static void *square(void *arg)
{
    intptr_t n = (intptr_t)arg;
    CHECK_EQ(weft_worker_self(), 0);
    weft_yield();
    return (void *)(n * n);
}

static void *call_crew(void *arg)
{
    weft_pool *home = weft_pool_self();
    int worker = weft_worker_self();
    for (intptr_t i = 0; i < 50; i++) {
        void *result = NULL;
        CHECK_EQ(weft_crew_call(arg, square, (void *)i, &result), 0);
        CHECK_EQ((intptr_t)result, i * i);
        CHECK(weft_pool_self() == home);
        CHECK_EQ(weft_worker_self(), worker);
    }
    return NULL;
}

TEST(a_call_brings_the_result_back_to_the_callers_pool_and_worker)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 2});
    weft_pool *home = pool_open(&(struct weft_pool_opts){.workers = 3});
    for (int i = 0; i < 6; i++) {
        struct weft_fiber_opts bound = {.bound = true, .worker = i % 3};
        CHECK_EQ(weft_pool_spawn(home, NULL, call_crew, crew, &bound), 0);
    }
    pool_close(home);
    crew_close(crew);
}

TEST(a_plain_thread_may_call_a_crew)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 2});
    for (intptr_t i = 0; i < 20; i++) {
        void *result = NULL;
        CHECK_EQ(weft_crew_call(crew, square, (void *)i, &result), 0);
        CHECK_EQ((intptr_t)result, i * i);
    }
    crew_close(crew);
}

struct meanwhile {
    weft_crew *crew;
    atomic_bool computing, progress;
};

/* Ends only if the worker of the caller's pool goes on with another fiber meanwhile. */
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
    CHECK_EQ(weft_crew_call(meanwhile->crew, compute_until_progress, meanwhile, NULL), 0);
    CHECK(atomic_load(&meanwhile->progress));
    return NULL;
}

TEST(a_call_does_not_block_the_callers_worker)
{
    struct meanwhile meanwhile = {.crew = crew_open(&(struct weft_crew_opts){.members = 1})};
    run_in_fiber(1, call_meanwhile, &meanwhile);
    crew_close(meanwhile.crew);
}

static void *call_stopped(void *arg)
{
    weft_pool *home = weft_pool_self();
    CHECK_EQ(weft_crew_call(arg, square, NULL, NULL), -ESHUTDOWN);
    CHECK(weft_pool_self() == home);
    return NULL;
}

TEST(a_stopped_crew_refuses_calls_and_the_fiber_stays)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 2});
    CHECK_EQ(weft_crew_stop(crew, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    run_in_fiber(1, call_stopped, crew);
    CHECK_EQ(weft_crew_submit(crew, square, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_crew_start(crew), 0); /* and starts again */
    CHECK_EQ(weft_crew_call(crew, square, NULL, NULL), 0);
    crew_close(crew);
}

/* --- what works there ------------------------------------------------------------------- */

static void *wait_in_every_way(void *arg)
{
    weft_pool *here = weft_pool_self();
    weft_fiber child;
    CHECK_EQ(weft_park(weft_after(200000)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&child, hold, arg, NULL), 0);
    await_state(child, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_unpark(child), 0);
    void *result;
    CHECK_EQ(weft_join(child, &result, WEFT_FOREVER), 0);
    CHECK(result == arg);
    CHECK(weft_pool_self() == here);
    return NULL;
}

TEST(sleeping_parking_and_joining_work_in_compute_pools)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 2});
    weft_pool *shared = pool_open(&(struct weft_pool_opts){.compute = true, .workers = 2});
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_crew_submit(crew, wait_in_every_way, crew), 0);
        CHECK_EQ(weft_pool_submit(shared, wait_in_every_way, crew), 0);
    }
    pool_close(shared);
    crew_close(crew);
}

static void *count_up(void *arg)
{
    weft_yield();
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

TEST(a_crew_drains_on_stop)
{
    for (int round = 0; round < 10; round++) {
        atomic_int ran = 0;
        weft_crew *crew = crew_open(&(struct weft_crew_opts){
            .members = 3, .placement = round % 2 ? WEFT_LEAST_LOADED : WEFT_ROUND_ROBIN});
        for (int i = 0; i < 100; i++) {
            CHECK_EQ(weft_crew_submit(crew, count_up, &ran), 0);
        }
        crew_close(crew);
        CHECK_EQ(atomic_load(&ran), 100);
    }
}

static void *stop_own_crew(void *arg)
{
    CHECK_EQ(weft_crew_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER), -EINPROGRESS);
    return NULL;
}

/* By a fiber of a member in the middle, which cannot wait for that one: the others are stopped all
 * the same, and the error is not lost among their zeros. */
TEST(a_stop_tells_the_first_error_after_all_were_tried)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 3});
    CHECK_EQ(weft_call_on(weft_crew_member(crew, 1), WEFT_ANY_WORKER, stop_own_crew, crew, NULL),
             0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(weft_crew_member(crew, i), end_at_once, NULL), -ESHUTDOWN);
    }
    crew_close(crew);
}

TEST(a_crew_stopped_by_cancel_ends_fibers_that_wait_for_ever)
{
    weft_crew *crew = crew_open(&(struct weft_crew_opts){.members = 3});
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(weft_crew_submit(crew, hold, NULL), 0);
    }
    CHECK_EQ(weft_crew_stop(crew, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_crew_destroy(crew);
}
