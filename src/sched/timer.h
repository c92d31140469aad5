/* The user's timer: a node in a wheel whose callback runs without the wheel's lock.
 *
 * State, all under the lock of the home worker's wheel:
 *
 *   idle      not in the wheel, run == NULL
 *   pending   in the wheel, run == NULL
 *   running   not in the wheel; run points to the record of the worker that runs the callback;
 *             `again`: set again meanwhile, for node.deadline
 *
 *   action                        from -> to
 *   set, refresh                  idle, pending -> pending; running -> running, again
 *   cancel                        pending -> idle; running -> running, not again, not periodic
 *   expire (by the wheel)         pending -> running; halts the advance of the wheel
 *   end of weft__user_timer_run   running -> pending (again, or periodic), or idle; fires the
 *                                 waiters for its end
 *   deinit in the callback        running -> forgotten: the runner's record says so; the timer may
 *                                 be freed
 *
 * An expired timer leaves the wheel only when a worker is about to call it. There is no second
 * list of timers that have expired but have not run, so a cancel is definite however many timers
 * expire at once, and several workers may share the work.
 *
 * Rejected: keeping the node pending while the callback runs (the next expiry would have to wait
 * for the callback anyway); moving the timer to the wheel of the thread that sets it (two locks,
 * or a gap in which a cancel finds it in neither wheel). */
#ifndef WEFT_SCHED_TIMER_H
#define WEFT_SCHED_TIMER_H

#include <weft/timer.h>

#include "base/link.h"
#include "time/wheel.h"
#include "wait/waiter.h"
#include "worker/worker.h"

struct weft__user_timer_run;

/* Overlays the public storage; the fields that set and cancel use come first, in 64 bytes. */
struct __attribute__((may_alias)) weft__user_timer {
    struct weft__timer node;          /* first: the node is the timer */
    struct weft__worker *home;        /* immutable after init */
    struct weft__user_timer_run *run; /* under the wheel's lock, as are the next three */
    uint8_t repeat;                   /* enum weft_timer_repeat */
    bool again;
    int64_t period;                /* or the delay; 0: it was set to a deadline */
    struct weft__waitlist waiters; /* for the end of the callback */
    /* immutable after init */
    weft_timer_fn fn;
    void *arg;
    weft_fiber owner;
    bool (*hold)(void *arg);
    void (*drop)(void *arg);
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__user_timer) <= sizeof(weft_timer), "the public storage");
#endif

/* One call of a timer's callback: on the stack of the worker that makes it. */
struct weft__user_timer_run {
    struct weft__worker *worker;
    struct weft__user_timer
        *user_timer; /* NULL: no timer expired; written under the wheel's lock */
    int64_t due;
    int64_t period; /* of a fixed rate, at its expiry; else 0 */
    bool gone;      /* the callback has deinitialised the timer */
};

/* What an advance of a wheel returns. */
struct weft__firing {
    struct weft__chain ready; /* first: for the deadlines of waits */
    struct weft__user_timer_run run;
    struct weft__timer *due, *due_last; /* deadlines of a dispatcher's tasks, linked by their
                                         * `next` */
};

static inline struct weft__user_timer *weft__user_timer_of(weft_timer *timer)
{
    return (struct weft__user_timer *)(void *)timer;
}

/* Calls the timer that the advance has returned, if any. `now` is the time it was advanced to.
 * Returns the time after the call. */
int64_t weft__user_timer_run(struct weft__firing *firing, int64_t now);

/* For the teardown of what a timer's callback uses: afterwards the timer does not fire and its
 * callback does not run, even if the calling fiber is being cancelled. Returns WEFT_TIMER_RUNNING
 * if the caller is that callback. */
int weft__timer_cancel_sync(weft_timer *timer);

#endif
