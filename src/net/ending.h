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
#ifndef WEFT_NET_ENDING_H
#define WEFT_NET_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "io/fd.h"

/* Not tickets: those have 48 bits, and 0 is one of them when they wrap. */
#define WEFT__ENDING_OVER UINT64_MAX
#define WEFT__ENDING_NONE (UINT64_MAX - 1)

/* Called before the operation is submitted. */
static inline void weft__ending_init(struct weft__ending *ending, uint64_t ticket)
{
    atomic_store_explicit(&ending->word, ticket, memory_order_relaxed);
}

/* The operation is finished and its result is set. After this the call may be gone. */
static inline void weft__ending_tell(struct weft__ending *ending, void *fiber, void *ready)
{
    uint64_t ticket = atomic_load_explicit(&ending->word, memory_order_relaxed);
    if (__builtin_expect(ticket != WEFT__ENDING_NONE && weft__io_fire(fiber, ticket, NULL, ready),
                         1)) {
        return;
    }
    /* Release: the result. Acquire: that the fiber has armed this wait, or else the fire would
     * fail. pairs: weft__ending_wait */
    ticket = atomic_exchange_explicit(&ending->word, WEFT__ENDING_OVER, memory_order_acq_rel);
    if (ticket != WEFT__ENDING_NONE) {
        weft__io_fire(fiber, ticket, NULL, ready);
    }
}

/* The wait with this ticket ended for another reason. */
static inline void weft__ending_leave(struct weft__ending *ending, uint64_t ticket)
{
    atomic_compare_exchange_strong_explicit(&ending->word, &ticket, WEFT__ENDING_NONE,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Wait again. False: the operation is finished. */
static inline bool weft__ending_wait(struct weft__ending *ending, uint64_t ticket)
{
    uint64_t none = WEFT__ENDING_NONE;
    return atomic_compare_exchange_strong_explicit(&ending->word, &none, ticket,
                                                   memory_order_acq_rel,  /* pairs: tell */
                                                   memory_order_acquire); /* pairs: tell */
}

#endif
