/* park and unpark: waits that are ended by naming the fiber. */
#include <errno.h>

#include "sched/handle.h"
#include "sched/ident.h"
#include "sched/waiter.h"
#include "sched/worker.h"

static const struct weft__wait_kind park_kind = {.name = "park"};

int weft_park(int64_t deadline)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? weft__current(w) : NULL;
    if (!self) {
        return -ENXIO;
    }
    for (;;) {
        if ((weft__ident_flags(self) & WEFT__IDENT_PERMIT) &&
            weft__ident_take(self, WEFT__IDENT_PERMIT)) {
            return 0;
        }
        struct weft__waiter waiter;
        weft__waiter_arm(&waiter, WEFT__WAIT_PARK);
        /* A permit that came before the ticket could be seen. pairs: weft_unpark sets, then
         * looks */
        if (!(weft__ident_flags(self) & WEFT__IDENT_PERMIT)) {
            bool known;
            enum weft__reason reason =
                weft__waiter_park_last(&waiter, deadline, &park_kind, 0, &known);
            int status = weft__reason_done(reason) ? 0 : weft__reason_errno(reason);
            return known ? status : weft__context_return(status);
        }
        enum weft__reason reason = weft__task_disarm(self);
        if (reason != WEFT__REASON_NONE) {
            return weft__reason_errno(reason);
        }
        /* Look again: it may be what an unpark that ended the last wait has not taken back yet. */
    }
}

int weft_unpark(weft_fiber fiber)
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
        weft__place(task);
    }
    return 0;
}
