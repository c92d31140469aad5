/* A connection at rest: a task without a stack, which waits until the client sends something.
 *
 *   begin      the turn's fiber makes the task, as its last act
 *   wait       with a driver that reports readiness: linked into the descriptor's record, without
 *              memory of its own; the record's edges say whether something has arrived since the
 *              last read. With a driver that completes operations: a one-shot poll; a pending
 *              receive would hold three times the memory in the kernel.
 *   take back  an interrupt or a cancel has ended the wait, but the driver still has the poll:
 *              cancels it, and waits until the driver has let go
 *   wake       starts the next turn on a fiber of this worker, and ends. The fiber gets the place
 *              of the task in a pool with a limit. Without memory for the fiber it tries again
 *              after a pause: the client waits, and nothing is lost.
 *
 * Whatever ends the rest, a turn follows, which finds out by itself: it reads bytes, or the end of
 * the input (a hang-up, or a socket that a timeout, an eviction or an abort has shut down), or sees
 * the stage of a stop. A wake in vain costs a turn that rests again.
 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "io/driver.h"
#include "io/edge.h"
#include "sched/io_wake.h"
#include "sched/op_state.h"
#include "sched/stackless.h"
#include "server/session.h"

#define RETRY_NS 20000000

enum state {
    BEGIN,
    LINKED,    /* in the descriptor's record */
    SUBMITTED, /* the driver has the poll */
    TAKEN_BACK,
    RETRY, /* there was no memory for the fiber */
};

static struct weft__session *session_of(const struct weft__task *task)
{
    return weft__stackless_data(task);
}

static void free_op(struct weft__session *session)
{
    if (session->op) {
        weft__record_free(&session->server->ops, session->op);
        session->op = NULL;
    }
}

static bool is_ready(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN | POLLRDHUP};
    return poll(&pfd, 1, 0) != 0; /* also on an error: the turn finds out */
}

/* The grace period of a stop may have ended since the turn's last look. An abort needs no look: it
 * shuts the socket down. */
static bool must_wake(const struct weft__session *session)
{
    return session->woken || session->called ||
           weft__stop_stage(session->server) == WEFT__STOP_IDLE;
}

/* --- wake ------------------------------------------------------------------------------------- */

static enum weft__stackless_step pause_before_retry(struct weft__worker *w, struct weft__task *task)
{
    weft__stackless_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL | WEFT__WAIT_SHIELDED);
    if (weft__stackless_park(w, task, weft__clock_ns() + RETRY_NS)) {
        return WEFT__STACKLESS_WAIT;
    }
    weft__stackless_wait_reason(w, task);
    return WEFT__STACKLESS_YIELD; /* there is no memory for the timer either */
}

static enum weft__stackless_step wake(struct weft__worker *w, struct weft__task *task)
{
    struct weft__session *session = session_of(task);
    free_op(session);
    weft__session_enter_busy(session);
    if (weft__session_start_turn(session) != 0) {
        session->rest_state = RETRY;
        return pause_before_retry(w, task);
    }
    weft__shard_count(&weft__session_shard(session)->wakes, 1);
    weft__stackless_end(w, task, NULL, 0);
    return WEFT__STACKLESS_END;
}

/* --- wait ------------------------------------------------------------------------------------- */

/* Returns false if the wait is over already. */
static bool link_wait(struct weft__worker *w, struct weft__task *task, struct weft__driver *driver)
{
    struct weft__session *session = session_of(task);
    struct weft__fd *record = weft__fd_record(session->fd);
    struct weft__fd_side *side = &record->side[WEFT__SIDE_IN];
    uint32_t generation = weft__fd_generation(record), edges = weft__fd_edges(side);
    if (!weft__fd_is_empty_at(side, edges) && is_ready(session->fd)) {
        return false;
    }
    weft__stackless_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    int err = weft__fd_wait(record, WEFT__SIDE_IN, generation, edges, driver,
                            weft__io_waiter_of(task), task->claim.ticket);
    if (!err && weft__stackless_park(w, task, WEFT_FOREVER)) {
        session->rest_state = LINKED;
        return true;
    }
    weft__stackless_wait_reason(w, task);
    if (!err) {
        weft__fd_cancel_wait(record, WEFT__SIDE_IN, weft__io_waiter_of(task), task->claim.ticket,
                             driver);
    }
    return false; /* an edge came in between, or there is no memory */
}

static enum weft__stackless_step take_back(struct weft__worker *w, struct weft__task *task);

static enum weft__stackless_step submit(struct weft__worker *w, struct weft__task *task,
                                        struct weft__driver *driver)
{
    struct weft__session *session = session_of(task);
    weft__op_init(session->op, session->fd, WEFT__OP_READY, WEFT__SIDE_IN);
    weft__stackless_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    weft__op_state_init(&session->op->wait, weft__io_waiter_of(task), task->claim.ticket);
    if (!driver->kind->submit(driver, session->op)) {
        weft__stackless_wait_reason(w, task);
        return wake(w, task);
    }
    if (weft__stackless_park(w, task, WEFT_FOREVER)) {
        session->rest_state = SUBMITTED;
        return WEFT__STACKLESS_WAIT;
    }
    return weft__reason_is_done(weft__stackless_wait_reason(w, task)) ? wake(w, task)
                                                                      : take_back(w, task);
}

/* The poll belongs to the driver until it is finished. */
static enum weft__stackless_step take_back(struct weft__worker *w, struct weft__task *task)
{
    struct weft__session *session = session_of(task);
    struct weft__op *op = session->op;
    weft__op_state_stop_waiting(&op->wait, task->claim.ticket);
    if (weft__op_state_is_finished(&op->wait)) {
        return wake(w, task);
    }
    weft__driver_request_cancel(op->driver, op);
    weft__stackless_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL | WEFT__WAIT_SHIELDED |
                                  WEFT__WAIT_UNABORTABLE);
    if (weft__op_state_wait(&op->wait, task->claim.ticket) &&
        weft__stackless_park(w, task, WEFT_FOREVER)) {
        session->rest_state = TAKEN_BACK;
        return WEFT__STACKLESS_WAIT;
    }
    weft__stackless_wait_reason(w, task);
    return wake(w, task);
}

static enum weft__stackless_step begin(struct weft__worker *w, struct weft__task *task)
{
    struct weft__session *session = session_of(task);
    int err = 0;
    struct weft__driver *driver = weft__worker_driver(w, &err);
    if (!driver || must_wake(session)) {
        return wake(w, task);
    }
    if (driver->kind->completes) {
        return session->op ? submit(w, task, driver) : wake(w, task);
    }
    return link_wait(w, task, driver) ? WEFT__STACKLESS_WAIT : wake(w, task);
}

static enum weft__stackless_step step(struct weft__worker *w, struct weft__task *task)
{
    struct weft__session *session = session_of(task);
    if (session->rest_state == BEGIN) {
        return begin(w, task);
    }
    bool done = weft__reason_is_done(weft__stackless_wait_reason(w, task));
    if (session->rest_state == LINKED && !done) {
        weft__fd_cancel_wait(weft__fd_record(session->fd), WEFT__SIDE_IN, weft__io_waiter_of(task),
                             task->claim.ticket, weft__worker_peek_driver(w));
    }
    return session->rest_state == SUBMITTED && !done ? take_back(w, task) : wake(w, task);
}

/* --- inspection ------------------------------------------------------------------------------- */

static const struct weft__wait_kind rest_kind = {.name = "rest", .descriptor = true};

static struct weft__wait_info waits(const struct weft__task *task)
{
    struct weft__session *session = session_of(task);
    return (struct weft__wait_info){
        .kind = &rest_kind,
        .on = (uint64_t)(unsigned)session->fd,
        .since = atomic_load_explicit(&session->since, memory_order_relaxed)};
}

static int no_frames(const struct weft__task *task, void **out, int max)
{
    (void)task, (void)out, (void)max;
    return 0;
}

static const struct weft__stackless_kind kind = {
    .what = "connection at rest",
    .step = step,
    .waits = waits,
    .trace = no_frames,
};

/* --- begin ------------------------------------------------------------------------------------ */

bool weft__session_rest(struct weft__session *session)
{
    struct weft__server *server = session->server;
    struct weft__worker *w = weft__worker_self();
    const struct weft__driver *driver = weft__worker_peek_driver(w);
    weft_fiber owner;
    int err;
    if (driver && driver->kind->completes) {
        session->op = weft__record_alloc(&server->ops);
        if (!session->op) {
            return false;
        }
    }
    struct weft__task *task =
        weft__stackless_make(server->pool, &kind, session,
                             &(struct weft__stackless_opts){
                                 .name = weft__session_name(session),
                                 .detached = true,
                                 .bound = true,
                                 .worker = session->worker,
                                 .is_successor = true, /* of the turn's fiber */
                             },
                             &err);
    if (!task) {
        free_op(session);
        return false;
    }
    session->rest_state = BEGIN;
    session->rest_due = false;
    weft__shard_count(&weft__session_shard(session)->rests, 1);
    weft__session_enter_rest(session);
    weft__stackless_start(task, &owner, false);
    weft__session_set_owner(session, owner); /* the task runs on this thread: not yet */
    return true;
}
