#include <weft/io.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "base/clock.h"
#include "fdio/call.h"
#include "io/fd.h"
#include "io/sigpipe.h"

#define SPLICE_MAX ((size_t)1 << 20) /* as in io/op.c */
#define RETRY_NS 1000000

static const struct weft__wait_kind sendfile_kind = {.name = "sendfile", .descriptor = true};
static const struct weft__wait_kind splice_kind = {.name = "splice", .descriptor = true};

/* --- from a file --------------------------------------------------------------------------- */

/* sendfile has no flag for non-blocking mode, and the mode of a pipe may be shared with other
 * processes; splice does the same to a pipe, and has such a flag. */
static ssize_t send_to_pipe(int fd, int file, int64_t offset, size_t n, int64_t deadline)
{
    ssize_t put = weft_splice(file, &offset, fd, NULL, n, false, deadline);
    return put == -ESPIPE ? -EINVAL : put;
}

ssize_t weft_sendfile(int fd, int file, int64_t offset, size_t n, int64_t deadline)
{
    int err = 0;
    struct weft__call call;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record || offset < 0) {
        return record ? -EINVAL : err;
    }
    if (weft__fd_is_pipe(record)) {
        return send_to_pipe(fd, file, offset, n, deadline);
    }
    if (weft__fd_is(record, WEFT__FD_SHARED)) {
        return -EINVAL;
    }
    weft__op_init(&call.op, fd, WEFT__OP_SENDFILE, WEFT__SIDE_OUT);
    call.op.offset = offset;
    call.op.from = file;
    call.op.count = n;
    return weft__call_run_on(record, &call, deadline, &sendfile_kind);
}

int weft_sendfile_all(int fd, int file, int64_t offset, size_t n, size_t *done, int64_t deadline)
{
    size_t have = 0;
    ssize_t put = 0;
    while (have < n &&
           (put = weft_sendfile(fd, file, offset + (int64_t)have, n - have, deadline)) > 0) {
        have += (size_t)put;
        if (have < n) {
            weft_yield(); /* an equally fast receiver would monopolise the worker */
        }
    }
    if (done) {
        *done = have;
    }
    return have == n ? 0 : put == 0 ? -ENODATA : (int)put;
}

/* --- through a pipe -------------------------------------------------------------------------- */

static ssize_t splice_now(int in, int64_t *in_at, int out, int64_t *out_at, size_t n, bool more)
{
    loff_t from = in_at ? *in_at : 0, to = out_at ? *out_at : 0;
    struct weft__sigpipe_guard quiet;
    ssize_t moved;
    do {
        weft__sigpipe_block(&quiet);
        moved = splice(in, in_at ? &from : NULL, out, out_at ? &to : NULL,
                       n < SPLICE_MAX ? n : SPLICE_MAX,
                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0));
        weft__sigpipe_restore(&quiet, moved < 0 && errno == EPIPE);
    } while (moved < 0 && errno == EINTR);
    if (moved < 0) {
        return -errno;
    }
    if (in_at) {
        *in_at += moved;
    }
    if (out_at) {
        *out_at += moved;
    }
    return moved;
}

static bool is_ready(int fd, short events)
{
    struct pollfd pfd = {.fd = fd, .events = events};
    return poll(&pfd, 1, 0) != 0;
}

/* The kernel does not say which side blocked. Both may be reported ready, where splice and poll
 * disagree about how much space suffices: then only a pause helps. */
static int wait_either(int in, int out, int64_t deadline)
{
    if (!is_ready(in, POLLIN | POLLRDHUP)) {
        return weft__call_wait(in, WEFT__SIDE_IN, deadline, &splice_kind);
    }
    if (!is_ready(out, POLLOUT)) {
        return weft__call_wait(out, WEFT__SIDE_OUT, deadline, &splice_kind);
    }
    return weft_sleep(weft_after(RETRY_NS));
}

/* Make sure that splice does not block on this descriptor. */
static int prepare(int fd)
{
    int err = 0;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    /* A pipe needs only SPLICE_F_NONBLOCK. It may be shared with other processes; so may a
     * terminal, for which splice has no such flag. */
    if (weft__fd_is(record, WEFT__FD_FILE) || weft__fd_is_pipe(record)) {
        return 0;
    }
    return weft__fd_is(record, WEFT__FD_SHARED) ? -EINVAL : weft__fd_unblock(record);
}

ssize_t weft_splice(int in, int64_t *in_at, int out, int64_t *out_at, size_t n, bool more,
                    int64_t deadline)
{
    int err = prepare(in);
    err = err ? err : prepare(out);
    while (!err) {
        ssize_t moved = splice_now(in, in_at, out, out_at, n, more);
        if (moved != -EAGAIN) {
            return moved;
        }
        if (deadline <= weft__clock_ns()) {
            return -ETIMEDOUT;
        }
        err = wait_either(in, out, deadline);
    }
    return err;
}
