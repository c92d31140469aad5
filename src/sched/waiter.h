/* A waiter: one wait of a fiber, of a plain thread, or of a body without a stack. A node: its place
 * in one of the sources it waits for.
 *
 * Every wait is arm, park, finish:
 *   arm     weft__waiter_arm, then link a node into each source under that source's lock;
 *   park    weft__waiter_park: suspends until a source fires it, the deadline passes, a cancel or
 *           an interrupt comes;
 *   finish  every node that is still linked is unlinked under its source's lock.
 * A source fires under its own lock and unlinks what it fires, so that after finish nothing touches
 * the nodes, which live on the waiter's stack or in its frame. The first to fire wins, whatever it
 * is; for the others the fire fails and they keep what they had to give. No source knows what kind
 * of body waits.
 *
 * What a source hands over it writes into its own node *before* it fires, because a waiter that has
 * not finished its switch goes on by itself. (Two sources may write, each its own node; the reason
 * tells the winner.) A source that may not write before it has won, as when the place is the same
 * for several nodes, writes after it under its lock, and then the finish of the winning node takes
 * that lock as well. (Or it wins by weft__task_fire_waiting, and writes and unlinks before it
 * places the task, which cannot run until then.)
 *
 * A call that can be done at once is no wait: it succeeds in a cancelled fiber too.
 */
#ifndef WEFT_SCHED_WAITER_H
#define WEFT_SCHED_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/link.h"
#include "sched/ident.h"
#include "sched/task.h"
#include "sched/worker.h"

struct weft__parker;

/* What a wait is for, for those who look from outside: one static record per kind. */
struct weft__wait_kind {
    const char *name; /* "mutex" */
    bool fiber;       /* `on` is a fiber's handle, */
    bool descriptor;  /* or the number of a descriptor; else the address of an object, or 0 */
    /* The fiber that would have to act first; 0: none, or nobody knows. `on` is what was given to
     * park. Called while the waiter is held where it waits, so that `on` is still there; must not
     * block. NULL: never any. */
    uint64_t (*holder)(uint64_t on);
    /* The user's name of the object, or NULL; called like holder. NULL: objects of this kind have
     * none. */
    const char *(*label)(uint64_t on);
    /* Of a wait on several things at once, called like holder: the address of the first, 0 if it is
     * no object, and how many others there are. `label` and `holder` are given that address. NULL:
     * `on` is all. */
    uint64_t (*first)(uint64_t on, unsigned *others);
};

/* What a wait is on, for those who look: of several things the first. While the waiter is held, or
 * is the caller itself, whose nodes are linked still. */
static inline uint64_t weft__wait_first(const struct weft__wait_kind *kind, uint64_t on,
                                        unsigned *others)
{
    *others = 0;
    return kind->first ? kind->first(on, others) : on;
}

struct weft__waiter {
    struct weft__task *task; /* NULL: a plain thread, or a body that is told by `notify` */
    uint64_t ticket;
    _Atomic(uint32_t) word;      /* without a task: 0, then the reason; see also sleep_on */
    struct weft__worker *worker; /* with a task: where it runs, from arm to park */
    struct weft__parker *parker; /* of a thread that serves as a worker while it waits; else NULL */
    _Atomic(uint32_t) *visitors; /* with it: of its pool, see weft__pool_visit */
    /* Told once, by the winner, under the lock of the source that fired: short, takes no lock that
     * is held while a source is locked. The waiter may be gone when it returns. */
    void (*notify)(struct weft__waiter *waiter);
};

/* One place in one source. Fields but `item` are the source's, under its lock, while it is
 * linked. */
struct weft__node {
    struct weft__node *next, *prev;
    struct weft__waiter *waiter;
    void *value;    /* what the source hands over */
    void *item;     /* where an item is to be read from or written to */
    int status;     /* how it went, as a negative errno, e.g. that the source was closed */
    uint16_t index; /* which of the waiter's nodes: comes back as weft__reason_index */
    bool linked;
    bool shared; /* `item` is the place of other nodes too: written only after this one has won */
};

/* The nodes of one source in the order in which they came. While there is none `last` is anything,
 * and so is the `prev` of the first. */
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

/* Of one that is known to be the first. */
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

/* Arms for the calling fiber or plain thread; `kind`: enum weft__wait. */
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

/* Arms for a worker's thread that goes on running its loop: `parker` is its own. */
void weft__waiter_arm_worker(struct weft__waiter *waiter, struct weft__parker *parker,
                             _Atomic(uint32_t) *visitors);
/* Arms for a body that has no stack to suspend: it returns to its caller and is told. Whoever keeps
 * its deadline and its cancel fires it with that reason. */
void weft__waiter_arm_notify(struct weft__waiter *waiter,
                             void (*notify)(struct weft__waiter *waiter));

/* The same for one without a task. */
WEFT__MUST_USE bool weft__waiter_fire_thread(struct weft__waiter *waiter, enum weft__reason reason);

/* Ends the wait, unless it has ended: then false. *ready is a fiber that must be queued, else
 * NULL. */
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

/* The same; the fiber goes to `ready`, for weft__place_chain once no source is locked. */
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

/* Under the source's lock, for a node that the source has unlinked: ends its waiter's wait with
 * this node. False: the wait had ended; the node is dead to the source either way. *ready as
 * weft__waiter_fire_one. */
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

/* Only to tell it: what is not taken because the wait has ended is nobody's. */
static inline void weft__node_tell(struct weft__node *node, int status, struct weft__chain *ready)
{
    bool told = weft__node_fire(node, NULL, status, ready);
    (void)told;
}

/* Any wait; the other is the short way of most. */
WEFT__MUST_USE enum weft__reason weft__waiter_park_any(struct weft__waiter *waiter,
                                                       int64_t deadline,
                                                       const struct weft__wait_kind *kind,
                                                       uint64_t on);
/* The same for a fiber that has armed its task itself. Not part of its caller, whose frame is what
 * a wait without a deadline keeps. */
WEFT__MUST_USE enum weft__reason weft__waiter_park_task(struct weft__task *task, uint64_t ticket,
                                                        struct weft__worker *w, int64_t deadline,
                                                        const struct weft__wait_kind *kind,
                                                        uint64_t on);
/* What a wait was on that a cancel or an interrupt ends, with its name: before its nodes are
 * unlinked, as the object may be gone after that. */
struct weft__ended weft__ended_by(const struct weft__wait_kind *kind, uint64_t on, unsigned others);
/* "event gate and 2 others". */
void weft__ended_text(const struct weft__ended *ended, char *buf, size_t size);
/* Keeps what a cancel or an interrupt has ended, for weft_ended_wait. */
void weft__waiter_note_end(struct weft__task *task, const struct weft__note *note,
                           enum weft__reason reason);

/* Without a deadline and, as far as is known, without a cancel. The flags: to spare the switch.
 * What comes later is found when the switch is over: weft__waiter_settle */
static inline bool weft__waiter_is_plain(const struct weft__task *task, int64_t deadline)
{
    return deadline == WEFT_FOREVER &&
           __builtin_expect(!(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS), 1);
}

/* After the switch: why the wait has ended. */
static inline enum weft__reason weft__waiter_parked(struct weft__task *task,
                                                    const struct weft__note *note)
{
    enum weft__reason reason = weft__task_reason(task);
    if (__builtin_expect(reason < WEFT__REASON_DONE, 0)) {
        weft__waiter_note_end(task, note, reason);
    }
    return reason;
}

/* *w: where it runs, before and after. Of the caller's nothing is kept across the switch but the
 * note. */
WEFT__MUST_USE static inline enum weft__reason
weft__waiter_park_plain(struct weft__task *task, struct weft__worker **w,
                        const struct weft__wait_kind *kind, uint64_t on)
{
    struct weft__note note = {.kind = kind, .on = on, .since = (*w)->now};
    task->note = &note;
    *w = weft__worker_suspend(*w, WEFT__POST_PARK);
    return weft__waiter_parked(weft__current(*w), &note);
}

/* For a fiber that has armed its task itself: parks until the wait ends; says why. */
WEFT__MUST_USE static inline enum weft__reason
weft__waiter_park_armed(struct weft__task *task, uint64_t ticket, struct weft__worker *w,
                        int64_t deadline, const struct weft__wait_kind *kind, uint64_t on)
{
    if (!weft__waiter_is_plain(task, deadline)) {
        return weft__waiter_park_task(task, ticket, w, deadline, kind, on);
    }
    return weft__waiter_park_plain(task, &w, kind, on);
}

/* Parks until the wait ends; says why. `kind` and `on` are for those who look from outside. */
WEFT__MUST_USE static inline enum weft__reason weft__waiter_park(struct weft__waiter *waiter,
                                                                 int64_t deadline,
                                                                 const struct weft__wait_kind *kind,
                                                                 uint64_t on)
{
    struct weft__task *task = waiter->task;
    return __builtin_expect(!task, 0) || !weft__waiter_is_plain(task, deadline)
               ? weft__waiter_park_any(waiter, deadline, kind, on)
               : weft__waiter_park_plain(task, &waiter->worker, kind, on);
}

/* The same, for a function that has nothing to do after the wait but to return: *known, whether its
 * way back is that of the fiber that was left for this one. If not, it ends with
 * weft__context_return. */
WEFT__MUST_USE static inline __attribute__((always_inline)) enum weft__reason
weft__waiter_park_last(struct weft__waiter *waiter, int64_t deadline,
                       const struct weft__wait_kind *kind, uint64_t on, bool *known)
{
    struct weft__task *task = waiter->task;
    *known = true;
    if (__builtin_expect(!task, 0) || !weft__waiter_is_plain(task, deadline)) {
        return weft__waiter_park_any(waiter, deadline, kind, on);
    }
    struct weft__worker *w = waiter->worker;
    w->way_back = __builtin_return_address(0);
    enum weft__reason reason = weft__waiter_park_plain(task, &w, kind, on);
    *known = w->way_back == __builtin_return_address(0);
    return reason;
}

/* Of a wait that is armed: ends it if a cancel or an interrupt is there, to spare the switch.
 * Settle looks again. */
void weft__waiter_look(struct weft__task *task);
/* For a wait that has settled, armed as this: ends it if the flags say so. True: the caller queues
 * the task. */
bool weft__waiter_end_late(struct weft__task *task, uint64_t armed, uint64_t flags);

/* After the switch. False: the task was fired meanwhile, or is cancelled, and the caller queues it.
 * Who cancels or interrupts sets the flag, then looks at the state word; this settles that, then
 * looks at the flags: all seq_cst, so one sees the other. The task may be gone by then, and is not
 * another's: the ticket is its own. */
WEFT__MUST_USE static inline bool weft__waiter_settle(struct weft__task *task)
{
    uint64_t armed = weft__task_settle(task);
    if (__builtin_expect(!armed, 0)) {
        return false;
    }
    uint64_t flags = weft__ident_flags(task);
    return __builtin_expect(!(flags & WEFT__IDENT_ENDS_WAITS), 1) ||
           !weft__waiter_end_late(task, armed, flags);
}

/* Takes an armed wait back before it was parked. REASON_NONE: it had not been fired, and cannot be
 * any more. Else as weft__task_disarm. */
WEFT__MUST_USE enum weft__reason weft__waiter_disarm(struct weft__waiter *waiter);
/* What the disarm of the calling fiber has returned, if the call goes on to end as if it had not
 * waited: an interrupt is for the fiber's next wait. A cancel is there until the fiber ends. */
void weft__waiter_hand_on(enum weft__reason reason);
/* The same, if the call ends by it: 0, or the errno. `kind` and `on` as for weft__waiter_park. */
WEFT__MUST_USE int weft__waiter_end_by(enum weft__reason reason, const struct weft__wait_kind *kind,
                                       uint64_t on);

/* Why the wait of a body that was told has ended. */
static inline enum weft__reason weft__waiter_reason(const struct weft__waiter *waiter)
{
    return (enum weft__reason)atomic_load_explicit(&waiter->word, memory_order_acquire);
}

/* Of a park: by an unpark that says where the fiber goes on. */
#define WEFT__REASON_MOVED ((enum weft__reason)(WEFT__REASON_DONE + 1))
/* The calling fiber goes there (sched/hop.c). */
void weft__hop_as_told(void);

static inline bool weft__reason_done(enum weft__reason reason)
{
    return reason >= WEFT__REASON_DONE;
}

/* Which node was fired; only if a node was. */
static inline unsigned weft__reason_index(enum weft__reason reason)
{
    return (unsigned)reason - WEFT__REASON_DONE;
}

/* 0, -ETIMEDOUT, -ECANCELED or -EINTR. */
int weft__reason_errno(enum weft__reason reason);

#endif
