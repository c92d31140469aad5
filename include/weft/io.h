/* Calls on descriptors that look blocking: a fiber that must wait lets others run meanwhile.
 *
 * Descriptors are plain numbers of the kernel. One that Weft has made (accept, connect, open, pipe
 * ...) is known to it; one that comes from elsewhere is looked at when it is first used. Its mode
 * is never changed: a terminal or a pipe that other processes have too, such as a shell's, still
 * blocks for them. (Where the kernel cannot do that for this kind, Weft opens the same file once
 * more for itself, until weft_close or weft_fd_release.) Close what was used here by weft_close, or
 * take it back with weft_fd_release before handing it on: a number that is closed behind Weft's
 * back and comes again is taken for the old one.
 *
 * Each call takes one absolute deadline and answers a count (or 0), or
 *   -ETIMEDOUT   the deadline came first; a time in the past tries once
 *   -ECANCELED, -EINTR   the fiber was cancelled or interrupted (weft/fiber.h)
 *   -EBADFD      another fiber or thread has closed the descriptor meanwhile
 *   -EOPNOTSUPP  the fiber runs in a compute pool
 * or the errno of the system call. A signal ends none of them, and none raises SIGPIPE: -EPIPE is
 * all there is. Nothing is lost: what was read or written is in the count, however closely a
 * deadline raced. All are *cancellable*: they end by the deadline, plus one look of the worker at
 * its driver; calls on files of a disk are *late* (weft/file.h).
 *
 * A plain thread may call them too, and blocks.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/types.h>
#include <sys/uio.h>

#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* Up to n bytes; 0: the end. */
WEFT_API ssize_t weft_read(int fd, void *buf, size_t n, int64_t deadline);
WEFT_API ssize_t weft_readv(int fd, const struct iovec *iov, int count, int64_t deadline);
/* At least one byte, up to n. */
WEFT_API ssize_t weft_write(int fd, const void *buf, size_t n, int64_t deadline);
WEFT_API ssize_t weft_writev(int fd, const struct iovec *iov, int count, int64_t deadline);

/* All n bytes: 0, or an error, and *done, unless NULL, says how many were read or written before
 * it. If the stream ends before n bytes, weft_read_full answers -ENODATA; *done tells an end
 * between two messages (0) from one within. A peer that reads no more is -EPIPE or -ECONNRESET for
 * weft_write_all. */
WEFT_API int weft_read_full(int fd, void *buf, size_t n, size_t *done, int64_t deadline);
WEFT_API int weft_write_all(int fd, const void *buf, size_t n, size_t *done, int64_t deadline);

/* The same over several buffers, up to 1024; the vector stays as it was. */
WEFT_API int weft_readv_full(int fd, const struct iovec *iov, int count, size_t *done,
                             int64_t deadline);
WEFT_API int weft_writev_all(int fd, const struct iovec *iov, int count, size_t *done,
                             int64_t deadline);

/* weft_read and weft_write of a socket, with flags.
 *   recv: MSG_PEEK leaves what was read; MSG_TRUNC, TCP: throws it away, else: answers a datagram's
 *     whole length
 *   send: MSG_MORE, more follows, a small segment may wait for it (TCP), the datagram is continued
 *     (UDP); MSG_EOR
 * Other flags are -EINVAL: a deadline in the past stands for MSG_DONTWAIT, weft_read_full for
 * MSG_WAITALL. -ENOTSOCK. */
WEFT_API ssize_t weft_recv(int fd, void *buf, size_t n, int flags, int64_t deadline);
WEFT_API ssize_t weft_send(int fd, const void *buf, size_t n, int flags, int64_t deadline);

enum {
    WEFT_READABLE = 1, /* or at its end, or in error */
    WEFT_WRITABLE = 2,
};
/* Waits until the descriptor is ready for `events`, one of these: which it then answers. -EINVAL:
 * neither, or both. A file of a disk always is ready. */
WEFT_API int weft_fd_wait(int fd, int events, int64_t deadline);

/* A pipe: what is written to *out is read from *in. Both are closed by exec and do not block a
 * thread; for the standard descriptors of a child see weft/process.h. -EMFILE, -ENFILE, -ENOMEM. */
WEFT_API int weft_pipe(int *in, int *out);

/* Ends every wait on the descriptor, here and elsewhere, with -EBADFD, and closes it. */
WEFT_API int weft_close(int fd);
/* The same without closing it: Weft forgets the number. -EBADF: it did not know it. */
WEFT_API int weft_fd_release(int fd);

WEFT_END_DECLS
#endif
