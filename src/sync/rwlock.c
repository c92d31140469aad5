#include "sync/rwlock.h"

#include <errno.h>

#include "base/clock.h"
#include "base/nonnull.h"
#include "base/thread.h"
#include "lock/membarrier.h"
#include "sched/pool.h"

enum {
    WRITER = 1,
    QUEUED = 2,
    SLOT = (WEFT__READER_SLOTS - 1) * WEFT__READER_SLOT_TAG,
    READER = WEFT__READER_SLOT_UNIT,
};
_Static_assert((WRITER | QUEUED) < WEFT__READER_SLOT_TAG && (SLOT | 3) + 1 == READER, "the word");

#define OLD_NS 1000000
#define LEASE_NS 250000
#define HOT_CALLS 256u   /* in a row, on one thread: it may be using the lock continuously */
#define HOT_BOUNCES 64u  /* in a row, from one thread to another */
#define SAMPLES 16u      /* of a lock that may be in continuous use */
#define SLOT_CALLS 1024u /* in a row, on one thread: enter its reader slot */

/* How a waiter is woken; in a linked node, how a reader that is not old may be woken. */
enum {
    ADMITTED,
    TRY,
};

/* SPINS: about as long as a switch takes. SLOT_SPINS: a short critical section of a reader. */
#ifdef WEFT_EXPLORE
#define SPINS 0
#define SLOT_SPINS 0
#else
#define SPINS 100
#define SLOT_SPINS 20
#endif

uint64_t weft__rwlock_holder(uint64_t on)
{
    struct weft__rwlock *l = (struct weft__rwlock *)(uintptr_t)on;
    return weft__holder_fiber(weft__source_peek(&l->source, &l->writer));
}

static const struct weft__wait_kind read_kind = {
    .name = "rwlock for reading", .holder = weft__rwlock_holder, .label = weft__source_label};
static const struct weft__wait_kind write_kind = {
    .name = "rwlock for writing", .holder = weft__rwlock_holder, .label = weft__source_label};

static const char *name_of(const struct weft__rwlock *l)
{
    return l->source.name ? l->source.name : "without a name";
}

static inline uint64_t load(const struct weft__rwlock *l)
{
    return atomic_load_explicit(&l->word, memory_order_relaxed);
}

/* Acquire: the admitted thread sees everything that the threads which left did. pairs: leave_read,
 * weft_rwlock_write_unlock */
static inline uint64_t load_acquire(const struct weft__rwlock *l)
{
    return atomic_load_explicit(&l->word, memory_order_acquire);
}

static inline bool has_readers(uint64_t word)
{
    return word >= READER;
}

/* Adds n to the word (also used to set or clear flags whose state is known) and returns the old
 * value; for a lock with an owner, which no other thread accesses, by a store. */
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

static inline struct weft__reader_slot *slot_of(uint64_t word)
{
    return weft__reader_slot_tagged(word & SLOT);
}

/* Requires QUEUED. Call it before checking the readers in the word: a reader moves from the slot to
 * the word. */
static inline bool is_slot_reading(const struct weft__rwlock *l)
{
    uint64_t word = load(l);
    return (word & SLOT) && weft__reader_slot_has(slot_of(word), &l->word);
}

static void set_writer(struct weft__rwlock *l, uint64_t writer)
{
    atomic_store_explicit(&l->writer, writer, memory_order_relaxed);
}

void weft_rwlock_init(weft_rwlock *lock, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(lock);
    struct weft__rwlock *l = weft__rwlock_of(lock);
    weft__source_init(&l->source, opts);
    atomic_init(&l->word, 0);
    atomic_init(&l->writer, 0);
    l->readers = (struct weft__waitlist){NULL, NULL};
    atomic_init(&l->last_thread, 0);
    atomic_init(&l->leased_until, 0);
    atomic_init(&l->calls, 0);
    atomic_init(&l->bounces, 0);
}

void weft_rwlock_deinit(weft_rwlock *lock)
{
    WEFT__NONNULL(lock);
    struct weft__rwlock *l = weft__rwlock_of(lock);
    weft__source_deinit(&l->source, "rwlock");
    WEFT__REQUIRE(!l->readers.first, "rwlock %s was destroyed while a fiber or thread waits on it",
                  name_of(l));
    WEFT__REQUIRE(!(load(l) & ~(uint64_t)SLOT) && !is_slot_reading(l),
                  "rwlock %s was destroyed while it is locked", name_of(l));
}

/* --- the queue, under the lock ------------------------------------------------------ */

static void clear_queued_locked(struct weft__rwlock *l)
{
    if (!l->source.waiters.first && !l->readers.first && (load(l) & QUEUED)) {
        add(l, -QUEUED, memory_order_relaxed);
    }
}

/* For a writer, with QUEUED set. From now on a reader that uses the slot of another thread sees
 * QUEUED, or the writer sees that reader; once the slot is seen empty it is removed from the word.
 * The calling thread's own readers have already seen QUEUED. */
static __attribute__((noinline)) void revoke_slot_locked(struct weft__rwlock *l)
{
    uint64_t slot = load(l) & SLOT;
    const struct weft__reader_slot *reader_slot = slot_of(slot);
    if (!slot || reader_slot == weft__reader_slot_self()) {
        return;
    }
    weft__membarrier(); /* pairs: read, hide */
    for (int i = 0; i < SLOT_SPINS && weft__reader_slot_has(reader_slot, &l->word); i++) {
        weft__cpu_pause();
    }
    if (!weft__reader_slot_has(reader_slot, &l->word)) {
        add(l, -(int64_t)slot, memory_order_relaxed);
    }
}

static void announce_locked(struct weft__rwlock *l, uint64_t writer)
{
    if (!(load(l) & QUEUED)) {
        add(l, QUEUED, memory_order_relaxed);
    }
    if (writer) {
        revoke_slot_locked(l);
    }
}

/* Requires QUEUED, so that no other thread can take the lock in between. */
static bool take_locked(struct weft__rwlock *l, uint64_t writer)
{
    bool in_slot = writer && is_slot_reading(l);
    uint64_t word = load_acquire(l);
    if ((word & WRITER) || l->source.waiters.first) {
        return false;
    }
    if (!writer) {
        add(l, READER, memory_order_relaxed);
        return true;
    }
    if (in_slot || has_readers(word) || l->readers.first) {
        return false;
    }
    add(l, WRITER, memory_order_relaxed);
    set_writer(l, writer);
    return true;
}

/* Wakes all waiting readers: admits them if `old`, otherwise wakes them to try, because a reader
 * that is admitted but does not run yet would block writers. Stackless tasks, which cannot retry,
 * are admitted. True: a reader was admitted. */
static bool wake_readers_locked(struct weft__rwlock *l, bool old, struct weft__chain *ready)
{
    struct weft__node *node;
    bool any = false;
    while ((node = weft__waitlist_pop(&l->readers))) {
        if (!old && node->status == TRY) {
            weft__node_notify(node, TRY, ready);
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

/* Admits the next waiters: after a writer the readers, if the first of them is old, else the next
 * writer. */
static void serve(struct weft__rwlock *l, bool after_writer)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&l->source);
    if (!(load_acquire(l) & WRITER)) {
        bool old = first_reader_is_old_locked(l);
        bool admitted = old && after_writer && wake_readers_locked(l, true, &ready);
        /* The last counted reader, tentative or real, checks again. */
        if (!admitted && !is_slot_reading(l) && !has_readers(load_acquire(l))) {
            admitted = admit_writer_locked(l, &ready);
        }
        if (!admitted && !l->source.waiters.first) {
            wake_readers_locked(l, old, &ready);
        }
    }
    clear_queued_locked(l);
    weft__source_unlock(&l->source);
    weft__place_all(&ready, WEFT__FRONT);
}

/* --- waiting ---------------------------------------------------------------------------- */

static bool fired(const struct weft__waiter *waiter)
{
    return waiter->task ? weft__task_is_fired(waiter->task)
                        : weft__waiter_reason(waiter) != WEFT__REASON_NONE;
}

/* `wake_mode`: TRY, or ADMITTED for a reader that must be admitted directly. */
static void link_locked(struct weft__rwlock *l, struct weft__node *node, uint64_t writer,
                        int64_t since, int wake_mode)
{
    node->status = wake_mode;
    node->item = (void *)(uintptr_t)writer;
    node->value = (void *)(intptr_t)since;
    weft__waitlist_push(writer ? &l->source.waiters : &l->readers, node);
}

/* Holders that are running usually keep the lock for less time than a switch takes. */
static void spin(const struct weft__rwlock *l, const struct weft__waiter *waiter)
{
    const struct weft__worker *w = weft__worker_self();
    if (w && w->pool && w->pool->spin_ns == 0) {
        return;
    }
    for (int i = 0; i < SPINS && !fired(waiter); i++) {
        if (!weft__holder_is_running(atomic_load_explicit(&l->writer, memory_order_relaxed))) {
            return;
        }
        weft__cpu_pause();
    }
}

/* 0: taken, or admitted. -EAGAIN: a reader should try again. Otherwise the reason why the wait
 * ended. *since is when the caller first queued. */
static int queue_up(struct weft__rwlock *l, uint64_t writer, int64_t *since, int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node node;
    *since = *since ? *since : weft__clock_ns();
    weft__source_lock(&l->source);
    announce_locked(l, writer);
    if (take_locked(l, writer)) {
        clear_queued_locked(l);
        weft__source_unlock(&l->source);
        return 0;
    }
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    link_locked(l, &node, writer, *since, TRY);
    weft__source_unlock(&l->source);
    spin(l, &waiter);
    enum weft__reason reason = weft__waiter_park(
        &waiter, deadline, writer ? &write_kind : &read_kind, (uint64_t)(uintptr_t)l);
    if (!weft__reason_is_done(reason)) {
        weft__rwlock_finish(l, &node, writer);
        return weft__reason_errno(reason);
    }
    return node.status == TRY ? -EAGAIN : 0;
}

/* A reader leaves, tentative or real. */
static inline void leave_read(struct weft__rwlock *l)
{
    /* Release: for the writer. Acquire: what the earlier readers did, for the writer that is
     * admitted here. pairs: weft_rwlock_write, take_locked, serve */
    uint64_t word = add(l, -READER, memory_order_acq_rel);
    WEFT__REQUIRE(has_readers(word), "rwlock %s, which has no readers, was unlocked by a reader",
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

/* --- reader slots ----------------------------------------------------------------------- */

void weft__rwlock_enter_slot(struct weft__rwlock *l)
{
    struct weft__worker *w = weft__worker_self();
    if (!w || l->source.owner || !weft__membarrier_is_usable()) {
        return;
    }
    if (!w->reader_slot && !(w->reader_slot = weft__reader_slot_open(w))) {
        return;
    }
    /* This thread sees all flags that are set at this point. */
    uint64_t word = load(l);
    if (!(word & SLOT)) {
        atomic_compare_exchange_strong_explicit(&l->word, &word, word | w->reader_slot->tag,
                                                memory_order_relaxed, memory_order_relaxed);
    }
}

/* --- the thread that uses the lock -------------------------------------------------------- */

static inline uint32_t get(const _Atomic(uint32_t) *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void set(_Atomic(uint32_t) *count, uint32_t n)
{
    atomic_store_explicit(count, n, memory_order_relaxed);
}

#ifdef WEFT_EXPLORE
/* The heuristics only affect timing; the model clients enter reader slots explicitly. */
static bool is_last_thread(const struct weft__rwlock *l)
{
    return l != NULL;
}
#else
static inline bool is_last_thread(const struct weft__rwlock *l)
{
    return atomic_load_explicit(&l->last_thread, memory_order_relaxed) == weft__thread_id();
}
#endif

static inline void count_call(struct weft__rwlock *l)
{
#ifndef WEFT_EXPLORE
    uint32_t calls = get(&l->calls) + 1;
    set(&l->calls, calls);
    if (__builtin_expect(calls % SLOT_CALLS == 0, 0)) {
        weft__rwlock_enter_slot(l);
    }
#else
    (void)l;
#endif
}

static __attribute__((noinline)) void set_last_thread(struct weft__rwlock *l, uint32_t calls)
{
    atomic_store_explicit(&l->last_thread, weft__thread_id(), memory_order_relaxed);
    set(&l->calls, calls);
}

/* Whether the last caller's thread uses the lock right now, about every 100 ns. A thread that uses
 * a reader slot does if a reader is seen both present and absent. */
static bool is_hot(const struct weft__rwlock *l)
{
    uint32_t before = get(&l->calls), in_slot = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        weft__cpu_pause();
        in_slot += is_slot_reading(l);
    }
    return get(&l->calls) - before > SAMPLES / 2 || (in_slot > 1 && in_slot < SAMPLES);
}

/* Delays the calling fiber until the lease of the thread that uses the lock continuously has
 * expired; the next lease is the caller's. */
static int hold_back(struct weft__rwlock *l, int64_t deadline, const struct weft__wait_kind *kind)
{
    struct weft__waiter waiter;
    int64_t now = weft__clock_ns();
    int64_t until = atomic_load_explicit(&l->leased_until, memory_order_relaxed);
    if (now < until && until < deadline) {
        weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT); /* only time or a cancel ends this wait */
        enum weft__reason reason = weft__waiter_park(&waiter, until, kind, (uint64_t)(uintptr_t)l);
        if (reason != WEFT__REASON_TIMEOUT) {
            return weft__reason_errno(reason);
        }
        now = weft__clock_ns();
    }
    set_last_thread(l, HOT_CALLS);
    atomic_store_explicit(&l->leased_until, now + LEASE_NS, memory_order_relaxed);
    return 0;
}

static __attribute__((noinline)) int
call_from_other_thread(struct weft__rwlock *l, int64_t deadline, const struct weft__wait_kind *kind)
{
    const struct weft__worker *w = weft__worker_self();
    uint32_t bounces = get(&l->bounces) + 1;
    bool maybe = get(&l->calls) >= HOT_CALLS || bounces >= HOT_BOUNCES;
    set(&l->bounces, maybe ? 0 : bounces);
    if (maybe && deadline != 0 && w && weft__current(w) && w->pool->spin_ns > 0 && is_hot(l)) {
        return hold_back(l, deadline, kind);
    }
    set_last_thread(l, 0);
    return 0;
}

/* --- the lock --------------------------------------------------------------------------------- */

/* Functions that access the thread's own slot are never part of a function that switches fibers:
 * the compiler would keep the address of the slot across the switch. */

/* The normal path: the reader is counted in the word. */
static __attribute__((noinline)) int read_counted(struct weft__rwlock *l, int64_t deadline)
{
    if (__builtin_expect(!is_last_thread(l), 0)) {
        int err = call_from_other_thread(l, deadline, &read_kind);
        if (err) {
            return err;
        }
    } else {
        count_call(l);
    }
    /* pairs: weft_rwlock_write_unlock */
    if (__builtin_expect(add(l, READER, memory_order_acquire) & (WRITER | QUEUED), 0)) {
        return read_slow(l, deadline);
    }
    return 0;
}

static __attribute__((noinline)) void leave_counted(struct weft__rwlock *l)
{
    leave_read(l);
}

static __attribute__((noinline, cold)) void serve_cold(struct weft__rwlock *l)
{
    serve(l, false);
}

static inline void leave_slot(struct weft__rwlock *l, struct weft__reader_slot *slot)
{
    weft__reader_slot_set(slot, NULL);
    WEFT__COMPILER_BARRIER(); /* pairs: revoke_slot_locked */
    if (__builtin_expect(load(l) & QUEUED, 0)) {
        serve_cold(l);
    }
}

/* Another thread changed the word meanwhile. */
static __attribute__((noinline, cold)) int
read_retry(struct weft__rwlock *l, struct weft__reader_slot *slot, int64_t deadline)
{
    leave_slot(l, slot);
    return read_counted(l, deadline);
}

__attribute__((noinline)) int weft_rwlock_read(weft_rwlock *lock, int64_t deadline)
{
    WEFT__NONNULL(lock);
    struct weft__rwlock *l = weft__rwlock_of(lock);
    struct weft__reader_slot *self = weft__reader_slot_self();
    uint64_t word = load(l);
    bool may = (word & (WRITER | QUEUED | SLOT)) == self->tag && !weft__reader_slot_word(self);
    if (!__builtin_expect(may, 1)) {
        return read_counted(l, deadline);
    }
    weft__reader_slot_set(self, &l->word);
    WEFT__COMPILER_BARRIER(); /* pairs: revoke_slot_locked */
    /* Acquire: what writers have done. pairs: weft_rwlock_write_unlock */
    if (__builtin_expect(atomic_load_explicit(&l->word, memory_order_acquire) != word, 0)) {
        return read_retry(l, self, deadline);
    }
    return 0;
}

__attribute__((noinline)) void weft_rwlock_read_unlock(weft_rwlock *lock)
{
    WEFT__NONNULL(lock);
    struct weft__rwlock *l = weft__rwlock_of(lock);
    struct weft__reader_slot *self = weft__reader_slot_self();
    if (__builtin_expect(weft__reader_slot_word(self) == &l->word, 1)) {
        leave_slot(l, self);
    } else {
        leave_counted(l);
    }
}

/* The caller as a holder. A thread that uses a reader slot finds its worker there. */
static inline uint64_t caller(void)
{
    const struct weft__worker *w = weft__reader_slot_self()->worker;
    const struct weft__task *task = w ? weft__current(w) : NULL;
    return task ? weft__holder_of(task) : weft__holder_of(weft__holder_caller());
}

/* Takes the lock for writing if it is free and no slot except this thread's own is entered. */
static inline bool take_free(struct weft__rwlock *l, uint64_t writer)
{
    const struct weft__reader_slot *self = weft__reader_slot_self();
    uint64_t word = load(l);
    if (l->source.owner ||
        (word && (word != self->tag || weft__reader_slot_word(self) == &l->word))) {
        return false;
    }
    /* pairs: leave_read, weft_rwlock_write_unlock */
    if (!atomic_compare_exchange_strong_explicit(&l->word, &word, word | WRITER,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    set_writer(l, writer);
    return true;
}

/* 0: the lock was taken; otherwise the caller's holder number. */
static __attribute__((noinline)) uint64_t take_or_self(struct weft__rwlock *l)
{
    uint64_t self = caller();
    return take_free(l, self) ? 0 : self;
}

static __attribute__((noinline)) int write_slow(struct weft__rwlock *l, int64_t deadline)
{
    uint64_t self = take_or_self(l);
    int64_t since = 0;
    if (!self) {
        return 0;
    }
    WEFT__REQUIRE(atomic_load_explicit(&l->writer, memory_order_relaxed) != self,
                  "%s locks rwlock %s, which it holds already", weft__holder_text(self).text,
                  name_of(l));
    if (deadline == 0 && (load(l) & ~(uint64_t)SLOT)) {
        return -ETIMEDOUT;
    }
    return queue_up(l, self, &since, deadline);
}

static __attribute__((noinline)) int write_from_other_thread(struct weft__rwlock *l,
                                                             int64_t deadline)
{
    int err = call_from_other_thread(l, deadline, &write_kind);
    return err ? err : write_slow(l, deadline);
}

__attribute__((noinline)) int weft_rwlock_write(weft_rwlock *lock, int64_t deadline)
{
    WEFT__NONNULL(lock);
    struct weft__rwlock *l = weft__rwlock_of(lock);
    if (__builtin_expect(!is_last_thread(l), 0)) {
        return write_from_other_thread(l, deadline);
    }
    count_call(l);
    return take_free(l, caller()) ? 0 : write_slow(l, deadline);
}

__attribute__((noinline)) void weft_rwlock_write_unlock(weft_rwlock *lock)
{
    WEFT__NONNULL(lock);
    struct weft__rwlock *l = weft__rwlock_of(lock);
    uint64_t self = caller();
    uint64_t writer = atomic_load_explicit(&l->writer, memory_order_relaxed);
    WEFT__REQUIRE(writer == self, "%s unlocks rwlock %s, which is held by %s",
                  weft__holder_text(self).text, name_of(l), weft__holder_text(writer).text);
    set_writer(l, 0);
    /* pairs: weft_rwlock_read, weft_rwlock_write, take_locked, serve */
    if (add(l, -WRITER, memory_order_release) & QUEUED) {
        serve(l, true);
    }
}

/* --- stackless tasks --------------------------------------------------------------------- */

bool weft__rwlock_arm(struct weft__rwlock *l, struct weft__node *node, uint64_t writer)
{
    int64_t now = weft__clock_ns();
    weft__source_lock(&l->source);
    announce_locked(l, writer);
    bool wait = !take_locked(l, writer);
    if (wait) {
        link_locked(l, node, writer, now, ADMITTED);
    }
    clear_queued_locked(l);
    weft__source_unlock(&l->source);
    return wait;
}

void weft__rwlock_finish(struct weft__rwlock *l, struct weft__node *node, uint64_t writer)
{
    weft__source_lock(&l->source);
    bool gave_up = node->linked; /* otherwise it was admitted, or the waiters after it have been
                                  * served */
    if (gave_up) {
        weft__waitlist_remove(writer ? &l->source.waiters : &l->readers, node);
    }
    weft__source_unlock(&l->source);
    if (gave_up) {
        serve(l, writer != 0); /* waiters that only it blocked */
    }
}
