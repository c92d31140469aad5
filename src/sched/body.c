#include "sched/body.h"

#include "sched/deadline.h"
#include "sched/pool.h"

void weft__body_run(struct weft__worker *w, struct weft__task *task)
{
    enum weft__body_step step = weft__body_step(w, task);
    weft__body_steps_over(w);
    if (step == WEFT__BODY_WAIT) {
        if (!weft__waiter_settle(task)) {
            weft__worker_requeue(w, task, false);
        }
    } else if (step == WEFT__BODY_YIELD) {
        weft__task_requeue(task);
        weft__worker_requeue(w, task, true);
    }
    weft__count(&w->counters.executed, 1);
}

/* Its node; there is always one, or no memory. */
static struct weft__deadline *take_node(struct weft__worker *w)
{
    if (!w->deadlines.free) {
        weft__deadlines_fill(&w->deadlines);
    }
    return weft__deadline_take(&w->deadlines);
}

bool weft__body_park_any(struct weft__worker *w, struct weft__task *task, int64_t deadline)
{
    uint64_t ticket = task->claim.ticket;
    if (__builtin_expect(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS, 0)) {
        weft__waiter_look(task);
    }
    if (deadline == WEFT_FOREVER) {
        return !weft__task_fired(task);
    }
    if (deadline <= w->now) { /* else the wheel will find out */
        weft__task_fire(task, ticket, WEFT__REASON_TIMEOUT);
        return false;
    }
    if (weft__task_fired(task)) {
        return false;
    }
    struct weft__deadline *node = take_node(w);
    if (!node) {
        return false;
    }
    task->deadline = node;
    weft__deadline_begin(node, &w->wheel, task, ticket, deadline);
    return true;
}

enum weft__reason weft__body_waited_any(struct weft__worker *w, struct weft__task *task)
{
    enum weft__task_state state = weft__task_state(task);
    enum weft__reason reason = state == WEFT__TASK_ARMED || state == WEFT__TASK_FIRED
                                   ? weft__task_disarm(task)
                                   : weft__task_reason(task);
    struct weft__deadline *node = task->deadline;
    if (node) {
        task->deadline = NULL;
        if (reason != WEFT__REASON_TIMEOUT) {
            weft__wheel_cancel(node->wheel, &node->timer);
        }
        weft__deadline_give(&w->deadlines, node);
    }
    return reason;
}
