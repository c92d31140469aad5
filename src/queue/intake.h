/* The intake of a group: counts the items (fibers, commands) that other threads hand to the group,
 * so that each item is either served or refused, never accepted and lost.
 *
 * One word: twice the number of items on their way, plus a lowest bit that says whether the group
 * has finished.
 *
 *   a sender, any thread                        the group's thread
 *   1. enter: + 2, unless it has finished       1. takes an item out of an inbox and serves it
 *   2. push the item into an inbox              2. lists the group, to be settled after its turn
 *   3. wake the thread, if it was the first     3. arrive: - 2
 *                                               settle, after a turn: if the group has nothing
 *                                               left, shut: 0 -> 1
 *
 * Served or refused: enter, arrive and shut change the same word, so they have one total order. An
 * item whose enter is before the shut in that order has also arrived before the shut, because
 * otherwise the word would not have been 0; so it was served. An item whose enter is after the
 * shut finds the bit.
 *
 * Progress: if shut, or the check before it, finds an item on its way, its sender has entered.
 * Nothing between enter and push can fail (everything that can, above all memory, is allocated
 * before), so the item will be in the inbox; the round that takes it out lists the group, and
 * after that turn the group is settled again. So a group is settled after the last item that came.
 *
 * Memory order: relaxed. The inbox publishes what a sender wrote, and also the sender's last use
 * of the group, which is before its push: a thread that learns that the group has finished may
 * free it. Arrive and shut are called by one thread. */
#ifndef WEFT_QUEUE_INTAKE_H
#define WEFT_QUEUE_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__INTAKE_CLOSED 1u
#define WEFT__INTAKE_ONE 2u

struct weft__intake {
    _Atomic(uint64_t) word;
};

static inline void weft__intake_init(struct weft__intake *intake)
{
    atomic_init(&intake->word, 0);
}

/* Any thread; the caller then pushes the item. False: the group has finished and accepts
 * nothing. */
static inline bool weft__intake_enter(struct weft__intake *intake)
{
    uint64_t word = atomic_load_explicit(&intake->word, memory_order_relaxed);
    do {
        if (word & WEFT__INTAKE_CLOSED) {
            return false;
        }
        WEFT__STEP();
    } while (!atomic_compare_exchange_weak_explicit(&intake->word, &word, word + WEFT__INTAKE_ONE,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* The group's thread, when the item was served. */
static inline void weft__intake_arrive(struct weft__intake *intake)
{
    atomic_fetch_sub_explicit(&intake->word, WEFT__INTAKE_ONE, memory_order_relaxed);
}

/* The group's thread. False: an item is on its way. */
static inline bool weft__intake_close(struct weft__intake *intake)
{
    uint64_t nothing = 0;
    WEFT__STEP();
    return atomic_compare_exchange_strong_explicit(&intake->word, &nothing, WEFT__INTAKE_CLOSED,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* True if no item is on its way at this moment. */
static inline bool weft__intake_is_empty(const struct weft__intake *intake)
{
    return atomic_load_explicit(&intake->word, memory_order_relaxed) < WEFT__INTAKE_ONE;
}

#endif
