#include "chan/chan_locked.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nonnull.h"

static const struct weft__wait_kind send_kind = {.name = "channel send",
                                                 .label = weft__source_label};
static const struct weft__wait_kind recv_kind = {.name = "channel receive",
                                                 .label = weft__source_label};

static uint64_t slots_for(uint64_t capacity)
{
    uint64_t slots = 1;
    while (slots < capacity) {
        slots *= 2;
    }
    return slots;
}

/* --- create, destroy, close ------------------------------------------------------------- */

int weft_chan_create(weft_chan **out, size_t item_bytes, const struct weft_chan_opts *opts)
{
    static const struct weft_chan_opts defaults;
    opts = opts ? opts : &defaults;
    size_t most = opts->max_capacity > opts->capacity ? opts->max_capacity : opts->capacity;
    if (item_bytes > PTRDIFF_MAX || most > PTRDIFF_MAX / 2 ||
        (item_bytes && most > PTRDIFF_MAX / 2 / item_bytes)) {
        return weft__refuse(-EINVAL, "capacity, max_capacity: the buffer would be too large");
    }
    weft_chan *c = weft__alloc(sizeof *c);
    uint64_t count = slots_for(opts->capacity);
    char *slots = opts->capacity ? weft__alloc(count * item_bytes + !item_bytes) : NULL;
    if (!c || (opts->capacity && !slots)) {
        weft__free(slots);
        weft__free(c);
        return -ENOMEM;
    }
    weft__source_init(
        &c->source,
        &(struct weft_sync_opts){.name = opts->name, .owner = opts->owner, .group = opts->group});
    c->item_bytes = item_bytes;
    c->ahead = item_bytes ? ((size_t)2 * WEFT__CACHE_LINE + item_bytes - 1) / item_bytes : 0;
    c->mask = count - 1;
    c->capacity = opts->capacity;
    c->max_capacity = most;
    c->slots = slots;
    *out = c;
    return 0;
}

void weft_chan_destroy(weft_chan *c)
{
    if (!c) {
        return;
    }
    c->source.owner = NULL; /* the owner may be gone */
    lock_both(c, is_buffered(c));
    bool waited_on = c->senders.first || c->source.waiters.first;
    unlock_both(c, is_buffered(c));
    WEFT__REQUIRE(!waited_on, "channel %s was destroyed while a fiber or thread waits on it",
                  c->source.name ? c->source.name : "without a name");
    weft__free(c->slots);
    weft__free(c);
}

void weft_chan_close(weft_chan *c)
{
    WEFT__NONNULL_AS(c, "chan");
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c, is_buffered(c));
    /* Release: a thread that sees the channel closed sees what happened before. pairs:
     * weft_chan_is_closed */
    atomic_store_explicit(&c->closed, true, memory_order_release);
    weft__source_fire_all(&c->source.waiters, -EPIPE, &ready);
    weft__source_fire_all(&c->senders, -EPIPE, &ready);
    unlock_both(c, is_buffered(c));
    weft__place_all(&ready, WEFT__FRONT);
}

bool weft_chan_is_closed(const weft_chan *c)
{
    WEFT__NONNULL_AS(c, "chan");
    return atomic_load_explicit(&c->closed, memory_order_acquire); /* pairs: weft_chan_close */
}

size_t weft_chan_length(const weft_chan *c)
{
    WEFT__NONNULL_AS(c, "chan");
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    return (int64_t)(tail - head) > 0 ? tail - head : 0; /* head and tail were not read at one
                                                          * instant */
}

/* --- rarely needed ----------------------------------------------------------------------- */

bool weft__chan_grow(weft_chan *c)
{
    if (c->capacity >= c->max_capacity) {
        return false;
    }
    uint64_t wanted = c->capacity ? c->capacity : 4;
    wanted = wanted > c->max_capacity / 2 ? c->max_capacity : 2 * wanted;
    uint64_t count = slots_for(wanted);
    char *slots = weft__alloc(count * c->item_bytes + !c->item_bytes);
    if (!slots) {
        return false;
    }
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    for (uint64_t i = head; i != tail; i++) {
        copy(c, slots + (i & (count - 1)) * c->item_bytes, slot(c, i));
    }
    weft__free(c->slots);
    c->slots = slots;
    c->mask = count - 1;
    c->capacity = wanted;
    return true;
}

void weft__chan_refill(weft_chan *c, struct weft__chain *ready)
{
    while (c->senders.first && has_space(c)) {
        uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
        if (take_from_sender(c, slot(c, tail), ready)) {
            atomic_store_explicit(&c->tail, tail + 1, memory_order_release); /* pairs: has_item */
        }
    }
}

/* --- send and receive ------------------------------------------------------------------ */

/* Both latches are held on entry, none on return. */
HOT int wait_locked(weft_chan *c, void *item, int64_t deadline, bool to_send, bool buffered)
{
    if (deadline <= 0) {
        unlock_both(c, buffered);
        weft__deadline_check(deadline);
        return -ETIMEDOUT;
    }
    struct weft__waiter waiter;
    struct weft__node node;
    weft__node_init(&node, &waiter, 0);
    node.item = item;
    weft__waiter_arm(&waiter, WEFT__WAIT_PLAIN);
    weft__waitlist_push(to_send ? &c->senders : &c->source.waiters, &node);
    if (to_send) {
        atomic_store_explicit(&c->has_sender, true, memory_order_relaxed);
    }
    unlock_both(c, buffered);
    bool known;
    enum weft__reason reason =
        weft__waiter_park_and_return(&waiter, deadline, to_send ? &send_kind : &recv_kind,
                                     (uint64_t)(uintptr_t)&c->source, &known);
    if (__builtin_expect(weft__reason_is_done(reason), 1)) {
        return known ? node.status : weft__context_return(node.status);
    }
    if (to_send) {
        weft__chan_finish_send(c, &node);
    } else {
        weft__chan_finish_recv(c, &node);
    }
    return weft__reason_errno(reason);
}

/* Without a buffer, with the latch held, while the other side has no waiters. One function for both
 * sides, so that fibers that wait for one another return through the same code path (branch
 * prediction). */
static __attribute__((noinline)) int wait_unbuffered(weft_chan *c, void *item, int64_t deadline,
                                                     bool to_send)
{
    if (__builtin_expect(is_closed(c), 0)) {
        unlock_senders(c);
        return -EPIPE;
    }
    return wait_locked(c, item, deadline, to_send, false);
}

HOT int wait_either(weft_chan *c, void *item, int64_t deadline, bool to_send, bool buffered)
{
    return buffered ? wait_locked(c, item, deadline, to_send, true)
                    : wait_unbuffered(c, item, deadline, to_send);
}

HOT int send_or_wait(weft_chan *c, const void *item, int64_t deadline, bool buffered)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    int status = send_locked_both(c, item, &ready, buffered);
    if (status == -EAGAIN) { /* the item is only read */
        return wait_either(c, (void *)(uintptr_t)item, deadline, true, buffered);
    }
    unlock_both(c, buffered);
    weft__place_all(&ready, WEFT__FRONT);
    return status;
}

HOT int recv_or_wait(weft_chan *c, void *item, int64_t deadline, bool buffered)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    int status = recv_locked_both(c, item, &ready, buffered);
    if (status == -EAGAIN) {
        return wait_either(c, item, deadline, false, buffered);
    }
    unlock_both(c, buffered);
    weft__place_all(&ready, WEFT__FRONT);
    return status;
}

static __attribute__((noinline)) int send_when_full(weft_chan *c, const void *item,
                                                    int64_t deadline)
{
    lock_both(c, true);
    return send_or_wait(c, item, deadline, true);
}

static __attribute__((noinline)) int recv_when_empty(weft_chan *c, void *item, int64_t deadline)
{
    lock_both(c, true);
    return recv_or_wait(c, item, deadline, true);
}

/* With the senders' latch held, which it releases. */
static __attribute__((noinline)) int send_locked_once(weft_chan *c, const void *item,
                                                      int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    int status = send_locked(c, item, &ready, true);
    unlock_senders(c);
    weft__place_all(&ready, WEFT__FRONT);
    return status == -EAGAIN ? send_when_full(c, item, deadline) : status;
}

static __attribute__((noinline)) int send_after_lock(weft_chan *c, const void *item,
                                                     int64_t deadline)
{
    lock_senders(c);
    return send_locked_once(c, item, deadline);
}

static __attribute__((noinline)) int recv_locked_once(weft_chan *c, void *item, int64_t deadline)
{
    if (c->senders.first || !has_item(c)) {
        unlock_receivers(c);
        return recv_when_empty(c, item, deadline);
    }
    pop(c, item, c->item_bytes);
    unlock_receivers(c);
    return 0;
}

static __attribute__((noinline)) int recv_after_lock(weft_chan *c, void *item, int64_t deadline)
{
    lock_receivers(c);
    return recv_locked_once(c, item, deadline);
}

/* --- without a buffer ------------------------------------------------------------------ */

/* The general path, with the latch held. */
static __attribute__((noinline)) int send_any(weft_chan *c, const void *item, int64_t deadline)
{
    return send_or_wait(c, item, deadline, false);
}

static __attribute__((noinline)) int recv_any(weft_chan *c, void *item, int64_t deadline)
{
    return recv_or_wait(c, item, deadline, false);
}

static __attribute__((noinline)) int send_any_after_lock(weft_chan *c, const void *item,
                                                         int64_t deadline)
{
    lock_senders(c);
    return send_any(c, item, deadline);
}

static __attribute__((noinline)) int recv_any_after_lock(weft_chan *c, void *item, int64_t deadline)
{
    lock_senders(c);
    return recv_any(c, item, deadline);
}

/* With the latch held: ends the wait of the node's fiber, if that is possible in one atomic step
 * and the item is a word. The fiber does not run until it is queued, so its node and its item stay
 * valid. NULL: not possible, and nothing was done. */
HOT struct weft__task *claim(const weft_chan *c, const struct weft__node *node)
{
    const struct weft__waiter *waiter = node->waiter;
    struct weft__task *task = waiter->task;
    return c->item_bytes == WORD && task &&
                   weft__task_fire_waiting(task, waiter->ticket,
                                           (enum weft__reason)(WEFT__REASON_DONE + node->index))
               ? task
               : NULL;
}

static __attribute__((noinline)) int send_unbuffered(weft_chan *c, const void *item,
                                                     int64_t deadline)
{
    if (__builtin_expect(c->source.owner || !weft__latch_try(&c->send_latch), 0)) {
        return send_any_after_lock(c, item, deadline);
    }
    struct weft__node *node = c->source.waiters.first;
    if (!node) {
        return wait_unbuffered(c, (void *)(uintptr_t)item, deadline, true); /* only read */
    }
    struct weft__task *task = claim(c, node);
    if (__builtin_expect(!task, 0)) {
        return send_any(c, item, deadline);
    }
    memcpy(node->item, item, WORD);
    weft__waitlist_remove_first(&c->source.waiters, node);
    weft__latch_unlock(&c->send_latch);
    return weft__place(task, WEFT__FRONT);
}

static __attribute__((noinline)) int recv_unbuffered(weft_chan *c, void *item, int64_t deadline)
{
    if (__builtin_expect(c->source.owner || !weft__latch_try(&c->send_latch), 0)) {
        return recv_any_after_lock(c, item, deadline);
    }
    struct weft__node *node = c->senders.first;
    if (!node) {
        return wait_unbuffered(c, item, deadline, false);
    }
    struct weft__task *task = claim(c, node);
    if (__builtin_expect(!task, 0)) {
        return recv_any(c, item, deadline);
    }
    memcpy(item, node->item, WORD);
    weft__waitlist_remove_first(&c->senders, node);
    atomic_store_explicit(&c->has_sender, c->senders.first != NULL, memory_order_relaxed);
    weft__latch_unlock(&c->send_latch);
    return weft__place(task, WEFT__FRONT);
}

/* --- public calls -------------------------------------------------------------------------- */

/* A word through a buffer without contention needs no stack frame; every other case is a tail call
 * to a function that has one. A waiter returns through every call that it is in, and the
 * processor's return predictor has forgotten those calls by then: so there are as few as
 * possible. */

int weft_chan_send(weft_chan *c, const void *item, int64_t deadline)
{
    WEFT__NONNULL_AS(c, "chan");
    if (__builtin_expect(!is_buffered(c), 1)) {
        return send_unbuffered(c, item, deadline);
    }
    if (__builtin_expect(c->source.owner || !weft__latch_try(&c->send_latch), 0)) {
        return send_after_lock(c, item, deadline);
    }
    if (__builtin_expect(c->source.waiters.first || !has_space(c) || is_closed(c), 0) ||
        c->item_bytes != WORD) {
        return send_locked_once(c, item, deadline);
    }
    push(c, item, WORD);
    weft__latch_unlock(&c->send_latch);
    return 0;
}

int weft_chan_recv(weft_chan *c, void *item, int64_t deadline)
{
    WEFT__NONNULL_AS(c, "chan");
    if (__builtin_expect(!is_buffered(c), 1)) {
        return recv_unbuffered(c, item, deadline);
    }
    if (__builtin_expect(c->source.owner || !weft__latch_try(&c->recv_latch), 0)) {
        return recv_after_lock(c, item, deadline);
    }
    if (__builtin_expect(c->senders.first || !has_item(c), 0) || c->item_bytes != WORD) {
        return recv_locked_once(c, item, deadline);
    }
    pop(c, item, WORD);
    weft__latch_unlock(&c->recv_latch);
    return 0;
}
