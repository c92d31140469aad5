/* Rules common to all synchronisation objects.
 *
 * - Objects live in the caller's memory. All-zero bytes are a valid object with default options, so
 *   init is needed only to set options. An object must not be copied or moved.
 * - Every object works between fibers of one pool, fibers of different pools, and plain threads.
 * - A call that can wait takes an absolute deadline (0 tries once, WEFT_FOREVER never expires) and
 *   returns 0 on success, -ETIMEDOUT, -ECANCELED (weft_cancel), -EINTR (weft_fiber_interrupt), or
 *   an error that its own contract adds. If the call did not return 0, nothing was acquired and
 *   nothing is lost, however closely the two events raced. A call that does not have to wait
 *   succeeds even in a cancelled fiber: calls are cancellation points only when they wait.
 * - deinit of an object that has waiters is a caller's bug and stops the program. Objects without
 *   options need no deinit, but calling it finds that bug. Any thread may call deinit, also for an
 *   object with an owner, and also after its owner is gone.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

struct weft_sync_opts {
    const char *name; /* for dumps and reports; borrowed; default none */
    /* Only fibers of this pool, which must have exactly one worker, use the object. The object then
     * needs no atomic read-modify-write operations; use from anywhere else is a caller's bug.
     * Default: any thread may use the object. */
    weft_pool *owner;
    /* The same restriction for one group of a dispatcher: only tasks of that group use the
     * object. */
    weft_group *group;
    /* For mutexes: a fiber that holds a mutex of rank r may lock only mutexes of a greater rank;
     * debug builds check this. 0: not checked. */
    unsigned rank;
};

/* The storage that every object begins with. */
struct weft_source {
    /* private */
    uint64_t weft_private[5];
};

/* --- mutex ---------------------------------------------------------------------------------- */

/* A mutex for fibers and threads.
 *
 * A free mutex goes to the next caller, even ahead of the waiters, which keeps the lock busy. To
 * prevent starvation, a waiter that has waited more than 1 ms is handed the lock directly by the
 * unlock, oldest waiter first, and no other caller can take the lock in between. While other
 * callers pass the lock among themselves without waiting, at least every 64th unlock checks the age
 * of the oldest waiter.
 *
 * The mutex is not recursive. The mutex knows its holder: only the holder may unlock, and dumps
 * show the holder.
 *
 * If a fiber ends while it holds a mutex, a report is written to stderr. The program continues and
 * the mutex stays locked forever, because the state that it protects may be inconsistent.
 *
 * After an unlock, the next holder may free the mutex: unlock does not touch the mutex after it has
 * released the lock.
 */

typedef struct weft_mutex {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private[4];
} weft_mutex;

#define WEFT_MUTEX_INIT                                                                            \
    {                                                                                              \
        {{0}},                                                                                     \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Initialise a mutex; all-zero bytes (WEFT_MUTEX_INIT) need no init.
 *
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit). With opts->rank, debug
 * builds stop the program and name both mutexes when a fiber that holds a mutex of the same or a
 * greater rank locks this one, unless the call only tries (deadline 0).
 * Context: any thread; nothing else may use the mutex meanwhile; does not wait. */
WEFT_API void weft_mutex_init(weft_mutex *mutex, const struct weft_sync_opts *opts);
/* Check that the mutex is unused and end its use. Stops the program if the mutex is locked or has
 * waiters.
 * Context: any thread; does not wait. */
WEFT_API void weft_mutex_deinit(weft_mutex *mutex);

/* Lock the mutex; wait until it is free. Deadline 0 tries once.
 *
 * Locking a mutex that the caller already holds is a caller's bug and stops the program.
 * Returns 0 if the caller holds the mutex; -ETIMEDOUT, -ECANCELED or -EINTR if it does not.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_mutex_lock(weft_mutex *mutex, int64_t deadline);
/* Unlock the mutex. The caller must be the holder; any other caller stops the program.
 * Context: the holder only; does not wait. */
WEFT_API void weft_mutex_unlock(weft_mutex *mutex);

/* --- rwlock --------------------------------------------------------------------------------- */

/* A readers-writer lock: many readers or one writer.
 *
 * Neither side starves. While a writer waits, new readers queue after it; writers are served in
 * arrival order. When a writer unlocks and the oldest waiting reader has waited more than 1 ms, all
 * waiting readers are admitted together, ahead of the next writer; younger readers are admitted
 * when no writer waits.
 *
 * A lock that one worker uses continuously stays with that worker: a caller on another worker may
 * be delayed for 0.25 ms, once per call. Calls with deadline 0, and calls whose deadline comes
 * sooner, are not delayed.
 *
 * The lock is not recursive, not even for readers: a second read lock by the same fiber waits
 * forever if a writer has queued in between. The lock knows its writer; readers are only counted.
 * The fiber or thread that locked must unlock.
 */

typedef struct weft_rwlock {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private[7];
} weft_rwlock;

#define WEFT_RWLOCK_INIT                                                                           \
    {                                                                                              \
        {{0}},                                                                                     \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Initialise a lock; all-zero bytes (WEFT_RWLOCK_INIT) need no init.
 *
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the lock; does not wait. */
WEFT_API void weft_rwlock_init(weft_rwlock *lock, const struct weft_sync_opts *opts);
/* Check that the lock is unused and end its use. Stops the program if the lock is locked or has
 * waiters. Freeing the lock before every call on it has returned is a caller's bug.
 * Context: any thread; does not wait. */
WEFT_API void weft_rwlock_deinit(weft_rwlock *lock);

/* Lock for reading (shared) or for writing (exclusive). Deadline 0 tries once.
 *
 * A writer that locks a second time stops the program.
 * Returns 0 if the lock is held; -ETIMEDOUT, -ECANCELED or -EINTR if it is not.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_rwlock_read(weft_rwlock *lock, int64_t deadline);
WEFT_API int weft_rwlock_write(weft_rwlock *lock, int64_t deadline);
/* Release a read lock, or the write lock. A read unlock of a lock without readers, and a write
 * unlock by a caller that is not the writer, stop the program.
 * Context: the fiber or thread that locked; does not wait. */
WEFT_API void weft_rwlock_read_unlock(weft_rwlock *lock);
WEFT_API void weft_rwlock_write_unlock(weft_rwlock *lock);

/* --- cond ----------------------------------------------------------------------------------- */

/* A condition variable: fibers and threads wait until another signals a change. A signal is not
 * stored: a later waiter does not see it. So the changed state is protected by a mutex and checked
 * in a loop:
 *
 *     weft_mutex_lock(&mutex, WEFT_FOREVER);
 *     while (!ready && err == 0)
 *         err = weft_cond_wait(&cond, &mutex, deadline);
 */

typedef struct weft_cond {
    /* private */
    struct weft_source weft_source;
} weft_cond;

#define WEFT_COND_INIT                                                                             \
    {                                                                                              \
        {                                                                                          \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* The maximum number of conditions in one weft_cond_wait_any. */
#define WEFT_COND_MAX 16

/* Initialise a condition (all-zero bytes, WEFT_COND_INIT, need no init), or end its use. deinit
 * stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_cond_init(weft_cond *cond, const struct weft_sync_opts *opts);
WEFT_API void weft_cond_deinit(weft_cond *cond);

/* Unlock the mutex, wait for a signal, and lock the mutex again.
 *
 * mutex: the caller holds it (otherwise the program stops), and holds it again on return, whatever
 * the result: no deadline, cancel or abort ends the re-lock. NULL is allowed where the state needs
 * no lock: among the fibers of a pool with one worker.
 * Returns 0 if signalled; -ETIMEDOUT, -ECANCELED or -EINTR if not. Another fiber may change the
 * state before the caller holds the mutex again.
 * Context: any fiber or thread; waits; cancellation point. */
WEFT_API int weft_cond_wait(weft_cond *cond, weft_mutex *mutex, int64_t deadline);

/* Wait for a signal of any of n conditions (1 .. WEFT_COND_MAX, otherwise the program stops). The
 * mutex is handled as in weft_cond_wait.
 *
 * which: if not NULL, receives the index of the condition that ended the wait.
 * Returns 0 if signalled; -ETIMEDOUT, -ECANCELED or -EINTR if not. A signal that this wait did not
 * consume goes to another waiter of its condition.
 * Context: any fiber or thread; waits; cancellation point. */
WEFT_API int weft_cond_wait_any(unsigned *which, weft_cond *const *conds, unsigned n,
                                weft_mutex *mutex, int64_t deadline);

/* Wake the waiter that has waited longest; a waiter whose wait has already ended does not count.
 * The caller may, but need not, hold the mutex.
 * Context: any thread; does not wait. */
WEFT_API void weft_cond_signal(weft_cond *cond);
/* Wake the waiter that has waited longest, with lower urgency: in a dispatcher the waiter goes to
 * the back of the ready list, where weft_cond_signal puts it to the front. In a pool there is no
 * difference.
 * Context: any thread; does not wait. */
WEFT_API void weft_cond_signal_later(weft_cond *cond);
/* Wake all waiters.
 * Context: any thread; does not wait. */
WEFT_API void weft_cond_broadcast(weft_cond *cond);

/* --- sem ------------------------------------------------------------------------------------ */

/* A counting semaphore.
 *
 * Waiters are served strictly in arrival order: while a waiter needs many permits, later waiters
 * queue after it even if there are enough permits for them. When a waiter gives up, the waiters
 * after it are checked again.
 */

typedef struct weft_sem {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_sem;

/* All zero: no permits. */
#define WEFT_SEM_INIT                                                                              \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise a semaphore with this many permits, at most 2^62 (init), or end its use (deinit).
 * deinit stops the program if there are waiters. All-zero bytes are a semaphore without permits.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_sem_init(weft_sem *sem, uint64_t permits, const struct weft_sync_opts *opts);
WEFT_API void weft_sem_deinit(weft_sem *sem);

/* Acquire n permits, all or none; wait until they are available. Deadline 0 tries once.
 * Returns 0 if acquired; -ETIMEDOUT, -ECANCELED or -EINTR with nothing acquired.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_sem_acquire(weft_sem *sem, uint64_t n, int64_t deadline);
/* Add n permits. The caller need not have acquired any. More than 2^62 permits in total are a
 * caller's bug and stop the program.
 * Context: any thread; does not wait. */
WEFT_API void weft_sem_release(weft_sem *sem, uint64_t n);
/* Read the number of available permits.
 * Returns the number, which may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API uint64_t weft_sem_permits(const weft_sem *sem);

/* --- event ---------------------------------------------------------------------------------- */

/* An event: a flag that fibers and threads can wait for. It stays set until it is reset.
 *
 * The event must outlive the weft_event_set call that sets it, because that call may still be
 * running when a wait has already returned. For an object on the waiter's stack use weft_oneshot.
 */

typedef struct weft_event {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_event;

#define WEFT_EVENT_INIT                                                                            \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise an event (all-zero bytes, WEFT_EVENT_INIT, need no init), or end its use. deinit stops
 * the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_event_init(weft_event *event, const struct weft_sync_opts *opts);
WEFT_API void weft_event_deinit(weft_event *event);

/* Set the flag and wake all waiters (set); clear the flag (reset); read the flag (is_set).
 *
 * Writes made before the set are visible to every wait or is_set that sees the flag.
 * Returns (is_set) true if the flag is set.
 * Context: any thread; do not wait. */
WEFT_API void weft_event_set(weft_event *event);
WEFT_API void weft_event_reset(weft_event *event);
WEFT_API bool weft_event_is_set(const weft_event *event);

/* Wait until the flag is set. Deadline 0 tries once. A fiber that was waiting when the flag was set
 * returns 0 even if the flag is reset before the fiber runs.
 * Returns 0 if set; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_event_wait(weft_event *event, int64_t deadline);

/* --- barrier -------------------------------------------------------------------------------- */

/* A reusable barrier: n parties wait for one another, phase after phase.
 *
 * A party whose wait ends early (deadline, cancel, interrupt) leaves the barrier: it no longer
 * counts as arrived, the others keep waiting for n, and it may come back. Once the last party has
 * arrived, no party leaves: the phase is complete for all n, and a deadline that expired at the
 * same moment is ignored.
 */

typedef struct weft_barrier {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_barrier;

/* Initialise a barrier for this many parties, at least 1 (init), or end its use (deinit). A barrier
 * has no static initialiser: waiting on a barrier that was not initialised stops the program, as
 * does deinit with waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the barrier; does not wait. */
WEFT_API void weft_barrier_init(weft_barrier *barrier, uint32_t parties,
                                const struct weft_sync_opts *opts);
WEFT_API void weft_barrier_deinit(weft_barrier *barrier);

/* Arrive, and wait for the other parties. Writes made before the call are visible to all parties
 * after it.
 * Returns 1 to the last party of the phase and 0 to the others; -ETIMEDOUT, -ECANCELED or -EINTR if
 * the caller left before the phase was complete.
 * Context: any fiber or thread; waits unless last; cancellation point if it waits. */
WEFT_API int weft_barrier_wait(weft_barrier *barrier, int64_t deadline);

/* --- once ----------------------------------------------------------------------------------- */

/* Once: a function that is called exactly once, however many callers request it. */

typedef struct weft_once {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_once;

#define WEFT_ONCE_INIT                                                                             \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise a once object (all-zero bytes, WEFT_ONCE_INIT, need no init), or end its use. deinit
 * stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_once_init(weft_once *once, const struct weft_sync_opts *opts);
WEFT_API void weft_once_deinit(weft_once *once);

/* Call fn(arg) if no caller has yet, otherwise wait until that call has returned.
 *
 * fn runs in the first caller's own fiber or thread. deadline limits only the wait for another
 * caller's fn, never fn itself. The first caller can be cancelled like any fiber: waits inside fn
 * end then, but fn still runs and counts as done when it returns. Calling weft_once_call on the
 * same object inside fn, or leaving fn by weft_fiber_exit, is a caller's bug and stops the program.
 * Returns 0 when fn has returned, and fn's writes are visible; -ETIMEDOUT, -ECANCELED or -EINTR if
 * the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_once_call(weft_once *once, weft_void_fn fn, void *arg, int64_t deadline);
/* Report whether fn has returned.
 * Returns true if fn has returned; its writes are then visible.
 * Context: any thread; does not wait. */
WEFT_API bool weft_once_is_done(const weft_once *once);

/* --- oneshot -------------------------------------------------------------------------------- */

/* A oneshot: one value, handed once from a notifier to one waiter.
 *
 * A oneshot may live on the waiter's stack: once the wait has returned 0, no other thread touches
 * it.
 *
 *     weft_oneshot reply = WEFT_ONESHOT_INIT;
 *     ... give &reply to the code that will call weft_oneshot_notify(&reply, value) ...
 *     err = weft_oneshot_wait(&reply, &value, deadline);
 *
 * A waiter that gives up (deadline, cancel) calls weft_oneshot_close, and must keep the object
 * alive until the notifier has made its call as well.
 */

typedef struct weft_oneshot {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private[2];
} weft_oneshot;

#define WEFT_ONESHOT_INIT                                                                          \
    {                                                                                              \
        {{0}},                                                                                     \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Initialise a oneshot (all-zero bytes, WEFT_ONESHOT_INIT, need no init), or end its use. deinit
 * stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_oneshot_init(weft_oneshot *oneshot, const struct weft_sync_opts *opts);
WEFT_API void weft_oneshot_deinit(weft_oneshot *oneshot);

/* Hand over the value. If there is no waiter yet, the value is kept for the later wait. Writes made
 * before the call are visible to the waiter.
 * Returns 0; -EALREADY if there was a notify before, -EPIPE if the oneshot was closed: then the
 * caller keeps the value.
 * Context: any thread; does not wait. */
WEFT_API int weft_oneshot_notify(weft_oneshot *oneshot, void *value);

/* Close the oneshot: there will be no value, or no waiter to take it. A wait, and a later notify,
 * return -EPIPE.
 * Returns 0; -EALREADY if the oneshot was notified or closed before, and then the call has no
 * effect.
 * Context: any thread; does not wait. */
WEFT_API int weft_oneshot_close(weft_oneshot *oneshot);

/* Wait for the value.
 *
 * value: receives the value; may be NULL. Only a return of 0 consumes the value. A second wait
 * after that, or a second concurrent waiter, is a caller's bug and stops the program.
 * Returns 0 and the value; -EPIPE if closed; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended
 * first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_oneshot_wait(weft_oneshot *oneshot, void **value, int64_t deadline);

/* --- waitgroup ------------------------------------------------------------------------------ */

/* A wait group: a count of unfinished items, and a wait until the count is zero.
 *
 * The group can be reused immediately: a waiter that was waiting when the count reached zero
 * returns even if items are added before it runs. A waiter whose wait returned 0 may free the
 * group: the last `done` no longer touches it.
 */

typedef struct weft_waitgroup {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_waitgroup;

#define WEFT_WAITGROUP_INIT                                                                        \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise a wait group (all-zero bytes, WEFT_WAITGROUP_INIT, need no init), or end its use.
 * deinit stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_waitgroup_init(weft_waitgroup *group, const struct weft_sync_opts *opts);
WEFT_API void weft_waitgroup_deinit(weft_waitgroup *group);

/* Add n, which may be negative, to the count. A count below zero is a caller's bug and stops the
 * program.
 * Context: any thread; does not wait. */
WEFT_API void weft_waitgroup_add(weft_waitgroup *group, int64_t n);
/* Mark one item as finished: add -1. Writes made before the call are visible to the waiters.
 * Context: any thread; does not wait. */
WEFT_API void weft_waitgroup_done(weft_waitgroup *group);
/* Wait until the count is zero. Deadline 0 tries once.
 * Returns 0 if the count is or was zero; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_waitgroup_wait(weft_waitgroup *group, int64_t deadline);
/* Read the count.
 * Returns the count, which may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_waitgroup_count(const weft_waitgroup *group);

WEFT_END_DECLS
#endif
