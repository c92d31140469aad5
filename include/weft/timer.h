/* Timers, and idle groups: one timeout for very many members. */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

#include <sys/types.h>

#include <weft/pool.h>
#include <weft/sync.h>

WEFT_BEGIN_DECLS

/* --- timers --------------------------------------------------------------------------------- */

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
    /* At first only; weft_timer_refresh restarts the period as a delay. */
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
 * callback).
 *
 * Returns true if the timer was pending; that firing is cancelled.
 * Context: any thread; does not wait. */
WEFT_API bool weft_timer_set(weft_timer *timer, int64_t deadline);
/* Set a timer that has a period: it fires at `first` and then, unless `repeat` is
 * WEFT_TIMER_ONCE, every period_ns > 0.
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

/* Restart the delay or the period from now. For timers set by weft_timer_set_every.
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

/* --- idle groups ---------------------------------------------------------------------------- */

/* Idle groups: find which of very many members have been idle for a period, e.g. 100,000
 * connections and 60 seconds.
 *
 * A touch is one store, without a lock, a clock read or a timer; a member costs one check per
 * period, however often it is touched. Members that were idle for a whole period are reported as
 * one batch: never early, and at most one precision step late (plus the delay of the pool's
 * timers).
 *
 * - The group and its members live in the caller's memory and must not move while in use. Every
 *   call may be made from any thread, fiber or callback, except init and deinit, which no other
 *   call may race.
 * - A member belongs to the group from weft_idle_add until either weft_idle_remove returns true or
 *   the member is reported in a batch: exactly one of the two happens, and the code that gets the
 *   member may free it or add it again.
 * - If several threads touch one member at the same time, the touch that began first may win: a
 *   touch counts from the moment its call began.
 */

typedef struct weft_idle_member {
    /* private */
    uint64_t weft_seen;
    struct weft_idle_member *weft_next;
    uint64_t weft_private[2];
} weft_idle_member;

typedef struct weft_idle_group {
    /* private */
    uint64_t weft_step;
    uint64_t weft_private[42];
} weft_idle_group;

struct weft_idle_opts {
    const char *name;  /* for dumps and reports; borrowed; default none */
    weft_pool *pool;   /* runs the checks; default: the calling fiber's; required elsewhere */
    int64_t period_ns; /* default 60 s; WEFT_FOREVER: members never become idle */
    /* At most the period, at least 1/65536 of it. Default 1 s, within these limits. */
    int64_t precision_ns;
    /* Receives each batch, linked by weft_idle_next, on a worker of the pool like a timer callback:
     * it must not wait. Default: batches are kept until weft_idle_wait. */
    void (*on_idle)(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg);
    void *arg;
};

/* Initialise a group in the caller's memory.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit). A plain thread must set
 * opts->pool, otherwise the program stops.
 * Returns 0; -EINVAL for a bad period or precision; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_idle_init(weft_idle_group *group, const struct weft_idle_opts *opts);
/* End a group. The group must have no members, no batch that was not taken, and no waiter in
 * weft_idle_wait; otherwise the program stops.
 * Context: any thread, but not inside on_idle; waits for a running on_idle; not a cancellation
 * point. */
WEFT_API void weft_idle_deinit(weft_idle_group *group);

/* Add a member, which must not be in any group. Counts as a touch.
 * Context: any thread; does not wait. */
WEFT_API void weft_idle_add(weft_idle_group *group, weft_idle_member *member);
/* Remove a member.
 * Returns true if the member was removed and was not in a batch; false if it was reported in a
 * batch or was never added.
 * Context: any thread; does not wait. */
WEFT_API bool weft_idle_remove(weft_idle_group *group, weft_idle_member *member);

/* Record activity of a member, whose memory must outlive every touch. A touch does not bring back a
 * member that was already reported.
 * Context: any thread; does not wait. */
static inline void weft_idle_touch(weft_idle_group *group, weft_idle_member *member)
{
    uint64_t step = __atomic_load_n(&group->weft_step, __ATOMIC_RELAXED);
    __atomic_store_n(&member->weft_seen, step, __ATOMIC_RELAXED);
}

/* Return the next member of a batch, or NULL after the last. Read it before the member is freed or
 * added again.
 * Context: the owner of the batch; does not wait. */
static inline weft_idle_member *weft_idle_next(const weft_idle_member *member)
{
    return member->weft_next;
}

/* Wait until there is a batch, and take everything reported so far. Only for groups without
 * on_idle, otherwise the program stops.
 * first: receives the first member; the others follow by weft_idle_next.
 * Returns the number of members; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API ssize_t weft_idle_wait(weft_idle_group *group, weft_idle_member **first, int64_t deadline);

/* Count the members that were not taken in a batch yet.
 * Returns the number, which may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_idle_count(weft_idle_group *group);

WEFT_END_DECLS
#endif
