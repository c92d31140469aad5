/* A reusable barrier: n parties wait for one another, phase after phase.
 *
 * A party whose wait ends early (deadline, cancel, interrupt) leaves the barrier: it no longer
 * counts as arrived, the others keep waiting for n, and it may come back. Once the last party has
 * arrived, no party leaves: the phase is complete for all n, and a deadline that expired at the
 * same moment is ignored.
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

WEFT_END_DECLS
#endif
