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
 * Order of locks: bucket, wheel. Nothing is delivered under either.
 */
#ifndef WEFT_ACTOR_LEDGER_H
#define WEFT_ACTOR_LEDGER_H

#include <weft/timer.h>

#include "actor/actor.h"

enum weft__debt_kind {
    WEFT__DEBT_LETTER, /* `letter` is for `to`, at its time */
    WEFT__DEBT_REPEAT, /* copies of it */
    WEFT__DEBT_CALL,  /* `letter` is for `to`, when there is an answer, at the latest at its time */
    WEFT__DEBT_WAIT,  /* a call of a fiber or a thread: `node` */
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
    int64_t deadline, period_ns;
    weft_timer timer; /* for one call; one that repeats sets it anew */
};

/* One for an actor, with its letter. NULL: no memory. */
struct weft__debt *weft__debt_new(enum weft__debt_kind kind, weft_pid to,
                                  enum weft_actor_event_kind event, uint64_t tag);
/* One that is in no ledger. */
void weft__debt_free(struct weft__debt *entry);

/* Puts it in; from now on it is the ledger's, but for those of fibers, which are on their stacks.
 * `deadline`: when it is due, WEFT_FOREVER: never; period_ns, if not 0: and again. *ref is written
 * before anybody can find it. -ESRCH, -ENOMEM: it is still the caller's. */
int weft__ledger_add(struct weft__debt *entry, int64_t deadline, int64_t period_ns, uint64_t *ref);
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
/* The actor has ended. */
void weft__ledger_end(weft_pid self);

#endif
