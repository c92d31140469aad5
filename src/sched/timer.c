#include "sched/timer.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/nonnull.h"
#include "sched/pool.h"
#include "task/handle.h"

#define BATCH_RUN 256u /* timers set under one lock acquisition */

static const struct weft__wait_kind cancel_kind = {.name = "timer callback"};

static struct weft__wheel *wheel_of(const struct weft__user_timer *a)
{
    return &a->home->wheel;
}

/* --- called by the wheel ---------------------------------------------------------- */

/* Under the wheel's lock. */
static void user_timer_expire(struct weft__timer *node, void *arg)
{
    struct weft__user_timer *a = (struct weft__user_timer *)(void *)node;
    struct weft__firing *firing = arg;
    firing->run.user_timer = a;
    firing->run.due = node->deadline;
    firing->run.period = a->repeat == WEFT_TIMER_RATE ? a->period : 0;
    firing->run.gone = false;
    a->run = &firing->run;
    weft__wheel_halt(wheel_of(a));
}

/* The number of periods that have begun since `due`, including that one. */
static uint64_t periods(int64_t due, int64_t now, int64_t period)
{
    return now > due ? 1 + (uint64_t)(now - due) / (uint64_t)period : 1;
}

static bool is_fiber_alive(weft_fiber fiber)
{
    const struct weft__task *task = weft__slab_find((uint32_t)fiber);
    if (!task) {
        return false;
    }
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_acquire); /* pairs: retire */
    return weft__ident_generation(ident) == fiber >> 32 && (ident & WEFT__IDENT_LIVE) &&
           !(ident & WEFT__IDENT_DONE);
}

/* Makes sure that a worker wakes up for an earlier deadline in this wheel. The wheel's own worker
 * checks it anyway; another worker would not check again before it has to. If the wheel's worker
 * sleeps, it is woken and parks again with the new deadline. If it cannot be relied on, another
 * sleeping worker is woken, which then includes this wheel in its deadline. publish, wake and
 * notify are seq_cst, as are the loads of nearest_timer and offer_timers. */
static void notify_home_worker(struct weft__worker *home)
{
    if (home == weft__worker_self()) {
        return;
    }
    weft__wheel_publish(&home->wheel);
    weft__parker_wake(&home->sleeper.parker);
    if (atomic_load_explicit(&home->state, memory_order_seq_cst) != WEFT_WORKER_PARKED ||
        atomic_load_explicit(&home->sleeper.parker.host_fd, memory_order_relaxed) >= 0) {
        weft__idle_notify(&home->pool->idle);
    }
}

/* Under the lock, at the end of a call: returns the next deadline, or -1. */
static int64_t next_due(struct weft__user_timer *a, const struct weft__user_timer_run *run,
                        uint64_t times, int64_t now)
{
    int64_t span;
    if (a->again) {
        a->again = false;
        return a->node.deadline;
    }
    switch ((enum weft_timer_repeat)a->repeat) {
    case WEFT_TIMER_RATE:
        return __builtin_mul_overflow(times, run->period, &span) ? INT64_MAX
                                                                 : weft__clock_add(run->due, span);
    case WEFT_TIMER_DELAY:
        return weft__clock_add(now, a->period);
    case WEFT_TIMER_ONCE:
        break;
    }
    return -1;
}

/* Ends the call: the timer is pending again or idle, and may be freed as soon as the lock is
 * released. times 0: its owner was dead. */
static void finish(struct weft__user_timer *a, const struct weft__user_timer_run *run,
                   uint64_t times, int64_t now)
{
    struct weft__worker *home = a->home;
    struct weft__chain ready;
    struct weft__node *node;
    weft__chain_init(&ready);
    weft__latch_lock(&home->wheel.lock);
    a->run = NULL;
    if (times == 0 && !a->again) {
        a->repeat = WEFT_TIMER_ONCE;
    }
    int64_t next = next_due(a, run, times, now);
    bool earlier = next >= 0 && weft__wheel_add_locked(&home->wheel, &a->node, next);
    while ((node = weft__waitlist_pop(&a->waiters))) {
        weft__node_notify(node, 0, &ready);
    }
    weft__latch_unlock(&home->wheel.lock);
    weft__place_all(&ready, WEFT__FRONT);
    if (earlier) {
        notify_home_worker(home);
    }
}

int64_t weft__user_timer_run(struct weft__firing *firing, int64_t now)
{
    struct weft__user_timer_run *run = &firing->run;
    struct weft__user_timer *a = run->user_timer;
    void (*drop)(void *) = a->drop;
    void *arg = a->arg;
    uint64_t times = 0;
    if ((a->owner == WEFT_NO_FIBER || is_fiber_alive(a->owner)) && (!a->hold || a->hold(arg))) {
        times = run->period ? periods(run->due, now, run->period) : 1;
        a->fn((weft_timer *)(void *)a, arg, times);
        if (drop) {
            drop(arg); /* before the end of the call: it may free the timer */
        }
    }
    now = weft__clock_ns();
    if (!run->gone) {
        finish(a, run, times, now);
    }
    return now;
}

/* --- public calls ------------------------------------------------------------------- */

static struct weft__worker *choose_home(weft_pool *pool)
{
    struct weft__worker *w = weft__worker_self();
    if (w && (!pool || pool == w->pool)) {
        return w;
    }
    WEFT__REQUIRE(pool, "weft_timer_init needs a pool in opts: this thread is no worker");
    /* A caller's thread is only sometimes in the pool. */
    unsigned first = pool->caller && pool->worker_count > 1;
    unsigned turn = atomic_fetch_add_explicit(&pool->timer_turn, 1, memory_order_relaxed);
    return &pool->workers[first + turn % (pool->worker_count - first)];
}

void weft_timer_init(weft_timer *timer, weft_timer_fn fn, void *arg,
                     const struct weft_timer_opts *opts)
{
    WEFT__NONNULL(timer);
    struct weft__user_timer *a = weft__user_timer_of(timer);
    WEFT__REQUIRE(fn, "weft_timer_init: fn is NULL");
    *a = (struct weft__user_timer){.fn = fn, .arg = arg};
    weft__timer_init(&a->node, user_timer_expire);
    a->home = choose_home(opts ? opts->pool : NULL);
    if (opts) {
        a->owner = opts->owner;
        a->hold = opts->hold;
        a->drop = opts->drop;
    }
}

void weft_timer_deinit(weft_timer *timer)
{
    WEFT__NONNULL(timer);
    struct weft__user_timer *a = weft__user_timer_of(timer);
    struct weft__worker *w = weft__worker_self();
    weft__latch_lock(&wheel_of(a)->lock);
    bool pending = weft__timer_is_pending(&a->node);
    bool mine = a->run && a->run->worker == w;
    bool running = a->run && !mine;
    if (mine) {
        a->run->gone = true;
        a->run = NULL;
    }
    bool waited_on = a->waiters.first != NULL;
    weft__latch_unlock(&wheel_of(a)->lock);
    WEFT__REQUIRE(!pending,
                  "weft_timer_deinit: the timer was given up while it is pending: cancel it first");
    WEFT__REQUIRE(
        !running,
        "weft_timer_deinit was called while the callback runs: use weft_timer_cancel_wait first");
    WEFT__REQUIRE(
        !waited_on,
        "weft_timer_deinit was called while a fiber or thread is in weft_timer_cancel_wait");
}

/* Sets the timer, under the lock. Returns true if the wheel's next deadline became earlier. */
static inline __attribute__((always_inline)) bool set_locked(struct weft__user_timer *a,
                                                             int64_t deadline, int64_t period,
                                                             uint8_t repeat, bool *pending)
{
    struct weft__wheel *wheel = wheel_of(a);
    a->period = period;
    a->repeat = repeat;
    weft__deadline_check(deadline);
    deadline = deadline > 0 ? deadline : 0;
    *pending = weft__timer_is_pending(&a->node);
    if (a->run) {
        *pending = a->again;
        a->again = true;
        a->node.deadline = deadline;
        return false;
    }
    if (*pending) {
        weft__wheel_cancel_locked(wheel, &a->node);
    }
    return weft__wheel_add_locked(wheel, &a->node, deadline);
}

static inline __attribute__((always_inline)) bool set(weft_timer *timer, int64_t deadline,
                                                      int64_t period, enum weft_timer_repeat repeat)
{
    struct weft__user_timer *a = weft__user_timer_of(timer);
    struct weft__worker *home = a->home;
    bool pending;
    weft__latch_lock(&home->wheel.lock);
    bool earlier = set_locked(a, deadline, period, (uint8_t)repeat, &pending);
    weft__latch_unlock(&home->wheel.lock);
    if (earlier) {
        notify_home_worker(home);
    }
    return pending;
}

bool weft_timer_set(weft_timer *timer, int64_t deadline)
{
    WEFT__NONNULL(timer);
    return set(timer, deadline, 0, WEFT_TIMER_ONCE);
}

bool weft_timer_set_every(weft_timer *timer, int64_t first, int64_t period_ns,
                          enum weft_timer_repeat repeat)
{
    WEFT__NONNULL(timer);
    WEFT__REQUIRE(period_ns > 0, "weft_timer_set_every: period_ns is %lld, must be > 0",
                  (long long)period_ns);
    WEFT__REQUIRE(repeat <= WEFT_TIMER_DELAY,
                  "weft_timer_set_every: %d is no enum weft_timer_repeat", (int)repeat);
    return set(timer, first, period_ns, repeat);
}

void weft_timer_set_batch(weft_timer *const *timers, const int64_t *deadlines, size_t n)
{
    for (size_t i = 0; i < n;) {
        struct weft__worker *home = weft__user_timer_of(timers[i])->home;
        size_t end = n - i > BATCH_RUN ? i + BATCH_RUN : n;
        bool earlier = false, pending;
        weft__latch_lock(&home->wheel.lock);
        for (; i < end && weft__user_timer_of(timers[i])->home == home; i++) {
            struct weft__user_timer *a = weft__user_timer_of(timers[i]);
            earlier |= set_locked(a, deadlines[i], 0, WEFT_TIMER_ONCE, &pending);
        }
        weft__latch_unlock(&home->wheel.lock);
        if (earlier) {
            notify_home_worker(home);
        }
    }
}

bool weft_timer_refresh(weft_timer *timer)
{
    WEFT__NONNULL(timer);
    struct weft__user_timer *a = weft__user_timer_of(timer);
    struct weft__worker *home = a->home;
    bool pending, earlier = false;
    int64_t now = weft__clock_ns();
    weft__latch_lock(&home->wheel.lock);
    int64_t period = a->period;
    bool fires =
        a->run ? a->again || a->repeat != WEFT_TIMER_ONCE : weft__timer_is_pending(&a->node);
    if (fires && period > 0) {
        earlier = set_locked(a, weft__clock_add(now, period), period, a->repeat, &pending);
    }
    weft__latch_unlock(&home->wheel.lock);
    WEFT__REQUIRE(!fires || period > 0,
                  "weft_timer_refresh: the timer was set for a time, not for a delay or period");
    if (earlier) {
        notify_home_worker(home);
    }
    return fires;
}

/* Under the lock. */
static enum weft_timer_cancel_result cancel_locked(struct weft__user_timer *a)
{
    if (a->run) {
        a->again = false;
        a->repeat = WEFT_TIMER_ONCE;
        return WEFT_TIMER_RUNNING;
    }
    if (!weft__timer_is_pending(&a->node)) {
        return WEFT_TIMER_IDLE;
    }
    weft__wheel_cancel_locked(wheel_of(a), &a->node);
    return WEFT_TIMER_CANCELLED;
}

int weft_timer_cancel(weft_timer *timer)
{
    WEFT__NONNULL(timer);
    struct weft__user_timer *a = weft__user_timer_of(timer);
    struct weft__wheel *wheel = wheel_of(a);
    weft__latch_lock(&wheel->lock);
    enum weft_timer_cancel_result answer = cancel_locked(a);
    weft__latch_unlock(&wheel->lock);
    return answer;
}

/* Waits for the callback; locked on entry. After a successful wait the timer may be freed. */
static int await_callback_locked(struct weft__user_timer *a, struct weft__wheel *wheel,
                                 int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node node;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    weft__waitlist_push(&a->waiters, &node);
    weft__latch_unlock(&wheel->lock);
    enum weft__reason reason =
        weft__waiter_park(&waiter, deadline, &cancel_kind, (uint64_t)(uintptr_t)a);
    if (weft__reason_is_done(reason)) {
        return WEFT_TIMER_IDLE;
    }
    weft__latch_lock(&wheel->lock);
    if (node.linked) {
        weft__waitlist_remove(&a->waiters, &node);
    }
    weft__latch_unlock(&wheel->lock);
    return weft__reason_errno(reason);
}

int weft_timer_cancel_wait(weft_timer *timer, int64_t deadline)
{
    WEFT__NONNULL(timer);
    struct weft__user_timer *a = weft__user_timer_of(timer);
    struct weft__wheel *wheel = wheel_of(a);
    struct weft__worker *w = weft__worker_self();
    weft__latch_lock(&wheel->lock);
    enum weft_timer_cancel_result answer = cancel_locked(a);
    /* On its base context a worker runs no user code but one callback. */
    bool mine = a->run && a->run->worker == w;
    if (answer != WEFT_TIMER_RUNNING || mine) {
        weft__latch_unlock(&wheel->lock);
        WEFT__REQUIRE(
            mine || !w || weft__current(w),
            "weft_timer_cancel_wait: a timer's callback waits for the callback of another timer");
        return answer;
    }
    return await_callback_locked(a, wheel, deadline);
}

int weft__timer_cancel_sync(weft_timer *timer)
{
    int answer;
    while ((answer = weft_timer_cancel_wait(timer, WEFT_FOREVER)) < 0) {
        weft_yield(); /* a callback is short */
    }
    return answer;
}

bool weft_timer_is_pending(const weft_timer *timer)
{
    WEFT__NONNULL(timer);
    struct weft__user_timer *a = (struct weft__user_timer *)(uintptr_t)timer;
    weft__latch_lock(&wheel_of(a)->lock);
    bool pending =
        a->run ? a->again || a->repeat != WEFT_TIMER_ONCE : weft__timer_is_pending(&a->node);
    weft__latch_unlock(&wheel_of(a)->lock);
    return pending;
}
