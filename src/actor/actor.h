/* An actor from inside. The public contract is <weft/actor.h>.
 *
 * An actor is a task without a stack (sched/body.h) and a record. The record of slot n is number n of its own slabs, which are
 * never unmapped, so a PID is a fiber's handle, and finding an actor is two loads. A record may be looked at at any time: its
 * gate says whose it is.
 *
 * Letters. Each has the generation it is for. A sender takes a place at the gate, which it gets from the actor it means or not
 * at all; pushes, and wakes. Meanwhile the actor may end and the slot be used again. So whoever empties an inbox looks at
 * every letter, and those that are not for it are dead. There is no moment at which a letter to one actor can be read
 * by another.
 *
 * Sleep.  actor                                        sender
 *         1. arms its wait, asleep = ticket (seq_cst)  1. pushes the letter (seq_cst)
 *         2. looks into its inboxes (seq_cst)          2. looks at asleep (seq_cst)
 *         3. nothing: waits. Something: takes          3. takes asleep by an exchange; who has got it fires
 *            asleep back, disarms                         the ticket
 * Both write before they read, so one sees the other. The ticket belongs to one wait of one incarnation: a sender that was
 * overtaken by all of this ends no wait of anybody else (sched/task.h), and at worst wakes the next actor of the slot
 * for nothing.
 */
#ifndef WEFT_ACTOR_ACTOR_H
#define WEFT_ACTOR_ACTOR_H

#include <weft/actor.h>

#include "base/link.h"
#include "base/lock.h"
#include "queue/inbox.h"
#include "sched/body.h"

/* What came, until a step has seen it: 64 bytes. */
struct weft__letter {
    struct weft__link link; /* first */
    uint64_t tag, from_id;
    uint32_t from_node, from_host;
    const char *topic;
    weft_buf *buf;
    int error;
    uint32_t generation; /* of the actor it is for, + 1 */
    uint8_t kind;        /* enum weft_actor_event_kind, or WEFT__LETTER_KILL */
};
#define WEFT__LETTER_KILL 255u

_Static_assert(sizeof(struct weft__letter) == 64, "a small block");

struct weft_actor {
    /* any thread */
    struct weft__inbox user, system;
    _Atomic(uint64_t) asleep; /* 0, or {ticket:48, BLOCKED, 1} */
    _Atomic(uint64_t)
        gate; /* {generation + 1:32, messages that were accepted and not yet seen:32}; 0: nobody's */
    _Atomic(uint32_t) limit; /* of these */
    struct weft__lock lock;
    struct weft__node *watchers; /* under the lock: who waits for its end */
    /* its own, but for looks */
    struct weft__link *kept, **kept_last; /* messages that were taken out and not yet seen */
    struct weft__link *urgent;            /* the same of what is not a message */
    _Atomic(uint64_t) steps;
    uint64_t parent;
    const struct weft_actor_kind *kind;
    weft_host *host;
    void *state;
    weft_fiber self;
    uint32_t pending; /* commands that are not complete */
};

#define WEFT__ASLEEP 1u
#define WEFT__ASLEEP_BLOCKED 2u
#define WEFT__ASLEEP_SHIFT 2u

#define WEFT__GATE_SHIFT 32u

static inline uint32_t weft__gate_generation(uint64_t gate)
{
    return (uint32_t)(gate >> WEFT__GATE_SHIFT);
}

/* As the gate and letters have it: never 0. */
static inline uint32_t weft__pid_generation(weft_pid pid)
{
    return (uint32_t)(pid.id >> 32) + 1;
}

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
    struct weft__asked few[WEFT__COMMANDS_INLINE];
    struct weft__asked *many; /* all of them, once they are more */
    weft_buf *result;
};

/* Hands out what was asked for. How many there were. */
unsigned weft__out_dispatch(weft_out *out, weft_actor *actor);
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

struct weft_host {
    struct weft__lock lock; /* of the handlers, until they are frozen */
    _Atomic(bool) frozen;
    struct weft__handlers handlers;
    weft_pool *pool;
    uint32_t number;
    unsigned mailbox, batch;
    _Atomic(uint64_t) spawned, ended, dead, forced;
    weft_host *next; /* under the lock of actor/host.c */
};

/* The record of a slot, made at first use; NULL: no memory. */
weft_actor *weft__actor_at(uint32_t slot);
/* The same if it is there. */
weft_actor *weft__actor_find(uint32_t slot);
/* Of an actor that has not ended; NULL: it has. */
weft_actor *weft__actor_of(weft_pid pid);

/* Takes the letter for this actor, and wakes it. A message has passed the gate. */
void weft__actor_deliver(weft_actor *actor, weft_pid to, struct weft__letter *letter);
struct weft__letter *weft__letter_new(enum weft_actor_event_kind kind, uint64_t tag, weft_buf *buf);
/* It was seen, or nobody will see it. */
void weft__letter_free(struct weft__letter *letter);

extern const struct weft__body_kind weft__actor_body;

#endif
