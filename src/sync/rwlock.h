/* The rwlock struct, and its wait split in two steps (arm, finish) for stackless tasks.
 *
 * Word: readers << 9 | slot << 2 | QUEUED | WRITER.
 *
 * A reader first adds itself to the count and then checks the flags. If it finds WRITER or QUEUED
 * set, it subtracts itself and queues; until then it is a tentative reader: counted, but not
 * holding the lock. Tentative readers appear only while one of the flags is set, and the last
 * counted reader to leave, tentative or not, serves the waiters.
 *
 * QUEUED is set and cleared under the source's lock. A waiter sets it before it checks whether it
 * can take the lock after all. An unlock is one read-modify-write of the same word: it comes either
 * before the setting, and then the check sees it, or after, and then the unlock sees QUEUED and
 * serves the queue under the lock. While QUEUED is set, new readers and writers are admitted only
 * under the lock. The same holds for WRITER without readers: a thread that sets WRITER while QUEUED
 * is set may ignore tentative readers.
 *
 * Reader slots (biased readers, cf. BRAVO). A thread whose slot (worker/reader_slot.h) is named in
 * the word need not count its readers:
 *
 *   reader, on the slot's thread                 writer, on another thread
 *   1. slot = this lock                          1. set QUEUED, under the lock
 *   2. load the word: no flag, same slot?        2. membarrier
 *   3. slot = empty                              3. load the slot: this lock? then wait
 *   4. load the word: QUEUED? serve
 *
 * The membarrier takes effect between two steps of the reader. Before 1: the reader sees QUEUED in
 * 2 and withdraws, as a tentative reader. Between 1 and 3: the writer sees the slot, and the reader
 * sees QUEUED in 4. After 3: the writer sees that the read is over. So one of them always takes
 * care of the other, and the reader uses only plain loads and stores. A slot that was seen without
 * this lock, after the membarrier and while QUEUED is set, cannot get this lock again; the writer
 * removes the slot from the word.
 *
 * A writer on the slot's own thread needs no membarrier: a thread's own operations are in order,
 * and no other fiber runs there meanwhile. A writer that is admitted from the queue needs none
 * either: it executed the membarrier when it queued, or the slot was entered later, by a
 * read-modify-write that saw QUEUED.
 *
 * Before a reading fiber is switched out, it is counted in the word and then its slot is cleared.
 * So a thread that checks for readers loads the slot first and the word second. If two readers
 * leave at the same time, one through the slot and one through the word, each may see the other;
 * but with QUEUED set the slot reader always serves, under the lock, where the later of the two
 * sees both gone.
 *
 * The thread that used the lock last, and its lease, are heuristics from relaxed counters; they
 * affect only timing, not correctness.
 */
#ifndef WEFT_SYNC_RWLOCK_H
#define WEFT_SYNC_RWLOCK_H

#include <weft/sync.h>

#include "sync/holder.h"
#include "sync/source.h"

struct WEFT__OVERLAY weft__rwlock {
    struct weft__source source; /* its list holds the waiting writers */
    _Atomic(uint64_t) word;
    _Atomic(uint64_t) writer; /* sync/holder.h; written by the thread that grants the lock, and by
                               * the writer */
    struct weft__waitlist readers; /* under the lock */
    /* Any thread, relaxed: heuristics about how the lock is used. */
    _Atomic(uint64_t) last_thread; /* the thread that called last */
    _Atomic(int64_t) leased_until;
    _Atomic(uint32_t) calls;   /* in a row by that thread */
    _Atomic(uint32_t) bounces; /* changes of that thread in a row */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__rwlock) <= sizeof(weft_rwlock), "the public storage");
#endif

static inline struct weft__rwlock *weft__rwlock_of(weft_rwlock *lock)
{
    return (struct weft__rwlock *)(void *)lock;
}

/* Enters the calling worker's reader slot in the word if no other slot is entered. */
void weft__rwlock_enter_slot(struct weft__rwlock *lock);

/* Takes the lock and returns false, or links the node, whose waiter is armed, and returns true: if
 * the wait ends by this node, the lock is taken. `writer`: the holder that wants to write; 0: for
 * reading. */
bool weft__rwlock_arm(struct weft__rwlock *lock, struct weft__node *node, uint64_t writer);
/* After the wait has ended, for any reason; `writer` as passed to arm. */
void weft__rwlock_finish(struct weft__rwlock *lock, struct weft__node *node, uint64_t writer);

/* The fiber that holds the lock at this address for writing, as weft__wait_kind.holder. */
uint64_t weft__rwlock_holder(uint64_t on);

#endif
