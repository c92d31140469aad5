#include "sync/mutex.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nonnull.h"
#include "sched/pool.h"

enum {
    WAITERS = 1,
    WOKEN = 2,
    FLAGS = WEFT__HOLDER_FLAGS,
};

#define OLD_NS 1000000
#define MAX_SKIPS 64

/* A holder usually keeps a contended lock for tens of nanoseconds: spin for about two
 * microseconds. */
#ifdef WEFT_EXPLORE
#define SPINS 1
#define PAUSES 1
#else
#define SPINS 4
#define PAUSES 30
#endif

/* How a waiter is woken. */
enum {
    HANDED,
    TRY,
};

uint64_t weft__mutex_holder(uint64_t on)
{
    struct weft__mutex *m = (struct weft__mutex *)(uintptr_t)on;
    return weft__holder_fiber(weft__source_peek(&m->source, &m->word));
}

static const struct weft__wait_kind mutex_kind = {
    .name = "mutex", .holder = weft__mutex_holder, .label = weft__source_label};

static const char *name_of(const struct weft__mutex *m)
{
    return m->source.name ? m->source.name : "without a name";
}

static inline uint64_t load(const struct weft__mutex *m)
{
    return atomic_load_explicit(&m->word, memory_order_relaxed);
}

static inline uint64_t holder_in(uint64_t word)
{
    return word & ~(uint64_t)FLAGS;
}

/* Changes the word by compare-and-swap; for a mutex with an owner, which no other thread accesses,
 * by a store. */
static inline __attribute__((always_inline)) bool step(struct weft__mutex *m, uint64_t *from,
                                                       uint64_t to, memory_order order)
{
    if (__builtin_expect(m->source.owner != NULL, 0)) {
        atomic_store_explicit(&m->word, to, memory_order_relaxed);
        return true;
    }
    return atomic_compare_exchange_strong_explicit(&m->word, from, to, order, memory_order_relaxed);
}

void weft_mutex_init(weft_mutex *mutex, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(mutex);
    struct weft__mutex *m = weft__mutex_of(mutex);
    weft__source_init(&m->source, opts);
    atomic_init(&m->word, 0);
    m->held = (struct weft__held){NULL, NULL};
    m->skipped = 0;
}

void weft_mutex_deinit(weft_mutex *mutex)
{
    WEFT__NONNULL(mutex);
    struct weft__mutex *m = weft__mutex_of(mutex);
    weft__source_deinit(&m->source, "mutex");
    WEFT__REQUIRE(!load(m), "mutex %s was destroyed while %s holds it", name_of(m),
                  weft__holder_text(load(m)).text);
}

/* --- mutexes that a fiber holds ------------------------------------------------------ */

static struct weft__mutex *of_held(struct weft__held *held)
{
    return (struct weft__mutex *)(void *)((char *)held - offsetof(struct weft__mutex, held));
}

/* Uses little stack and no stdio streams, because the fiber may have little stack left. */
static __attribute__((noinline)) void report_abandoned(const struct weft__task *task,
                                                       const struct weft__mutex *m)
{
    char text[192];
    int n = snprintf(
        text, sizeof text, "weft: %s ended while it held mutex %.63s (%p), which stays locked\n",
        weft__holder_text((uint64_t)(uintptr_t)task).text, name_of(m), (const void *)m);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {
        return; /* stderr is closed: the report is lost */
    }
}

/* Called when the fiber ends. */
static void abandon(struct weft__task *task, struct weft__held *held)
{
    struct weft__mutex *m = of_held(held);
    report_abandoned(task, m);
    uint64_t word = load(m);
    while (!step(m, &word, WEFT__HOLDER_GONE | (word & FLAGS), memory_order_relaxed)) {
    }
}

static inline void hold(struct weft__task *task, struct weft__mutex *m)
{
    m->held.below = task->held;
    task->held = &m->held;
    if (__builtin_expect(!m->held.abandon, 0)) {
        m->held.abandon = abandon;
    }
}

/* Usually the innermost mutex. If the mutex is not in the list, the caller does not hold it, which
 * the unlock reports. */
static inline void unhold(struct weft__task *task, const struct weft__mutex *m)
{
    struct weft__held **at = &task->held;
    while (__builtin_expect(*at != &m->held, 0)) {
        if (!*at) {
            return;
        }
        at = &(*at)->below;
    }
    *at = m->held.below;
}

static void check_rank(const struct weft__task *task, const struct weft__mutex *m)
{
    for (struct weft__held *held = task->held; held; held = held->below) {
        const struct weft__mutex *other = of_held(held);
        WEFT__REQUIRE(!other->source.rank || other->source.rank < m->source.rank,
                      "%s locks mutex %s of rank %u while it holds mutex %s of rank %u",
                      weft__holder_text((uint64_t)(uintptr_t)task).text, name_of(m), m->source.rank,
                      name_of(other), other->source.rank);
    }
}

/* --- locking ---------------------------------------------------------------------- */

/* One attempt to lock, by one caller. */
struct attempt {
    struct weft__mutex *mutex;
    uint64_t self;
    bool awake;    /* this caller set WOKEN, or was woken with it */
    int spins;     /* remaining */
    int64_t since; /* when the caller first queued; 0: it has not */
};

static inline uint64_t without_own_flag(const struct attempt *attempt, uint64_t word)
{
    return attempt->awake ? word & ~(uint64_t)WOKEN : word;
}

/* While the holder runs on another thread, spinning may be faster than a switch. */
static bool spin(struct attempt *attempt, uint64_t word)
{
    if (attempt->spins == 0 || !weft__holder_is_running(word)) {
        return false;
    }
    attempt->spins--;
    if ((word & WAITERS) && !(word & WOKEN) &&
        step(attempt->mutex, &word, word | WOKEN, memory_order_relaxed)) {
        attempt->awake = true;
    }
    for (int i = 0; i < PAUSES; i++) {
        weft__cpu_pause();
    }
    return true;
}

/* Under the lock: clears WAITERS if the list is empty. */
static void update_waiters_flag_locked(struct weft__mutex *m)
{
    uint64_t word = load(m);
    while (!m->source.waiters.first && (word & WAITERS) &&
           !step(m, &word, word & ~(uint64_t)WAITERS, memory_order_relaxed)) {
    }
}

/* Under the lock: if the mutex is held, announces a waiter. False: the mutex is free. */
static bool announce_locked(struct attempt *attempt)
{
    uint64_t word = load(attempt->mutex);
    do {
        if (!holder_in(word)) {
            return false;
        }
    } while (!step(attempt->mutex, &word, without_own_flag(attempt, word) | WAITERS,
                   memory_order_relaxed));
    return true;
}

static void waitlist_push_front(struct weft__waitlist *list, struct weft__node *node)
{
    node->next = list->first;
    *(list->first ? &list->first->prev : &list->last) = node;
    list->first = node;
    node->linked = true;
}

/* 0: handed over. -EAGAIN: free, or woken to try. Otherwise the reason why the wait ended. */
static int queue_up(struct attempt *attempt, int64_t deadline)
{
    struct weft__mutex *m = attempt->mutex;
    int64_t now = weft__clock_ns();
    weft__source_lock(&m->source);
    if (!announce_locked(attempt)) {
        weft__source_unlock(&m->source);
        return -EAGAIN;
    }
    struct weft__waiter waiter;
    struct weft__node node;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    node.item = (void *)(uintptr_t)attempt->self;
    bool again = attempt->since != 0;
    attempt->since = again ? attempt->since : now;
    node.value = (void *)(intptr_t)attempt->since;
    if (again) {
        waitlist_push_front(&m->source.waiters, &node);
    } else {
        weft__waitlist_push(&m->source.waiters, &node);
    }
    weft__source_unlock(&m->source);
    enum weft__reason reason =
        weft__waiter_park(&waiter, deadline, &mutex_kind, (uint64_t)(uintptr_t)m);
    if (weft__reason_is_done(reason) && node.status == TRY) {
        attempt->awake = true;
        attempt->spins = SPINS;
        return -EAGAIN;
    }
    weft__mutex_finish(m, &node);
    return weft__reason_errno(reason);
}

/* Whether the holder can make progress while the caller spins: only on another processor. */
static bool can_spin(void)
{
    const struct weft__worker *w = weft__worker_self();
    return !w || (w->pool && w->pool->spin_ns > 0);
}

static int lock_slow(struct weft__mutex *m, struct weft__task *task, int64_t deadline)
{
    struct attempt attempt = {.mutex = m, .self = weft__holder_of(task)};
    int err;
    if (m->source.owner) {
        weft__source_check_owner(&m->source);
    }
    if (WEFT_DEBUG && m->source.rank && task && deadline != 0) {
        check_rank(task, m);
    }
    WEFT__REQUIRE(holder_in(load(m)) != attempt.self, "%s locks mutex %s, which it holds already",
                  weft__holder_text(attempt.self).text, name_of(m));
    attempt.spins = can_spin() ? SPINS : 0;
    do {
        uint64_t word = load(m);
        if (!holder_in(word)) {
            err = step(m, &word, without_own_flag(&attempt, word) | attempt.self,
                       memory_order_acquire) /* pairs: unlock_slow */
                      ? 0
                      : -EAGAIN;
        } else if (deadline == 0) {
            err = -ETIMEDOUT;
        } else {
            err = spin(&attempt, word) ? -EAGAIN : queue_up(&attempt, deadline);
        }
    } while (err == -EAGAIN);
    if (err == 0 && task) {
        hold(task, m);
    }
    return err;
}

/* The word is read first: a compare-and-swap that must fail because of the flags costs as much as
 * one that succeeds. */
int weft_mutex_lock(weft_mutex *mutex, int64_t deadline)
{
    WEFT__NONNULL(mutex);
    struct weft__mutex *m = weft__mutex_of(mutex);
    struct weft__task *task = weft__holder_caller();
    uint64_t word = load(m);
    if (__builtin_expect(task && !m->source.owner && !holder_in(word) && !WEFT_DEBUG, 1) &&
        __builtin_expect(atomic_compare_exchange_strong_explicit(
                             &m->word, &word, word | (uint64_t)(uintptr_t)task,
                             memory_order_acquire, /* pairs: weft_mutex_unlock, unlock_slow */
                             memory_order_relaxed),
                         1)) {
        hold(task, m);
        return 0;
    }
    return lock_slow(m, task, deadline);
}

/* An abort passes through a shield, repeatedly: then the only option is to retry between yields. */
void weft__mutex_lock_uninterruptible(struct weft__mutex *m)
{
    struct weft__task *task = weft__holder_caller();
    if (task) {
        task->shields++;
    }
    while (lock_slow(m, task, WEFT_FOREVER) != 0) {
        weft_yield();
    }
    if (task) {
        task->shields--;
    }
}

/* --- unlocking -------------------------------------------------------------------- */

static void set_locked(struct weft__mutex *m, uint64_t holder, uint64_t set, uint64_t clear)
{
    uint64_t word = load(m);
    while (!step(m, &word, (holder | (word & FLAGS) | set) & ~clear, memory_order_relaxed)) {
    }
}

/* Under the lock, by the holder: hands the lock to the first waiter that is still waiting, or wakes
 * it to try; wakes none if that waiter is young and another thread is about to try. True: the lock
 * was handed over. */
static bool wake_first_locked(struct weft__mutex *m, uint64_t self, struct weft__chain *ready)
{
    /* A dispatcher's order must not depend on time: there, the first waiter is always next. */
    const struct weft__worker *w = weft__worker_self();
    bool by_dispatcher = w && w->group_sched;
    int64_t now = weft__clock_ns();
    struct weft__node *node;
    while ((node = m->source.waiters.first)) {
        bool old = by_dispatcher || now - (int64_t)(intptr_t)node->value > OLD_NS;
        if (!old && (load(m) & WOKEN)) {
            break;
        }
        weft__waitlist_remove(&m->source.waiters, node);
        set_locked(m, old ? (uint64_t)(uintptr_t)node->item : self, old ? 0 : WOKEN, 0);
        if (weft__node_fire(node, NULL, old ? HANDED : TRY, ready)) {
            return old;
        }
        set_locked(m, self, 0, old ? 0 : WOKEN);
    }
    return false;
}

static bool wake_first(struct weft__mutex *m, uint64_t self, struct weft__chain *ready)
{
    weft__source_lock(&m->source);
    m->skipped = 0;
    bool handed = wake_first_locked(m, self, ready);
    update_waiters_flag_locked(m);
    weft__source_unlock(&m->source);
    return handed;
}

/* The waiter that was handed the lock should not have to wait until the calling fiber yields, which
 * may take long: notify an idle worker. */
static void place_handed(struct weft__chain *ready)
{
    struct weft__worker *w = weft__worker_self();
    bool any = ready->head != NULL;
    weft__place_all(ready, WEFT__FRONT);
    if (any && w && w->pool) {
        weft__idle_notify(&w->pool->idle);
    }
}

static void unlock_slow(struct weft__mutex *m, uint64_t self)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    uint64_t word = load(m);
    if (m->source.owner) {
        weft__source_check_owner(&m->source);
    }
    do {
        WEFT__REQUIRE(holder_in(word) == self, "%s unlocks mutex %s, which is held by %s",
                      weft__holder_text(self).text, name_of(m), weft__holder_text(word).text);
        /* Repeat if the word has changed: a caller that queues sets WAITERS, and a waiter that was
         * woken to try and failed clears WOKEN. */
        while ((word & WAITERS) && (!(word & WOKEN) || ++m->skipped >= MAX_SKIPS)) {
            if (wake_first(m, self, &ready)) {
                place_handed(&ready);
                return;
            }
            word = load(m);
        }
    } while (!step(m, &word, word & FLAGS, memory_order_release)); /* pairs: lock_slow */
    if (ready.head) {
        weft__place_all(&ready, WEFT__FRONT);
    }
}

void weft_mutex_unlock(weft_mutex *mutex)
{
    WEFT__NONNULL(mutex);
    struct weft__mutex *m = weft__mutex_of(mutex);
    struct weft__task *task = weft__holder_caller();
    if (__builtin_expect(task != NULL, 1)) {
        uint64_t word = (uint64_t)(uintptr_t)task;
        unhold(task, m);
        if (__builtin_expect(load(m) == word && !m->source.owner, 1) &&
            __builtin_expect(atomic_compare_exchange_strong_explicit(
                                 &m->word, &word, 0,
                                 memory_order_release, /* pairs: weft_mutex_lock, lock_slow */
                                 memory_order_relaxed),
                             1)) {
            return;
        }
    }
    unlock_slow(m, weft__holder_of(task));
}

/* --- queries, and stackless tasks ------------------------------------------------ */

bool weft__mutex_is_mine(const weft_mutex *mutex)
{
    WEFT__NONNULL(mutex);
    const struct weft__mutex *m = (const struct weft__mutex *)(const void *)mutex;
    return holder_in(load(m)) == weft__holder_of(weft__holder_caller());
}

bool weft__mutex_try(struct weft__mutex *m)
{
    const struct weft__task *task = weft__holder_caller();
    if (WEFT_DEBUG && m->source.rank && task) {
        check_rank(task, m);
    }
    return weft_mutex_lock((weft_mutex *)(void *)m, 0) == 0;
}

void weft__mutex_hold(struct weft__mutex *m, struct weft__task *task)
{
    hold(task, m);
}

bool weft__mutex_arm(struct weft__mutex *m, struct weft__node *node, uint64_t self)
{
    struct attempt attempt = {.mutex = m, .self = self};
    bool wait;
    weft__source_lock(&m->source);
    for (;;) {
        uint64_t word = load(m);
        if ((wait = announce_locked(&attempt))) {
            node->item = (void *)(uintptr_t)self;
            node->value = (void *)(intptr_t)-OLD_NS; /* older than any other waiter */
            weft__waitlist_push(&m->source.waiters, node);
            break;
        }
        word &= FLAGS;
        if (step(m, &word, word | self, memory_order_acquire)) { /* pairs: unlock_slow */
            break;
        }
    }
    weft__source_unlock(&m->source);
    return wait;
}

void weft__mutex_finish(struct weft__mutex *m, struct weft__node *node)
{
    weft__source_lock(&m->source);
    if (node->linked) {
        weft__waitlist_remove(&m->source.waiters, node);
    }
    update_waiters_flag_locked(m);
    weft__source_unlock(&m->source);
}

void weft__mutex_unlock_as(struct weft__mutex *m, uint64_t self)
{
    unlock_slow(m, self);
}
