/* Socket messages that carry more than bytes: addresses, control data, descriptors. The errors are
 * those of weft/io.h and the ones named below. */
#ifndef WEFT_MESSAGE_H
#define WEFT_MESSAGE_H

#include <sys/socket.h>

#include <weft/io.h>

WEFT_BEGIN_DECLS

/* Receive or send one message, as recvmsg(2) and sendmsg(2) do. flags: as for weft_recv and
 * weft_send. Descriptors received in the control data are close-on-exec. The kernel fills the
 * control buffer to its last byte, so a buffer of CMSG_SPACE size may receive one descriptor more
 * than intended; close any extra descriptor. msg_flags tells what was truncated.
 *
 * Returns the number of bytes; -EINVAL for any other flag; -ENOTSOCK; -EMSGSIZE for more than 1024
 * buffers.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_recvmsg(int fd, struct msghdr *msg, int flags, int64_t deadline);
WEFT_API ssize_t weft_sendmsg(int fd, const struct msghdr *msg, int flags, int64_t deadline);

#define WEFT_FDS_MAX 253 /* the kernel's limit for the descriptors in one message */

/* Send bytes over a Unix socket together with copies of descriptors. The descriptors are borrowed:
 * the caller keeps them and may close them after the call. At least one byte must be sent along. A
 * stream may accept fewer than n bytes; the descriptors are then attached to the first byte.
 *
 * Returns the number of bytes sent; -EINVAL if n is 0 or count is not in 0 .. WEFT_FDS_MAX; -EBADF
 * if one of `fds` is not open; -ENOTSOCK.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_send_fds(int fd, const void *buf, size_t n, const int *fds, int count,
                               int64_t deadline);

/* Receive bytes, and up to *count descriptors into `fds`. On success *count is the number of
 * descriptors received; the caller owns them, and they are close-on-exec. Descriptors arrive all or
 * none: if the sender attached more than *count (-EMSGSIZE), or this process has no free
 * descriptors (-EMFILE), those that arrived are closed and *count is 0; the bytes have then been
 * read into `buf` and are gone from the socket.
 *
 * Returns the number of bytes received; -EINVAL if *count is not in 0 .. WEFT_FDS_MAX; -EMSGSIZE,
 * -EMFILE; -ENOTSOCK.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_recv_fds(int fd, void *buf, size_t n, int *fds, int *count, int64_t deadline);

WEFT_END_DECLS
#endif
