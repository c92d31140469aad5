/* Channel operations other than one blocking send or receive: batches, tries, and the wait split in
 * two steps (arm, finish) for select and for stackless tasks. */
#include "base/nonnull.h"
#include "chan/chan_locked.h"

/* --- batches ----------------------------------------------------------------------------- */

/* Transfers as many items as possible without waiting, with both latches held; negative: the reason
 * why no item was transferred. */
static ssize_t send_some(weft_chan *c, const char *items, size_t n)
{
    struct weft__chain ready;
    size_t sent = 0;
    int status = 0;
    weft__chain_init(&ready);
    lock_both(c, is_buffered(c));
    while (sent < n &&
           !(status = send_locked_both(c, items + sent * c->item_bytes, &ready, is_buffered(c)))) {
        sent++;
    }
    unlock_both(c, is_buffered(c));
    weft__place_all(&ready, WEFT__FRONT);
    return sent || !n ? (ssize_t)sent : status;
}

static ssize_t recv_some(weft_chan *c, char *items, size_t n)
{
    struct weft__chain ready;
    size_t received = 0;
    int status = 0;
    weft__chain_init(&ready);
    lock_both(c, is_buffered(c));
    while (received < n && !(status = recv_locked_both(c, items + received * c->item_bytes, &ready,
                                                       is_buffered(c)))) {
        received++;
    }
    unlock_both(c, is_buffered(c));
    weft__place_all(&ready, WEFT__FRONT);
    return received || !n ? (ssize_t)received : status;
}

ssize_t weft_chan_send_many(weft_chan *c, const void *items, size_t n, int64_t deadline)
{
    WEFT__NONNULL_AS(c, "chan");
    ssize_t sent = send_some(c, items, n);
    if (sent != -EAGAIN) {
        return sent;
    }
    int status = weft_chan_send(c, items, deadline);
    if (status) {
        return status;
    }
    ssize_t more = send_some(c, (const char *)items + c->item_bytes, n - 1);
    return more > 0 ? 1 + more : 1;
}

ssize_t weft_chan_recv_many(weft_chan *c, void *items, size_t n, int64_t deadline)
{
    WEFT__NONNULL_AS(c, "chan");
    ssize_t received = recv_some(c, items, n);
    if (received != -EAGAIN) {
        return received;
    }
    int status = weft_chan_recv(c, items, deadline);
    if (status) {
        return status;
    }
    ssize_t more = recv_some(c, (char *)items + c->item_bytes, n - 1);
    return more > 0 ? 1 + more : 1;
}

/* --- try, arm and finish, for select and for stackless tasks ---------------------------------- */

static int try_send_any(weft_chan *c, const void *item)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c, is_buffered(c));
    int status = send_locked_both(c, item, &ready, is_buffered(c));
    unlock_both(c, is_buffered(c));
    weft__place_all(&ready, WEFT__FRONT);
    return status;
}

static int try_recv_any(weft_chan *c, void *item)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c, is_buffered(c));
    int status = recv_locked_both(c, item, &ready, is_buffered(c));
    unlock_both(c, is_buffered(c));
    weft__place_all(&ready, WEFT__FRONT);
    return status;
}

/* In its own group no latch is needed, and every waiter belongs to the group too. If the waiter is
 * fully parked, the item goes directly from one to the other; otherwise, and where more than one
 * waiter is involved, the general path is taken. */
int weft__chan_send_own(struct weft__worker *w, weft_chan *c, const void *item)
{
    struct weft__node *node = c->source.waiters.first;
    if (node) {
        struct weft__task *receiver = weft__source_claim_first(&c->source.waiters);
        if (!receiver) {
            return try_send_any(c, item);
        }
        copy(c, node->item, item);
        weft__source_wake_own(w, receiver);
        return 0;
    }
    if (is_closed(c) || !has_space(c)) {
        return try_send_any(c, item);
    }
    push(c, item, c->item_bytes);
    return 0;
}

int weft__chan_recv_own(weft_chan *c, void *item)
{
    if (c->senders.first || !has_item(c)) {
        return try_recv_any(c, item);
    }
    pop(c, item, c->item_bytes);
    return 0;
}

int weft__chan_try_send(weft_chan *c, const void *item)
{
    return c->source.owner ? weft__chan_send_own(weft__source_check_owner(&c->source), c, item)
                           : try_send_any(c, item);
}

int weft__chan_try_recv(weft_chan *c, void *item)
{
    if (!c->source.owner) {
        return try_recv_any(c, item);
    }
    weft__source_check_owner(&c->source);
    return weft__chan_recv_own(c, item);
}

/* A select does not match itself: whatever else it waits for, it cannot be both sides of a
 * transfer. */
static bool has_other_waiter(const struct weft__waitlist *list, const struct weft__waiter *self)
{
    const struct weft__node *node = list->first;
    while (node && node->waiter == self) {
        node = node->next;
    }
    return node != NULL;
}

bool weft__chan_arm_send(weft_chan *c, struct weft__node *node)
{
    lock_both(c, is_buffered(c));
    bool wait = !is_closed(c) && !has_other_waiter(&c->source.waiters, node->waiter) &&
                !has_space(c) && !weft__chan_grow(c);
    if (wait) {
        weft__waitlist_push(&c->senders, node);
        atomic_store_explicit(&c->has_sender, true, memory_order_relaxed);
    }
    unlock_both(c, is_buffered(c));
    return wait;
}

bool weft__chan_arm_recv(weft_chan *c, struct weft__node *node)
{
    lock_both(c, is_buffered(c));
    bool wait = !has_item(c) && !has_other_waiter(&c->senders, node->waiter) && !is_closed(c);
    if (wait) {
        weft__waitlist_push(&c->source.waiters, node);
    }
    unlock_both(c, is_buffered(c));
    return wait;
}

/* Each list of waiters is changed by the other side, so leaving it takes the other side's latch. */
void weft__chan_finish_send(weft_chan *c, struct weft__node *node)
{
    lock_both(c, is_buffered(c));
    if (node->linked) {
        weft__waitlist_remove(&c->senders, node);
        atomic_store_explicit(&c->has_sender, c->senders.first != NULL, memory_order_relaxed);
    }
    unlock_both(c, is_buffered(c));
}

void weft__chan_finish_recv(weft_chan *c, struct weft__node *node)
{
    lock_senders(c);
    if (node->linked) {
        weft__waitlist_remove(&c->source.waiters, node);
    }
    unlock_senders(c);
}
