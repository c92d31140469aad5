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
#ifndef WEFT_PROACTOR_H
#define WEFT_PROACTOR_H

#include <weft/addr.h>
#include <weft/io.h>
#include <weft/loop.h>

WEFT_BEGIN_DECLS

/* An operation, in the caller's memory. */
typedef struct weft_op {
    uint64_t weft_private[32]; /* private */
} weft_op;

typedef void (*weft_op_fn)(weft_op *op, int64_t result, void *arg);

/* Initialise an operation. fn: the handler; NULL: the caller polls for the completion with
 * weft_loop_poll_completion.
 *
 * Context: the loop's thread; does not wait. */
WEFT_API void weft_op_init(weft_op *op, weft_loop *loop, weft_op_fn fn, void *arg);
/* Get the argument of an operation.
 *
 * Returns the `arg` given to weft_op_init.
 * Context: the loop's thread; does not wait. */
WEFT_API void *weft_op_arg(const weft_op *op);
/* Get the result of the operation's most recent delivery.
 *
 * Returns the value that a handler gets as its `result`.
 * Context: the loop's thread; does not wait. */
WEFT_API int64_t weft_op_result(const weft_op *op);

/* Start a read or a write on any descriptor. offset: the position in a file; -1: the current
 * position, and for every descriptor that is not a file. An operation on a regular file is
 * uninterruptible: a cancel does not end it once it has begun.
 *
 * Returns 0; -EINVAL if offset is less than -1; -EBADF, -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_read(weft_op *op, int fd, void *buf, size_t n, int64_t offset);
WEFT_API int weft_op_write(weft_op *op, int fd, const void *buf, size_t n, int64_t offset);
/* Start a receive from or a send to a socket. flags: as for recv(2) and send(2).
 *
 * Returns 0; -EBADF, -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_op_recv(weft_op *op, int fd, void *buf, size_t n, int flags);
WEFT_API int weft_op_send(weft_op *op, int fd, const void *buf, size_t n, int flags);
/* Start an accept. The result is the new descriptor, non-blocking, close-on-exec and owned by the
 * caller. peer: gets the peer's address at delivery; NULL: not wanted. After a result of -EMFILE,
 * -ENFILE, -ENOBUFS or -ENOMEM, accept again only after a pause (weft/loop.h has timers): the
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
