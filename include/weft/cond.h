/* A condition: fibers and threads wait until somebody says that something has changed. A signal is
 * not kept: who waits later does not see it. So what has changed is protected by a mutex, and
 * looked at in a loop:
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

/* The most conditions for one weft_cond_wait_any. */
#define WEFT_COND_MAX 16

WEFT_API void weft_cond_init(weft_cond *cond, const struct weft_sync_opts *opts);
WEFT_API void weft_cond_deinit(weft_cond *cond);

/* Unlocks the mutex, waits for a signal, and locks the mutex again. 0: signalled; -ETIMEDOUT,
 * -ECANCELED, -EINTR: not. Whatever it returns, the caller holds the mutex: nothing can end that
 * part, neither the deadline nor a cancel nor an abort. mutex may be NULL where what has changed
 * needs none: among the fibers of a pool with one worker. To wait with a mutex that one does not
 * hold is a caller's bug. */
WEFT_API int weft_cond_wait(weft_cond *cond, weft_mutex *mutex, int64_t deadline);

/* Waits for a signal of any of n conditions (1 .. WEFT_COND_MAX); *which, if not NULL, is the index
 * of the one that ended the wait. A signal that this wait did not use goes to another waiter of its
 * condition. */
WEFT_API int weft_cond_wait_any(weft_cond *const *conds, unsigned n, weft_mutex *mutex,
                                unsigned *which, int64_t deadline);

/* Lets the one go on who has waited longest; a waiter whose time was up first does not count. With
 * or without the mutex. */
WEFT_API void weft_cond_signal(weft_cond *cond);
/* The same, and in a dispatcher it goes behind those that are ready, where a signal puts it before
 * them. In a pool there is no difference. */
WEFT_API void weft_cond_signal_later(weft_cond *cond);
/* Lets everybody go on who waits. */
WEFT_API void weft_cond_broadcast(weft_cond *cond);

WEFT_END_DECLS
#endif
