/* Read and write descriptors of any kind. */
#include <errno.h>
#include <limits.h>

#include <weft/io.h>

#include "fdio/call.h"
#include "fdio/file_op.h"
#include "fdio/message.h"
#include "io/fd.h"
#include "io/raw_call.h"
#include "task/ident.h"

static const struct weft__wait_kind read_kind = {.name = "read", .descriptor = true};
static const struct weft__wait_kind write_kind = {.name = "write", .descriptor = true};
static const struct weft__wait_kind ready_kind = {.name = "readiness", .descriptor = true};

/* One direction of transfer. The functions below are written once, for either direction. Those on
 * the path of a socket are always inlined, with a constant direction, so that nothing is decided at
 * run time. Each direction has its own instance of the three functions that keep a stack frame:
 * what a direction calls and returns to is then the same every time, and is predicted. */
struct direction {
    enum weft__side side;
    enum weft__op_code socket_op, message_op, plain_op; /* plain: not a socket */
    const struct weft__wait_kind *kind;
    ssize_t (*wait)(struct weft__fd *record, void *buf, size_t n, uint32_t edges, int64_t deadline,
                    struct weft__worker *w);
    ssize_t (*try)(struct weft__fd *record, void *buf, size_t n, uint32_t edges, int64_t deadline);
    ssize_t (*submit)(struct weft__fd *record, void *buf, size_t n, int64_t deadline,
                      struct weft__worker *w);
};

static ssize_t wait_to_read(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                            int64_t deadline, struct weft__worker *w);
static ssize_t wait_to_write(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                             int64_t deadline, struct weft__worker *w);
static ssize_t try_to_read(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                           int64_t deadline);
static ssize_t try_to_write(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                            int64_t deadline);
static ssize_t submit_read(struct weft__fd *record, void *buf, size_t n, int64_t deadline,
                           struct weft__worker *w);
static ssize_t submit_write(struct weft__fd *record, void *buf, size_t n, int64_t deadline,
                            struct weft__worker *w);

static const struct direction reading = {
    .side = WEFT__SIDE_IN,
    .socket_op = WEFT__OP_RECV,
    .message_op = WEFT__OP_RECVMSG,
    .plain_op = WEFT__OP_READ,
    .kind = &read_kind,
    .wait = wait_to_read,
    .try = try_to_read,
    .submit = submit_read,
};

static const struct direction writing = {
    .side = WEFT__SIDE_OUT,
    .socket_op = WEFT__OP_SEND,
    .message_op = WEFT__OP_SENDMSG,
    .plain_op = WEFT__OP_WRITE,
    .kind = &write_kind,
    .wait = wait_to_write,
    .try = try_to_write,
    .submit = submit_write,
};

#define INLINE static inline __attribute__((always_inline))
#define INSTANCE static __attribute__((noinline))

/* --- a driver that reports readiness ---------------------------------------------------------- */

INLINE ssize_t try_transfer(const struct direction *d, const struct weft__fd *record, void *buf,
                            size_t n)
{
    return d->side == WEFT__SIDE_IN ? weft__raw_recv(record->number, buf, n)
                                    : weft__raw_send(record->number, buf, n);
}

/* Record the outcome of a try: less than requested was transferred. */
INLINE void note_short(const struct direction *d, struct weft__fd *record, uint32_t edges,
                       ssize_t result, size_t n)
{
    if (result != (ssize_t)n && weft__fd_short_means_empty(record)) {
        weft__fd_note_empty(&record->side[d->side], edges);
    }
}

INLINE void note_result(const struct direction *d, struct weft__fd *record, uint32_t edges,
                        ssize_t result, size_t n)
{
    if (result > 0) {
        note_short(d, record, edges, result, n);
    } else if (result == -EAGAIN) {
        weft__fd_note_empty(&record->side[d->side], edges);
    }
}

/* The edge was spurious: wait again. As run_by_readiness in fdio/call.c, without an operation. */
static __attribute__((noinline)) ssize_t wait_again(const struct direction *d,
                                                    struct weft__fd *record, void *buf, size_t n,
                                                    struct weft__fd_snapshot seen, int64_t deadline)
{
    for (;;) {
        int err = weft__call_wait_edge(record, d->side, seen, deadline, d->kind);
        if ((err && err != -ETIMEDOUT) || weft__fd_generation(record) != seen.generation) {
            return err ? err : WEFT__CLOSED;
        }
        seen.edges = weft__fd_edges(&record->side[d->side]);
        ssize_t result = try_transfer(d, record, buf, n);
        note_result(d, record, seen.edges, result, n);
        if (result != -EAGAIN || err) { /* past its deadline the call was tried once more */
            return result != -EAGAIN ? result : err;
        }
    }
}

/* Wait for an edge after `edges`, then try. Every path that returns from a system call returns with
 * a jump: see context/context.h. */
INLINE ssize_t wait_and_try(const struct direction *d, struct weft__fd *record, void *buf, size_t n,
                            uint32_t edges, int64_t deadline, struct weft__worker *w)
{
    struct weft__fd_snapshot seen = {.generation = weft__fd_generation(record), .edges = edges};
    int err = weft__call_wait_edge_on(w, record, d->side, seen, deadline, d->kind);
    if (__builtin_expect(
            (err && err != -ETIMEDOUT) || weft__fd_generation(record) != seen.generation, 0)) {
        return err ? err : WEFT__CLOSED;
    }
    seen.edges = weft__fd_edges(&record->side[d->side]);
    ssize_t result = try_transfer(d, record, buf, n);
    if (__builtin_expect(result > 0, 1)) {
        note_short(d, record, seen.edges, result, n);
        return weft__context_return_long(result);
    }
    if (result != -EAGAIN) {
        return result;
    }
    weft__fd_note_empty(&record->side[d->side], seen.edges);
    return err ? err : wait_again(d, record, buf, n, seen, deadline);
}

INSTANCE ssize_t wait_to_read(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                              int64_t deadline, struct weft__worker *w)
{
    return wait_and_try(&reading, record, buf, n, edges, deadline, w);
}

INSTANCE ssize_t wait_to_write(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                               int64_t deadline, struct weft__worker *w)
{
    return wait_and_try(&writing, record, buf, n, edges, deadline, w);
}

/* Try, and wait if there is no data, or no space. */
INLINE ssize_t try_or_wait(const struct direction *d, struct weft__fd *record, void *buf, size_t n,
                           uint32_t edges, int64_t deadline)
{
    ssize_t result = try_transfer(d, record, buf, n);
    if (__builtin_expect(result > 0, 1)) {
        note_short(d, record, edges, result, n);
        return weft__context_return_long(result);
    }
    if (result != -EAGAIN) {
        return result;
    }
    weft__fd_note_empty(&record->side[d->side], edges);
    return d->wait(record, buf, n, edges, deadline, weft__worker_self());
}

INSTANCE ssize_t try_to_read(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                             int64_t deadline)
{
    return try_or_wait(&reading, record, buf, n, edges, deadline);
}

INSTANCE ssize_t try_to_write(struct weft__fd *record, void *buf, size_t n, uint32_t edges,
                              int64_t deadline)
{
    return try_or_wait(&writing, record, buf, n, edges, deadline);
}

/* --- a driver that completes operations ------------------------------------------------------- */

/* For a socket, in a fiber. */
INLINE ssize_t submit_and_wait(const struct direction *d, struct weft__fd *record, void *buf,
                               size_t n, bool likely_empty, int64_t deadline,
                               struct weft__worker *w)
{
    struct weft__call call;
    weft__op_init(&call.op, record->number, d->socket_op, d->side);
    call.op.likely_empty = likely_empty;
    call.op.buf = buf;
    call.op.len = n;
    /* An operation that can be done at once succeeds even if cancelled or late. */
    if (__builtin_expect(deadline != WEFT_FOREVER ||
                             (weft__ident_flags(weft__current(w)) & WEFT__IDENT_ENDS_WAITS),
                         0)) {
        return weft__call_run_on(record, &call, deadline, d->kind);
    }
    int64_t result =
        weft__call_complete_on(w, weft__worker_peek_driver(w), &call, WEFT_FOREVER, d->kind);
    return __builtin_expect(result != WEFT__RESUBMIT, 1)
               ? result
               : weft__call_resubmit(&call, WEFT_FOREVER, d->kind);
}

/* The note that the socket is empty is a hint here: the kernel then waits before it tries. */
INSTANCE ssize_t submit_read(struct weft__fd *record, void *buf, size_t n, int64_t deadline,
                             struct weft__worker *w)
{
    struct weft__fd_side *side = &record->side[WEFT__SIDE_IN];
    uint32_t edges = weft__fd_edges(side);
    bool likely_empty = weft__fd_is_empty_at(side, edges);
    ssize_t got = submit_and_wait(&reading, record, buf, n, likely_empty, deadline, w);
    bool empty = got > 0 && got != (ssize_t)n && weft__fd_short_means_empty(record);
    if (__builtin_expect(empty != likely_empty, 0)) {
        weft__fd_note_empty(side, empty ? edges : edges - 1);
    }
    return got;
}

INSTANCE ssize_t submit_write(struct weft__fd *record, void *buf, size_t n, int64_t deadline,
                              struct weft__worker *w)
{
    return submit_and_wait(&writing, record, buf, n, false, deadline, w);
}

/* --- one buffer ------------------------------------------------------------------------------- */

/* Performs an operation on a descriptor that is not a socket. WEFT__RESUBMIT: as
 * weft__file_op_run. */
static ssize_t transfer_plain(const struct direction *d, struct weft__fd *record,
                              const struct iovec *iov, int count, int64_t deadline)
{
    struct weft__call call;
    weft__op_init(&call.op, record->number, d->plain_op, d->side);
    call.op.iov = iov;
    call.op.iov_count = count;
    return weft__fd_is(record, WEFT__FD_FILE) ? weft__file_op_run(record, &call, deadline, d->kind)
                                              : weft__call_run_on(record, &call, deadline, d->kind);
}

/* On a socket, with these flags. */
static ssize_t transfer_flags(const struct direction *d, struct weft__fd *record, void *buf,
                              size_t n, int flags, int64_t deadline)
{
    struct weft__call call;
    weft__op_init(&call.op, record->number, d->socket_op, d->side);
    call.op.flags = flags;
    call.op.buf = buf;
    call.op.len = n;
    return weft__call_run_on(record, &call, deadline, d->kind);
}

/* Any kind of descriptor, caller and driver. */
static __attribute__((noinline)) ssize_t transfer_any(const struct direction *d, int fd, void *buf,
                                                      size_t n, int64_t deadline)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    ssize_t result;
    do {
        int err = 0;
        struct weft__fd *record = weft__fd_use(fd, &err);
        if (!record) {
            return err;
        }
        result = weft__fd_is(record, WEFT__FD_SOCKET)
                     ? transfer_flags(d, record, buf, n, 0, deadline)
                     : transfer_plain(d, record, &iov, 1, deadline);
    } while (result == WEFT__RESUBMIT);
    return result;
}

/* The common case: a socket, in a fiber, with a driver. Returns the record, or NULL; *w: the
 * fiber's worker. */
INLINE struct weft__fd *enter_fast_path(int fd, struct weft__worker **w)
{
    *w = weft__worker_self_inline();
    struct weft__fd *record = weft__fd_find_registered(fd, WEFT__FD_SOCKET);
    return record && *w && (*w)->io_mode != WEFT__IO_MODE_NONE && weft__current(*w) ? record : NULL;
}

static inline bool has_completions(const struct weft__worker *w)
{
    return __builtin_expect(w->io_mode == WEFT__IO_MODE_COMPLETION, 0);
}

/* Sockets are called with flags that prevent blocking and signals, whatever their mode. The entry
 * points keep no stack frame: they only select a path, which they tail-call. */
INLINE ssize_t transfer(const struct direction *d, int fd, void *buf, size_t n, int64_t deadline)
{
    struct weft__worker *w;
    struct weft__fd *record = enter_fast_path(fd, &w);
    if (__builtin_expect(!record, 0)) {
        return transfer_any(d, fd, buf, n, deadline);
    }
    if (has_completions(w)) {
        return d->submit(record, buf, n, deadline, w);
    }
    uint32_t edges = weft__fd_edges(&record->side[d->side]);
    return weft__fd_is_empty_at(&record->side[d->side], edges)
               ? d->wait(record, buf, n, edges, deadline, w)
               : d->try(record, buf, n, edges, deadline);
}

__attribute__((noinline)) ssize_t weft_read(int fd, void *buf, size_t n, int64_t deadline)
{
    return transfer(&reading, fd, buf, n, deadline);
}

__attribute__((noinline)) ssize_t weft_write(int fd, const void *bytes, size_t n, int64_t deadline)
{
    return transfer(&writing, fd, (void *)(uintptr_t)bytes, n, deadline);
}

/* --- all of a buffer -------------------------------------------------------------------------- */

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

/* Continue after a first write that transferred `put` bytes, or failed with that error. */
static __attribute__((noinline)) int write_rest(int fd, const void *buf, size_t n, ssize_t put,
                                                size_t *done, int64_t deadline)
{
    size_t have = put > 0 ? (size_t)put : 0;
    while (put >= 0 && have < n &&
           (put = weft_write(fd, (const char *)buf + have, n - have, deadline)) >= 0) {
        have += (size_t)put;
    }
    if (done) {
        *done = have;
    }
    return have == n ? 0 : (int)put;
}

/* weft_write_all for a socket, in a fiber, on a driver that completes operations. */
static __attribute__((noinline)) int submit_write_all(struct weft__fd *record, void *buf, size_t n,
                                                      size_t *done, int64_t deadline,
                                                      struct weft__worker *w)
{
    ssize_t put = submit_and_wait(&writing, record, buf, n, false, deadline, w);
    if (__builtin_expect(put != (ssize_t)n, 0)) {
        return write_rest(record->number, buf, n, put, done, deadline);
    }
    if (done) {
        *done = n;
    }
    return 0;
}

/* On a driver that reports readiness: usually there is space, and one system call suffices. */
static __attribute__((noinline)) int write_all_ready(struct weft__fd *record, void *buf, size_t n,
                                                     size_t *done, int64_t deadline)
{
    uint32_t edges = weft__fd_edges(&record->side[WEFT__SIDE_OUT]);
    ssize_t put = 0;
    if (__builtin_expect(!weft__fd_is_empty_at(&record->side[WEFT__SIDE_OUT], edges), 1)) {
        put = try_transfer(&writing, record, buf, n);
        if (__builtin_expect(put != (ssize_t)n, 0)) {
            note_result(&writing, record, edges, put, n);
            put = put == -EAGAIN ? 0 : put;
        }
    }
    if (__builtin_expect(put != (ssize_t)n, 0)) {
        return write_rest(record->number, buf, n, put, done, deadline);
    }
    if (done) {
        *done = n;
    }
    return weft__context_return(0);
}

static __attribute__((noinline)) int write_all_any(int fd, const void *buf, size_t n, size_t *done,
                                                   int64_t deadline)
{
    ssize_t put = n ? weft_write(fd, buf, n, deadline) : 0;
    return write_rest(fd, buf, n, put, done, deadline);
}

__attribute__((noinline)) int weft_write_all(int fd, const void *bytes, size_t n, size_t *done,
                                             int64_t deadline)
{
    void *buf = (void *)(uintptr_t)bytes;
    struct weft__worker *w;
    struct weft__fd *record = enter_fast_path(fd, &w);
    if (__builtin_expect(!record || n == 0, 0)) {
        return write_all_any(fd, buf, n, done, deadline);
    }
    return has_completions(w) ? submit_write_all(record, buf, n, done, deadline, w)
                              : write_all_ready(record, buf, n, done, deadline);
}

/* --- with flags ------------------------------------------------------------------------------- */

static ssize_t transfer_socket(const struct direction *d, int fd, void *buf, size_t n, int flags,
                               int64_t deadline)
{
    int err = 0;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record || !weft__fd_is(record, WEFT__FD_SOCKET)) {
        return record ? -ENOTSOCK : err;
    }
    return transfer_flags(d, record, buf, n, flags, deadline);
}

ssize_t weft_recv(int fd, void *buf, size_t n, int flags, int64_t deadline)
{
    return flags & ~WEFT__RECV_FLAGS ? -EINVAL
                                     : transfer_socket(&reading, fd, buf, n, flags, deadline);
}

ssize_t weft_send(int fd, const void *buf, size_t n, int flags, int64_t deadline)
{
    return flags & ~WEFT__SEND_FLAGS
               ? -EINVAL
               : transfer_socket(&writing, fd, (void *)(uintptr_t)buf, n, flags, deadline);
}

/* --- vectors ---------------------------------------------------------------------------------- */

static ssize_t transfer_message(const struct direction *d, struct weft__fd *record,
                                const struct iovec *iov, int count, int64_t deadline)
{
    struct weft__call call;
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)count};
    weft__op_init(&call.op, record->number, d->message_op, d->side);
    call.op.msg = &msg;
    return weft__call_run_on(record, &call, deadline, d->kind);
}

static ssize_t transfer_vector(const struct direction *d, int fd, const struct iovec *iov,
                               int count, int64_t deadline)
{
    ssize_t result;
    do {
        int err = 0;
        struct weft__fd *record = weft__fd_use(fd, &err);
        if (!record || count < 0 || count > IOV_MAX) {
            return record ? -EINVAL : err;
        }
        result = weft__fd_is(record, WEFT__FD_SOCKET)
                     ? transfer_message(d, record, iov, count, deadline)
                     : transfer_plain(d, record, iov, count, deadline);
    } while (result == WEFT__RESUBMIT);
    return result;
}

ssize_t weft_readv(int fd, const struct iovec *iov, int count, int64_t deadline)
{
    return transfer_vector(&reading, fd, iov, count, deadline);
}

ssize_t weft_writev(int fd, const struct iovec *iov, int count, int64_t deadline)
{
    return transfer_vector(&writing, fd, iov, count, deadline);
}

/* --- readiness -------------------------------------------------------------------------------- */

int weft_fd_wait(int fd, int events, int64_t deadline)
{
    if (events != WEFT_READABLE && events != WEFT_WRITABLE) {
        return -EINVAL;
    }
    enum weft__side side = events == WEFT_READABLE ? WEFT__SIDE_IN : WEFT__SIDE_OUT;
    int err = weft__call_wait(fd, side, deadline, &ready_kind);
    return err ? err : events;
}
