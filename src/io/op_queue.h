/* A queue of operations whose waits for readiness have ended: by an edge that the owner's own
 * dispatch has found, or by a close, which may come from another thread. The owner, a loop, takes
 * them all and handles them on its thread.
 */
#ifndef WEFT_IO_OP_QUEUE_H
#define WEFT_IO_OP_QUEUE_H

#include "io/driver.h"
#include "io/op.h"
#include "lock/lock.h"

struct weft__op_queue {
    struct weft__driver *driver; /* woken for operations that the owner has not found itself */
    struct weft__lock lock;
    struct weft__op *first, **last; /* under the lock */
};

static inline void weft__op_queue_init(struct weft__op_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

/* Any thread. `own`: this queue, if the caller takes the operation before it waits again. Else the
 * driver is woken, under the lock, because the queue may be gone after that. */
static inline void weft__op_queue_push(struct weft__op_queue *queue, struct weft__op *op,
                                       const struct weft__op_queue *own)
{
    weft__lock(&queue->lock);
    op->next = NULL;
    *queue->last = op;
    queue->last = &op->next;
    if (own != queue) {
        weft__driver_wake(queue->driver);
    }
    weft__unlock(&queue->lock);
}

/* The owner: take all, in order. */
static inline struct weft__op *weft__op_queue_take(struct weft__op_queue *queue)
{
    weft__lock(&queue->lock);
    struct weft__op *first = queue->first;
    weft__op_queue_init(queue);
    weft__unlock(&queue->lock);
    return first;
}

#endif
