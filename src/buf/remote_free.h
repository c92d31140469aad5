/* Remote-free list: blocks that other threads return to the worker cache they came from. Many
 * producers, one consumer that takes all, and a closed state: a closed cache accepts nothing.
 *
 * A stack: producers push by compare-and-swap, the owner takes the whole stack by one exchange.
 * CLOSED is a value of the head that no push replaces; closing is one exchange too, so each block
 * is either in what the closer gets or is rejected, and then the producer frees it. No ABA: single
 * blocks are never popped. The order is irrelevant.
 */
#ifndef WEFT_BUF_REMOTE_FREE_H
#define WEFT_BUF_REMOTE_FREE_H

#include <stdbool.h>

#include <weft/buf.h>

#include "base/atomic.h"

struct weft__remote_free {
    _Atomic(weft_buf *) newest;
};

#define WEFT__REMOTE_FREE_CLOSED ((weft_buf *)1)

/* Also after a close, when the next owner starts. It publishes nothing, so it needs no ordering. */
static inline void weft__remote_free_open(struct weft__remote_free *remote_free)
{
    atomic_store_explicit(&remote_free->newest, NULL, memory_order_relaxed);
}

/* Any thread. False: closed, the block still belongs to the caller. */
static inline bool weft__remote_free_push(struct weft__remote_free *remote_free, weft_buf *block)
{
    weft_buf *newest = atomic_load_explicit(&remote_free->newest, memory_order_relaxed);
    do {
        if (newest == WEFT__REMOTE_FREE_CLOSED) {
            return false;
        }
        block->weft_next = newest;
        WEFT__STEP();
    } while (!atomic_compare_exchange_weak_explicit(
        &remote_free->newest, &newest, block,
        memory_order_release, /* pairs: weft__remote_free_drain, weft__remote_free_close */
        memory_order_relaxed));
    return true;
}

/* Owner only, while open: takes all blocks. */
static inline weft_buf *weft__remote_free_drain(struct weft__remote_free *remote_free)
{
    if (atomic_load_explicit(&remote_free->newest, memory_order_relaxed) == NULL) {
        return NULL;
    }
    return atomic_exchange_explicit(&remote_free->newest, NULL,
                                    memory_order_acquire); /* pairs: weft__remote_free_push */
}

/* Owner only: takes the last blocks. */
static inline weft_buf *weft__remote_free_close(struct weft__remote_free *remote_free)
{
    return atomic_exchange_explicit(&remote_free->newest, WEFT__REMOTE_FREE_CLOSED,
                                    memory_order_acquire); /* pairs: weft__remote_free_push */
}

#endif
