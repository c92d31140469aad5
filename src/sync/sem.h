/* The semaphore struct, and its wait split in two steps (arm, finish) for stackless tasks.
 *
 * Word: permits << 1 | QUEUED. While there are no waiters, permits are acquired and released by
 * compare-and-swap. QUEUED is set and cleared under the source's lock together with the list; while
 * it is set, the permits change only under the lock.
 */
#ifndef WEFT_SYNC_SEM_H
#define WEFT_SYNC_SEM_H

#include <weft/sync.h>

#include "sync/source.h"

struct WEFT__OVERLAY weft__sem {
    struct weft__source source;
    _Atomic(uint64_t) word;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__sem) <= sizeof(weft_sem), "the public storage");
#endif

static inline struct weft__sem *weft__sem_of(weft_sem *sem)
{
    return (struct weft__sem *)(void *)sem;
}

/* Takes n permits and returns false, or links the node, whose waiter is armed, and returns true: if
 * the wait ends by this node, the permits are taken. */
bool weft__sem_arm(struct weft__sem *sem, struct weft__node *node, uint64_t n);
/* After the wait has ended, for any reason. */
void weft__sem_finish(struct weft__sem *sem, struct weft__node *node);

#endif
