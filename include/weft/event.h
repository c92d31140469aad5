/* An event: a flag one can wait for. It stays set until it is reset.
 *
 * It must outlive the call of weft_event_set that sets it, which may still be inside when a wait
 * has returned: for one on the waiter's stack use weft_oneshot.
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

WEFT_API void weft_event_init(weft_event *event, const struct weft_sync_opts *opts);
WEFT_API void weft_event_deinit(weft_event *event);

/* Sets the flag and lets everybody go on who waits. What was written before is seen by those. */
WEFT_API void weft_event_set(weft_event *event);
WEFT_API void weft_event_reset(weft_event *event);
WEFT_API bool weft_event_is_set(const weft_event *event);

/* Waits until the flag is set. 0, -ETIMEDOUT, -ECANCELED, -EINTR. One who was waiting when it was
 * set goes on, though it be reset before it runs. */
WEFT_API int weft_event_wait(weft_event *event, int64_t deadline);

WEFT_END_DECLS
#endif
