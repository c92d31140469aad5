/* The event struct, and its wait split in two steps (arm, finish) for stackless tasks. */
#ifndef WEFT_SYNC_EVENT_H
#define WEFT_SYNC_EVENT_H

#include <weft/sync.h>

#include "sync/source.h"

struct WEFT__OVERLAY weft__event {
    struct weft__source source;
    _Atomic(uint32_t) set; /* written under the lock */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__event) <= sizeof(weft_event), "the public storage");
#endif

static inline struct weft__event *weft__event_of(weft_event *event)
{
    return (struct weft__event *)(void *)event;
}

/* Links the node, whose waiter is armed. False: the event is set, nothing was linked; disarm. */
bool weft__event_arm(struct weft__event *event, struct weft__node *node);
/* After the wait has ended, for any reason. */
void weft__event_finish(struct weft__event *event, struct weft__node *node);

#endif
