/* A channel: a ring of items under one lock, and two lists of those who wait.
 *
 *        head                 head + length (mod capacity)
 *          v                    v
 *   | free | item | item | item | free | free |          receivers: the source's own list
 *                                                        senders:   each with its item where node->item says
 * Invariants, under the lock:
 *  - somebody waits to receive only while nothing is held and no sender but itself (in a select) waits;
 *  - somebody waits to send only while the ring is full and cannot grow, or is of no slots;
 *  - on a closed channel nobody waits.
 *
 * Each item goes to one receiver: a sender that finds one waiting writes into its place and fires it. If that fire fails,
 * because the wait has ended by itself, the item goes to the next, and else into the ring; the place that was
 * written in vain is of a receive that does not succeed. A waiting sender's item is read before it is
 * fired, because after that its memory is its own again; if the fire fails, the copy is dropped.
 *
 * A node with `shared` set (a select) is written only after it was won, see sched/waiter.h.
 */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include <weft/chan.h>

#include "sync/source.h"

struct weft_chan {
    struct weft__source source; /* its waiters receive */
    /* under the lock; what is atomic is also looked at without it */
    struct weft__waitlist senders;
    _Atomic(bool) closed;
    _Atomic(bool) offered; /* unbuffered: a sender waits */
    _Atomic(size_t) length;
    size_t head;
    size_t capacity; /* slots there are now */
    char *slots;
    /* immutable */
    size_t item_bytes;
    size_t max_capacity;
};

/* Under no lock: does it without waiting, if it can. 0, -EPIPE, or -EAGAIN. */
int weft__chan_try_send(weft_chan *chan, const void *item);
int weft__chan_try_recv(weft_chan *chan, void *item);

/* A look without the lock: false if a receive that began now would have to wait. */
static inline bool weft__chan_may_recv(const weft_chan *chan)
{
    return atomic_load_explicit(&chan->length, memory_order_relaxed) ||
           atomic_load_explicit(&chan->offered, memory_order_relaxed) ||
           atomic_load_explicit(&chan->closed, memory_order_relaxed);
}

/* Links the node, whose waiter is armed and whose `item` says where the item is or is to go. False: it can be done
 * without waiting, or the channel is closed; nothing was linked. Disarm, and try. */
bool weft__chan_arm_send(weft_chan *chan, struct weft__node *node);
bool weft__chan_arm_recv(weft_chan *chan, struct weft__node *node);
/* After the wait has ended, for whatever reason. The node that ended it has the outcome in its `status`. */
void weft__chan_finish_send(weft_chan *chan, struct weft__node *node);
void weft__chan_finish_recv(weft_chan *chan, struct weft__node *node);

#endif
