/* A supervisor from inside: an actor that traps, whose decisions are a policy's (actor/policy.h).
 *
 * It is linked to its children, so that they end with it, however it ends; and of a child's end it
 * hears by the link's event. A child that tells its supervisor to end is another event, also if it
 * has ended itself before that is read.
 *
 * Its children are in a table of its own, changed by its own steps under its lock, under which
 * others look. All supervisors are in one list, under a lock of its own; one is taken out before it
 * is freed, so who has that lock may look at any of them. It is taken out under its own lock as
 * well, so who has that one, and finds it in the list, may also look.
 */
#ifndef WEFT_ACTOR_SUPERVISOR_H
#define WEFT_ACTOR_SUPERVISOR_H

#include <weft/supervisor.h>
#include <weft/timer.h>

#include "actor/actor.h"
#include "actor/policy.h"
#include "sched/face.h"

struct weft__remover;

struct weft__child {
    const struct weft_child_spec *spec;
    uint64_t number; /* no other child has it, before or after */
    weft_pid pid;    /* none: it is not there */
    weft_buf *input; /* its own, or NULL: its spec's */
    uint64_t starts;
    int error;                      /* it last ended by */
    uint32_t next;                  /* of the same place in the index; UINT32_MAX: none */
    struct weft__remover *removers; /* who wait for its end */
};

struct weft__supervisor {
    const struct weft_supervisor_opts *opts;
    weft_host *host;
    weft_actor *self;
    weft_pid pid;
    struct weft__lock lock;
    struct weft__policy policy;
    struct weft__child *children; /* as many as the policy's, in the same order */
    uint32_t room;
    uint64_t numbered;  /* children so far */
    uint32_t *index;    /* by PID: the first of each place; as many as `room` */
    uint32_t *required; /* what the policy's children point to */
    weft_timer timer;
    struct weft__supervisor *next, **back; /* in the list of all, under that one's lock */
    bool listed;                           /* is it? Changed under both locks */
};

/* --- children (actor/child.c) ----------------------------------------------------------- */

/* Those of the options, in the order in which they are started; or none of a dynamic one. */
int weft__children_init(struct weft__supervisor *s);
void weft__children_free(struct weft__supervisor *s);
/* One more, which takes `input`, also on an error; its number. -ENOMEM. Under the lock, as all
 * below that change something. */
int64_t weft__child_add(struct weft__supervisor *s, const struct weft_child_spec *spec,
                        weft_buf *input, const uint32_t *required);
/* Of a dynamic supervisor: it is down, and the last takes its number. */
void weft__child_drop(struct weft__supervisor *s, uint32_t child);
/* UINT32_MAX: there is none. */
uint32_t weft__child_find(const struct weft__supervisor *s, weft_pid pid);
/* It is there, or not any more. */
void weft__child_enter(struct weft__supervisor *s, uint32_t child, weft_pid pid);
void weft__child_leave(struct weft__supervisor *s, uint32_t child);
/* Tries to start it: 0 or an error. */
int weft__child_start(struct weft__supervisor *s, uint32_t child);

/* --- requests from outside (actor/adoption.c) --------------------------------------------- */

/* A call. */
void weft__supervisor_serve(struct weft__supervisor *s, const struct weft_actor_event *event);
/* Who waits for the end of this child is told. */
void weft__removers_tell(struct weft__remover *removers, int error);

/* --- the list of all (actor/tree.c) --------------------------------------------------------- */

void weft__tree_add(struct weft__supervisor *s);
void weft__tree_remove(struct weft__supervisor *s);

/* A child, as a visitor sees it. */
struct weft__sitter {
    weft_pid pid; /* none: it is not there, and last ended by `error` */
    uint64_t number;
    struct weft__seat seat;
    int error;
};

/* Who looks at a host's supervisors: told of each, and then of its children, the last first. No
 * lock is held meanwhile: a supervisor is looked at a few children at a time and goes on in
 * between. All that are there from the beginning to the end are told of; one whose place has
 * changed, maybe twice. */
struct weft__tree_visitor {
    void (*team)(weft_pid supervisor, const struct weft__team *team, void *arg);
    void (*seat)(const struct weft__sitter *sitter, void *arg);
    void *arg;
};
void weft__tree_visit(const weft_host *host, const struct weft__tree_visitor *visitor);
/* What this actor is among supervisors and their children, if that can be had at once. Under the
 * actor's lock; async-signal-safe. */
void weft__tree_glance(const weft_actor *actor, struct weft__team *team, struct weft__seat *seat);

extern const struct weft_actor_kind weft__supervisor_kind;

/* What its init is given. NULL: no memory. */
static inline weft_buf *weft__supervisor_input(const struct weft_supervisor_opts *opts)
{
    return weft_buf_copy(&opts, sizeof(const struct weft_supervisor_opts *));
}

#endif
