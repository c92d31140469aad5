/* Channel operations that run with latches held: the ring, and the waiters. For chan/chan.c and
 * chan/chan_try.c. */
#ifndef WEFT_CHAN_CHAN_LOCKED_H
#define WEFT_CHAN_CHAN_LOCKED_H

#include <errno.h>
#include <string.h>

#include "chan/chan.h"

/* The parts of one transfer are separate functions that compile into one. */
#define HOT static inline __attribute__((always_inline))

/* --- latches ------------------------------------------------------------------------- */

static inline bool is_buffered(const weft_chan *c)
{
    return c->max_capacity != 0;
}

static inline void lock_senders(weft_chan *c)
{
    if (__builtin_expect(c->source.owner != NULL, 0)) {
        weft__source_check_owner(&c->source);
    } else {
        weft__latch_lock(&c->send_latch);
    }
}

static inline void unlock_senders(weft_chan *c)
{
    if (__builtin_expect(c->source.owner == NULL, 1)) {
        weft__latch_unlock(&c->send_latch);
    }
}

static inline void lock_receivers(weft_chan *c)
{
    if (__builtin_expect(c->source.owner != NULL, 0)) {
        weft__source_check_owner(&c->source);
    } else {
        weft__latch_lock(&c->recv_latch);
    }
}

static inline void unlock_receivers(weft_chan *c)
{
    if (__builtin_expect(c->source.owner == NULL, 1)) {
        weft__latch_unlock(&c->recv_latch);
    }
}

/* Without a buffer, the senders' latch serves both sides. `buffered` is a compile-time constant on
 * hot paths. */
HOT void lock_both(weft_chan *c, bool buffered)
{
    if (__builtin_expect(c->source.owner != NULL, 0)) {
        weft__source_check_owner(&c->source);
        return;
    }
    if (buffered) {
        weft__latch_lock(&c->recv_latch);
    }
    weft__latch_lock(&c->send_latch);
}

HOT void unlock_both(weft_chan *c, bool buffered)
{
    if (__builtin_expect(c->source.owner != NULL, 0)) {
        return;
    }
    weft__latch_unlock(&c->send_latch);
    if (buffered) {
        weft__latch_unlock(&c->recv_latch);
    }
}

/* --- the ring ------------------------------------------------------------------------ */

static inline bool is_closed(const weft_chan *c)
{
    return atomic_load_explicit(&c->closed, memory_order_relaxed);
}

#define WORD sizeof(uint64_t)

/* Most items are one word: a call would cost more than the copy. */
HOT void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes == WORD) {
        memcpy(to, from, WORD);
    } else if (bytes) {
        memcpy(to, from, bytes);
    }
}

static inline void copy(const weft_chan *c, void *to, const void *from)
{
    copy_bytes(to, from, c->item_bytes);
}

static inline char *slot(const weft_chan *c, uint64_t index)
{
    return c->slots + (index & c->mask) * c->item_bytes;
}

/* With the senders' latch held: whether the ring has a free slot. */
static inline bool has_space(weft_chan *c)
{
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    if (tail - c->head_seen < c->capacity) {
        return true;
    }
    c->head_seen = atomic_load_explicit(&c->head, memory_order_acquire); /* pairs: pop */
    return tail - c->head_seen < c->capacity;
}

/* Slots move between the CPU that fills them and the CPU that empties them, and an atomic operation
 * waits for the stores before it: so a slot is prefetched some lines ahead, unless the other side
 * may be close. */
static inline bool is_far(const weft_chan *c, uint64_t items)
{
    return items > 8 * c->ahead;
}

/* `bytes`: the item size, a compile-time constant where possible. */
HOT void push(weft_chan *c, const void *item, size_t bytes)
{
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    if (is_far(c, c->head_seen + c->capacity - tail)) {
        __builtin_prefetch(c->slots + ((tail + c->ahead) & c->mask) * bytes, 1);
    }
    copy_bytes(c->slots + (tail & c->mask) * bytes, item, bytes);
    atomic_store_explicit(&c->tail, tail + 1, memory_order_release); /* pairs: has_item */
}

/* With the receivers' latch held: whether the ring has an item. */
static inline bool has_item(weft_chan *c)
{
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    if (head != c->tail_seen) {
        return true;
    }
    c->tail_seen = atomic_load_explicit(&c->tail, memory_order_acquire); /* pairs: push */
    return head != c->tail_seen;
}

HOT void pop(weft_chan *c, void *item, size_t bytes)
{
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    if (is_far(c, c->tail_seen - head)) {
        __builtin_prefetch(c->slots + ((head + c->ahead) & c->mask) * bytes);
    }
    copy_bytes(item, c->slots + (head & c->mask) * bytes, bytes);
    atomic_store_explicit(&c->head, head + 1, memory_order_release); /* pairs: has_space */
}

/* With both latches held: doubles the capacity, up to the limit. False: the limit is reached, or
 * there is no memory. */
bool weft__chan_grow(weft_chan *c);
/* With both latches held: gives the free slots to waiting senders. */
void weft__chan_refill(weft_chan *c, struct weft__chain *ready);

/* --- waiters --------------------------------------------------------------------------- */

/* With the senders' latch held: hands the item to a waiting receiver. False: there is none left. */
HOT bool hand_to_receiver(weft_chan *c, const void *item, struct weft__chain *ready)
{
    struct weft__node *node;
    while ((node = weft__waitlist_pop(&c->source.waiters))) {
        if (__builtin_expect(node->shared, 0)) {
            void *to = node->item; /* the winner's finish takes the latch, so the memory is still
                                    * valid */
            if (weft__node_fire(node, NULL, 0, ready)) {
                copy(c, to, item);
                return true;
            }
            continue;
        }
        copy(c, node->item, item);
        if (weft__node_fire(node, NULL, 0, ready)) {
            return true;
        }
    }
    return false;
}

/* With the receivers' latch held: takes the item of a waiting sender. */
HOT bool take_from_sender(weft_chan *c, void *to, struct weft__chain *ready)
{
    struct weft__node *node;
    bool taken = false;
    while (!taken && (node = weft__waitlist_pop(&c->senders))) {
        copy(c, to, node->item);
        taken = weft__node_fire(node, NULL, 0, ready);
    }
    atomic_store_explicit(&c->has_sender, c->senders.first != NULL, memory_order_relaxed);
    return taken;
}

/* --- one item -------------------------------------------------------------------------- */

/* With the senders' latch held. 0, -EPIPE, or -EAGAIN: the caller has to wait, or the buffer to
 * grow. */
HOT int send_locked(weft_chan *c, const void *item, struct weft__chain *ready, bool buffered)
{
    if (__builtin_expect(is_closed(c), 0)) {
        return -EPIPE;
    }
    if (c->source.waiters.first && hand_to_receiver(c, item, ready)) {
        return 0;
    }
    if (!buffered || !has_space(c)) {
        return -EAGAIN;
    }
    push(c, item, c->item_bytes);
    return 0;
}

/* With both latches held. */
HOT int send_locked_both(weft_chan *c, const void *item, struct weft__chain *ready, bool buffered)
{
    int status = send_locked(c, item, ready, buffered);
    if (buffered && status == -EAGAIN && weft__chan_grow(c)) {
        status = send_locked(c, item, ready, buffered);
    }
    return status;
}

HOT int recv_locked_both(weft_chan *c, void *item, struct weft__chain *ready, bool buffered)
{
    if (buffered && has_item(c)) {
        pop(c, item, c->item_bytes);
        weft__chan_refill(c, ready);
        return 0;
    }
    if (c->senders.first && take_from_sender(c, item, ready)) {
        return 0;
    }
    return is_closed(c) ? -EPIPE : -EAGAIN;
}

#endif
