/* A semaphore: a number of permits.
 *
 * Those who wait are served in the order in which they came, and nobody overtakes them: while one
 * waits for many permits, later ones wait behind it, though there be enough for them. When one
 * gives up, those behind it are looked at again.
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

WEFT_API void weft_sem_init(weft_sem *sem, uint64_t permits, const struct weft_sync_opts *opts);
WEFT_API void weft_sem_deinit(weft_sem *sem);

/* Takes n permits, all or none; waits until it can. 0, -ETIMEDOUT, -ECANCELED, -EINTR. */
WEFT_API int weft_sem_acquire(weft_sem *sem, uint64_t n, int64_t deadline);
/* Adds n permits. By anybody, whether it has acquired any or not. Never waits. More than 2^62 are a
 * caller's bug. */
WEFT_API void weft_sem_release(weft_sem *sem, uint64_t n);
/* How many there are at this moment. */
WEFT_API uint64_t weft_sem_permits(const weft_sem *sem);

WEFT_END_DECLS
#endif
