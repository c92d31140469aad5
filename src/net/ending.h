/* The end of an operation against the waits of the fiber that it belongs to: one word.
 *
 *   NONE     the fiber does not wait (its wait was ended by a deadline or a cancel, and it has
 *            asked for the end)
 *   ticket   it does: whoever ends the operation fires that
 *   OVER     the operation is over; the fiber may return, and its frame, in which this is, be gone
 *
 *   from      to       who
 *   ticket    NONE     the fiber, after its wait has ended otherwise
 *   NONE      ticket   the fiber, which waits once more
 *   any       OVER     the driver's thread, once: it touches nothing of the call after that. A
 *                      ticket that it fires may be an old one by then, and then nothing happens.
 *
 * Mostly the fiber is in its first wait, and the driver's thread wins that: then the fiber knows by
 * the reason that it is over, and nobody looks at the word any more. Only one that could not be
 * fired is still to be told, so its frame is still there.
 */
#ifndef WEFT_NET_ENDING_H
#define WEFT_NET_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "io/fd.h"

/* No tickets: those have 48 bits, and when they begin anew 0 is one of them. */
#define WEFT__ENDING_OVER UINT64_MAX
#define WEFT__ENDING_NONE (UINT64_MAX - 1)

/* Before the operation is handed over. */
static inline void weft__ending_init(struct weft__ending *ending, uint64_t ticket)
{
    atomic_store_explicit(&ending->word, ticket, memory_order_relaxed);
}

/* It is over, and its result is there. From here on the call may be gone. */
static inline void weft__ending_tell(struct weft__ending *ending, void *fiber, void *ready)
{
    uint64_t ticket = atomic_load_explicit(&ending->word, memory_order_relaxed);
    if (__builtin_expect(ticket != WEFT__ENDING_NONE && weft__io_fire(fiber, ticket, NULL, ready),
                         1)) {
        return;
    }
    /* Release: the result. Acquire: that the fiber has armed this wait, or the fire would fail.
     * pairs: wait */
    ticket = atomic_exchange_explicit(&ending->word, WEFT__ENDING_OVER, memory_order_acq_rel);
    if (ticket != WEFT__ENDING_NONE) {
        weft__io_fire(fiber, ticket, NULL, ready);
    }
}

/* The wait with this ticket has ended otherwise. */
static inline void weft__ending_leave(struct weft__ending *ending, uint64_t ticket)
{
    atomic_compare_exchange_strong_explicit(&ending->word, &ticket, WEFT__ENDING_NONE,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Waits once more. False: it is over. */
static inline bool weft__ending_wait(struct weft__ending *ending, uint64_t ticket)
{
    uint64_t none = WEFT__ENDING_NONE;
    return atomic_compare_exchange_strong_explicit(&ending->word, &none, ticket,
                                                   memory_order_acq_rel,  /* pairs: tell */
                                                   memory_order_acquire); /* pairs: tell */
}

#endif
