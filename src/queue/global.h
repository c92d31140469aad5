/* The global queue: one FIFO per pool for tasks from outside the pool and for overflow.
 *
 * A short lock around a growing array of slots, and the length as an atomic, so that workers can
 * check it without the lock. An array, because a chain through the tasks would make the taker wait
 * for one foreign cache line after the other, whereas the addresses of an array's items are all
 * known at once. If the array cannot grow, items go to an overflow chain after it, so that a push
 * never fails. The store of the length that ends emptiness is seq_cst: it is the "publish" half of
 * the argument in idle/idle.h. Later stores need not be, because a worker that checks afterwards
 * and still reads zero has been seen, parked, by the pusher that ended the emptiness.
 */
#ifndef WEFT_QUEUE_GLOBAL_H
#define WEFT_QUEUE_GLOBAL_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"
#include "lock/lock.h"

struct weft__global {
    /* under lock */
    struct weft__lock lock;
    struct weft__link **slots; /* NULL: all items are in the chain */
    uint64_t mask, head, tail;
    struct weft__chain chain; /* overflow after the slots; while it is not empty all pushes go
                                 here */
    /* written under lock, read by any thread */
    _Atomic(uint64_t) length;
};

/* Without slots: all items are in the chain. */
void weft__global_init(struct weft__global *global);
/* slots: the initial capacity, a power of two. -ENOMEM. */
int weft__global_reserve(struct weft__global *global, uint64_t slots);
void weft__global_deinit(struct weft__global *global);

static inline uint64_t weft__global_length(const struct weft__global *global)
{
    return atomic_load_explicit(&global->length, memory_order_seq_cst);
}

/* Any thread. */
void weft__global_push(struct weft__global *global, struct weft__link *item);
/* Appends the whole chain and empties it. */
void weft__global_push_chain(struct weft__global *global, struct weft__chain *chain);

/* Any thread: moves up to max of the oldest items to the array; returns how many. For items in the
 * slots only the addresses are read, because the items are in the caches of the threads that pushed
 * them, and the lock is held. */
uint64_t weft__global_take(struct weft__global *global, uint64_t max, struct weft__link **out);

#endif
