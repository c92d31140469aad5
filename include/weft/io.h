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

/* Read or write the whole of several buffers, up to 1024. The vector is not modified.
 *
 * Returns as weft_read_full and weft_write_all; -EINVAL if count is negative or above 1024.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_readv_full(int fd, const struct iovec *iov, int count, size_t *done,
                             int64_t deadline);
WEFT_API int weft_writev_all(int fd, const struct iovec *iov, int count, size_t *done,
                             int64_t deadline);

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

WEFT_END_DECLS
#endif
