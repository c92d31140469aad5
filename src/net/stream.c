/* Reading and writing descriptors of any kind. */
#include <errno.h>
#include <limits.h>

#include <weft/io.h>

#include "io/fd.h"
#include "net/call.h"
#include "net/late.h"
#include "net/message.h"

static const struct weft__wait_kind read_kind = {.name = "read", .label = weft__call_label};
static const struct weft__wait_kind write_kind = {.name = "write", .label = weft__call_label};
static const struct weft__wait_kind ready_kind = {.name = "readiness", .label = weft__call_label};

/* Waits for an edge after `edges`, then tries; as run_by_readiness in net/call.c, without an operation. */
static __attribute__((noinline)) ssize_t wait_and_try(struct weft__fd *record, void *buf, size_t n,
                                                      enum weft__side dir, uint32_t generation,
                                                      uint32_t edges, int64_t deadline,
                                                      const struct weft__wait_kind *kind)
{
    struct weft__fd_side *side = &record->side[dir];
    for (;;) {
        int err = weft__call_wait_edge(record, dir, generation, edges, deadline, kind);
        if (__builtin_expect(
                (err && err != -ETIMEDOUT) || weft__fd_generation(record) != generation, 0)) {
            return err ? err : WEFT__CLOSED;
        }
        edges = weft__fd_edges(side);
        ssize_t result = dir == WEFT__SIDE_IN ? weft__op_recv(record->number, buf, n)
                                              : weft__op_send(record->number, buf, n);
        if (result > 0 && (size_t)result < n && weft__fd_runs_dry(record)) {
            weft__fd_note_empty(side, edges);
        }
        if (__builtin_expect(result != -EAGAIN, 1)) {
            return result;
        }
        weft__fd_note_empty(side, edges);
        if (err) {
            return err; /* past its deadline it was tried all the same */
        }
    }
}

/* What most calls are: a socket, on a driver that reports readiness. */
static inline __attribute__((always_inline)) ssize_t
try_and_wait(struct weft__fd *record, void *buf, size_t n, enum weft__side dir, int64_t deadline,
             const struct weft__wait_kind *kind)
{
    struct weft__fd_side *side = &record->side[dir];
    uint32_t generation = weft__fd_generation(record);
    uint32_t edges = weft__fd_edges(side);
    if (!weft__fd_empty_at(side, edges)) {
        ssize_t result = dir == WEFT__SIDE_IN ? weft__op_recv(record->number, buf, n)
                                              : weft__op_send(record->number, buf, n);
        if (result != (ssize_t)n &&
            (result == -EAGAIN || (result > 0 && weft__fd_runs_dry(record)))) {
            weft__fd_note_empty(side, edges);
        }
        if (__builtin_expect(result != -EAGAIN, 1)) {
            return result;
        }
    }
    return wait_and_try(record, buf, n, dir, generation, edges, deadline, kind);
}

static ssize_t transfer_any(struct weft__fd *record, void *buf, size_t n, enum weft__side side,
                            int64_t deadline, const struct weft__wait_kind *kind)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    struct weft__call call;
    if (weft__fd_is(record, WEFT__FD_SOCKET)) {
        weft__op_init(&call.op, record->number,
                      side == WEFT__SIDE_IN ? WEFT__OP_RECV : WEFT__OP_SEND, side);
        call.op.buf = buf;
        call.op.len = n;
    } else {
        weft__op_init(&call.op, record->number,
                      side == WEFT__SIDE_IN ? WEFT__OP_READ : WEFT__OP_WRITE, side);
        call.op.iov = &iov;
        call.op.iov_count = 1;
        if (weft__fd_is(record, WEFT__FD_FILE)) {
            return weft__late_run(record, &call, deadline, kind);
        }
    }
    return weft__call_run_on(record, &call, deadline, kind);
}

/* Sockets are called so that they neither block nor raise signals, whatever their mode. */
static inline __attribute__((always_inline)) ssize_t transfer(int fd, void *buf, size_t n,
                                                              enum weft__side side,
                                                              int64_t deadline,
                                                              const struct weft__wait_kind *kind)
{
    int err = 0;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (__builtin_expect(!record, 0)) {
        return err;
    }
    struct weft__worker *w = weft__worker_self();
    struct weft__driver *driver = weft__worker_peek_driver(w);
    if (__builtin_expect(driver && weft__current(w) && !driver->kind->completes &&
                             weft__fd_is(record, WEFT__FD_SOCKET),
                         1)) {
        return try_and_wait(record, buf, n, side, deadline, kind);
    }
    return transfer_any(record, buf, n, side, deadline, kind);
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
        if (weft__fd_is(record, WEFT__FD_FILE)) {
            return weft__late_run(record, &call, deadline,
                                  side == WEFT__SIDE_IN ? &read_kind : &write_kind);
        }
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
    while (have < n && (put = transfer(fd, (char *)(uintptr_t)buf + have, n - have, WEFT__SIDE_OUT,
                                       deadline, &write_kind)) >= 0) {
        have += (size_t)put;
    }
    if (done) {
        *done = have;
    }
    return have == n ? 0 : (int)put;
}

/* --- with flags ------------------------------------------------------------------------------- */

static ssize_t transfer_with(int flags, int fd, void *buf, size_t n, enum weft__side side,
                             int64_t deadline)
{
    int err = 0;
    struct weft__call call;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record || !weft__fd_is(record, WEFT__FD_SOCKET)) {
        return record ? -ENOTSOCK : err;
    }
    bool in = side == WEFT__SIDE_IN;
    weft__op_init(&call.op, fd, in ? WEFT__OP_RECV : WEFT__OP_SEND, side);
    call.op.flags = flags;
    call.op.buf = buf;
    call.op.len = n;
    return weft__call_run_on(record, &call, deadline, in ? &read_kind : &write_kind);
}

ssize_t weft_recv(int fd, void *buf, size_t n, int flags, int64_t deadline)
{
    return flags & ~WEFT__RECV_FLAGS ? -EINVAL
                                     : transfer_with(flags, fd, buf, n, WEFT__SIDE_IN, deadline);
}

ssize_t weft_send(int fd, const void *buf, size_t n, int flags, int64_t deadline)
{
    return flags & ~WEFT__SEND_FLAGS
               ? -EINVAL
               : transfer_with(flags, fd, (void *)(uintptr_t)buf, n, WEFT__SIDE_OUT, deadline);
}

/* --- all of a vector ---------------------------------------------------------------------------- */

#define WINDOW 16

/* What is left of a vector: from byte `skip` of its first buffer on. */
struct rest {
    const struct iovec *iov;
    int count;
    size_t skip;
};

/* Buffers that are done with, or empty, are passed over. */
static void advance(struct rest *rest, size_t n)
{
    rest->skip += n;
    while (rest->count > 0 && rest->skip >= rest->iov->iov_len) {
        rest->skip -= rest->iov->iov_len;
        rest->iov++;
        rest->count--;
    }
}

/* The caller's vector stays as it was: a few of its buffers are copied at a time. */
static int window(const struct rest *rest, struct iovec *out)
{
    int n = rest->count < WINDOW ? rest->count : WINDOW;
    for (int i = 0; i < n; i++) {
        out[i] = rest->iov[i];
    }
    out[0].iov_base = (char *)out[0].iov_base + rest->skip;
    out[0].iov_len -= rest->skip;
    return n;
}

static int whole_vector(int fd, const struct iovec *iov, int count, size_t *done,
                        enum weft__side side, int64_t deadline)
{
    struct rest rest = {.iov = iov, .count = count};
    struct iovec some[WINDOW];
    size_t have = 0;
    ssize_t n = count < 0 || count > IOV_MAX ? -EINVAL : 0;
    if (n == 0) {
        advance(&rest, 0);
        while (rest.count > 0 && (n = vector(fd, some, window(&rest, some), side, deadline)) > 0) {
            have += (size_t)n;
            advance(&rest, (size_t)n);
        }
    }
    if (done) {
        *done = have;
    }
    return n < 0 ? (int)n : rest.count > 0 ? -ENODATA : 0;
}

int weft_readv_full(int fd, const struct iovec *iov, int count, size_t *done, int64_t deadline)
{
    return whole_vector(fd, iov, count, done, WEFT__SIDE_IN, deadline);
}

int weft_writev_all(int fd, const struct iovec *iov, int count, size_t *done, int64_t deadline)
{
    return whole_vector(fd, iov, count, done, WEFT__SIDE_OUT, deadline);
}

/* --- readiness ------------------------------------------------------------------------------------ */

int weft_fd_wait(int fd, int events, int64_t deadline)
{
    if (events != WEFT_READABLE && events != WEFT_WRITABLE) {
        return -EINVAL;
    }
    enum weft__side side = events == WEFT_READABLE ? WEFT__SIDE_IN : WEFT__SIDE_OUT;
    int err = weft__call_wait(fd, side, deadline, &ready_kind);
    return err ? err : events;
}
