/* The mutex as its own struct, what the condition needs of it, and its wait in two steps for bodies
 * without a stack.
 *
 * One word says everything but who waits:
 *
 *   holder | WAITERS | WOKEN       holder as in sync/holder.h, 0: free
 *
 *   WAITERS  the list is not empty. Set and cleared under the source's lock, set only while the
 *            lock is held: so the holder's release, which is a compare-and-swap of the whole word,
 *            sees it.
 *   WOKEN    somebody is about to try: a waiter that was woken for it, or one that spins. Whoever
 *            set it or was woken with it takes it back when it takes the lock, or when it queues up
 *            (again). Meanwhile an unlock need not wake anybody.
 *
 * Lock:    free -> take it. Held: spin while the holder runs elsewhere; queue up; woken to try:
 *          again, and if that fails, to the front of the queue.
 * Unlock:  nobody waits, or somebody is WOKEN: let go. Else look at the first who waits: older than
 *          1 ms, it becomes the holder; younger, it is WOKEN. An unlock that lets go because of
 *          WOKEN counts: the 64th looks at the first all the same, so that it grows old in the
 *          sight of somebody.
 *
 * The last thing that an unlock does to the mutex is to let go, for the next holder may free it.
 * Where it has made another the holder it is still under the source's lock; so that one passes
 * through that lock first.
 *
 * Rejected: Go's starving flag in the word (the age of the first waiter says the same when it
 * matters, and nothing has to be switched back); hand-off always (every contended lock then costs a
 * switch: 20 times slower with short sections).
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include <weft/mutex.h>

#include "sync/holder.h"
#include "sync/source.h"

struct WEFT__OVERLAY weft__mutex {
    struct weft__source source;
    _Atomic(uint64_t) word;
    struct weft__held held; /* the holder's own: its place among what it holds */
    uint32_t passed_over;   /* the holder's own: unlocks since one has looked at who waits */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__mutex) <= sizeof(weft_mutex), "the public storage");
#endif

static inline struct weft__mutex *weft__mutex_of(weft_mutex *mutex)
{
    return (struct weft__mutex *)(void *)mutex;
}

/* The first step of the calling fiber's wait: takes the lock if it is free, without waiting. The
 * ranks are checked as for a lock that waits. */
WEFT__MUST_USE bool weft__mutex_attempt(struct weft__mutex *mutex);
/* The second: takes the lock for `self` (sync/holder.h), or links the node, whose waiter is armed:
 * then true, and when the wait has ended by this node `self` holds it. Such a waiter is always
 * handed the lock, never woken to try. */
bool weft__mutex_arm(struct weft__mutex *mutex, struct weft__node *node, uint64_t self);
/* After the wait has ended, for whatever reason. */
void weft__mutex_finish(struct weft__mutex *mutex, struct weft__node *node);
/* After arm has taken the lock, or the wait has ended by its node: the fiber `task` knows that it
 * holds it. By the fiber itself. */
void weft__mutex_hold(struct weft__mutex *mutex, struct weft__task *task);
/* Unlocks for a body without a stack that has no list of what it holds. */
void weft__mutex_unlock_as(struct weft__mutex *mutex, uint64_t self);

/* The fiber that holds the mutex at this address, as weft__wait_kind.holder. */
uint64_t weft__mutex_holder(uint64_t on);

/* Locks until it is locked: no deadline, and no cancel, interrupt or abort ends it. */
void weft__mutex_lock_surely(struct weft__mutex *mutex);

#endif
