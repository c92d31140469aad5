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

/* Find the fiber that holds the lock for writing.
 * Returns its handle; WEFT_NO_FIBER if there is no writer or the writer is a plain thread. The
 * answer may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API weft_fiber weft_rwlock_writer(const weft_rwlock *lock);

WEFT_END_DECLS
#endif
