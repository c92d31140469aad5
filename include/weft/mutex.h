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
#ifndef WEFT_MUTEX_H
#define WEFT_MUTEX_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

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

/* Report whether the caller holds the mutex.
 * Returns true if the calling fiber or thread is the holder.
 * Context: any fiber or thread; does not wait. */
WEFT_API bool weft_mutex_is_mine(const weft_mutex *mutex);
/* Find the fiber that holds the mutex.
 * Returns its handle; WEFT_NO_FIBER if the mutex is free, or held by a plain thread or by a fiber
 * that has ended. The answer may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API weft_fiber weft_mutex_holder(const weft_mutex *mutex);

WEFT_END_DECLS
#endif
