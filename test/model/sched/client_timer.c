/* Clients of sched/timer.c, with the wheel, its lock and the idle protocol under it: set, cancel,
 * expiry and the end of a callback against one another, and which worker is woken for a timer.
 *
 * Fiber 0 runs on the timer's home worker; T1 is the worker that fires the home worker's wheel in
 * its place, or a plain thread. */
#include <errno.h>

#include "model/fibers.h"
#include "sched/timer.h"

enum { CALLED };

static weft_pool pool;
static union {
    struct weft__user_timer alarm;
    weft_timer storage;
} place;
#define THE_TIMER (&place.storage)
static int answer, shared;

void weft_yield(void)
{
    x_spin();
}

static void called(weft_timer *timer, void *arg, uint64_t times)
{
    (void)timer;
    (void)arg;
    X_ASSERT(times == 1);
    x_count(CALLED);
    shared++;
}

static void init(weft_timer *timer, weft_timer_fn fn)
{
    weft_timer_init(timer, fn, NULL, &(struct weft_timer_opts){.pool = &pool});
    weft__user_timer_of(timer)->home = &workers[0];
}

static void setup_idle(void)
{
    fibers_setup();
    pool.worker_count = 1;
    weft__idle_init(&pool.idle);
    for (int i = 0; i < FIBERS; i++) {
        workers[i].pool = &pool;
        atomic_init(&workers[i].state, WEFT_WORKER_RUNNING);
        weft__parker_init(&workers[i].sleeper.parker);
    }
    memset(&place, 0, sizeof place);
    init(THE_TIMER, called);
    answer = -1;
    shared = 0;
    x_name(&place, sizeof place, "timer");
    x_name(&pool.idle, sizeof pool.idle, "idle");
}

static void setup(void)
{
    setup_idle();
    weft_timer_set(THE_TIMER, LATER);
}

static void setup_recurring(void)
{
    setup_idle();
    weft_timer_set_every(THE_TIMER, LATER, INT64_C(1) << 30, WEFT_TIMER_DELAY);
}

/* What a worker does with a wheel that is due. */
static void fire(int i)
{
    static struct weft__worker third;
    struct weft__firing firing = {.run = {.worker = i < FIBERS ? &workers[i] : &third}};
    weft__chain_init(&firing.ready);
    weft__wheel_advance(&workers[0].wheel, LATER + (1 << WEFT__WHEEL_TICK_SHIFT), 16, &firing);
    if (firing.run.user_timer) {
        weft__user_timer_run(&firing, LATER + (1 << WEFT__WHEEL_TICK_SHIFT));
    }
    weft__place_all(&firing.ready, WEFT__FRONT);
}

static void cancel_against_expiry(int i)
{
    if (i == 0) {
        answer = weft_timer_cancel(THE_TIMER);
    } else {
        fire(1);
    }
}

static void answer_is_definite(void)
{
    fibers_rest();
    X_ASSERT(!weft_timer_is_pending(THE_TIMER));
    X_ASSERT(x_counted(CALLED) == (answer == WEFT_TIMER_CANCELLED ? 0 : 1));
}

/* After it returns, nothing touches the timer or what the callback uses. */
static void cancel_and_wait(int i)
{
    if (i == 0) {
        answer = weft_timer_cancel_wait(THE_TIMER, WEFT_FOREVER);
        X_ASSERT(answer == WEFT_TIMER_CANCELLED || answer == WEFT_TIMER_IDLE);
        shared = 7;
        memset(&place.alarm.fn, 0xa5, sizeof place.alarm.fn);
        place.alarm.period = place.alarm.repeat = 9;
        place.alarm.run = NULL;
    } else {
        fire(1);
    }
}

static void was_left_alone(void)
{
    fibers_rest();
    X_ASSERT(shared == 7);
}

static void was_left_alone_once(void)
{
    was_left_alone();
    X_ASSERT(x_counted(CALLED) == (answer == WEFT_TIMER_CANCELLED ? 0 : 1));
}

static void wait_with_a_deadline(int i)
{
    if (i == 0) {
        answer = weft_timer_cancel_wait(THE_TIMER, LATER);
        X_ASSERT(answer >= 0 || answer == -ETIMEDOUT);
    } else {
        fire(i); /* the timer, the deadline, or both */
    }
}

static void cancel_ends_recurring(void)
{
    fibers_rest();
    X_ASSERT(!weft_timer_is_pending(THE_TIMER));
}

/* Rearmed for a time far ahead: the timer is pending in the end, whatever it did before. */
static void set_against_expiry(int i)
{
    if (i == 0) {
        answer = weft_timer_set(THE_TIMER, INT64_C(1) << 40);
    } else {
        fire(1);
    }
}

static void fires_again(void)
{
    fibers_rest();
    X_ASSERT(weft_timer_is_pending(THE_TIMER));
    X_ASSERT(place.alarm.node.deadline == INT64_C(1) << 40);
    X_ASSERT(x_counted(CALLED) == (answer ? 0 : 1));
    X_ASSERT(weft_timer_cancel(THE_TIMER) == WEFT_TIMER_CANCELLED);
}

static void two_workers_fire(int i)
{
    fire(i);
}

static void called_once(void)
{
    fibers_rest();
    X_ASSERT(x_counted(CALLED) == 1 && !weft_timer_is_pending(THE_TIMER));
}

/* A callback that releases its own timer, and another thread that uses the wheel meanwhile. */
static weft_timer *own;

static void give_up(weft_timer *timer, void *arg, uint64_t times)
{
    called(timer, arg, times);
    X_ASSERT(weft_timer_cancel_wait(timer, WEFT_FOREVER) == WEFT_TIMER_RUNNING);
    weft_timer_set(timer, LATER); /* forgotten with it */
    weft_timer_deinit(timer);
    x_free(timer);
}

static void setup_own(void)
{
    setup_idle();
    own = x_alloc(sizeof place, false);
    init(own, give_up);
    weft_timer_set(own, LATER);
}

static void callback_frees(int i)
{
    if (i == 0) {
        weft_timer_set(THE_TIMER, INT64_C(1) << 40);
        weft_timer_cancel(THE_TIMER);
    } else {
        fire(1);
    }
}

/* A timer set from outside: its home worker sleeps, and has to check the wheel again. */
static void home_sleeps(int i)
{
    if (i == 0) {
        atomic_store_explicit(&workers[0].state, WEFT_WORKER_PARKED, memory_order_relaxed);
        while (weft__wheel_next_ordered(&workers[0].wheel) == INT64_MAX) {
            weft__parker_park(&workers[0].sleeper.parker, INT64_MAX);
        }
    } else {
        weft_timer_set(THE_TIMER, LATER);
    }
}

/* Its home worker is absent: a sleeping worker stands in for it, or finds the timer before it
 * sleeps. */
static void sleep_until_seen(struct weft__sleeper *sleeper)
{
    for (bool seen = false; !seen;) {
        weft__idle_enter(&pool.idle, sleeper, false);
        seen = weft__wheel_next_ordered(&workers[0].wheel) != INT64_MAX;
        if (!seen) {
            weft__parker_park(&sleeper->parker, INT64_MAX);
        }
        if (weft__idle_leave(&pool.idle, sleeper)) {
            weft__idle_end_search(&pool.idle);
        }
    }
}

static void setup_absent(void)
{
    setup_idle();
    atomic_init(&workers[0].state, WEFT_WORKER_ABSENT);
}

/* T0 would be the home worker itself. */
static void home_is_absent(int i)
{
    if (i == 1) {
        sleep_until_seen(&workers[1].sleeper);
    } else if (i == 2) {
        weft_timer_set(THE_TIMER, LATER);
    }
}

static void cancel_pending(void)
{
    X_ASSERT(weft_timer_cancel(THE_TIMER) == WEFT_TIMER_CANCELLED);
}

static const struct x_client clients[] = {
    X_CLIENT("cancel_against_expiry", 2, setup, cancel_against_expiry, answer_is_definite),
    X_CLIENT("two_workers_fire", 2, setup, two_workers_fire, called_once),
    X_CLIENT("set_against_expiry", 2, setup, set_against_expiry, fires_again),
    X_CLIENT("cancel_and_wait", 2, setup, cancel_and_wait, was_left_alone_once),
    X_CLIENT("recurring_cancel_and_wait", 2, setup_recurring, cancel_and_wait, was_left_alone),
    X_CLIENT("callback_frees", 2, setup_own, callback_frees, fibers_rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("home_sleeps", 2, setup_idle, home_sleeps, cancel_pending),
    X_CLIENT("home_is_absent", 3, setup_absent, home_is_absent, cancel_pending),
    X_CLIENT("wait_with_a_deadline", 3, setup_recurring, wait_with_a_deadline,
             cancel_ends_recurring, .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
