/* The fresh queue: a worker's not-yet-started tasks. A Chase-Lev deque that grows.
 *
 *    top (thieves, CAS, one item each)                    bottom (owner)
 *     v                                                      v
 *   | oldest | ...                                | newest | free |
 *
 * The owner pushes and takes at the bottom, so trees of fibers run depth first; thieves, and the
 * owner in its fairness turns, take the oldest task at the top, which is the largest subtree.
 *
 * Why it is correct (Chase and Lev 2005; the orderings without fences, which TSan cannot see):
 * - take_newest stores bottom, then loads top; take_oldest loads top, then bottom, then CASes top.
 *   All four are seq_cst, so they have one total order S. If the owner's load of top missed a
 *   thief's CAS of index t, then the CAS, and so the thief's validation of top, is after the
 *   owner's store of bottom in S or the owner saw t already: for the last item both sides go
 *   through the CAS on top, and only one wins. With two or more items the owner does not touch
 *   the last contended one.
 * - A thief reads the item before its CAS, which succeeds only if top did not move; the owner
 *   reuses a slot only after top has passed it.
 * - Growing copies to a new buffer and keeps the old ones until deinit, so that a slow thief reads
 *   from the old buffer exactly the item it expects, which the owner no longer writes.
 * - Indices are 64 bits and never return to the same value within a thief's stall.
 *
 * A one-CAS batch steal is unsound here: the owner pops without CAS inside the thief's range.
 */
#ifndef WEFT_QUEUE_FRESH_H
#define WEFT_QUEUE_FRESH_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"

struct weft__fresh_buffer {
    uint64_t mask;
    struct weft__fresh_buffer *older; /* retired, freed with the queue */
    _Atomic(struct weft__link *) slots[];
};

struct weft__fresh {
    /* thieves, and the owner for the last item */
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) top;
    /* written by the owner, read by any thread */
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) bottom;
    _Atomic(struct weft__fresh_buffer *) buffer;
    uint64_t top_seen; /* owner only: an earlier value of top; avoids reading the shared line */
    bool no_thieves;   /* no thieves, and no worker to wake: program order is enough */
};

/* slots: the initial capacity, a power of two >= 2. first: where indices start. -ENOMEM. */
int weft__fresh_init(struct weft__fresh *fresh, uint64_t slots, uint64_t first);
void weft__fresh_deinit(struct weft__fresh *fresh);

/* Any thread; exact only for the owner when no thief is active. */
static inline uint64_t weft__fresh_length(const struct weft__fresh *fresh)
{
    uint64_t top = atomic_load_explicit(&fresh->top, memory_order_seq_cst);
    uint64_t bottom = atomic_load_explicit(&fresh->bottom, memory_order_seq_cst);
    return (int64_t)(bottom - top) > 0 ? bottom - top : 0;
}

/* Owner only, slow path of push: makes room for one more item. -ENOMEM. */
int weft__fresh_make_room_local(struct weft__fresh *fresh);

/* Owner only. -ENOMEM: full and cannot grow; the caller then uses the global queue. The store of
 * bottom is seq_cst because a spawner next checks for a parked worker (idle/idle.h). */
static inline int weft__fresh_push_local(struct weft__fresh *fresh, struct weft__link *item)
{
    uint64_t bottom = atomic_load_explicit(&fresh->bottom, memory_order_relaxed);
    struct weft__fresh_buffer *buffer = atomic_load_explicit(&fresh->buffer, memory_order_relaxed);
    if (bottom - fresh->top_seen > buffer->mask) {
        int err = weft__fresh_make_room_local(fresh);
        if (err) {
            return err;
        }
        buffer = atomic_load_explicit(&fresh->buffer, memory_order_relaxed);
    }
    atomic_store_explicit(&buffer->slots[bottom & buffer->mask], item, memory_order_relaxed);
    WEFT__STEP();
    if (fresh->no_thieves) {
        atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_release);
        return 0;
    }
    atomic_store_explicit(&fresh->bottom, bottom + 1,
                          memory_order_seq_cst); /* pairs: take_oldest */
    return 0;
}

/* Owner only: takes the newest item; NULL: empty. */
static inline struct weft__link *weft__fresh_take_newest_local(struct weft__fresh *fresh)
{
    uint64_t bottom = atomic_load_explicit(&fresh->bottom, memory_order_relaxed);
    if (bottom == fresh->top_seen) {
        return NULL; /* top_seen <= top <= bottom: empty, without reading the thieves' line */
    }
    bottom--;
    struct weft__fresh_buffer *buffer = atomic_load_explicit(&fresh->buffer, memory_order_relaxed);
    if (fresh->no_thieves) {
        if (bottom + 1 == atomic_load_explicit(&fresh->top, memory_order_relaxed)) {
            fresh->top_seen = bottom + 1;
            return NULL;
        }
        atomic_store_explicit(&fresh->bottom, bottom, memory_order_relaxed);
        return atomic_load_explicit(&buffer->slots[bottom & buffer->mask], memory_order_relaxed);
    }
    atomic_store_explicit(&fresh->bottom, bottom, memory_order_seq_cst); /* pairs: take_oldest */
    WEFT__STEP();
    uint64_t top = atomic_load_explicit(&fresh->top, memory_order_seq_cst);
    struct weft__link *item = NULL;
    if ((int64_t)(bottom - top) >= 0) {
        item = atomic_load_explicit(&buffer->slots[bottom & buffer->mask], memory_order_relaxed);
        if (bottom != top) {
            return item;
        }
        /* The last item: race the thieves for it. Acquire if it is lost: the slot will be reused,
         * after the thief's read of it. */
        if (!atomic_compare_exchange_strong_explicit(&fresh->top, &top, top + 1,
                                                     memory_order_seq_cst, memory_order_acquire)) {
            item = NULL;
        }
    }
    /* Empty now, and top has reached bottom. */
    fresh->top_seen = bottom + 1;
    atomic_store_explicit(&fresh->bottom, bottom + 1, memory_order_release);
    return item;
}

/* Any thread: takes the oldest item; NULL: empty, or another thread was faster (*lost says so). */
struct weft__link *weft__fresh_take_oldest(struct weft__fresh *fresh, bool *lost);

#endif
