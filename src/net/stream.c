/* Reading and writing descriptors of any kind. */
#include <errno.h>
#include <limits.h>

#include <weft/io.h>

#include "io/fd.h"
#include "net/call.h"

static const struct weft__wait_kind read_kind = {.name = "read", .label = weft__call_label};
static const struct weft__wait_kind write_kind = {.name = "write", .label = weft__call_label};
static const struct weft__wait_kind ready_kind = {.name = "readiness", .label = weft__call_label};

/* Sockets are called so that they neither block nor raise signals, whatever their mode. */
static inline ssize_t transfer(int fd, void *buf, size_t n, enum weft__side side, int64_t deadline,
                               const struct weft__wait_kind *kind)
{
    int err = 0;
    struct iovec iov;
    struct weft__call call;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (__builtin_expect(!record, 0)) {
        return err;
    }
    if (weft__fd_is(record, WEFT__FD_SOCKET)) {
        weft__op_init(&call.op, fd, side == WEFT__SIDE_IN ? WEFT__OP_RECV : WEFT__OP_SEND, side);
        call.op.buf = buf;
        call.op.len = n;
    } else {
        weft__op_init(&call.op, fd, side == WEFT__SIDE_IN ? WEFT__OP_READ : WEFT__OP_WRITE, side);
        iov = (struct iovec){.iov_base = buf, .iov_len = n};
        call.op.iov = &iov;
        call.op.iov_count = 1;
    }
    return weft__call_run_on(record, &call, deadline, kind);
}

ssize_t weft_read(int fd, void *buf, size_t n, int64_t deadline)
{
    return transfer(fd, buf, n, WEFT__SIDE_IN, deadline, &read_kind);
}

ssize_t weft_write(int fd, const void *buf, size_t n, int64_t deadline)
{
    return transfer(fd, (void *)(uintptr_t)buf, n, WEFT__SIDE_OUT, deadline, &write_kind);
}

static ssize_t vector(int fd, const struct iovec *iov, int count, enum weft__side side,
                      int64_t deadline)
{
    int err = 0;
    struct weft__call call;
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)count};
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record || count < 0 || count > IOV_MAX) {
        return record ? -EINVAL : err;
    }
    if (weft__fd_is(record, WEFT__FD_SOCKET)) {
        weft__op_init(&call.op, fd, side == WEFT__SIDE_IN ? WEFT__OP_RECVMSG : WEFT__OP_SENDMSG,
                      side);
        call.op.msg = &msg;
    } else {
        weft__op_init(&call.op, fd, side == WEFT__SIDE_IN ? WEFT__OP_READ : WEFT__OP_WRITE, side);
        call.op.iov = iov;
        call.op.iov_count = count;
    }
    return weft__call_run_on(record, &call, deadline,
                             side == WEFT__SIDE_IN ? &read_kind : &write_kind);
}

ssize_t weft_readv(int fd, const struct iovec *iov, int count, int64_t deadline)
{
    return vector(fd, iov, count, WEFT__SIDE_IN, deadline);
}

ssize_t weft_writev(int fd, const struct iovec *iov, int count, int64_t deadline)
{
    return vector(fd, iov, count, WEFT__SIDE_OUT, deadline);
}

int weft_read_full(int fd, void *buf, size_t n, size_t *done, int64_t deadline)
{
    size_t have = 0;
    ssize_t got = 0;
    while (have < n && (got = weft_read(fd, (char *)buf + have, n - have, deadline)) > 0) {
        have += (size_t)got;
    }
    if (done) {
        *done = have;
    }
    return have == n ? 0 : got == 0 ? -ENODATA : (int)got;
}

int weft_write_all(int fd, const void *buf, size_t n, size_t *done, int64_t deadline)
{
    size_t have = 0;
    ssize_t put = 0;
    while (have < n && (put = weft_write(fd, (const char *)buf + have, n - have, deadline)) >= 0) {
        have += (size_t)put;
    }
    if (done) {
        *done = have;
    }
    return have == n ? 0 : (int)put;
}

int weft_fd_wait(int fd, int events, int64_t deadline)
{
    if (events != WEFT_READABLE && events != WEFT_WRITABLE) {
        return -EINVAL;
    }
    enum weft__side side = events == WEFT_READABLE ? WEFT__SIDE_IN : WEFT__SIDE_OUT;
    int err = weft__call_wait(fd, side, deadline, &ready_kind);
    return err ? err : events;
}
