/* A waiter: one wait of a fiber, or of a plain thread, as a node in what it waits for.
 *
 * Every wait is arm, park, finish:
 *   arm     weft__waiter_arm, then link the node into the source under the source's lock;
 *   park    weft__waiter_park: suspends until somebody fires it, the deadline passes or a cancel comes;
 *   finish  unless it was fired by the source: unlink the node under the source's lock.
 * A source fires under its own lock and unlinks what it fires, so that after finish nothing touches
 * the node, which lives on the waiter's stack. No source knows what kind of body waits.
 */
#ifndef WEFT_SCHED_WAITER_H
#define WEFT_SCHED_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"
#include "sched/task.h"

struct weft__parker;

struct weft__waiter {
    struct weft__waiter *next; /* for the source's list */
    void *value;               /* what the source hands over */
    struct weft__task *task;   /* NULL: a plain thread */
    uint64_t ticket;
    _Atomic(uint32_t) word;      /* of a plain thread: 0, then the reason */
    struct weft__parker *parker; /* of a thread that serves as a worker while it waits; else NULL */
    _Atomic(uint32_t) *visitors; /* with it: of its pool, see weft__pool_visit */
};

void weft__waiter_arm(struct weft__waiter *waiter, enum weft__wait kind);
/* Arms for a worker's thread that goes on running its loop: `parker` is its own. */
void weft__waiter_arm_worker(struct weft__waiter *waiter, struct weft__parker *parker,
                             _Atomic(uint32_t) *visitors);

/* Under the source's lock. A fiber that must be queued goes to `ready`, for weft__place_chain once the lock
 * is dropped. False: the wait had ended for another reason; the node is dead to the source either way. */
bool weft__waiter_fire(struct weft__waiter *waiter, enum weft__reason reason, void *value,
                       struct weft__chain *ready);

/* Parks until the wait ends; says why. `what` and `on` are for dumps. */
enum weft__reason weft__waiter_park(struct weft__waiter *waiter, int64_t deadline, const char *what,
                                    uint64_t on);

/* 0, -ETIMEDOUT or -ECANCELED. */
int weft__reason_errno(enum weft__reason reason);

#endif
