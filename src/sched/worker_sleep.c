/* How a worker without work goes to sleep: the last check, the nearest timer, the wait itself, and
 * the notifications around it. The protocol between workers that fall asleep and submitters is that
 * of idle/idle.h.
 */
#include "base/clock.h"
#include "idle/awake_count.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "worker/worker.h"

#define SHORT_WAIT_NS 10000   /* a wait for I/O this short was no sleep */
#define DENSE_NS 500000       /* timers that are closer together than this, */
#define DENSE_PARKS 8u        /* this many times in a row, */
#define DENSE_SLACK_NS 200000 /* share wake-ups by being this late, */
#define BURST 16u             /* and where so many were due at once, */
#define BURST_SLACK_NS 900000 /* this late */

static bool has_queued_tasks(const struct weft__worker *w)
{
    return weft__ring_length(&w->ring) > 0 || weft__fresh_length(&w->fresh) > 0;
}

bool weft__worker_has_work(const struct weft__worker *w)
{
    const weft_pool *pool = w->pool;
    /* Its own tasks too: the timers that it fired last may have made a task ready that a tick kept
     * it from picking. */
    if (w->pinned.head || atomic_load_explicit(&w->next, memory_order_relaxed)) {
        return true;
    }
    if (weft__wheel_next(&w->wheel) <= w->now) {
        return true; /* the rest of a slice */
    }
    if (w->group_sched && weft__group_sched_is_busy(w->group_sched)) {
        return true;
    }
    if (!weft__inbox_is_empty(&w->inbox) || weft__global_length(&pool->global) > 0) {
        return true;
    }
    for (unsigned i = 0; i < pool->worker_count; i++) {
        if (has_queued_tasks(&pool->workers[i])) {
            return true;
        }
    }
    return false;
}

int64_t weft__worker_nearest_timer(const struct weft__worker *w)
{
    int64_t nearest =
        weft__wheel_next_ordered(&w->wheel); /* pairs: sched/timer.c, notify_home_worker */
    for (unsigned i = 0; i < w->pool->worker_count; i++) {
        const struct weft__worker *other = &w->pool->workers[i];
        /* pairs: weft__worker_leave_thread */
        if (atomic_load_explicit(&other->state, memory_order_seq_cst) != WEFT_WORKER_PARKED ||
            atomic_load_explicit(&other->sleeper.parker.host_fd, memory_order_relaxed) >= 0) {
            int64_t at = weft__wheel_next_ordered(&other->wheel);
            nearest = at < nearest ? at : nearest;
        }
    }
    return nearest;
}

/* A wake-up costs as much as firing twenty timers. A single timer is met as exactly as the wheel
 * can; timers that come by the thousand per second are delayed a little so that they share
 * wake-ups. */
static bool park(struct weft__worker *w, int64_t wake_by)
{
    int64_t nearest = weft__worker_nearest_timer(w), began = w->now, slack = 0;
    if (w->dense >= DENSE_PARKS && nearest < INT64_MAX - BURST_SLACK_NS) {
        slack = w->fired >= BURST ? BURST_SLACK_NS : DENSE_SLACK_NS;
    }
    nearest += slack;
    w->fired = 0;
    int64_t until = nearest < wake_by ? nearest : wake_by;
    struct weft__driver *driver = weft__worker_peek_driver(w);
    bool woken = true;
    if (!driver) {
        woken = weft__parker_park(&w->sleeper.parker, until);
    } else {
        weft__driver_enter(
            driver); /* until dispatch; before begin, so that this worker gets the wake-ups */
        if (weft__parker_begin(&w->sleeper.parker)) {
            driver->kind->wait(driver, until > 0 ? until : 1);
            woken = weft__parker_end(&w->sleeper.parker);
        }
    }
    w->now = weft__clock_ns();
    w->io_expected = driver && w->now - began < SHORT_WAIT_NS;
    if (!woken) {
        w->dense = w->now - began < DENSE_NS + slack ? w->dense + 1 : 0;
    }
    return woken;
}

static bool sleep_once(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                       int64_t wake_by)
{
    struct weft__idle *idle = &w->pool->idle;
    weft__idle_enter(idle, &w->sleeper, searching);
    weft__worker_check_cancelling(w);
    if (atomic_load_explicit(&w->pool->drain_awaited,
                             memory_order_seq_cst)) { /* pairs: wait_drained */
        weft__pool_check_drained(w->pool);
    }
    bool found = weft__worker_has_work(w);
    bool stay = !found && !(until && atomic_load_explicit(until, memory_order_seq_cst)) &&
                !atomic_load_explicit(&w->pool->exiting, memory_order_seq_cst);
    if (stay) {
        weft__spawner_give_credits(&w->spawner);
        weft__worker_set_state(w, WEFT_WORKER_PARKED);
        WEFT__TRACE(w, WEFT__TRACE_PARK, 0);
        weft__count(&w->counters.parks, 1);
        weft__awake_count_dec(&weft__awake_count);
        if (park(w, wake_by)) {
            weft__count(&w->counters.wakes, 1);
        }
        weft__awake_count_inc(&weft__awake_count);
        WEFT__TRACE(w, WEFT__TRACE_UNPARK, 0);
        weft__worker_set_state(w, WEFT_WORKER_RUNNING);
    }
    /* Submitters that saw this worker as the searcher have woken no other worker: if it has found
     * their work, it becomes the searcher again, and wakes the next one. */
    searching =
        weft__idle_leave(idle, &w->sleeper) || (found && searching && weft__idle_try_search(idle));
    if (stay && weft__worker_peek_driver(w)) {
        weft__worker_dispatch(
            w, weft__worker_peek_driver(w)); /* only now: this worker counted as asleep */
    }
    return searching;
}

/* A dispatcher may spin first. If it did not, a hand-off shows whether it should have. */
static bool spin_or_sleep(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                          int64_t wake_by)
{
    struct weft__group_sched *r = w->group_sched;
    if (!r) {
        return sleep_once(w, searching, until, wake_by);
    }
    int64_t began = w->now;
    bool spins = weft__spin_is_worthwhile(&r->spin);
    if (spins && weft__group_sched_spin(r)) {
        return searching;
    }
    searching = sleep_once(w, searching, until, wake_by);
    if (!spins && weft__group_sched_has_handoffs(r)) {
        weft__spin_slept(&r->spin, w->now - began);
    }
    return searching;
}

/* Like spin_or_sleep, with measurements for performance events. The callbacks are called while this
 * worker is not in the idle word: they may wake fibers, and the worker must check its queues after
 * that. */
static __attribute__((noinline, cold)) bool sleep_measured(struct weft__worker *w, bool searching,
                                                           const _Atomic(uint32_t) *until,
                                                           int64_t wake_by)
{
    uint64_t parks = atomic_load_explicit(&w->counters.parks, memory_order_relaxed);
    weft__worker_metrics_before_sleep(w);
    weft__worker_metrics_check_mask(w);
    searching = spin_or_sleep(w, searching, until, wake_by);
    weft__worker_metrics_check_mask(w);
    weft__worker_metrics_after_sleep(
        w, atomic_load_explicit(&w->counters.parks, memory_order_relaxed) != parks);
    return searching;
}

bool weft__worker_sleep(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                        int64_t wake_by)
{
    return weft__perf_mask() | w->metrics.seen ? sleep_measured(w, searching, until, wake_by)
                                               : spin_or_sleep(w, searching, until, wake_by);
}
