/* The wait group struct, and its wait split in two steps (arm, finish) for stackless tasks.
 *
 * Word: count << 1 | HAS_WAITERS. A waiter sets HAS_WAITERS under the source's lock when it queues.
 * While HAS_WAITERS is set, the count reaches zero only under the lock, so that a waiter, which
 * takes the lock before it returns, may free the group.
 */
#ifndef WEFT_SYNC_WAITGROUP_H
#define WEFT_SYNC_WAITGROUP_H

#include <weft/sync.h>

#include "sync/source.h"

struct WEFT__OVERLAY weft__waitgroup {
    struct weft__source source;
    _Atomic(uint64_t) word;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__waitgroup) <= sizeof(weft_waitgroup), "the public storage");
#endif

static inline struct weft__waitgroup *weft__waitgroup_of(weft_waitgroup *group)
{
    return (struct weft__waitgroup *)(void *)group;
}

/* Links the node, whose waiter is armed. False: the count is zero, nothing was linked. */
bool weft__waitgroup_arm(struct weft__waitgroup *group, struct weft__node *node);
/* After the wait has ended, for any reason. */
void weft__waitgroup_finish(struct weft__waitgroup *group, struct weft__node *node);

#endif
