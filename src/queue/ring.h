/* The ring: a worker's bounded FIFO of woken and yielded tasks.
 *
 *        head (claimed by CAS: owner and thieves alike)      tail (owner only)
 *          v                                                   v
 *   ... | taken | item | item | item | item | item | item | free | ...     slots[i & mask]
 *
 * Roles: one owner pushes at the tail and pops at the head; any number of thieves take half of the
 * items from the head in one CAS. Because every taker claims by CAS on head, no item inside a
 * thief's range can be taken in another way; that makes the one-CAS batch sound here, and unsound
 * on a Chase-Lev deque whose owner pops without a CAS.
 *
 * Why it is correct:
 * - A slot is written only by the owner, only when tail - head < capacity, where head was read with
 *   acquire. A consumer reads its slots before its CAS, which releases; so an owner that sees the
 *   new head overwrites slots only after their readers are done. A consumer whose CAS fails has
 *   read values that may be from another lap, and drops them.
 * - Indices are 64 bits and only grow: a CAS that succeeds saw the same lap (no ABA). They may
 *   start anywhere and wrap; only differences are used.
 * - A consumer reads tail with acquire after head, so the slots below tail are filled for it.
 */
#ifndef WEFT_QUEUE_RING_H
#define WEFT_QUEUE_RING_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"

struct weft__ring {
    /* immutable after init */
    alignas(WEFT__CACHE_LINE) uint64_t mask;
    _Atomic(struct weft__link *) *slots;
    bool no_thieves; /* no thieves: the owner pops without a CAS */
    /* any thread, atomic */
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) head;
    /* written by the owner, read by any thread */
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) tail;
};

/* slots: a power of two >= 2. first: where indices start (0; tests start near the wrap).
 * -ENOMEM. */
int weft__ring_init(struct weft__ring *ring, uint64_t slots, uint64_t first);
void weft__ring_deinit(struct weft__ring *ring);

/* Any thread; exact only for the owner. */
static inline uint64_t weft__ring_length(const struct weft__ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_seq_cst);
    /* The owner's pop is relaxed: a new head may be seen with an old tail. */
    return (int64_t)(tail - head) > 0 ? tail - head : 0;
}

/* Owner only. False: full. `order` is release, or seq_cst if the caller next checks for a parked
 * worker to wake (the other half of that argument is in idle/idle.h). */
static inline bool weft__ring_push_local(struct weft__ring *ring, struct weft__link *item,
                                         memory_order order)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t head =
        atomic_load_explicit(&ring->head, memory_order_acquire); /* pairs: claims of head */
    if (tail - head > ring->mask) {
        return false;
    }
    atomic_store_explicit(&ring->slots[tail & ring->mask], item, memory_order_relaxed);
    WEFT__STEP();
    atomic_store_explicit(&ring->tail, tail + 1, order); /* pairs: readers of tail */
    return true;
}

/* Owner only: pushes many items at once. weft__ring_room_local returns how many fit for certain;
 * each item is set at its place after the tail; all are published in one step. */
static inline uint64_t weft__ring_room_local(const struct weft__ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t head =
        atomic_load_explicit(&ring->head, memory_order_acquire); /* pairs: claims of head too */
    return ring->mask + 1 - (tail - head);
}

static inline void weft__ring_set_local(struct weft__ring *ring, uint64_t place,
                                        struct weft__link *item)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->slots[(tail + place) & ring->mask], item, memory_order_relaxed);
}

static inline void weft__ring_publish_local(struct weft__ring *ring, uint64_t count,
                                            memory_order order)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    WEFT__STEP();
    atomic_store_explicit(&ring->tail, tail + count, order); /* pairs: readers of tail */
}

/* Owner only: takes the oldest item; NULL: empty. */
static inline struct weft__link *weft__ring_pop_local(struct weft__ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    while (head != tail) {
        struct weft__link *item =
            atomic_load_explicit(&ring->slots[head & ring->mask], memory_order_relaxed);
        if (ring->no_thieves) {
            atomic_store_explicit(&ring->head, head + 1, memory_order_relaxed);
            return item;
        }
        WEFT__STEP();
        /* Relaxed: the owner reads and writes its slots in program order anyway. */
        if (atomic_compare_exchange_weak_explicit(&ring->head, &head, head + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return item;
        }
    }
    return NULL;
}

/* Owner only: the item that the next pop may return, or the n-th after it, for a prefetch. It may
 * have been stolen, or be from an earlier lap: it is some item that was once pushed, or NULL. */
static inline struct weft__link *weft__ring_peek_local(const struct weft__ring *ring, uint64_t n)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    return atomic_load_explicit(&ring->slots[(head + n) & ring->mask], memory_order_relaxed);
}

/* For a thief that owns `to`: takes half of `from` (rounded up, and no more than fits), returns one
 * of the items to run and puts the rest into `to`. *taken says how many. NULL: empty, or the race
 * was lost too often. */
struct weft__link *weft__ring_steal(struct weft__ring *from, struct weft__ring *to,
                                    uint64_t *taken);

/* Owner only: when push found the ring full, moves the older half to `chain`, for the global queue.
 * May move nothing if thieves were faster; then push succeeds. */
void weft__ring_spill_local(struct weft__ring *ring, struct weft__chain *chain);

#endif
