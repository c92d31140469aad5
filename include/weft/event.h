/* An event: a flag that fibers and threads can wait for. It stays set until it is reset.
 *
 * The event must outlive the weft_event_set call that sets it, because that call may still be
 * running when a wait has already returned. For an object on the waiter's stack use weft_oneshot.
 */
#ifndef WEFT_EVENT_H
#define WEFT_EVENT_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_event {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_event;

#define WEFT_EVENT_INIT                                                                            \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise an event (all-zero bytes, WEFT_EVENT_INIT, need no init), or end its use. deinit stops
 * the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_event_init(weft_event *event, const struct weft_sync_opts *opts);
WEFT_API void weft_event_deinit(weft_event *event);

/* Set the flag and wake all waiters (set); clear the flag (reset); read the flag (is_set).
 *
 * Writes made before the set are visible to every wait or is_set that sees the flag.
 * Returns (is_set) true if the flag is set.
 * Context: any thread; do not wait. */
WEFT_API void weft_event_set(weft_event *event);
WEFT_API void weft_event_reset(weft_event *event);
WEFT_API bool weft_event_is_set(const weft_event *event);

/* Wait until the flag is set. Deadline 0 tries once. A fiber that was waiting when the flag was set
 * returns 0 even if the flag is reset before the fiber runs.
 * Returns 0 if set; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_event_wait(weft_event *event, int64_t deadline);

WEFT_END_DECLS
#endif
