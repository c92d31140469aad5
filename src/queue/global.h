/* The global queue: one FIFO per pool for what comes from outside it and for what overflows.
 *
 * A short lock around an array of slots that grows, and its length as an atomic, so that workers
 * look without locking. An array, because a chain through the tasks makes the taker wait for one
 * foreign cache line after the other; the addresses of an array's items are all known at once.
 * Where it cannot grow, items go to a chain behind it, so that a push never fails. The store of the
 * length that ends emptiness is seq_cst: it is the "publish" half of the argument in sched/idle.h.
 * Later stores need not be, because whoever looks afterwards and still reads zero has been seen,
 * parked, by the pusher that ended the emptiness.
 */
#ifndef WEFT_QUEUE_GLOBAL_H
#define WEFT_QUEUE_GLOBAL_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"
#include "base/lock.h"

struct weft__global {
    /* under lock */
    struct weft__lock lock;
    struct weft__link **slots; /* NULL: all in the chain */
    uint64_t mask, head, tail;
    struct weft__chain chain; /* behind the slots, while it is not empty all pushes go here */
    /* written under lock, read by any thread */
    _Atomic(uint64_t) length;
};

/* Without slots: everything in the chain. */
void weft__global_init(struct weft__global *global);
/* A power of two to begin with. -ENOMEM. */
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

/* Any thread: moves up to max of the oldest items to the array; returns how many. Of those in the
 * slots only the addresses are read: the items are in the caches of those who pushed them, and the
 * lock is held. */
uint64_t weft__global_take(struct weft__global *global, uint64_t max, struct weft__link **out);

#endif
