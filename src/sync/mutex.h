/* The mutex struct, the functions that the condition variable needs, and the wait split in two
 * steps (arm, finish) for stackless tasks.
 *
 * One word holds everything except the list of waiters:
 *
 *   holder | WAITERS | WOKEN       holder as in sync/holder.h, 0: free
 *
 *   WAITERS  the list is not empty. Set and cleared under the source's lock, and set only while the
 *            mutex is held: so the holder's release, a compare-and-swap of the whole word, sees it.
 *   WOKEN    some thread is about to try to lock: a waiter that was woken to try, or a caller that
 *            spins. The thread that set WOKEN, or was woken with it, clears it when it takes the
 *            lock or queues (again). While WOKEN is set, an unlock need not wake a waiter.
 *
 * Lock:    free: take it. Held: spin while the holder runs on another thread, then queue. A waiter
 *          that is woken to try and fails goes back to the front of the queue.
 * Unlock:  without waiters, or if WOKEN is set: release. Otherwise check the first waiter: if it
 *          has waited more than 1 ms it becomes the holder, else it is woken to try and WOKEN is
 *          set. Unlocks that release because of WOKEN are counted: every 64th checks the first
 *          waiter anyway, so that an unlock notices its age.
 *
 * Releasing is the last thing that an unlock does to the mutex, because the next holder may free
 * it. When an unlock has made a waiter the holder, the unlock still holds the source's lock; so the
 * new holder acquires and releases that lock once before it returns.
 *
 * Rejected designs: Go's starving flag in the word (the age of the first waiter gives the same
 * information when it matters, and no mode has to be switched back); always handing off (every
 * contended lock then costs a switch: 20 times slower with short critical sections).
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include <weft/sync.h>

#include "sync/holder.h"
#include "sync/source.h"

struct WEFT__OVERLAY weft__mutex {
    struct weft__source source;
    _Atomic(uint64_t) word;
    struct weft__held held; /* used by the holder only: link in the list of mutexes that the fiber
                             * holds */
    uint32_t skipped;       /* used by the holder only: unlocks since the first waiter was last
                             * checked */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__mutex) <= sizeof(weft_mutex), "the public storage");
#endif

static inline struct weft__mutex *weft__mutex_of(weft_mutex *mutex)
{
    return (struct weft__mutex *)(void *)mutex;
}

/* Step one of the calling fiber's lock: takes the lock if it is free, without waiting. Ranks are
 * checked as for a lock that waits. */
WEFT__MUST_USE bool weft__mutex_try(struct weft__mutex *mutex);
/* Step two: takes the lock for `self` (sync/holder.h), or links the node, whose waiter is armed,
 * and returns true; when the wait ends by this node, `self` holds the lock. Such a waiter is always
 * handed the lock, never woken to try. */
bool weft__mutex_arm(struct weft__mutex *mutex, struct weft__node *node, uint64_t self);
/* After the wait has ended, for any reason. */
void weft__mutex_finish(struct weft__mutex *mutex, struct weft__node *node);
/* After arm has taken the lock, or the wait has ended by its node: records that the fiber `task`
 * holds the mutex. Called by the fiber itself. */
void weft__mutex_hold(struct weft__mutex *mutex, struct weft__task *task);
/* Unlocks on behalf of a stackless task that has no list of held mutexes. */
void weft__mutex_unlock_as(struct weft__mutex *mutex, uint64_t self);

/* The fiber that holds the mutex at this address, as weft__wait_kind.holder. */
uint64_t weft__mutex_holder(uint64_t on);
/* True if the calling fiber or thread holds the mutex. */
bool weft__mutex_is_mine(const weft_mutex *mutex);

/* Locks uninterruptibly: no deadline, cancel, interrupt or abort ends the wait. */
void weft__mutex_lock_uninterruptible(struct weft__mutex *mutex);

#endif
