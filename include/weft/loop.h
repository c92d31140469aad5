/* A callback event loop: a driver and a timer wheel for programs that use no fibers.
 *
 *     weft_loop *loop;
 *     weft_loop_create(&loop, NULL);
 *     weft_watch_add(&watch, loop, fd, WEFT_READABLE, on_ready, NULL);   // weft/reactor.h
 *     weft_op_recv(&op, fd, buf, sizeof buf, 0);                         // weft/proactor.h
 *     weft_loop_run(loop);
 *
 * A loop is used by one thread at a time; only stop and post may be called by any thread, at any
 * time before destroy. weft_loop_turn and weft_loop_run invoke all callbacks; a callback never runs
 * inside the call that requested it. Callbacks may use every call here except these two and
 * destroy.
 *
 * A *turn* invokes, in this order: due timers (up to 256), functions posted before the turn, ready
 * watches, completed operations. Each watch and each operation is invoked once per turn, and work
 * started by a callback belongs to the next turn: so nothing that is ready waits for more than one
 * turn, whatever other callbacks do.
 *
 * A descriptor that a loop uses is closed with weft_loop_close, or by another thread with
 * weft_close. A descriptor belongs to one loop, or to the fibers of pools, until it is closed or
 * released (weft_fd_release); using it elsewhere fails with -EBUSY.
 *
 * A forked child must not use its parent's loops.
 */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_loop weft_loop;

struct weft_loop_opts {
    enum weft_driver driver; /* default: WEFT_DRIVER_AUTO */
    int64_t timer_tick_ns;   /* as the option of a pool: up to 1 s; default 65536 */
};

/* Create a loop.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned loop in *out; -EINVAL for a bad option and -EOPNOTSUPP if the driver is
 * not available (weft_last_error says which and why); -EMFILE, -ENFILE, -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_loop_create(weft_loop **out, const struct weft_loop_opts *opts);
/* Destroy a loop. Posted functions that have not run are called now, and watches are removed
 * without a callback. A pending timer or an operation that was not delivered (weft_loop_pending) is
 * a bug of the program. NULL is allowed.
 *
 * Context: the loop's thread, not a callback; waits until the kernel has ended the removed
 * watches. */
WEFT_API void weft_loop_destroy(weft_loop *loop);

/* Get the name of the loop's driver.
 *
 * Returns "epoll", "uring" or "poll", a static string.
 * Context: any thread; does not wait. */
WEFT_API const char *weft_loop_driver(const weft_loop *loop);

/* Run turns until weft_loop_stop.
 *
 * Context: the loop's thread, not a callback; waits. */
WEFT_API void weft_loop_run(weft_loop *loop);
/* Run one turn. The call waits until there is a callback to invoke or a completion to poll for, or
 * until the deadline or a stop. A deadline in the past, such as 0, does not wait.
 *
 * Returns the number of callbacks and completions.
 * Context: the loop's thread, not a callback; waits. */
WEFT_API int weft_loop_turn(weft_loop *loop, int64_t deadline);

/* Stop the loop: weft_loop_run returns after its current turn; if no run is in progress, the next
 * one does. Until then turns do not wait.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_loop_stop(weft_loop *loop);
/* Call fn(arg) on the loop's thread, in its next turn. The posts of one thread are called in order.
 *
 * Returns 0 or -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_loop_post(weft_loop *loop, void (*fn)(void *arg), void *arg);

/* Embed the loop in another event loop: call weft_loop_turn(loop, 0) whenever the descriptor
 * returned by weft_loop_fd is readable, and at the latest at the time returned by
 * weft_loop_next_deadline. Query the time again after each turn and after each call on the loop;
 * the descriptor stays the same and belongs to the loop.
 *
 * Returns the descriptor; or an absolute time (0: now, WEFT_FOREVER: none).
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_loop_fd(const weft_loop *loop);
WEFT_API int64_t weft_loop_next_deadline(weft_loop *loop);

/* Count the watches and the operations that have not been delivered.
 *
 * Returns the sum of both.
 * Context: the loop's thread; does not wait. */
WEFT_API size_t weft_loop_pending(const weft_loop *loop);

/* Close a descriptor. Every operation and every watch on it ends with -EBADFD, delivered in a later
 * turn. The descriptor is closed now, or when the kernel has ended the last operation.
 *
 * Returns 0; -EBADF; -EBUSY if the descriptor belongs to another loop or to a pool; -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_loop_close(weft_loop *loop, int fd);

/* --- timers --------------------------------------------------------------------- */

/* A timer, in the caller's memory. It must not move while it is pending. */
typedef struct weft_loop_timer {
    uint64_t weft_private[10]; /* private */
} weft_loop_timer;

typedef void (*weft_loop_timer_fn)(weft_loop_timer *timer, void *arg);

/* Initialise a timer. A timer never fires early; it may be late by one tick plus the time the loop
 * is busy with other callbacks. The callback may set the timer again, or free it.
 *
 * Context: the loop's thread; does not wait. */
WEFT_API void weft_loop_timer_init(weft_loop_timer *timer, weft_loop *loop, weft_loop_timer_fn fn,
                                   void *arg);
/* Set the timer, or change its deadline.
 *
 * Returns true if the timer was pending.
 * Context: the loop's thread; does not wait. */
WEFT_API bool weft_loop_timer_set(weft_loop_timer *timer, int64_t deadline);
/* Cancel the timer.
 *
 * Returns true if it was pending: its callback will not be called.
 * Context: the loop's thread; does not wait. */
WEFT_API bool weft_loop_timer_cancel(weft_loop_timer *timer);

WEFT_END_DECLS
#endif
