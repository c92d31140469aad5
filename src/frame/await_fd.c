/* Waiting for a descriptor. The driver needs an operation for this, which is too large for a frame:
 * it is allocated from the worker's small blocks and freed when the wait is over.
 *
 * With a readiness driver (epoll), the operation is linked into the descriptor's record. An edge
 * means that data may have arrived; poll() checks whether the descriptor is ready, and if it is not
 * there is another round. With a completion driver (io_uring), the operation is submitted and
 * belongs to the driver until it completes: a wait that ends earlier requests the cancellation of
 * the operation and continues for one more round that nothing else ends (sched/op_state.h).
 */
#include <errno.h>
#include <poll.h>

#include "frame/frame.h"
#include "io/driver.h"
#include "sched/io_wake.h"
#include "sched/op_state.h"

struct ready {
    struct weft__heap_op heap; /* first: it is cast to this struct */
    struct weft__fd *record;
    struct weft__driver *driver; /* the driver that has the operation, if it is a completion
                                    driver */
    int64_t deadline;
    uint32_t generation, edges;
    int err;         /* the error of arming */
    int ended;       /* the error that ended the wait while the driver had the operation */
    uint64_t ticket; /* of the current wait */
    bool submitted;  /* the driver has the operation */
};

static struct ready *ready_of(const struct weft__await *wait)
{
    return wait->object;
}

static void free_op(struct ready *r)
{
    weft__small_put(weft__small_self(), weft__small_class(sizeof *r), r);
}

/* The state now: 0, -ETIMEDOUT or -EBADF. */
static int poll_now(const struct ready *r)
{
    struct pollfd pfd = {.fd = r->heap.op.fd,
                         .events = r->heap.op.side == WEFT__SIDE_IN ? POLLIN | POLLRDHUP : POLLOUT};
    int n;
    while ((n = poll(&pfd, 1, 0)) < 0 && errno == EINTR) {
    }
    return n == 0 ? -ETIMEDOUT : n < 0 ? -errno : pfd.revents & POLLNVAL ? -EBADF : 0;
}

static bool is_closed(const struct ready *r)
{
    return weft__fd_generation(r->record) != r->generation;
}

/* 0; -ETIMEDOUT if the fiber has to wait; or an error. Readiness that arrives after the check is a
 * new edge. */
static int check_ready(struct ready *r)
{
    r->edges = weft__fd_edges(&r->record->side[r->heap.op.side]);
    int status = r->err ? r->err : poll_now(r);
    return is_closed(r) ? WEFT__CLOSED : status;
}

/* An abandoned operation has completed. Called by the driver's thread. */
static void free_heap_op(struct weft__heap_op *heap)
{
    free_op((struct ready *)(void *)heap);
}

/* --- the wait --------------------------------------------------------------------------- */

static bool attempt_fd(struct weft__await *wait, struct weft_got *got, int *err)
{
    got->status = check_ready(ready_of(wait));
    if (got->status == -ETIMEDOUT) {
        return false;
    }
    *err = got->status == -ENOMEM ? -ENOMEM : 0;
    free_op(ready_of(wait));
    return true;
}

static bool link_op(struct ready *r, const struct weft__node *node, struct weft__driver *driver)
{
    r->ticket = node->waiter->ticket;
    weft__op_state_init(&r->heap.op.wait, weft__io_waiter_of(node->waiter->task), r->ticket);
    int err = weft__fd_link(r->record, &r->heap.op, r->generation, r->edges, driver);
    r->err = err == -EAGAIN ? 0 : err;
    return err == 0;
}

static bool submit_op(struct ready *r, const struct weft__node *node, struct weft__driver *driver)
{
    r->ticket = node->waiter->ticket;
    if (r->submitted) {
        return weft__op_state_wait(&r->heap.op.wait, r->ticket);
    }
    weft__op_state_init(&r->heap.op.wait, weft__io_waiter_of(node->waiter->task), r->ticket);
    r->driver = driver;
    r->submitted = driver->kind->submit(driver, &r->heap.op);
    r->err = r->submitted ? 0 : WEFT__CLOSED;
    return r->submitted;
}

static bool arm_fd(struct weft__await *wait)
{
    struct ready *r = ready_of(wait);
    int err = 0;
    struct weft__driver *driver =
        r->submitted ? r->driver : weft__worker_driver(weft__worker_self(), &err);
    if (!driver) {
        r->err = err;
        return false;
    }
    return driver->kind->completes ? submit_op(r, &wait->node, driver)
                                   : link_op(r, &wait->node, driver);
}

static void finish_fd(struct weft__await *wait)
{
    struct ready *r = ready_of(wait);
    if (r->submitted) {
        weft__op_state_stop_waiting(&r->heap.op.wait, r->ticket);
    } else {
        weft__fd_unlink(r->record, &r->heap.op, weft__worker_peek_driver(weft__worker_self()));
    }
}

/* The operation is finished if it has ended the wait, or after the wait had ended otherwise. */
static bool is_finished(const struct ready *r, enum weft__reason reason)
{
    return weft__reason_is_done(reason) || weft__op_state_is_finished(&r->heap.op.wait);
}

static int errno_of(enum weft__reason reason)
{
    return reason == WEFT__REASON_NONE ? -ENOMEM : weft__reason_errno(reason);
}

/* The operation belongs to the driver until it completes. -EINPROGRESS: it has not completed, and
 * the next round waits for that. */
static int end_submitted(struct ready *r, enum weft__reason reason, struct weft__await_round *next)
{
    if (!weft__reason_is_done(reason) && !r->ended) {
        r->ended = errno_of(reason);
    }
    if (!is_finished(r, reason)) {
        weft__driver_request_cancel(r->driver, &r->heap.op);
        next->how = WEFT__WAIT_OBJECT | WEFT__WAIT_SHIELDED | WEFT__WAIT_UNABORTABLE;
        next->deadline = WEFT_FOREVER;
        return -EINPROGRESS;
    }
    r->submitted = false;
    int result = (int)r->heap.op.result;
    if (r->ended && (result == -ECANCELED || result == WEFT__RESUBMIT)) {
        return r->ended;
    }
    if (r->ended == -EINTR) {
        weft_fiber_interrupt(weft_self()); /* it completed after all: the interrupt is for the next
                                        wait */
    }
    return result == WEFT__RESUBMIT ? -ETIMEDOUT : result;
}

static bool again_fd(struct weft__await *wait, enum weft__reason reason,
                     struct weft__await_round *next, struct weft_got *got, int *err)
{
    struct ready *r = ready_of(wait);
    int status = weft__reason_is_done(reason) ? 0 : errno_of(reason);
    bool over = status != 0;
    if (r->submitted) {
        status = end_submitted(r, reason, next);
        if (status == -EINPROGRESS) {
            return true;
        }
        over = r->ended || status != -ETIMEDOUT;
        status = over ? status : check_ready(r); /* the driver ended with its thread */
    } else if (!over) {
        status = r->heap.op.result ? (int)r->heap.op.result : check_ready(r);
    }
    if (!over && status == -ETIMEDOUT) {
        next->how = WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL;
        next->deadline = r->deadline;
        r->heap.op.result = 0;
        return true;
    }
    bool throws = status == -ECANCELED || status == -EINTR || status == -ENOMEM;
    *err = throws ? status : 0;
    got->status = throws ? 0 : status;
    free_op(r);
    return false;
}

static void abandon_fd(struct weft__await *wait, enum weft__reason reason)
{
    struct ready *r = ready_of(wait);
    bool left = false;
    if (r->submitted && !is_finished(r, reason)) {
        weft__driver_request_cancel(r->driver, &r->heap.op);
        left = weft__op_state_abandon(&r->heap.op.wait);
    }
    if (!left) {
        free_op(r);
    }
}

static const struct weft__await_kind fd_kind = {
    .wait_kind = {.name = "readiness", .descriptor = true},
    .attempt = attempt_fd,
    .arm = arm_fd,
    .finish = finish_fd,
    .again = again_fd,
    .abandon = abandon_fd,
};

enum weft_step weft_frame_await_fd(weft_frame *frame, struct weft_wait *wait, int fd, int events,
                                   int64_t deadline, const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = weft__await_begin(frame, &task);
    struct weft__await *a = weft__await_of(wait);
    if (!w) {
        return WEFT_SUSPEND;
    }
    *a = (struct weft__await){.kind = &fd_kind, .on = (uint64_t)(unsigned)fd};
    int err = events == WEFT_READABLE || events == WEFT_WRITABLE ? 0 : -EINVAL;
    struct weft__fd *record = err ? NULL : weft__fd_use(fd, &err);
    if (!record || weft__fd_is(record, WEFT__FD_FILE)) {
        return weft__frame_continue_with(frame, a, (struct weft_got){.status = err}, then);
    }
    struct ready *r = weft__small_get(&w->small, weft__small_class(sizeof *r), sizeof *r);
    if (!r) {
        return weft__await_throw(frame, WEFT__REASON_NONE, -ENOMEM, a, 0, then);
    }
    *r = (struct ready){.heap = {.free = free_heap_op},
                        .record = record,
                        .deadline = deadline,
                        .generation = weft__fd_generation(record)};
    weft__op_init(&r->heap.op, fd, WEFT__OP_READY,
                  events == WEFT_READABLE ? WEFT__SIDE_IN : WEFT__SIDE_OUT);
    a->object = r;
    return weft__await(w, task, frame, a, 1, deadline, then);
}
