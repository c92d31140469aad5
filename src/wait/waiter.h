/* A waiter: one wait of a fiber, a plain thread or a stackless task. A node: the waiter's entry in
 * one of the sources it waits for.
 *
 * Every wait is arm, park, finish:
 *   arm     weft__waiter_arm, then link a node into each source under that source's lock;
 *   park    weft__waiter_park: suspends until a source fires the waiter, the deadline passes, or a
 *           cancel or an interrupt arrives;
 *   finish  unlink every node that is still linked, under its source's lock.
 * A source fires under its own lock and unlinks the nodes it fires, so that after finish nothing
 * touches the nodes, which live on the waiter's stack or in its frame. The first to fire wins,
 * whatever it is; for the others the fire fails and they keep what they had to deliver. A source
 * does not know what kind of waiter it fires.
 *
 * A source writes what it delivers into its own node *before* it fires, because a waiter that has
 * not finished its switch resumes by itself. (Two sources may write, each into its own node; the
 * reason identifies the winner.) A source that may not write before it has won, because several
 * nodes share the destination, writes after winning, under its lock; the finish of the winning
 * node then takes that lock too. (Or the source wins by weft__task_fire_waiting, and writes and
 * unlinks before it places the task, which cannot run until then.)
 *
 * A call that can complete at once is no wait: it succeeds in a cancelled fiber too. */
#ifndef WEFT_WAIT_WAITER_H
#define WEFT_WAIT_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"
#include "task/ident.h"
#include "task/task.h"
#include "worker/worker.h"

struct weft__parker;

/* What a wait is for, for inspection: one static record per kind. */
struct weft__wait_kind {
    const char *name; /* "mutex" */
    bool fiber;       /* `on` is a fiber's handle, */
    bool descriptor;  /* or a descriptor number; else the address of an object, or 0 */
    /* The fiber that would have to act first; 0: none or unknown. `on` is the argument of park.
     * Called while the waiter is held in its wait, so that `on` still exists; must not block.
     * NULL: never any. */
    uint64_t (*holder)(uint64_t on);
    /* The user's name for the object, or NULL; called like holder. NULL: objects of this kind have
     * no names. */
    const char *(*label)(uint64_t on);
    /* For a wait on several objects, called like holder: the address of the first, 0 if it is not
     * an object, and the number of others. `label` and `holder` get that address. NULL: `on` is
     * the only one. */
    uint64_t (*first)(uint64_t on, unsigned *others);
};

/* What a wait is on, for inspection; of several objects the first. The waiter is held, or is the
 * caller itself while its nodes are linked. */
static inline uint64_t weft__wait_first(const struct weft__wait_kind *kind, uint64_t on,
                                        unsigned *others)
{
    *others = 0;
    return kind->first ? kind->first(on, others) : on;
}

struct weft__waiter {
    struct weft__task *task; /* NULL: a plain thread, or a waiter with `notify` */
    uint64_t ticket;
    _Atomic(uint32_t) word;      /* without a task: 0, then the reason; see also sleep_on */
    struct weft__worker *worker; /* with a task: where it runs, from arm to park */
    struct weft__parker *parker; /* of a thread that acts as a worker while it waits; else NULL */
    _Atomic(uint32_t) *visitors; /* with parker: its pool's visitor count, see weft__pool_visit */
    /* Called once, by the winner, under the lock of the source that fired: must be short and take
     * no lock that is held while a source is locked. The waiter may be freed when it returns. */
    void (*notify)(struct weft__waiter *waiter);
};

/* An entry in one source. While it is linked the fields except `item` belong to the source, under
 * its lock. */
struct weft__node {
    struct weft__node *next, *prev;
    struct weft__waiter *waiter;
    void *value;    /* what the source delivers */
    void *item;     /* where an item is read from or written to */
    int status;     /* 0 or a negative errno, for example if the source was closed */
    uint16_t index; /* index among the waiter's nodes: returned as weft__reason_index */
    bool linked;
    bool shared; /* other nodes use the same `item`: written only after this node has won */
};

/* The nodes of one source in order of arrival. While the list is empty `last` is undefined, and so
 * is `prev` of the first node. */
struct weft__waitlist {
    struct weft__node *first, *last;
};

static inline void weft__node_init(struct weft__node *node, struct weft__waiter *waiter,
                                   unsigned index)
{
    node->waiter = waiter;
    node->value = NULL;
    node->item = NULL;
    node->status = 0;
    node->index = (uint16_t)index;
    node->linked = false;
    node->shared = false;
}

static inline void weft__waitlist_push(struct weft__waitlist *list, struct weft__node *node)
{
    node->linked = true;
    node->next = NULL;
    if (__builtin_expect(!list->first, 1)) {
        list->first = node;
    } else {
        node->prev = list->last;
        list->last->next = node;
    }
    list->last = node;
}

/* For a node that is known to be the first. */
static inline void weft__waitlist_remove_first(struct weft__waitlist *list, struct weft__node *node)
{
    list->first = node->next;
    node->linked = false;
}

static inline void weft__waitlist_remove(struct weft__waitlist *list, struct weft__node *node)
{
    if (list->first == node) {
        weft__waitlist_remove_first(list, node);
        return;
    }
    node->prev->next = node->next;
    *(node->next ? &node->next->prev : &list->last) = node->prev;
    node->linked = false;
}

static inline struct weft__node *weft__waitlist_pop(struct weft__waitlist *list)
{
    struct weft__node *node = list->first;
    if (node) {
        weft__waitlist_remove_first(list, node);
    }
    return node;
}

void weft__waiter_arm_thread(struct weft__waiter *waiter);

/* Arms a wait of the calling fiber or plain thread; `kind`: enum weft__wait. */
static inline void weft__waiter_arm(struct weft__waiter *waiter, unsigned kind)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = w ? weft__current(w) : NULL;
    if (__builtin_expect(!task, 0)) {
        weft__waiter_arm_thread(waiter);
        return;
    }
    waiter->task = task;
    waiter->worker = w;
    waiter->ticket = weft__task_arm(task, task->shields > 0 ? kind | WEFT__WAIT_SHIELDED : kind);
}

/* Arms a wait of a worker's thread that keeps running its loop; `parker` is the worker's own. */
void weft__waiter_arm_worker(struct weft__waiter *waiter, struct weft__parker *parker,
                             _Atomic(uint32_t) *visitors);
/* Arms a waiter that has no stack to suspend: its code returns to its caller and is notified. The
 * code that keeps its deadline and its cancel fires it with that reason. */
void weft__waiter_arm_notify(struct weft__waiter *waiter,
                             void (*notify)(struct weft__waiter *waiter));

/* weft__waiter_fire_one for a waiter without a task. */
WEFT__MUST_USE bool weft__waiter_fire_thread(struct weft__waiter *waiter, enum weft__reason reason);

/* Ends the wait. Returns false if it had ended already. *ready is a fiber that the caller must
 * queue, or NULL. */
WEFT__MUST_USE static inline bool weft__waiter_fire_one(struct weft__waiter *waiter,
                                                        enum weft__reason reason,
                                                        struct weft__task **ready)
{
    struct weft__task *task = waiter->task;
    *ready = NULL;
    if (__builtin_expect(!task, 0)) {
        return weft__waiter_fire_thread(waiter, reason);
    }
    enum weft__fire fire = weft__task_fire(task, waiter->ticket, reason);
    if (fire == WEFT__FIRE_ENQUEUE) {
        *ready = task;
    }
    return fire != WEFT__FIRE_LOST;
}

/* Same; a fiber to be queued is added to `ready`, for weft__place_all once no source is
 * locked. */
static inline bool weft__waiter_fire(struct weft__waiter *waiter, enum weft__reason reason,
                                     struct weft__chain *ready)
{
    struct weft__task *task;
    bool won = weft__waiter_fire_one(waiter, reason, &task);
    if (task) {
        weft__chain_push(ready, &task->link);
    }
    return won;
}

/* Under the source's lock, for a node that the source has unlinked: ends the waiter's wait with
 * this node. False: the wait had ended; the source must not use the node again either way. *ready
 * as weft__waiter_fire_one. */
WEFT__MUST_USE static inline bool weft__node_fire_one(struct weft__node *node, void *value,
                                                      int status, struct weft__task **ready)
{
    node->value = value;
    node->status = status;
    return weft__waiter_fire_one(node->waiter, (enum weft__reason)(WEFT__REASON_DONE + node->index),
                                 ready);
}

WEFT__MUST_USE static inline bool weft__node_fire(struct weft__node *node, void *value, int status,
                                                  struct weft__chain *ready)
{
    node->value = value;
    node->status = status;
    return weft__waiter_fire(node->waiter, (enum weft__reason)(WEFT__REASON_DONE + node->index),
                             ready);
}

/* Notifies only: if the wait has ended already, nothing needs to be returned to anyone. */
static inline void weft__node_notify(struct weft__node *node, int status, struct weft__chain *ready)
{
    bool told = weft__node_fire(node, NULL, status, ready);
    (void)told;
}

/* The two cases of weft__waiter_park that are not inlined into its caller, whose frame is what a
 * wait without a deadline keeps. A plain thread, or a worker's thread that keeps running
 * its loop: */
WEFT__MUST_USE enum weft__reason weft__waiter_park_thread(struct weft__waiter *waiter,
                                                          int64_t deadline,
                                                          const struct weft__wait_kind *kind,
                                                          uint64_t on);
/* and a fiber that has a deadline, or that a cancel or an interrupt has reached already. */
WEFT__MUST_USE enum weft__reason weft__waiter_park_until(struct weft__task *task, uint64_t ticket,
                                                         struct weft__worker *w, int64_t deadline,
                                                         const struct weft__wait_kind *kind,
                                                         uint64_t on);
/* Describes, with its name, what a wait was on that a cancel or an interrupt ends. Called before
 * the nodes are unlinked, because the object may be freed after that. */
struct weft__ended weft__ended_describe(const struct weft__wait_kind *kind, uint64_t on,
                                        unsigned others);
/* "event gate and 2 others". */
void weft__ended_format(const struct weft__ended *ended, char *buf, size_t size);
/* Records a wait ended by a cancel or an interrupt, for weft_fiber_ended_wait. */
void weft__waiter_record_end(struct weft__task *task, const struct weft__wait_note *note,
                             enum weft__reason reason);

/* No deadline, and no cancel or interrupt known so far. The flags are checked only to avoid the
 * switch; a later cancel is found when the switch is complete: weft__waiter_settle */
static inline bool weft__waiter_is_plain(const struct weft__task *task, int64_t deadline)
{
    return deadline == WEFT_FOREVER &&
           __builtin_expect(!(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS), 1);
}

/* After the switch: why the wait ended. */
static inline enum weft__reason weft__waiter_after_park(struct weft__task *task,
                                                        const struct weft__wait_note *note)
{
    enum weft__reason reason = weft__task_reason(task);
    if (__builtin_expect(reason < WEFT__REASON_DONE, 0)) {
        weft__waiter_record_end(task, note, reason);
    }
    return reason;
}

/* The body of the next two functions. Of the caller's state only the note is kept across the
 * switch. */
WEFT__MUST_USE static inline __attribute__((always_inline)) enum weft__reason
weft__waiter_park_and(struct weft__waiter *waiter, int64_t deadline,
                      const struct weft__wait_kind *kind, uint64_t on, bool returns, bool *known)
{
    struct weft__task *task = waiter->task;
    *known = true;
    if (__builtin_expect(!task, 0)) {
        return weft__waiter_park_thread(waiter, deadline, kind, on);
    }
    struct weft__worker *w = waiter->worker;
    if (!weft__waiter_is_plain(task, deadline)) {
        return weft__waiter_park_until(task, waiter->ticket, w, deadline, kind, on);
    }
    struct weft__wait_note note = {.kind = kind, .on = on, .since = w->now};
    task->note = &note;
    if (returns) {
        w->return_hint = __builtin_return_address(0);
    }
    w = weft__worker_suspend(w, WEFT__POST_PARK);
    if (returns) {
        *known = w->return_hint == __builtin_return_address(0);
    }
    return weft__waiter_after_park(weft__current(w), &note);
}

/* Parks until the wait ends and returns why. `kind` and `on` are for inspection. */
WEFT__MUST_USE static inline enum weft__reason weft__waiter_park(struct weft__waiter *waiter,
                                                                 int64_t deadline,
                                                                 const struct weft__wait_kind *kind,
                                                                 uint64_t on)
{
    bool known;
    return weft__waiter_park_and(waiter, deadline, kind, on, false, &known);
}

/* Same, for a function that only returns after the wait. *known: whether its return address equals
 * that of the fiber that was switched away from (the return hint). If not, the function returns by
 * weft__context_return. */
WEFT__MUST_USE static inline __attribute__((always_inline)) enum weft__reason
weft__waiter_park_and_return(struct weft__waiter *waiter, int64_t deadline,
                             const struct weft__wait_kind *kind, uint64_t on, bool *known)
{
    return weft__waiter_park_and(waiter, deadline, kind, on, true, known);
}

/* For an armed wait: ends it if there is a cancel or an interrupt already, to avoid the switch.
 * Settle checks again. */
void weft__waiter_check_flags(struct weft__task *task);
/* For a wait that has settled, with its armed word: ends it if the flags say so. True: the caller
 * queues the task. */
bool weft__waiter_end_settled(struct weft__task *task, uint64_t armed, uint64_t flags);

/* After the switch. False: the task was fired during the switch, or is cancelled, and the caller
 * queues it. A canceller or interrupter sets the flag, then reads the state word; this function
 * settles the state word, then reads the flags: all seq_cst, so one sees the other. The task may
 * be gone by then, but the fire cannot hit another task: the ticket is its own. */
WEFT__MUST_USE static inline bool weft__waiter_settle(struct weft__task *task)
{
    uint64_t armed = weft__task_settle(task);
    if (__builtin_expect(!armed, 0)) {
        return false;
    }
    uint64_t flags = weft__ident_flags(task);
    return __builtin_expect(!(flags & WEFT__IDENT_ENDS_WAITS), 1) ||
           !weft__waiter_end_settled(task, armed, flags);
}

/* Undoes an armed wait before it was parked. REASON_NONE: it had not been fired and cannot be
 * fired now. Else as weft__task_disarm. */
WEFT__MUST_USE enum weft__reason weft__waiter_disarm(struct weft__waiter *waiter);
/* Takes the result of a disarm of the calling fiber, if the call then completes as if it had not
 * waited: an interrupt is kept for the fiber's next wait. A cancel lasts until the fiber ends
 * anyway. */
void weft__waiter_defer(enum weft__reason reason);
/* Same, if the call ends by that reason. Returns 0 or the errno. `kind` and `on` as for
 * weft__waiter_park. */
WEFT__MUST_USE int weft__waiter_end_by(enum weft__reason reason, const struct weft__wait_kind *kind,
                                       uint64_t on);

/* Why the wait of a notified waiter ended. */
static inline enum weft__reason weft__waiter_reason(const struct weft__waiter *waiter)
{
    return (enum weft__reason)atomic_load_explicit(&waiter->word, memory_order_acquire);
}

/* Reason of a park: ended by an unpark that names a new pool or worker. */
#define WEFT__REASON_MIGRATE ((enum weft__reason)(WEFT__REASON_DONE + 1))
/* Migrates the calling fiber there (fiber/migration.c). */
void weft__migrate_to_target(void);

static inline bool weft__reason_is_done(enum weft__reason reason)
{
    return reason >= WEFT__REASON_DONE;
}

/* The index of the node that was fired; only valid if a node was fired. */
static inline unsigned weft__reason_index(enum weft__reason reason)
{
    return (unsigned)reason - WEFT__REASON_DONE;
}

/* 0, -ETIMEDOUT, -ECANCELED or -EINTR. */
int weft__reason_errno(enum weft__reason reason);

#endif
