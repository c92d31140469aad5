/* Messages with more than bytes: addresses, control data, descriptors. *Cancellable*. */
#ifndef WEFT_MESSAGE_H
#define WEFT_MESSAGE_H

#include <sys/socket.h>

#include <weft/io.h>

WEFT_BEGIN_DECLS

/* As recvmsg and sendmsg, with the flags of weft_recv and weft_send. Descriptors that arrive in the
 * control data are closed by exec. Note that the kernel fills the control buffer to its last byte,
 * so that one of CMSG_SPACE may receive a descriptor more than was meant; close what is too many.
 * msg_flags says what was cut off. */
WEFT_API ssize_t weft_recvmsg(int fd, struct msghdr *msg, int flags, int64_t deadline);
WEFT_API ssize_t weft_sendmsg(int fd, const struct msghdr *msg, int flags, int64_t deadline);

#define WEFT_FDS_MAX 253 /* descriptors in one message: the kernel's limit */

/* Sends bytes over a Unix socket and with them copies of descriptors, which the caller keeps and
 * may close. Some bytes must go with them: n is at least 1, else -EINVAL. On a stream fewer than n
 * may be sent; the descriptors went with the first. The count of bytes. -EINVAL: count beyond 0 ..
 * WEFT_FDS_MAX. -EBADF: one is none. */
WEFT_API ssize_t weft_send_fds(int fd, const void *buf, size_t n, const int *fds, int count,
                               int64_t deadline);

/* Receives bytes, and up to *count descriptors into fds; then *count is how many came. They are the
 * caller's, and closed by exec. Either all come or none: if more were sent than there is room for
 * (-EMSGSIZE), or this process has run out of descriptors (-EMFILE), those that came are closed,
 * *count is 0, and the bytes are in buf and gone from the socket. */
WEFT_API ssize_t weft_recv_fds(int fd, void *buf, size_t n, int *fds, int *count, int64_t deadline);

WEFT_END_DECLS
#endif
