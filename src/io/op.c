#include "io/op.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "io/fd.h"
#include "io/raw_call.h"
#include "io/sigpipe.h"
#include "io/statx.h"

#if !WEFT__LIBC_CALLS
/* Direct system calls, as in io/raw_call.h, under the names of the C library. */
#define recv(fd, buf, len, flags) syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL)
#define send(fd, buf, len, flags) syscall(SYS_sendto, fd, buf, len, flags, NULL, 0)
#define recvmsg(fd, msg, flags) syscall(SYS_recvmsg, fd, msg, flags)
#define sendmsg(fd, msg, flags) syscall(SYS_sendmsg, fd, msg, flags)
#define readv(fd, iov, count) syscall(SYS_readv, fd, iov, count)
#define writev(fd, iov, count) syscall(SYS_writev, fd, iov, count)
#define accept4(fd, addr, len, flags) syscall(SYS_accept4, fd, addr, len, flags)
#define connect(fd, addr, len) syscall(SYS_connect, fd, addr, len)
#endif

/* RWF_NOSIGNAL of Linux 6.18: a write that raises no SIGPIPE. Older headers do not define it. */
#define NOSIGNAL 0x100
/* A fast receiver could occupy one call, and with it the worker, for very long. */
#define SENDFILE_MAX ((size_t)1 << 20)

static ssize_t writev_nosignal(int fd, const struct iovec *iov, int count, int flags)
{
    static _Atomic(bool) unsupported; /* the kernel does not support it */
    if (!atomic_load_explicit(&unsupported, memory_order_relaxed)) {
        ssize_t n = pwritev2(fd, iov, count, -1, NOSIGNAL | flags);
        if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) {
            return n;
        }
        if (!flags) { /* else the other flags may be the unsupported ones */
            atomic_store_explicit(&unsupported, true, memory_order_relaxed);
        }
    }
    struct weft__sigpipe_guard quiet;
    weft__sigpipe_block(&quiet);
    ssize_t n = flags ? pwritev2(fd, iov, count, -1, flags) : writev(fd, iov, count);
    weft__sigpipe_restore(&quiet, n < 0 && errno == EPIPE);
    return n;
}

static ssize_t write_at_position(struct weft__op *op)
{
    const struct weft__fd *record = weft__fd_record(op->fd);
    if (record && weft__fd_is_pipe(record)) {
        return writev_nosignal(op->fd, op->iov, op->iov_count, op->flags);
    }
    return op->flags ? pwritev2(op->fd, op->iov, op->iov_count, -1, op->flags)
                     : writev(op->fd, op->iov, op->iov_count);
}

static ssize_t call_read(const struct weft__op *op)
{
    if (op->flags) {
        return preadv2(op->fd, op->iov, op->iov_count, op->offset, op->flags);
    }
    return op->offset < 0 ? readv(op->fd, op->iov, op->iov_count)
                          : preadv(op->fd, op->iov, op->iov_count, op->offset);
}

static ssize_t call_write(struct weft__op *op)
{
    return op->offset < 0 ? write_at_position(op)
                          : pwritev(op->fd, op->iov, op->iov_count, op->offset);
}

/* The C library has no openat2. Where the kernel, a seccomp filter or an emulator lacks it too,
 * openat serves, unless `resolve` is used. */
static ssize_t call_open(const struct weft__op *op)
{
    ssize_t fd = syscall(SYS_openat2, op->fd, op->path, op->how, sizeof *op->how);
    if (fd < 0 && errno == ENOSYS && op->how->resolve == 0) {
        fd = openat(op->fd, op->path, (int)op->how->flags, (mode_t)op->how->mode);
    }
    return fd;
}

static ssize_t send_file(struct weft__op *op)
{
    off_t at = op->offset;
    struct weft__sigpipe_guard quiet;
    weft__sigpipe_block(&quiet);
    ssize_t n =
        sendfile(op->fd, op->from, &at, op->count < SENDFILE_MAX ? op->count : SENDFILE_MAX);
    weft__sigpipe_restore(&quiet, n < 0 && errno == EPIPE);
    return n;
}

static ssize_t call(struct weft__op *op)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READY:
        return 0;
    case WEFT__OP_READ:
        return call_read(op);
    case WEFT__OP_WRITE:
        return call_write(op);
    case WEFT__OP_OPEN:
        return call_open(op);
    case WEFT__OP_STAT:
        return weft__statx(op->fd, op->path, op->flags, op->mask, op->statx);
    case WEFT__OP_SYNC:
        return op->flags ? fdatasync(op->fd) : fsync(op->fd);
    case WEFT__OP_TRUNCATE:
        return ftruncate(op->fd, op->offset);
    case WEFT__OP_RENAME:
        return renameat2(op->fd, op->path, op->to_fd, op->to, (unsigned)op->flags);
    case WEFT__OP_UNLINK:
        return unlinkat(op->fd, op->path, op->flags);
    case WEFT__OP_MKDIR:
        return mkdirat(op->fd, op->path, op->mask);
    case WEFT__OP_RECV:
        return recv(op->fd, op->buf, op->len, op->flags | MSG_DONTWAIT);
    case WEFT__OP_SEND:
        return send(op->fd, op->buf, op->len, op->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    case WEFT__OP_RECVMSG:
        return recvmsg(op->fd, op->msg, op->flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    case WEFT__OP_SENDMSG:
        return sendmsg(op->fd, op->msg, op->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    case WEFT__OP_ACCEPT:
        return accept4(op->fd, op->addr, op->addr ? &op->addr_len : NULL,
                       SOCK_NONBLOCK | SOCK_CLOEXEC);
    case WEFT__OP_CONNECT:
        return connect(op->fd, op->addr, op->addr_len);
    case WEFT__OP_SENDFILE:
        return send_file(op);
    }
    errno = EINVAL;
    return -1;
}

int64_t weft__op_perform(struct weft__op *op)
{
    ssize_t n;
    do {
        n = call(op);
        /* An interrupted connect continues in the background; a second call would fail with
         * EALREADY. */
        if (n < 0 && errno == EINTR && op->code == WEFT__OP_CONNECT) {
            return -EINPROGRESS;
        }
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

int weft__raw_errno(void)
{
    return -errno;
}

int weft__op_connect_result(int fd)
{
    int err = 0;
    socklen_t len = sizeof err;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 ? -errno : -err;
}
