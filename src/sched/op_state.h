/* The completion of an operation against the waits of the task that owns it: one atomic word, in
 * the operation.
 *
 *   NO_WAITER  the task does not wait: its wait was ended by a deadline or a cancel, and it has
 *              requested the cancellation of the operation
 *   ticket     the task waits with this ticket, which the driver's thread fires at completion
 *   FINISHED   the operation is finished; the task continues, and the memory of the operation, which
 *              contains this word, may be gone
 *   ABANDONED  the task has left for good: the driver's thread frees the operation
 *
 *   from       to         by
 *   ticket     NO_WAITER  the task, after its wait ended for another reason
 *   NO_WAITER  ticket     the task, which waits again
 *   NO_WAITER  ABANDONED  the task, once, which touches nothing of the operation after that
 *   any        FINISHED   the driver's thread, once: it touches nothing of the operation after that,
 *                         unless it was ABANDONED. The ticket that it then fires may be outdated,
 *                         which has no effect.
 *
 * Usually the task is in its first wait, and the driver's thread ends that wait: then the task knows
 * from the wake reason that the operation is finished, and neither side reads the word again. Only
 * if that ticket could not be fired must the driver publish FINISHED, and in that case the operation
 * still exists, because the task has not been notified.
 */
#ifndef WEFT_SCHED_OP_STATE_H
#define WEFT_SCHED_OP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"
#include "io/op.h"
#include "sched/io_wake.h"

/* Not tickets: those have 48 bits, and 0 is one of them when they wrap. */
#define WEFT__OP_STATE_FINISHED UINT64_MAX
#define WEFT__OP_STATE_NO_WAITER (UINT64_MAX - 1)
#define WEFT__OP_STATE_ABANDONED (UINT64_MAX - 2) /* the smallest of them */

/* Called before the operation is submitted. */
static inline void weft__op_state_init(struct weft__io_wait *wait, struct weft__io_waiter *waiter,
                                       uint64_t ticket)
{
    wait->waiter = waiter;
    atomic_store_explicit(&wait->word, ticket, memory_order_relaxed);
}

/* The operation is finished and its result is set. After this the operation may be gone; true: it
 * was abandoned, and the caller frees it. */
static inline bool weft__op_state_finish(struct weft__io_wait *wait, struct weft__chain *ready)
{
    struct weft__io_waiter *waiter = wait->waiter;
    uint64_t ticket = atomic_load_explicit(&wait->word, memory_order_relaxed);
    if (__builtin_expect(
            ticket < WEFT__OP_STATE_ABANDONED && weft__io_waiter_fire(waiter, ticket, ready), 1)) {
        return false;
    }
    /* Release: the result. Acquire: that the task has armed this wait, or else the fire would fail.
     * pairs: weft__op_state_wait, weft__op_state_abandon */
    ticket = atomic_exchange_explicit(&wait->word, WEFT__OP_STATE_FINISHED, memory_order_acq_rel);
    if (ticket < WEFT__OP_STATE_ABANDONED) {
        weft__io_waiter_fire(waiter, ticket, ready);
    }
    return ticket == WEFT__OP_STATE_ABANDONED;
}

/* The wait with this ticket ended for another reason. */
static inline void weft__op_state_stop_waiting(struct weft__io_wait *wait, uint64_t ticket)
{
    atomic_compare_exchange_strong_explicit(&wait->word, &ticket, WEFT__OP_STATE_NO_WAITER,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Wait again. False: the operation is finished. */
static inline bool weft__op_state_wait(struct weft__io_wait *wait, uint64_t ticket)
{
    uint64_t none = WEFT__OP_STATE_NO_WAITER;
    return atomic_compare_exchange_strong_explicit(&wait->word, &none, ticket,
                                                   memory_order_acq_rel,  /* pairs: finish */
                                                   memory_order_acquire); /* pairs: finish */
}

/* For a task that does not wait: whether the operation was finished without waking the task. */
static inline bool weft__op_state_is_finished(const struct weft__io_wait *wait)
{
    /* pairs: finish */
    return atomic_load_explicit(&wait->word, memory_order_acquire) == WEFT__OP_STATE_FINISHED;
}

/* For a task that does not wait: leave the operation, which is a struct weft__heap_op. False: it is
 * finished, and the caller frees it. */
static inline bool weft__op_state_abandon(struct weft__io_wait *wait)
{
    uint64_t none = WEFT__OP_STATE_NO_WAITER;
    return atomic_compare_exchange_strong_explicit(&wait->word, &none, WEFT__OP_STATE_ABANDONED,
                                                   memory_order_release,  /* pairs: finish */
                                                   memory_order_acquire); /* pairs: finish */
}

/* An operation that its task may abandon. */
struct weft__heap_op {
    struct weft__op op; /* must be first */
    void (*free)(struct weft__heap_op *op);
};

#endif
