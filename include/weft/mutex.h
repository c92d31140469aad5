/* A mutex.
 *
 * A lock that is free is taken by whoever comes, also before those who wait: that keeps it busy. So
 * that nobody starves, one who has waited for more than 1 ms is handed the lock by the unlock
 * itself, the oldest first, and nobody can come between. While others take it from one another
 * without ever waiting, that is looked at in every 64th unlock at the latest.
 *
 * It is not recursive. Its holder is known: it alone may unlock, and dumps name it.
 *
 * A fiber that ends while it holds a mutex is reported on stderr. The program goes on; the mutex
 * stays locked for ever, because nobody knows what it was to protect.
 *
 * Once unlocked it may be freed by the next holder: an unlock that has let go does not touch it any
 * more.
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

/* With opts->rank, in debug builds: a fiber that holds a mutex of the same or a greater rank and
 * locks this one, other than by a try (deadline 0), stops the program, which names both. */
WEFT_API void weft_mutex_init(weft_mutex *mutex, const struct weft_sync_opts *opts);
/* To destroy a mutex that is locked is a caller's bug. */
WEFT_API void weft_mutex_deinit(weft_mutex *mutex);

/* Waits for the lock. 0: the caller holds it; -ETIMEDOUT, -ECANCELED, -EINTR: it does not. Deadline
 * 0 tries. To lock what one holds is a caller's bug. */
WEFT_API int weft_mutex_lock(weft_mutex *mutex, int64_t deadline);
/* By the holder; from anybody else it is a caller's bug. Never waits. */
WEFT_API void weft_mutex_unlock(weft_mutex *mutex);

/* Does the caller hold it? */
WEFT_API bool weft_mutex_is_mine(const weft_mutex *mutex);
/* The fiber that holds it; WEFT_NO_FIBER: nobody, a plain thread, or a fiber that has ended. */
WEFT_API weft_fiber weft_mutex_holder(const weft_mutex *mutex);

WEFT_END_DECLS
#endif
