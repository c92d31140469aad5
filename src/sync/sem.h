/* The semaphore as its own struct, and its wait in two steps for bodies without a stack.
 *
 * Word: permits << 1 | QUEUED. While nobody waits, it is taken from and added to by
 * compare-and-swap. QUEUED is set and cleared under the source's lock with the list; while it is
 * set the permits change under the lock alone.
 */
#ifndef WEFT_SYNC_SEM_H
#define WEFT_SYNC_SEM_H

#include <weft/sem.h>

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

/* Takes n permits, or links the node, whose waiter is armed: then true, and if the wait ends by
 * this node they are taken. */
bool weft__sem_arm(struct weft__sem *sem, struct weft__node *node, uint64_t n);
/* After the wait has ended, for whatever reason. */
void weft__sem_finish(struct weft__sem *sem, struct weft__node *node);

#endif
