#include "sync/sem.h"
#include "base/nonnull.h"

#include <errno.h>

enum {
    QUEUED = 1,
    ONE = 2,
};

#define MAX_PERMITS (UINT64_C(1) << 62)

static const struct weft__wait_kind sem_kind = {.name = "semaphore", .label = weft__source_label};

void weft_sem_init(weft_sem *sem, uint64_t permits, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(sem);
    struct weft__sem *s = weft__sem_of(sem);
    WEFT__REQUIRE(permits <= MAX_PERMITS, "semaphore: more than 2^62 permits");
    weft__source_init(&s->source, opts);
    atomic_init(&s->word, permits * ONE);
}

void weft_sem_deinit(weft_sem *sem)
{
    WEFT__NONNULL(sem);
    weft__source_deinit(&weft__sem_of(sem)->source, "semaphore");
}

/* Changes the word by compare-and-swap; for a semaphore with an owner, which no other thread
 * accesses, by a store. */
static inline __attribute__((always_inline)) bool step(struct weft__sem *s, uint64_t *from,
                                                       uint64_t to, memory_order order)
{
    if (__builtin_expect(s->source.owner != NULL, 0)) {
        weft__source_check_owner(&s->source);
        atomic_store_explicit(&s->word, to, memory_order_relaxed);
        return true;
    }
    return atomic_compare_exchange_weak_explicit(&s->word, from, to, order, memory_order_relaxed);
}

/* Takes n permits if there are no waiters and enough permits. */
static bool take(struct weft__sem *s, uint64_t n)
{
    uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
    while (!(word & QUEUED) && word / ONE >= n) {
        if (step(s, &word, word - n * ONE, memory_order_acquire)) { /* pairs: weft_sem_release */
            return true;
        }
    }
    return false;
}

/* Under the lock: takes n permits, or sets QUEUED, in one atomic step. */
static bool take_or_announce_locked(struct weft__sem *s, uint64_t n)
{
    uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
    for (;;) {
        bool enough = !(word & QUEUED) && word / ONE >= n;
        /* pairs: weft_sem_release */
        if (step(s, &word, enough ? word - n * ONE : word | QUEUED, memory_order_acquire)) {
            return enough;
        }
    }
}

/* Under the lock: serves the waiters at the front for which there are enough permits. */
static void serve_locked(struct weft__sem *s, struct weft__chain *ready)
{
    struct weft__node *node;
    uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
    if (!(word & QUEUED)) {
        return; /* without QUEUED, other threads may change the word */
    }
    while ((node = s->source.waiters.first)) {
        uint64_t wants = (uint64_t)(uintptr_t)node->item;
        if (word / ONE < wants) {
            break;
        }
        weft__waitlist_remove(&s->source.waiters, node);
        if (weft__node_fire(node, NULL, 0, ready)) {
            word -= wants * ONE;
        }
    }
    if (!s->source.waiters.first) {
        word &= ~(uint64_t)QUEUED;
    }
    /* Release: a later taker of the remaining permits sees everything that happened before their
     * release. pairs: take */
    atomic_store_explicit(&s->word, word, memory_order_release);
}

static void serve(struct weft__sem *s)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&s->source);
    serve_locked(s, &ready);
    weft__source_unlock(&s->source);
    weft__place_all(&ready, WEFT__FRONT);
}

int weft_sem_acquire(weft_sem *sem, uint64_t n, int64_t deadline)
{
    WEFT__NONNULL(sem);
    struct weft__sem *s = weft__sem_of(sem);
    if (take(s, n)) {
        return 0;
    }
    if (deadline == 0) {
        return -ETIMEDOUT;
    }
    weft__source_lock(&s->source);
    if (take_or_announce_locked(s, n)) {
        weft__source_unlock(&s->source);
        return 0;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    node.item = (void *)(uintptr_t)n;
    int err = weft__source_wait_locked(&s->source, &s->source.waiters, &node, deadline, &sem_kind);
    if (err == 0) {
        weft__source_unlock_wait(&s->source);
    } else {
        serve(s); /* the waiters after it */
    }
    return err;
}

void weft_sem_release(weft_sem *sem, uint64_t n)
{
    WEFT__NONNULL(sem);
    struct weft__sem *s = weft__sem_of(sem);
    struct weft__chain ready;
    uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
    while (!(word & QUEUED)) {
        WEFT__REQUIRE(n <= MAX_PERMITS && word / ONE + n <= MAX_PERMITS,
                      "semaphore: more than 2^62 permits");
        if (step(s, &word, word + n * ONE, memory_order_release)) { /* pairs: take */
            return;
        }
    }
    weft__chain_init(&ready);
    weft__source_lock(&s->source);
    word = atomic_load_explicit(&s->word, memory_order_relaxed);
    WEFT__REQUIRE(n <= MAX_PERMITS && word / ONE + n <= MAX_PERMITS,
                  "semaphore: more than 2^62 permits");
    while (!step(s, &word, word + n * ONE, memory_order_release)) { /* pairs: take */
    }
    serve_locked(s, &ready);
    weft__source_unlock(&s->source);
    weft__place_all(&ready, WEFT__FRONT);
}

uint64_t weft_sem_permits(const weft_sem *sem)
{
    WEFT__NONNULL(sem);
    const struct weft__sem *s = (const struct weft__sem *)(const void *)sem;
    return atomic_load_explicit(&s->word, memory_order_relaxed) / ONE;
}

bool weft__sem_arm(struct weft__sem *s, struct weft__node *node, uint64_t n)
{
    weft__source_lock(&s->source);
    bool wait = !take_or_announce_locked(s, n);
    if (wait) {
        node->item = (void *)(uintptr_t)n;
        weft__waitlist_push(&s->source.waiters, node);
    }
    weft__source_unlock(&s->source);
    return wait;
}

void weft__sem_finish(struct weft__sem *s, struct weft__node *node)
{
    weft__source_leave(&s->source, &s->source.waiters, node);
    serve(s);
}
