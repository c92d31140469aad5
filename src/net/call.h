/* A call: one operation on a descriptor, and the fiber or thread that waits for it.
 *
 * On a driver that reports readiness the call is tried, waits, and is tried again. On one that
 * completes operations it is handed over, and the fiber does not return before it is over, since
 * the kernel uses its buffer: a deadline or a cancel asks the driver to end it and waits on. What
 * it has done by then counts.
 */
#ifndef WEFT_NET_CALL_H
#define WEFT_NET_CALL_H

#include <stdbool.h>

#include "io/edge.h"
#include "io/fd.h"
#include "io/op.h"
#include "net/ending.h"
#include "sched/switch.h"
#include "sched/waiter.h"

struct weft__call {
    struct weft__op op; /* on a driver that completes, `fiber` is the task */
};

/* The result of the operation; -ETIMEDOUT, -ECANCELED, -EINTR, WEFT__CLOSED, -EOPNOTSUPP. The
 * caller has initialised the operation and filled in what its code needs. */
int64_t weft__call_run(struct weft__call *call, int64_t deadline,
                       const struct weft__wait_kind *kind);
/* The same, of a descriptor whose record is known. */
int64_t weft__call_run_on(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                          const struct weft__wait_kind *kind);

/* What was seen of a descriptor before it was tried: a wait is for what comes after that. */
struct weft__seen {
    uint32_t generation, edges;
};

static inline struct weft__seen weft__call_see(const struct weft__fd *record, enum weft__side side)
{
    return (struct weft__seen){.generation = weft__fd_generation(record),
                               .edges = weft__fd_edges(&record->side[side])};
}

/* For a driver that reports readiness: waits until there may be an edge after `seen`. 0: try
 * again. */
int weft__call_wait_edge(struct weft__fd *record, enum weft__side side, struct weft__seen seen,
                         int64_t deadline, const struct weft__wait_kind *kind);
/* The parts of it that are not for nearly every message: no place in the record (`err` says why),
 * for the calling fiber, which is armed; it has ended otherwise. */
int weft__call_wait_listed(struct weft__fd *record, enum weft__side side, struct weft__seen seen,
                           int err, int64_t deadline, const struct weft__wait_kind *kind);
int weft__call_unwait(struct weft__fd *record, enum weft__side side, enum weft__reason reason);

/* The same by a fiber of this worker, which has a driver. The waiter is in registers, the wait in
 * the record: what it keeps on its stack is the caller's frame and that of the switch. */
static inline __attribute__((always_inline)) int
weft__call_wait_edge_on(struct weft__worker *w, struct weft__fd *record, enum weft__side side,
                        struct weft__seen seen, int64_t deadline,
                        const struct weft__wait_kind *kind)
{
    struct weft__driver *driver = atomic_load_explicit(&w->driver, memory_order_relaxed);
    struct weft__task *task = weft__current(w);
    unsigned how = WEFT__WAIT_OBJECT | WEFT__WAIT_OUTSIDE;
    uint64_t ticket = weft__task_arm(task, task->shields > 0 ? how | WEFT__WAIT_SHIELDED : how);
    int err = weft__fd_wait(record, side, seen.generation, seen.edges, driver, task, ticket);
    if (__builtin_expect(err != 0, 0)) {
        return weft__call_wait_listed(record, side, seen, err, deadline, kind);
    }
    enum weft__reason reason =
        weft__waiter_park_here(task, ticket, w, deadline, kind, (uint64_t)(unsigned)record->number);
    return __builtin_expect(weft__reason_done(reason), 1) ? 0
                                                          : weft__call_unwait(record, side, reason);
}

/* The same for what the kernel tells no event for when it could go on (-EAGAIN): it is tried again
 * after pauses that grow from a quarter of a millisecond to 64. */
int64_t weft__call_retry(struct weft__op *op, int64_t deadline, const struct weft__wait_kind *kind);

/* For a fiber, on a driver that completes operations: hands it over and waits until it is over. */
int64_t weft__call_complete(struct weft__driver *driver, struct weft__call *call, int64_t deadline,
                            const struct weft__wait_kind *kind);
/* The parts of it that are not for nearly every message: its wait has ended before it; its driver
 * has gone. */
int64_t weft__call_end(struct weft__driver *driver, struct weft__call *call, uint64_t ticket,
                       enum weft__reason reason, const struct weft__wait_kind *kind);
int64_t weft__call_complete_anew(struct weft__call *call, int64_t deadline,
                                 const struct weft__wait_kind *kind);
/* What its operation is given to be told. */
void weft__call_completed(struct weft__op *op, void *ready);

/* The same by a fiber of this worker. WEFT__MOVED: it is to begin anew. The fiber is armed before
 * the operation is handed over, so that there is one moment at which it may be woken. */
static inline __attribute__((always_inline)) int64_t
weft__call_complete_on(struct weft__worker *w, struct weft__driver *driver, struct weft__call *call,
                       int64_t deadline, const struct weft__wait_kind *kind)
{
    struct weft__task *task = weft__current(w);
    unsigned how = WEFT__WAIT_OBJECT | WEFT__WAIT_OUTSIDE;
    uint64_t ticket = weft__task_arm(task, task->shields > 0 ? how | WEFT__WAIT_SHIELDED : how);
    call->op.complete = weft__call_completed;
    call->op.fiber = task;
    weft__ending_init(&call->op.end, ticket);
    driver->kind->submit(driver, &call->op);
    enum weft__reason reason =
        weft__waiter_park_here(task, ticket, w, deadline, kind, (uint64_t)(unsigned)call->op.fd);
    return __builtin_expect(weft__reason_done(reason), 1)
               ? call->op.result
               : weft__call_end(driver, call, ticket, reason, kind);
}

/* Waits for one side of a descriptor. 0 or as above. */
int weft__call_wait(int fd, enum weft__side side, int64_t deadline,
                    const struct weft__wait_kind *kind);

#endif
