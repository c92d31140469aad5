/* Timer nodes for the deadlines of waits.
 *
 * A wheel visits its nodes when they cascade and when they expire. On the waiters' stacks every
 * node would be on a page of its own, and each visit a walk through cold page tables. So nodes
 * come from arrays: each worker keeps a free list, takes a node when a wait begins and returns one
 * when a wait ends, whichever worker it came from. The free list is filled on the base context. A
 * wait that finds the list empty uses a node on its stack instead, so this cannot fail.
 *
 * A dispatcher's stackless task keeps its node, and its timer in the wheel, from one wait with a
 * deadline to the next: usually a wait ends before its deadline and the next deadline is later, so
 * that the wheel need not change. The timer then expires too early and is postponed to the
 * deadline of the current wait (sched/group_deadline.c). The first wait without a deadline, or the
 * task's end, cancels the timer: a task that waits without a deadline has no timer, and every
 * timer in a wheel has a task that waits for it or runs.
 *
 * The arrays are never freed; a worker that leaves gives its nodes to a shared list for later
 * workers. */
#ifndef WEFT_TASK_DEADLINE_H
#define WEFT_TASK_DEADLINE_H

#include <stdint.h>

#include "task/task.h"
#include "time/wheel.h"

/* In the wheel of the worker on which the wait began. */
struct weft__deadline {
    struct weft__timer timer; /* first: the timer is the deadline; `next` while it is free */
    struct weft__task *task;
    uint64_t ticket;
    union {
        struct weft__wheel *wheel;
        int64_t until; /* of a kept node: not earlier than the timer's deadline, if the timer is
                        * pending */
    };
};

/* One worker's free list. */
struct weft__deadlines {
    struct weft__deadline *free;
    uint32_t count;
};

#define WEFT__DEADLINES_LOW 128u /* enough for the waits between two ticks */
#define WEFT__DEADLINES_HIGH                                                                       \
    (256u * 1024) /* other workers may need them: waits may end on another worker */

static inline struct weft__deadline *weft__deadline_take(struct weft__deadlines *list)
{
    struct weft__deadline *deadline = list->free;
    if (deadline) {
        list->free = (struct weft__deadline *)(void *)deadline->timer.next;
        __builtin_prefetch(list->free, 1); /* for the next caller, which would wait for its line */
        list->count--;
    }
    return deadline;
}

static inline void weft__deadline_give(struct weft__deadlines *list,
                                       struct weft__deadline *deadline)
{
    deadline->timer.next = list->free ? &list->free->timer : NULL;
    list->free = deadline;
    list->count++;
}

/* Does the task's node outlive a wait? */
static inline bool weft__deadline_is_kept(const struct weft__task *task)
{
    return (task->flags & WEFT__TASK_GROUPED) && weft__task_is_stackless(task);
}

/* Ends the wait with this ticket at the deadline, unless the node's timer is cancelled. */
void weft__deadline_begin(struct weft__deadline *node, struct weft__wheel *wheel,
                          struct weft__task *task, uint64_t ticket, int64_t deadline);
/* A callback for weft__timer_init: lists the deadline of a dispatcher's task. `arg` is the struct
 * weft__firing. */
void weft__group_deadline_expire(struct weft__timer *timer, void *arg);

void weft__deadlines_fill(struct weft__deadlines *list);
/* Returns up to n nodes to the shared list. */
void weft__deadlines_return(struct weft__deadlines *list, unsigned n);

/* Around a fork: the shared list is consistent in the child. */
void weft__deadlines_fork_prepare(void);
void weft__deadlines_fork_done(void);

/* At each tick, on the base context. */
static inline void weft__deadlines_balance(struct weft__deadlines *list)
{
    if (list->count < WEFT__DEADLINES_LOW) {
        weft__deadlines_fill(list);
    } else if (list->count > WEFT__DEADLINES_HIGH) {
        weft__deadlines_return(list, WEFT__DEADLINES_LOW);
    }
}

#endif
