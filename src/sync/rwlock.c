#include "sync/rwlock.h"

#include <errno.h>

#include "base/clock.h"
#include "sched/pool.h"

enum {
    WRITER = 1,
    QUEUED = 2,
    READER = 4,
};

#define OLD_NS 1000000

/* How a waiter is told. */
enum {
    ADMITTED,
    TRY,
};

/* As long as a switch would take, about. */
#ifdef WEFT_EXPLORE
#define SPINS 0
#else
#define SPINS 100
#endif

static uint64_t writer_of(uint64_t on)
{
    const struct weft__rwlock *l = (const struct weft__rwlock *)(uintptr_t)on;
    return weft__holder_fiber(atomic_load_explicit(&l->writer, memory_order_relaxed));
}

static const struct weft__wait_kind read_kind = {
    .name = "rwlock for reading", .holder = writer_of, .label = weft__source_label};
static const struct weft__wait_kind write_kind = {
    .name = "rwlock for writing", .holder = writer_of, .label = weft__source_label};

static const char *name_of(const struct weft__rwlock *l)
{
    return l->source.name ? l->source.name : "without a name";
}

static inline uint64_t load(const struct weft__rwlock *l)
{
    return atomic_load_explicit(&l->word, memory_order_relaxed);
}

static inline bool has_readers(uint64_t word)
{
    return word >= READER;
}

/* Adds (of flags that are known: sets or clears) and gives what was; of an owned lock, which nobody else looks at, by
 * a store. */
static inline __attribute__((always_inline)) uint64_t add(struct weft__rwlock *l, int64_t n,
                                                          memory_order order)
{
    if (__builtin_expect(l->source.owner != NULL, 0)) {
        uint64_t word = load(l);
        weft__source_check_owner(&l->source);
        atomic_store_explicit(&l->word, word + (uint64_t)n, memory_order_relaxed);
        return word;
    }
    return atomic_fetch_add_explicit(&l->word, (uint64_t)n, order);
}

static void set_writer(struct weft__rwlock *l, uint64_t writer)
{
    atomic_store_explicit(&l->writer, writer, memory_order_relaxed);
}

void weft_rwlock_init(weft_rwlock *lock, const struct weft_sync_opts *opts)
{
    struct weft__rwlock *l = weft__rwlock_of(lock);
    weft__source_init(&l->source, opts);
    atomic_init(&l->word, 0);
    atomic_init(&l->writer, 0);
    l->readers = (struct weft__waitlist){NULL, NULL};
}

void weft_rwlock_deinit(weft_rwlock *lock)
{
    struct weft__rwlock *l = weft__rwlock_of(lock);
    weft__source_deinit(&l->source, "rwlock");
    WEFT__REQUIRE(!l->readers.first, "rwlock %s was destroyed while somebody waits on it",
                  name_of(l));
    WEFT__REQUIRE(!load(l), "rwlock %s was destroyed while it is locked", name_of(l));
}

weft_fiber weft_rwlock_writer(const weft_rwlock *lock)
{
    return writer_of((uint64_t)(uintptr_t)lock);
}

/* --- the queue, under the lock ------------------------------------------------------ */

static void announce_locked(struct weft__rwlock *l)
{
    if (!(load(l) & QUEUED)) {
        add(l, QUEUED, memory_order_relaxed);
    }
}

static void tidy_locked(struct weft__rwlock *l)
{
    if (!l->source.waiters.first && !l->readers.first && (load(l) & QUEUED)) {
        add(l, -QUEUED, memory_order_relaxed);
    }
}

/* With QUEUED set, so that nobody can come between. */
static bool take_locked(struct weft__rwlock *l, uint64_t writer)
{
    /* Acquire: what those before have done. pairs: leave_read, weft_rwlock_write_unlock */
    uint64_t word = atomic_load_explicit(&l->word, memory_order_acquire);
    if ((word & WRITER) || l->source.waiters.first) {
        return false;
    }
    if (!writer) {
        add(l, READER, memory_order_relaxed);
        return true;
    }
    if (has_readers(word) || l->readers.first) {
        return false;
    }
    add(l, WRITER, memory_order_relaxed);
    set_writer(l, writer);
    return true;
}

/* All who wait to read: let in if `old`, else told to try: one who does not run should not keep writers away. True:
 * somebody was let in. */
static bool tell_readers_locked(struct weft__rwlock *l, bool old, struct weft__chain *ready)
{
    struct weft__node *node;
    bool any = false;
    while ((node = weft__waitlist_pop(&l->readers))) {
        if (!old) {
            weft__node_fire(node, NULL, TRY, ready);
            continue;
        }
        add(l, READER, memory_order_relaxed);
        if (weft__node_fire(node, NULL, ADMITTED, ready)) {
            any = true;
        } else {
            add(l, -READER, memory_order_relaxed);
        }
    }
    return any;
}

static bool admit_writer_locked(struct weft__rwlock *l, struct weft__chain *ready)
{
    struct weft__node *node;
    while ((node = weft__waitlist_pop(&l->source.waiters))) {
        add(l, WRITER, memory_order_relaxed);
        set_writer(l, (uint64_t)(uintptr_t)node->item);
        if (weft__node_fire(node, NULL, 0, ready)) {
            return true;
        }
        set_writer(l, 0);
        add(l, -WRITER, memory_order_relaxed);
    }
    return false;
}

static bool first_reader_is_old_locked(const struct weft__rwlock *l)
{
    const struct weft__node *node = l->readers.first;
    return node && weft__clock_ns() - (int64_t)(intptr_t)node->value > OLD_NS;
}

/* Lets in who may: after a writer the readers, if the first of them is old, else the next writer. */
static void serve(struct weft__rwlock *l, bool after_writer)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&l->source);
    /* Acquire, for those who are let in: what others have done. pairs: leave_read, weft_rwlock_write_unlock */
    uint64_t word = atomic_load_explicit(&l->word, memory_order_acquire);
    if (!(word & WRITER)) {
        bool old = first_reader_is_old_locked(l);
        bool admitted = old && after_writer && tell_readers_locked(l, true, &ready);
        /* Of ghosts and true readers alike the last looks again. */
        if (!admitted && !has_readers(load(l))) {
            admitted = admit_writer_locked(l, &ready);
        }
        if (!admitted && !l->source.waiters.first) {
            tell_readers_locked(l, old, &ready);
        }
    }
    tidy_locked(l);
    weft__source_unlock(&l->source);
    weft__place_chain(&ready);
}

/* --- waiting ---------------------------------------------------------------------------- */

static bool fired(const struct weft__waiter *waiter)
{
    return waiter->task ? weft__task_fired(waiter->task)
                        : weft__waiter_reason(waiter) != WEFT__REASON_NONE;
}

static void link_locked(struct weft__rwlock *l, struct weft__node *node, uint64_t writer,
                        int64_t since)
{
    node->item = (void *)(uintptr_t)writer;
    node->value = (void *)(intptr_t)since;
    weft__waitlist_push(writer ? &l->source.waiters : &l->readers, node);
}

/* Those who hold the lock keep it for less than a switch, mostly, if they run. */
static void spin(const struct weft__rwlock *l, const struct weft__waiter *waiter)
{
    const struct weft__worker *w = weft__worker_self();
    if (w && w->pool && w->pool->spin_ns == 0) {
        return;
    }
    for (int i = 0; i < SPINS && !fired(waiter); i++) {
        if (!weft__holder_runs(atomic_load_explicit(&l->writer, memory_order_relaxed))) {
            return;
        }
        weft__cpu_pause();
    }
}

/* 0: taken, or let in. -EAGAIN: a reader is to try again. Else why the wait ended. *since is when it queued up first. */
static int queue_up(struct weft__rwlock *l, uint64_t writer, int64_t *since, int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node node;
    *since = *since ? *since : weft__clock_ns();
    weft__source_lock(&l->source);
    announce_locked(l);
    if (take_locked(l, writer)) {
        tidy_locked(l);
        weft__source_unlock(&l->source);
        return 0;
    }
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    link_locked(l, &node, writer, *since);
    weft__source_unlock(&l->source);
    spin(l, &waiter);
    enum weft__reason reason = weft__waiter_park(
        &waiter, deadline, writer ? &write_kind : &read_kind, (uint64_t)(uintptr_t)l);
    if (!weft__reason_done(reason)) {
        weft__rwlock_finish(l, &node, writer);
        return weft__reason_errno(reason);
    }
    return node.status == TRY ? -EAGAIN : 0;
}

/* A reader leaves, or a ghost. */
static inline void leave_read(struct weft__rwlock *l)
{
    /* Release: for the writer. Acquire: what the readers before have done, for the writer that is let in here.
     * pairs: weft_rwlock_write, take_locked, serve */
    uint64_t word = add(l, -READER, memory_order_acq_rel);
    WEFT__REQUIRE(has_readers(word), "rwlock %s, which nobody reads, was unlocked by a reader",
                  name_of(l));
    if (__builtin_expect((word & QUEUED) && !has_readers(word - READER) && !(word & WRITER), 0)) {
        serve(l, false);
    }
}

static __attribute__((noinline)) int read_slow(struct weft__rwlock *l, int64_t deadline)
{
    int64_t since = 0;
    int err = 0;
    do {
        leave_read(l);
        err = deadline == 0 ? -ETIMEDOUT : queue_up(l, 0, &since, deadline);
        /* pairs: weft_rwlock_write_unlock */
    } while (err == -EAGAIN && (add(l, READER, memory_order_acquire) & (WRITER | QUEUED)));
    return err == -EAGAIN ? 0 : err;
}

int weft_rwlock_read(weft_rwlock *lock, int64_t deadline)
{
    struct weft__rwlock *l = weft__rwlock_of(lock);
    /* pairs: weft_rwlock_write_unlock */
    if (__builtin_expect(add(l, READER, memory_order_acquire) & (WRITER | QUEUED), 0)) {
        return read_slow(l, deadline);
    }
    return 0;
}

void weft_rwlock_read_unlock(weft_rwlock *lock)
{
    leave_read(weft__rwlock_of(lock));
}

int weft_rwlock_write(weft_rwlock *lock, int64_t deadline)
{
    struct weft__rwlock *l = weft__rwlock_of(lock);
    uint64_t self = weft__holder_of(weft__holder_caller()), word = 0;
    /* pairs: leave_read, weft_rwlock_write_unlock */
    if (!l->source.owner &&
        atomic_compare_exchange_strong_explicit(&l->word, &word, WRITER, memory_order_acquire,
                                                memory_order_relaxed)) {
        set_writer(l, self);
        return 0;
    }
    WEFT__REQUIRE(atomic_load_explicit(&l->writer, memory_order_relaxed) != self,
                  "%s locks rwlock %s, which it holds already", weft__holder_text(self).text,
                  name_of(l));
    if (deadline == 0 && load(l) != 0) {
        return -ETIMEDOUT;
    }
    int64_t since = 0;
    return queue_up(l, self, &since, deadline);
}

void weft_rwlock_write_unlock(weft_rwlock *lock)
{
    struct weft__rwlock *l = weft__rwlock_of(lock);
    uint64_t self = weft__holder_of(weft__holder_caller());
    uint64_t writer = atomic_load_explicit(&l->writer, memory_order_relaxed);
    WEFT__REQUIRE(writer == self, "%s unlocks rwlock %s, which is held by %s",
                  weft__holder_text(self).text, name_of(l), weft__holder_text(writer).text);
    set_writer(l, 0);
    /* pairs: weft_rwlock_read, weft_rwlock_write, take_locked, serve */
    if (add(l, -WRITER, memory_order_release) & QUEUED) {
        serve(l, true);
    }
}

/* --- bodies without a stack ---------------------------------------------------------------- */

bool weft__rwlock_arm(struct weft__rwlock *l, struct weft__node *node, uint64_t writer)
{
    weft__source_lock(&l->source);
    announce_locked(l);
    bool wait = !take_locked(l, writer);
    if (wait) {
        link_locked(l, node, writer, -OLD_NS); /* older than anybody */
    }
    tidy_locked(l);
    weft__source_unlock(&l->source);
    return wait;
}

void weft__rwlock_finish(struct weft__rwlock *l, struct weft__node *node, uint64_t writer)
{
    weft__source_leave(&l->source, writer ? &l->source.waiters : &l->readers, node);
    serve(l, true); /* who waited for it alone */
}
