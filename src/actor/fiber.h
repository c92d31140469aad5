/* Fiber actors from inside. The public contract is <weft/receive.h>.
 *
 * The task is a fiber; the record, its mailbox and its sleep are those of every actor
 * (actor/actor.h): the fiber arms its wait in weft_receive and writes the ticket to `asleep`, and
 * who sends need not know what kind of task waits. What it does not want stays in the mailbox, and
 * counts at the gate. What it has besides stands in memory before its state.
 */
#ifndef WEFT_ACTOR_FIBER_H
#define WEFT_ACTOR_FIBER_H

#include <stdalign.h>

#include <weft/receive.h>

#include "actor/actor.h"

struct weft__mail {
    alignas(max_align_t) struct weft_cleanup at_end;
    struct weft__letter *open; /* which `event` is of; NULL: none */
    struct weft_actor_event event;
    struct weft__letter *fatal; /* it is to end by this one: the first */
    _Atomic(const char *) last; /* topic of a message */
    weft_buf *result;
    int status;
    uint32_t trace;    /* of `event`, also after it was forgotten */
    uint32_t received; /* since it last let others have a turn */
    bool returned;
    bool fresh, in_hand; /* under the lock: actor/mailbox.c */
};

static inline struct weft__mail *weft__mail_of(const weft_actor *actor)
{
    return (struct weft__mail *)actor->state - 1;
}

/* The actor whose fiber this is; NULL: it is no actor's. */
weft_actor *weft__actor_of_fiber(const struct weft__task *task);

/* The actor that runs on this worker, or NULL. */
static inline weft_actor *weft__actor_running(const struct weft__worker *w)
{
    const struct weft__task *task = atomic_load_explicit(&w->body, memory_order_relaxed);
    if (task) {
        return task->body == &weft__actor_body ? task->own : NULL;
    }
    task = weft__current(w);
    return task ? weft__actor_of_fiber(task) : NULL;
}

/* Both kinds: a task that does not run yet; starting it; taking it back. */
struct weft__task *weft__actor_task_make(weft_host *host, const struct weft_actor_kind *kind,
                                         int *err);
void weft__actor_task_start(struct weft__task *task, weft_actor *actor);
void weft__actor_task_unmake(struct weft__task *task);
/* Zeroed; false: no memory. */
bool weft__actor_state_make(weft_actor *actor, const struct weft_actor_kind *kind);
void weft__actor_state_free(weft_actor *actor, const struct weft_actor_kind *kind);
/* It begins to trap. What has come until now ends it all the same: its fiber is cancelled for it,
 * or about to be. */
void weft__fiber_settle(weft_actor *actor);
/* It has been sent what ends it, always or unless it traps: if it is a fiber, that takes more than
 * a letter. */
void weft__actor_break(weft_pid pid, bool always);

#endif
