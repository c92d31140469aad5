/* The lock for readers and writers as its own struct, and its wait in two steps for bodies without
 * a stack.
 *
 * Word: readers << 9 | slot << 2 | QUEUED | WRITER.
 *
 * A reader adds itself first and looks second. If it finds WRITER or QUEUED it takes itself back
 * and goes to the queue; until then it is a ghost: counted, but not there. Ghosts only appear while
 * one of the flags is set, and whoever leaves as the last of the counted, ghost or not, looks after
 * those who wait.
 *
 * QUEUED is set and cleared under the source's lock. It is set before one looks whether it can have
 * the lock after all: an unlock, one read-modify-write of the same word, comes either before that,
 * and then the look sees it, or after, and then it sees QUEUED and serves the queue, under the
 * lock. While QUEUED is set, new ones are let in under the lock alone. The same holds for WRITER
 * without readers: whoever sets it with QUEUED set need not mind ghosts.
 *
 * Shown readers. A thread whose slot (sched/show.h) is in the word need not count its readers:
 *
 *   reader, on the slot's thread                 writer, elsewhere
 *   1. slot = this lock                          1. QUEUED, under the lock
 *   2. look at the word: no flag, same slot      2. membarrier
 *   3. slot = nothing                            3. look at the slot: this lock? then wait
 *   4. look at the word: QUEUED? serve
 *
 * The barrier falls between two steps of the reader. Before 1: the reader sees QUEUED in 2 and
 * takes itself back, as a ghost. Between 1 and 3: the writer sees the slot, and the reader sees
 * QUEUED in 4. After 3: the writer sees that it is over. So one of them always looks after the
 * other, and the reader stores and loads, nothing else. A slot that was seen without this lock,
 * after the barrier and while QUEUED is set, cannot get it again; the writer takes it out of the
 * word.
 *
 * A writer on the slot's own thread needs no barrier: what that thread does is in order, and no
 * other fiber runs there meanwhile. Nor does one that was let in from the queue: either it made the
 * barrier when it queued up, or the slot was entered later, by a read-modify-write that saw QUEUED.
 *
 * Before a fiber that reads is switched away it is counted in the word, and then its slot is
 * cleared. So whoever wants to know of readers looks at the slot first and at the word second. Two
 * who leave at once, one in the slot and one in the word, may each see the other: but with QUEUED
 * set the one that was shown always serves, under the lock, where the later of them sees both gone.
 *
 * Home and lease are guesses, from relaxed counters, and nothing but time depends on them.
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
    /* Any thread, relaxed: what is guessed of how the lock is used. */
    _Atomic(uint64_t) home; /* the thread that called last */
    _Atomic(int64_t) leased_until;
    _Atomic(uint32_t) calls;   /* of home in a row */
    _Atomic(uint32_t) bounces; /* of home, in a row */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__rwlock) <= sizeof(weft_rwlock), "the public storage");
#endif

static inline struct weft__rwlock *weft__rwlock_of(weft_rwlock *lock)
{
    return (struct weft__rwlock *)(void *)lock;
}

/* From now on the calling worker's thread shows its readers, if nobody does. */
void weft__rwlock_show_up(struct weft__rwlock *lock);

/* Takes the lock, or links the node, whose waiter is armed: then true, and if the wait ends by this
 * node it is taken. For writing if `writer`, by that holder; else, 0, for reading. */
bool weft__rwlock_arm(struct weft__rwlock *lock, struct weft__node *node, uint64_t writer);
/* After the wait has ended, for whatever reason; `writer` as it was armed. */
void weft__rwlock_finish(struct weft__rwlock *lock, struct weft__node *node, uint64_t writer);

/* The fiber that holds the lock at this address for writing, as weft__wait_kind.holder. */
uint64_t weft__rwlock_holder(uint64_t on);

#endif
