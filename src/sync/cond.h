/* The condition struct, and its wait split in two steps (arm, finish) for stackless tasks and for
 * select. */
#ifndef WEFT_SYNC_COND_H
#define WEFT_SYNC_COND_H

#include <weft/sync.h>

#include "sync/source.h"

struct WEFT__OVERLAY weft__cond {
    struct weft__source source;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__cond) <= sizeof(weft_cond), "the public storage");
#endif

static inline struct weft__cond *weft__cond_of(weft_cond *cond)
{
    return (struct weft__cond *)(void *)cond;
}

/* Links the node, whose waiter is armed: always, because a condition stores no signal. */
static inline void weft__cond_arm(struct weft__cond *c, struct weft__node *node)
{
    weft__source_lock(&c->source);
    weft__waitlist_push(&c->source.waiters, node);
    weft__source_unlock(&c->source);
}

/* After the wait has ended, for any reason. */
static inline void weft__cond_finish(struct weft__cond *c, struct weft__node *node)
{
    weft__source_leave(&c->source, &c->source.waiters, node);
}

#endif
