/* A channel: a ring of items, and two lists of those who wait.
 *
 *          head                 tail
 *          v                    v
 *   | free | item | item | item | free | free |          receivers: the source's own list
 *                                                        senders:   each with its item where
 *                                                                   node->item says
 *
 * Two latches, so that senders and receivers do not get into each other's way as long as there are
 * both items and room:
 *   senders'                  tail, head_seen; the list of receivers, because it is senders that
 *                             serve it
 *   receivers'                head, tail_seen; the list of senders
 *   both, in this order: receivers', senders'    to wait, to close, to grow; then nothing moves
 * An index is stored with release after its slot was written or read, and the other side loads it
 * with acquire when what it saw last is used up. A channel without a buffer has the senders' only,
 * for everything.
 *
 * Invariants:
 *  - somebody waits to receive only while nothing is held and no sender but itself (in a select)
 *    waits: it was so when it was linked under both, and since then senders hand over instead of
 *    pushing;
 *  - somebody waits to send only while the ring is full and cannot grow: whoever makes room gives
 *    it to them;
 *  - on a closed channel nobody waits.
 *
 * Each item goes to one receiver: a sender that finds one waiting writes into its place and fires
 * it. If that fire fails, because the wait has ended by itself, the item goes to the next, and else
 * into the ring; the place that was written in vain is of a receive that does not succeed. A
 * waiting sender's item is read before it is fired, because after that its memory is its own again;
 * if the fire fails, the copy is dropped.
 *
 * A node with `shared` set (a select) is written only after it was won, see sched/waiter.h.
 *
 * The short way, for a word without a buffer: if the other is a fiber that has settled in its wait,
 * the wait is ended first, in one step (weft__task_fire_waiting). It is ready then, but in no
 * queue, so its frame with node and item holds still until it is placed: the item is copied and the
 * node unlinked in between, under the latch. Whatever else it may be (a thread, a wait that is just
 * beginning or ending, one that is held) goes the long way, and nothing was changed.
 */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include <stdalign.h>
#include <string.h>

#include <weft/chan.h>

#include "base/latch.h"
#include "sync/source.h"

struct weft_chan {
    /* under the senders' lock */
    struct weft__source source; /* its waiters receive; its lock is not used */
    struct weft__latch send_latch;
    _Atomic(uint64_t) tail;
    uint64_t head_seen; /* not more than head */
    /* under the receivers' lock */
    alignas(WEFT__CACHE_LINE) struct weft__latch recv_latch;
    _Atomic(bool) offered; /* somebody waits to send; also looked at without the lock */
    struct weft__waitlist senders;
    _Atomic(uint64_t) head;
    uint64_t tail_seen; /* not more than tail */
    /* written under both */
    alignas(WEFT__CACHE_LINE) _Atomic(bool) closed;
    uint64_t capacity;
    uint64_t mask; /* slots there are, a power of two, less one */
    char *slots;
    /* immutable */
    size_t item_bytes;
    uint64_t max_capacity;
    uint64_t ahead; /* items in two cache lines, for prefetching */
};

/* Under no lock: does it without waiting, if it can. 0, -EPIPE, or -EAGAIN. */
int weft__chan_try_send(weft_chan *chan, const void *item);
int weft__chan_try_recv(weft_chan *chan, void *item);

/* A look without the lock: false if a receive that began now would have to wait. */
static inline bool weft__chan_may_recv(const weft_chan *chan)
{
    return atomic_load_explicit(&chan->tail, memory_order_relaxed) !=
               atomic_load_explicit(&chan->head, memory_order_relaxed) ||
           atomic_load_explicit(&chan->offered, memory_order_relaxed) ||
           atomic_load_explicit(&chan->closed, memory_order_relaxed);
}

/* The same for a send. */
static inline bool weft__chan_may_send(const weft_chan *chan)
{
    return atomic_load_explicit(&chan->tail, memory_order_relaxed) -
                   atomic_load_explicit(&chan->head, memory_order_relaxed) <
               chan->capacity ||
           chan->capacity < chan->max_capacity || chan->source.waiters.first ||
           atomic_load_explicit(&chan->closed, memory_order_relaxed);
}

/* In its own group, whose worker this is: hands a word straight to a fiber that has settled in its
 * wait for one. False: nothing was done. Without a call, for a step that sends is mostly this. */
static inline bool weft__chan_hand_own(struct weft__worker *w, weft_chan *chan, const void *item)
{
    const struct weft__node *node = chan->source.waiters.first;
    if (!node || chan->item_bytes != sizeof(uint64_t) || weft__tracing(w)) {
        return false;
    }
    struct weft__task *receiver = weft__source_win_first(&chan->source.waiters);
    if (!receiver) {
        return false;
    }
    memcpy(node->item, item, sizeof(uint64_t));
    weft__rounds_wake_in(w->rounds, w->rounds->running, receiver, true);
    return true;
}

/* As the tries above, for one of its owner's fibers, whose worker this is. */
int weft__chan_send_own(struct weft__worker *w, weft_chan *chan, const void *item);
int weft__chan_recv_own(weft_chan *chan, void *item);
/* And where it waits if that answers -EAGAIN. */
static inline struct weft__waitlist *weft__chan_senders_own(weft_chan *chan)
{
    atomic_store_explicit(&chan->offered, true, memory_order_relaxed);
    return &chan->senders;
}

/* Links the node, whose waiter is armed and whose `item` says where the item is or is to go. False:
 * it can be done without waiting, or the channel is closed; nothing was linked. Disarm, and try. */
bool weft__chan_arm_send(weft_chan *chan, struct weft__node *node);
bool weft__chan_arm_recv(weft_chan *chan, struct weft__node *node);
/* After the wait has ended, for whatever reason. The node that ended it has the outcome in its
 * `status`. */
void weft__chan_finish_send(weft_chan *chan, struct weft__node *node);
void weft__chan_finish_recv(weft_chan *chan, struct weft__node *node);

#endif
