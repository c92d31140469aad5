/* The lock for readers and writers as its own struct, and its wait in two steps for bodies without a stack.
 *
 * Word: readers << 2 | QUEUED | WRITER.
 *
 * A reader adds itself first and looks second. If it finds WRITER or QUEUED it takes itself back and goes to the queue;
 * until then it is a ghost: counted, but not there. Ghosts only appear while one of the flags is set, and whoever leaves
 * as the last of the counted, ghost or not, looks after those who wait.
 *
 * QUEUED is set and cleared under the source's lock. It is set before one looks whether it can have the lock after all:
 * an unlock, one read-modify-write of the same word, comes either before that, and then the look sees it, or after,
 * and then it sees QUEUED and serves the queue, under the lock. While QUEUED is set, new ones are let in under the lock
 * alone. The same holds for WRITER without readers: whoever sets it with QUEUED set need not mind ghosts.
 *
 * Rejected: counters of readers per worker (a reader may unlock on another worker than it locked on, and then both the
 * lock and the unlock need a full barrier each, to be seen by a writer: as dear as the shared word without contention).
 */
#ifndef WEFT_SYNC_RWLOCK_H
#define WEFT_SYNC_RWLOCK_H

#include <weft/rwlock.h>

#include "sync/holder.h"
#include "sync/source.h"

struct WEFT__OVERLAY weft__rwlock {
    struct weft__source source; /* its list: writers */
    _Atomic(uint64_t) word;
    _Atomic(uint64_t) writer; /* sync/holder.h; written by who gives the lock, and by the writer */
    struct weft__waitlist readers; /* under the lock */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__rwlock) <= sizeof(weft_rwlock), "the public storage");
#endif

static inline struct weft__rwlock *weft__rwlock_of(weft_rwlock *lock)
{
    return (struct weft__rwlock *)(void *)lock;
}

/* Takes the lock, or links the node, whose waiter is armed: then true, and if the wait ends by this node it is taken.
 * For writing if `writer`, by that holder; else, 0, for reading. */
bool weft__rwlock_arm(struct weft__rwlock *lock, struct weft__node *node, uint64_t writer);
/* After the wait has ended, for whatever reason; `writer` as it was armed. */
void weft__rwlock_finish(struct weft__rwlock *lock, struct weft__node *node, uint64_t writer);

#endif
