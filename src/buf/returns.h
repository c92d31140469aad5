/* Remote-free list: blocks that other threads return to the worker cache they came from. Many
 * producers, one consumer that takes all, and a closed state: a closed cache accepts nothing.
 *
 * A stack: producers push by compare-and-swap, the owner takes the whole stack by one exchange.
 * CLOSED is a value of the head that no push replaces; closing is one exchange too, so each block
 * is either in what the closer gets or is rejected, and then the producer frees it. No ABA: single
 * blocks are never popped. The order is irrelevant.
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

/* Also after a close, when the next owner starts. It publishes nothing, so it needs no ordering. */
static inline void weft__returns_open(struct weft__returns *returns)
{
    atomic_store_explicit(&returns->newest, NULL, memory_order_relaxed);
}

/* Any thread. False: closed, the block still belongs to the caller. */
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

/* Owner only, while open: takes all blocks. */
static inline weft_buf *weft__returns_drain_local(struct weft__returns *returns)
{
    if (atomic_load_explicit(&returns->newest, memory_order_relaxed) == NULL) {
        return NULL;
    }
    return atomic_exchange_explicit(&returns->newest, NULL,
                                    memory_order_acquire); /* pairs: weft__returns_push_remote */
}

/* Owner only: takes the last blocks. */
static inline weft_buf *weft__returns_close(struct weft__returns *returns)
{
    return atomic_exchange_explicit(&returns->newest, WEFT__RETURNS_CLOSED,
                                    memory_order_acquire); /* pairs: weft__returns_push_remote */
}

#endif
