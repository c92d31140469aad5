/* The ledger: what is to come. Messages and completions for a certain time, and calls that are not
 * answered.
 *
 * An entry has a reference that is never used again: {bucket:12, slot:20, turn of the slot:32}. A
 * slot whose turns are used up is left alone. An entry that is for an actor is in the bucket of its
 * slot, so that the end of the actor finds it; and it can be made only for one that has not ended
 * (weft__gate_owe, under the bucket's lock). So a timer of an entry never outlives its host's pool.
 *
 * Everything of an entry is under its bucket's lock. Whoever takes it out of the ledger settles it:
 * fires it, answers it, or drops it. Its timer may be about to call at that moment: then the
 * callback finds that it is out, and frees it.
 *
 * Calls. A call that is not answered is linked to the actor that is to answer it, the callee, and
 * only to one that has not ended (weft__gate_owe again, under the lock of the list). So the end of
 * the callee finds it: that is one more who may settle it, by -EOWNERDEAD. Answer, end, deadline
 * and the caller's own end take the entry out under the bucket's lock, so one of them settles it.
 *     a fiber's or a thread's: in a bucket of its callee, one of WEFT__CALL_SPREAD, so that those
 *         who call the same actor do not all take the same lock. No lock beside the bucket's.
 *     a step's, and one that was transferred: in the bucket of its reference, and in the list of
 *         an index by callee, which has a lock of its own. `index` and `callee` change under both.
 * Who walks such a list takes references with him, never entries.
 *
 * Order of locks: bucket, index of callees; bucket, wheel. Nothing is delivered under any of them.
 */
#ifndef WEFT_ACTOR_LEDGER_H
#define WEFT_ACTOR_LEDGER_H

#include <stdalign.h>

#include <weft/timer.h>

#include "actor/actor.h"

#define WEFT__CALL_SPREAD 4u

struct weft__callees;

enum weft__debt_kind {
    WEFT__DEBT_LETTER, /* `letter` is for `to`, at its time */
    WEFT__DEBT_REPEAT, /* copies of it */
    WEFT__DEBT_CALL,  /* `letter` is for `to`, when there is an answer, at the latest at its time */
    WEFT__DEBT_WAIT,  /* a call of a fiber or a thread: `node`; `to` is none */
    WEFT__DEBT_SEND,  /* of a parcel: `letter` is for `to`, when its message has a place:
                         actor/parcel.h */
    WEFT__DEBT_FIBER, /* `fiber` works for `to`, and is cancelled if that ends first */
};

struct weft__debt {
    struct weft__debt *next, *prev; /* in the bucket, if it is for an actor */
    uint64_t ref;                   /* 0: it is out */
    weft_pid to;                    /* none: of a fiber or a thread */
    uint8_t kind;
    bool timed;
    weft_host *host; /* with a timer: that of `to` */
    struct weft__letter *letter;
    struct weft__node *node;
    weft_fiber fiber;
    /* Of a call. `seen`: the code of a callee in steps has it; `kept`: new code takes it over. Both
     * change under the bucket's lock and, with an index, under that of the index, too. */
    bool seen, kept;
    bool linked;                          /* to its callee: under the bucket's lock alone */
    uint64_t callee;                      /* the id of its PID */
    struct weft__debt *next_call, **back; /* what points to it */
    struct weft__callees *index;          /* NULL: it is in the list of its bucket */
    int64_t deadline, period_ns;
    weft_timer timer; /* for one call; one that repeats sets it anew */
};

/* One for an actor, with its letter. NULL: no memory. */
struct weft__debt *weft__debt_new(enum weft__debt_kind kind, weft_pid to,
                                  enum weft_actor_event_kind event, uint64_t tag);
/* One that is in no ledger. */
void weft__debt_free(struct weft__debt *entry);

/* A step's call of this actor; a fiber's or a thread's, whose wait is armed before it is put in. */
struct weft__debt *weft__debt_new_call(weft_pid caller, weft_pid callee, uint64_t tag);
static inline void weft__debt_init_wait(struct weft__debt *entry, struct weft__node *node,
                                        weft_pid callee)
{
    entry->kind = WEFT__DEBT_WAIT; /* nobody looks at what such a one does not have */
    entry->to.id = 0;
    entry->node = node;
    entry->seen = entry->kept = entry->linked = false;
    entry->callee = callee.id;
    entry->index = NULL;
}

/* Puts it in; from now on it is the ledger's, but for those of fibers, which are on their stacks.
 * `deadline`: when it is due, WEFT_FOREVER: never; period_ns, if not 0: and again. *ref is written
 * before anybody can find it. -ESRCH: the actor it is for has ended, or its callee has; -ENOMEM: it
 * is still the caller's. */
int weft__ledger_add(struct weft__debt *entry, int64_t deadline, int64_t period_ns, uint64_t *ref);
/* The same of a fiber's or a thread's call. */
int weft__ledger_add_wait(struct weft__debt *entry, weft_actor *callee, uint64_t *ref);
/* Takes it out and drops it, if its kind is in this set of bits. False: there is none. */
bool weft__ledger_drop(uint64_t ref, unsigned kinds);
/* Ends a call. False: nobody waits for it; `buf` is gone. */
bool weft__ledger_answer(uint64_t ref, int error, weft_buf *buf);
/* Puts a parcel in, and its message into the queue of the gate, at once, as seen from the ledger.
 * What weft__gate_queue answers; unless it waits, it is still the caller's. */
struct weft__parcel;
int weft__ledger_queue(struct weft__parcel *parcel, int64_t deadline);
/* It was taken out of the queue: takes it out, frees it, answers its completion. */
struct weft__letter *weft__ledger_deliver(struct weft__parcel *parcel);
/* Does a message of this sender wait for room there? */
bool weft__ledger_queues(weft_pid from, weft_pid to);
/* The actor has ended: what is to come for it is dropped, calls that it has not answered end. */
void weft__ledger_end(weft_pid self);

/* --- the calls of a batch --------------------------------------------------------------------- */

#ifdef WEFT_EXPLORE /* which remembers every byte */
#define WEFT__BUCKET_BITS 3u
#else
#define WEFT__BUCKET_BITS 12u
#endif
#define WEFT__BUCKETS (1u << WEFT__BUCKET_BITS)
#define WEFT__SLOT_BITS 20u

struct weft__slot {
    struct weft__debt *entry;
    _Atomic(uint64_t) ref; /* of the entry, or the next one; read without the lock as well */
    uint32_t next_free;
};

/* Never freed, so that a reference can be read without the lock: all former ones together are as
 * large as the last. */
struct weft__slots {
    struct weft__slots *former;
    struct weft__slot at[];
};

struct weft__bucket {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    /* under it */
    uint32_t used, room, free;           /* `free`: the first + 1, 0: none */
    _Atomic(struct weft__slots *) slots; /* read without it as well */
    struct weft__debt *first;            /* for actors */
    struct weft__debt *calls;            /* of fibers and threads, to actors */
};
extern struct weft__bucket weft__buckets[WEFT__BUCKETS];

static inline uint32_t weft__ref_slot(uint64_t ref)
{
    return (uint32_t)(ref >> WEFT__BUCKET_BITS) % (1u << WEFT__SLOT_BITS);
}

/* Without the lock, of a reference that was in the ledger: false, it is out for good. Whoever asks
 * has the reference from the one who put it in, so it sees this turn of the slot or a later one,
 * also in slots that have been replaced; a stale answer is true. */
static inline bool weft__ledger_is_pending(uint64_t ref)
{
    const struct weft__slots *slots = atomic_load_explicit(
        &weft__buckets[ref % WEFT__BUCKETS].slots, memory_order_acquire); /* pairs: grow */
    return atomic_load_explicit(&slots->at[weft__ref_slot(ref)].ref, memory_order_relaxed) == ref;
}
/* Of a call that was in the batch of a step, which has not answered it: its code has it. */
void weft__ledger_see(uint64_t ref);
/* Another is to answer it, or new code of the same: as weft_actor_call_transfer. */
int weft__ledger_transfer(uint64_t ref, weft_pid to);
/* Around a change of code: calls that were seen before and not transferred in between end. */
void weft__ledger_upgrade_begin(weft_pid self);
void weft__ledger_upgrade_end(weft_pid self);
#ifdef WEFT_EXPLORE
/* `over`: frees what it keeps; else it forgets what another execution has left. */
void weft__ledger_reset(bool over);
#endif

#endif
