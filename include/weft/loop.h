/* Callback event loops, no fibers needed: a reactor and a proactor, stand-alone or embedded in
 * another loop. */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include <weft/io.h>
#include <weft/net.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* --- loop ----------------------------------------------------------------------------------- */

/* A callback event loop: a driver and a timer wheel for programs that use no fibers.
 *
 *     weft_loop *loop;
 *     weft_loop_create(&loop, NULL);
 *     weft_watch_add(loop, &watch, fd, WEFT_READABLE, on_ready, NULL);
 *     weft_op_read(&op, fd, buf, sizeof buf, -1, 0);
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
WEFT_API int weft_loop_post(weft_loop *loop, weft_void_fn fn, void *arg);

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

/* --- reactor -------------------------------------------------------------------------------- */

/* The reactor: call a function while a descriptor is ready.
 *
 * On a loop (weft_watch_*) the callback runs on the loop's thread and must not wait. On a pool
 * (weft_pool_watch_*, at the end) it runs in a fiber and may wait. The following is about loops.
 *
 * Watches are level-triggered with every driver: as long as the descriptor is ready for an event
 * that the watch wants, the callback is called once in every turn of the loop. The
 * callback need not read or write everything that is available.
 *
 * A callback may remove, cancel or modify any watch, including its own, and close any descriptor: a
 * removed watch is not called again, even if it was found ready in the same turn, and a new watch
 * is not called for the readiness of a closed descriptor that had the same number.
 */

typedef struct weft_watch
    weft_watch; /* owned by the loop: valid from add until remove or the last callback */

/* The callback of a watch. `events`: those of WEFT_READABLE and WEFT_WRITABLE that the watch wants
 * and the descriptor is ready for (end of file and errors count as both); or the reason why the
 * watch has ended, which makes this its last call:
 *   -ECANCELED   weft_watch_cancel, weft_watch_cancel_all
 *   -EBADFD      the descriptor was closed; a paused watch learns of a close by another thread only
 *                when it is modified
 * or another error of waiting for readiness (-ENOMEM, -ENOSPC). */
typedef void (*weft_watch_fn)(weft_watch *watch, int fd, int events, void *arg);

/* Add a watch. A descriptor may have several. events: WEFT_READABLE, WEFT_WRITABLE or both.
 *
 * Returns 0 and the watch in *out; -EINVAL for no events or other ones; -EBADF; -EPERM for files
 * and directories, which have no readiness; -EBUSY if another loop or a pool uses the descriptor;
 * -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_add(weft_loop *loop, weft_watch **out, int fd, int events, weft_watch_fn fn,
                            void *arg);
/* Change the events that a watch wants. With no events the watch is paused.
 *
 * Returns 0; -EINVAL for other events; -ENOENT if the watch has ended (its last call is due or
 * running).
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_modify(weft_watch *watch, int events);
/* Remove a watch without a last call.
 *
 * Returns 0; -ENOENT if its last call is running.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_remove(weft_watch *watch);
/* Cancel a watch: its callback is called a last time, with -ECANCELED, in a later turn.
 *
 * Returns 0; -ENOENT if the watch has ended (its last call is due or running).
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_cancel(weft_watch *watch);
/* Cancel all watches on a descriptor, or with fd -1 all watches of the loop.
 *
 * Returns the number of watches that were cancelled; -ENOENT if there was none.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_cancel_all(weft_loop *loop, int fd);

/* --- watches on a pool --------------------------------------------------------------------------
 *
 * A watch on a pool calls a function in a fiber of that pool whenever a descriptor is ready. The
 * pool, the descriptor and the event name the watch: there is at most one watch for the three.
 *
 * Readiness is a level. The callback is called again as long as the descriptor is ready, never
 * twice at once for the same watch; other fibers of the pool run in between. A callback that wants
 * one event only removes its watch.
 *
 * A watch is a waiting fiber. A draining stop of the pool waits for it; a cancelling stop ends it
 * with -ECANCELED.
 */

/* The callback of a watch on a pool. `event` is the event of the watch, or a negative errno that
 * says why the watch has ended: this is then the last call.
 *   -ECANCELED   weft_pool_watch_cancel, weft_pool_watch_cancel_all, or a stop of the pool
 *   -EBADFD      the descriptor was closed or released
 * Other errors are those of weft_fd_wait. */
typedef void (*weft_pool_watch_fn)(int fd, int event, void *arg);

/* Call fn(fd, event, arg) in a fiber of the pool while the descriptor is ready for `event`,
 * WEFT_READABLE or WEFT_WRITABLE.
 *
 * Returns 0; -EEXIST if the pool has a watch for this event of the descriptor; -EINVAL if `event`
 * is neither or both, or the pool belongs to a dispatcher; -EBADF; -EPERM for files and
 * directories, which have no readiness; -EOPNOTSUPP for a compute pool; -ENOMEM, -EAGAIN,
 * -ESHUTDOWN as weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_add(weft_pool *pool, int fd, int event, weft_pool_watch_fn fn,
                                 void *arg);
/* Remove a watch without a last call.
 *
 * Returns 0 if the callback is not running and will not be called again; -EINPROGRESS if the
 * callback is running (perhaps as the caller) and will not be called again after that; -ENOENT if
 * there is no such watch, or it has ended already.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_remove(weft_pool *pool, int fd, int event);
/* Cancel a watch: the callback is called a last time, with -ECANCELED.
 *
 * Returns 0; -ENOENT if there is no such watch, or it has ended already.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_cancel(weft_pool *pool, int fd, int event);
/* Cancel both watches of a descriptor, or with fd -1 all watches of the pool, as
 * weft_pool_watch_cancel does.
 *
 * Returns the number of watches that were cancelled; -ENOENT if there was none.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_cancel_all(weft_pool *pool, int fd);

/* --- proactor ------------------------------------------------------------------------------- */

/* The proactor: start an operation with the caller's buffer; the loop reports its completion.
 *
 * With io_uring the kernel performs the operation; with the other drivers the loop tries it, waits
 * for readiness, and tries again. The reported results are the same. Operations of one direction on
 * one descriptor are performed in the order in which they were started.
 *
 * From its start until it is delivered, an operation and its buffer belong to the loop: the caller
 * must not read, write or free them. The operation is delivered by calling its handler or, if it
 * has none, by weft_loop_poll_completion. After that it may be started again or freed, also inside
 * the handler.
 *
 * Starting an operation never calls the handler. Every start returns 0, -EBADF or -ENOMEM; starting
 * an operation that was not delivered yet is a bug of the program. The result of an operation is
 * that of the system call: a count, 0 at end of file, a descriptor; or
 *   -ECANCELED   weft_op_cancel took effect: nothing was done
 *   -EBADFD      the descriptor was closed before the operation completed
 *   -EBUSY       another loop or a pool uses the descriptor (io_uring does not report this)
 * or its errno. A read or write may transfer less than requested; -EAGAIN and -EINTR never occur;
 * -EPIPE comes without SIGPIPE, on sockets and pipes alike.
 */

/* An operation, in the caller's memory. */
typedef struct weft_op {
    int64_t result; /* of the most recent delivery: the value that a handler gets */
    void *arg;      /* the `arg` of weft_op_init */
    /* private */
    uint64_t weft_private[32];
} weft_op;

typedef void (*weft_op_fn)(weft_op *op, int64_t result, void *arg);

/* Initialise an operation. fn: the handler; NULL: the caller polls for the completion with
 * weft_loop_poll_completion.
 *
 * Context: the loop's thread; does not wait. */
WEFT_API void weft_op_init(weft_op *op, weft_loop *loop, weft_op_fn fn, void *arg);

/* Start a read or a write on any descriptor. offset: the position in a file; -1: the current
 * position, and for every descriptor that is not a file. flags: for a socket, as for recv(2) and
 * send(2); 0 for anything else. An operation on a regular file is uninterruptible: a cancel does
 * not end it once it has begun.
 *
 * Returns 0; -EINVAL if offset is less than -1, or for flags without a socket; -ESPIPE for an
 * offset with a socket; -EBADF, -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_read(weft_op *op, int fd, void *buf, size_t n, int64_t offset, int flags);
WEFT_API int weft_op_write(weft_op *op, int fd, const void *buf, size_t n, int64_t offset,
                           int flags);
/* Start an accept. The result is the new descriptor, non-blocking, close-on-exec and owned by the
 * caller. peer: gets the peer's address at delivery; NULL: not wanted. After a result of -EMFILE,
 * -ENFILE, -ENOBUFS or -ENOMEM, accept again only after a pause (weft_loop_timer_set): the
 * connection still waits in the backlog, and the error would repeat at once.
 *
 * Returns 0; -EBADF, -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_accept(weft_op *op, int fd, struct weft_addr *peer);
/* Start connecting a socket that the caller has created (weft_op_socket). The address is borrowed
 * until delivery.
 *
 * Returns 0; -EBADF, -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_connect(weft_op *op, int fd, const struct weft_addr *addr);
/* Start waiting until a descriptor is ready. events: WEFT_READABLE or WEFT_WRITABLE, which is also
 * the result.
 *
 * Returns 0; -EINVAL if `events` is neither or both; -EBADF, -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_poll(weft_op *op, int fd, int events);

/* Create a stream socket of the address's family, for weft_op_connect.
 *
 * Returns an owned descriptor, non-blocking and close-on-exec; or a negative errno.
 * Context: any thread; does not wait. */
WEFT_API int weft_op_socket(const struct weft_addr *addr);

/* Request the cancellation of an operation. The outcome is delivered as usual, and may still be a
 * success.
 *
 * Returns 0; -EALREADY if the operation has completed and will be delivered; -ENOENT if the
 * operation is not in progress.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_cancel(weft_op *op);

/* Poll for a completion: take the next completed operation that has no handler.
 *
 * Returns the operation, delivered to the caller; NULL if there is none. Use weft_loop_turn to
 * wait.
 * Context: the loop's thread; does not wait. */
WEFT_API weft_op *weft_loop_poll_completion(weft_loop *loop);

WEFT_END_DECLS
#endif
