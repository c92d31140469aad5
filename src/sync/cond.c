#include "sync/cond.h"

#include "base/nonnull.h"
#include "sync/mutex.h"

static const struct weft__wait_kind cond_kind = {.name = "condition", .label = weft__source_label};

/* Describes a wait on several conditions, for dumps; on the waiter's stack. */
struct wait_set {
    weft_cond *const *conds;
    unsigned n;
};

static uint64_t first_of(uint64_t on, unsigned *others)
{
    const struct wait_set *wait_set = (const struct wait_set *)(uintptr_t)on;
    *others = wait_set->n - 1;
    return (uint64_t)(uintptr_t)wait_set->conds[0];
}

static const struct weft__wait_kind conds_kind = {
    .name = "condition", .label = weft__source_label, .first = first_of};

void weft_cond_init(weft_cond *cond, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(cond);
    weft__source_init(&weft__cond_of(cond)->source, opts);
}

void weft_cond_deinit(weft_cond *cond)
{
    WEFT__NONNULL(cond);
    weft__source_deinit(&weft__cond_of(cond)->source, "condition");
}

/* The nodes are linked before the mutex is unlocked: a thread that then locks the mutex, changes
 * the state and signals finds them. */
static int wait_for(weft_cond *const *conds, unsigned n, struct weft__node *nodes,
                    struct weft__waiter *waiter, weft_mutex *mutex, unsigned *which,
                    int64_t deadline)
{
    WEFT__REQUIRE(!mutex || weft__mutex_is_mine(mutex),
                  "a condition is waited for with a mutex that the caller does not hold");
    weft__waiter_arm(waiter, WEFT__WAIT_PLAIN);
    for (unsigned i = 0; i < n; i++) {
        weft__node_init(&nodes[i], waiter, i);
        weft__cond_arm(weft__cond_of(conds[i]), &nodes[i]);
    }
    const struct wait_set wait_set = {.conds = conds, .n = n};
    if (mutex) {
        weft_mutex_unlock(mutex);
    }
    enum weft__reason reason =
        n == 1 ? weft__waiter_park(waiter, deadline, &cond_kind, (uint64_t)(uintptr_t)conds[0])
               : weft__waiter_park(waiter, deadline, &conds_kind, (uint64_t)(uintptr_t)&wait_set);
    for (unsigned i = 0; i < n; i++) {
        weft__cond_finish(weft__cond_of(conds[i]), &nodes[i]);
    }
    if (mutex) {
        weft__mutex_lock_uninterruptible(weft__mutex_of(mutex));
    }
    if (weft__reason_is_done(reason) && which) {
        *which = weft__reason_index(reason);
    }
    return weft__reason_errno(reason);
}

int weft_cond_wait(weft_cond *cond, weft_mutex *mutex, int64_t deadline)
{
    WEFT__NONNULL(cond);
    struct weft__waiter waiter;
    struct weft__node node;
    return wait_for(&cond, 1, &node, &waiter, mutex, NULL, deadline);
}

int weft_cond_wait_any(unsigned *which, weft_cond *const *conds, unsigned n, weft_mutex *mutex,
                       int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node nodes[WEFT_COND_MAX];
    WEFT__REQUIRE(n >= 1 && n <= WEFT_COND_MAX,
                  "weft_cond_wait_any: %u conditions; must be 1 to 16", n);
    return wait_for(conds, n, nodes, &waiter, mutex, which, deadline);
}

/* Under the lock: fires the first node. Returns a fiber that must be queued, or NULL. */
static inline struct weft__task *fire_first(struct weft__cond *c)
{
    struct weft__task *ready = NULL;
    struct weft__node *node;
    /* A node whose wait has already ended is skipped: the signal goes to the next. */
    while ((node = weft__waitlist_pop(&c->source.waiters)) &&
           !weft__node_fire_one(node, node->value, 0, &ready)) {
    }
    return ready;
}

static inline struct weft__task *signal(struct weft__cond *c)
{
    weft__source_lock(&c->source);
    struct weft__task *ready = fire_first(c);
    weft__source_unlock(&c->source);
    return ready;
}

static __attribute__((noinline)) void signal_any(struct weft__cond *c)
{
    struct weft__task *ready = signal(c);
    if (ready) {
        weft__place(ready, WEFT__FRONT);
    }
}

__attribute__((noinline)) void weft_cond_signal(weft_cond *cond)
{
    WEFT__NONNULL(cond);
    struct weft__cond *c = weft__cond_of(cond);
    struct weft__worker *w = weft__worker_self_inline();
    if (!weft__source_is_own(&c->source, w)) {
        signal_any(c);
    } else if (c->source.waiters.first) {
        struct weft__task *ready = weft__source_claim_first(&c->source.waiters);
        if (__builtin_expect(ready != NULL, 1)) {
            weft__source_wake_own(w, ready);
        } else {
            signal_any(c);
        }
    }
}

void weft_cond_signal_later(weft_cond *cond)
{
    WEFT__NONNULL(cond);
    struct weft__task *ready = signal(weft__cond_of(cond));
    if (ready) {
        weft__place(ready, WEFT__BACK);
    }
}

void weft_cond_broadcast(weft_cond *cond)
{
    WEFT__NONNULL(cond);
    struct weft__cond *c = weft__cond_of(cond);
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&c->source);
    weft__source_fire_all(&c->source.waiters, 0, &ready);
    weft__source_unlock(&c->source);
    weft__place_all(&ready, WEFT__FRONT);
}
