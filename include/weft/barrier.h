/* A barrier: n parties wait for one another, again and again.
 *
 * Whoever does not want to wait any longer (deadline, cancel, interrupt) leaves: it has not
 * arrived, the others go on waiting for n, and it may come back. Once the last has arrived nobody
 * leaves any more: the phase is over for all n, and a deadline that was up at the same moment does
 * not count.
 */
#ifndef WEFT_BARRIER_H
#define WEFT_BARRIER_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_barrier {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_barrier;

/* parties: at least 1. A barrier that was not initialised is a caller's bug. */
WEFT_API void weft_barrier_init(weft_barrier *barrier, uint32_t parties,
                                const struct weft_sync_opts *opts);
WEFT_API void weft_barrier_deinit(weft_barrier *barrier);

/* Arrives, and waits for the others. 1: the caller was the last of this phase; 0: another was;
 * -ETIMEDOUT, -ECANCELED, -EINTR: it has left. What was written before is seen by all parties
 * after. */
WEFT_API int weft_barrier_wait(weft_barrier *barrier, int64_t deadline);

WEFT_END_DECLS
#endif
