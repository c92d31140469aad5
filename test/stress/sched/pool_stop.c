/* Pools are created, used, stopped by several threads and destroyed, over and over. Accepted work
 * runs, once; late work is refused; nothing runs after stop; no stop hangs. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

static struct weft__rand rand_state;

static uint32_t dice(uint32_t sides)
{
    return weft__rand_next(&rand_state) % sides;
}

static weft_pool *pool_open(unsigned workers, bool caller)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {.name = "storm",
                                  .workers = workers,
                                  .caller = caller,
                                  .ring_slots = 4,
                                  .fresh_slots = 2,
                                  .spin_ns = dice(2) ? 0 : -1};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    watchdog_watch(pool);
    return pool;
}

static void pool_close(weft_pool *pool)
{
    watchdog_forget(pool);
    weft_pool_destroy(pool);
    watchdog_progress();
}

/* --- submits race with stop --------------------------------------------------- */

struct flood {
    weft_pool *pool;
    atomic_long accepted, refused, ran;
    atomic_bool stopped;
};

static void *leaf(void *arg)
{
    struct flood *flood = arg;
    CHECK(!atomic_load(&flood->stopped));
    atomic_fetch_add(&flood->ran, 1);
    return NULL;
}

/* A fiber of the pool continues to spawn after outside submits are refused. */
static void *branch(void *arg)
{
    struct flood *flood = arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_spawn(NULL, leaf, flood, NULL), 0);
        atomic_fetch_add(&flood->accepted, 1);
        weft_yield();
    }
    return leaf(arg);
}

static void *pour(void *arg)
{
    struct flood *flood = arg;
    const struct weft_job jobs[] = {{leaf, flood}, {branch, flood}, {leaf, flood}};
    for (;;) {
        int rc = weft_pool_submit_batch(flood->pool, jobs, 3);
        if (rc == 0) {
            atomic_fetch_add(&flood->accepted, 3);
            rc = weft_pool_submit(flood->pool, branch, flood);
            atomic_fetch_add(&flood->accepted, rc == 0);
        }
        if (rc != 0) {
            CHECK_EQ(rc, -ESHUTDOWN);
            atomic_fetch_add(&flood->refused, 1);
            return NULL;
        }
    }
}

static void *stop_too(void *arg)
{
    CHECK_EQ(weft_pool_stop(arg, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    return NULL;
}

static void flood_once(unsigned workers, bool restart)
{
    struct flood flood = {.pool = pool_open(workers, false)};
    pthread_t pourers[2], stopper;
    for (int life = 0; life <= restart; life++) {
        CHECK_EQ(weft_pool_start(flood.pool), 0);
        atomic_store(&flood.stopped, false);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_create(&pourers[i], NULL, pour, &flood), 0);
        }
        CHECK_EQ(pthread_create(&stopper, NULL, stop_too, flood.pool), 0);
        CHECK_EQ(weft_pool_stop(flood.pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        atomic_store(&flood.stopped, true);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_join(pourers[i], NULL), 0);
        }
        CHECK_EQ(pthread_join(stopper, NULL), 0);
        CHECK_EQ(atomic_load(&flood.ran), atomic_load(&flood.accepted));
        CHECK_EQ(atomic_load(&flood.refused), 2 * (life + 1));
        watchdog_progress();
    }
    pool_close(flood.pool);
}

TEST(submits_racing_with_stop_run_or_are_rejected)
{
    watchdog_start("submits against stop");
    weft__rand_seed(&rand_state, check_seed());
    for (long i = 0; i < check_scale(25); i++) {
        flood_once(1 + dice(4), dice(2));
    }
    watchdog_stop();
}

/* --- cancelling stops -------------------------------------------------------------- */

struct brood {
    atomic_long born, gone;
    long most;
};

/* Every fiber spawns two more until there are enough, then waits for ever. */
static void *breed(void *arg)
{
    struct brood *brood = arg;
    for (int i = 0; i < 2; i++) {
        if (atomic_fetch_add(&brood->born, 1) < brood->most) {
            CHECK_EQ(weft_spawn(NULL, breed, brood, NULL), 0);
        } else {
            atomic_fetch_sub(&brood->born, 1);
        }
    }
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    atomic_fetch_add(&brood->gone, 1);
    return NULL;
}

/* The stop comes while fibers are being created: none may escape the cancel. */
TEST(cancelling_stop_reaches_newly_spawned_fibers)
{
    watchdog_start("cancelling stop");
    weft__rand_seed(&rand_state, check_seed() + 1);
    for (long i = 0; i < check_scale(300); i++) {
        weft_pool *pool = pool_open(1 + dice(4), false);
        struct brood brood = {.born = 1, .most = 200};
        CHECK_EQ(weft_pool_start(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, breed, &brood), 0);
        long until = (long)dice(200);
        while (atomic_load(&brood.born) < until) {
            weft_yield();
        }
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&brood.gone), atomic_load(&brood.born));
        pool_close(pool);
    }
    watchdog_stop();
}

/* --- destroyed as early as possible ---------------------------------------------------- */

struct visit {
    weft_pool *host;
    atomic_bool end;
    _Atomic(weft_fiber) sleeper;
};

static void *nothing(void *arg)
{
    return arg;
}

static void *sleeper_main(void *arg)
{
    struct visit *visit = arg;
    atomic_store(&visit->sleeper, weft_self());
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return NULL;
}

/* Ends in its host's pool: the pool is idle from then on. */
static void *hopper_main(void *arg)
{
    struct visit *visit = arg;
    CHECK_EQ(weft_fiber_migrate(visit->host, WEFT_ANY_WORKER), 0);
    return NULL;
}

static void *joiner_main(void *arg)
{
    weft_fiber fiber = *(weft_fiber *)arg;
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

static void *waker_main(void *arg)
{
    struct visit *visit = arg;
    while (atomic_load(&visit->sleeper) == WEFT_NO_FIBER) {
        weft_yield();
    }
    CHECK_EQ(weft_fiber_unpark(atomic_load(&visit->sleeper)), 0);
    return NULL;
}

/* A worker of another pool makes the last fiber of this pool ready, and the fiber ends; the pool is
 * stopped and destroyed while the other worker may still be returning from the wake. */
static void visit_once(weft_pool *other, uint32_t kind)
{
    struct visit visit = {.host = pool_open(1 + dice(2), false)};
    weft_fiber there, here = WEFT_NO_FIBER;
    struct weft_fiber_opts bound = {.bound = dice(2)};
    CHECK_EQ(weft_pool_start(visit.host), 0);
    if (kind == 0) {
        CHECK_EQ(weft_pool_spawn(visit.host, &here, sleeper_main, &visit, &bound), 0);
        CHECK_EQ(weft_pool_spawn(other, &there, waker_main, &visit, NULL), 0);
    } else if (kind == 1) {
        CHECK_EQ(weft_pool_spawn(other, &there, hopper_main, &visit, NULL), 0);
        here = there;
    } else {
        CHECK_EQ(weft_pool_spawn(other, &there, nothing, NULL, NULL), 0);
        CHECK_EQ(weft_fiber_share(there), 0);
        CHECK_EQ(weft_pool_spawn(visit.host, &here, joiner_main, &there, &bound), 0);
    }
    CHECK_EQ(weft_join(here, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(visit.host, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    pool_close(visit.host);
    if (there != here) {
        CHECK_EQ(weft_join(there, NULL, WEFT_FOREVER), 0);
    }
}

/* Ends in another pool, and so makes the caller's run return from there. */
static void *emigrant_main(void *arg)
{
    CHECK_EQ(weft_fiber_migrate(arg, WEFT_ANY_WORKER), 0);
    return NULL;
}

static void emigrate_once(weft_pool *other)
{
    weft_pool *pool = pool_open(1 + dice(2), true);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, emigrant_main, other, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    pool_close(pool);
}

TEST(pool_can_be_destroyed_once_last_fiber_ended)
{
    watchdog_start("destroyed early");
    weft__rand_seed(&rand_state, check_seed() + 2);
    weft_pool *other = pool_open(2, false);
    CHECK_EQ(weft_pool_start(other), 0);
    for (long i = 0; i < check_scale(1000); i++) {
        uint32_t kind = dice(4);
        if (kind == 3) {
            emigrate_once(other);
        } else {
            visit_once(other, kind);
        }
    }
    CHECK_EQ(weft_pool_stop(other, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    pool_close(other);
    watchdog_stop();
}

/* --- the caller as a worker -------------------------------------------------------------- */

static void *where(void *arg)
{
    *(int *)arg = weft_worker_self();
    return NULL;
}

/* Ends while the bound fiber it created waits for a stack of a size that its worker has not
 * cached. */
static void *leave_bound_behind(void *arg)
{
    struct weft_fiber_opts opts = {.bound = true, .worker = 0, .stack_bytes = 256 * 1024};
    CHECK_EQ(weft_spawn(NULL, where, arg, &opts), 0);
    return NULL;
}

TEST(bound_fiber_waits_for_caller_that_left)
{
    watchdog_start("bound to an absent caller");
    weft__rand_seed(&rand_state, check_seed() + 3);
    for (long i = 0; i < check_scale(50); i++) {
        int ran_on = -1;
        weft_pool *pool = pool_open(3, true);
        CHECK_EQ(weft_pool_start(pool), 0);
        CHECK_EQ(weft_pool_run(pool, NULL, leave_bound_behind, &ran_on, WEFT_FOREVER), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK_EQ(ran_on, 0);
        pool_close(pool);
    }
    watchdog_stop();
}
