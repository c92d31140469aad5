/* The user's timer: a node in a wheel whose callback runs without the wheel's lock.
 *
 * State, all under the lock of the home's wheel:
 *
 *   idle      not in the wheel, run == NULL
 *   pending   in the wheel, run == NULL
 *   running   not in the wheel, run points to the record of the worker that runs it; `again`: set
 *             anew meanwhile, for node.deadline
 *
 *   who                         from -> to
 *   set, refresh                idle, pending -> pending; running -> running, again
 *   cancel                      pending -> idle; running -> running, not again, not recurring
 *   expire (the wheel's)        pending -> running, and halts the advance
 *   weft__alarm_run, at its     running -> pending (again, or recurring), or idle; fires who waits
 *   end                         for it
 *   deinit in the callback      running -> forgotten: the runner's record says so, the timer may be
 *                               gone
 *
 * An alarm that is due leaves the wheel only when a worker is about to call it: there is no second
 * list of those that are due but have not run, so a cancel is definite however many expire at once,
 * and several workers may share the work.
 *
 * Rejected: a pending node while the callback runs (the next expiry would have to wait for the
 * callback anyway); moving to the wheel of whoever sets it (two locks, or a gap in which a cancel
 * finds it in neither).
 */
#ifndef WEFT_SCHED_TIMER_H
#define WEFT_SCHED_TIMER_H

#include <weft/timer.h>

#include "base/link.h"
#include "sched/waiter.h"
#include "sched/worker.h"
#include "time/wheel.h"

struct weft__alarm_run;

/* Over the public storage; what set and cancel touch comes first, in 64 bytes. */
struct __attribute__((may_alias)) weft__alarm {
    struct weft__timer node;     /* first: the node is the alarm */
    struct weft__worker *home;   /* immutable after init */
    struct weft__alarm_run *run; /* under the wheel's lock, as are the next three */
    uint8_t repeat;              /* enum weft_timer_repeat */
    bool again;
    int64_t period;                /* or the delay; 0: it was set for a time */
    struct weft__waitlist waiters; /* for the end of the callback */
    /* immutable after init */
    weft_timer_fn fn;
    void *arg;
    weft_fiber owner;
    bool (*hold)(void *arg);
    void (*drop)(void *arg);
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__alarm) <= sizeof(weft_timer), "the public storage");
#endif

/* One call of an alarm: on the stack of the worker that makes it. */
struct weft__alarm_run {
    struct weft__worker *worker;
    struct weft__alarm *alarm; /* NULL: none was due; written under the wheel's lock */
    int64_t due;
    int64_t period; /* of a fixed rate, when it was due; else 0 */
    bool gone;      /* the callback has taken the alarm back */
};

/* What an advance of a wheel hands out. */
struct weft__firing {
    struct weft__chain ready; /* first: what deadlines of waits need */
    struct weft__alarm_run run;
    struct weft__timer *due, *due_last; /* deadlines of a dispatcher's, by their `next` */
};

static inline struct weft__alarm *weft__alarm_of(weft_timer *timer)
{
    return (struct weft__alarm *)(void *)timer;
}

/* Calls the alarm that the advance has handed out, if any. `now` is what it was advanced to.
 * Returns the time after it. */
int64_t weft__alarm_run(struct weft__firing *firing, int64_t now);

/* For the end of what a timer's callback uses: it does not fire again and does not run any more,
 * even if the calling fiber is being cancelled. WEFT_TIMER_RUNNING: this is its callback. */
int weft__timer_end(weft_timer *timer);

#endif
