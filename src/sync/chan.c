#include "sync/chan.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static const struct weft__wait_kind send_kind = {.name = "channel send",
                                                 .label = weft__source_label};
static const struct weft__wait_kind recv_kind = {.name = "channel receive",
                                                 .label = weft__source_label};

/* --- the ring ------------------------------------------------------------------ */

static inline size_t length_of(const weft_chan *c)
{
    return atomic_load_explicit(&c->length, memory_order_relaxed);
}

static inline void set_length(weft_chan *c, size_t length)
{
    atomic_store_explicit(&c->length, length, memory_order_relaxed);
}

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

static inline char *slot(const weft_chan *c, size_t nth)
{
    size_t at = c->head + nth;
    return c->slots + (at < c->capacity ? at : at - c->capacity) * c->item_bytes;
}

/* Twice the slots, or as many as may be. False: it is as large as it may be, or there is no memory. */
static __attribute__((noinline)) bool grow(weft_chan *c)
{
    if (c->capacity >= c->max_capacity) {
        return false;
    }
    size_t wanted = c->capacity ? c->capacity : 4;
    wanted = wanted > c->max_capacity - wanted ? c->max_capacity : 2 * wanted;
    char *slots = weft__alloc(wanted * c->item_bytes + !c->item_bytes);
    if (!slots) {
        return false;
    }
    size_t straight = c->capacity - c->head;
    if (c->capacity && c->item_bytes) {
        memcpy(slots, c->slots + c->head * c->item_bytes, straight * c->item_bytes);
        memcpy(slots + straight * c->item_bytes, c->slots, c->head * c->item_bytes);
    }
    weft__free(c->slots);
    c->slots = slots;
    c->capacity = wanted;
    c->head = 0;
    return true;
}

/* --- one item, under the lock ------------------------------------------------------ */

/* Hands the item to somebody who waits. False: nobody does, any more. */
static inline bool hand_over(weft_chan *c, const void *item, struct weft__chain *ready)
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

/* Takes the item of somebody who waits to send. */
static inline bool take_over(weft_chan *c, void *to, struct weft__chain *ready)
{
    struct weft__node *node;
    bool taken = false;
    while (!taken && (node = weft__waitlist_pop(&c->senders))) {
        copy(c, to, node->item);
        taken = weft__node_fire(node, NULL, 0, ready);
    }
    return taken;
}

static inline void note_offers(weft_chan *c)
{
    atomic_store_explicit(&c->offered, c->senders.first != NULL, memory_order_relaxed);
}

static inline int send_locked(weft_chan *c, const void *item, struct weft__chain *ready)
{
    if (__builtin_expect(is_closed(c), 0)) {
        return -EPIPE;
    }
    if (c->source.waiters.first && hand_over(c, item, ready)) {
        return 0;
    }
    size_t length = length_of(c);
    if (length == c->capacity && !grow(c)) {
        return -EAGAIN;
    }
    copy(c, slot(c, length), item);
    set_length(c, length + 1);
    return 0;
}

static inline int recv_locked(weft_chan *c, void *item, struct weft__chain *ready)
{
    size_t length = length_of(c);
    if (length) {
        copy(c, item, slot(c, 0));
        c->head = c->head + 1 < c->capacity ? c->head + 1 : 0;
        if (__builtin_expect(c->senders.first != NULL, 0) &&
            take_over(c, slot(c, length - 1), ready)) {
            return 0;
        }
        set_length(c, length - 1);
        return 0;
    }
    if (atomic_load_explicit(&c->offered, memory_order_relaxed)) {
        bool taken = take_over(c, item, ready);
        note_offers(c);
        if (taken) {
            return 0;
        }
    }
    return is_closed(c) ? -EPIPE : -EAGAIN;
}

/* --- life ---------------------------------------------------------------------------- */

int weft_chan_create(weft_chan **out, size_t item_bytes, const struct weft_chan_opts *opts)
{
    static const struct weft_chan_opts defaults;
    opts = opts ? opts : &defaults;
    size_t most = opts->max_capacity > opts->capacity ? opts->max_capacity : opts->capacity;
    if (item_bytes > PTRDIFF_MAX || (item_bytes && most > PTRDIFF_MAX / item_bytes)) {
        return -EINVAL;
    }
    weft_chan *c = weft__alloc(sizeof *c);
    char *slots = opts->capacity ? weft__alloc(opts->capacity * item_bytes + !item_bytes) : NULL;
    if (!c || (opts->capacity && !slots)) {
        weft__free(slots);
        weft__free(c);
        return -ENOMEM;
    }
    weft__source_init(&c->source,
                      &(struct weft_sync_opts){.name = opts->name, .owner = opts->owner});
    c->item_bytes = item_bytes;
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
    weft__source_lock(&c->source);
    bool waited_on = c->senders.first != NULL;
    weft__source_unlock(&c->source);
    WEFT__REQUIRE(!waited_on, "channel %s was destroyed while somebody waits on it",
                  c->source.name ? c->source.name : "without a name");
    weft__source_deinit(&c->source, "channel");
    weft__free(c->slots);
    weft__free(c);
}

void weft_chan_close(weft_chan *c)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    /* Release: who sees it closed sees what was done before. pairs: weft_chan_is_closed */
    atomic_store_explicit(&c->closed, true, memory_order_release);
    weft__source_fire_all(&c->source.waiters, -EPIPE, &ready);
    weft__source_fire_all(&c->senders, -EPIPE, &ready);
    note_offers(c);
    weft__source_unlock(&c->source);
    weft__place_chain(&ready);
}

bool weft_chan_is_closed(const weft_chan *c)
{
    return atomic_load_explicit(&c->closed, memory_order_acquire); /* pairs: weft_chan_close */
}

size_t weft_chan_length(const weft_chan *c)
{
    return length_of(c);
}

size_t weft_chan_capacity(const weft_chan *c)
{
    return c->max_capacity;
}

/* --- send and receive ------------------------------------------------------------------ */

/* Locked on entry, unlocked on return. */
static int wait_to_send(weft_chan *c, const void *item, int64_t deadline)
{
    if (deadline <= 0) {
        weft__source_unlock(&c->source);
        return -ETIMEDOUT;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    node.item = (void *)(uintptr_t)item; /* only read */
    atomic_store_explicit(&c->offered, true, memory_order_relaxed);
    return weft__source_wait_locked(&c->source, &c->senders, &node, deadline, &send_kind);
}

static int wait_to_recv(weft_chan *c, void *item, int64_t deadline)
{
    if (deadline <= 0) {
        weft__source_unlock(&c->source);
        return -ETIMEDOUT;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    node.item = item;
    return weft__source_wait_locked(&c->source, &c->source.waiters, &node, deadline, &recv_kind);
}

int weft_chan_send(weft_chan *c, const void *item, int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    int status = send_locked(c, item, &ready);
    if (status == -EAGAIN) {
        return wait_to_send(c, item, deadline);
    }
    weft__source_unlock(&c->source);
    weft__place_chain(&ready);
    return status;
}

int weft_chan_recv(weft_chan *c, void *item, int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    int status = recv_locked(c, item, &ready);
    if (status == -EAGAIN) {
        return wait_to_recv(c, item, deadline);
    }
    weft__source_unlock(&c->source);
    weft__place_chain(&ready);
    return status;
}

/* --- many at once ------------------------------------------------------------------------ */

static ssize_t send_some_locked(weft_chan *c, const char *items, size_t n,
                                struct weft__chain *ready)
{
    size_t sent = 0;
    int status = 0;
    while (sent < n && !(status = send_locked(c, items + sent * c->item_bytes, ready))) {
        sent++;
    }
    return sent || !n ? (ssize_t)sent : status;
}

static ssize_t recv_some_locked(weft_chan *c, char *items, size_t n, struct weft__chain *ready)
{
    size_t received = 0;
    int status = 0;
    while (received < n && !(status = recv_locked(c, items + received * c->item_bytes, ready))) {
        received++;
    }
    return received || !n ? (ssize_t)received : status;
}

ssize_t weft_chan_send_many(weft_chan *c, const void *items, size_t n, int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    ssize_t first = 0, more = send_some_locked(c, items, n, &ready);
    if (more == -EAGAIN) {
        int status = wait_to_send(c, items, deadline);
        if (status) {
            return status;
        }
        first = 1;
        weft__source_lock(&c->source);
        more = send_some_locked(c, (const char *)items + c->item_bytes, n - 1, &ready);
    }
    weft__source_unlock(&c->source);
    weft__place_chain(&ready);
    return more >= 0 ? first + more : first ? first : more;
}

ssize_t weft_chan_recv_many(weft_chan *c, void *items, size_t n, int64_t deadline)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    ssize_t first = 0, more = recv_some_locked(c, items, n, &ready);
    if (more == -EAGAIN) {
        int status = wait_to_recv(c, items, deadline);
        if (status) {
            return status;
        }
        first = 1;
        weft__source_lock(&c->source);
        more = recv_some_locked(c, (char *)items + c->item_bytes, n - 1, &ready);
    }
    weft__source_unlock(&c->source);
    weft__place_chain(&ready);
    return more >= 0 ? first + more : first ? first : more;
}

/* --- in steps, for a select and for bodies without a stack ------------------------------------ */

int weft__chan_try_send(weft_chan *c, const void *item)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    int status = send_locked(c, item, &ready);
    weft__source_unlock(&c->source);
    weft__place_chain(&ready);
    return status;
}

int weft__chan_try_recv(weft_chan *c, void *item)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    int status = recv_locked(c, item, &ready);
    weft__source_unlock(&c->source);
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
    weft__source_lock(&c->source);
    bool wait = !is_closed(c) && !another_waits(&c->source.waiters, node->waiter) &&
                length_of(c) == c->capacity && !grow(c);
    if (wait) {
        weft__waitlist_push(&c->senders, node);
        note_offers(c);
    }
    weft__source_unlock(&c->source);
    return wait;
}

bool weft__chan_arm_recv(weft_chan *c, struct weft__node *node)
{
    weft__source_lock(&c->source);
    bool wait =
        length_of(c) == 0 && !another_waits(&c->senders, node->waiter) && !is_closed(c);
    if (wait) {
        weft__waitlist_push(&c->source.waiters, node);
    }
    weft__source_unlock(&c->source);
    return wait;
}

void weft__chan_finish_send(weft_chan *c, struct weft__node *node)
{
    weft__source_leave(&c->source, &c->senders, node);
}

void weft__chan_finish_recv(weft_chan *c, struct weft__node *node)
{
    weft__source_leave(&c->source, &c->source.waiters, node);
}
