/* Timers: a callback at a deadline, once or periodically.
 *
 * The callback runs on a worker of the timer's pool, outside any fiber and with no lock held. It
 * may use this API, set events, wake fibers and submit to pools. It must not wait (a deadline of 0
 * is allowed) and should be short, because its worker runs nothing else meanwhile; long work
 * belongs in a fiber that the callback wakes.
 *
 * - A timer never fires early by weft_now. It fires late by up to one tick of the pool
 *   (timer_tick_ns) plus the time until a worker is free. If timers would wake an idle worker more
 *   than 2,000 times a second, they fire up to 200 us later so that they share wake-ups; if more
 *   than 16 timers fired at one such wake-up, up to 900 us later. Setting the wall clock has no
 *   effect. There is no maximum delay.
 * - The callbacks of one timer never overlap. Callbacks of different timers may, on different
 *   workers.
 * - A timer belongs to one worker's timer wheel from init on: the calling worker's if that worker
 *   is in the timer's pool, else the pool's workers in turn. If that worker is busy, another
 *   worker of the pool runs the callback.
 * - Every call may be made from any fiber, plain thread or callback, except init and deinit, which
 *   no other call may race with.
 * - Timers do not keep a pool running. While the pool is stopped no timer fires; overdue timers
 *   fire when the pool starts again. No timer may be pending when the pool is destroyed.
 * - A timer set to WEFT_FOREVER is pending and never fires. */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* In the caller's memory. Must not be copied or moved, nor freed while the timer is pending or its
 * callback runs (but see weft_timer_deinit). */
typedef struct weft_timer {
    uint64_t weft_private[16]; /* private */
} weft_timer;

/* `times`: the number of periods this call covers; 1 unless periods were missed
 * (WEFT_TIMER_RATE). */
typedef void (*weft_timer_fn)(weft_timer *timer, void *arg, uint64_t times);

struct weft_timer_opts {
    weft_pool *pool; /* default: the calling fiber's; required elsewhere */
    /* The timer fires only while this fiber lives. Otherwise it becomes idle instead, also if it
     * is periodic. The fiber has not ended at the moment the callback is called. */
    weft_fiber owner;
    /* hold is called before the callback: it takes a reference to what the callback needs and
     * returns true, or returns false and the callback is not called. drop gives the reference back
     * after the callback, as part of the call: drop may deinit and free the timer, and is also
     * called if the callback has done so. */
    bool (*hold)(void *arg);
    void (*drop)(void *arg);
};

enum weft_timer_repeat {
    WEFT_TIMER_ONCE,
    /* At first, first + period, first + 2 period ...: no drift. If whole periods were missed, one
     * call covers them, with their count. */
    WEFT_TIMER_RATE,
    /* One period after the callback has returned: drifts, never bunches. */
    WEFT_TIMER_DELAY,
};

/* Initialise a timer in the caller's memory, idle.
 *
 * fn: the callback. arg: passed to it.
 * opts: NULL for defaults; read during the call, but the objects it names are borrowed until
 * deinit.
 * Context: any thread; does not wait. A NULL fn, or no pool outside a worker, is a caller's bug. */
WEFT_API void weft_timer_init(weft_timer *timer, weft_timer_fn fn, void *arg,
                              const struct weft_timer_opts *opts);

/* Deinitialise a timer. The timer must be idle: not pending, not running, and no caller in
 * weft_timer_cancel_wait. The timer's own callback may also call this in any state: afterwards the
 * runtime does not touch the timer, and the callback may free it.
 *
 * Context: any thread; does not wait. A timer that is not idle is a caller's bug. */
WEFT_API void weft_timer_deinit(weft_timer *timer);

/* Set a timer, whether it is idle, pending (it is moved) or running (it fires again after this
 * callback). weft_timer_set_after takes a delay instead of a deadline.
 *
 * Returns true if the timer was pending; that firing is cancelled.
 * Context: any thread; does not wait. */
WEFT_API bool weft_timer_set(weft_timer *timer, int64_t deadline);
WEFT_API bool weft_timer_set_after(weft_timer *timer, int64_t delay_ns);
/* Set a periodic timer: first at `first`, then every period_ns > 0 according to `repeat`.
 *
 * Returns true if the timer was pending; that firing is cancelled.
 * Context: any thread; does not wait. */
WEFT_API bool weft_timer_set_every(weft_timer *timer, int64_t first, int64_t period_ns,
                                   enum weft_timer_repeat repeat);
/* Call weft_timer_set for n timers. Consecutive timers on the same wheel share one acquisition of
 * its lock, up to 256 at a time, and wake the wheel's worker at most once.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_timer_set_batch(weft_timer *const *timers, const int64_t *deadlines, size_t n);

/* Restart the delay or the period from now. For timers set by set_after or set_every.
 *
 * Returns false if the timer was not going to fire; nothing has changed then.
 * Context: any thread; does not wait. To refresh a timer that was set by weft_timer_set is a
 * caller's bug. */
WEFT_API bool weft_timer_refresh(weft_timer *timer);

enum weft_timer_cancel_result {
    WEFT_TIMER_IDLE,      /* had fired already, or was never set: nothing to cancel */
    WEFT_TIMER_CANCELLED, /* was pending; does not fire */
    WEFT_TIMER_RUNNING,   /* its callback is running; does not fire again */
};

/* Cancel a timer.
 *
 * Returns an enum weft_timer_cancel_result. After IDLE or CANCELLED the runtime does not touch the
 * timer.
 * Context: any thread; does not wait. */
WEFT_API int weft_timer_cancel(weft_timer *timer);
/* Cancel a timer and wait until a running callback has returned.
 *
 * Returns WEFT_TIMER_IDLE or WEFT_TIMER_CANCELLED; WEFT_TIMER_RUNNING in the timer's own callback,
 * where it does not wait; -ETIMEDOUT, -ECANCELED, -EINTR if the wait ended first: the timer is
 * cancelled, but its callback may still run.
 * Context: any thread; waits; a cancellation point. A call in another timer's callback is a
 * caller's bug. */
WEFT_API int weft_timer_cancel_wait(weft_timer *timer, int64_t deadline);

/* Report whether the timer is going to fire.
 *
 * Returns true if the timer is set, or if its callback is running and the timer fires again
 * afterwards. The state may have changed by the time the call returns.
 * Context: any thread; does not wait. */
WEFT_API bool weft_timer_is_pending(const weft_timer *timer);

WEFT_END_DECLS
#endif
