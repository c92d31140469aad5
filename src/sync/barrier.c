#include "sync/barrier.h"
#include "base/nonnull.h"

static const struct weft__wait_kind barrier_kind = {.name = "barrier", .label = weft__source_label};

void weft_barrier_init(weft_barrier *barrier, uint32_t parties, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(barrier);
    struct weft__barrier *b = weft__barrier_of(barrier);
    WEFT__REQUIRE(parties >= 1, "weft_barrier_init: parties must be at least 1");
    weft__source_init(&b->source, opts);
    b->parties = parties;
    b->arrived = 0;
}

void weft_barrier_deinit(weft_barrier *barrier)
{
    WEFT__NONNULL(barrier);
    weft__source_deinit(&weft__barrier_of(barrier)->source, "barrier");
}

/* Under the lock. False: this is the last party, and all others are woken. */
static bool arrive_locked(struct weft__barrier *b, struct weft__node *node,
                          struct weft__chain *ready)
{
    WEFT__REQUIRE(b->parties, "a barrier was not initialised");
    if (b->arrived + 1 == b->parties) {
        b->arrived = 0;
        weft__source_fire_all(&b->source.waiters, 0, ready);
        return false;
    }
    b->arrived++;
    weft__waitlist_push(&b->source.waiters, node);
    return true;
}

int weft_barrier_wait(weft_barrier *barrier, int64_t deadline)
{
    WEFT__NONNULL(barrier);
    struct weft__barrier *b = weft__barrier_of(barrier);
    struct weft__chain ready;
    struct weft__waiter waiter;
    struct weft__node node;
    weft__chain_init(&ready);
    weft__node_init(&node, &waiter, 0);
    weft__source_lock(&b->source);
    if (!arrive_locked(b, &node, &ready)) {
        weft__source_unlock(&b->source);
        weft__place_all(&ready, WEFT__FRONT);
        return 1;
    }
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__source_unlock(&b->source);
    enum weft__reason reason =
        weft__waiter_park(&waiter, deadline, &barrier_kind, (uint64_t)(uintptr_t)b);
    if (!weft__barrier_finish(b, &node)) {
        return weft__reason_errno(reason);
    }
    weft__waiter_defer(reason); /* this wait did not deliver it after all */
    return 0;
}

bool weft__barrier_arm(struct weft__barrier *b, struct weft__node *node)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&b->source);
    bool wait = arrive_locked(b, node, &ready);
    weft__source_unlock(&b->source);
    weft__place_all(&ready, WEFT__FRONT);
    return wait;
}

bool weft__barrier_finish(struct weft__barrier *b, struct weft__node *node)
{
    weft__source_lock(&b->source);
    bool over = !node->linked;
    if (!over) {
        weft__waitlist_remove(&b->source.waiters, node);
        b->arrived--;
    }
    weft__source_unlock(&b->source);
    return over;
}
