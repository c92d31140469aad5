#include "sched/stackless.h"

#include "base/clock.h"
#include "sched/group_deadline.h"
#include "sched/pool.h"
#include "task/deadline.h"

void weft__stackless_run(struct weft__worker *w, struct weft__task *task)
{
    atomic_store_explicit(&task->ran_on, w->index, memory_order_relaxed);
    enum weft__stackless_step step = weft__stackless_step(w, task);
    weft__stackless_clear_running(w);
    weft__reader_slot_settle(
        w->reader_slot); /* the next step may run on another thread, and unlock there */
    if (step == WEFT__STACKLESS_WAIT) {
        if (!weft__waiter_settle(task)) {
            weft__worker_requeue(w, task, false);
        }
    } else if (step == WEFT__STACKLESS_YIELD) {
        weft__task_requeue(task);
        weft__worker_requeue(w, task, true);
    }
    weft__count(&w->counters.executed, 1);
}

/* --- deadlines --------------------------------------------------------------------------- */

/* Returns a deadline node; NULL only without memory. */
static struct weft__deadline *take_node(struct weft__worker *w)
{
    if (!w->deadlines.free) {
        weft__deadlines_fill(&w->deadlines);
    }
    return weft__deadline_take(&w->deadlines);
}

/* For a dispatcher's stackless task: sets the deadline of this wait, reusing the pending timer if
 * that is not too late. Returns false without memory. */
static bool keep_deadline(struct weft__worker *w, struct weft__task *task, int64_t deadline)
{
    struct weft__deadline *node = task->deadline;
    if (!node) {
        node = take_node(w);
        if (!node) {
            return false;
        }
        task->deadline = node;
        node->task = task;
        weft__timer_init(&node->timer, weft__group_deadline_expire);
    }
    node->ticket = task->claim.ticket;
    node->until = deadline;
    if (!weft__timer_is_pending(&node->timer)) {
        weft__wheel_add(&w->wheel, &node->timer, deadline);
    } else if (deadline < node->timer.deadline) {
        weft__wheel_rearm(&w->wheel, &node->timer, deadline);
    }
    return true;
}

static bool begin_deadline(struct weft__worker *w, struct weft__task *task, int64_t deadline)
{
    struct weft__deadline *node = take_node(w);
    if (!node) {
        return false;
    }
    task->deadline = node;
    weft__deadline_begin(node, &w->wheel, task, task->claim.ticket, deadline);
    return true;
}

void weft__stackless_drop_deadline(struct weft__worker *w, struct weft__task *task)
{
    struct weft__deadline *node = task->deadline;
    task->deadline = NULL;
    weft__wheel_cancel(weft__deadline_is_kept(task) ? &w->wheel : node->wheel, &node->timer);
    weft__deadline_give(&w->deadlines, node);
}

/* --- waiting ------------------------------------------------------------------------------- */

bool weft__stackless_park_any(struct weft__worker *w, struct weft__task *task, int64_t deadline)
{
    weft__deadline_check(deadline);
    if (__builtin_expect(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS, 0) && deadline != 0) {
        weft__waiter_check_flags(task);
    }
    if (deadline == WEFT_FOREVER) {
        if (task->deadline) {
            weft__stackless_drop_deadline(w, task);
        }
        return !weft__task_is_fired(task);
    }
    if (deadline <= w->now) { /* else the wheel will find out */
        enum weft__fire fire = weft__task_fire(task, task->claim.ticket, WEFT__REASON_TIMEOUT);
        WEFT__DEBUG_ASSERT(fire != WEFT__FIRE_ENQUEUE); /* it is armed: the task itself checks */
        (void)fire;
        return false;
    }
    if (weft__task_is_fired(task)) {
        return false;
    }
    return weft__deadline_is_kept(task) ? keep_deadline(w, task, deadline)
                                        : begin_deadline(w, task, deadline);
}

enum weft__reason weft__stackless_wait_reason_any(struct weft__worker *w, struct weft__task *task)
{
    enum weft__task_state state = weft__task_state(task);
    enum weft__reason reason = state == WEFT__TASK_ARMED || state == WEFT__TASK_FIRED
                                   ? weft__task_disarm(task)
                                   : weft__task_reason(task);
    struct weft__deadline *node = task->deadline;
    if (node && !weft__deadline_is_kept(task)) {
        task->deadline = NULL;
        if (reason != WEFT__REASON_TIMEOUT) {
            weft__wheel_cancel(node->wheel, &node->timer);
        }
        weft__deadline_give(&w->deadlines, node);
    }
    return reason;
}
