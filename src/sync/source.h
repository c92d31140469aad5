/* A source: the common first part of every object that can be waited on. It holds a lock, the list
 * of waiting nodes, and the owner of the object.
 *
 * An object with an owner (a pool with one worker, or a group of a dispatcher) is used on one
 * thread only, where fibers do not preempt one another: its lock operations do nothing, and using
 * the object from elsewhere stops the program.
 *
 * The public structs are plain storage; each module has its own struct over that storage, which
 * begins with a source and is static-asserted to fit. may_alias is needed because the storage was
 * declared with another type.
 */
#ifndef WEFT_SYNC_SOURCE_H
#define WEFT_SYNC_SOURCE_H

#include <weft/sync.h>

#include "base/assert.h"
#include "lock/lock.h"
#include "sched/group_scheduler.h"
#include "wait/waiter.h"
#include "worker/worker.h"

#define WEFT__OVERLAY __attribute__((may_alias))

struct WEFT__OVERLAY weft__source {
    struct weft__lock lock;
    uint32_t rank;
    const void *owner;             /* immutable until deinit: as weft__worker.owner, or NULL */
    struct weft__waitlist waiters; /* under the lock */
    const char *name;              /* immutable */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__source) == sizeof(struct weft_source), "the public storage");
#endif

/* For init: zeroes the caller's memory. */
void weft__source_init(struct weft__source *source, const struct weft_sync_opts *opts);
/* For deinit; `what` is the kind of object, for the message. */
void weft__source_deinit(struct weft__source *source, const char *what);
/* Stops the program: the caller is not on the owner's thread. */
void weft__source_wrong_owner(const struct weft__source *source) __attribute__((cold, noreturn));

/* Only for a source with an owner. Stops the program if the caller is not on the owner's thread;
 * returns the caller's worker, which is the owner's. */
static inline struct weft__worker *weft__source_check_owner(const struct weft__source *source)
{
    struct weft__worker *w = weft__worker_self();
    if (__builtin_expect(!w || w->owner != source->owner, 0)) {
        weft__source_wrong_owner(source);
    }
    return w;
}

/* The same check as a predicate; `w` is the caller's worker or NULL. Always false for a source
 * without an owner, because every worker has one. */
static inline bool weft__source_is_own(const struct weft__source *source,
                                       const struct weft__worker *w)
{
    return __builtin_expect(w && w->owner == source->owner, 1);
}

/* Only for a source with an owner. Ends the wait of the first node in the list, if it belongs to a
 * fiber that is fully parked in a plain wait. The fiber then belongs to the caller: it is in no
 * list any more and in no queue yet, so the caller may still write the fiber's result. Returns NULL
 * if nothing was done. */
static inline struct weft__task *weft__source_claim_first(struct weft__waitlist *list)
{
    struct weft__node *node = list->first;
    struct weft__task *task = node->waiter->task;
    if (!task || !weft__task_fire_plain(task, node->waiter->ticket,
                                        (enum weft__reason)(WEFT__REASON_DONE + node->index))) {
        return NULL;
    }
    weft__waitlist_remove_first(list, node);
    return task;
}

/* Queues a fiber that a source with an owner has fired; the fiber belongs to the same owner. */
static inline void weft__source_wake_own(struct weft__worker *w, struct weft__task *task)
{
    if (__builtin_expect(!w->group_sched || weft__worker_trace_flags(w), 0)) {
        weft__place(task, WEFT__FRONT);
        return;
    }
    weft__group_sched_wake_in(w->group_sched, w->group_sched->running, task, WEFT__FRONT);
}

static inline void weft__source_lock(struct weft__source *source)
{
    if (__builtin_expect(source->owner != NULL, 0)) {
        weft__source_check_owner(source);
    } else {
        weft__lock(&source->lock);
    }
}

static inline void weft__source_unlock(struct weft__source *source)
{
    if (__builtin_expect(source->owner == NULL, 1)) {
        weft__unlock(&source->lock);
    }
}

/* Finish: unlinks the node unless the source has already done so. Works for a node of any thread,
 * after its wait has ended. */
static inline void weft__source_leave(struct weft__source *source, struct weft__waitlist *list,
                                      struct weft__node *node)
{
    weft__source_lock(source);
    if (node->linked) {
        weft__waitlist_remove(list, node);
    }
    weft__source_unlock(source);
}

/* Waits until the lock has been released once. For a waiter whose wait was ended by the source and
 * that may free the source next: afterwards the thread that ended the wait is no longer at the
 * lock. */
static inline void weft__source_unlock_wait(struct weft__source *source)
{
    weft__source_lock(source);
    weft__source_unlock(source);
}

/* The complete wait of the calling fiber or thread, for sources with one list: locked on entry,
 * unlocked on return. Returns 0 or the status that the source set; -ETIMEDOUT, -ECANCELED, -EINTR.
 * The caller may read the node's value. */
int weft__source_wait_locked(struct weft__source *source, struct weft__waitlist *list,
                             struct weft__node *node, int64_t deadline,
                             const struct weft__wait_kind *kind);

/* Under the lock: fires every node in the list. Their values are unchanged. */
void weft__source_fire_all(struct weft__waitlist *list, int status, struct weft__chain *ready);

/* For weft__wait_kind.holder: returns the holder word. While the lock is taken, the word may name a
 * waiter that is just being fired, which would then seem to wait for itself: returns 0 instead.
 * Never blocks. */
uint64_t weft__source_peek(struct weft__source *source, const _Atomic(uint64_t) *word);

/* For a wait kind whose `on` is the address of a source. */
const char *weft__source_label(uint64_t on);

#endif
