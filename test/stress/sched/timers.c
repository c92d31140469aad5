/* Three ways to end a wait at once: the deadline, weft_fiber_unpark and weft_cancel, from fibers of
 * two pools and from a plain thread. Exactly one of them ends each wait; no unpark is lost, none
 * counts twice; a deadline is never early; a cancel is permanent. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

#define SLEEPERS 24
#define WAKERS 3

struct sleeper {
    _Atomic(weft_fiber) fiber;
    _Atomic(uint64_t) unparks; /* sent; counted before the call */
    atomic_bool cancelled;     /* set before the cancel is sent */
    uint64_t woken;            /* parks that returned 0 */
    uint64_t lives;
    struct weft__rand rand;
};

static struct {
    weft_pool *pools[2];
    struct sleeper sleepers[SLEEPERS];
    int lives; /* of each sleeper, one after the other */
    atomic_long timeouts, wakes, cancels;
    atomic_int awake; /* sleepers that have not ended */
} play;

/* One wait of a random kind and length. */
static int wait_once(struct sleeper *s, int64_t *deadline)
{
    uint32_t dice = weft__rand_next(&s->rand);
    *deadline = dice % 16 == 0 ? weft_now() - 1 : weft_after((int64_t)(dice >> 8) % 300000);
    return weft_fiber_park(*deadline);
}

static bool check_wait(struct sleeper *s, int rc, int64_t deadline)
{
    if (rc == 0) {
        s->woken++;
        CHECK(s->woken <= atomic_load(&s->unparks));
        atomic_fetch_add(&play.wakes, 1);
    } else if (rc == -ETIMEDOUT) {
        CHECK(weft_now() >= deadline);
        atomic_fetch_add(&play.timeouts, 1);
    } else {
        CHECK_EQ(rc, -ECANCELED);
        CHECK(atomic_load(&s->cancelled));
        atomic_fetch_add(&play.cancels, 1);
        return false;
    }
    return true;
}

static void *sleeper_main(void *arg)
{
    struct sleeper *s = arg;
    for (int i = 0; i < 150; i++) {
        int64_t deadline;
        int ended = wait_once(s, &deadline);
        watchdog_progress();
        if (!check_wait(s, ended, deadline)) {
            /* From now on every wait is cancelled; with a permit present there is no wait. */
            CHECK(weft_fiber_is_cancelled());
            while ((ended = weft_fiber_park(WEFT_FOREVER)) == 0) {
            }
            CHECK_EQ(ended, -ECANCELED);
            break;
        }
        if (weft__rand_next(&s->rand) % 8 == 0) {
            CHECK_EQ(weft_fiber_migrate(play.pools[i % 2], WEFT_ANY_WORKER), 0);
        }
    }
    return NULL;
}

/* Runs one life after the other, so that wakers hold handles of fibers that have ended. */
static void *keeper_main(void *arg)
{
    struct sleeper *s = arg;
    for (int life = 0; life < play.lives; life++) {
        weft_fiber fiber;
        s->woken = 0;
        atomic_store(&s->unparks, 0);
        atomic_store(&s->cancelled, false);
        CHECK_EQ(weft_fiber_create(&fiber, sleeper_main, s, NULL), 0);
        CHECK_EQ(weft_fiber_submit(fiber, play.pools[life % 2], WEFT_ANY_WORKER), 0);
        atomic_store(&s->fiber, fiber);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_fiber_unpark(fiber), -ESRCH);
        CHECK_EQ(weft_cancel(fiber), -ESRCH);
    }
    atomic_fetch_sub(&play.awake, 1);
    return NULL;
}

/* The counts are per life: calls for a life that is over reach no later one. */
static void disturb(struct weft__rand *rand)
{
    struct sleeper *s = &play.sleepers[weft__rand_next(rand) % SLEEPERS];
    uint32_t dice = weft__rand_next(rand) >> 8;
    weft_fiber fiber = atomic_load(&s->fiber);
    int rc = 0;
    if (fiber == WEFT_NO_FIBER) {
        return;
    }
    if (dice % 64 == 0) {
        atomic_store(&s->cancelled, true);
        rc = weft_cancel(fiber);
    } else {
        atomic_fetch_add(&s->unparks, 1);
        rc = weft_fiber_unpark(fiber);
    }
    CHECK(rc == 0 || rc == -ESRCH);
}

static void *waker_main(void *arg)
{
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + 1000 + (uintptr_t)arg);
    while (atomic_load(&play.awake) > 0) {
        disturb(&rand);
        int64_t nap =
            weft__rand_next(&rand) % 4 == 0 ? (int64_t)weft__rand_next(&rand) % 200000 : 0;
        if (nap) {
            int rc = weft_fiber_park(weft_after(nap)); /* -ENXIO on a plain thread */
            CHECK(rc == -ETIMEDOUT || rc == -ENXIO);
        }
        weft_yield();
    }
    return NULL;
}

TEST(deadline_unpark_and_cancel_end_wait_exactly_once)
{
    pthread_t outside;
    weft_fiber keepers[SLEEPERS], wakers[WAKERS];
    watchdog_start("timers");
    play.lives = (int)check_scale(6);
    atomic_store(&play.awake, SLEEPERS);
    for (int p = 0; p < 2; p++) {
        struct weft_pool_opts opts = {.name = p ? "timers1" : "timers0",
                                      .workers = 3,
                                      .ring_slots = 4,
                                      .fresh_slots = 2,
                                      .spin_ns = p ? -1 : 0};
        CHECK_EQ(weft_pool_create(&play.pools[p], &opts), 0);
        CHECK_EQ(weft_pool_start(play.pools[p]), 0);
        watchdog_watch(play.pools[p]);
    }
    for (int i = 0; i < SLEEPERS; i++) {
        weft__rand_seed(&play.sleepers[i].rand, check_seed() + (unsigned)i);
        CHECK_EQ(
            weft_pool_spawn(play.pools[i % 2], &keepers[i], keeper_main, &play.sleepers[i], NULL),
            0);
    }
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(
            weft_pool_spawn(play.pools[i % 2], &wakers[i], waker_main, (void *)(uintptr_t)i, NULL),
            0);
    }
    CHECK_EQ(pthread_create(&outside, NULL, waker_main, (void *)(uintptr_t)WAKERS), 0);
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(weft_join(keepers[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(weft_join(wakers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(pthread_join(outside, NULL), 0);
    for (int p = 0; p < 2; p++) {
        CHECK_EQ(weft_pool_stop(play.pools[p], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        watchdog_forget(play.pools[p]);
    }
    for (int p = 0; p < 2; p++) {
        weft_pool_destroy(play.pools[p]);
    }
    printf("     %ld deadlines, %ld unparks, %ld cancels\n", atomic_load(&play.timeouts),
           atomic_load(&play.wakes), atomic_load(&play.cancels));
    watchdog_stop();
}

/* --- deadlines alone -------------------------------------------------------- */

static void *nap_main(void *arg)
{
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + 5000 + (uintptr_t)arg);
    for (long i = check_scale(300); i > 0; i--) {
        int64_t deadline = weft_after((int64_t)weft__rand_next(&rand) % 150000);
        CHECK_EQ(weft_fiber_park(deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
        watchdog_progress();
    }
    return NULL;
}

/* Few fibers on more workers, and no other source of wake-ups: a deadline that its worker forgets
 * is a stall. */
static void naps_run(unsigned workers, int fibers, bool bound)
{
    weft_pool *pool;
    weft_fiber naps[8];
    struct weft_pool_opts opts = {.workers = workers, .ring_slots = 4, .fresh_slots = 2};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    for (int i = 0; i < fibers; i++) {
        struct weft_fiber_opts where = {.bound = bound, .worker = i % (int)workers};
        CHECK_EQ(weft_pool_spawn(pool, &naps[i], nap_main, (void *)(uintptr_t)i, &where), 0);
    }
    for (int i = 0; i < fibers; i++) {
        CHECK_EQ(weft_join(naps[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
}

TEST(deadlines_alone_keep_fibers_running)
{
    watchdog_start("deadlines alone");
    naps_run(1, 1, false);
    naps_run(2, 1, true);
    naps_run(3, 2, false);
    naps_run(3, 5, true);
    naps_run(16, 8, false);
    watchdog_stop();
}

/* --- joins with deadlines --------------------------------------------------- */

#define JOINERS 3

struct ending {
    weft_fiber fiber;
    int64_t at;
    int rights;
    atomic_int got; /* joiners that got the result */
};

static void *end_at(void *arg)
{
    struct ending *ending = arg;
    if (weft_now() < ending->at) {
        CHECK_EQ(weft_fiber_park(ending->at), -ETIMEDOUT);
    }
    return ending;
}

/* Joins repeatedly with a deadline close to the end. With fewer rights than joiners, the joiners
 * that wait at the end get the result and use up the rights; a later join finds nothing. */
static void *join_main(void *arg)
{
    struct ending *ending = arg;
    for (int tries = 0;; tries++) {
        void *result = NULL;
        int64_t deadline = tries < 3 ? ending->at - 20000 + tries * 20000 : WEFT_FOREVER;
        int rc = weft_join(ending->fiber, &result, deadline);
        if (rc == 0) {
            CHECK(result == ending);
            atomic_fetch_add(&ending->got, 1);
            return NULL;
        }
        if (rc == -ESRCH) {
            CHECK(ending->rights < JOINERS);
            return NULL;
        }
        CHECK_EQ(rc, -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
    }
}

static void join_round(weft_pool *pool, uint32_t noise)
{
    struct ending ending = {.at = weft_after(50000 + noise % 50000),
                            .rights = 1 + (int)(noise >> 20) % JOINERS};
    weft_fiber fibers[JOINERS - 1];
    CHECK_EQ(weft_fiber_create(&ending.fiber, end_at, &ending, NULL), 0);
    for (int i = 1; i < ending.rights; i++) {
        CHECK_EQ(weft_fiber_share(ending.fiber), 0);
    }
    CHECK_EQ(weft_fiber_submit(ending.fiber, pool, WEFT_ANY_WORKER), 0);
    for (int i = 0; i < JOINERS - 1; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], join_main, &ending, NULL), 0);
    }
    join_main(&ending); /* a plain thread is the third */
    for (int i = 0; i < JOINERS - 1; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK(atomic_load(&ending.got) >= ending.rights);
    CHECK_EQ(weft_join(ending.fiber, NULL, WEFT_FOREVER), -ESRCH);
    watchdog_progress();
}

TEST(join_times_out_or_gets_result_but_not_both)
{
    weft_pool *pool;
    struct weft__rand rand;
    struct weft_pool_opts opts = {.workers = 3, .ring_slots = 4, .fresh_slots = 2};
    watchdog_start("joins with deadlines");
    weft__rand_seed(&rand, check_seed() + 9000);
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    for (long i = 0; i < check_scale(500); i++) {
        join_round(pool, weft__rand_next(&rand));
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
    watchdog_stop();
}
