/* Returns: blocks that other threads hand back to the home they came from. Many producers, one
 * consumer that takes all, and an end: a home that is closed takes nothing any more.
 *
 * A stack: producers push by CAS, the owner takes the whole of it by one exchange. CLOSED is a
 * value of the head that no push goes over; closing is one exchange too, so each block is either in
 * what the closer gets or refused to its producer, who then frees it. No ABA: nobody pops single
 * blocks. The order is of no interest.
 */
#ifndef WEFT_BUF_RETURNS_H
#define WEFT_BUF_RETURNS_H

#include <stdbool.h>

#include <weft/buf.h>

#include "base/atomic.h"

struct weft__returns {
    _Atomic(weft_buf *) newest;
};

#define WEFT__RETURNS_CLOSED ((weft_buf *)1)

/* Also after a close: the next owner begins. Nobody is told by it, so it needs no order. */
static inline void weft__returns_open(struct weft__returns *returns)
{
    atomic_store_explicit(&returns->newest, NULL, memory_order_relaxed);
}

/* Any thread. False: closed, the block is still the caller's. */
static inline bool weft__returns_push_remote(struct weft__returns *returns, weft_buf *block)
{
    weft_buf *newest = atomic_load_explicit(&returns->newest, memory_order_relaxed);
    do {
        if (newest == WEFT__RETURNS_CLOSED) {
            return false;
        }
        block->weft_next = newest;
        WEFT__STEP();
    } while (!atomic_compare_exchange_weak_explicit(
        &returns->newest, &newest, block,
        memory_order_release, /* pairs: weft__returns_drain_local, weft__returns_close */
        memory_order_relaxed));
    return true;
}

/* Owner only, while open: everything there is. */
static inline weft_buf *weft__returns_drain_local(struct weft__returns *returns)
{
    if (atomic_load_explicit(&returns->newest, memory_order_relaxed) == NULL) {
        return NULL;
    }
    return atomic_exchange_explicit(&returns->newest, NULL,
                                    memory_order_acquire); /* pairs: weft__returns_push_remote */
}

/* Owner only: the last of it. */
static inline weft_buf *weft__returns_close(struct weft__returns *returns)
{
    return atomic_exchange_explicit(&returns->newest, WEFT__RETURNS_CLOSED,
                                    memory_order_acquire); /* pairs: weft__returns_push_remote */
}

#endif
