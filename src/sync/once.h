/* The once struct, and its wait split in two steps (arm, finish) for stackless tasks.
 *
 * Word: 0, then the caller that runs the function (sync/holder.h), then DONE. */
#ifndef WEFT_SYNC_ONCE_H
#define WEFT_SYNC_ONCE_H

#include <weft/sync.h>

#include "sync/holder.h"
#include "sync/source.h"

struct WEFT__OVERLAY weft__once {
    struct weft__source source;
    _Atomic(uint64_t) word; /* written under the lock */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__once) <= sizeof(weft_once), "the public storage");
#endif

static inline struct weft__once *weft__once_of(weft_once *once)
{
    return (struct weft__once *)(void *)once;
}

enum weft__once_action {
    WEFT__ONCE_DONE, /* the function has returned */
    WEFT__ONCE_CALL, /* `self` is the first caller: it calls the function, then weft__once_done */
    WEFT__ONCE_WAIT, /* the node, whose waiter is armed, was linked */
};

enum weft__once_action weft__once_arm(struct weft__once *once, struct weft__node *node,
                                      uint64_t self);
void weft__once_done(struct weft__once *once);
/* After the wait has ended, for any reason. */
void weft__once_finish(struct weft__once *once, struct weft__node *node);

#endif
