/* The completion of an operation against the waits of the fiber that owns it: one atomic word.
 *
 *   NO_WAITER  the fiber does not wait: its wait was ended by a deadline or a cancel, and it has
 *              requested the cancellation of the operation
 *   ticket     the fiber waits with this ticket, which the driver's thread fires at completion
 *   FINISHED   the operation is finished; the fiber may return, and its frame, which contains this
 *              word, may be gone
 *
 *   from       to         by
 *   ticket     NO_WAITER  the fiber, after its wait ended for another reason
 *   NO_WAITER  ticket     the fiber, which waits again
 *   any        FINISHED   the driver's thread, once: it touches nothing of the call after that. The
 *                         ticket that it then fires may be outdated, which has no effect.
 *
 * Usually the fiber is in its first wait, and the driver's thread ends that wait: then the fiber
 * knows from the wake reason that the operation is finished, and neither side reads the word again.
 * Only if that ticket could not be fired must the driver publish FINISHED, and in that case the
 * frame still exists, because the fiber has not been notified.
 */
#ifndef WEFT_NET_OP_STATE_H
#define WEFT_NET_OP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "io/fd.h"

/* Not tickets: those have 48 bits, and 0 is one of them when they wrap. */
#define WEFT__OP_STATE_FINISHED UINT64_MAX
#define WEFT__OP_STATE_NO_WAITER (UINT64_MAX - 1)

/* Called before the operation is submitted. */
static inline void weft__op_state_init(struct weft__op_state *state, uint64_t ticket)
{
    atomic_store_explicit(&state->word, ticket, memory_order_relaxed);
}

/* The operation is finished and its result is set. After this the call may be gone. */
static inline void weft__op_state_finish(struct weft__op_state *state, void *fiber, void *ready)
{
    uint64_t ticket = atomic_load_explicit(&state->word, memory_order_relaxed);
    if (__builtin_expect(
            ticket != WEFT__OP_STATE_NO_WAITER && weft__io_fire(fiber, ticket, NULL, ready), 1)) {
        return;
    }
    /* Release: the result. Acquire: that the fiber has armed this wait, or else the fire would
     * fail. pairs: weft__op_state_wait */
    ticket = atomic_exchange_explicit(&state->word, WEFT__OP_STATE_FINISHED, memory_order_acq_rel);
    if (ticket != WEFT__OP_STATE_NO_WAITER) {
        weft__io_fire(fiber, ticket, NULL, ready);
    }
}

/* The wait with this ticket ended for another reason. */
static inline void weft__op_state_stop_waiting(struct weft__op_state *state, uint64_t ticket)
{
    atomic_compare_exchange_strong_explicit(&state->word, &ticket, WEFT__OP_STATE_NO_WAITER,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Wait again. False: the operation is finished. */
static inline bool weft__op_state_wait(struct weft__op_state *state, uint64_t ticket)
{
    uint64_t none = WEFT__OP_STATE_NO_WAITER;
    return atomic_compare_exchange_strong_explicit(&state->word, &none, ticket,
                                                   memory_order_acq_rel,  /* pairs: finish */
                                                   memory_order_acquire); /* pairs: finish */
}

#endif
