/* Ending another fiber's wait: a cancel is a state until the fiber ends, an interrupt is one
 * event. A shield defers both while it is open. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "fiber/cancel.h"
#include "sched/stackless.h"
#include "task/fork.h"
#include "task/handle.h"
#include "task/ident.h"
#include "wait/waiter.h"
#include "worker/worker.h"

static bool can_end(unsigned kind, uint64_t flags)
{
    return !(kind & (flags & WEFT__IDENT_ABORT ? WEFT__WAIT_UNABORTABLE : WEFT__WAIT_SHIELDED));
}

/* Sets the flags and ends the fiber's current wait, if that may be ended. A fiber that arms a wait
 * later sees the flags. A fiber that must be queued is added to `ready` or, if that is NULL,
 * queued here. pairs: weft__waiter_park */
static int end_wait(weft_fiber fiber, uint64_t flags, enum weft__reason reason,
                    struct weft__chain *ready)
{
    uint64_t ident, ticket;
    unsigned kind;
    struct weft__task *task = weft__handle_lock_running(fiber, flags, &ident);
    if (!task) {
        return -ESRCH;
    }
    enum weft__fire fire = WEFT__FIRE_LOST;
    if (weft__task_ticket(task, &ticket, &kind) && can_end(kind, flags)) {
        fire = weft__task_fire(task, ticket, reason);
    }
    if (fire != WEFT__FIRE_LOST && reason == WEFT__REASON_INTERRUPT) {
        ident &= ~(uint64_t)WEFT__IDENT_INTERRUPT; /* delivered */
    }
    weft__ident_unlock(task, ident);
    if (fire == WEFT__FIRE_ENQUEUE) {
        if (ready) {
            weft__chain_push(ready, &task->link);
        } else {
            weft__place(task, WEFT__BACK);
        }
    }
    return 0;
}

int weft__cancel(weft_fiber fiber, uint64_t flags, struct weft__chain *ready)
{
    return end_wait(fiber, flags, WEFT__REASON_CANCEL, ready);
}

int weft_cancel(weft_fiber fiber)
{
    return weft__cancel(fiber, WEFT__IDENT_CANCEL, NULL);
}

int weft_fiber_interrupt(weft_fiber fiber)
{
    return end_wait(fiber, WEFT__IDENT_INTERRUPT, WEFT__REASON_INTERRUPT, NULL);
}

static struct weft__task *self(void)
{
    struct weft__worker *w = weft__worker_self();
    return w ? weft__running(w) : NULL;
}

bool weft_fiber_is_cancelled(void)
{
    struct weft__task *task = self();
    return task && (weft__ident_flags(task) & WEFT__IDENT_CANCEL);
}

/* While the lock is held the flag means nothing: the wait may have been ended, and the flag not
 * taken back yet. */
bool weft_fiber_is_interrupted(void)
{
    struct weft__task *task = self();
    uint64_t ident = task ? weft__ident_flags(task) : 0;
    for (unsigned spins = 0; ident & WEFT__IDENT_LOCK; spins++) {
        weft__ident_spin(spins);
        ident = weft__ident_flags(task);
    }
    return ident & WEFT__IDENT_INTERRUPT;
}

bool weft_fiber_clear_interrupt(void)
{
    struct weft__task *task = self();
    return task && weft__ident_consume(task, WEFT__IDENT_INTERRUPT);
}

void weft_fiber_shield_enter(void)
{
    struct weft__task *task = self();
    if (!task) {
        weft__fork_check_fiber("weft_fiber_shield_enter");
        WEFT__REQUIRE(false, "weft_fiber_shield_enter was called outside of a fiber");
    }
    task->shields++;
}

void weft_fiber_shield_leave(void)
{
    struct weft__task *task = self();
    if (!task) {
        weft__fork_check_fiber("weft_fiber_shield_leave");
    }
    WEFT__REQUIRE(task && task->shields > 0,
                  "weft_fiber_shield_leave without weft_fiber_shield_enter");
    task->shields--;
}

int weft_fiber_ended_wait(struct weft_fiber_ended_wait *out)
{
    struct weft__task *task = self();
    struct weft__ended ended = {0};
    if (task && weft__task_is_stackless(task)) {
        ended = task->stackless->ended ? task->stackless->ended(task) : ended;
    } else if (task) {
        ended = weft__task_rare(task)->ended;
    }
    if (!ended.kind) {
        return -ENOENT;
    }
    *out = (struct weft_fiber_ended_wait){.what = ended.kind->name, .others = ended.others};
    _Static_assert(sizeof out->name == sizeof ended.name, "a name is cut once");
    memcpy(out->name, ended.name, sizeof out->name);
    if (ended.kind->fiber) {
        out->fiber = ended.on;
    } else {
        out->object = (const void *)(uintptr_t)ended.on;
    }
    return 0;
}
