/* read, write and their variants, for descriptors of any kind.
 *
 * Sockets: hook/socket.h. Disk files: data in the page cache is read at once (RWF_NOWAIT), other
 * data on a thread of the blocking pool; pwrite likewise, while write and the vectored calls are
 * the real calls. Everything else, such as pipes and terminals: RWF_NOWAIT, and where the kernel
 * does not support it, poll first and then the real call. Their mode is not changed, because others
 * share them: the child at the other end, or stdio, which would lose data that it could not write.
 * A single write to any other device stays a single write.
 */
#include <errno.h>
#include <limits.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"
#include "hook/socket.h"
#include "hook/wait.h"

#define TERMINAL_BYTES 256 /* a terminal that reports to be writable accepts this many */

/* --- files ------------------------------------------------------------------------------------ */

struct file_job {
    int fd;
    bool write;
    char *buf;
    size_t n;
    off_t offset; /* -1: the current file offset */
    ssize_t result;
};

static void file_plain(void *arg)
{
    struct file_job *job = arg;
    if (job->write) {
        job->result = weft__real()->pwrite(job->fd, job->buf, job->n, job->offset);
    } else if (job->offset < 0) {
        job->result = weft__real()->read(job->fd, job->buf, job->n);
    } else {
        job->result = weft__real()->pread(job->fd, job->buf, job->n, job->offset);
    }
}

static ssize_t file_move_blocking(struct file_job *job)
{
    bool use_real;
    if (weft__hook_run_blocking(file_plain, job, &use_real)) {
        return job->result;
    }
    if (!use_real) {
        return -1;
    }
    file_plain(job);
    return job->result;
}

/* The number may have been closed without the hooks and reused since. */
static bool is_still_file(int fd)
{
    weft__hook_fd_verify(fd);
    return (weft__hook_fd_flags(fd) & WEFT__HOOK_KIND) == WEFT__HOOK_FILE;
}

static ssize_t read_as_new_kind(struct file_job *job)
{
    if (job->offset < 0) {
        return read(job->fd, job->buf, job->n);
    }
    file_plain(job);
    return job->result;
}

/* A file returns a short count only at its end: the part that could not be transferred at once is
 * transferred as well. */
static ssize_t file_move(struct file_job *job)
{
    const struct iovec iov = {.iov_base = job->buf, .iov_len = job->n};
    ssize_t n = job->write ? pwritev2(job->fd, &iov, 1, job->offset, RWF_NOWAIT)
                           : preadv2(job->fd, &iov, 1, job->offset, RWF_NOWAIT);
    bool slow = n < 0 && (errno == EOPNOTSUPP || errno == EAGAIN);
    if (slow && !is_still_file(job->fd)) {
        return read_as_new_kind(job);
    }
    if (n < 0 && errno == EOPNOTSUPP) {
        file_plain(job);
        return job->result;
    }
    if ((n < 0 && errno != EAGAIN) || n == 0 || (size_t)n == job->n) {
        return n;
    }
    size_t done = n > 0 ? (size_t)n : 0;
    job->buf += done;
    job->n -= done;
    job->offset += job->offset < 0 ? 0 : (off_t)done;
    n = file_move_blocking(job);
    if (n < 0 && done > 0) {
        weft__hook_keep_interrupt(-errno); /* a file returns no EINTR of its own */
    }
    if (n < 0) {
        return done > 0 ? (ssize_t)done : -1;
    }
    return (ssize_t)done + n;
}

static ssize_t file_read(int fd, void *buf, size_t n, off_t offset)
{
    struct file_job job = {.fd = fd, .buf = buf, .n = n, .offset = offset};
    return file_move(&job);
}

static ssize_t file_write(int fd, const void *buf, size_t n, off_t offset)
{
    struct file_job job = {
        .fd = fd, .write = true, .buf = (char *)(uintptr_t)buf, .n = n, .offset = offset};
    return file_move(&job);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* Would a real call not block now? */
static bool is_ready(int fd, short events)
{
    struct pollfd pfd = {.fd = fd, .events = events};
    return weft__real()->poll(&pfd, 1, 0) != 0;
}

static ssize_t stream_read(int fd, const struct iovec *iov, int count)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLIN};
    for (;;) {
        ssize_t got = preadv2(fd, iov, count, -1, RWF_NOWAIT);
        bool unknown = got < 0 && (errno == EOPNOTSUPP || errno == ESPIPE);
        if (got >= 0 || (!unknown && errno != EAGAIN && errno != EINTR)) {
            return got;
        }
        if (unknown && (weft__hook_fd_is_nonblocking(fd) || is_ready(fd, POLLIN))) {
            return weft__real()->readv(fd, iov, count);
        }
        if (!unknown && errno == EINTR) {
            continue;
        }
        enum weft__hook_next next = weft__hook_io_wait(&io);
        if (next != WEFT__HOOK_AGAIN) {
            return next == WEFT__HOOK_USE_REAL ? weft__real()->readv(fd, iov, count) : -1;
        }
    }
}

/* One write of the first buffer of `iov`. With `without_nowait` the kernel does not support
 * RWF_NOWAIT here: write no more than a writable descriptor accepts without blocking. */
static ssize_t stream_put(int fd, const struct iovec *iov, bool without_nowait, bool fifo)
{
    struct iovec part = *iov;
    if (!without_nowait) {
        return pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
    }
    size_t most = fifo ? PIPE_BUF : TERMINAL_BYTES;
    part.iov_len = part.iov_len < most ? part.iov_len : most;
    return weft__real()->writev(fd, &part, 1);
}

/* Write all bytes of one buffer. */
static ssize_t stream_write_one(struct weft__hook_io *io, const char *buf, size_t n, bool fifo)
{
    size_t done = 0;
    bool without_nowait = false;
    while (done < n) {
        struct iovec rest = {.iov_base = (void *)(uintptr_t)(buf + done), .iov_len = n - done};
        bool wait = without_nowait && !is_ready(io->fd, POLLOUT);
        ssize_t put = wait ? -1 : stream_put(io->fd, &rest, without_nowait, fifo);
        if (put >= 0) {
            done += (size_t)put;
            if (put == 0) {
                break;
            }
            continue;
        }
        if (!wait && errno == EINTR) {
            continue;
        }
        if (!wait && !without_nowait && (errno == EOPNOTSUPP || errno == ESPIPE)) {
            without_nowait = true;
            if (weft__hook_fd_is_nonblocking(io->fd)) {
                return weft__real()->write(io->fd, buf, n);
            }
            continue;
        }
        if (!wait && errno != EAGAIN) {
            return done ? (ssize_t)done : -1;
        }
        enum weft__hook_next next = weft__hook_io_wait(io);
        if (next == WEFT__HOOK_USE_REAL) {
            put = weft__real()->write(io->fd, buf + done, n - done);
            return put < 0 && done == 0 ? -1 : (ssize_t)done + (put > 0 ? put : 0);
        }
        if (next == WEFT__HOOK_FAILED) {
            return done ? weft__hook_io_finish(io, done) : -1;
        }
    }
    return (ssize_t)done;
}

/* Write with one call, if possible: a small write into a pipe is not split. Returns the number of
 * bytes written; -EOPNOTSUPP: it can only be written in pieces. */
static ssize_t stream_write_whole(struct weft__hook_io *io, const struct iovec *iov, int count)
{
    for (;;) {
        ssize_t put = pwritev2(io->fd, iov, count, -1, RWF_NOWAIT);
        if (put >= 0) {
            return put;
        }
        if (errno == EOPNOTSUPP || errno == ESPIPE) {
            return -EOPNOTSUPP;
        }
        if (errno == EINTR) {
            continue;
        }
        enum weft__hook_next next = errno == EAGAIN ? weft__hook_io_wait(io) : WEFT__HOOK_FAILED;
        if (next == WEFT__HOOK_FAILED) {
            return -1;
        }
        if (next == WEFT__HOOK_USE_REAL) {
            return weft__real()->writev(io->fd, iov, count);
        }
    }
}

/* Neither a pipe nor a terminal: a packet, or a record of a log, must not be split. */
static ssize_t device_write(struct weft__hook_io *io, const struct iovec *iov, int count)
{
    enum weft__hook_next next = WEFT__HOOK_AGAIN;
    while (next == WEFT__HOOK_AGAIN && !is_ready(io->fd, POLLOUT) && weft__hook_io_can_block(io)) {
        next = weft__hook_io_wait(io);
    }
    return next == WEFT__HOOK_FAILED ? -1 : weft__real()->writev(io->fd, iov, count);
}

static ssize_t stream_write(int fd, const struct iovec *iov, int count, bool fifo)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLOUT};
    size_t all = weft__hook_iov_length(iov, (size_t)count);
    ssize_t put = stream_write_whole(&io, iov, count);
    if (put == -EOPNOTSUPP && !fifo && !isatty(fd)) {
        return device_write(&io, iov, count);
    }
    size_t done = put > 0 ? (size_t)put : 0;
    if (put == -1 || done == all || (done > 0 && weft__hook_fd_is_nonblocking(fd))) {
        return put;
    }
    while (done < all) {
        struct weft__hook_iov_position at = weft__hook_iov_position(iov, (size_t)count, done);
        size_t n = iov[at.index].iov_len - at.offset;
        put = stream_write_one(&io, (const char *)iov[at.index].iov_base + at.offset, n, fifo);
        done += put > 0 ? (size_t)put : 0;
        if (put < 0 || (size_t)put < n) {
            break;
        }
    }
    return done > 0 || put >= 0 ? weft__hook_io_finish(&io, done) : -1;
}

/* --- the interposed functions ----------------------------------------------------------------- */

/* If the recorded kind of the descriptor is no longer true, inspect the descriptor again. */
static unsigned reinspect(int fd, unsigned flags, ssize_t result)
{
    bool wrong = result < 0 && errno == ENOTSOCK && (flags & WEFT__HOOK_KIND) == WEFT__HOOK_SOCKET;
    return wrong ? weft__hook_fd_inspect(fd) : 0;
}

WEFT__HOOK ssize_t read(int fd, void *buf, size_t n)
{
    unsigned flags = weft__hook_begin() && n > 0 ? weft__hook_fd_flags(fd) : 0;
    while (flags) {
        struct iovec iov = {.iov_base = buf, .iov_len = n};
        switch (flags & WEFT__HOOK_KIND) {
        case WEFT__HOOK_FILE:
            return file_read(fd, buf, n, -1);
        case WEFT__HOOK_STREAM:
            return stream_read(fd, &iov, 1);
        default:
            break;
        }
        ssize_t got = weft__hook_recv(fd, buf, n, 0, NULL, NULL);
        flags = reinspect(fd, flags, got);
        if (!flags) {
            return got;
        }
    }
    return weft__real()->read(fd, buf, n);
}

WEFT__HOOK ssize_t write(int fd, const void *buf, size_t n)
{
    unsigned flags = weft__hook_begin() ? weft__hook_fd_flags(fd) : 0;
    if ((flags & WEFT__HOOK_KIND) == WEFT__HOOK_SOCKET) {
        ssize_t put = weft__hook_send(fd, buf, n, 0, NULL, 0);
        flags = reinspect(fd, flags, put);
        if (!flags) {
            return put;
        }
    }
    if ((flags & WEFT__HOOK_KIND) == WEFT__HOOK_STREAM && n > 0) {
        struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
        return stream_write(fd, &iov, 1, (flags & WEFT__HOOK_FIFO) != 0);
    }
    return weft__real()->write(fd, buf, n);
}

static bool is_vector(const struct iovec *iov, int count)
{
    return count > 0 && count <= IOV_MAX && weft__hook_iov_length(iov, (size_t)count) > 0;
}

WEFT__HOOK ssize_t readv(int fd, const struct iovec *iov, int count)
{
    unsigned flags = weft__hook_begin() && is_vector(iov, count) ? weft__hook_fd_flags(fd) : 0;
    if ((flags & WEFT__HOOK_KIND) == WEFT__HOOK_SOCKET) {
        struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};
        ssize_t got = weft__hook_recvmsg(fd, &msg, 0);
        flags = reinspect(fd, flags, got);
        if (!flags) {
            return got;
        }
    }
    return (flags & WEFT__HOOK_KIND) == WEFT__HOOK_STREAM ? stream_read(fd, iov, count)
                                                          : weft__real()->readv(fd, iov, count);
}

WEFT__HOOK ssize_t writev(int fd, const struct iovec *iov, int count)
{
    unsigned flags = weft__hook_begin() && is_vector(iov, count) ? weft__hook_fd_flags(fd) : 0;
    if ((flags & WEFT__HOOK_KIND) == WEFT__HOOK_SOCKET) {
        const struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                                   .msg_iovlen = (size_t)count};
        ssize_t put = weft__hook_sendmsg(fd, &msg, 0);
        flags = reinspect(fd, flags, put);
        if (!flags) {
            return put;
        }
    }
    return (flags & WEFT__HOOK_KIND) == WEFT__HOOK_STREAM
               ? stream_write(fd, iov, count, (flags & WEFT__HOOK_FIFO) != 0)
               : weft__real()->writev(fd, iov, count);
}

WEFT__HOOK ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    bool file = weft__hook_begin() && n > 0 && offset >= 0 &&
                (weft__hook_fd_flags(fd) & WEFT__HOOK_KIND) == WEFT__HOOK_FILE;
    return file ? file_read(fd, buf, n, offset) : weft__real()->pread(fd, buf, n, offset);
}

WEFT__HOOK ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    bool file = weft__hook_begin() && n > 0 && offset >= 0 &&
                (weft__hook_fd_flags(fd) & WEFT__HOOK_KIND) == WEFT__HOOK_FILE;
    return file ? file_write(fd, buf, n, offset) : weft__real()->pwrite(fd, buf, n, offset);
}

WEFT__HOOK ssize_t pread64(int fd, void *buf, size_t n, off64_t offset)
{
    return pread(fd, buf, n, offset);
}

WEFT__HOOK ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset)
{
    return pwrite(fd, buf, n, offset);
}

WEFT__HOOK ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
    weft__hook_check_size(n, size);
    return read(fd, buf, n);
}

WEFT__HOOK ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t size);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t size)
{
    weft__hook_check_size(n, size);
    return pread(fd, buf, n, offset);
}

WEFT__HOOK ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t size);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t size)
{
    weft__hook_check_size(n, size);
    return pread(fd, buf, n, offset);
}
