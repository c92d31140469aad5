#include "sync/waitgroup.h"
#include "base/nonnull.h"

enum {
    HAS_WAITERS = 1,
    ONE = 2,
};

static const struct weft__wait_kind group_kind = {.name = "wait group",
                                                  .label = weft__source_label};

void weft_waitgroup_init(weft_waitgroup *group, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(group);
    struct weft__waitgroup *g = weft__waitgroup_of(group);
    weft__source_init(&g->source, opts);
    atomic_init(&g->word, 0);
}

void weft_waitgroup_deinit(weft_waitgroup *group)
{
    WEFT__NONNULL(group);
    weft__source_deinit(&weft__waitgroup_of(group)->source, "wait group");
}

static int64_t count_in(uint64_t word)
{
    return (int64_t)(word / ONE);
}

/* Changes the word by compare-and-swap; for a group with an owner, which no other thread accesses,
 * by a store. */
static inline __attribute__((always_inline)) bool step(struct weft__waitgroup *g, uint64_t *from,
                                                       uint64_t to, memory_order order)
{
    if (__builtin_expect(g->source.owner != NULL, 0)) {
        weft__source_check_owner(&g->source);
        atomic_store_explicit(&g->word, to, memory_order_relaxed);
        return true;
    }
    return atomic_compare_exchange_weak_explicit(&g->word, from, to, order, memory_order_relaxed);
}

static uint64_t add_checked(const struct weft__waitgroup *g, uint64_t word, int64_t n)
{
    int64_t count;
    WEFT__REQUIRE(!__builtin_add_overflow(count_in(word), n, &count) && count >= 0 &&
                      count < INT64_MAX / 2,
                  "wait group %s: count %lld plus %lld is below zero or too large",
                  g->source.name ? g->source.name : "without a name", (long long)count_in(word),
                  (long long)n);
    return (uint64_t)count * ONE | (word & HAS_WAITERS);
}

/* Under the lock. */
static void add_locked(struct weft__waitgroup *g, int64_t n, struct weft__chain *ready)
{
    uint64_t word = atomic_load_explicit(&g->word, memory_order_relaxed), to;
    do {
        to = add_checked(g, word, n);
        to = to == HAS_WAITERS ? 0 : to;
        /* Acquire: the waiters that are fired here see what the other callers did. pairs:
         * weft_waitgroup_add */
    } while (!step(g, &word, to, memory_order_acq_rel));
    if (to == 0) {
        weft__source_fire_all(&g->source.waiters, 0, ready);
    }
}

void weft_waitgroup_add(weft_waitgroup *group, int64_t n)
{
    WEFT__NONNULL(group);
    struct weft__waitgroup *g = weft__waitgroup_of(group);
    uint64_t word = atomic_load_explicit(&g->word, memory_order_relaxed), to;
    while ((to = add_checked(g, word, n)) != HAS_WAITERS) {
        if (step(g, &word, to, memory_order_release)) { /* pairs: add_locked, is_zero_locked */
            return;
        }
    }
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&g->source);
    add_locked(g, n, &ready);
    weft__source_unlock(&g->source);
    weft__place_all(&ready, WEFT__FRONT);
}

void weft_waitgroup_done(weft_waitgroup *group)
{
    WEFT__NONNULL(group);
    weft_waitgroup_add(group, -1);
}

/* Under the lock: if the count is not zero, sets HAS_WAITERS in the same atomic step. */
static bool is_zero_locked(struct weft__waitgroup *g)
{
    /* Acquire: what the counted callers did. pairs: weft_waitgroup_add */
    uint64_t word = atomic_load_explicit(&g->word, memory_order_acquire);
    while (count_in(word) > 0) {
        if (step(g, &word, word | HAS_WAITERS, memory_order_relaxed)) {
            return false;
        }
        word = atomic_load_explicit(&g->word, memory_order_acquire);
    }
    return true;
}

int weft_waitgroup_wait(weft_waitgroup *group, int64_t deadline)
{
    WEFT__NONNULL(group);
    struct weft__waitgroup *g = weft__waitgroup_of(group);
    weft__source_lock(&g->source);
    if (is_zero_locked(g)) {
        weft__source_unlock(&g->source);
        return 0;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    int err =
        weft__source_wait_locked(&g->source, &g->source.waiters, &node, deadline, &group_kind);
    if (err == 0) {
        weft__source_unlock_wait(&g->source);
    }
    return err;
}

int64_t weft_waitgroup_count(const weft_waitgroup *group)
{
    WEFT__NONNULL(group);
    const struct weft__waitgroup *g = (const struct weft__waitgroup *)(const void *)group;
    return count_in(atomic_load_explicit(&g->word, memory_order_relaxed));
}

bool weft__waitgroup_arm(struct weft__waitgroup *g, struct weft__node *node)
{
    weft__source_lock(&g->source);
    bool wait = !is_zero_locked(g);
    if (wait) {
        weft__waitlist_push(&g->source.waiters, node);
    }
    weft__source_unlock(&g->source);
    return wait;
}

void weft__waitgroup_finish(struct weft__waitgroup *g, struct weft__node *node)
{
    weft__source_leave(&g->source, &g->source.waiters, node);
}
