/* How a worker without work goes to sleep: the last check, the nearest timer, the wait itself, and
 * the notifications around it. The protocol between workers that fall asleep and submitters is that
 * of sched/idle.h.
 */
#include "base/clock.h"
#include "sched/pool.h"
#include "sched/rounds.h"
#include "sched/worker.h"

#define AT_HAND_NS 10000      /* a wait for I/O this short was no sleep */
#define DENSE_NS 500000       /* timers that are closer together than this, */
#define DENSE_PARKS 8u        /* this many times in a row, */
#define DENSE_SLACK_NS 200000 /* share wake-ups by being this late, */
#define CROWD 16u             /* and where so many were due at once, */
#define CROWD_SLACK_NS 900000 /* this late */

static bool has_work(const struct weft__worker *w)
{
    return weft__ring_length(&w->ring) > 0 || weft__fresh_length(&w->fresh) > 0;
}

bool weft__worker_anything_left(const struct weft__worker *w)
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
    if (w->rounds && weft__rounds_busy(w->rounds)) {
        return true;
    }
    if (!weft__inbox_empty(&w->inbox) || weft__global_length(&pool->global) > 0) {
        return true;
    }
    for (unsigned i = 0; i < pool->worker_count; i++) {
        if (has_work(&pool->workers[i])) {
            return true;
        }
    }
    return false;
}

int64_t weft__worker_nearest_timer(const struct weft__worker *w)
{
    int64_t nearest = weft__wheel_next_ordered(&w->wheel); /* pairs: sched/timer.c, tell_home */
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
static bool park(struct weft__worker *w, int64_t rested)
{
    int64_t nearest = weft__worker_nearest_timer(w), began = w->now, slack = 0;
    if (w->dense >= DENSE_PARKS && nearest < INT64_MAX - CROWD_SLACK_NS) {
        slack = w->fired >= CROWD ? CROWD_SLACK_NS : DENSE_SLACK_NS;
    }
    nearest += slack;
    w->fired = 0;
    int64_t until = nearest < rested ? nearest : rested;
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
    w->io_at_hand = driver && w->now - began < AT_HAND_NS;
    if (!woken) {
        w->dense = w->now - began < DENSE_NS + slack ? w->dense + 1 : 0;
    }
    return woken;
}

static bool sleep_once(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                       int64_t rested)
{
    struct weft__idle *idle = &w->pool->idle;
    weft__idle_enter(idle, &w->sleeper, searching);
    weft__worker_look_cancelling(w);
    if (atomic_load_explicit(&w->pool->watched, memory_order_seq_cst)) { /* pairs: wait_drained */
        weft__pool_look_drained(w->pool);
    }
    bool found = weft__worker_anything_left(w);
    bool stay = !found && !(until && atomic_load_explicit(until, memory_order_seq_cst)) &&
                !atomic_load_explicit(&w->pool->exiting, memory_order_seq_cst);
    if (stay) {
        weft__spawner_give_credits(&w->spawner);
        weft__worker_set_state(w, WEFT_WORKER_PARKED);
        WEFT__TRACE(w, WEFT__TRACE_PARK, 0);
        weft__count(&w->counters.parks, 1);
        weft__pulse_asleep(&weft__pulse);
        if (park(w, rested)) {
            weft__count(&w->counters.wakes, 1);
        }
        weft__pulse_awake(&weft__pulse);
        WEFT__TRACE(w, WEFT__TRACE_UNPARK, 0);
        weft__worker_set_state(w, WEFT_WORKER_RUNNING);
    }
    /* Submitters that saw this worker as the searcher have woken no other worker: if it has found
     * their work, it becomes the searcher again, and wakes the next one. */
    searching =
        weft__idle_leave(idle, &w->sleeper) || (found && searching && weft__idle_search(idle));
    if (stay && weft__worker_peek_driver(w)) {
        weft__worker_dispatch(
            w, weft__worker_peek_driver(w)); /* only now: this worker counted as asleep */
    }
    return searching;
}

/* A dispatcher may spin first. If it did not, a hand-off shows whether it should have. */
static bool rest_once(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                      int64_t rested)
{
    struct weft__rounds *r = w->rounds;
    if (!r) {
        return sleep_once(w, searching, until, rested);
    }
    int64_t began = w->now;
    bool spins = weft__spin_pays(&r->spin);
    if (spins && weft__rounds_spin(r)) {
        return searching;
    }
    searching = sleep_once(w, searching, until, rested);
    if (!spins && weft__rounds_handed(r)) {
        weft__spin_slept(&r->spin, w->now - began);
    }
    return searching;
}

/* Like rest_once, with measurements for performance events. The callbacks are called while this
 * worker is not in the idle word: they may wake fibers, and the worker must check its queues after
 * that. */
static __attribute__((noinline, cold)) bool sleep_measured(struct weft__worker *w, bool searching,
                                                           const _Atomic(uint32_t) *until,
                                                           int64_t rested)
{
    uint64_t parks = atomic_load_explicit(&w->counters.parks, memory_order_relaxed);
    weft__gauge_sleep(w);
    weft__gauge_look(w);
    searching = rest_once(w, searching, until, rested);
    weft__gauge_look(w);
    weft__gauge_wake(w, atomic_load_explicit(&w->counters.parks, memory_order_relaxed) != parks);
    return searching;
}

bool weft__worker_rest(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                       int64_t rested)
{
    return weft__perf_mask() | w->gauge.seen ? sleep_measured(w, searching, until, rested)
                                             : rest_once(w, searching, until, rested);
}
