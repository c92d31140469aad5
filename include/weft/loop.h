/* A loop: a driver and a timer wheel for a program that has callbacks and no fibers.
 *
 *     weft_loop *loop;
 *     weft_loop_create(&loop, NULL);
 *     weft_watch_add(&watch, loop, fd, WEFT_READABLE, on_ready, NULL);   // weft/reactor.h
 *     weft_op_recv(&op, fd, buf, sizeof buf, 0);                         // weft/proactor.h
 *     weft_loop_run(loop);
 *
 * A loop is used by one thread at a time; only stop and post may be called by any thread, at any
 * time before destroy. All callbacks are called by weft_loop_turn and weft_loop_run, never inside
 * the call that asked for them, and may use everything here but these two and destroy.
 *
 * A *turn* calls, in this order: timers that are due (up to 256), functions posted before it,
 * watches that are ready, operations that have ended. Each watch and each operation once, and what
 * these callbacks start is for the next turn: so nothing that is ready waits for longer than one
 * turn, whatever others do.
 *
 * A descriptor that a loop knows is closed with weft_loop_close, or with weft_close by another
 * thread. It belongs to one loop, or to the fibers of pools, until it was closed or released
 * (weft_fd_release): else -EBUSY.
 *
 * A forked child must not use its parent's loops.
 */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_loop weft_loop;

struct weft_loop_opts {
    enum weft_driver driver; /* default: auto */
    int64_t timer_tick_ns;   /* as of a pool: up to 1 s; default 65536 */
};

/* -EINVAL: bad options; -EOPNOTSUPP: the driver asked for cannot be had here; -EMFILE, -ENFILE,
 * -ENOMEM. */
WEFT_API int weft_loop_create(weft_loop **out, const struct weft_loop_opts *opts);
/* Functions posted and not yet called are called now; watches are removed. Timers that are pending
 * and operations that have not been delivered are a caller's bug (weft_loop_pending). NULL is
 * fine. */
WEFT_API void weft_loop_destroy(weft_loop *loop);

/* "epoll", "uring" or "poll". */
WEFT_API const char *weft_loop_driver(const weft_loop *loop);

/* Turns until stop. */
WEFT_API void weft_loop_run(weft_loop *loop);
/* One turn: waits until there is something to call, or a completion to take, or until the deadline
 * or a stop. How many callbacks and completions there were. A deadline in the past, such as 0, does
 * not wait. */
WEFT_API int weft_loop_turn(weft_loop *loop, int64_t deadline);

/* Any thread: ends weft_loop_run, or the next one if none is going on, after the turn it is in.
 * Until then turns do not wait. */
WEFT_API void weft_loop_stop(weft_loop *loop);
/* Any thread: calls fn(arg) in the loop, in the order of the posts of a thread. -ENOMEM. */
WEFT_API int weft_loop_post(weft_loop *loop, void (*fn)(void *arg), void *arg);

/* For a loop inside another's: a descriptor that becomes readable, and a time, at the earlier of
 * which weft_loop_turn(loop, 0) is to be called again. The time is asked for after each turn and
 * each call; 0: now. The descriptor stays the same. */
WEFT_API int weft_loop_fd(const weft_loop *loop);
WEFT_API int64_t weft_loop_next_deadline(weft_loop *loop);

/* Operations that have not ended, or not been delivered, and watches. */
WEFT_API size_t weft_loop_pending(const weft_loop *loop);

/* Ends every operation and every watch on the descriptor with -EBADFD, each told in a later turn,
 * and closes it: now, or when the kernel has ended the last operation. -EBADF; -EBUSY: it is
 * another's. */
WEFT_API int weft_loop_close(weft_loop *loop, int fd);

/* --- timers --------------------------------------------------------------------- */

/* In the caller's memory; not moved while it is pending. */
typedef struct weft_loop_timer {
    uint64_t weft_private[10]; /* private */
} weft_loop_timer;

typedef void (*weft_loop_timer_fn)(weft_loop_timer *timer, void *arg);

/* Never early; late by a tick and what the loop is busy with. The callback may set the timer again,
 * or free it. */
WEFT_API void weft_loop_timer_init(weft_loop_timer *timer, weft_loop *loop, weft_loop_timer_fn fn,
                                   void *arg);
/* Sets, or sets anew. True: it was pending. */
WEFT_API bool weft_loop_timer_set(weft_loop_timer *timer, int64_t deadline);
/* True: it was pending, and its callback will not be called. */
WEFT_API bool weft_loop_timer_cancel(weft_loop_timer *timer);

WEFT_END_DECLS
#endif
