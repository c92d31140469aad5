/* A wait group: a count of unfinished items, and a wait until the count is zero.
 *
 * The group can be reused immediately: a waiter that was waiting when the count reached zero
 * returns even if items are added before it runs. A waiter whose wait returned 0 may free the
 * group: the last `done` no longer touches it.
 */
#ifndef WEFT_WAITGROUP_H
#define WEFT_WAITGROUP_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_waitgroup {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_waitgroup;

#define WEFT_WAITGROUP_INIT                                                                        \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise a wait group (all-zero bytes, WEFT_WAITGROUP_INIT, need no init), or end its use.
 * deinit stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_waitgroup_init(weft_waitgroup *group, const struct weft_sync_opts *opts);
WEFT_API void weft_waitgroup_deinit(weft_waitgroup *group);

/* Add n, which may be negative, to the count. A count below zero is a caller's bug and stops the
 * program.
 * Context: any thread; does not wait. */
WEFT_API void weft_waitgroup_add(weft_waitgroup *group, int64_t n);
/* Mark one item as finished: add -1. Writes made before the call are visible to the waiters.
 * Context: any thread; does not wait. */
WEFT_API void weft_waitgroup_done(weft_waitgroup *group);
/* Wait until the count is zero. Deadline 0 tries once.
 * Returns 0 if the count is or was zero; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_waitgroup_wait(weft_waitgroup *group, int64_t deadline);
/* Read the count.
 * Returns the count, which may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_waitgroup_count(const weft_waitgroup *group);

WEFT_END_DECLS
#endif
