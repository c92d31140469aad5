/* A condition variable: fibers and threads wait until another signals a change. A signal is not
 * stored: a later waiter does not see it. So the changed state is protected by a mutex and checked
 * in a loop:
 *
 *     weft_mutex_lock(&mutex, WEFT_FOREVER);
 *     while (!ready && err == 0)
 *         err = weft_cond_wait(&cond, &mutex, deadline);
 */
#ifndef WEFT_COND_H
#define WEFT_COND_H

#include <weft/mutex.h>

WEFT_BEGIN_DECLS

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
WEFT_API int weft_cond_wait_any(weft_cond *const *conds, unsigned n, weft_mutex *mutex,
                                unsigned *which, int64_t deadline);

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

WEFT_END_DECLS
#endif
