/* Fiber actors: the internal interface. The public contract is <weft/actor.h>.
 *
 * The task is a fiber; the record, its mailbox and its sleep are those of every actor
 * (actor/actor.h): the fiber arms its wait in weft_actor_receive and stores the ticket in `asleep`,
 * and a sender need not know what kind of task waits. Messages that a receive skips stay in the
 * mailbox, and count in the admission word. The additional data of a fiber actor precede its state
 * in memory.
 */
#ifndef WEFT_ACTOR_FIBER_ACTOR_H
#define WEFT_ACTOR_FIBER_ACTOR_H

#include <stdalign.h>

#include <weft/actor.h>

#include "actor/actor.h"

struct weft__mail {
    alignas(max_align_t) struct weft_fiber_cleanup at_end;
    struct weft__envelope *current; /* the envelope of `event`; NULL: none */
    struct weft_actor_event event;
    struct weft__envelope *fatal; /* the first envelope that ends the actor */
    _Atomic(const char *) last;   /* the topic of the last message */
    weft_buf *result;
    int status;
    uint32_t trace;    /* of `event`, also after it was freed */
    uint32_t received; /* since the actor last yielded */
    bool returned;
    bool has_unsearched, search_active; /* under the lock: mailbox/mailbox.c */
};

static inline struct weft__mail *weft__mail_of(const weft_actor *actor)
{
    return (struct weft__mail *)actor->state - 1;
}

/* Return the actor whose fiber this is; NULL: none. */
weft_actor *weft__actor_of_fiber(const struct weft__task *task);

/* Return the actor that runs on this worker, or NULL. */
static inline weft_actor *weft__actor_running(const struct weft__worker *w)
{
    const struct weft__task *task = atomic_load_explicit(&w->stackless, memory_order_relaxed);
    if (task) {
        return task->stackless == &weft__actor_body ? task->own : NULL;
    }
    task = weft__current(w);
    return task ? weft__actor_of_fiber(task) : NULL;
}

/* For both kinds of actors: create a task that does not run yet; start it; destroy it unstarted. */
struct weft__task *weft__actor_task_make(weft_host *host, const struct weft_actor_kind *kind,
                                         int *err);
void weft__actor_task_start(struct weft__task *task, weft_actor *actor);
void weft__actor_task_unmake(struct weft__task *task);
/* Allocate the zeroed state. Returns false if there is no memory. */
bool weft__actor_state_alloc(weft_actor *actor, const struct weft_actor_kind *kind);
void weft__actor_state_free(weft_actor *actor, const struct weft_actor_kind *kind);
/* The actor begins to trap exits. Exit signals that have arrived by now end it all the same: its
 * fiber was cancelled for them, or is about to be. */
void weft__fiber_apply_exits(weft_actor *actor);
/* An envelope that ends the actor was sent, always or unless the actor traps exits: if the actor is
 * a fiber, its fiber must be cancelled as well. */
void weft__actor_cancel_fiber(weft_pid pid, bool always);

#endif
