/* The state changes only under the lock, and a waiter that takes the value acquires the lock
 * afterwards: the object may be freed as soon as the wait has returned, so the notifier must have
 * released the lock by then. */
#include "future/oneshot.h"
#include "base/nonnull.h"

#include <errno.h>

static const struct weft__wait_kind oneshot_kind = {.name = "oneshot", .label = weft__source_label};

void weft_oneshot_init(weft_oneshot *oneshot, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(oneshot);
    struct weft__oneshot *o = weft__oneshot_of(oneshot);
    weft__source_init(&o->source, opts);
    o->value = NULL;
    o->state = WEFT__ONESHOT_EMPTY;
}

void weft_oneshot_deinit(weft_oneshot *oneshot)
{
    WEFT__NONNULL(oneshot);
    weft__source_deinit(&weft__oneshot_of(oneshot)->source, "oneshot");
}

/* True: the waiter got it. */
static bool hand_over_locked(struct weft__oneshot *o, void *value, int status,
                             struct weft__chain *ready)
{
    struct weft__node *node = weft__waitlist_pop(&o->source.waiters);
    return node && weft__node_fire(node, value, status, ready);
}

int weft_oneshot_notify(weft_oneshot *oneshot, void *value)
{
    WEFT__NONNULL(oneshot);
    struct weft__oneshot *o = weft__oneshot_of(oneshot);
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&o->source);
    if (o->state != WEFT__ONESHOT_EMPTY) {
        int err = o->state == WEFT__ONESHOT_CLOSED ? -EPIPE : -EALREADY;
        weft__source_unlock(&o->source);
        return err;
    }
    o->value = value;
    o->state = hand_over_locked(o, value, 0, &ready) ? WEFT__ONESHOT_TAKEN : WEFT__ONESHOT_FULL;
    weft__source_unlock(&o->source);
    weft__place_all(&ready, WEFT__FRONT);
    return 0;
}

int weft_oneshot_close(weft_oneshot *oneshot)
{
    WEFT__NONNULL(oneshot);
    struct weft__oneshot *o = weft__oneshot_of(oneshot);
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&o->source);
    if (o->state != WEFT__ONESHOT_EMPTY) {
        weft__source_unlock(&o->source);
        return -EALREADY;
    }
    o->state = WEFT__ONESHOT_CLOSED;
    hand_over_locked(o, NULL, -EPIPE, &ready);
    weft__source_unlock(&o->source);
    weft__place_all(&ready, WEFT__FRONT);
    return 0;
}

/* True: there is nothing to take yet. Otherwise the node has the value and the status. */
static bool must_wait_locked(struct weft__oneshot *o, struct weft__node *node)
{
    WEFT__REQUIRE(o->state != WEFT__ONESHOT_TAKEN && !o->source.waiters.first,
                  "oneshot %s was waited for twice",
                  o->source.name ? o->source.name : "without a name");
    if (o->state == WEFT__ONESHOT_EMPTY) {
        return true;
    }
    node->value = o->value;
    node->status = o->state == WEFT__ONESHOT_CLOSED ? -EPIPE : 0;
    if (o->state == WEFT__ONESHOT_FULL) {
        o->state = WEFT__ONESHOT_TAKEN;
    }
    return false;
}

int weft_oneshot_wait(weft_oneshot *oneshot, void **value, int64_t deadline)
{
    WEFT__NONNULL(oneshot);
    struct weft__oneshot *o = weft__oneshot_of(oneshot);
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    weft__source_lock(&o->source);
    if (must_wait_locked(o, &node)) {
        int err = weft__source_wait_locked(&o->source, &o->source.waiters, &node, deadline,
                                           &oneshot_kind);
        weft__source_lock(&o->source); /* the notifier has released the lock */
        weft__source_unlock(&o->source);
        if (err) {
            return err;
        }
    } else {
        weft__source_unlock(&o->source);
    }
    if (node.status == 0 && value) {
        *value = node.value;
    }
    return node.status;
}

bool weft__oneshot_arm(struct weft__oneshot *o, struct weft__node *node)
{
    weft__source_lock(&o->source);
    bool wait = must_wait_locked(o, node);
    if (wait) {
        weft__waitlist_push(&o->source.waiters, node);
    }
    weft__source_unlock(&o->source);
    return wait;
}

void weft__oneshot_finish(struct weft__oneshot *o, struct weft__node *node)
{
    weft__source_leave(&o->source, &o->source.waiters, node);
}
