/* The one-shot waiter as its own struct, and its wait in two steps for bodies without a stack. */
#ifndef WEFT_SYNC_ONESHOT_H
#define WEFT_SYNC_ONESHOT_H

#include <weft/oneshot.h>

#include "sync/source.h"

enum weft__oneshot_state {
    WEFT__ONESHOT_EMPTY,
    WEFT__ONESHOT_FULL,   /* notified; the value is kept here */
    WEFT__ONESHOT_TAKEN,  /* somebody has it */
    WEFT__ONESHOT_CLOSED, /* there will be none */
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
/* After the wait has ended, for whatever reason. If this node ended it, it has the value and the
 * status. */
void weft__oneshot_finish(struct weft__oneshot *oneshot, struct weft__node *node);

#endif
