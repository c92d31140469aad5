/* Calls on descriptors that look blocking: while a fiber waits, its worker runs other fibers.
 *
 * Descriptors are plain kernel descriptors. Those that Weft creates (accept, connect, open, pipe
 * ...) are registered with it; any other descriptor is inspected when it is first used. The mode of
 * a descriptor is never changed by the calls in this header: a terminal or pipe shared with other
 * processes, such as a shell's, still blocks for them. (Where the kernel cannot do that for this
 * kind of descriptor, Weft reopens the same file for itself, until weft_close or weft_fd_release.)
 * Close a descriptor that was used here with weft_close, or call weft_fd_release before handing it
 * to other code: if a descriptor is closed without Weft's knowledge and the kernel reuses its
 * number, Weft takes the new descriptor for the old one.
 *
 * Every call takes one absolute deadline and returns a count (or 0), or
 *   -ETIMEDOUT   the deadline passed; a deadline in the past tries once without waiting
 *   -ECANCELED, -EINTR   the fiber was cancelled or interrupted (weft/fiber.h)
 *   -EBADFD      another fiber or thread closed the descriptor during the call
 *   -EOPNOTSUPP  the fiber runs in a compute pool
 * or the errno of the system call. Signals do not interrupt the calls, and no call raises SIGPIPE:
 * the caller just gets -EPIPE. No data is lost: whatever was read or written is in the count,
 * however close the race with the deadline. Every call that waits is a cancellation point and
 * returns at its deadline, plus the time until the worker next polls its driver; calls on files are
 * uninterruptible (weft/file.h).
 *
 * Plain threads may make these calls too; they block.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* Read up to n bytes.
 *
 * Returns the number of bytes read; 0 at the end of the stream; or an error as above. weft_readv:
 * -EINVAL if count is negative or above 1024.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_read(int fd, void *buf, size_t n, int64_t deadline);
WEFT_API ssize_t weft_readv(int fd, const struct iovec *iov, int count, int64_t deadline);
/* Write at least one and up to n bytes.
 *
 * Returns the number of bytes written; or an error as above; -EPIPE or -ECONNRESET if the peer
 * reads no more. weft_writev: -EINVAL if count is negative or above 1024.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_write(int fd, const void *buf, size_t n, int64_t deadline);
WEFT_API ssize_t weft_writev(int fd, const struct iovec *iov, int count, int64_t deadline);

/* Read or write exactly n bytes. *done, unless NULL, gets the number of bytes transferred, also on
 * an error.
 *
 * Returns 0, or an error as above. weft_read_full returns -ENODATA if the stream ends before n
 * bytes; *done then distinguishes an end between two messages (0) from an end within one.
 * weft_write_all returns -EPIPE or -ECONNRESET if the peer reads no more.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_read_full(int fd, void *buf, size_t n, size_t *done, int64_t deadline);
WEFT_API int weft_write_all(int fd, const void *buf, size_t n, size_t *done, int64_t deadline);

/* Receive from or send to a socket, as weft_read and weft_write do, with flags.
 *   recv: MSG_PEEK leaves the data in the socket; MSG_TRUNC discards the data on TCP, and returns
 *     the full length of a datagram on other sockets
 *   send: MSG_MORE: more data follows, so TCP may hold back a small segment and UDP continues the
 *     datagram; MSG_EOR
 *
 * Returns as weft_read and weft_write; -ENOTSOCK; -EINVAL for any other flag. Use a deadline in the
 * past for MSG_DONTWAIT, and weft_read_full for MSG_WAITALL.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_recv(int fd, void *buf, size_t n, int flags, int64_t deadline);
WEFT_API ssize_t weft_send(int fd, const void *buf, size_t n, int flags, int64_t deadline);

enum {
    WEFT_READABLE = 1, /* readable, at end of file, or in error */
    WEFT_WRITABLE = 2,
};
/* Wait until the descriptor is ready for `events`, which is one of these two. A regular file is
 * always ready.
 *
 * Returns `events`; -EINVAL if `events` is neither or both; or an error as above.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_fd_wait(int fd, int events, int64_t deadline);

/* Create a pipe: data written to *out is read from *in. Both descriptors are close-on-exec and
 * non-blocking; for the standard descriptors of a child process see weft/process.h.
 *
 * Returns 0 and two owned descriptors; -EMFILE, -ENFILE, -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_pipe(int *in, int *out);

/* Close a descriptor. Every wait on it, in any fiber, thread or loop, ends with -EBADFD.
 *
 * Returns 0 or the errno of close(2).
 * Context: a fiber or a plain thread waits, uncancellably, until operations in flight on the
 * descriptor have ended; a callback on a worker does not wait: then the last of these operations
 * closes the descriptor. */
WEFT_API int weft_close(int fd);
/* Unregister a descriptor without closing it: every wait on it ends with -EBADFD, as for
 * weft_close, and Weft forgets the number.
 *
 * Returns 0; -EBADF if the descriptor was not registered.
 * Context: a fiber or a plain thread, not a callback on a worker; may wait, uncancellably, as
 * weft_close does. */
WEFT_API int weft_fd_release(int fd);

/* --- messages with descriptors -------------------------------------------------------------- */

/* Socket messages that carry more than bytes: addresses, control data, descriptors. The errors are
 * those above and the ones named below. */

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

/* --- sendfile and splice -------------------------------------------------------------------- */

/* Copy from descriptor to descriptor inside the kernel, without passing the bytes through user
 * memory.
 *
 * File data that is not in the page cache is read from the disk on the worker's thread, which
 * blocks the other fibers of that worker: use weft/file.h for files that are rarely read. The
 * errors are those above and the ones named below.
 */

/* Send up to n bytes of a file, starting at `offset`, to a socket or pipe. The file position is
 * neither used nor changed. The socket is made non-blocking.
 *
 * Returns the number of bytes sent, from 1 up to 1 MiB per call; 0 if the file ends at `offset`;
 * -EINVAL for a negative offset, or if a descriptor does not support the call, such as a terminal,
 * or the read end of a pipe: use weft_splice.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_sendfile(int fd, int file, int64_t offset, size_t n, int64_t deadline);

/* Send exactly n bytes of a file, however many (also more than 2 GiB), yielding to other fibers in
 * between. *done, unless NULL, gets the number of bytes sent, also on an error.
 *
 * Returns 0; -ENODATA if the file ends first, because it is shorter than expected or was truncated
 * during the call; or an error as weft_sendfile.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_sendfile_all(int fd, int file, int64_t offset, size_t n, size_t *done,
                               int64_t deadline);

/* Move up to n bytes from one descriptor to another, one of which must be a pipe. in_at and out_at
 * are file positions, which the call advances; NULL for pipes and sockets, and to use the file's
 * own position. `more`: more data follows, so TCP may hold back a small segment. Sockets are made
 * non-blocking.
 *
 * Returns the number of bytes moved, at least 1 and as many as both sides allow; 0 at the end of
 * `in`; -EINVAL if neither descriptor is a pipe, or one is a terminal or another device that
 * blocks.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_splice(int in, int64_t *in_at, int out, int64_t *out_at, size_t n, bool more,
                             int64_t deadline);

WEFT_END_DECLS
#endif
