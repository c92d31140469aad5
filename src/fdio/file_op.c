#include "fdio/file_op.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <weft/blocking.h>

#include "base/assert.h"
#include "base/clock.h"
#include "io/driver.h"
#include "io/statx.h"
#include "worker/worker.h"

/* --- without waiting ------------------------------------------------------------------ */

static size_t requested_bytes(const struct weft__op *op)
{
    size_t bytes = 0;
    for (int i = 0; i < op->iov_count; i++) {
        bytes += op->iov[i].iov_len;
    }
    return bytes;
}

static bool at_end(int fd, int64_t offset)
{
    struct statx st;
    return weft__statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &st) == 0 &&
           (uint64_t)offset >= st.stx_size;
}

/* Read cached data. A partial read suffices where it has advanced the file position; with an offset
 * the whole read is repeated, so that a short result means the end of the file and nothing else. */
static bool read_cached(struct weft__op *op, int64_t *result)
{
    op->flags = RWF_NOWAIT;
    int64_t n = weft__op_perform(op);
    op->flags = 0;
    *result = n;
    return n >= 0 && (n == 0 || op->offset < 0 || (size_t)n == requested_bytes(op) ||
                      at_end(op->fd, op->offset + n));
}

/* Open a path that can be resolved without asking the disk and without waiting for a lease.
 * Creating a file always asks the disk. */
static bool open_cached(struct weft__op *op, int64_t *result)
{
    struct open_how cached = *op->how, *how = op->how;
    const uint64_t makes = (O_CREAT | O_TRUNC | O_TMPFILE) & ~O_DIRECTORY;
    if ((cached.flags & makes) || !(cached.flags & (O_NONBLOCK | O_PATH))) {
        return false;
    }
    cached.resolve |= RESOLVE_CACHED;
    op->how = &cached;
    *result = weft__op_perform(op);
    op->how = how;
    return *result >= 0 || *result == -ENOENT;
}

static bool try_cached(struct weft__op *op, int64_t *result)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READ:
        return read_cached(op, result);
    case WEFT__OP_OPEN:
        return open_cached(op, result);
    default:
        return false;
    }
}

/* --- on a thread ------------------------------------------------------------------------ */

static void *perform(void *arg)
{
    struct weft__op *op = arg;
    bool closed = false;
    if (op->linked) {
        struct weft__fd *record = weft__fd_record(op->fd);
        weft__latch_lock(&record->lock);
        closed = op->closed;
        weft__latch_unlock(&record->lock);
    }
    op->result = closed ? WEFT__CLOSED : weft__op_perform(op);
    return NULL;
}

/* False: the descriptor is closed. */
static bool link_op(struct weft__fd *record, struct weft__op *op)
{
    weft__latch_lock(&record->lock);
    bool known = weft__fd_is(record, WEFT__FD_REGISTERED);
    if (known) {
        op->on_thread = true;
        op->driver = NULL;
        op->closed = false;
        weft__fd_push_locked(record, op);
    }
    weft__latch_unlock(&record->lock);
    return known;
}

static int64_t run_on_thread(struct weft__fd *record, struct weft__op *op, int64_t deadline)
{
    if (record && !link_op(record, op)) {
        return -EBADF;
    }
    int err = weft_blocking_call(NULL, NULL, perform, op, deadline);
    if (record) {
        weft__fd_end_op(record, op);
    }
    return err ? err : op->result;
}

/* --- all kinds of operations --------------------------------------------------------------- */

/* Operations that every kernel with a usable io_uring has. A ring ignores the offset of a pipe. */
static bool ring_supports(const struct weft__fd *record, const struct weft__op *op)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
        return weft__fd_is(record, WEFT__FD_FILE);
    case WEFT__OP_TRUNCATE:
    case WEFT__OP_MKDIR:
        return false;
    default:
        return true;
    }
}

/* An operation on a file occupies its thread as long as the disk takes; on another descriptor that
 * has reused the number it might block the thread, and with it a close of that descriptor,
 * forever. */
static bool is_number_reused(const struct weft__fd *record, const struct weft__op *op)
{
    unsigned flags;
    return record && op->offset < 0 && (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE) &&
           weft__fd_is(record, WEFT__FD_FILE) && weft__fd_inspect(op->fd, &flags) == 0 &&
           !(flags & WEFT__FD_FILE);
}

int64_t weft__file_op_run(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                          const struct weft__wait_kind *kind)
{
    int err = 0;
    int64_t result = -EAGAIN;
    struct weft__worker *w = weft__worker_self();
    if (!w) {
        return weft__op_perform(&call->op);
    }
    if (try_cached(&call->op, &result)) {
        return result;
    }
    weft__deadline_check(deadline);
    if (deadline != WEFT_FOREVER && deadline <= weft__clock_ns()) {
        return result == -EAGAIN || result == -EOPNOTSUPP || result == -ENOSYS ? -ETIMEDOUT
                                                                               : result;
    }
    WEFT__REQUIRE(weft__current(w), "a callback on a worker waits for a file");
    if (is_number_reused(record, &call->op)) {
        return weft__fd_invalidate(record) ? WEFT__RESUBMIT : WEFT__CLOSED;
    }
    /* Without a driver, as in a compute pool, there are still threads. */
    struct weft__driver *driver = weft__worker_driver(w, &err);
    return driver && driver->kind->completes && ring_supports(record, &call->op)
               ? weft__call_complete(driver, call, deadline, kind)
               : run_on_thread(record, &call->op, deadline);
}
