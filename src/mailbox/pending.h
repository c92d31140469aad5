/* The pending table: delayed messages, timed completions, and calls without a reply yet.
 *
 * An entry has a reference that is never reused: {bucket:12, slot:20, turn of the slot:32}. A slot
 * whose turns are used up is retired. An entry for an actor is in the bucket of the actor's slot,
 * so that the end of the actor finds it; and it can be added only while the actor has not ended
 * (weft__admission_mark_pending, under the bucket's lock). So the timer of an entry never outlives
 * the pool of the actor's host.
 *
 * All fields of an entry are under its bucket's lock. The thread that removes an entry from the
 * table settles it: fires it, completes it, or drops it. Its timer callback may be starting at that
 * moment: then the callback finds the entry removed, and frees it.
 *
 * Calls. A call without a reply is linked to the actor that has to reply, the callee, and only
 * while that actor has not ended (weft__admission_mark_pending again, under the lock of the list).
 * So the end of the callee finds the call and may settle it, with -EOWNERDEAD. The reply, the end
 * of the callee, the deadline and the end of the caller all remove the entry under the bucket's
 * lock, so exactly one of them settles it.
 *
 *     a call by a fiber or thread: in a bucket of its callee, one of WEFT__CALL_BUCKETS, so that
 *         the callers of one actor do not all take the same lock. No lock besides the bucket's.
 *     a call by a step, or a transferred call: in the bucket of its reference, and in the list of
 *         an index by callee, which has its own lock. `index` and `callee` change under both locks.
 *
 * A thread that walks such a list collects references, never entries.
 *
 * Lock order: bucket, index of callees; bucket, timer wheel. Nothing is delivered under any of
 * them.
 *
 * Files: pending.c (entries and timers), pending_call.c (calls), pending_slot.c (slots);
 * pending_table.h holds what they share.
 */
#ifndef WEFT_MAILBOX_PENDING_H
#define WEFT_MAILBOX_PENDING_H

#include <stdalign.h>

#include <weft/timer.h>

#include "actor/actor.h"

#define WEFT__CALL_BUCKETS 4u

struct weft__callee_index;

enum weft__pending_kind {
    WEFT__PENDING_MESSAGE, /* at the deadline `envelope` is sent to `to` */
    WEFT__PENDING_REPEAT,  /* copies of `envelope` are sent periodically */
    WEFT__PENDING_CALL,    /* `envelope` is sent to `to` with the reply, or at the deadline */
    WEFT__PENDING_WAIT,    /* a call by a fiber or a thread: `node`; `to` is none */
    /* Part of a pending send: `envelope` is sent to `to` when the message is admitted:
     * mailbox/pending_send.h. */
    WEFT__PENDING_SEND,
    WEFT__PENDING_FIBER, /* `fiber` works for `to`, and is cancelled if `to` ends first */
};

struct weft__pending_entry {
    struct weft__pending_entry *next, *prev; /* in the bucket, if the entry is for an actor */
    uint64_t ref;                            /* 0: removed from the table */
    weft_pid to;                             /* none: for a fiber or a thread */
    uint8_t kind;
    bool timed;
    weft_host *host; /* with a timer: the host of `to` */
    struct weft__envelope *envelope;
    struct weft__node *node;
    weft_fiber fiber;
    /* Of a call. `seen`: the code of a step callee has received it; `kept`: new code takes it over.
     * Both change under the bucket's lock and, if there is an index, under the index's lock as
     * well. */
    bool seen, kept;
    bool linked;                                   /* to its callee; under the bucket's lock only */
    uint64_t callee;                               /* the id of the callee's PID */
    struct weft__pending_entry *next_call, **back; /* back: the pointer that points here */
    struct weft__callee_index *index;              /* NULL: in the list of its bucket */
    int64_t deadline, period_ns;
    weft_timer timer; /* one-shot; a periodic entry sets it again each time */
};

/* Create an entry for an actor, with its envelope. Returns NULL if there is no memory. */
struct weft__pending_entry *weft__pending_entry_new(enum weft__pending_kind kind, weft_pid to,
                                                    enum weft_actor_event_kind event, uint64_t tag);
/* Free an entry that is not in the table. */
void weft__pending_entry_free(struct weft__pending_entry *entry);

/* The entry of a call by a step; of a call by a fiber or thread, whose wait is armed before it is
 * added. */
struct weft__pending_entry *weft__pending_entry_new_call(weft_pid caller, weft_pid callee,
                                                         uint64_t tag);
static inline void weft__pending_entry_init_wait(struct weft__pending_entry *entry,
                                                 struct weft__node *node, weft_pid callee)
{
    entry->kind = WEFT__PENDING_WAIT; /* this kind uses no other fields */
    entry->to.id = 0;
    entry->node = node;
    entry->seen = entry->kept = entry->linked = false;
    entry->callee = callee.id;
    entry->index = NULL;
}

/* Add the entry; the table then owns it, except for entries on fiber stacks. deadline: when it
 * fires; WEFT_FOREVER: never. period_ns, if not 0: the interval of repetition. *ref is written
 * before any thread can find the entry. Returns 0; -ESRCH if the actor it is for, or its callee,
 * has ended; -ENOMEM. On an error the caller still owns the entry. */
int weft__pending_add(struct weft__pending_entry *entry, int64_t deadline, int64_t period_ns,
                      uint64_t *ref);
/* Add a call by a fiber or thread. */
int weft__pending_add_wait(struct weft__pending_entry *entry, weft_actor *callee, uint64_t *ref);
/* Remove and drop the entry if its kind is in this bit set. Returns false if there is none. */
bool weft__pending_drop(uint64_t ref, unsigned kinds);
/* End a call. Takes buf. Returns false if no caller waits for it. */
bool weft__pending_reply(uint64_t ref, int error, weft_buf *buf);
/* Add a pending send and append its message to the admission queue, in one step as seen from the
 * table. Returns as weft__admission_enqueue; unless the message waits, the caller still owns the
 * pending send. */
struct weft__pending_send;
int weft__pending_queue_send(struct weft__pending_send *send, int64_t deadline);
/* The send was removed from the admission queue: remove and free it. Returns the envelope of its
 * completion. */
struct weft__envelope *weft__pending_take_send(struct weft__pending_send *send);
/* Does a message from this sender wait for admission there? */
bool weft__pending_has_send(weft_pid from, weft_pid to);
/* The actor has ended: drop its pending entries, and end the calls it has not answered. */
void weft__pending_end_actor(weft_pid self);

/* --- the calls of a step ---------------------------------------------------------------------- */

#ifdef WEFT_EXPLORE /* where every byte of state costs */
#define WEFT__PENDING_BUCKET_BITS 3u
#else
#define WEFT__PENDING_BUCKET_BITS 12u
#endif
#define WEFT__PENDING_BUCKETS (1u << WEFT__PENDING_BUCKET_BITS)
#define WEFT__PENDING_SLOT_BITS 20u

struct weft__pending_slot {
    struct weft__pending_entry *entry;
    _Atomic(uint64_t) ref; /* of the entry, or of the next one; also read without the lock */
    uint32_t next_free;
};

/* Never freed, so that a reference can be read without the lock: all former arrays together are as
 * large as the current one. */
struct weft__pending_slots {
    struct weft__pending_slots *former;
    struct weft__pending_slot at[];
};

struct weft__pending_bucket {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    /* under the lock */
    uint32_t used, capacity, free; /* `free`: index of the first free slot + 1, 0: none */
    _Atomic(struct weft__pending_slots *) slots; /* also read without the lock */
    struct weft__pending_entry *first;           /* for actors */
    struct weft__pending_entry *calls;           /* by fibers and threads, to actors */
};
extern struct weft__pending_bucket weft__pending_buckets[WEFT__PENDING_BUCKETS];

static inline uint32_t weft__pending_ref_slot(uint64_t ref)
{
    return (uint32_t)(ref >> WEFT__PENDING_BUCKET_BITS) % (1u << WEFT__PENDING_SLOT_BITS);
}

/* Is the entry with this reference still in the table? Reads without the lock. False is final. The
 * caller got the reference from the thread that added the entry, so it sees this turn of the slot
 * or a later one, also in a slot array that was replaced; a stale result is true. */
static inline bool weft__pending_has(uint64_t ref)
{
    const struct weft__pending_slots *slots =
        atomic_load_explicit(&weft__pending_buckets[ref % WEFT__PENDING_BUCKETS].slots,
                             memory_order_acquire); /* pairs: grow */
    return atomic_load_explicit(&slots->at[weft__pending_ref_slot(ref)].ref,
                                memory_order_relaxed) == ref;
}
/* A step received this call and has not answered it: its code is now responsible for it. */
void weft__pending_mark_seen(uint64_t ref);
/* Make another actor, or new code of the same actor, responsible: as weft_actor_call_transfer. */
int weft__pending_transfer(uint64_t ref, weft_pid to);
/* Enclose an upgrade: calls that were seen before it and not transferred during it end. */
void weft__pending_upgrade_begin(weft_pid self);
void weft__pending_upgrade_end(weft_pid self);
#ifdef WEFT_EXPLORE
/* over: free the memory; otherwise clear what another execution has left. */
void weft__pending_reset(bool over);
#endif

#endif
