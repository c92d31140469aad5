/* Nodes for the deadlines of waits.
 *
 * A wheel walks its nodes when they cascade and when they expire. On the stacks of those who wait
 * every node would be a page of its own, and each look a walk through cold page tables. So they
 * come from arrays: each worker keeps a list of free ones, takes from it when a wait begins and
 * gives to it when it ends, whoever's they were. The list is filled on the base context. A wait
 * that finds it empty has a node on its stack instead: nothing here can fail.
 *
 * A body of a dispatcher keeps its node, and its timer in the wheel, from one wait with a deadline
 * to the next: mostly a wait ends before its deadline, and the next has a later one, so that
 * nothing is to be done in the wheel. The timer then comes too early, and is put off to what the
 * wait has (sched/due.c). It is taken back by the first wait without a deadline and by the body's
 * end: one that waits for ever has no timer, and a wheel with a timer has somebody who waits for it
 * or runs.
 *
 * The arrays are never freed; what a worker leaves behind goes to a common list for the next ones.
 */
#ifndef WEFT_SCHED_DEADLINE_H
#define WEFT_SCHED_DEADLINE_H

#include <stdint.h>

#include "sched/task.h"
#include "time/wheel.h"

/* In the wheel of the worker on which the wait began. */
struct weft__deadline {
    struct weft__timer timer; /* first: the timer is the deadline; `next` while it is free */
    struct weft__task *task;
    uint64_t ticket;
    union {
        struct weft__wheel *wheel;
        int64_t until; /* of one that is kept: not earlier than the timer's, if that is pending */
    };
};

/* Of one worker. */
struct weft__deadlines {
    struct weft__deadline *free;
    uint32_t count;
};

#define WEFT__DEADLINES_LOW 128u /* enough for the waits between two ticks */
#define WEFT__DEADLINES_HIGH                                                                       \
    (256u * 1024) /* others may need them: fibers that wait here may end there */

static inline struct weft__deadline *weft__deadline_take(struct weft__deadlines *list)
{
    struct weft__deadline *deadline = list->free;
    if (deadline) {
        list->free = (struct weft__deadline *)(void *)deadline->timer.next;
        __builtin_prefetch(list->free, 1); /* for the next, who would wait for its line */
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

/* Does its node outlive a wait? */
static inline bool weft__deadline_is_kept(const struct weft__task *task)
{
    return (task->flags & WEFT__TASK_GROUPED) && weft__task_is_body(task);
}

/* Ends the wait with this ticket at the deadline, unless the wheel cancels the node's timer. */
void weft__deadline_begin(struct weft__deadline *node, struct weft__wheel *wheel,
                          struct weft__task *task, uint64_t ticket, int64_t deadline);

void weft__deadlines_fill(struct weft__deadlines *list);
/* Gives up to n of them away. */
void weft__deadlines_leave(struct weft__deadlines *list, unsigned n);

/* Around a fork: the common list is whole in the child. */
void weft__deadlines_fork_prepare(void);
void weft__deadlines_fork_done(void);

/* At each tick, on the base context. */
static inline void weft__deadlines_balance(struct weft__deadlines *list)
{
    if (list->count < WEFT__DEADLINES_LOW) {
        weft__deadlines_fill(list);
    } else if (list->count > WEFT__DEADLINES_HIGH) {
        weft__deadlines_leave(list, WEFT__DEADLINES_LOW);
    }
}

#endif
