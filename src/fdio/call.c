#include "fdio/call.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "fdio/fd_exhaustion.h"
#include "fiber/cancel.h"
#include "io/driver.h"
#include "task/ident.h"
#include "worker/worker.h"

#define RETRY_FIRST_NS ((int64_t)250000)
#define RETRY_DOUBLED 8 /* number of doublings: up to 64 ms */

/* --- readiness ----------------------------------------------------------------------- */

/* The wait was not linked, because of `err`, and was disarmed. An interrupt may have ended it
 * before that: then the interrupt was delivered to this wait, which ends by it, unless the call
 * fails. */
static int finish_unlinked(enum weft__reason reason, int err, const struct weft__wait_kind *kind,
                           int fd)
{
    if (err != -EAGAIN && err != -EBUSY) {
        weft__waiter_defer(reason);
        return err;
    }
    return weft__waiter_end_by(reason, kind, (uint64_t)(unsigned)fd);
}

static int wait_listed(struct weft__fd *record, enum weft__side side, struct weft__fd_snapshot seen,
                       int64_t deadline, const struct weft__wait_kind *kind)
{
    struct weft__op op;
    struct weft__waiter waiter;
    weft__op_init(&op, record->number, WEFT__OP_READY, side);
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    weft__op_state_init(&op.wait, weft__io_waiter_of(waiter.task), waiter.ticket);
    int err = weft__fd_link(record, &op, seen.generation, seen.edges,
                            weft__worker_peek_driver(weft__worker_self()));
    if (err) {
        return finish_unlinked(weft__waiter_disarm(&waiter), err, kind, record->number);
    }
    enum weft__reason reason =
        weft__waiter_park(&waiter, deadline, kind, (uint64_t)(unsigned)record->number);
    if (weft__reason_is_done(reason)) {
        return (int)op.result;
    }
    /* The fiber may be on another worker by now. */
    weft__fd_unlink(record, &op, weft__worker_peek_driver(weft__worker_self()));
    return weft__reason_errno(reason);
}

int weft__call_wait_listed(struct weft__fd *record, enum weft__side side,
                           struct weft__fd_snapshot seen, int err, int64_t deadline,
                           const struct weft__wait_kind *kind)
{
    enum weft__reason reason = weft__task_disarm(weft__current(weft__worker_self()));
    int ended = finish_unlinked(reason, err, kind, record->number);
    return ended || err != -EBUSY ? ended : wait_listed(record, side, seen, deadline, kind);
}

int weft__call_cancel_wait(struct weft__fd *record, enum weft__side side, enum weft__reason reason)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = weft__current(w);
    weft__fd_cancel_wait(record, side, weft__io_waiter_of(task), weft__task_last_ticket(task),
                         weft__worker_peek_driver(w));
    return weft__reason_errno(reason);
}

int weft__call_wait_edge(struct weft__fd *record, enum weft__side side,
                         struct weft__fd_snapshot seen, int64_t deadline,
                         const struct weft__wait_kind *kind)
{
    int err = 0;
    struct weft__worker *w = weft__worker_self();
    return weft__worker_driver(w, &err)
               ? weft__call_wait_edge_on(w, record, side, seen, deadline, kind)
               : err;
}

/* Peeked data is still in the socket. */
static bool is_drained_by(const struct weft__fd *record, const struct weft__op *op, int64_t n)
{
    return (op->code == WEFT__OP_RECV || op->code == WEFT__OP_SEND) && n > 0 &&
           (size_t)n < op->len && !(op->flags & MSG_PEEK) && weft__fd_short_means_empty(record);
}

static bool would_block(const struct weft__op *op, int64_t result)
{
    return result == (op->code == WEFT__OP_CONNECT ? -EINPROGRESS : -EAGAIN);
}

static int64_t run_by_readiness(struct weft__fd *record, struct weft__op *op, int64_t deadline,
                                const struct weft__wait_kind *kind)
{
    struct weft__fd_side *side = &record->side[op->side];
    struct weft__fd_snapshot seen = {.generation = weft__fd_generation(record)};
    bool begun = false; /* a connect in progress: the next try asks for its outcome */
    int err = 0;
    for (;;) {
        seen.edges = weft__fd_edges(side);
        /* Past its deadline the call is still tried: only the kernel knows what is available
         * *now*. */
        if (err || !weft__fd_is_empty_at(side, seen.edges)) {
            int64_t result = begun ? weft__op_connect_result(op->fd) : weft__fd_perform(record, op);
            if (!would_block(op, result)) {
                if (is_drained_by(record, op, result)) {
                    weft__fd_note_empty(side, seen.edges);
                }
                return result;
            }
            begun = op->code == WEFT__OP_CONNECT;
            weft__fd_note_empty(side, seen.edges);
        }
        if (err) {
            return err;
        }
        err = weft__call_wait_edge(record, (enum weft__side)op->side, seen, deadline, kind);
        if ((err && (err != -ETIMEDOUT || op->code == WEFT__OP_CONNECT)) ||
            weft__fd_generation(record) != seen.generation) {
            return err ? err : WEFT__CLOSED;
        }
    }
}

/* --- completion ------------------------------------------------------------------------- */

/* Wait for the operation after its cancellation was requested: nothing but its completion ends this
 * wait. */
static void await_completion(struct weft__call *call, const struct weft__wait_kind *kind)
{
    const unsigned how =
        WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL | WEFT__WAIT_SHIELDED | WEFT__WAIT_UNABORTABLE;
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, how);
    bool waits = weft__op_state_wait(&call->op.wait, waiter.ticket);
    enum weft__reason reason =
        waits ? weft__waiter_park(&waiter, WEFT_FOREVER, kind, (uint64_t)(unsigned)call->op.fd)
              : weft__waiter_disarm(&waiter);
    WEFT__ASSERT(reason == (waits ? WEFT__REASON_DONE : WEFT__REASON_NONE));
}

int64_t weft__call_abort(struct weft__driver *driver, struct weft__call *call, uint64_t ticket,
                         enum weft__reason reason, const struct weft__wait_kind *kind)
{
    weft__op_state_stop_waiting(&call->op.wait, ticket);
    weft__driver_request_cancel(driver, &call->op);
    await_completion(call, kind);
    if (call->op.result == -ECANCELED || call->op.result == WEFT__RESUBMIT) {
        return weft__reason_errno(reason);
    }
    weft__waiter_defer(reason); /* it was done after all */
    return call->op.result;
}

int64_t weft__call_refused(void)
{
    weft__waiter_defer(weft__task_disarm(weft__current(weft__worker_self())));
    return WEFT__CLOSED;
}

/* Repeats while drivers stop with their threads. */
int64_t weft__call_resubmit(struct weft__call *call, int64_t deadline,
                            const struct weft__wait_kind *kind)
{
    int64_t result;
    int err = 0;
    /* The connect is in progress: only its outcome is still needed. */
    bool begun = call->op.code == WEFT__OP_CONNECT;
    if (begun) {
        call->op.code = WEFT__OP_READY;
    }
    do {
        struct weft__worker *w = weft__worker_self();
        struct weft__driver *driver = weft__worker_driver(w, &err); /* maybe another one */
        if (!driver) {
            return err;
        }
        result = weft__call_complete_on(w, driver, call, deadline, kind);
    } while (result == WEFT__RESUBMIT);
    return begun && result == 0 ? weft__op_connect_result(call->op.fd) : result;
}

int64_t weft__call_complete(struct weft__driver *driver, struct weft__call *call, int64_t deadline,
                            const struct weft__wait_kind *kind)
{
    int64_t result = weft__call_complete_on(weft__worker_self(), driver, call, deadline, kind);
    return result != WEFT__RESUBMIT ? result : weft__call_resubmit(call, deadline, kind);
}

/* --- plain threads ------------------------------------------------------------------------- */

static int poll_until(int fd, enum weft__side side, int64_t deadline)
{
    struct pollfd pfd = {.fd = fd, .events = side == WEFT__SIDE_IN ? POLLIN | POLLRDHUP : POLLOUT};
    weft__deadline_check(deadline);
    for (;;) {
        struct timespec timeout = weft__clock_remaining(deadline);
        int n = ppoll(&pfd, 1, deadline == WEFT_FOREVER ? NULL : &timeout, NULL);
        if (n > 0) {
            return pfd.revents & POLLNVAL ? -EBADF : 0;
        }
        if (n == 0) {
            return -ETIMEDOUT;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

/* A call that blocks the thread must not run on a worker. */
static void require_may_block(int64_t deadline)
{
    const struct weft__worker *w = weft__worker_self();
    WEFT__REQUIRE(!w || deadline <= weft__clock_ns(),
                  weft__running(w) ? "a frame waits in the middle of a step, for I/O"
                                   : "a callback on a worker waits for I/O");
}

static int64_t run_on_thread(struct weft__fd *record, struct weft__op *op, int64_t deadline)
{
    bool begun = false;
    for (;;) {
        int64_t result = begun ? weft__op_connect_result(op->fd) : weft__fd_perform(record, op);
        if (!would_block(op, result)) {
            return result;
        }
        begun = op->code == WEFT__OP_CONNECT;
        require_may_block(deadline);
        int err = poll_until(op->fd, (enum weft__side)op->side, deadline);
        if (err) {
            return err;
        }
    }
}

/* --- retrying, where there are no events -------------------------------------------------- */

/* 0: the time has passed. */
static int pause_until(int fd, int64_t until, const struct weft__wait_kind *kind)
{
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    enum weft__reason reason = weft__waiter_park(&waiter, until, kind, (uint64_t)(unsigned)fd);
    int err = weft__reason_errno(reason);
    return err == -ETIMEDOUT ? 0 : err;
}

/* The n-th pause of a call on this descriptor. 0: try again. */
static int pause_before_retry(const struct weft__fd *record, uint32_t generation, unsigned n,
                              int64_t deadline, const struct weft__wait_kind *kind)
{
    int64_t now = weft__clock_ns();
    int64_t pause = RETRY_FIRST_NS << (n < RETRY_DOUBLED ? n : RETRY_DOUBLED);
    if (deadline <= now) {
        return -ETIMEDOUT;
    }
    pause -= now % (pause / 2); /* jitter: waiters for the same event do not retry at the same
                                   moment */
    int err = pause_until(record->number, deadline - now > pause ? now + pause : deadline, kind);
    return err ? err : weft__fd_generation(record) != generation ? WEFT__CLOSED : 0;
}

static int64_t run_by_retrying(struct weft__fd *record, struct weft__op *op, int64_t deadline,
                               const struct weft__wait_kind *kind)
{
    uint32_t generation = weft__fd_generation(record);
    bool begun = false;
    for (unsigned n = 0;; n++) {
        int64_t result = !begun                                  ? weft__fd_perform(record, op)
                         : poll_until(op->fd, WEFT__SIDE_OUT, 0) ? -EINPROGRESS
                                                                 : weft__op_connect_result(op->fd);
        if (result != -EAGAIN && result != -EINPROGRESS) {
            return result;
        }
        begun = result == -EINPROGRESS;
        int err = pause_before_retry(record, generation, n, deadline, kind);
        if (err) {
            return err;
        }
    }
}

static int wait_by_retrying(const struct weft__fd *record, enum weft__side side, int64_t deadline,
                            const struct weft__wait_kind *kind)
{
    uint32_t generation = weft__fd_generation(record);
    for (unsigned n = 0;; n++) {
        int err = poll_until(record->number, side, 0);
        if (err != -ETIMEDOUT) {
            return err;
        }
        err = pause_before_retry(record, generation, n, deadline, kind);
        if (err) {
            return err;
        }
    }
}

/* The worker does its first I/O and has no descriptors left for its driver. That is not an error of
 * this call. */
static bool is_driver_exhausted(int err)
{
    return weft__is_fd_exhaustion(err);
}

int64_t weft__call_retry(struct weft__op *op, int64_t deadline, const struct weft__wait_kind *kind)
{
    struct weft__worker *w = weft__worker_self();
    int err = 0;
    struct weft__fd *record = weft__fd_use(op->fd, &err);
    if (!record) {
        return err;
    }
    if (!w || !weft__current(w)) {
        require_may_block(deadline);
    } else if (!weft__worker_driver(w, &err) && !is_driver_exhausted(err)) {
        return err;
    }
    return run_by_retrying(record, op, deadline, kind);
}

/* --- all kinds of calls -------------------------------------------------------------------- */

/* An operation that can be done at once does not wait: it succeeds in a cancelled fiber too, and
 * past the deadline. An operation that the driver would perform is tried here first. */
static bool try_first(const struct weft__fd *record, const struct weft__op *op, bool immediate)
{
    return weft__fd_must_perform(record, op) ||
           (immediate && op->code != WEFT__OP_CONNECT && op->code != WEFT__OP_READY);
}

/* System calls without a flag for non-blocking mode. */
static bool needs_nonblock(const struct weft__op *op)
{
    return op->code == WEFT__OP_ACCEPT || op->code == WEFT__OP_SENDFILE;
}

int64_t weft__call_run(struct weft__call *call, int64_t deadline,
                       const struct weft__wait_kind *kind)
{
    int err = 0;
    struct weft__fd *record = weft__fd_use(call->op.fd, &err);
    return record ? weft__call_run_on(record, call, deadline, kind) : err;
}

int64_t weft__call_run_on(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                          const struct weft__wait_kind *kind)
{
    struct weft__worker *w = weft__worker_self();
    int err = 0;
    if (needs_nonblock(&call->op) && (err = weft__fd_unblock(record)) != 0) {
        return err;
    }
    struct weft__task *task = w ? weft__current(w) : NULL;
    if (!task) {
        return run_on_thread(record, &call->op, deadline);
    }
    struct weft__driver *driver = weft__worker_driver(w, &err);
    if (!driver) {
        return is_driver_exhausted(err) ? run_by_retrying(record, &call->op, deadline, kind) : err;
    }
    if (!driver->kind->completes) {
        return run_by_readiness(record, &call->op, deadline, kind);
    }
    bool cancelled = (weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS) != 0;
    weft__deadline_check(deadline);
    bool expired = deadline != WEFT_FOREVER && deadline <= weft__clock_ns();
    if (try_first(record, &call->op, cancelled || expired)) {
        int64_t result = weft__fd_perform(record, &call->op);
        if (result != -EAGAIN || (expired && !cancelled)) {
            return result == -EAGAIN ? -ETIMEDOUT : result;
        }
    }
    return weft__call_complete(driver, call, deadline, kind);
}

int weft__call_wait(int fd, enum weft__side side, int64_t deadline,
                    const struct weft__wait_kind *kind)
{
    struct weft__worker *w = weft__worker_self();
    int err = 0;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    if (weft__fd_is(record, WEFT__FD_FILE)) {
        return 0;
    }
    if (!w || !weft__current(w)) {
        err = poll_until(fd, side, 0);
        if (err == -ETIMEDOUT) {
            require_may_block(deadline);
            err = poll_until(fd, side, deadline);
        }
        return err;
    }
    struct weft__driver *driver = weft__worker_driver(w, &err);
    if (!driver) {
        return is_driver_exhausted(err) ? wait_by_retrying(record, side, deadline, kind) : err;
    }
    struct weft__fd_snapshot seen = weft__call_observe(record, side);
    err = poll_until(fd, side, 0);
    if (err == -ETIMEDOUT && driver->kind->completes) {
        struct weft__call call;
        weft__op_init(&call.op, fd, WEFT__OP_READY, side);
        return (int)weft__call_complete(driver, &call, deadline, kind);
    }
    while (err == -ETIMEDOUT) {
        err = weft__call_wait_edge(record, side, seen, deadline, kind);
        if (err || weft__fd_generation(record) != seen.generation) {
            return err ? err : WEFT__CLOSED;
        }
        seen.edges = weft__fd_edges(&record->side[side]);
        err = poll_until(fd, side, 0); /* another reader or writer may have been faster */
    }
    return err;
}
