/* Moving a running fiber to another pool or worker, permanently or temporarily. */
/* labels: valgrind */
#include "pool/fixture.h"

static void *run_in_pool(weft_pool *pool, int worker, weft_fn fn, void *arg)
{
    struct weft_fiber_opts opts = {.bound = worker >= 0, .worker = worker};
    weft_fiber fiber;
    void *result;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, fn, arg, &opts), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    return result;
}

static void check_at(weft_pool *pool, int worker)
{
    CHECK(weft_pool_self() == pool);
    if (worker >= 0) {
        CHECK_EQ(weft_worker_self(), worker);
    }
}

/* Suspends in every way that lets an unbound fiber change its worker. */
static void wander(void)
{
    for (int i = 0; i < 30; i++) {
        weft_yield();
        CHECK_EQ(weft_fiber_unpark(weft_self()), 0);
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        if (i % 10 == 0) {
            CHECK_EQ(weft_fiber_park(weft_after(50000)), -ETIMEDOUT);
        }
    }
}

struct pools {
    weft_pool *a, *b, *c;
};

static struct pools pools_open(unsigned workers)
{
    return (struct pools){
        pool_open(&(struct weft_pool_opts){.name = "a", .workers = workers}),
        pool_open(&(struct weft_pool_opts){.name = "b", .workers = workers}),
        pool_open(&(struct weft_pool_opts){.name = "c", .workers = workers}),
    };
}

static void pools_close(struct pools *pools)
{
    pool_close(pools->a);
    pool_close(pools->b);
    pool_close(pools->c);
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* --- permanently ----------------------------------------------------------------- */

static void *move_around(void *arg)
{
    struct pools *pools = arg;
    CHECK_EQ(weft_fiber_migrate(pools->b, WEFT_ANY_WORKER), 0);
    check_at(pools->b, -1);
    wander();
    check_at(pools->b, -1);
    CHECK_EQ(weft_fiber_migrate(pools->c, 1), 0);
    check_at(pools->c, 1);
    wander();
    check_at(pools->c, 1);
    CHECK_EQ(weft_fiber_migrate(pools->c, 0), 0);
    check_at(pools->c, 0);
    wander();
    check_at(pools->c, 0);
    return NULL;
}

TEST(migrated_fiber_stays_on_target_worker)
{
    struct pools pools = pools_open(2);
    run_in_pool(pools.a, 1, move_around, &pools);
    CHECK_EQ(weft_pool_stop(pools.a, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(pool_live(pools.b), 0);
    pools_close(&pools);
}

static uint64_t executed(weft_pool *pool)
{
    struct weft_pool_stats stats;
    weft_pool_stats(pool, &stats);
    return stats.total.executed;
}

static void *move_nowhere(void *arg)
{
    weft_pool *here = arg;
    uint64_t before = executed(here);
    CHECK_EQ(weft_fiber_migrate(here, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_migrate(here, 0), 0);
    CHECK_EQ(weft_fiber_migrate(here, 0), 0);
    CHECK_EQ(weft_fiber_migrate(here, WEFT_ANY_WORKER), 0);
    struct weft_migration hop;
    CHECK_EQ(weft_migration_enter(&hop, here, WEFT_ANY_WORKER), 0);
    weft_migration_leave(&hop);
    CHECK_EQ(weft_pool_call(here, NULL, 0, end_at_once, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(executed(here), before);
    return NULL;
}

TEST(migration_to_current_worker_costs_no_turn)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    run_in_pool(pool, -1, move_nowhere, pool);
    pool_close(pool);
}

static size_t bound_to(weft_pool *pool, unsigned worker)
{
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(pool, &stats, worker), 0);
    return stats.bound;
}

static void *bind_and_unbind(void *arg)
{
    weft_pool *here = arg;
    int worker = weft_worker_self();
    CHECK_EQ(weft_fiber_migrate(here, worker), 0);
    CHECK_EQ(bound_to(here, (unsigned)worker), 1);
    wander();
    check_at(here, worker);
    CHECK_EQ(weft_fiber_migrate(here, WEFT_ANY_WORKER), 0);
    CHECK_EQ(bound_to(here, (unsigned)worker), 0);
    return NULL;
}

TEST(migration_to_own_worker_binds_and_to_any_worker_unbinds)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 4});
    for (int i = 0; i < 20; i++) {
        run_in_pool(pool, -1, bind_and_unbind, pool);
    }
    pool_close(pool);
}

static void *move_wrongly(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    CHECK_EQ(weft_fiber_migrate(pools->b, 2), -EINVAL);
    CHECK_EQ(weft_fiber_migrate(pools->b, -2), -EINVAL);
    CHECK_EQ(weft_migration_enter(&hop, pools->b, 2), -EINVAL);
    CHECK_EQ(weft_pool_call(pools->b, NULL, 2, end_at_once, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_fiber_migrate(pools->a, 2), -EINVAL);
    check_at(pools->a, 1);
    wander();
    check_at(pools->a, 1);
    return NULL;
}

TEST(migration_to_invalid_worker_fails_and_fiber_stays)
{
    struct pools pools = pools_open(2);
    run_in_pool(pools.a, 1, move_wrongly, &pools);
    CHECK_EQ(weft_pool_call(pools.a, NULL, 2, end_at_once, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pool_call(pools.a, NULL, -2, end_at_once, NULL, WEFT_FOREVER), -EINVAL);
    pools_close(&pools);
}

TEST(plain_thread_cannot_migrate)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct weft_migration hop;
    CHECK_EQ(weft_fiber_migrate(pool, WEFT_ANY_WORKER), -ENXIO);
    CHECK_EQ(weft_migration_enter(&hop, pool, WEFT_ANY_WORKER), -ENXIO);
    pool_close(pool);
}

static void *must_not_run(void *arg)
{
    (void)arg;
    check_fail(__FILE__, __LINE__, "ran although the hop was refused");
}

static void *move_to_stopped(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    void *result = pools;
    CHECK_EQ(weft_fiber_migrate(pools->b, WEFT_ANY_WORKER), -ESHUTDOWN);
    CHECK_EQ(weft_fiber_migrate(pools->b, 0), -ESHUTDOWN);
    CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), -ESHUTDOWN);
    CHECK_EQ(weft_pool_call(pools->b, &result, WEFT_ANY_WORKER, must_not_run, NULL, WEFT_FOREVER),
             -ESHUTDOWN);
    CHECK(result == pools);
    check_at(pools->a, 1);
    wander();
    check_at(pools->a, 1);
    return NULL;
}

TEST(migration_to_stopped_pool_fails_and_fiber_stays)
{
    struct pools pools = pools_open(2);
    CHECK_EQ(weft_pool_stop(pools.b, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    run_in_pool(pools.a, 1, move_to_stopped, &pools);
    CHECK_EQ(weft_pool_call(pools.b, NULL, WEFT_ANY_WORKER, must_not_run, NULL, WEFT_FOREVER),
             -ESHUTDOWN);
    CHECK_EQ(pool_live(pools.b), 0);
    pools_close(&pools);
}

static void *begin_stop(void *arg)
{
    CHECK_EQ(weft_pool_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER), -EINPROGRESS);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return NULL;
}

TEST(migration_to_stopping_pool_fails)
{
    struct pools pools = pools_open(2);
    weft_fiber stopper;
    CHECK_EQ(weft_pool_spawn(pools.b, &stopper, begin_stop, pools.b, NULL), 0);
    await_state(stopper, WEFT_FIBER_WAITING);
    run_in_pool(pools.a, 1, move_to_stopped, &pools);
    CHECK_EQ(weft_fiber_unpark(stopper), 0);
    CHECK_EQ(weft_join(stopper, NULL, WEFT_FOREVER), 0);
    pools_close(&pools);
}

static void *move_to_full(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    CHECK_EQ(weft_fiber_migrate(pools->b, WEFT_ANY_WORKER), -EAGAIN);
    CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), -EAGAIN);
    check_at(pools->a, 0);
    return NULL;
}

static void *hold(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_fiber_park(WEFT_FOREVER);
}

static void *go_and_come_back(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), 0);
    weft_migration_leave(&hop);
    CHECK_EQ(weft_fiber_migrate(pools->b, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_migrate(pools->a, 0), 0);
    return NULL;
}

TEST(migration_to_pool_at_max_fibers_fails)
{
    struct pools pools = {
        .a = pool_open(&(struct weft_pool_opts){.workers = 1}),
        .b = pool_open(&(struct weft_pool_opts){.workers = 1, .max_fibers = 1}),
    };
    weft_fiber held;
    CHECK_EQ(weft_pool_spawn(pools.b, &held, hold, NULL, NULL), 0);
    run_in_pool(pools.a, 0, move_to_full, &pools);
    CHECK_EQ(weft_fiber_unpark(held), 0);
    CHECK_EQ(weft_join(held, NULL, WEFT_FOREVER), 0);
    for (int i = 0; i < 5; i++) {
        run_in_pool(pools.a, 0, go_and_come_back,
                    &pools); /* a guest's place is free after it left */
    }
    pool_close(pools.a);
    pool_close(pools.b);
}

/* --- temporarily ------------------------------------------------------------------- */

static void *visit_and_return(void *arg)
{
    struct pools *pools = arg;
    int home = weft_worker_self();
    for (int i = 0; i < 20; i++) {
        struct weft_migration outer, inner;
        CHECK_EQ(weft_migration_enter(&outer, pools->b, i % 2 ? 1 : WEFT_ANY_WORKER), 0);
        check_at(pools->b, i % 2 ? 1 : -1);
        wander();
        CHECK_EQ(weft_migration_enter(&inner, i % 3 ? pools->c : pools->b, 0), 0);
        wander();
        check_at(i % 3 ? pools->c : pools->b, 0);
        weft_migration_leave(&inner);
        check_at(pools->b, i % 2 ? 1 : -1);
        wander();
        weft_migration_leave(&outer);
        check_at(pools->a, home);
        wander();
        check_at(pools->a, home);
    }
    return NULL;
}

TEST(scoped_migration_returns_to_bound_worker)
{
    struct pools pools = pools_open(2);
    run_in_pool(pools.a, 0, visit_and_return, &pools);
    run_in_pool(pools.a, 1, visit_and_return, &pools);
    pools_close(&pools);
}

static void *visit_own_worker(void *arg)
{
    for (int i = 0; i < 20; i++) {
        int worker = weft_worker_self();
        struct weft_migration hop;
        CHECK_EQ(weft_migration_enter(&hop, arg, worker), 0);
        CHECK_EQ(bound_to(arg, (unsigned)worker), 1);
        wander();
        check_at(arg, worker);
        weft_migration_leave(&hop);
        CHECK_EQ(bound_to(arg, (unsigned)worker), 0);
        weft_yield();
    }
    return NULL;
}

TEST(scoped_migration_to_current_worker_binds_for_scope)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 4});
    run_in_pool(pool, -1, visit_own_worker, pool);
    pool_close(pool);
}

static void *return_early(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_migrate(pools->a, WEFT_ANY_WORKER), 0);
    check_at(pools->a, -1);
    weft_migration_leave(&hop);
    check_at(pools->a, 1);
    return NULL;
}

static void *return_from_a_third(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_migrate(pools->c, WEFT_ANY_WORKER), 0);
    weft_migration_leave(&hop);
    check_at(pools->a, 1);
    return NULL;
}

static void *return_to_another_worker(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration outer, inner;
    CHECK_EQ(weft_migration_enter(&outer, pools->a, 0), 0);
    CHECK_EQ(pool_live(pools->a), 1);
    CHECK_EQ(weft_migration_enter(&inner, pools->a, 1), 0);
    CHECK_EQ(pool_live(pools->a), 1);
    CHECK_EQ(weft_fiber_migrate(pools->c, WEFT_ANY_WORKER), 0);
    CHECK_EQ(pool_live(pools->a), 1);
    CHECK_EQ(pool_live(pools->c), 1);
    CHECK_EQ(weft_fiber_migrate(pools->b, WEFT_ANY_WORKER), 0);
    weft_migration_leave(&inner);
    check_at(pools->a, 0);
    weft_migration_leave(&outer);
    check_at(pools->a, 1);
    CHECK_EQ(pool_live(pools->a), 1);
    return NULL;
}

static void check_counted(weft_fn fn)
{
    struct pools pools = pools_open(2);
    run_in_pool(pools.a, 1, fn, &pools);
    CHECK_EQ(weft_pool_stop(pools.a, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pools.b, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pools.c, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(pool_live(pools.a), 0);
    CHECK_EQ(pool_live(pools.b), 0);
    CHECK_EQ(pool_live(pools.c), 0);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(bound_to(pools.a, i) + bound_to(pools.b, i) + bound_to(pools.c, i), 0);
    }
    pools_close(&pools);
}

TEST(return_home_inside_scoped_migration_keeps_counts)
{
    check_counted(return_early);
}

TEST(migration_elsewhere_inside_scope_keeps_counts)
{
    check_counted(return_from_a_third);
}

TEST(scoped_migration_from_other_worker_keeps_counts)
{
    check_counted(return_to_another_worker);
}

/* --- calls ------------------------------------------------------------------------- */

struct call {
    weft_pool *pool;
    int worker;
    weft_fiber caller;
};

static void *answer(void *arg)
{
    struct call *call = arg;
    check_at(call->pool, call->worker);
    wander();
    check_at(call->pool, call->worker);
    if (call->caller) {
        CHECK_EQ(weft_self(), call->caller); /* no second fiber is created */
    }
    return call;
}

static void *call_there(void *arg)
{
    struct pools *pools = arg;
    int home = weft_worker_self();
    for (int worker = -1; worker < 2; worker++) {
        struct call call = {pools->b, worker, weft_self()};
        void *result = NULL;
        CHECK_EQ(weft_pool_call(pools->b, &result, worker, answer, &call, WEFT_FOREVER), 0);
        CHECK(result == &call);
        check_at(pools->a, home);
        CHECK_EQ(weft_pool_call(pools->b, NULL, worker, answer, &call, WEFT_FOREVER), 0);
        check_at(pools->a, home);
    }
    return NULL;
}

TEST(pool_call_runs_on_target_and_returns_result)
{
    struct pools pools = pools_open(2);
    run_in_pool(pools.a, 1, call_there, &pools);
    pools_close(&pools);
}

TEST(pool_call_from_plain_thread_waits_for_result)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int worker = -1; worker < 2; worker++) {
        struct call call = {pool, worker, WEFT_NO_FIBER};
        void *result = NULL;
        CHECK_EQ(weft_pool_call(pool, &result, worker, answer, &call, WEFT_FOREVER), 0);
        CHECK(result == &call);
        CHECK(weft_pool_self() == NULL);
    }
    pool_close(pool);
}

static void *never_runs(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return arg;
}

static atomic_bool hog_runs;

static void *hog_until(void *arg)
{
    atomic_store(&hog_runs, true);
    while (!atomic_load((atomic_bool *)arg)) {
    }
    return arg;
}

/* The only worker is busy: the function does not start before the deadline, and never. */
TEST(pool_call_that_misses_deadline_never_runs)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    atomic_bool go = false;
    atomic_int ran = 0;
    void *result = &pool;
    weft_fiber hog;
    CHECK_EQ(weft_pool_spawn(pool, &hog, hog_until, &go, NULL), 0);
    while (!atomic_load(&hog_runs)) {
        sched_yield();
    }
    CHECK_EQ(weft_pool_call(pool, &result, 0, never_runs, &ran, weft_after(1000000)), -ETIMEDOUT);
    CHECK(result == &pool);
    atomic_store(&go, true);
    CHECK_EQ(weft_join(hog, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_call(pool, &result, 0, hog_until, &go, weft_after(INT64_C(60000000000))), 0);
    CHECK(result == &go);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 0);
}

static void *wait_for_go(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        weft_sleep(weft_after(100000));
    }
    return arg;
}

static void *set_go_later(void *arg)
{
    weft_sleep(weft_after(5000000));
    atomic_store((atomic_bool *)arg, true);
    return arg;
}

/* The deadline is for the start: a function that has started is waited for. */
TEST(pool_call_waits_for_started_function_beyond_deadline)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    atomic_bool go = false;
    weft_fiber later;
    void *result = NULL;
    int err;
    CHECK_EQ(weft_pool_spawn(pool, &later, set_go_later, &go, NULL), 0);
    while ((err = weft_pool_call(pool, &result, WEFT_ANY_WORKER, wait_for_go, &go,
                                 weft_after(1000000))) == -ETIMEDOUT) {
        /* a slow machine did not start it in time */
    }
    CHECK_EQ(err, 0);
    CHECK(result == &go);
    CHECK_EQ(weft_join(later, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

/* The caller is the only worker and does not run it. */
TEST(pool_call_that_needs_the_caller_itself_never_runs)
{
    weft_pool *pool;
    atomic_int ran = 0;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.caller = true, .workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_call(pool, NULL, WEFT_ANY_WORKER, never_runs, &ran, WEFT_FOREVER), -EDEADLK);
    pool_close(pool); /* runs what was left */
    CHECK_EQ(atomic_load(&ran), 0);
}

static void *arrives_late(void *arg)
{
    struct pools *pools = arg;
    atomic_int ran = 0;
    int home = weft_worker_self();
    CHECK_EQ(weft_pool_call(pools->b, NULL, WEFT_ANY_WORKER, never_runs, &ran, 0), -ETIMEDOUT);
    check_at(pools->a, home);
    CHECK_EQ(atomic_load(&ran), 0);
    return NULL;
}

TEST(migrating_pool_call_checks_deadline_on_arrival)
{
    struct pools pools = pools_open(2);
    run_in_pool(pools.a, 1, arrives_late, &pools);
    pools_close(&pools);
}

static void *leave_for_good(void *arg)
{
    weft_fiber_exit(arg);
}

static void *call_and_exit(void *arg)
{
    struct pools *pools = arg;
    weft_pool_call(pools->b, NULL, WEFT_ANY_WORKER, leave_for_good, pools, WEFT_FOREVER);
    check_fail(__FILE__, __LINE__, "weft_fiber_exit came back");
}

TEST(fiber_can_exit_inside_pool_call)
{
    struct pools pools = pools_open(1);
    CHECK(run_in_pool(pools.a, 0, call_and_exit, &pools) == &pools);
    pools_close(&pools);
}

/* --- cancel during a visit ----------------------------------------------------------- */

static void *wait_for_cancel(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
    return (void *)(intptr_t)weft_fiber_park(WEFT_FOREVER);
}

struct away {
    struct pools *pools;
    atomic_bool waits;
    int nested;
};

static void *call_until_cancelled(void *arg)
{
    struct away *away = arg;
    struct pools *pools = away->pools;
    struct weft_migration hop, side;
    if (away->nested) {
        CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), 0);
    }
    if (away->nested > 1) { /* there and back once more: the first scope still counts */
        CHECK_EQ(weft_migration_enter(&side, pools->c, WEFT_ANY_WORKER), 0);
        weft_migration_leave(&side);
    }
    void *result = NULL;
    CHECK_EQ(weft_pool_call(away->nested == 1 ? pools->c : pools->b, &result, WEFT_ANY_WORKER,
                            wait_for_cancel, &away->waits, WEFT_FOREVER),
             0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    if (away->nested) {
        weft_migration_leave(&hop);
    }
    check_at(pools->a, 1);
    CHECK(weft_fiber_is_cancelled());
    return NULL;
}

static weft_fiber spawn_away(struct away *away)
{
    weft_fiber fiber;
    struct weft_fiber_opts opts = {.bound = true, .worker = 1};
    CHECK_EQ(weft_pool_spawn(away->pools->a, &fiber, call_until_cancelled, away, &opts), 0);
    while (!atomic_load(&away->waits)) {
        weft_yield();
    }
    return fiber;
}

TEST(fiber_cancelled_during_scoped_migration_returns_home)
{
    struct pools pools = pools_open(2);
    for (int nested = 0; nested < 3; nested++) {
        struct away away = {.pools = &pools, .nested = nested};
        weft_fiber fiber = spawn_away(&away);
        CHECK_EQ(weft_cancel(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    pools_close(&pools);
}

TEST(cancelling_stop_of_home_pool_cancels_migrated_fibers)
{
    for (int nested = 0; nested < 3; nested++) {
        struct pools pools = pools_open(2);
        struct away away = {.pools = &pools, .nested = nested};
        weft_fiber fiber = spawn_away(&away);
        CHECK_EQ(weft_pool_stop(pools.a, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        pools_close(&pools);
    }
}

TEST(cancelling_stop_of_visited_pool_returns_fiber_home)
{
    struct pools pools = pools_open(2);
    struct away away = {.pools = &pools};
    weft_fiber fiber = spawn_away(&away);
    CHECK_EQ(weft_pool_stop(pools.b, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pools_close(&pools);
}

struct gate {
    weft_pool *away;
    atomic_bool entered, open;
    bool back;
};

static void *wait_at_gate(void *arg)
{
    struct gate *gate = arg;
    atomic_store(&gate->entered, true);
    while (!atomic_load(&gate->open)) {
        weft_yield();
    }
    return NULL;
}

static void *visit_gate(void *arg)
{
    struct gate *gate = arg;
    CHECK_EQ(weft_pool_call(gate->away, NULL, WEFT_ANY_WORKER, wait_at_gate, gate, WEFT_FOREVER),
             0);
    gate->back = true;
    return NULL;
}

static void *open_when_stopping(void *arg)
{
    void **both = arg;
    struct gate *gate = both[1];
    while (weft_pool_submit(both[0], end_at_once, NULL) != -ESHUTDOWN) {
        sched_yield();
    }
    atomic_store(&gate->open, true);
    return NULL;
}

TEST(draining_stop_waits_for_migrated_fiber)
{
    for (int i = 0; i < 20; i++) {
        struct pools pools = pools_open(1);
        struct gate gate = {.away = pools.b};
        CHECK_EQ(weft_pool_submit(pools.a, visit_gate, &gate), 0);
        while (!atomic_load(&gate.entered)) {
            sched_yield();
        }
        pthread_t opener = thread_open(open_when_stopping, (void *[]){pools.a, &gate});
        CHECK_EQ(weft_pool_stop(pools.a, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK(gate.back);
        thread_close(opener);
        pools_close(&pools);
    }
}

/* --- many -------------------------------------------------------------------------- */

struct traveller {
    weft_pool *pools[3];
    uint64_t seed;
    int hops;
};

static void *travel(void *arg)
{
    struct traveller *me = arg;
    for (int i = 0; i < me->hops; i++) {
        uint32_t roll = dice(&me->seed);
        weft_pool *to = me->pools[roll % 3];
        int worker = (int)(roll / 3 % 3) - 1;
        if (roll / 9 % 2) {
            CHECK_EQ(weft_fiber_migrate(to, worker), 0);
            check_at(to, worker);
        } else {
            struct call call = {to, worker, weft_self()};
            weft_pool *from = weft_pool_self();
            struct weft_migration hop;
            CHECK_EQ(weft_migration_enter(&hop, to, worker), 0);
            check_at(call.pool, call.worker);
            weft_migration_leave(&hop);
            check_at(from, -1);
        }
    }
    return NULL;
}

TEST(many_fibers_migrating_between_three_pools_are_not_lost)
{
    enum { FIBERS = 20 };
    struct pools pools = pools_open(2);
    struct traveller travellers[FIBERS];
    weft_fiber fibers[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        travellers[i] = (struct traveller){
            {pools.a, pools.b, pools.c}, check_seed() + (uint64_t)i, (int)check_scale(1000)};
        CHECK_EQ(weft_pool_spawn(pools.a, &fibers[i], travel, &travellers[i], NULL), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    pools_close(&pools);
}

/* The last action of the visited pool for a fiber is to queue it in its own pool, which may be
 * destroyed a moment later. */
TEST(pool_can_be_destroyed_once_migrated_fibers_returned)
{
    weft_pool *away = pool_open(&(struct weft_pool_opts){.workers = 2});
    long rounds = check_scale(1000);
    for (long i = 0; i < rounds; i++) {
        weft_pool *home = pool_open(&(struct weft_pool_opts){
            .workers = 1, .ring_slots = 4, .fresh_slots = 4, .spin_ns = i % 2 ? -1 : 20000});
        struct gate gate = {.away = away, .open = true};
        CHECK_EQ(weft_pool_spawn(home, NULL, visit_gate, &gate,
                                 &(struct weft_fiber_opts){.bound = i % 3 == 0}),
                 0);
        pool_close(home);
        CHECK(gate.back);
    }
    pool_close(away);
}

/* As above, for a wake from another pool. */
struct pair {
    weft_pool *other;
    atomic_uint_least64_t waits;
};

static void *wake_other(void *arg)
{
    struct pair *pair = arg;
    weft_fiber fiber;
    while (!(fiber = atomic_load(&pair->waits))) {
        weft_yield();
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    return NULL;
}

static void *wait_for_other(void *arg)
{
    struct pair *pair = arg;
    CHECK_EQ(weft_pool_submit(pair->other, wake_other, pair), 0);
    atomic_store(&pair->waits, weft_self());
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return NULL;
}

TEST(pool_can_be_destroyed_once_last_fiber_was_woken)
{
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = 2});
    long rounds = check_scale(1000);
    for (long i = 0; i < rounds; i++) {
        weft_pool *home = pool_open(&(struct weft_pool_opts){
            .workers = 1, .ring_slots = 4, .fresh_slots = 4, .spin_ns = i % 2 ? -1 : 20000});
        struct pair pair = {.other = other};
        CHECK_EQ(weft_pool_spawn(home, NULL, wait_for_other, &pair,
                                 &(struct weft_fiber_opts){.bound = i % 3 == 0}),
                 0);
        pool_close(home);
        while (pool_live(other) > 0) {
            sched_yield(); /* `pair` is on this stack */
        }
    }
    pool_close(other);
}

/* --- unpark with a destination ---------------------------------------------------------------- */

struct resting {
    weft_pool *pool;
    int worker, result;
    int64_t deadline;
};

static void *rests(void *arg)
{
    struct resting *r = arg;
    r->result = weft_fiber_park(r->deadline);
    r->pool = weft_pool_self();
    r->worker = weft_worker_self();
    return NULL;
}

static weft_fiber rest_in(weft_pool *pool, struct resting *r, int64_t deadline)
{
    weft_fiber fiber;
    *r = (struct resting){.deadline = deadline, .result = 77};
    CHECK_EQ(weft_pool_spawn(pool, &fiber, rests, r, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    return fiber;
}

TEST(unpark_on_moves_parked_fiber_to_any_worker_of_any_pool)
{
    struct pools pools = pools_open(3);
    struct resting r;
    weft_pool *targets[] = {pools.a, pools.b, pools.c};
    for (int i = 0; i < 36; i++) {
        weft_pool *target = targets[i % 3];
        int worker = i / 3 % 4 - 1; /* -1: any worker */
        weft_fiber fiber =
            rest_in(pools.a, &r, i % 2 ? WEFT_FOREVER : weft_after(WEFT_MINUTES(60)));
        CHECK_EQ(weft_fiber_unpark_on(fiber, target, worker), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(r.result, 0);
        CHECK(r.pool == target);
        CHECK(worker < 0 || r.worker == worker);
    }
    pools_close(&pools);
}

TEST(pool_left_by_parked_fiber_can_be_destroyed)
{
    weft_pool *from = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *to = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 2; i++) {
        struct resting r;
        weft_fiber fiber = rest_in(from, &r, i ? weft_after(WEFT_MINUTES(60)) : WEFT_FOREVER);
        CHECK_EQ(weft_fiber_unpark_on(fiber, to, 1), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK(r.pool == to);
    }
    pool_close(from); /* neither the pool's timers nor its counts know the fibers any more */
    pool_close(to);
}

static void *stays_bound(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    for (int i = 0; i < 3; i++) {
        check_at(arg, 1);
        wander();
    }
    return NULL;
}

TEST(fiber_moved_by_unpark_on_stays_bound_to_worker)
{
    struct pools pools = pools_open(2);
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pools.a, &fiber, stays_bound, pools.b, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark_on(fiber, pools.b, 1), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pools_close(&pools);
}

static void *comes_back(void *arg)
{
    struct pools *pools = arg;
    struct weft_migration hop;
    CHECK_EQ(weft_migration_enter(&hop, pools->b, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    check_at(pools->c, 1);
    weft_migration_leave(&hop);
    check_at(pools->a, -1);
    return NULL;
}

TEST(scoped_migration_returns_to_origin_after_unpark_on)
{
    struct pools pools = pools_open(2);
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pools.a, &fiber, comes_back, &pools, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    while (weft_fiber_unpark_on(fiber, pools.c, 1) == -EBUSY) { /* the fiber was on its way to b */
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pools_close(&pools);
}

static void *waits_on_event(void *arg)
{
    CHECK_EQ(weft_event_wait(arg, WEFT_FOREVER), 0);
    return NULL;
}

static void *waits_in_a_group(void *arg)
{
    (void)weft_fiber_park(WEFT_FOREVER);
    return arg;
}

TEST(failed_unpark_on_changes_nothing)
{
    struct pools pools = pools_open(1);
    struct resting r;
    weft_event event = {0};
    weft_fiber waits, fiber = rest_in(pools.a, &r, WEFT_FOREVER);
    CHECK_EQ(weft_fiber_unpark_on(fiber, pools.b, 1), -EINVAL);
    CHECK_EQ(weft_fiber_unpark_on(fiber, pools.b, -2), -EINVAL);
    weft_pool *full = pool_open(&(struct weft_pool_opts){.workers = 1, .max_fibers = 1});
    CHECK_EQ(weft_pool_spawn(full, &waits, waits_on_event, &event, NULL), 0);
    CHECK_EQ(weft_fiber_unpark_on(fiber, full, 0), -EAGAIN);
    await_state(waits, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark_on(waits, pools.a, 0), -EBUSY); /* waits, but not in park */
    weft_event_set(&event);
    CHECK_EQ(weft_join(waits, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark_on(waits, pools.a, 0), -ESRCH);
    pool_close(full);

    weft_pool *stopped = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_stop(stopped, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark_on(fiber, stopped, 0), -ESHUTDOWN);
    weft_pool_destroy(stopped);

    weft_dispatcher *d;
    weft_group *group;
    weft_fiber member;
    CHECK_EQ(weft_dispatcher_create(&d, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(d), 0);
    CHECK_EQ(weft_group_create(d, &group, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, &member, waits_in_a_group, NULL, NULL), 0);
    await_state(member, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark_on(fiber, weft_dispatcher_pool(d), 0), -EPERM);
    CHECK_EQ(weft_fiber_unpark_on(member, pools.a, 0), -EPERM);
    CHECK_EQ(weft_fiber_unpark(member), 0);
    CHECK_EQ(weft_join(member, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);

    enum weft_fiber_state state;
    CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    CHECK_EQ(state, WEFT_FIBER_WAITING); /* after all those calls */
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK(r.pool == pools.a);
    pools_close(&pools);
}

/* Unparks of both kinds, timeouts and cancels race: each park ends once, on the worker it was sent
 * to. */
struct chase {
    struct pools pools;
    weft_fiber fiber;
    atomic_int sent, parks;
    atomic_bool over;
};

static void *is_chased(void *arg)
{
    struct chase *chase = arg;
    for (int i = 0; i < check_scale(3000); i++) {
        int err = weft_fiber_park(i % 3 ? WEFT_FOREVER : weft_after(i % 50 * 1000));
        CHECK(err == 0 || err == -ETIMEDOUT);
        atomic_fetch_add(&chase->parks, 1);
    }
    atomic_store(&chase->over, true);
    return NULL;
}

static void *chases(void *arg)
{
    struct chase *chase = arg;
    weft_pool *targets[] = {chase->pools.a, chase->pools.b, chase->pools.c};
    for (unsigned i = 0; !atomic_load(&chase->over); i++) {
        int err = i % 5 ? weft_fiber_unpark_on(chase->fiber, targets[i % 3],
                                               (int)(i % 4) / 2 - (i % 4 == 3))
                        : weft_fiber_unpark(chase->fiber);
        CHECK(err == 0 || err == -EBUSY || err == -ESRCH);
        atomic_fetch_add(&chase->sent, err == 0);
        if (i % 64 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

TEST(concurrent_unpark_on_moves_one_fiber_safely)
{
    struct chase chase = {.pools = pools_open(2)};
    pthread_t threads[2];
    CHECK_EQ(weft_pool_spawn(chase.pools.a, &chase.fiber, is_chased, &chase, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, chases, &chase), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(weft_join(chase.fiber, NULL, WEFT_FOREVER), 0);
    pools_close(&chase.pools);
}
