/* park and unpark: waits that another thread ends by naming the fiber. */
#include <errno.h>

#include "task/fork.h"
#include "task/handle.h"
#include "task/ident.h"
#include "wait/waiter.h"
#include "worker/worker.h"

static const struct weft__wait_kind park_kind = {.name = "park"};

/* The park did not end by a plain unpark. */
static __attribute__((noinline)) int finish_park(enum weft__reason reason)
{
    if (reason == WEFT__REASON_MIGRATE) {
        weft__migrate_to_target();
    }
    return weft__reason_errno(reason);
}

static inline int status_of(enum weft__reason reason)
{
    return __builtin_expect(reason == WEFT__REASON_DONE, 1) ? 0 : finish_park(reason);
}

int weft_fiber_park(int64_t deadline)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? weft__current(w) : NULL;
    if (!self) {
        weft__fork_check_fiber("weft_fiber_park");
        return -ENXIO;
    }
    for (;;) {
        if ((weft__ident_flags(self) & WEFT__IDENT_PERMIT) &&
            weft__ident_consume(self, WEFT__IDENT_PERMIT)) {
            return 0;
        }
        struct weft__waiter waiter;
        weft__waiter_arm(&waiter, WEFT__WAIT_PARK);
        /* A permit that was set before the ticket was visible. pairs: weft_fiber_unpark sets the
         * permit, then reads the ticket */
        if (!(weft__ident_flags(self) & WEFT__IDENT_PERMIT)) {
            bool known;
            enum weft__reason reason =
                weft__waiter_park_and_return(&waiter, deadline, &park_kind, 0, &known);
            int status = status_of(reason);
            return known ? status : weft__context_return(status);
        }
        enum weft__reason reason = weft__task_disarm(self);
        if (reason != WEFT__REASON_NONE) {
            return reason == WEFT__REASON_MIGRATE ? status_of(reason)
                                                  : weft__waiter_end_by(reason, &park_kind, 0);
        }
        /* Check again: the permit may belong to the unpark that ended the last wait and has not
         * taken it back yet. */
    }
}

int weft_fiber_unpark(weft_fiber fiber)
{
    uint64_t ident, ticket;
    unsigned kind;
    struct weft__task *task = weft__handle_lock_running(fiber, WEFT__IDENT_PERMIT, &ident);
    if (!task) {
        return -ESRCH;
    }
    enum weft__fire fire = WEFT__FIRE_LOST;
    if (weft__task_ticket(task, &ticket, &kind) &&
        (kind & ~WEFT__WAIT_SHIELDED) == WEFT__WAIT_PARK) {
        fire = weft__task_fire(task, ticket, WEFT__REASON_DONE);
    }
    if (fire != WEFT__FIRE_LOST) {
        ident &= ~(uint64_t)WEFT__IDENT_PERMIT; /* this wait has used it */
    }
    weft__ident_unlock(task, ident);
    if (fire == WEFT__FIRE_ENQUEUE) {
        weft__place(task, WEFT__BACK);
    }
    return 0;
}
