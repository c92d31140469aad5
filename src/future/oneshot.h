/* The oneshot struct, and its wait split in two steps (arm, finish) for stackless tasks. */
#ifndef WEFT_FUTURE_ONESHOT_H
#define WEFT_FUTURE_ONESHOT_H

#include <weft/sync.h>

#include "sync/source.h"

enum weft__oneshot_state {
    WEFT__ONESHOT_EMPTY,
    WEFT__ONESHOT_FULL,   /* notified; the value is stored here */
    WEFT__ONESHOT_TAKEN,  /* a waiter has taken the value */
    WEFT__ONESHOT_CLOSED, /* there will be no value */
};

struct WEFT__OVERLAY weft__oneshot {
    struct weft__source source;
    void *value;    /* under the lock */
    uint32_t state; /* under the lock */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__oneshot) <= sizeof(weft_oneshot), "the public storage");
#endif

static inline struct weft__oneshot *weft__oneshot_of(weft_oneshot *oneshot)
{
    return (struct weft__oneshot *)(void *)oneshot;
}

/* Links the node, whose waiter is armed. False: nothing was linked, the node has the value and the
 * status; disarm. */
bool weft__oneshot_arm(struct weft__oneshot *oneshot, struct weft__node *node);
/* After the wait has ended, for any reason. If this node ended the wait, it has the value and the
 * status. */
void weft__oneshot_finish(struct weft__oneshot *oneshot, struct weft__node *node);

#endif
