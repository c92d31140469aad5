/* Wake-ups of a thread that is not always present: a host that polls, a caller that runs and
 * leaves, fibers that migrate between pools of one worker. Each step is posted only after the
 * previous one was done, so the workers are just falling asleep. Nothing has a time limit: a lost
 * wake-up is a stall. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

static weft_pool *pool_open(unsigned workers, bool caller)
{
    const struct weft_pool_opts opts = {.name = "caller",
                                        .workers = workers,
                                        .caller = caller,
                                        .ring_slots = 4,
                                        .fresh_slots = 2,
                                        .spin_ns = -1};
    return watched_open(&opts);
}

/* --- a host that polls ------------------------------------------------------------- */

struct host {
    weft_pool *pool;
    long posts;
    uint64_t seed;
    atomic_long done;
    _Atomic(weft_fiber) sleeper;
    atomic_bool over;
};

static void *one_step(void *arg)
{
    struct host *host = arg;
    watchdog_progress();
    atomic_fetch_add(&host->done, 1);
    return NULL;
}

/* Bound to the host's worker, woken from outside repeatedly. */
static void *sleep_and_step(void *arg)
{
    struct host *host = arg;
    atomic_store(&host->sleeper, weft_self());
    bool last;
    do {
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        last = atomic_load(&host->over); /* before the step: set only after the previous one */
        one_step(host);
    } while (!last);
    return NULL;
}

static void *post_one_by_one(void *arg)
{
    struct host *host = arg;
    struct weft__rand rand;
    weft__rand_seed(&rand, host->seed);
    const struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    for (long i = 1; i <= host->posts; i++) {
        uint32_t way = weft__rand_next(&rand);
        if (i == host->posts) {
            atomic_store(&host->over, true);
            CHECK_EQ(weft_fiber_unpark(atomic_load(&host->sleeper)), 0);
        } else if (way % 3 == 0) {
            CHECK_EQ(weft_fiber_unpark(atomic_load(&host->sleeper)), 0);
        } else {
            CHECK_EQ(
                weft_pool_spawn(host->pool, NULL, one_step, host, way % 3 == 1 ? &bound : NULL), 0);
        }
        while (atomic_load(&host->done) < i) {
            sched_yield();
        }
        for (uint32_t n = way / 3 % 256; n > 0; n--) {
            atomic_load(&host->done); /* a little later each time */
        }
    }
    return NULL;
}

static void poll_as_host(unsigned workers, uint64_t seed)
{
    struct host host = {
        .pool = pool_open(workers, true), .posts = check_scale(10000), .seed = seed};
    struct pollfd fd = {.fd = weft_pool_fd(host.pool), .events = POLLIN};
    pthread_t poster;
    CHECK_EQ(weft_pool_spawn(host.pool, NULL, sleep_and_step, &host,
                             &(struct weft_fiber_opts){.bound = true, .worker = 0}),
             0);
    while (atomic_load(&host.sleeper) == WEFT_NO_FIBER) {
        CHECK(weft_pool_poll(host.pool) >= 0);
    }
    CHECK_EQ(pthread_create(&poster, NULL, post_one_by_one, &host), 0);
    while (!atomic_load(&host.over)) {
        CHECK(weft_pool_poll(host.pool) >= 0);
        if (!atomic_load(&host.over)) {
            int n = poll(&fd, 1, -1);        /* at least the last post wakes the host */
            CHECK(n >= 0 || errno == EINTR); /* the watchdog may interrupt this thread */
        }
    }
    while (atomic_load(&host.done) < host.posts) {
        CHECK(weft_pool_poll(host.pool) >= 0);
    }
    CHECK_EQ(pthread_join(poster, NULL), 0);
    watched_close(host.pool);
}

TEST(polling_host_is_woken_for_all_its_work)
{
    watchdog_start("polling host");
    poll_as_host(1, check_seed());
    poll_as_host(2, check_seed() + 1);
    poll_as_host(4, check_seed() + 2);
    watchdog_stop();
}

/* --- a caller that arrives and leaves ------------------------------------------------ */

static void *nothing(void *arg)
{
    return arg;
}

/* Ends on another worker, or after one, so that the caller's thread sleeps meanwhile. */
static void *go_elsewhere(void *arg)
{
    weft_pool *pool = weft_pool_self();
    weft_fiber child;
    CHECK_EQ(weft_fiber_migrate(pool, (int)(intptr_t)arg % (int)weft_pool_workers(pool)), 0);
    CHECK_EQ(weft_spawn(&child, nothing, NULL, NULL), 0);
    CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(repeated_run_of_caller_always_returns)
{
    watchdog_start("running caller");
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_pool *pool = pool_open(workers, true);
        for (intptr_t i = 0; i < check_scale(5000); i++) {
            CHECK_EQ(weft_pool_run(pool, NULL, go_elsewhere, (void *)i, WEFT_FOREVER), 0);
            watchdog_progress();
        }
        watched_close(pool);
    }
    watchdog_stop();
}

/* --- migration ------------------------------------------------------------------------ */

struct hopper {
    weft_pool *pools[3];
    uint64_t seed;
};

static void *hop_on(void *arg)
{
    struct hopper *hopper = arg;
    struct weft__rand rand;
    weft__rand_seed(&rand, hopper->seed);
    for (long i = 0; i < check_scale(10000); i++) {
        uint32_t way = weft__rand_next(&rand);
        weft_pool *to = hopper->pools[way % 3];
        int worker = way / 3 % 2 ? 0 : WEFT_ANY_WORKER;
        if (way / 6 % 2) {
            CHECK_EQ(weft_fiber_migrate(to, worker), 0);
        } else {
            CHECK_EQ(weft_pool_call(to, NULL, worker, nothing, NULL, WEFT_FOREVER), 0);
        }
        watchdog_progress();
    }
    return NULL;
}

TEST(fiber_migrating_between_sleeping_pools_always_arrives)
{
    watchdog_start("hops");
    struct hopper hoppers[2];
    weft_fiber fibers[2];
    weft_pool *pools[3];
    for (int i = 0; i < 3; i++) {
        pools[i] = pool_open(1, false);
    }
    for (int n = 1; n <= 2; n++) { /* alone, then two at a time */
        for (int i = 0; i < n; i++) {
            hoppers[i] = (struct hopper){{pools[0], pools[1], pools[2]},
                                         check_seed() + (uint64_t)(10 * n + i)};
            CHECK_EQ(weft_pool_spawn(pools[i], &fibers[i], hop_on, &hoppers[i], NULL), 0);
        }
        for (int i = 0; i < n; i++) {
            CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        }
    }
    for (int i = 0; i < 3; i++) {
        watched_close(pools[i]);
    }
    watchdog_stop();
}

/* --- short-lived pools ------------------------------------------------------------------ */

static void *count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

TEST(short_lived_pools_under_stress_lose_nothing)
{
    watchdog_start("short lives");
    for (long i = 0; i < check_scale(2000); i++) {
        atomic_int ran = 0;
        weft_pool *pool;
        struct weft_pool_opts opts = {.workers = (unsigned)(i % 4) + 1,
                                      .caller = i % 3 == 0,
                                      .ring_slots = 4,
                                      .fresh_slots = 2,
                                      .spin_ns = i % 5 ? -1 : 10000};
        CHECK_EQ(weft_pool_create(&pool, &opts), 0);
        watchdog_watch(pool);
        if (i % 7) {
            CHECK_EQ(weft_pool_start(pool), 0);
        }
        for (int n = 0; n < i % 6; n++) {
            struct weft_fiber_opts bound = {.bound = n % 2, .worker = (int)opts.workers - 1};
            CHECK_EQ(weft_pool_spawn(pool, NULL, count_up, &ran, &bound), 0);
        }
        CHECK_EQ(weft_pool_stop(pool, i % 2 ? WEFT_STOP_DRAIN : WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&ran), i % 6);
        watchdog_forget(pool);
        weft_pool_destroy(pool);
        watchdog_progress();
    }
    watchdog_stop();
}
