/* A counting semaphore.
 *
 * Waiters are served strictly in arrival order: while a waiter needs many permits, later waiters
 * queue after it even if there are enough permits for them. When a waiter gives up, the waiters
 * after it are checked again.
 */
#ifndef WEFT_SEM_H
#define WEFT_SEM_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

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

WEFT_END_DECLS
#endif
