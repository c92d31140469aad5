/* The gate of a group: what other threads send to it is either served or refused, never accepted
 * and forgotten.
 *
 * One word: twice the number of things that are on their way, and in its lowest bit whether the
 * group has finished.
 *
 *   a sender, any thread                        the group's thread
 *   1. enter: + 2, unless it has finished       1. takes a thing out of an inbox and serves it
 *   2. push the thing into an inbox             2. lists the group, to be settled after its turn
 *   3. wake the thread, if it was the first     3. arrive: - 2
 *                                               settle, after a turn: if the group has nothing
 *                                               left, shut: 0 -> 1
 *
 * Served or refused: all three change the same word, so they have one order. A thing whose enter
 * comes before the shut in it has arrived before the shut as well, or the word would not have been
 * 0; it was served. One whose enter comes after the shut finds the bit.
 *
 * It finishes: when shut, or the look before it, finds something on its way, its sender has
 * entered. Nothing between enter and push can fail (what can, memory above all, is had before), so
 * it will be in the inbox; the round that takes it out lists the group, and after that turn it is
 * settled again. So a group is settled after the last thing that came.
 *
 * Orders: relaxed. What a sender wrote goes with the thing, through the inbox; and so does the
 * sender's last use of the group, which is before its push: whoever learns that the group has
 * finished may free it. Arrive and shut are one thread's.
 */
#ifndef WEFT_SCHED_GATE_H
#define WEFT_SCHED_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__GATE_SHUT 1u
#define WEFT__GATE_ONE 2u

struct weft__gate {
    _Atomic(uint64_t) word;
};

static inline void weft__gate_init(struct weft__gate *gate)
{
    atomic_init(&gate->word, 0);
}

/* Any thread; then it pushes. False: nothing is taken any more. */
static inline bool weft__gate_enter(struct weft__gate *gate)
{
    uint64_t word = atomic_load_explicit(&gate->word, memory_order_relaxed);
    do {
        if (word & WEFT__GATE_SHUT) {
            return false;
        }
        WEFT__STEP();
    } while (!atomic_compare_exchange_weak_explicit(&gate->word, &word, word + WEFT__GATE_ONE,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* The group's thread, when the thing was served. */
static inline void weft__gate_arrive(struct weft__gate *gate)
{
    atomic_fetch_sub_explicit(&gate->word, WEFT__GATE_ONE, memory_order_relaxed);
}

/* The group's thread. False: something is on its way. */
static inline bool weft__gate_shut(struct weft__gate *gate)
{
    uint64_t nothing = 0;
    WEFT__STEP();
    return atomic_compare_exchange_strong_explicit(&gate->word, &nothing, WEFT__GATE_SHUT,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Is nothing on its way just now? */
static inline bool weft__gate_is_still(const struct weft__gate *gate)
{
    return atomic_load_explicit(&gate->word, memory_order_relaxed) < WEFT__GATE_ONE;
}

#endif
