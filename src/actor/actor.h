/* An actor from inside. The public contract is <weft/actor.h>.
 *
 * An actor is a task without a stack (sched/body.h) and a record. The record of slot n is number n
 * of its own slabs, which are never unmapped, so a PID is a fiber's handle, and finding an actor is
 * two loads. A record may be looked at at any time: its gate says whose it is.
 *
 * Letters. Each has the generation it is for. A sender takes a place at the gate, which it gets
 * from the actor it means or not at all; pushes, and wakes. Meanwhile the actor may end and the
 * slot be used again. So whoever empties an inbox looks at every letter, and those that are not for
 * it are dead. There is no moment at which a letter to one actor can be read by another. Nor at
 * which one is forgotten:
 *         actor that ends                              sender
 *         1. shuts the gate (seq_cst)                  1. pushes the letter (seq_cst)
 *         2. under the lock: is not there any more,    2. looks at the gate (seq_cst): shut, or
 *            empties its inboxes (seq_cst)                another's;
 *                                                      3. under the lock: if nobody is there,
 *                                                         empties them
 * Both write before they read. If the actor has not seen the letter, the sender sees the gate; and
 * then either it finds nobody under the lock, and empties them itself, or the actor has yet to come
 * to 2, or there is a next one, that will look.
 *
 * States, by the names of <weft/actor.h>. The task's state word (sched/task.h) has them; `asleep`
 * tells blocked from idle.
 *   from           to        who         by
 *   nothing        ready     its maker   a spawn, when all has agreed to it
 *   ready          running   the worker  its turn
 *   running        ready     the worker  continue, upgrade, a full turn; letters that came before
 *                                        it slept
 *   running        blocked   the worker  a step that waits for completions: dozes
 *   running        idle      the worker  any other step that does not go on: the same
 *   blocked        ready     any thread  a letter that is not a message: wake
 *   idle           ready     any thread  any letter: wake
 *   blocked, idle  ready     any thread  a host's stop that has lost its patience: a cancel of its
 *                                        task
 *   running        complete  the worker  done, exit, an error, what it does not trap, a kill:
 *                                        weft__actor_end
 * A fiber actor is idle in a receive and blocked in any other wait; `asleep` is set only in the
 * first.
 *
 * Sleep.  actor                                        sender
 *         1. arms its wait, asleep = ticket            1. pushes the letter (seq_cst)
 *         2. settles: it waits (seq_cst)               2. looks at the state word (seq_cst), then
 *         3. looks into its inboxes (seq_cst)             at asleep
 *            Something: fires its own ticket           3. fires the ticket that it found there; of
 *                                                         several senders one wins
 * Both write before they read. If the actor has not seen the letter, the sender sees that it has
 * settled, and so what asleep was before that. From 2 on the actor is not its own: it may be woken,
 * and run on another worker. What it looks at in 3 is there whoever has the slot; its ticket is
 * nobody else's, so it takes back only this very wait. One exchange is all that a sleep costs. A
 * fiber cannot settle while it is on its stack; and with WEFT_MAILBOX_DROP senders move what is in
 * the inbox, and an actor can look where they do only while it is its own. These write asleep by
 * seq_cst, look, and then settle; the sender's look at asleep is seq_cst for that. A sender whose
 * letter is not the first in its inbox leaves 2 and 3 to the one whose it is: the actor looks
 * before it leaves something there, so it has yet to be woken for that one, or to see it. The
 * ticket belongs to one wait of one incarnation: a sender that was overtaken by all of this ends no
 * wait of anybody else (sched/task.h), and at worst wakes the next actor of the slot for nothing.
 */
#ifndef WEFT_ACTOR_ACTOR_H
#define WEFT_ACTOR_ACTOR_H

#include <weft/relation.h>

#include "actor/exits.h"
#include "base/link.h"
#include "base/lock.h"
#include "queue/inbox.h"
#include "sched/body.h"

struct weft__tie;
struct weft__will;

/* What came, until a step has seen it: 64 bytes. */
struct weft__letter {
    struct weft__link link; /* first */
    uint64_t tag, from_id;
    uint32_t from_node, from_host;
    union {
        const char *topic;       /* of a message */
        struct weft__will *will; /* of an end, or NULL */
    };
    weft_buf *buf;
    int error;
    uint32_t generation; /* of the actor it is for, + 1 */
    uint8_t kind;        /* enum weft_actor_event_kind, or one of those below */
    bool by_link : 1;    /* of an exit: a link has brought it */
    bool pass : 1;       /* of a completion: `from` lets it send on, actor/gate.h */
    uint16_t to_host;
    uint32_t trace; /* actor/trace.h */
};
#define WEFT__LETTER_KILL 255u
#define WEFT__LETTER_STATS 254u /* what has it to say? It is answered as a call is */

/* Else it comes before messages, needs no place in the mailbox, and wakes an actor that is
 * blocked. */
static inline bool weft__letter_is_message(const struct weft__letter *letter)
{
    return letter->kind == WEFT_EVENT_MESSAGE || letter->kind == WEFT_EVENT_CALL;
}

static inline weft_pid weft__letter_from(const struct weft__letter *letter)
{
    return (weft_pid){.node = letter->from_node, .host = letter->from_host, .id = letter->from_id};
}

/* Somebody waits for an answer to it: its tag is the reference. */
static inline bool weft__letter_is_call(const struct weft__letter *letter)
{
    return letter->kind == WEFT_EVENT_CALL || letter->kind == WEFT__LETTER_STATS;
}

_Static_assert(sizeof(struct weft__letter) == 64, "a small block");

struct weft_actor {
    /* any thread */
    struct weft__inbox user, system;
    _Atomic(uint64_t) asleep; /* 0, or {ticket:48, BLOCKED, 1}; written by the actor alone */
    _Atomic(uint64_t) gate;   /* actor/gate.c */
    _Atomic(uint32_t) limit; /* of messages at the gate; the upper bits: enum weft_mailbox_policy */
    struct weft__lock lock;
    struct weft__tie *ties; /* under the lock: who is to hear of its end, its names. actor/tie.h */
    /* its own, but for looks; with WEFT_MAILBOX_DROP the first is under the lock, as is emptying
     * `user` */
    struct weft__link *kept;   /* messages that were taken out and not yet seen */
    struct weft__link *urgent; /* the same of what is not a message */
    _Atomic(uint64_t) steps;
    uint64_t parent;
    const struct weft_actor_kind *kind;
    weft_host *host;
    void *state;
    weft_fiber self;
    uint32_t pending : 30; /* commands that are not complete */
    uint32_t blocked : 1;  /* the next step has no messages */
    uint32_t due : 1;      /* a step, whether or not anything has come */
    uint16_t parent_host;
    uint8_t there;      /* under the lock: from before its init until its inboxes were emptied;
                           WEFT__ENDING */
    _Atomic(bool) trap; /* its own, but for a look: weft__actor_break */
};

_Static_assert(sizeof(weft_actor) <= 120, "with its control block, less than 256 bytes");

#define WEFT__ENDING 2u /* its gate is shut */

#define WEFT__BATCH_MOST 64u /* events of one step */

#define WEFT__ASLEEP 1u
#define WEFT__ASLEEP_BLOCKED 2u
#define WEFT__ASLEEP_SHIFT 2u

/* The gate: {generation + 1:32, CROWDED, OWED, FRESH, passes:5, messages that were accepted and not
 * yet seen:24}; 0: nobody's. */
#define WEFT__GATE_SHIFT 32u
#define WEFT__GATE_CROWDED ((uint64_t)1 << 31) /* senders wait for room: actor/gate.c */
#define WEFT__GATE_OWED ((uint64_t)1 << 30)    /* there is something to settle at its end */
#define WEFT__GATE_FRESH ((uint64_t)1 << 29)   /* one of the passes is not used yet */
#define WEFT__GATE_PASS ((uint64_t)1 << 24)
#define WEFT__GATE_PASSES ((uint64_t)31 << 24) /* senders that may send on: actor/gate.h */
#define WEFT__GATE_COUNT (WEFT__GATE_PASS - 1)
#define WEFT__LIMIT_SHIFT 30u /* of the policy */
#define WEFT__LIMIT_MOST ((uint32_t)WEFT__GATE_COUNT)

static inline uint32_t weft__gate_generation(uint64_t gate)
{
    return (uint32_t)(gate >> WEFT__GATE_SHIFT);
}

static inline uint32_t weft__gate_count(uint64_t gate)
{
    return (uint32_t)(gate & WEFT__GATE_COUNT);
}

/* As the gate and letters have it: never 0, which stands for no actor. The last one, which no slot
 * ever has (sched/ident.h), may be in a PID that somebody has made up. */
static inline uint32_t weft__pid_generation(weft_pid pid)
{
    uint32_t generation = (uint32_t)(pid.id >> 32);
    return generation + (generation != UINT32_MAX);
}

static inline bool weft__gate_is_full(uint64_t gate, uint32_t limit)
{
    return weft__gate_count(gate) >= (limit & WEFT__LIMIT_MOST) || (gate & WEFT__GATE_CROWDED);
}

/* A place for one message to this very actor. 0; -ESRCH; -ENOBUFS: there is none. 1: there is one,
 * but the oldest must go. *policy: what it says of that. */
static inline int weft__gate_enter(weft_actor *actor, weft_pid to, enum weft_mailbox_policy *policy)
{
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    bool full;
    do {
        if (weft__gate_generation(gate) != weft__pid_generation(to)) {
            return -ESRCH;
        }
        /* If this is another's by now, the exchange fails. */
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        *policy = (enum weft_mailbox_policy)(limit >> WEFT__LIMIT_SHIFT);
        full = weft__gate_is_full(gate, limit);
        if (__builtin_expect(full, 0) && *policy != WEFT_MAILBOX_DROP) {
            return -ENOBUFS;
        }
    } while (!atomic_compare_exchange_weak_explicit(&actor->gate, &gate, gate + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return full;
}
/* Would it say -ENOBUFS, whoever asks? A look, of its own moment. */
static inline bool weft__gate_refuses(const weft_actor *actor, weft_pid to)
{
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    uint32_t limit = actor ? atomic_load_explicit(&actor->limit, memory_order_relaxed) : 0;
    return weft__gate_is_full(gate, limit) &&
           weft__gate_generation(gate) == weft__pid_generation(to) &&
           limit >> WEFT__LIMIT_SHIFT == WEFT_MAILBOX_REFUSE;
}
/* The actor has taken n messages out: who waits for room (actor/gate.h) may have it. */
void weft__gate_admit(weft_pid to);
static inline void weft__gate_leave(weft_actor *actor, size_t n)
{
    uint64_t gate = atomic_fetch_sub_explicit(&actor->gate, n, memory_order_relaxed);
    if (__builtin_expect((gate & WEFT__GATE_CROWDED) != 0, 0)) {
        weft__gate_admit(weft_actor_pid(actor));
    }
}
/* Somebody waits, and nobody is about to give him the room there is. */
static inline bool weft__gate_is_stuck(uint64_t gate)
{
    return __builtin_expect((gate & (WEFT__GATE_CROWDED | WEFT__GATE_FRESH)) == WEFT__GATE_CROWDED,
                            0);
}
/* The same in a turn of steps, which may go on: they have it when half of the mailbox is empty, and
 * when the turn ends (weft__gate_yield). */
static inline void weft__gate_leave_some(weft_actor *actor, size_t n)
{
    uint64_t gate = atomic_fetch_sub_explicit(&actor->gate, n, memory_order_relaxed);
    if (weft__gate_is_stuck(gate)) {
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        if (weft__gate_count(gate) - n <= (limit & WEFT__LIMIT_MOST) / 2) {
            weft__gate_admit(weft_actor_pid(actor));
        }
    }
}
static inline void weft__gate_yield(weft_actor *actor)
{
    if (weft__gate_is_stuck(atomic_load_explicit(&actor->gate, memory_order_relaxed))) {
        weft__gate_admit(weft_actor_pid(actor));
    }
}
/* A pass is used from now on; the step is over; nobody will ever use it. */
void weft__gate_pass_begin(weft_pid to);
void weft__gate_pass_end(weft_pid to);
void weft__gate_pass_drop(weft_pid to);
/* The place that weft__letter_enter gave is not used. */
void weft__gate_give_back(weft_pid to);
/* Of an actor that has ended, and what its gate was: who waits there is told, and what it has in
 * the ledger is settled. */
void weft__gate_settle(weft_pid self, uint64_t gate);
#ifdef WEFT_EXPLORE
void weft__gate_reset(void);
#endif
/* It has something in the ledger. False: it has ended. */
bool weft__gate_owe(weft_actor *actor, weft_pid self);

#define WEFT__COMMANDS_INLINE 4u

/* What a step has asked for. */
struct weft__asked {
    unsigned id;
    uint64_t tag;
    weft_buf *arg;
};

/* What a step says. */
struct weft_out {
    uint8_t status; /* of actor/step.c */
    unsigned count, room;
    struct weft__asked *many; /* all of them, once they are more */
    weft_buf *result;
    int error;                                     /* it exits by this, */
    struct weft__will *will;                       /* with this, or NULL */
    struct weft__new_code *new;                    /* what it is to become */
    struct weft__asked few[WEFT__COMMANDS_INLINE]; /* last: the rest is cleared for each step */
};

enum weft__out_status {
    WEFT__OUT_UNSAID,
    WEFT__OUT_CONTINUE,
    WEFT__OUT_IDLE,
    WEFT__OUT_WAIT,
    WEFT__OUT_DONE,
    WEFT__OUT_UPGRADE,
};

/* How an actor has ended. */
struct weft__end {
    int error; /* 0: normally */
    weft_buf *result;
    struct weft__will *will;
    bool joined; /* somebody has been told who waited for it */
};

/* What is said of an end, shared by all who hear of it. */
struct weft__will {
    _Atomic(uint32_t) refs;
    weft_buf *text;
};
/* Takes `text`; NULL: no memory, and it is freed. */
struct weft__will *weft__will_new(weft_buf *text);
/* NULL is fine. */
struct weft__will *weft__will_ref(struct weft__will *will);
void weft__will_unref(struct weft__will *will);

/* Hands out what was asked for. How many there were; -ENOMEM: it could not be told of an error. */
int weft__out_dispatch(weft_out *out, weft_actor *actor);
/* ... or nobody will. */
void weft__out_drop(weft_out *out);

/* Who handles what. Written before the host's first actor, read without a lock after that. */
struct weft__handler {
    unsigned id;
    weft_command_fn fn;
    void *arg;
};
#define WEFT__COMMANDS_DENSE 256u
struct weft__handlers {
    struct weft__handler dense[WEFT__COMMANDS_DENSE];
    struct weft__handler *sparse; /* by id */
    size_t sparse_count;
};
void weft__handlers_free(struct weft__handlers *handlers);

/* Strings and what they stand for, chained. Empty if all zero. */
struct weft__entry {
    struct weft__entry *next;
    uint32_t hash;
    const char *key;
};
struct weft__table {
    struct weft__lock lock; /* of everything below, and of the entries */
    struct weft__entry **buckets;
    size_t room, count; /* room: 0, or a power of two */
};

/* Under the table's lock. */
uint32_t weft__table_hash(const char *key);
struct weft__entry *weft__table_find(const struct weft__table *table, const char *key);
void weft__table_add(struct weft__table *table, struct weft__entry *entry);
void weft__table_remove(struct weft__table *table, struct weft__entry *entry);
/* Room for one more. False: no memory, and there is none at all. */
bool weft__table_grow(struct weft__table *table);
void weft__table_free(struct weft__table *table);

struct weft_host {
    struct weft__lock lock; /* of the handlers and hooks, until they are frozen */
    _Atomic(bool) frozen;
    struct weft__handlers handlers;
    struct weft_host_hook *hooks;
    size_t hook_count;
    _Atomic(weft_dead_letter_fn) on_dead;
    void *on_dead_arg;
    _Atomic(uint32_t) on_dead_calls; /* that may be under way */
    struct weft__table names, groups;
    struct weft__exits exits;
    weft_buf *stop_reason; /* written before `stopping` */
    weft_pool *pool;
    uint32_t number;
    unsigned mailbox, batch, turn_events;
    int64_t turn_ns;
    uint64_t max_actors;
    _Atomic(uint64_t) live; /* never more than that */
    _Atomic(bool) stopping;
    _Atomic(uint64_t) spawned, ended, dead, forced;
    weft_host *next; /* under the lock of actor/host.c */
};

/* The record of a slot, made at first use; NULL: no memory. */
weft_actor *weft__actor_at(uint32_t slot);
/* The same if it is there. */
#ifdef WEFT_EXPLORE /* has one record */
weft_actor *weft__actor_find(uint32_t slot);
#else
#define WEFT__SLAB_RECORDS 16384u
#define WEFT__RECORD_SLABS 16384u
extern _Atomic(weft_actor *) weft__records[WEFT__RECORD_SLABS]; /* actor/record.c */

static inline weft_actor *weft__actor_find(uint32_t slot)
{
    uint32_t index = slot - 1, slab = index / WEFT__SLAB_RECORDS; /* no slot 0 has a slab so high */
    weft_actor *first = slab < WEFT__RECORD_SLABS
                            ? atomic_load_explicit(&weft__records[slab], memory_order_acquire)
                            : NULL;
    return first ? first + index % WEFT__SLAB_RECORDS : NULL;
}
#endif
/* Of an actor that has not ended; NULL: it has. */
weft_actor *weft__actor_of(weft_pid pid);

/* --- letters on their way (actor/letter.c, actor/dead.c) -------------------------------------- */

/* Takes the letter for this actor, and wakes it. A message has passed the gate. */
void weft__actor_deliver(weft_actor *actor, weft_pid to, struct weft__letter *letter);
/* The same in two steps: the first may be done under the lock of an actor, the second not. True: it
 * is the first in its inbox, and the caller has to wake the actor. */
bool weft__actor_push(weft_actor *actor, weft_pid to, struct weft__letter *letter);
void weft__actor_wake(weft_actor *actor, weft_pid to, bool system);
/* Who sends: the actor that runs here, or nobody; and in which chain. */
void weft__letter_sign(struct weft__letter *letter);
/* The chain alone. */
void weft__letter_chain(struct weft__letter *letter);
/* Nobody will read it, in this slot: counted, told, freed. */
void weft__letter_bury(struct weft__letter *letter, uint32_t slot);
void weft__letters_bury(struct weft__link *letters, uint32_t slot);
/* The same of one that is no letter any more: counted and told. */
void weft__dead_letter_tell(weft_host *host, const struct weft_dead_letter *letter);
/* Nobody is told any more. */
void weft__dead_letters_close(weft_host *host);
struct weft__letter *weft__letter_new(enum weft_actor_event_kind kind, uint64_t tag, weft_buf *buf);
/* A place in the mailbox, or an error; then the letter, which cannot fail. The deadline is for
 * room; WEFT__AT_ONCE: as weft_actor_send. Of this node; `actor`: as weft__actor_find has it. */
#define WEFT__AT_ONCE INT64_MIN
int weft__letter_enter(weft_actor *actor, weft_pid to, int64_t deadline);
void weft__letter_put(weft_actor *actor, weft_pid to, struct weft__letter *letter, int place);
/* Both. It is taken unless there is an error. */
int weft__letter_send(weft_pid to, struct weft__letter *letter, int64_t deadline);
/* Sends a message that is signed, to an actor of any node; what is not a message. Taken, also on an
 * error: as weft_actor_send. */
int weft__letter_post(weft_pid to, struct weft__letter *letter, int64_t deadline);
int weft__letter_post_system(weft_pid to, struct weft__letter *letter);
/* As weft_complete, by a letter that was made before there was anything to tell. Takes both, and
 * needs no memory. */
int weft__letter_complete(weft_pid actor, struct weft__letter *letter, int error, weft_buf *buf);
/* It was seen, or nobody will see it. */
void weft__letter_free(struct weft__letter *letter);
/* The same on a worker's thread; `small`: the worker's. */
static inline void weft__letter_free_local(struct weft__small *small, struct weft__letter *letter)
{
    if (letter->buf) {
        weft_buf_free(letter->buf);
    }
    if (letter->kind != WEFT_EVENT_MESSAGE) {
        if (letter->kind == WEFT_EVENT_EXIT || letter->kind == WEFT_EVENT_DOWN) {
            weft__will_unref(letter->will);
        } else if (__builtin_expect(letter->pass, 0)) { /* nobody will use it */
            weft__gate_pass_drop(weft__letter_from(letter));
        }
    }
    weft__small_put(small, weft__small_class(sizeof *letter), letter);
}

/* --- starting and ending ---------------------------------------------------------------------- */

/* Can there be such actors? */
bool weft__kind_is_sound(const struct weft_actor_kind *kind);
/* What its `limit` is. */
uint32_t weft__kind_limit(const struct weft_actor_kind *kind, const weft_host *host);

/* Tells it of the host's stop. */
void weft__host_cancel(weft_host *host, weft_pid pid);
/* One of this number that is, or was; NULL: there never was one. */
weft_host *weft__host_at(uint32_t number);

/* One ends by a cancel of its task. If that was not for want of memory to say it otherwise, its
 * host has lost its patience. */
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
/* It does not end by itself: its kind's `abort`. */
static inline void weft__actor_abort(weft_actor *actor)
{
    if (actor->kind->abort) {
        actor->kind->abort(actor);
    }
}
/* Everything of its end but that of its task, on the thread that runs it; takes what `end` has. */
void weft__actor_end(weft_actor *actor, struct weft__end *end);
/* The same of one that never was: ties and letters go, nobody is told. */
void weft__actor_undo(weft_actor *actor);
/* Everything in its inboxes, and it is not there any more. False: it has ties again, of those who
 * wait for its end. An end that nobody waited for is kept; NULL: there is none. */
bool weft__actor_leave(weft_actor *actor, struct weft__end *end);

void weft__hooks_free(weft_host *host);
/* How many agree; if not all of them do, *err. */
size_t weft__hooks_start(weft_actor *actor, int *err);
/* Tells those that have agreed, the last first. */
void weft__hooks_end(weft_actor *actor, size_t agreed, int reason);

/* What a step has asked for: done, or refused; an event says which. Takes out->new. */
void weft__actor_upgrade(weft_actor *actor, weft_out *out);
void weft__new_code_free(struct weft__new_code *code);

static inline void weft__letter_address(struct weft__letter *letter, weft_pid to)
{
    letter->generation = weft__pid_generation(to);
    letter->to_host = (uint16_t)to.host;
}

/* Puts it before all that waits. Its own step's. */
static inline void weft__actor_put_first(weft_actor *actor, struct weft__letter *letter)
{
    weft__letter_address(letter, weft_actor_pid(actor));
    letter->link.next = actor->urgent;
    actor->urgent = &letter->link;
}

/* As weft_pid_text, without the end: how many bytes. Async-signal-safe. */
size_t weft__pid_write(weft_pid pid, char *buf, size_t size);

extern const struct weft__body_kind weft__actor_body;

#endif
