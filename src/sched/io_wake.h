/* Waking the tasks whose waits io has returned (io/done.h): io's waiters are tasks.
 *
 * A worker that dispatches queues what it wakes after the tasks that are ready already
 * (sched/worker_io.c). Everybody else, who closes a descriptor, uses a batch:
 *
 *   struct weft__io_batch batch;
 *   weft__io_batch_init(&batch);
 *   weft__fd_forget(..., &batch.done);
 *   weft__io_batch_place(&batch);
 */
#ifndef WEFT_SCHED_IO_WAKE_H
#define WEFT_SCHED_IO_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/link.h"
#include "io/done.h"

struct weft__task;

static inline struct weft__io_waiter *weft__io_waiter_of(struct weft__task *task)
{
    return (struct weft__io_waiter *)(void *)task;
}

static inline struct weft__task *weft__io_waiter_task(struct weft__io_waiter *waiter)
{
    return (struct weft__task *)(void *)waiter;
}

/* End the wait with this ticket; a task to be queued is added to `ready`. False: the wait has ended
 * already. */
bool weft__io_waiter_fire(struct weft__io_waiter *waiter, uint64_t ticket,
                          struct weft__chain *ready);

#define WEFT__IO_BATCH 4 /* few: a batch is on the stack of a fiber */

struct weft__io_batch {
    struct weft__io_done done; /* first: done->consume converts */
    struct weft__chain ready;
    struct weft__io_wake wakes[WEFT__IO_BATCH];
};

/* Any thread. */
void weft__io_batch_init(struct weft__io_batch *batch);
/* Wake and queue them. */
void weft__io_batch_place(struct weft__io_batch *batch);

#endif
