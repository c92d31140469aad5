/* A channel: a ring of items, and two lists of waiters.
 *
 *          head                 tail
 *          v                    v
 *   | free | item | item | item | free | free |          receivers: the source's own list
 *                                                        senders:   each with its item where
 *                                                                   node->item points
 *
 * Two latches, so that senders and receivers do not interfere as long as there are both items and
 * free slots:
 *   senders'                  tail, head_seen; the list of waiting receivers, because senders
 *                             serve it
 *   receivers'                head, tail_seen; the list of waiting senders
 *   both, in this order: receivers', senders'    to wait, to close, to grow; then nothing moves
 * An index is stored with release after its slot was written or read, and the other side loads it
 * with acquire when the range it saw last is used up. A channel without a buffer uses only the
 * senders' latch, for everything.
 *
 * Invariants:
 * - a receiver waits only while no item is buffered and no sender waits other than itself (in a
 *   select): this held when it was linked under both latches, and since then senders hand over
 *   instead of pushing;
 * - a sender waits only while the ring is full and cannot grow: a receiver that frees a slot gives
 *   it to a waiting sender;
 * - a closed channel has no waiters.
 *
 * Each item goes to one receiver: a sender that finds a waiting receiver writes into its buffer and
 * fires it. If that fire fails, because the wait has ended otherwise, the item goes to the next
 * receiver, or else into the ring; the buffer that was written needlessly belongs to a receive that
 * does not succeed. A waiting sender's item is read before the sender is fired, because afterwards
 * the sender may reuse its memory; if the fire fails, the copy is dropped.
 *
 * A node with `shared` set (a select) is written only after it was won, see wait/waiter.h.
 *
 * Fast path, for word-sized items without a buffer: if the peer is a fiber that is fully parked in
 * its wait, the wait is ended first, in one atomic step (weft__task_fire_waiting). The fiber is
 * then ready but in no queue, so its frame with node and item does not change until it is queued:
 * meanwhile, under the latch, the item is copied and the node unlinked. In every other case (a
 * thread, a wait that is just beginning or ending, a fiber that is held) the general path is taken,
 * and nothing was changed.
 */
#ifndef WEFT_CHAN_CHAN_H
#define WEFT_CHAN_CHAN_H

#include <stdalign.h>
#include <string.h>

#include <weft/chan.h>

#include "lock/latch.h"
#include "sync/source.h"

struct weft_chan {
    /* under the senders' latch */
    struct weft__source source; /* its waiters are receivers; its lock is not used */
    struct weft__latch send_latch;
    _Atomic(uint64_t) tail;
    uint64_t head_seen; /* <= head */
    /* under the receivers' latch */
    alignas(WEFT__CACHE_LINE) struct weft__latch recv_latch;
    _Atomic(bool) has_sender; /* a sender waits; also read without the latch */
    struct weft__waitlist senders;
    _Atomic(uint64_t) head;
    uint64_t tail_seen; /* <= tail */
    /* written under both latches */
    alignas(WEFT__CACHE_LINE) _Atomic(bool) closed;
    uint64_t capacity;
    uint64_t mask; /* number of slots, a power of two, minus one */
    char *slots;
    /* immutable */
    size_t item_bytes;
    uint64_t max_capacity;
    uint64_t ahead; /* number of items in two cache lines, for prefetching */
};

/* Without a latch held: performs the operation if it needs no waiting. 0, -EPIPE, or -EAGAIN. */
int weft__chan_try_send(weft_chan *chan, const void *item);
int weft__chan_try_recv(weft_chan *chan, void *item);

/* A check without the latch: false if a receive that began now would have to wait. */
static inline bool weft__chan_can_recv(const weft_chan *chan)
{
    return atomic_load_explicit(&chan->tail, memory_order_relaxed) !=
               atomic_load_explicit(&chan->head, memory_order_relaxed) ||
           atomic_load_explicit(&chan->has_sender, memory_order_relaxed) ||
           atomic_load_explicit(&chan->closed, memory_order_relaxed);
}

/* The same check for a send. */
static inline bool weft__chan_can_send(const weft_chan *chan)
{
    return atomic_load_explicit(&chan->tail, memory_order_relaxed) -
                   atomic_load_explicit(&chan->head, memory_order_relaxed) <
               chan->capacity ||
           chan->capacity < chan->max_capacity || chan->source.waiters.first ||
           atomic_load_explicit(&chan->closed, memory_order_relaxed);
}

/* Only in the owning group, on its worker: hands a word-sized item directly to a fiber that is
 * fully parked in its receive. False: nothing was done. Inline, because this is the most frequent
 * case of a step that sends. */
static inline bool weft__chan_handoff_own(struct weft__worker *w, weft_chan *chan, const void *item)
{
    const struct weft__node *node = chan->source.waiters.first;
    if (!node || chan->item_bytes != sizeof(uint64_t) || weft__worker_trace_flags(w)) {
        return false;
    }
    struct weft__task *receiver = weft__source_claim_first(&chan->source.waiters);
    if (!receiver) {
        return false;
    }
    memcpy(node->item, item, sizeof(uint64_t));
    weft__group_sched_wake_in(w->group_sched, w->group_sched->running, receiver, WEFT__FRONT);
    return true;
}

/* As the try calls above, for a fiber of the channel's owner, on the owner's worker. */
int weft__chan_send_own(struct weft__worker *w, weft_chan *chan, const void *item);
int weft__chan_recv_own(weft_chan *chan, void *item);
/* The list to wait in if that returns -EAGAIN. */
static inline struct weft__waitlist *weft__chan_senders_own(weft_chan *chan)
{
    atomic_store_explicit(&chan->has_sender, true, memory_order_relaxed);
    return &chan->senders;
}

/* Links the node, whose waiter is armed and whose `item` points to the item's memory. False: the
 * operation need not wait, or the channel is closed; nothing was linked. Disarm, and try. */
bool weft__chan_arm_send(weft_chan *chan, struct weft__node *node);
bool weft__chan_arm_recv(weft_chan *chan, struct weft__node *node);
/* After the wait has ended, for any reason. The node that ended the wait has the result in its
 * `status`. */
void weft__chan_finish_send(weft_chan *chan, struct weft__node *node);
void weft__chan_finish_recv(weft_chan *chan, struct weft__node *node);

#endif
