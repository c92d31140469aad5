/* A call: one operation on a descriptor, and the fiber or thread that waits for it.
 *
 * On a driver that reports readiness, the operation is tried; if it would block, the caller waits
 * and tries again. On a driver that completes operations, the operation is submitted, and the fiber
 * does not return before it is finished, because the kernel uses the fiber's buffer: at a deadline
 * or a cancel the fiber asks the driver to cancel the operation and keeps waiting. If the operation
 * was done by then, its result counts.
 */
#ifndef WEFT_FDIO_CALL_H
#define WEFT_FDIO_CALL_H

#include <stdbool.h>

#include "io/edge.h"
#include "io/fd.h"
#include "io/op.h"
#include "sched/io_wake.h"
#include "sched/op_state.h"
#include "sched/switch.h"
#include "wait/waiter.h"

struct weft__call {
    struct weft__op op;
};

/* Run an operation. The caller has initialised it and set the fields of its code. Returns the
 * result of the operation; -ETIMEDOUT, -ECANCELED, -EINTR, WEFT__CLOSED, -EOPNOTSUPP. */
int64_t weft__call_run(struct weft__call *call, int64_t deadline,
                       const struct weft__wait_kind *kind);
/* As weft__call_run, for a descriptor whose record is known. */
int64_t weft__call_run_on(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                          const struct weft__wait_kind *kind);

/* The state of a descriptor before a try: the wait is for an event after it. */
struct weft__fd_snapshot {
    uint32_t generation, edges;
};

static inline struct weft__fd_snapshot weft__call_observe(const struct weft__fd *record,
                                                          enum weft__side side)
{
    return (struct weft__fd_snapshot){.generation = weft__fd_generation(record),
                                      .edges = weft__fd_edges(&record->side[side])};
}

/* For a driver that reports readiness: wait until there may be an edge after `seen`. 0: try
 * again. */
int weft__call_wait_edge(struct weft__fd *record, enum weft__side side,
                         struct weft__fd_snapshot seen, int64_t deadline,
                         const struct weft__wait_kind *kind);
/* Slow paths of weft__call_wait_edge: the slot in the record is not available (`err` says why) to
 * the calling fiber, which is armed; the wait ended without an edge. */
int weft__call_wait_listed(struct weft__fd *record, enum weft__side side,
                           struct weft__fd_snapshot seen, int err, int64_t deadline,
                           const struct weft__wait_kind *kind);
int weft__call_cancel_wait(struct weft__fd *record, enum weft__side side, enum weft__reason reason);

/* As weft__call_wait_edge, for a fiber of this worker, which has a driver. The waiter is kept in
 * registers and the wait in the record: on the stack there are only the caller's frame and that of
 * the context switch. */
static inline __attribute__((always_inline)) int
weft__call_wait_edge_on(struct weft__worker *w, struct weft__fd *record, enum weft__side side,
                        struct weft__fd_snapshot seen, int64_t deadline,
                        const struct weft__wait_kind *kind)
{
    struct weft__driver *driver = atomic_load_explicit(&w->driver, memory_order_relaxed);
    struct weft__task *task = weft__current(w);
    unsigned how = WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL;
    uint64_t ticket = weft__task_arm(task, task->shields > 0 ? how | WEFT__WAIT_SHIELDED : how);
    int err = weft__fd_wait(record, side, seen.generation, seen.edges, driver,
                            weft__io_waiter_of(task), ticket);
    if (__builtin_expect(err != 0, 0)) {
        return weft__call_wait_listed(record, side, seen, err, deadline, kind);
    }
    enum weft__reason reason = weft__waiter_park_inline(task, ticket, w, deadline, kind,
                                                        (uint64_t)(unsigned)record->number);
    return __builtin_expect(weft__reason_is_done(reason), 1)
               ? 0
               : weft__call_cancel_wait(record, side, reason);
}

/* As weft__call_run, for an operation whose -EAGAIN is followed by no event: retry after pauses
 * that grow from a quarter of a millisecond to 64. */
int64_t weft__call_retry(struct weft__op *op, int64_t deadline, const struct weft__wait_kind *kind);

/* For a fiber, on a driver that completes operations: submit the operation and wait until it is
 * finished. */
int64_t weft__call_complete(struct weft__driver *driver, struct weft__call *call, int64_t deadline,
                            const struct weft__wait_kind *kind);
/* Slow paths of weft__call_complete: the wait ended before the operation; the descriptor was closed
 * before the operation was submitted, and the calling fiber is armed; the driver has stopped. */
int64_t weft__call_abort(struct weft__driver *driver, struct weft__call *call, uint64_t ticket,
                         enum weft__reason reason, const struct weft__wait_kind *kind);
int64_t weft__call_refused(void);
int64_t weft__call_resubmit(struct weft__call *call, int64_t deadline,
                            const struct weft__wait_kind *kind);

/* As weft__call_complete, for a fiber of this worker. WEFT__RESUBMIT: submit again. The fiber is
 * armed before the operation is submitted, so that there is only one point at which it may be
 * woken. */
static inline __attribute__((always_inline)) int64_t
weft__call_complete_on(struct weft__worker *w, struct weft__driver *driver, struct weft__call *call,
                       int64_t deadline, const struct weft__wait_kind *kind)
{
    struct weft__task *task = weft__current(w);
    unsigned how = WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL;
    uint64_t ticket = weft__task_arm(task, task->shields > 0 ? how | WEFT__WAIT_SHIELDED : how);
    weft__op_state_init(&call->op.wait, weft__io_waiter_of(task), ticket);
    if (__builtin_expect(!driver->kind->submit(driver, &call->op), 0)) {
        return weft__call_refused();
    }
    enum weft__reason reason =
        weft__waiter_park_inline(task, ticket, w, deadline, kind, (uint64_t)(unsigned)call->op.fd);
    return __builtin_expect(weft__reason_is_done(reason), 1)
               ? call->op.result
               : weft__call_abort(driver, call, ticket, reason, kind);
}

/* Wait for readiness of one side of a descriptor. Returns 0 or an error as weft__call_run. */
int weft__call_wait(int fd, enum weft__side side, int64_t deadline,
                    const struct weft__wait_kind *kind);

#endif
