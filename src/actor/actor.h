/* The internals of an actor. The public contract is <weft/actor.h>.
 *
 * An actor is a task and a record. The task is stackless (sched/stackless.h) or a fiber
 * (actor/fiber_actor.h). The record of slot n is entry n of slabs that are never unmapped, so a PID
 * contains a fiber handle, and finding an actor takes two loads. Any thread may read a record at
 * any time: its admission word says which actor it belongs to.
 *
 * Envelopes. Each envelope carries the generation of the actor it is for. A sender reserves a place
 * in the admission word, which succeeds only if the word belongs to that very actor; then the
 * sender pushes the envelope and wakes the actor. Meanwhile the actor may end and the slot may be
 * reused. So every thread that drains an inbox checks each envelope, and discards as dead letters
 * those that are for another generation. At no moment can an actor read an envelope for another
 * actor. Nor is an envelope ever forgotten:
 *
 *     ending actor                               sender
 *     1. closes its admission word (seq_cst)     1. pushes the envelope (seq_cst)
 *     2. under the lock: marks the record        2. loads the admission word (seq_cst): closed, or
 *        empty, drains its inboxes (seq_cst)        another actor's;
 *                                                3. under the lock: if the record is empty, drains
 *                                                   the inboxes
 *
 * Both sides write before they read. If the actor has not seen the envelope, the sender sees the
 * closed admission word; then either the sender finds the record empty under the lock and drains
 * the inboxes itself, or the actor has yet to reach step 2, or a next actor owns the slot and
 * checks every envelope.
 *
 * States, by the names of <weft/actor.h>. The task's state word (task/task.h) holds them; `asleep`
 * distinguishes blocked from idle.
 *
 *   from           to        by          when
 *   none           ready     spawner     a spawn, after init and the hooks have accepted
 *   ready          running   worker      the actor's turn
 *   running        ready     worker      continue, upgrade, turn used up; envelopes that arrived
 *                                        before the actor slept
 *   running        blocked   worker      the step waits for completions: try_sleep
 *   running        idle      worker      any other step that does not continue: try_sleep
 *   blocked        ready     any thread  an envelope that is not a message: wake
 *   idle           ready     any thread  any envelope: wake
 *   blocked, idle  ready     any thread  the deadline of weft_host_stop: a cancel of the task
 *   running        complete  worker      done, exit, an error, an exit signal that is not trapped,
 *                                        a kill: weft__actor_end
 *
 * A fiber actor is idle in a receive and blocked in any other wait; `asleep` is set only in the
 * first.
 *
 * Sleep.
 *
 *     actor                                      sender
 *     1. arms its wait, asleep = ticket          1. pushes the envelope (seq_cst)
 *     2. settles: it waits (seq_cst)             2. loads the state word (seq_cst), then asleep
 *     3. checks its inboxes (seq_cst);           3. fires the ticket that it found in asleep; of
 *        if not empty, fires its own ticket         several senders one wins
 *
 * Both sides write before they read. If the actor has not seen the envelope, the sender sees that
 * the actor has settled, and so sees the value of asleep from before that. From step 2 on the actor
 * does not own itself: it may be woken and run on another worker. The inboxes that it reads in step
 * 3 exist regardless of which actor owns the slot; its ticket belongs to no other wait, so it takes
 * back only this very wait. A sleep costs one atomic exchange.
 *
 * Two cases cannot check after settling. A fiber cannot settle while it is on its stack; and with
 * WEFT_MAILBOX_DROP_OLDEST senders move messages from the inbox to `kept`, which an actor may read
 * only while it owns itself. Both store asleep with seq_cst, check, and then settle; the sender's
 * load of asleep is seq_cst for their sake. A sender whose envelope is not the first in its inbox
 * leaves steps 2 and 3 to the sender of the first envelope: the actor checks before it leaves
 * anything in the inbox, so it has yet to be woken for that first envelope, or to see it. A ticket
 * belongs to one wait of one incarnation: a sender that all of this has overtaken ends no wait of
 * another task (task/task.h), and at worst wakes the slot's next actor for nothing.
 */
#ifndef WEFT_ACTOR_ACTOR_H
#define WEFT_ACTOR_ACTOR_H

#include <weft/actor_out.h>
#include <weft/supervisor.h>

#include "actor/exit_records.h"
#include "base/link.h"
#include "lock/lock.h"
#include "queue/inbox.h"
#include "sched/stackless.h"

struct weft__relation;
struct weft__exit_reason;

/* An event on its way to an actor, until a step has seen it: 64 bytes. */
struct weft__envelope {
    struct weft__link link; /* must be first */
    uint64_t tag, from_id;
    uint32_t from_node, from_host;
    union {
        const char *topic;                     /* message */
        struct weft__exit_reason *exit_reason; /* exit signal or monitor event; may be NULL */
    };
    weft_buf *buf;
    int error;
    uint32_t generation; /* of the receiver, + 1 */
    uint8_t kind;        /* enum weft_actor_event_kind, or one of those below */
    bool by_link : 1;    /* exit signal: sent by a link */
    bool credit : 1;     /* completion: grants a send credit for `from`, mailbox/admission.h */
    uint16_t to_host;
    uint32_t trace; /* actor/trace.h */
};
#define WEFT__ENVELOPE_KILL 255u
#define WEFT__ENVELOPE_STATS 254u /* asks for the actor's statistics; answered like a call */

/* Envelopes that are not messages are handled before messages, need no mailbox capacity, and wake a
 * blocked actor. */
static inline bool weft__envelope_is_message(const struct weft__envelope *envelope)
{
    return envelope->kind == WEFT_EVENT_MESSAGE || envelope->kind == WEFT_EVENT_CALL;
}

static inline weft_pid weft__envelope_from(const struct weft__envelope *envelope)
{
    return (weft_pid){
        .node = envelope->from_node, .host = envelope->from_host, .id = envelope->from_id};
}

/* The sender waits for a reply; the tag is the call's reference. */
static inline bool weft__envelope_is_call(const struct weft__envelope *envelope)
{
    return envelope->kind == WEFT_EVENT_CALL || envelope->kind == WEFT__ENVELOPE_STATS;
}

_Static_assert(sizeof(struct weft__envelope) == 64, "a small block");

struct weft_actor {
    /* any thread, atomic */
    struct weft__inbox user, system;
    _Atomic(uint64_t) asleep;    /* 0, or {ticket:48, BLOCKED, 1}; written by the actor only */
    _Atomic(uint64_t) admission; /* mailbox/admission.c */
    _Atomic(uint32_t) limit;     /* mailbox capacity; upper bits: enum weft_mailbox_policy */
    struct weft__lock lock;
    struct weft__relation *relations; /* under the lock: relation/relation.h */
    /* The actor's own, except for inspection. With WEFT_MAILBOX_DROP_OLDEST `kept`, and draining
     * `user`, are under the lock. */
    struct weft__link *kept;   /* messages taken out of the inbox and not yet seen */
    struct weft__link *urgent; /* non-message envelopes taken out and not yet seen */
    _Atomic(uint64_t) steps;
    uint64_t parent;
    const struct weft_actor_kind *kind;
    weft_host *host;
    void *state;
    weft_fiber self;
    uint32_t pending : 30; /* unfinished commands */
    uint32_t blocked : 1;  /* the next step gets no messages */
    uint32_t due : 1;      /* step even without events */
    uint16_t parent_host;
    /* Under the lock: non-zero from before init until the inboxes were drained; WEFT__ENDING. */
    uint8_t live_state;
    _Atomic(bool) trap; /* the actor's own, except that weft__actor_cancel_fiber reads it */
};

_Static_assert(sizeof(weft_actor) <= 120, "with its control block, less than 256 bytes");

#define WEFT__ENDING 2u /* admission is closed */

#define WEFT__BATCH_MAX 64u /* events per step */

#define WEFT__ASLEEP 1u
#define WEFT__ASLEEP_BLOCKED 2u
#define WEFT__ASLEEP_SHIFT 2u

/* The admission word: {generation + 1:32, CONTENDED, HAS_PENDING, CREDIT_UNUSED, credits:5,
 * messages accepted and not yet seen:24}; 0: the record belongs to no actor. */
#define WEFT__ADMISSION_SHIFT 32u
#define WEFT__ADMISSION_CONTENDED ((uint64_t)1 << 31)     /* senders wait: mailbox/admission.c */
#define WEFT__ADMISSION_HAS_PENDING ((uint64_t)1 << 30)   /* the pending table has entries */
#define WEFT__ADMISSION_CREDIT_UNUSED ((uint64_t)1 << 29) /* one credit is not used yet */
#define WEFT__ADMISSION_CREDIT ((uint64_t)1 << 24)
#define WEFT__ADMISSION_CREDITS ((uint64_t)31 << 24) /* outstanding: mailbox/admission.h */
#define WEFT__ADMISSION_COUNT (WEFT__ADMISSION_CREDIT - 1)
#define WEFT__LIMIT_SHIFT 30u /* position of the policy */
#define WEFT__LIMIT_MAX ((uint32_t)WEFT__ADMISSION_COUNT)

static inline uint32_t weft__admission_generation(uint64_t admission)
{
    return (uint32_t)(admission >> WEFT__ADMISSION_SHIFT);
}

static inline uint32_t weft__admission_count(uint64_t admission)
{
    return (uint32_t)(admission & WEFT__ADMISSION_COUNT);
}

/* The generation as admission words and envelopes store it: never 0, which stands for no actor.
 * UINT32_MAX, which no slot ever reaches (task/ident.h), may occur in a PID that a caller made
 * up. */
static inline uint32_t weft__pid_generation(weft_pid pid)
{
    uint32_t generation = (uint32_t)(pid.id >> 32);
    return generation + (generation != UINT32_MAX);
}

static inline bool weft__admission_is_full(uint64_t admission, uint32_t limit)
{
    return weft__admission_count(admission) >= (limit & WEFT__LIMIT_MAX) ||
           (admission & WEFT__ADMISSION_CONTENDED);
}

/* Reserve a place for one message to this very actor. Returns 0; -ESRCH if the actor has ended;
 * -ENOBUFS if the mailbox is full; 1: a place was reserved, but the oldest message must be dropped.
 * *policy: the actor's mailbox policy. */
static inline int weft__admission_reserve(weft_actor *actor, weft_pid to,
                                          enum weft_mailbox_policy *policy)
{
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    bool full;
    do {
        if (weft__admission_generation(admission) != weft__pid_generation(to)) {
            return -ESRCH;
        }
        /* If the record has changed owner meanwhile, the exchange fails. */
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        *policy = (enum weft_mailbox_policy)(limit >> WEFT__LIMIT_SHIFT);
        full = weft__admission_is_full(admission, limit);
        if (__builtin_expect(full, 0) && *policy != WEFT_MAILBOX_DROP_OLDEST) {
            return -ENOBUFS;
        }
    } while (!atomic_compare_exchange_weak_explicit(&actor->admission, &admission, admission + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return full;
}
/* Would weft__admission_reserve return -ENOBUFS, and the policy let no sender wait? A snapshot. */
static inline bool weft__admission_would_refuse(const weft_actor *actor, weft_pid to)
{
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    uint32_t limit = actor ? atomic_load_explicit(&actor->limit, memory_order_relaxed) : 0;
    return weft__admission_is_full(admission, limit) &&
           weft__admission_generation(admission) == weft__pid_generation(to) &&
           limit >> WEFT__LIMIT_SHIFT == WEFT_MAILBOX_REFUSE;
}
/* Release the places of n messages that the actor has taken out, and admit waiting senders
 * (mailbox/admission.h). */
void weft__admission_admit_waiters(weft_pid to);
static inline void weft__admission_release(weft_actor *actor, size_t n)
{
    uint64_t admission = atomic_fetch_sub_explicit(&actor->admission, n, memory_order_relaxed);
    if (__builtin_expect((admission & WEFT__ADMISSION_CONTENDED) != 0, 0)) {
        weft__admission_admit_waiters(weft_actor_pid(actor));
    }
}
/* Senders wait, and no unused credit guarantees that they are admitted later. */
static inline bool weft__admission_is_stalled(uint64_t admission)
{
    return __builtin_expect(
        (admission & (WEFT__ADMISSION_CONTENDED | WEFT__ADMISSION_CREDIT_UNUSED)) ==
            WEFT__ADMISSION_CONTENDED,
        0);
}
/* Release n places within a turn, which may continue. Waiting senders are admitted when half of the
 * mailbox is empty, and when the turn ends (weft__admission_end_turn). */
static inline void weft__admission_release_batch(weft_actor *actor, size_t n)
{
    uint64_t admission = atomic_fetch_sub_explicit(&actor->admission, n, memory_order_relaxed);
    if (weft__admission_is_stalled(admission)) {
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        if (weft__admission_count(admission) - n <= (limit & WEFT__LIMIT_MAX) / 2) {
            weft__admission_admit_waiters(weft_actor_pid(actor));
        }
    }
}
static inline void weft__admission_end_turn(weft_actor *actor)
{
    if (weft__admission_is_stalled(atomic_load_explicit(&actor->admission, memory_order_relaxed))) {
        weft__admission_admit_waiters(weft_actor_pid(actor));
    }
}
/* A send credit: the step that uses it begins; that step is over; the credit is never used. */
void weft__send_credit_begin(weft_pid to);
void weft__send_credit_end(weft_pid to);
void weft__send_credit_drop(weft_pid to);
/* Return an unused place that weft__envelope_reserve reserved. */
void weft__admission_unreserve(weft_pid to);
/* After the actor's end: reject the senders that wait, and settle the actor's pending entries. The
 * last argument is the admission word as it was when it was closed. */
void weft__admission_settle(weft_pid self, uint64_t admission);
#ifdef WEFT_EXPLORE
void weft__admission_reset(void);
#endif
/* Note that the actor has entries in the pending table. Returns false if the actor has ended. */
bool weft__admission_mark_pending(weft_actor *actor, weft_pid self);

#define WEFT__COMMANDS_INLINE 4u

/* A command that a step has issued. */
struct weft__issued_command {
    unsigned id;
    uint64_t tag;
    weft_buf *arg;
};

/* The output of a step. */
struct weft_out {
    uint8_t status; /* enum weft__out_status */
    unsigned count, capacity;
    struct weft__issued_command
        *heap_commands; /* all commands, once they exceed the inline array */
    weft_buf *result;
    int error;                             /* exit error, */
    struct weft__exit_reason *exit_reason; /* and its reason, or NULL */
    struct weft__new_code *new;            /* the upgrade */
    struct weft__issued_command
        inline_commands[WEFT__COMMANDS_INLINE]; /* last: not cleared for each step */
};

enum weft__out_status {
    WEFT__OUT_NONE,
    WEFT__OUT_CONTINUE,
    WEFT__OUT_IDLE,
    WEFT__OUT_WAIT,
    WEFT__OUT_DONE,
    WEFT__OUT_UPGRADE,
};

/* How an actor ended. */
struct weft__end {
    int error; /* 0: a normal end */
    weft_buf *result;
    struct weft__exit_reason *exit_reason;
    bool joined; /* a joiner got the result */
};

/* The text of an exit reason, shared by all receivers. */
struct weft__exit_reason {
    _Atomic(uint32_t) refs;
    weft_buf *text;
};
/* Takes `text`. Returns NULL if there is no memory; `text` is freed. */
struct weft__exit_reason *weft__exit_reason_new(weft_buf *text);
/* NULL is allowed. */
struct weft__exit_reason *weft__exit_reason_ref(struct weft__exit_reason *exit_reason);
void weft__exit_reason_unref(struct weft__exit_reason *exit_reason);

/* Submit the commands to their handlers. Returns their number; -ENOMEM if an error could not be
 * reported to the actor. */
int weft__out_dispatch(weft_out *out, weft_actor *actor);
/* Drop the commands and everything else the output owns. */
void weft__out_drop(weft_out *out);

/* Command handlers. Written before the host's first actor, read without a lock afterwards. */
struct weft__handler {
    unsigned id;
    weft_command_fn fn;
    void *arg;
};
#define WEFT__COMMANDS_DENSE 256u
struct weft__handlers {
    struct weft__handler dense[WEFT__COMMANDS_DENSE];
    struct weft__handler *sparse; /* sorted by id */
    size_t sparse_count;
};
void weft__handlers_free(struct weft__handlers *handlers);

/* A chained hash table from strings to entries. All zero is an empty table. */
struct weft__string_table_entry {
    struct weft__string_table_entry *next;
    uint32_t hash;
    const char *key;
};
struct weft__string_table {
    struct weft__lock lock; /* guards everything below, and the entries */
    struct weft__string_table_entry **buckets;
    size_t capacity, count; /* the first: 0 or a power of two */
};

/* Called under the table's lock. */
uint32_t weft__string_table_hash(const char *key);
struct weft__string_table_entry *weft__string_table_find(const struct weft__string_table *table,
                                                         const char *key);
void weft__string_table_add(struct weft__string_table *table,
                            struct weft__string_table_entry *entry);
void weft__string_table_remove(struct weft__string_table *table,
                               struct weft__string_table_entry *entry);
/* Make space for one more entry. Returns false if there is no memory and the table has no buckets
 * at all. */
bool weft__string_table_grow(struct weft__string_table *table);
void weft__string_table_free(struct weft__string_table *table);

struct weft_host {
    struct weft__lock lock; /* guards handlers and hooks until they are frozen */
    _Atomic(bool) frozen;
    struct weft__handlers handlers;
    struct weft_host_hook *hooks;
    size_t hook_count;
    _Atomic(weft_dead_letter_fn) on_dead;
    void *on_dead_arg;
    _Atomic(uint32_t) on_dead_calls; /* callbacks that may be running */
    struct weft__string_table names, groups;
    struct weft__exit_records exits;
    weft_buf *stop_reason; /* written before `stopping` */
    weft_pool *pool;
    uint32_t number;
    unsigned mailbox, batch, turn_events;
    int64_t turn_ns;
    uint64_t max_actors;
    _Atomic(uint64_t) live; /* never above max_actors */
    _Atomic(bool) stopping;
    _Atomic(uint64_t) spawned, ended, dead, forced;
    weft_host *next; /* under the lock of host/host.c */
};

/* Return the record of a slot, allocated at first use; NULL: no memory. */
weft_actor *weft__actor_at(uint32_t slot);
/* Return the record of a slot; NULL: never allocated. */
#ifdef WEFT_EXPLORE /* has one record */
weft_actor *weft__actor_find(uint32_t slot);
#else
#define WEFT__SLAB_RECORDS 16384u
#define WEFT__RECORD_SLABS 16384u
extern _Atomic(weft_actor *) weft__records[WEFT__RECORD_SLABS]; /* actor/actor_slab.c */

static inline weft_actor *weft__actor_find(uint32_t slot)
{
    /* slot 0 wraps: no slab is so high */
    uint32_t index = slot - 1, slab = index / WEFT__SLAB_RECORDS;
    weft_actor *first = slab < WEFT__RECORD_SLABS
                            ? atomic_load_explicit(&weft__records[slab], memory_order_acquire)
                            : NULL;
    return first ? first + index % WEFT__SLAB_RECORDS : NULL;
}
#endif
/* Return the actor; NULL if it has ended. */
weft_actor *weft__actor_of(weft_pid pid);

/* --- envelopes in transit (mailbox/envelope.c, mailbox/dead_letter.c) ------------------------- */

/* Push the envelope and wake the actor. Takes the envelope. A message has a reserved place. */
void weft__actor_deliver(weft_actor *actor, weft_pid to, struct weft__envelope *envelope);
/* The same in two steps: push may be called under an actor's lock, wake may not. Push returns true
 * if the envelope is the first in its inbox, and then the caller must call wake. */
bool weft__actor_push(weft_actor *actor, weft_pid to, struct weft__envelope *envelope);
void weft__actor_wake(weft_actor *actor, weft_pid to, bool system);
/* Set the sender, which is the actor that runs on this thread or none, and the trace chain. */
void weft__envelope_set_sender(struct weft__envelope *envelope);
/* Set the trace chain only. */
void weft__envelope_set_trace(struct weft__envelope *envelope);
/* Count and report an unread envelope as a dead letter, answer it if it is a call, free it. `slot`:
 * the receiver's. */
void weft__envelope_discard(struct weft__envelope *envelope, uint32_t slot);
void weft__envelopes_discard(struct weft__link *envelopes, uint32_t slot);
/* Count and report a dead letter that has no envelope any longer. */
void weft__dead_letter_report(weft_host *host, const struct weft_dead_letter *dead);
/* Make sure that the callback is not running and not called again. */
void weft__dead_letters_close(weft_host *host);
struct weft__envelope *weft__envelope_new(enum weft_actor_event_kind kind, uint64_t tag,
                                          weft_buf *buf);
/* Sending in two steps. Reserve a place in the mailbox: returns it, or an error. Then put the
 * envelope, which cannot fail. deadline: for waiting for capacity; WEFT_BY_POLICY: as
 * weft_actor_send. For actors of this node; `actor`: the result of weft__actor_find. */
int weft__envelope_reserve(weft_actor *actor, weft_pid to, int64_t deadline);
void weft__envelope_put(weft_actor *actor, weft_pid to, struct weft__envelope *envelope, int place);
/* Both steps. Takes the envelope unless it fails. */
int weft__envelope_send(weft_pid to, struct weft__envelope *envelope, int64_t deadline);
/* Post to an actor on any node a message whose sender is set; post an envelope that is not a
 * message. Both take the envelope, also on an error. Errors as weft_actor_send. */
int weft__envelope_post(weft_pid to, struct weft__envelope *envelope, int64_t deadline);
int weft__envelope_post_system(weft_pid to, struct weft__envelope *envelope);
/* As weft_command_complete, with an envelope that was allocated before the event happened. Takes
 * both and needs no memory. */
int weft__envelope_complete(weft_pid actor, struct weft__envelope *envelope, int error,
                            weft_buf *buf);
/* Free an envelope that was seen or is never seen. */
void weft__envelope_free(struct weft__envelope *envelope);
/* The same on a worker's thread; `small`: that worker's. */
static inline void weft__envelope_free_local(struct weft__small_cache *small,
                                             struct weft__envelope *envelope)
{
    if (envelope->buf) {
        weft_buf_free(envelope->buf);
    }
    if (envelope->kind != WEFT_EVENT_MESSAGE) {
        if (envelope->kind == WEFT_EVENT_EXIT || envelope->kind == WEFT_EVENT_DOWN) {
            weft__exit_reason_unref(envelope->exit_reason);
        } else if (__builtin_expect(envelope->credit, 0)) { /* the credit stays unused */
            weft__send_credit_drop(weft__envelope_from(envelope));
        }
    }
    weft__small_put(small, weft__small_class(sizeof *envelope), envelope);
}

/* --- starting and ending ---------------------------------------------------------------------- */

/* Are the kind's members consistent? */
bool weft__kind_is_valid(const struct weft_actor_kind *kind);
/* The value of `limit` for actors of this kind. */
uint32_t weft__kind_limit(const struct weft_actor_kind *kind, const weft_host *host);

/* Send the cancel event of the host's stop. */
void weft__host_cancel(weft_host *host, weft_pid pid);
/* Return the host with this number, which may have been destroyed; NULL: it never existed. */
weft_host *weft__host_at(uint32_t number);

/* An actor ends because its task was cancelled. Unless that was for lack of memory for an event,
 * the deadline of weft_host_stop has passed. */
static inline void weft__host_count_forced(weft_host *host)
{
    if (atomic_load_explicit(&host->stopping, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&host->forced, 1, memory_order_relaxed);
    }
}

static inline void weft__actor_close(weft_actor *actor)
{
    if (actor->kind->close) {
        actor->kind->close(actor);
    }
}
/* The actor does not end on its own: call its kind's `abort`. */
static inline void weft__actor_abort(weft_actor *actor)
{
    if (actor->kind->abort) {
        actor->kind->abort(actor);
    }
}
/* Do everything for the actor's end except ending its task, on the thread that runs it. Takes the
 * contents of `end`. */
void weft__actor_end(weft_actor *actor, struct weft__end *end);
/* Undo a spawn that failed: remove relations and envelopes without notifying any actor. */
void weft__actor_undo(weft_actor *actor);
/* Drain the inboxes and mark the record empty. Returns false if the actor has relations again, of
 * threads that wait for its end. An exit without a joiner is kept; end NULL: no exit. */
bool weft__actor_leave(weft_actor *actor, struct weft__end *end);

void weft__hooks_free(weft_host *host);
/* Returns how many hooks accepted; sets *err if one refused. */
size_t weft__hooks_start(weft_actor *actor, int *err);
/* Notify the hooks that had accepted, in reverse order. */
void weft__hooks_end(weft_actor *actor, size_t agreed, int reason);

/* Carry out the upgrade that the step asked for; an event reports success or failure. Takes
 * out->new. */
void weft__actor_upgrade(weft_actor *actor, weft_out *out);
void weft__new_code_free(struct weft__new_code *code);

static inline void weft__envelope_address(struct weft__envelope *envelope, weft_pid to)
{
    envelope->generation = weft__pid_generation(to);
    envelope->to_host = (uint16_t)to.host;
}

/* Put the envelope before all others. Called in the actor's own step. */
static inline void weft__actor_put_first(weft_actor *actor, struct weft__envelope *envelope)
{
    weft__envelope_address(envelope, weft_actor_pid(actor));
    envelope->link.next = actor->urgent;
    actor->urgent = &envelope->link;
}

/* As weft_pid_format, without the terminating 0. Returns the number of bytes. Async-signal-safe. */
size_t weft__pid_write(weft_pid pid, char *buf, size_t size);

extern const struct weft__stackless_kind weft__actor_body;

#endif
