/* Timers: a function that is called at a time.
 *
 * The callback runs on a worker of the timer's pool, outside any fiber and with no lock held. It
 * may use everything here, set events, wake fibers and submit to pools, but it must not wait (a
 * deadline of 0 is fine), and it should be short: it keeps its worker from other work. Long work
 * belongs into a fiber that it wakes.
 *
 *  - Never early, by the clock of weft_now; late by one tick of the pool (timer_tick_ns) and what
 *    the pool is busy with. Where an idle worker would be woken by timers more than 2,000 times a
 *    second, they are up to 200 us later, so that they share wake-ups; where more than 16 have come
 *    at one of these, up to 900 us. Setting the wall clock changes nothing. There is no greatest
 *    delay.
 *  - The callbacks of one timer never overlap. Those of different timers may, on different workers.
 *  - A timer belongs to one worker's wheel from init on: that of the calling worker if it is of the
 *    timer's pool, else the pool's workers in turn. If that worker is busy another one of the pool
 *    calls in its stead.
 *  - Every call may be made from any fiber, plain thread or callback, but for init and deinit,
 *    which nothing may race.
 *  - Timers do not keep a pool running. While it is stopped none fires; what is overdue when it
 *    starts again fires then. None may be pending when the pool is destroyed.
 *  - A timer set for WEFT_FOREVER is pending and never fires.
 */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* In the caller's memory; not copied or moved, and not freed while it is pending or its callback
 * runs, but see weft_timer_deinit. */
typedef struct weft_timer {
    uint64_t weft_private[16]; /* private */
} weft_timer;

/* `times`: the periods that this call stands for, 1 unless some were missed (WEFT_TIMER_RATE). */
typedef void (*weft_timer_fn)(weft_timer *timer, void *arg, uint64_t times);

struct weft_timer_opts {
    weft_pool *pool; /* default: the calling fiber's; must be given elsewhere */
    /* Fires only while its owner lives; else it becomes idle instead, for good if it recurs.
     * The fiber has not ended at the moment at which the callback is called: */
    weft_fiber owner;
    /* Called before the callback: takes a reference to what it needs, or answers false. `drop`
     * gives it back afterwards, as part of the call: it may deinit and free the timer, and is
     * called also when the callback has done so. */
    bool (*hold)(void *arg);
    void (*drop)(void *arg);
};

enum weft_timer_repeat {
    WEFT_TIMER_ONCE,
    /* At first, first + period, first + 2 period ...: no drift. If it comes so late that whole
     * periods have passed, they are one call with a count. */
    WEFT_TIMER_RATE,
    /* A period after the callback has returned: drifts, never bunches. */
    WEFT_TIMER_DELAY,
};

/* Borrows what opts names. */
WEFT_API void weft_timer_init(weft_timer *timer, weft_timer_fn fn, void *arg,
                              const struct weft_timer_opts *opts);

/* The runtime forgets the timer. It must be idle: not pending, not running, with nobody in
 * weft_timer_cancel_wait for it. Or it is called by the timer's own callback, whatever the timer
 * was to do next: from then on nothing touches it, and the callback may free it. */
WEFT_API void weft_timer_deinit(weft_timer *timer);

/* Sets, or sets anew, whether it is pending, running (then it fires again after this) or idle.
 * True: it was pending, and that firing is off. */
WEFT_API bool weft_timer_set(weft_timer *timer, int64_t deadline);
WEFT_API bool weft_timer_set_after(weft_timer *timer, int64_t delay_ns);
/* period_ns > 0. */
WEFT_API bool weft_timer_set_every(weft_timer *timer, int64_t first, int64_t period_ns,
                                   enum weft_timer_repeat repeat);
/* weft_timer_set for n timers of one pool. Neighbours of one wheel take its lock once for up to 256
 * of them, and each wheel's worker is woken at most once per such run. */
WEFT_API void weft_timer_set_batch(weft_timer *const *timers, const int64_t *deadlines, size_t n);

/* Starts the delay or the period again from now. False: it was not going to fire; nothing changed.
 * For timers set by set_after or set_every. */
WEFT_API bool weft_timer_refresh(weft_timer *timer);

enum weft_timer_answer {
    WEFT_TIMER_IDLE,      /* it had run already, or was never set: nothing was to be cancelled */
    WEFT_TIMER_CANCELLED, /* it was pending; it does not fire */
    WEFT_TIMER_RUNNING,   /* its callback is running now; it does not fire again */
};

/* An enum weft_timer_answer. After IDLE or CANCELLED nothing touches the timer any more. */
WEFT_API int weft_timer_cancel(weft_timer *timer);
/* The same, and waits until a callback that runs has returned: IDLE or CANCELLED, or -ETIMEDOUT,
 * -ECANCELED, -EINTR; it is cancelled all the same then. In the timer's own callback it does not
 * wait: RUNNING. A caller's bug in another timer's callback. */
WEFT_API int weft_timer_cancel_wait(weft_timer *timer, int64_t deadline);

/* Will it fire, as things stand? */
WEFT_API bool weft_timer_pending(const weft_timer *timer);

WEFT_END_DECLS
#endif
