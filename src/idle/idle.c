#include "idle/idle.h"

#include <stddef.h>

#define SEARCHING 0x10000u

void weft__idle_init(struct weft__idle *idle)
{
    atomic_init(&idle->word, 0);
    atomic_init(&idle->lock.word, 0);
    idle->top = NULL;
}

bool weft__idle_try_search(struct weft__idle *idle)
{
    uint32_t word = atomic_load_explicit(&idle->word, memory_order_relaxed);
    while (word < SEARCHING) {
        if (atomic_compare_exchange_weak_explicit(&idle->word, &word, word + SEARCHING,
                                                  memory_order_seq_cst, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

void weft__idle_end_search(struct weft__idle *idle)
{
    atomic_fetch_sub_explicit(&idle->word, SEARCHING, memory_order_seq_cst);
    weft__idle_notify(idle);
}

void weft__idle_enter(struct weft__idle *idle, struct weft__sleeper *sleeper, bool searching)
{
    weft__lock(&idle->lock);
    sleeper->below = idle->top;
    sleeper->listed = true;
    sleeper->searching = false;
    idle->top = sleeper;
    /* One step from searching to sleeping: a submitter sees the one or the other. pairs: notify */
    atomic_fetch_add_explicit(&idle->word, 1 - (searching ? SEARCHING : 0), memory_order_seq_cst);
    weft__unlock(&idle->lock);
    WEFT__STEP();
}

static void unlist(struct weft__idle *idle, struct weft__sleeper *sleeper)
{
    struct weft__sleeper **at = &idle->top;
    while (*at != sleeper) {
        at = &(*at)->below;
    }
    *at = sleeper->below;
    sleeper->listed = false;
}

bool weft__idle_leave(struct weft__idle *idle, struct weft__sleeper *sleeper)
{
    weft__lock(&idle->lock);
    if (sleeper->listed) {
        unlist(idle, sleeper);
        atomic_fetch_sub_explicit(&idle->word, 1, memory_order_seq_cst);
    }
    bool searching = sleeper->searching;
    sleeper->searching = false;
    weft__unlock(&idle->lock);
    return searching;
}

/* The last to sleep; a host's thread only if there is no other, because it polls when it likes. */
static struct weft__sleeper *choose(const struct weft__idle *idle)
{
    struct weft__sleeper *sleeper = idle->top;
    while (sleeper && sleeper->host) {
        sleeper = sleeper->below;
    }
    return sleeper ? sleeper : idle->top;
}

void weft__idle_wake_one(struct weft__idle *idle)
{
    weft__lock(&idle->lock);
    struct weft__sleeper *sleeper = choose(idle);
    /* Again under the lock: a searcher may have appeared meanwhile, and one is enough. */
    uint32_t word = atomic_load_explicit(&idle->word, memory_order_seq_cst);
    if (!sleeper || word >= SEARCHING) {
        weft__unlock(&idle->lock);
        return;
    }
    unlist(idle, sleeper);
    /* A host's thread does not count as searching: submitters would rely on it. */
    sleeper->searching = !sleeper->host;
    atomic_fetch_add_explicit(&idle->word, sleeper->searching ? SEARCHING - 1 : -1u,
                              memory_order_seq_cst);
    weft__unlock(&idle->lock);
    weft__parker_wake(&sleeper->parker);
}
