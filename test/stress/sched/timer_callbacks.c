/* Timers with callbacks, and idle groups, used by fibers of two pools and by plain threads at once.
 *
 * Every set of a timer is a right to one call, which ends in exactly one way: it is called, it is
 * replaced by another set, or it is cancelled. The calls of one timer do not overlap, and none is
 * running after weft_timer_cancel_wait. A member of a group expires in a batch or is removed:
 * exactly one of the two.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

#define TIMERS 12
#define DRIVERS 4 /* two fibers, two threads */

struct alarm {
    weft_timer timer;
    atomic_int running;
    atomic_long sets, calls, replaced, cancelled, dropped;
};

static struct {
    weft_pool *pools[2];
    struct alarm alarms[TIMERS];
    long rounds;
} play;

static void called(weft_timer *timer, void *arg, uint64_t times)
{
    struct alarm *alarm = arg;
    CHECK_EQ(times, 1);
    CHECK(timer == &alarm->timer);
    CHECK_EQ(atomic_fetch_add(&alarm->running, 1), 0);
    atomic_fetch_add(&alarm->calls, 1);
    CHECK_EQ(atomic_fetch_sub(&alarm->running, 1), 1);
    watchdog_progress();
}

static void count_answer(struct alarm *alarm, int answer)
{
    if (answer == WEFT_TIMER_CANCELLED) {
        atomic_fetch_add(&alarm->cancelled, 1);
    } else if (answer == WEFT_TIMER_RUNNING) {
        atomic_fetch_add(&alarm->dropped, 1); /* at most one pending call */
    }
}

/* By any thread, at any time. */
static void disturb(struct alarm *alarm, uint32_t dice)
{
    int64_t delay;
    switch (dice % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        atomic_fetch_add(&alarm->sets, 1);
        delay = 1 + (int64_t)(dice >> 8) % 200000;
        if (weft_timer_set_every(&alarm->timer, weft_after(delay), delay, WEFT_TIMER_ONCE)) {
            atomic_fetch_add(&alarm->replaced, 1);
        }
        break;
    case 4:
        weft_timer_is_pending(&alarm->timer);
        break;
    case 5:
        weft_timer_refresh(&alarm->timer); /* the same right, later */
        break;
    default:
        count_answer(alarm, weft_timer_cancel(&alarm->timer));
    }
}

static void *driver_main(void *arg)
{
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + 100 + (uintptr_t)arg);
    for (long i = 0; i < play.rounds; i++) {
        struct alarm *alarm = &play.alarms[weft__rand_next(&rand) % TIMERS];
        disturb(alarm, weft__rand_next(&rand) >> 4);
        if (i % 16 == 0) {
            weft_yield();
        }
        watchdog_progress();
    }
    return NULL;
}

/* One timer of its own: after cancel_wait nothing runs, and the timer can be freed. */
static void *own_main(void *arg)
{
    struct weft__rand rand;
    struct alarm *alarm = calloc(1, sizeof *alarm);
    weft_pool *pool = play.pools[(uintptr_t)arg % 2];
    weft__rand_seed(&rand, check_seed() + 200 + (uintptr_t)arg);
    weft_timer_init(&alarm->timer, called, alarm, &(struct weft_timer_opts){.pool = pool});
    for (long i = 0; i < play.rounds / 4; i++) {
        uint32_t noise = weft__rand_next(&rand);
        long before = atomic_load(&alarm->calls);
        weft_timer_set(&alarm->timer, weft_after(noise % 60000));
        if (noise >> 28 == 0) {
            weft_sleep(weft_after(noise % 100000)); /* works on a plain thread, too */
        } else if (noise >> 30 == 1) {
            weft_yield();
        }
        int answer = weft_timer_cancel_wait(&alarm->timer, WEFT_FOREVER);
        CHECK_EQ(atomic_load(&alarm->running), 0);
        CHECK_EQ(atomic_load(&alarm->calls) - before, answer == WEFT_TIMER_CANCELLED ? 0 : 1);
        watchdog_progress();
    }
    weft_timer_deinit(&alarm->timer);
    memset(alarm, 0xa5, sizeof *alarm);
    free(alarm);
    return NULL;
}

static void pools_open(void)
{
    for (int p = 0; p < 2; p++) {
        struct weft_pool_opts opts = {.name = p ? "alarms1" : "alarms0",
                                      .workers = 2,
                                      .ring_slots = 4,
                                      .fresh_slots = 2,
                                      .spin_ns = p ? -1 : 0};
        CHECK_EQ(weft_pool_create(&play.pools[p], &opts), 0);
        CHECK_EQ(weft_pool_start(play.pools[p]), 0);
        watchdog_watch(play.pools[p]);
    }
}

static void pools_close(void)
{
    for (int p = 0; p < 2; p++) {
        CHECK_EQ(weft_pool_stop(play.pools[p], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        watchdog_forget(play.pools[p]);
        weft_pool_destroy(play.pools[p]);
    }
}

/* Runs n instances: every second one as a fiber, in either pool. */
static void run_all(weft_fn fn, int n)
{
    pthread_t threads[8];
    weft_fiber fibers[8];
    for (int i = 0; i < n; i++) {
        void *arg = (void *)(uintptr_t)i;
        if (i % 2) {
            CHECK_EQ(pthread_create(&threads[i], NULL, fn, arg), 0);
        } else {
            CHECK_EQ(weft_pool_spawn(play.pools[i / 2 % 2], &fibers[i], fn, arg, NULL), 0);
        }
    }
    for (int i = 0; i < n; i++) {
        CHECK_EQ(i % 2 ? pthread_join(threads[i], NULL) : weft_join(fibers[i], NULL, WEFT_FOREVER),
                 0);
    }
}

TEST(every_timer_set_ends_in_one_call_or_one_cancel)
{
    watchdog_start("alarms");
    play.rounds = check_scale(20000);
    pools_open();
    for (int i = 0; i < TIMERS; i++) {
        struct alarm *alarm = &play.alarms[i];
        weft_timer_init(&alarm->timer, called, alarm,
                        &(struct weft_timer_opts){.pool = play.pools[i % 2]});
    }
    run_all(driver_main, DRIVERS);
    long calls = 0;
    for (int i = 0; i < TIMERS; i++) {
        struct alarm *alarm = &play.alarms[i];
        count_answer(alarm, weft_timer_cancel_wait(&alarm->timer, WEFT_FOREVER));
        weft_timer_deinit(&alarm->timer);
        long ended = atomic_load(&alarm->calls) + atomic_load(&alarm->replaced) +
                     atomic_load(&alarm->cancelled);
        CHECK(ended <= atomic_load(&alarm->sets));
        /* A cancel during a call may have dropped one right that was set meanwhile. */
        CHECK(atomic_load(&alarm->sets) - ended <= atomic_load(&alarm->dropped) + 1);
        calls += atomic_load(&alarm->calls);
    }
    printf("     %ld calls\n", calls);
    pools_close();
    watchdog_stop();
}

TEST(no_timer_callback_runs_after_cancel_wait)
{
    watchdog_start("own alarms");
    play.rounds = check_scale(20000);
    pools_open();
    run_all(own_main, 6);
    pools_close();
    watchdog_stop();
}

/* --- idle groups ---------------------------------------------------------------------- */

#define MEMBERS 200

struct member {
    weft_idle_member member; /* first */
    atomic_int in;
};

static weft_idle_group group;
static struct member members[2][MEMBERS]; /* of two driving threads */
static atomic_long out, removed;

static void on_idle(weft_idle_group *which, weft_idle_member *first, size_t n, void *arg)
{
    (void)arg;
    CHECK(which == &group);
    for (weft_idle_member *m = first, *next; m; m = next, n--) {
        next = weft_idle_next(m);
        atomic_fetch_add(&out, 1);
        CHECK_EQ(atomic_fetch_sub(&((struct member *)(void *)m)->in, 1), 1);
    }
    CHECK_EQ(n, 0);
    watchdog_progress();
}

static void *idle_main(void *arg)
{
    struct weft__rand rand;
    struct member *mine = members[(uintptr_t)arg % 2];
    weft__rand_seed(&rand, check_seed() + 300 + (uintptr_t)arg);
    for (long i = 0; i < play.rounds; i++) {
        struct member *member = &mine[weft__rand_next(&rand) % MEMBERS];
        uint32_t noise = weft__rand_next(&rand) >> 8;
        if (atomic_load(&member->in) == 0) {
            atomic_store(&member->in, 1);
            weft_idle_add(&group, &member->member);
        } else if (noise % 16 == 0) {
            if (weft_idle_remove(&group, &member->member)) {
                atomic_fetch_add(&removed, 1);
                CHECK_EQ(atomic_fetch_sub(&member->in, 1), 1);
            }
        } else {
            weft_idle_touch(&group, &member->member);
        }
        if (noise % 64 == 1) {
            weft_sleep(weft_after(noise % 300000));
        }
        watchdog_progress();
    }
    return NULL;
}

TEST(idle_member_expires_or_is_removed_but_not_both)
{
    watchdog_start("idle group");
    play.rounds = check_scale(20000);
    pools_open();
    struct weft_idle_opts opts = {
        .pool = play.pools[0], .period_ns = 2000000, .precision_ns = 400000, .on_idle = on_idle};
    CHECK_EQ(weft_idle_init(&group, &opts), 0);
    run_all(idle_main, 2);
    while (weft_idle_count(&group) > 0) {
        weft_yield();
    }
    weft_idle_deinit(&group);
    for (int i = 0; i < 2 * MEMBERS; i++) {
        CHECK_EQ(atomic_load(&members[i / MEMBERS][i % MEMBERS].in), 0);
    }
    printf("     %ld came out, %ld were removed\n", atomic_load(&out), atomic_load(&removed));
    pools_close();
    watchdog_stop();
}
