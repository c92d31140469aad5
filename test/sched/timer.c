/* labels: valgrind */
#include <weft/timer.h>

#include "pool/fixture.h"
#include "virtual_clock.h"
#include "watchdog/watchdog.h"

#define MS INT64_C(1000000)
#define HOUR (3600 * 1000 * MS)

static weft_timer timer;
static atomic_int calls, held;

static void count_call(weft_timer *which, void *arg, uint64_t times)
{
    int64_t *deadline = arg;
    CHECK(which != NULL);
    CHECK_EQ(times, 1);
    CHECK(!deadline || weft_now() >= *deadline);
    atomic_fetch_add(&calls, 1);
}

static weft_pool *open_with(weft_timer_fn fn, void *arg, unsigned workers)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = workers});
    atomic_store(&calls, 0);
    atomic_store(&held, 0);
    weft_timer_init(&timer, fn, arg, &(struct weft_timer_opts){.pool = pool});
    return pool;
}

static void close_with(weft_pool *pool)
{
    weft_timer_deinit(&timer);
    pool_close(pool);
}

TEST(timer_fires_once_and_never_early)
{
    int64_t deadline = 0;
    weft_pool *pool = open_with(count_call, &deadline, 2);
    for (int i = 0; i < 20; i++) {
        deadline = weft_after(i * MS / 10);
        CHECK(!weft_timer_set(&timer, deadline));
        await_count(&calls, i + 1);
        CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    }
    deadline = weft_now();
    CHECK(!weft_timer_set(&timer, 0)); /* long past: fires at once */
    await_count(&calls, 21);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK_EQ(atomic_load(&calls), 21);
    close_with(pool);
}

static void *set_inside(void *arg)
{
    weft_timer mine;
    (void)arg;
    weft_timer_init(&mine, count_call, NULL, NULL);
    CHECK(!weft_timer_set(&mine, weft_after(MS)));
    await_count(&calls, 1);
    CHECK_EQ(weft_timer_cancel_wait(&mine, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK(!weft_timer_set(&mine, WEFT_FOREVER));
    CHECK(weft_timer_is_pending(&mine));
    CHECK(weft_timer_set(&mine, weft_after(HOUR)));
    CHECK_EQ(weft_timer_cancel(&mine), WEFT_TIMER_CANCELLED);
    CHECK_EQ(weft_timer_cancel(&mine), WEFT_TIMER_IDLE);
    CHECK(!weft_timer_is_pending(&mine));
    weft_timer_deinit(&mine);
    return NULL;
}

TEST(fiber_sets_and_cancels_timer_of_own_pool)
{
    atomic_store(&calls, 0);
    run_in_fiber(1, set_inside, NULL);
    atomic_store(&calls, 0);
    run_in_fiber(3, set_inside, NULL);
}

/* The only worker sleeps until a far timer: only a wake makes it see the near one. */
TEST(earlier_timer_from_outside_wakes_sleeping_worker)
{
    weft_timer far;
    weft_pool *pool = open_with(count_call, NULL, 1);
    weft_timer_init(&far, count_call, NULL, &(struct weft_timer_opts){.pool = pool});
    weft_timer_set(&far, weft_after(HOUR));
    for (int i = 0; i < 50; i++) {
        await_idle(pool);
        weft_timer_set(&timer, weft_after(MS / 10));
        await_count(&calls, i + 1);
    }
    CHECK_EQ(weft_timer_cancel(&far), WEFT_TIMER_CANCELLED);
    CHECK(weft_timer_cancel_wait(&timer, WEFT_FOREVER) == WEFT_TIMER_IDLE);
    close_with(pool);
}

/* --- cancel races with a running callback --------------------------------------------- */

static void hold_worker(weft_timer *which, void *arg, uint64_t times)
{
    (void)which;
    (void)arg;
    (void)times;
    atomic_fetch_add(&calls, 1);
    while (atomic_load(&held)) {
        sched_yield();
    }
    atomic_fetch_add(&calls, 100);
}

/* Fires once; refresh restarts the delay. */
static bool set_delay(int64_t ns)
{
    return weft_timer_set_every(&timer, weft_after(ns), ns, WEFT_TIMER_ONCE);
}

TEST(timer_cancel_reports_running_callback)
{
    weft_pool *pool = open_with(hold_worker, NULL, 1);
    atomic_store(&held, 1);
    weft_timer_set_every(&timer, 0, 1, WEFT_TIMER_DELAY);
    await_count(&calls, 1);
    CHECK(weft_timer_is_pending(&timer)); /* the timer recurs */
    CHECK_EQ(weft_timer_cancel(&timer), WEFT_TIMER_RUNNING);
    CHECK(!weft_timer_is_pending(&timer));
    CHECK_EQ(weft_timer_cancel_wait(&timer, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_timer_cancel_wait(&timer, 0), -ETIMEDOUT);
    CHECK(!weft_timer_refresh(&timer));
    atomic_store(&held, 0);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK_EQ(atomic_load(&calls), 101);
    close_with(pool);
}

TEST(timer_set_during_callback_fires_again)
{
    weft_pool *pool = open_with(hold_worker, NULL, 1);
    atomic_store(&held, 1);
    weft_timer_set(&timer, 0);
    await_count(&calls, 1);
    CHECK(!set_delay(HOUR));
    CHECK(weft_timer_is_pending(&timer));
    CHECK(weft_timer_refresh(&timer));
    CHECK(weft_timer_set(&timer, 0));
    atomic_store(&held, 0);
    await_count(&calls, 202);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK_EQ(atomic_load(&calls), 202);
    close_with(pool);
}

static void *cancel_and_wait(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_timer_cancel_wait(&timer, WEFT_FOREVER);
}

TEST(cancel_wait_waits_for_callback_and_is_cancellable)
{
    weft_fiber waits, cancelled;
    void *result;
    weft_pool *pool = open_with(hold_worker, NULL, 1);
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = 1});
    atomic_store(&held, 1);
    weft_timer_set(&timer, 0);
    await_count(&calls, 1);
    CHECK_EQ(weft_pool_spawn(other, &waits, cancel_and_wait, NULL, NULL), 0);
    CHECK_EQ(weft_pool_spawn(other, &cancelled, cancel_and_wait, NULL, NULL), 0);
    await_state(waits, WEFT_FIBER_WAITING);
    await_state(cancelled, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(cancelled), 0);
    CHECK_EQ(weft_join(cancelled, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    atomic_store(&held, 0);
    CHECK_EQ(weft_join(waits, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, WEFT_TIMER_IDLE);
    CHECK_EQ(atomic_load(&calls), 101);
    pool_close(other);
    close_with(pool);
}

/* --- what a callback may do to its own timer ------------------------------------------------ */

static void use_own(weft_timer *which, void *arg, uint64_t times)
{
    (void)arg;
    (void)times;
    int n = atomic_fetch_add(&calls, 1);
    CHECK_EQ(weft_timer_cancel(which), WEFT_TIMER_RUNNING);
    CHECK_EQ(weft_timer_cancel_wait(which, WEFT_FOREVER), WEFT_TIMER_RUNNING);
    if (n < 9) {
        CHECK(!weft_timer_set(which, weft_after(1)));
        return;
    }
    weft_timer_set(which, weft_after(1)); /* cancelled together with the timer */
    weft_timer_deinit(which);
    memset(which, 0xa5, sizeof *which);
    free(which);
    atomic_store(&held, 1);
}

TEST(timer_callback_can_set_cancel_and_free_own_timer)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_timer *own = malloc(sizeof *own);
    atomic_store(&calls, 0);
    atomic_store(&held, 0);
    weft_timer_init(own, use_own, NULL, &(struct weft_timer_opts){.pool = pool});
    weft_timer_set(own, 0);
    await_count(&held, 1);
    CHECK_EQ(atomic_load(&calls), 10);
    pool_close(pool);
}

/* --- recurring ------------------------------------------------------------------------------ */

#define TICK (INT64_C(1) << 16)
#define PERIOD (16 * TICK)

/* Only the test and the callbacks move the clock, so that a drift of one nanosecond is visible. */
struct beat {
    int64_t takes; /* duration of the callback */
    int calls;
    uint64_t times; /* of the last call */
};

static void note_beat(weft_timer *which, void *arg, uint64_t times)
{
    struct beat *beat = arg;
    CHECK(which == &timer);
    beat->calls++;
    beat->times = times;
    virtual_clock_set(weft_now() + beat->takes);
}

/* Returns the time of the stopped clock. */
static int64_t open_beats(weft_pool **pool, struct beat *beat)
{
    struct weft_pool_opts opts = {
        .workers = 1, .caller = true, .timer_tick_ns = TICK, .hog_ns = -1};
    int64_t now = virtual_clock_stop(PERIOD);
    CHECK_EQ(weft_pool_create(pool, &opts), 0);
    CHECK_EQ(weft_pool_start(*pool), 0);
    weft_timer_init(&timer, note_beat, beat, &(struct weft_timer_opts){.pool = *pool});
    return now;
}

static void close_beats(weft_pool *pool)
{
    CHECK_EQ(weft_timer_cancel(&timer), WEFT_TIMER_CANCELLED);
    close_with(pool);
    virtual_clock_go();
}

static int calls_at(weft_pool *pool, const struct beat *beat, int64_t time)
{
    virtual_clock_set(time);
    CHECK(weft_pool_poll(pool) >= 0);
    return beat->calls;
}

TEST(fixed_rate_timer_does_not_drift_and_counts_missed_ticks)
{
    weft_pool *pool;
    struct beat beat = {.takes = PERIOD / 8};
    int64_t first = open_beats(&pool, &beat) + PERIOD;
    weft_timer_set_every(&timer, first, PERIOD, WEFT_TIMER_RATE);
    for (int i = 0; i < 8; i++) {
        /* Fires exactly at its time, not before, although every second call is late and all take
         * long. */
        int64_t due = first + i * PERIOD;
        CHECK_EQ(calls_at(pool, &beat, due - 1), i);
        CHECK_EQ(calls_at(pool, &beat, i % 2 ? due + PERIOD / 4 : due), i + 1);
        CHECK_EQ(beat.times, 1);
    }
    /* The 8th to the 11th periods have begun: one call for all of them, and the 12th at its
     * time. */
    CHECK_EQ(calls_at(pool, &beat, first + 11 * PERIOD + PERIOD / 4), 9);
    CHECK_EQ(beat.times, 4);
    CHECK_EQ(calls_at(pool, &beat, first + 12 * PERIOD - 1), 9);
    CHECK_EQ(calls_at(pool, &beat, first + 12 * PERIOD), 10);
    CHECK_EQ(beat.times, 1);
    /* A period that begins at this moment counts as begun. */
    CHECK_EQ(calls_at(pool, &beat, first + 14 * PERIOD), 11);
    CHECK_EQ(beat.times, 2);
    close_beats(pool);
}

TEST(fixed_delay_timer_counts_from_end_of_callback)
{
    weft_pool *pool;
    struct beat beat = {.takes = 3 * PERIOD};
    int64_t due = open_beats(&pool, &beat) + PERIOD;
    weft_timer_set_every(&timer, due, PERIOD, WEFT_TIMER_DELAY);
    for (int i = 0; i < 5; i++) {
        int64_t late = i % 2 ? PERIOD / 4 : 0;
        CHECK_EQ(calls_at(pool, &beat, due - 1), i);
        CHECK_EQ(calls_at(pool, &beat, due + late), i + 1);
        CHECK_EQ(beat.times, 1);
        due += late + beat.takes + PERIOD;
    }
    close_beats(pool);
}

TEST(timer_refresh_restarts_delay_on_virtual_clock)
{
    weft_pool *pool;
    struct beat beat = {.takes = 0};
    int64_t now = open_beats(&pool, &beat);
    CHECK(!set_delay(PERIOD));
    CHECK_EQ(calls_at(pool, &beat, now + PERIOD - 1), 0);
    CHECK(weft_timer_refresh(&timer)); /* just before a tick ends: due in the tick after PERIOD */
    CHECK_EQ(calls_at(pool, &beat, now + 2 * PERIOD - 2), 0);
    CHECK_EQ(calls_at(pool, &beat, now + 2 * PERIOD), 1);
    CHECK(!weft_timer_refresh(&timer));
    /* A recurring timer continues from the refresh. */
    weft_timer_set_every(&timer, now + 4 * PERIOD, PERIOD, WEFT_TIMER_RATE);
    virtual_clock_set(now + 3 * PERIOD + PERIOD / 2);
    CHECK(weft_timer_refresh(&timer));
    CHECK_EQ(calls_at(pool, &beat, now + 4 * PERIOD + PERIOD / 2 - 1), 1);
    CHECK_EQ(calls_at(pool, &beat, now + 4 * PERIOD + PERIOD / 2), 2);
    CHECK_EQ(calls_at(pool, &beat, now + 5 * PERIOD + PERIOD / 2 - 1), 2);
    CHECK_EQ(calls_at(pool, &beat, now + 5 * PERIOD + PERIOD / 2), 3);
    close_beats(pool);
}

static _Atomic(int64_t) fired_at;

static void note_time(weft_timer *which, void *arg, uint64_t times)
{
    count_call(which, arg, times);
    atomic_store(&fired_at, weft_now());
}

TEST(timer_refresh_restarts_delay)
{
    int64_t earliest = 0;
    weft_pool *pool = open_with(note_time, NULL, 1);
    CHECK(!weft_timer_refresh(&timer));
    CHECK(!set_delay(20 * MS));
    for (int i = 0; i < 5; i++) {
        int64_t now = weft_now();
        if (!weft_timer_refresh(&timer)) {
            break; /* a slow machine: the timer has fired */
        }
        earliest = now + 20 * MS;
    }
    while (weft_timer_is_pending(&timer)) {
        sched_yield();
    }
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK(atomic_load(&fired_at) >= earliest);
    CHECK(!weft_timer_refresh(&timer));
    CHECK_EQ(atomic_load(&calls), 1);
    close_with(pool);
}

/* --- conditional ----------------------------------------------------------------------------- */

static void *wait_for_go(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_fiber_park(WEFT_FOREVER);
}

TEST(timer_fires_only_while_owner_fiber_lives)
{
    weft_fiber owner;
    weft_timer after;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    atomic_store(&calls, 0);
    CHECK_EQ(weft_pool_spawn(pool, &owner, wait_for_go, NULL, NULL), 0);
    struct weft_timer_opts opts = {.pool = pool, .owner = owner};
    weft_timer_init(&timer, count_call, NULL, &opts);
    opts.owner = WEFT_NO_FIBER;
    weft_timer_init(&after, count_call, NULL, &opts);
    weft_timer_set(&timer, 0);
    await_count(&calls, 1);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK_EQ(weft_fiber_unpark(owner), 0);
    CHECK_EQ(weft_join(owner, NULL, WEFT_FOREVER), 0);
    weft_timer_set_every(&timer, 0, MS, WEFT_TIMER_RATE);
    weft_timer_set(&after, weft_now()); /* expires after it */
    await_count(&calls, 2);
    CHECK_EQ(weft_timer_cancel_wait(&after, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK(!weft_timer_is_pending(&timer));
    CHECK_EQ(atomic_load(&calls), 2);
    close_with(pool);
}

/* An object with a reference count, as a connection has; the timer is inside it. */
struct object {
    atomic_int references;
    weft_timer timer;
};

static bool object_hold(void *arg)
{
    struct object *object = arg;
    int n = atomic_load(&object->references);
    while (n > 0 && !atomic_compare_exchange_weak(&object->references, &n, n + 1)) {
    }
    return n > 0;
}

static void object_drop(void *arg)
{
    struct object *object = arg;
    if (atomic_fetch_sub(&object->references, 1) == 1) {
        weft_timer_deinit(&object->timer);
        free(object);
        atomic_store(&held, 1);
    }
}

static void object_used(weft_timer *which, void *arg, uint64_t times)
{
    struct object *object = arg;
    (void)which;
    (void)times;
    CHECK(atomic_load(&object->references) >= 2 || atomic_load(&calls) == 3);
    if (atomic_fetch_add(&calls, 1) == 2) {
        atomic_fetch_sub(&object->references, 1); /* the last user's: drop destroys it */
    }
}

TEST(timer_holds_object_during_callback_and_drops_last_reference)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    struct object *object = calloc(1, sizeof *object);
    atomic_store(&calls, 0);
    atomic_store(&held, 0);
    atomic_store(&object->references, 1);
    weft_timer_init(
        &object->timer, object_used, object,
        &(struct weft_timer_opts){.pool = pool, .hold = object_hold, .drop = object_drop});
    weft_timer_set_every(&object->timer, 0, MS / 10, WEFT_TIMER_RATE);
    await_count(&held, 1);
    CHECK_EQ(atomic_load(&calls), 3);

    object = calloc(1, sizeof *object); /* dead from the beginning: never called */
    weft_timer_init(
        &object->timer, object_used, object,
        &(struct weft_timer_opts){.pool = pool, .hold = object_hold, .drop = object_drop});
    weft_timer_set_every(&object->timer, 0, MS / 10, WEFT_TIMER_RATE);
    while (weft_timer_is_pending(&object->timer)) {
        sched_yield();
    }
    CHECK_EQ(weft_timer_cancel_wait(&object->timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    CHECK_EQ(atomic_load(&calls), 3);
    free(object);
    pool_close(pool);
}

/* --- pools ------------------------------------------------------------------------------------ */

TEST(stopped_pool_fires_no_timer_until_restart)
{
    weft_pool *pool = open_with(count_call, NULL, 2);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_timer_set(&timer, 0);
    CHECK(weft_timer_is_pending(&timer));
    CHECK_EQ(weft_pool_start(pool), 0);
    await_count(&calls, 1);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    close_with(pool);
}

static void *init_and_hold(void *arg)
{
    weft_timer_init(&timer, count_call, arg, NULL); /* in this worker's wheel */
    atomic_store(&held, 1);
    while (atomic_load(&calls) == 0) {
        sched_yield();
    }
    return NULL;
}

/* The timer's own worker is busy, and the only other worker sleeps. */
TEST(timer_of_busy_worker_wakes_another_worker)
{
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    weft_fiber busy;
    atomic_store(&calls, 0);
    atomic_store(&held, 0);
    weft__watchdog_set_tick(HOUR); /* the watchdog would fire it, later */
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .hog_ns = -1});
    CHECK_EQ(weft_pool_spawn(pool, &busy, init_and_hold, NULL, &bound), 0);
    await_count(&held, 1);
    struct weft_worker_stats other;
    do {
        sched_yield();
        CHECK_EQ(weft_worker_stats(pool, &other, 1), 0);
    } while (other.state != WEFT_WORKER_PARKED);
    CHECK(!weft_timer_set(&timer, weft_after(MS)));
    CHECK_EQ(weft_join(busy, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    close_with(pool);
    weft__watchdog_set_tick(WEFT__WATCH_TICK_NS);
}

/* The creating thread is worker 0, and is absent: a timer placed there would never fire. */
TEST(timer_from_outside_is_not_placed_on_absent_caller)
{
    weft_timer timers[7];
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3, .caller = true});
    atomic_store(&calls, 0);
    for (int i = 0; i < 7; i++) {
        weft_timer_init(&timers[i], count_call, NULL, &(struct weft_timer_opts){.pool = pool});
        weft_timer_set(&timers[i], 0);
    }
    await_count(&calls, 7);
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(weft_timer_cancel_wait(&timers[i], WEFT_FOREVER), WEFT_TIMER_IDLE);
        weft_timer_deinit(&timers[i]);
    }
    pool_close(pool);
}

TEST(pool_poll_from_host_fires_timers)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    atomic_store(&calls, 0);
    weft_timer_init(&timer, count_call, NULL, &(struct weft_timer_opts){.pool = pool});
    weft_timer_set(&timer, weft_after(MS));
    while (atomic_load(&calls) == 0) {
        CHECK(weft_pool_poll(pool) >= 0);
    }
    close_with(pool);
}

TEST(timer_tick_option_rounds_up_to_power_of_two)
{
    const int64_t tick = INT64_C(1) << 23;
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.timer_tick_ns = -1}), -EINVAL);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.timer_tick_ns = 1000000001}),
             -EINVAL);
    pool = pool_open(&(struct weft_pool_opts){.workers = 1, .timer_tick_ns = tick / 2 + 1});
    int64_t deadline = (weft_now() / tick + 1) * tick;
    atomic_store(&calls, 0);
    weft_timer_init(&timer, count_call, &deadline, &(struct weft_timer_opts){.pool = pool});
    weft_timer_set(&timer, deadline - tick + 1); /* belongs to the tick that begins at `deadline` */
    await_count(&calls, 1);
    CHECK_EQ(weft_timer_cancel_wait(&timer, WEFT_FOREVER), WEFT_TIMER_IDLE);
    close_with(pool);
}

/* --- many ------------------------------------------------------------------------------------- */

#define MANY 100000
#define SLICE 256 /* callbacks, or 200 us of them, whichever is less */
#define LONGEST_NS                                                                                 \
    (2 * MS) /* without service to other fibers; longer where a sanitizer slows all */

static weft_timer many[MANY];
static weft_timer *all[MANY];
static int64_t deadlines[MANY];
static int between; /* callbacks since the fiber's last turn; one worker */

static void count_between(weft_timer *which, void *arg, uint64_t times)
{
    (void)which;
    (void)arg;
    (void)times;
    between++;
    atomic_fetch_add(&calls, 1);
}

/* CPU time of the calling thread: other load on the machine does not count. */
static int64_t cpu_ns(void)
{
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

/* A fiber that must be served while all timers expire. */
static void *yield_meanwhile(void *arg)
{
    int count = *(int *)arg;
    int64_t at = weft_after(400 * MS); /* so far away that they cascade, too */
    int64_t longest_ns = LONGEST_NS * 100 / (check_stress() < 100 ? check_stress() : 100);
    int turns = 0, long_ones = 0;
    for (int i = 0; i < count; i++) {
        weft_timer_init(&many[i], count_between, NULL, NULL);
        all[i] = &many[i];
        deadlines[i] = at;
    }
    weft_timer_set_batch(all, deadlines, (size_t)count);
    CHECK_EQ(weft_sleep(at - 2 * MS), 0);
    while (atomic_load(&calls) < count) {
        int64_t before = cpu_ns();
        weft_yield();
        int64_t took = cpu_ns() - before;
        CHECK(between <= SLICE);
        between = 0;
        turns++;
        long_ones += took > longest_ns;
    }
    /* On a virtual machine, time lost to other guests looks like this thread's own work. */
    CHECK(long_ones <= 3 + turns / 50);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(weft_timer_cancel(&many[i]), WEFT_TIMER_IDLE);
    }
    return NULL;
}

TEST(mass_expiry_does_not_starve_fibers)
{
    long scaled = check_scale(MANY);
    int count = scaled < MANY ? (int)scaled : MANY;
    atomic_store(&calls, 0);
    between = 0;
    run_in_fiber(1, yield_meanwhile, &count);
    CHECK_EQ(atomic_load(&calls), count);
}

TEST(timer_batch_from_outside_is_spread_over_workers)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
    atomic_store(&calls, 0);
    for (int i = 0; i < 1000; i++) {
        weft_timer_init(&many[i], count_call, &deadlines[i],
                        &(struct weft_timer_opts){.pool = pool});
        all[i] = &many[i];
        deadlines[i] = weft_after(i % 7 * MS / 4);
    }
    weft_timer_set_batch(all, deadlines, 1000);
    await_count(&calls, 1000);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(weft_timer_cancel_wait(&many[i], WEFT_FOREVER), WEFT_TIMER_IDLE);
    }
    pool_close(pool);
}

/* --- caller bugs ---------------------------------------------------------------------------- */

static void without_a_pool(void *arg)
{
    weft_timer_init(&timer, count_call, arg, NULL);
}

static void deinit_pending(void *arg)
{
    weft_pool *pool = open_with(count_call, arg, 1);
    weft_timer_set(&timer, weft_after(HOUR));
    close_with(pool);
}

static void destroy_with_timer(void *arg)
{
    weft_pool *pool = open_with(count_call, arg, 1);
    weft_timer_set(&timer, WEFT_FOREVER);
    pool_close(pool);
}

static void refresh_a_time(void *arg)
{
    open_with(count_call, arg, 1);
    weft_timer_set(&timer, weft_after(HOUR));
    weft_timer_refresh(&timer);
}

static void wait_for_other(weft_timer *which, void *arg, uint64_t times)
{
    (void)which;
    (void)times;
    weft_timer_cancel_wait(arg, WEFT_FOREVER);
}

static void wait_in_callback(void *arg)
{
    weft_timer other;
    (void)arg;
    weft_pool *pool = open_with(wait_for_other, &other, 1);
    weft_timer_init(&other, count_call, NULL, &(struct weft_timer_opts){.pool = pool});
    weft_timer_set(&timer, 0);
    pause();
}

static void sleep_in_callback(weft_timer *which, void *arg, uint64_t times)
{
    (void)which;
    (void)times;
    CHECK_EQ(weft_event_wait(arg, 0), -ETIMEDOUT); /* not a wait */
    weft_event_wait(arg, weft_after(HOUR));
}

static void block_in_callback(void *arg)
{
    weft_event event = WEFT_EVENT_INIT;
    (void)arg;
    open_with(sleep_in_callback, &event, 1);
    weft_timer_set(&timer, 0);
    pause();
}

static void check_panics(void (*fn)(void *), const char *message)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(fn, NULL, err, sizeof err)));
    CHECK(strstr(err, message));
}

TEST(timer_misuse_aborts_with_message)
{
    check_panics(without_a_pool, "needs a pool");
    check_panics(deinit_pending, "while it is pending");
    check_panics(destroy_with_timer, "with timers in it");
    check_panics(refresh_a_time, "set for a time");
    check_panics(wait_in_callback, "waits for the callback of another");
    check_panics(block_in_callback, "a callback on a worker waits");
}
