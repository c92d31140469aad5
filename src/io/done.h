/* What a dispatch or a close has finished: returned to the caller, who wakes the owners. This
 * folder makes no upcalls and knows no fibers.
 *
 * Two kinds of results, because their memory differs:
 *
 *   wakes  waits for readiness. The owner may take such a wait back at any moment (a deadline), and
 *          its memory is then gone. So waiter and ticket are copied out under the record's lock,
 *          and the wake may be fired at any later time: a waiter is memory that stays valid, and a
 *          ticket whose wait has ended has no effect. Nothing is lost by that: the edge was counted
 *          before, so the owner's next try or wait sees the edge.
 *   ops    operations that a driver has completed. The owner does not leave before it is notified,
 *          so the operations themselves are linked, by `next`.
 *
 * The wakes are in an array of the caller, because a link in a waiter could be in use by another
 * source that fires the same wait. The number of waiters on one descriptor has no bound: if the
 * array is full, `consume` is called to empty it, possibly under a record's lock.
 */
#ifndef WEFT_IO_DONE_H
#define WEFT_IO_DONE_H

#include <stdint.h>

#include "io/op.h"

struct weft__io_wake {
    struct weft__io_waiter *waiter;
    uint64_t ticket;
    const struct weft__fd *record; /* the waiter reads it first: a prefetch hint, if a driver
                                      delivers an edge; else NULL */
};

struct weft__io_done {
    struct weft__io_wake *wakes, *next, *end; /* wakes .. next: filled; next .. end: free */
    struct weft__op *ops, **last_op;
    /* Fires the wakes and empties the array. Takes no lock under which I/O is done. */
    void (*consume)(struct weft__io_done *done);
    const struct weft__op_queue *own; /* the caller's queue: it need not be woken; or NULL */
};

static inline void weft__io_done_init(struct weft__io_done *done, struct weft__io_wake *wakes,
                                      unsigned n, void (*consume)(struct weft__io_done *done))
{
    done->wakes = done->next = wakes;
    done->end = wakes + n;
    done->ops = NULL;
    done->last_op = &done->ops;
    done->consume = consume;
    done->own = NULL;
}

static inline void weft__io_done_wake(struct weft__io_done *done, struct weft__io_waiter *waiter,
                                      uint64_t ticket, const struct weft__fd *record)
{
    if (__builtin_expect(done->next == done->end, 0)) {
        done->consume(done);
    }
    *done->next++ = (struct weft__io_wake){.waiter = waiter, .ticket = ticket, .record = record};
}

static inline void weft__io_done_op(struct weft__io_done *done, struct weft__op *op)
{
    op->next = NULL;
    *done->last_op = op;
    done->last_op = &op->next;
}

/* For a caller that is no scheduler, but may find waiters of one in a descriptor's record: a loop.
 * A scheduler registers how its waiters are woken, from any thread, before the first one waits. */
void weft__io_set_waker(void (*consume)(struct weft__io_done *done));
void weft__io_done_init_foreign(struct weft__io_done *done, struct weft__io_wake *wakes,
                                unsigned n);
/* Wake them. */
void weft__io_done_wake_foreign(struct weft__io_done *done);

#endif
