/* The barrier struct, and its wait split in two steps (arm, finish) for stackless tasks. */
#ifndef WEFT_SYNC_BARRIER_H
#define WEFT_SYNC_BARRIER_H

#include <weft/sync.h>

#include "sync/source.h"

struct WEFT__OVERLAY weft__barrier {
    struct weft__source source;
    uint32_t parties; /* immutable */
    uint32_t arrived; /* under the lock: the number of nodes in the list */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__barrier) <= sizeof(weft_barrier), "the public storage");
#endif

static inline struct weft__barrier *weft__barrier_of(weft_barrier *barrier)
{
    return (struct weft__barrier *)(void *)barrier;
}

/* Arrives: links the node, whose waiter is armed. False: this was the last party, nothing was
 * linked. */
bool weft__barrier_arm(struct weft__barrier *barrier, struct weft__node *node);
/* After the wait has ended, for any reason. True: the phase is complete and the party took part in
 * it, whatever ended its wait. False: the party has left. */
bool weft__barrier_finish(struct weft__barrier *barrier, struct weft__node *node);

#endif
