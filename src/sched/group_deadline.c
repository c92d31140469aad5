#include "sched/group_deadline.h"

#include "sched/group_scheduler.h"
#include "sched/stackless.h"
#include "task/deadline.h"

void weft__group_deadline_expire(struct weft__timer *timer, void *arg)
{
    struct weft__firing *firing = arg;
    const struct weft__task *task = ((struct weft__deadline *)(void *)timer)->task;
    __builtin_prefetch(task, 1);
    __builtin_prefetch((const char *)task + WEFT__CACHE_LINE, 1);
    timer->next = NULL;
    *(firing->due ? &firing->due_last->next : &firing->due) = timer;
    firing->due_last = timer;
}

/* A stackless task keeps its timer from an earlier wait (task/deadline.h). The timer may be too
 * early for the current wait, and is then postponed, if the task is still in that wait. */
static bool is_early(const struct weft__deadline *node, int64_t now)
{
    return weft__deadline_is_kept(node->task) && node->until > now;
}

static bool is_awaited(const struct weft__deadline *node)
{
    uint64_t ticket;
    unsigned kind;
    return weft__task_ticket(node->task, &ticket, &kind) && ticket == node->ticket;
}

static void fire(struct weft__worker *w, const struct weft__deadline *node)
{
    struct weft__task *task = node->task;
    if (weft__task_fire(task, node->ticket, WEFT__REASON_TIMEOUT) == WEFT__FIRE_ENQUEUE) {
        weft__stackless_prefetch(task);
        WEFT__TRACE(w, WEFT__TRACE_WAKE, weft__task_handle(task));
        weft__group_sched_wake(w->group_sched, task, WEFT__BACK);
    }
}

void weft__group_deadline_fire(struct weft__wheel *wheel, struct weft__firing *firing)
{
    struct weft__worker *w = firing->run.worker;
    struct weft__timer *timer = firing->due;
    firing->due = NULL;
    while (timer) {
        struct weft__deadline *node = (struct weft__deadline *)(void *)timer;
        timer = timer->next; /* once fired, the node may belong to another task */
        if (!is_early(node, w->now)) {
            fire(w, node);
        } else if (is_awaited(node)) {
            weft__wheel_add(wheel, &node->timer, node->until);
        }
    }
}
