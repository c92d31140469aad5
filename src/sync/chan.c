#include "sync/chan.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static const struct weft__wait_kind send_kind = {.name = "channel send",
                                                 .label = weft__source_label};
static const struct weft__wait_kind recv_kind = {.name = "channel receive",
                                                 .label = weft__source_label};

/* The parts of one hand-over are one function each, and one piece of code. */
#define HOT static inline __attribute__((always_inline))

/* --- latches ------------------------------------------------------------------------- */

/* False: the senders' is for both sides, or an owner makes both needless. */
static inline bool has_recv_latch(const weft_chan *c)
{
    return c->max_capacity && !c->source.owner;
}

static inline void lock_senders(weft_chan *c)
{
    if (__builtin_expect(c->source.owner != NULL, 0)) {
        weft__source_check_owner(&c->source);
    } else {
        weft__latch_take(&c->send_latch);
    }
}

static inline void unlock_senders(weft_chan *c)
{
    if (__builtin_expect(c->source.owner == NULL, 1)) {
        weft__latch_drop(&c->send_latch);
    }
}

/* Of a channel with a buffer. */
static inline void lock_receivers(weft_chan *c)
{
    if (__builtin_expect(c->source.owner != NULL, 0)) {
        weft__source_check_owner(&c->source);
    } else {
        weft__latch_take(&c->recv_latch);
    }
}

static inline void unlock_receivers(weft_chan *c)
{
    if (__builtin_expect(c->source.owner == NULL, 1)) {
        weft__latch_drop(&c->recv_latch);
    }
}

static inline void lock_both(weft_chan *c)
{
    if (has_recv_latch(c)) {
        weft__latch_take(&c->recv_latch);
    }
    lock_senders(c);
}

static inline void unlock_both(weft_chan *c)
{
    unlock_senders(c);
    if (has_recv_latch(c)) {
        weft__latch_drop(&c->recv_latch);
    }
}

/* --- the ring ------------------------------------------------------------------------ */

static inline bool is_closed(const weft_chan *c)
{
    return atomic_load_explicit(&c->closed, memory_order_relaxed);
}

/* Most items are a word: a call would cost more than the copy. */
static inline void copy(const weft_chan *c, void *to, const void *from)
{
    if (c->item_bytes == sizeof(uint64_t)) {
        memcpy(to, from, sizeof(uint64_t));
    } else if (c->item_bytes) {
        memcpy(to, from, c->item_bytes);
    }
}

static inline char *slot(const weft_chan *c, uint64_t index)
{
    return c->slots + (index & c->mask) * c->item_bytes;
}

/* Under the senders' lock. Is there room for one more? */
static inline bool has_room(weft_chan *c)
{
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    if (tail - c->head_seen < c->capacity) {
        return true;
    }
    c->head_seen = atomic_load_explicit(&c->head, memory_order_acquire); /* pairs: pop */
    return tail - c->head_seen < c->capacity;
}

/* Slots wander from the CPU that fills them to the one that empties them and back, and an atomic operation waits for
 * the stores before it: the lines are asked for in time, but not those that the other side may be at. */
#define AHEAD_BYTES (2 * WEFT__CACHE_LINE)

static inline void push(weft_chan *c, const void *item)
{
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    if (c->head_seen + c->capacity - tail > 2 * AHEAD_BYTES) {
        __builtin_prefetch(slot(c, tail) + AHEAD_BYTES, 1);
    }
    copy(c, slot(c, tail), item);
    atomic_store_explicit(&c->tail, tail + 1, memory_order_release); /* pairs: has_item */
}

/* Under the receivers' lock. */
static inline bool has_item(weft_chan *c)
{
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    if (head != c->tail_seen) {
        return true;
    }
    c->tail_seen = atomic_load_explicit(&c->tail, memory_order_acquire); /* pairs: push */
    return head != c->tail_seen;
}

static inline void pop(weft_chan *c, void *item)
{
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    if (c->tail_seen - head > 2 * AHEAD_BYTES) {
        __builtin_prefetch(slot(c, head) + AHEAD_BYTES);
    }
    copy(c, item, slot(c, head));
    atomic_store_explicit(&c->head, head + 1, memory_order_release); /* pairs: has_room */
}

static uint64_t slots_for(uint64_t capacity)
{
    uint64_t slots = 1;
    while (slots < capacity) {
        slots *= 2;
    }
    return slots;
}

/* Under both locks: twice the capacity, or as much as may be. False: it is as large as it may be, or there is no
 * memory. */
static __attribute__((noinline)) bool grow(weft_chan *c)
{
    if (c->capacity >= c->max_capacity) {
        return false;
    }
    uint64_t wanted = c->capacity ? c->capacity : 4;
    wanted = wanted > c->max_capacity - wanted ? c->max_capacity : 2 * wanted;
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

/* --- those who wait -------------------------------------------------------------------- */

/* Under the senders' lock: hands the item to somebody who waits for one. False: nobody does, any more. */
HOT bool hand_over(weft_chan *c, const void *item, struct weft__chain *ready)
{
    struct weft__node *node;
    while ((node = weft__waitlist_pop(&c->source.waiters))) {
        if (__builtin_expect(node->shared, 0)) {
            void *to = node->item; /* the finish of the winner takes the lock: still there */
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

/* Under the receivers' lock: takes the item of somebody who waits to send. */
HOT bool take_over(weft_chan *c, void *to, struct weft__chain *ready)
{
    struct weft__node *node;
    bool taken = false;
    while (!taken && (node = weft__waitlist_pop(&c->senders))) {
        copy(c, to, node->item);
        taken = weft__node_fire(node, NULL, 0, ready);
    }
    atomic_store_explicit(&c->offered, c->senders.first != NULL, memory_order_relaxed);
    return taken;
}

/* Under both locks: those who wait to send get what room there is. */
static __attribute__((noinline)) void refill(weft_chan *c, struct weft__chain *ready)
{
    while (c->senders.first && has_room(c)) {
        uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
        if (take_over(c, slot(c, tail), ready)) {
            atomic_store_explicit(&c->tail, tail + 1, memory_order_release); /* pairs: has_item */
        }
    }
}

/* --- one item -------------------------------------------------------------------------- */

/* Under the senders' lock. 0, -EPIPE, or -EAGAIN: it has to wait, or the buffer to grow. */
HOT int send_locked(weft_chan *c, const void *item, struct weft__chain *ready)
{
    if (__builtin_expect(is_closed(c), 0)) {
        return -EPIPE;
    }
    if (c->source.waiters.first && hand_over(c, item, ready)) {
        return 0;
    }
    if (!c->capacity || !has_room(c)) {
        return -EAGAIN;
    }
    push(c, item);
    return 0;
}

/* Under both: */
HOT int send_locked_both(weft_chan *c, const void *item, struct weft__chain *ready)
{
    int status = send_locked(c, item, ready);
    return status == -EAGAIN && c->capacity < c->max_capacity && grow(c)
               ? send_locked(c, item, ready)
               : status;
}

/* Under both: */
HOT int recv_locked_both(weft_chan *c, void *item, struct weft__chain *ready)
{
    if (c->capacity && has_item(c)) {
        pop(c, item);
        refill(c, ready);
        return 0;
    }
    if (c->senders.first && take_over(c, item, ready)) {
        return 0;
    }
    return is_closed(c) ? -EPIPE : -EAGAIN;
}

/* --- life ---------------------------------------------------------------------------- */

int weft_chan_create(weft_chan **out, size_t item_bytes, const struct weft_chan_opts *opts)
{
    static const struct weft_chan_opts defaults;
    opts = opts ? opts : &defaults;
    size_t most = opts->max_capacity > opts->capacity ? opts->max_capacity : opts->capacity;
    if (item_bytes > PTRDIFF_MAX || most > PTRDIFF_MAX / 2 ||
        (item_bytes && most > PTRDIFF_MAX / 2 / item_bytes)) {
        return -EINVAL;
    }
    weft_chan *c = weft__alloc(sizeof *c);
    uint64_t count = slots_for(opts->capacity);
    char *slots = opts->capacity ? weft__alloc(count * item_bytes + !item_bytes) : NULL;
    if (!c || (opts->capacity && !slots)) {
        weft__free(slots);
        weft__free(c);
        return -ENOMEM;
    }
    weft__source_init(&c->source,
                      &(struct weft_sync_opts){.name = opts->name, .owner = opts->owner});
    c->item_bytes = item_bytes;
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
    lock_both(c);
    bool waited_on = c->senders.first || c->source.waiters.first;
    unlock_both(c);
    WEFT__REQUIRE(!waited_on, "channel %s was destroyed while somebody waits on it",
                  c->source.name ? c->source.name : "without a name");
    weft__free(c->slots);
    weft__free(c);
}

void weft_chan_close(weft_chan *c)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c);
    /* Release: who sees it closed sees what was done before. pairs: weft_chan_is_closed */
    atomic_store_explicit(&c->closed, true, memory_order_release);
    weft__source_fire_all(&c->source.waiters, -EPIPE, &ready);
    weft__source_fire_all(&c->senders, -EPIPE, &ready);
    unlock_both(c);
    weft__place_chain(&ready);
}

bool weft_chan_is_closed(const weft_chan *c)
{
    return atomic_load_explicit(&c->closed, memory_order_acquire); /* pairs: weft_chan_close */
}

size_t weft_chan_length(const weft_chan *c)
{
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    return (int64_t)(tail - head) > 0 ? tail - head : 0; /* they are not of one moment */
}

size_t weft_chan_capacity(const weft_chan *c)
{
    return c->max_capacity;
}

/* --- send and receive ------------------------------------------------------------------ */

/* Both locks on entry, none on return. */
HOT int wait_locked(weft_chan *c, struct weft__node *node, int64_t deadline, bool to_send)
{
    if (deadline <= 0) {
        unlock_both(c);
        return -ETIMEDOUT;
    }
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    node->waiter = &waiter;
    weft__waitlist_push(to_send ? &c->senders : &c->source.waiters, node);
    unlock_both(c);
    enum weft__reason reason = weft__waiter_park(
        &waiter, deadline, to_send ? &send_kind : &recv_kind, (uint64_t)(uintptr_t)&c->source);
    if (weft__reason_done(reason)) {
        return node->status;
    }
    if (to_send) {
        weft__chan_finish_send(c, node);
    } else {
        weft__chan_finish_recv(c, node);
    }
    return weft__reason_errno(reason);
}

/* It was full. */
static __attribute__((noinline)) int send_slow(weft_chan *c, const void *item, int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c);
    int status = send_locked_both(c, item, &ready);
    if (status == -EAGAIN) {
        struct weft__node node;
        weft__node_init(&node, NULL, 0);
        node.item = (void *)(uintptr_t)item; /* only read */
        atomic_store_explicit(&c->offered, true, memory_order_relaxed);
        return wait_locked(c, &node, deadline, true);
    }
    unlock_both(c);
    weft__place_chain(&ready);
    return status;
}

/* It was empty. */
static __attribute__((noinline)) int recv_slow(weft_chan *c, void *item, int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c);
    int status = recv_locked_both(c, item, &ready);
    if (status == -EAGAIN) {
        struct weft__node node;
        weft__node_init(&node, NULL, 0);
        node.item = item;
        return wait_locked(c, &node, deadline, false);
    }
    unlock_both(c);
    weft__place_chain(&ready);
    return status;
}

int weft_chan_send(weft_chan *c, const void *item, int64_t deadline)
{
    if (!c->max_capacity) {
        return send_slow(c, item, deadline);
    }
    lock_senders(c);
    if (__builtin_expect(!c->source.waiters.first && has_room(c) && !is_closed(c), 1)) {
        push(c, item);
        unlock_senders(c);
        return 0;
    }
    struct weft__chain ready;
    weft__chain_init(&ready);
    int status = send_locked(c, item, &ready);
    unlock_senders(c);
    weft__place_chain(&ready);
    return status == -EAGAIN ? send_slow(c, item, deadline) : status;
}

int weft_chan_recv(weft_chan *c, void *item, int64_t deadline)
{
    if (!c->max_capacity) {
        return recv_slow(c, item, deadline);
    }
    lock_receivers(c);
    if (__builtin_expect(!c->senders.first && has_item(c), 1)) {
        pop(c, item);
        unlock_receivers(c);
        return 0;
    }
    unlock_receivers(c);
    return recv_slow(c, item, deadline);
}

/* --- many at once ------------------------------------------------------------------------ */

/* What needs no waiting, under both locks; below 0: why it were none. */
static ssize_t send_some(weft_chan *c, const char *items, size_t n)
{
    struct weft__chain ready;
    size_t sent = 0;
    int status = 0;
    weft__chain_init(&ready);
    lock_both(c);
    while (sent < n && !(status = send_locked_both(c, items + sent * c->item_bytes, &ready))) {
        sent++;
    }
    unlock_both(c);
    weft__place_chain(&ready);
    return sent || !n ? (ssize_t)sent : status;
}

static ssize_t recv_some(weft_chan *c, char *items, size_t n)
{
    struct weft__chain ready;
    size_t received = 0;
    int status = 0;
    weft__chain_init(&ready);
    lock_both(c);
    while (received < n &&
           !(status = recv_locked_both(c, items + received * c->item_bytes, &ready))) {
        received++;
    }
    unlock_both(c);
    weft__place_chain(&ready);
    return received || !n ? (ssize_t)received : status;
}

ssize_t weft_chan_send_many(weft_chan *c, const void *items, size_t n, int64_t deadline)
{
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

/* --- in steps, for a select and for bodies without a stack ------------------------------------ */

int weft__chan_try_send(weft_chan *c, const void *item)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c);
    int status = send_locked_both(c, item, &ready);
    unlock_both(c);
    weft__place_chain(&ready);
    return status;
}

int weft__chan_try_recv(weft_chan *c, void *item)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    lock_both(c);
    int status = recv_locked_both(c, item, &ready);
    unlock_both(c);
    weft__place_chain(&ready);
    return status;
}

/* A select does not meet itself: whatever else it waits for, it cannot be both sides. */
static bool another_waits(const struct weft__waitlist *list, const struct weft__waiter *self)
{
    const struct weft__node *node = list->first;
    while (node && node->waiter == self) {
        node = node->next;
    }
    return node != NULL;
}

bool weft__chan_arm_send(weft_chan *c, struct weft__node *node)
{
    lock_both(c);
    bool wait = !is_closed(c) && !another_waits(&c->source.waiters, node->waiter) && !has_room(c) &&
                !grow(c);
    if (wait) {
        weft__waitlist_push(&c->senders, node);
        atomic_store_explicit(&c->offered, true, memory_order_relaxed);
    }
    unlock_both(c);
    return wait;
}

bool weft__chan_arm_recv(weft_chan *c, struct weft__node *node)
{
    lock_both(c);
    bool wait = !has_item(c) && !another_waits(&c->senders, node->waiter) && !is_closed(c);
    if (wait) {
        weft__waitlist_push(&c->source.waiters, node);
    }
    unlock_both(c);
    return wait;
}

/* The lists of those who wait are changed by the other side, and so is where they leave. */
void weft__chan_finish_send(weft_chan *c, struct weft__node *node)
{
    lock_both(c);
    if (node->linked) {
        weft__waitlist_remove(&c->senders, node);
        atomic_store_explicit(&c->offered, c->senders.first != NULL, memory_order_relaxed);
    }
    unlock_both(c);
}

void weft__chan_finish_recv(weft_chan *c, struct weft__node *node)
{
    lock_senders(c);
    if (node->linked) {
        weft__waitlist_remove(&c->source.waiters, node);
    }
    unlock_senders(c);
}
