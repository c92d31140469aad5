/* The Proactor: an operation is started with the caller's buffer, and its end is told.
 *
 * On io_uring the kernel does it; on the other drivers the loop tries it, waits for the descriptor,
 * and tries again. What is told is the same. Operations of one direction on one descriptor are done
 * in the order in which they were started.
 *
 * From start until it is delivered, an operation and its buffer belong to the loop: they are not
 * read, written or freed. It is delivered by its handler, or, if it has none, by weft_op_take.
 * After that it can be started again, or be freed: in the handler, too.
 *
 * Starting never calls the handler, and answers 0, -EBADF or -ENOMEM. The result is what the system
 * call would have answered: a count, 0 at the end, a descriptor, or
 *   -ECANCELED   weft_op_cancel came first: nothing was done
 *   -EBADFD      the descriptor was closed meanwhile
 *   -EBUSY       another loop or a pool uses the descriptor (not told by io_uring)
 * or its errno. Less than asked for may be read or written; -EAGAIN and -EINTR are not seen; -EPIPE
 * comes without a SIGPIPE, of sockets and pipes alike.
 *
 * All calls are the loop's thread's.
 */
#ifndef WEFT_PROACTOR_H
#define WEFT_PROACTOR_H

#include <weft/addr.h>
#include <weft/io.h>
#include <weft/loop.h>

WEFT_BEGIN_DECLS

/* In the caller's memory. */
typedef struct weft_op {
    uint64_t weft_private[32]; /* private */
} weft_op;

typedef void (*weft_op_fn)(weft_op *op, int64_t result, void *arg);

/* fn NULL: it is taken by hand. */
WEFT_API void weft_op_init(weft_op *op, weft_loop *loop, weft_op_fn fn, void *arg);
WEFT_API void *weft_op_arg(const weft_op *op);
/* Of the last time it was delivered. */
WEFT_API int64_t weft_op_result(const weft_op *op);

/* Any descriptor. offset: of a file; -1: where it is, and for all that is no file; -EINVAL: less
 * than that. Files of a disk are *late*: a cancel does not end what was begun. */
WEFT_API int weft_op_read(weft_op *op, int fd, void *buf, size_t n, int64_t offset);
WEFT_API int weft_op_write(weft_op *op, int fd, const void *buf, size_t n, int64_t offset);
/* Sockets. flags: of recv(2) and send(2). */
WEFT_API int weft_op_recv(weft_op *op, int fd, void *buf, size_t n, int flags);
WEFT_API int weft_op_send(weft_op *op, int fd, const void *buf, size_t n, int flags);
/* The result is the new descriptor, non-blocking and closed by exec. peer: filled in with it, or
 * NULL. After -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM accept again a while later (weft/loop.h has
 * timers): the connection still waits, and so would the error. */
WEFT_API int weft_op_accept(weft_op *op, int fd, struct weft_addr *peer);
/* Of a socket that the caller has made (weft_op_socket). The address is borrowed until delivery. */
WEFT_API int weft_op_connect(weft_op *op, int fd, const struct weft_addr *addr);
/* WEFT_READABLE or WEFT_WRITABLE; the result is that. -EINVAL: neither or both. */
WEFT_API int weft_op_ready(weft_op *op, int fd, int events);

/* A stream socket for an address: what connect wants. The descriptor, or a negative errno. */
WEFT_API int weft_op_socket(const struct weft_addr *addr);

/* Asks for the end of an operation; what it came to is told as always, and may be its success. 0;
 * -EALREADY: it has ended, and will be delivered; -ENOENT: it is not under way. */
WEFT_API int weft_op_cancel(weft_op *op);

/* The next operation without a handler that has ended, or NULL; does not wait: weft_loop_turn
 * does. */
WEFT_API weft_op *weft_op_take(weft_loop *loop);

WEFT_END_DECLS
#endif
