/* A lock for many readers or one writer.
 *
 * Nobody starves. While a writer waits, new readers wait behind it; writers are served in the order
 * in which they came. When a writer unlocks and the first reader that waits has done so for more
 * than 1 ms, all readers that wait are let in together, before the next writer; younger ones go
 * when no writer waits any more.
 *
 * A lock that one worker uses all the time stays there: who comes from another worker may be held
 * back for 0.25 ms first, once per call. Tries, and calls whose deadline is nearer, are not.
 *
 * It is not recursive, not even for readers: a second read lock of the same fiber waits for ever if
 * a writer has come in between. The writer is known; readers are only counted. Who has locked
 * unlocks.
 */
#ifndef WEFT_RWLOCK_H
#define WEFT_RWLOCK_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

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

WEFT_API void weft_rwlock_init(weft_rwlock *lock, const struct weft_sync_opts *opts);
/* To destroy one that is locked is a caller's bug; so is to free it before all calls on it have
 * returned. */
WEFT_API void weft_rwlock_deinit(weft_rwlock *lock);

/* 0: locked; -ETIMEDOUT, -ECANCELED, -EINTR: not. Deadline 0 tries. */
WEFT_API int weft_rwlock_read(weft_rwlock *lock, int64_t deadline);
WEFT_API int weft_rwlock_write(weft_rwlock *lock, int64_t deadline);
/* Never wait. */
WEFT_API void weft_rwlock_read_unlock(weft_rwlock *lock);
WEFT_API void weft_rwlock_write_unlock(weft_rwlock *lock);

/* The fiber that holds it for writing; WEFT_NO_FIBER: none does, or a plain thread. */
WEFT_API weft_fiber weft_rwlock_writer(const weft_rwlock *lock);

WEFT_END_DECLS
#endif
