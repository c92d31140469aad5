#include "sync/event.h"
#include "base/nonnull.h"

static const struct weft__wait_kind event_kind = {.name = "event", .label = weft__source_label};

void weft_event_init(weft_event *event, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(event);
    struct weft__event *e = weft__event_of(event);
    weft__source_init(&e->source, opts);
    atomic_init(&e->set, 0);
}

void weft_event_deinit(weft_event *event)
{
    WEFT__NONNULL(event);
    weft__source_deinit(&weft__event_of(event)->source, "event");
}

static bool is_set(const struct weft__event *e)
{
    return atomic_load_explicit(&e->set, memory_order_acquire) != 0; /* pairs: weft_event_set */
}

bool weft_event_is_set(const weft_event *event)
{
    WEFT__NONNULL(event);
    return is_set((const struct weft__event *)(const void *)event);
}

void weft_event_set(weft_event *event)
{
    WEFT__NONNULL(event);
    struct weft__event *e = weft__event_of(event);
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&e->source);
    atomic_store_explicit(&e->set, 1, memory_order_release); /* pairs: is_set */
    weft__source_fire_all(&e->source.waiters, 0, &ready);
    weft__source_unlock(&e->source);
    weft__place_all(&ready, WEFT__FRONT);
}

void weft_event_reset(weft_event *event)
{
    WEFT__NONNULL(event);
    struct weft__event *e = weft__event_of(event);
    weft__source_lock(&e->source);
    atomic_store_explicit(&e->set, 0, memory_order_relaxed);
    weft__source_unlock(&e->source);
}

int weft_event_wait(weft_event *event, int64_t deadline)
{
    WEFT__NONNULL(event);
    struct weft__event *e = weft__event_of(event);
    if (is_set(e)) {
        return 0;
    }
    weft__source_lock(&e->source);
    if (is_set(e)) {
        weft__source_unlock(&e->source);
        return 0;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    return weft__source_wait_locked(&e->source, &e->source.waiters, &node, deadline, &event_kind);
}

bool weft__event_arm(struct weft__event *e, struct weft__node *node)
{
    weft__source_lock(&e->source);
    bool wait = !is_set(e);
    if (wait) {
        weft__waitlist_push(&e->source.waiters, node);
    }
    weft__source_unlock(&e->source);
    return wait;
}

void weft__event_finish(struct weft__event *e, struct weft__node *node)
{
    weft__source_leave(&e->source, &e->source.waiters, node);
}
