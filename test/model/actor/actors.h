/* The environment of a client's actors: no fibers among them, no states, hooks, traces or pending
 * table, and no other node. Dead letters are counted. A client includes this header once, and
 * defines with weft__actor_find which actors exist. WITH_PENDING, WITH_EXITS: the real pending
 * table or exit records are linked. */
#ifndef WEFT_TEST_MODEL_ACTOR_ACTORS_H
#define WEFT_TEST_MODEL_ACTOR_ACTORS_H

#include <errno.h>

#include "actor/fiber_actor.h"
#include "actor/trace.h"
#include "mailbox/mailbox.h"
#include "mailbox/pending.h"
#include "mailbox/pending_send.h"
#include "model/fibers.h"
#include "relation/relation.h"
#include "remote/route.h"

enum { BURIED = 1, FIRST_COUNTER }; /* the client's own fields follow */

_Atomic(uint32_t) weft__this_node;
_Atomic(bool) weft__actor_tracing;

weft_actor *weft__actor_of(weft_pid who)
{
    weft_actor *actor = weft__actor_find((uint32_t)who.id);
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    return weft__admission_generation(admission) == weft__pid_generation(who) ? actor : NULL;
}

void weft__envelope_discard(struct weft__envelope *envelope, uint32_t slot)
{
    (void)slot;
    x_count(BURIED);
    weft__envelope_free(envelope);
}

void weft__envelopes_discard(struct weft__link *envelopes, uint32_t slot)
{
    while (envelopes) {
        struct weft__link *next = envelopes->next;
        weft__envelope_discard((struct weft__envelope *)(void *)envelopes, slot);
        envelopes = next;
    }
}

void weft__actor_state_free(weft_actor *actor, const struct weft_actor_kind *kind)
{
    (void)actor, (void)kind;
}
weft_actor *weft__actor_of_fiber(const struct weft__task *task)
{
    (void)task;
    return NULL;
}
void weft__actor_cancel_fiber(weft_pid who, bool always)
{
    (void)who, (void)always;
}
int weft__route_envelope(weft_pid to, struct weft__envelope *envelope)
{
    (void)to, (void)envelope;
    x_fail("a letter went to another node");
    return 0;
}
uint32_t weft__actor_trace_new_id(void)
{
    return 0;
}
void weft__actor_trace_emit(enum weft_actor_trace_kind kind, weft_pid to,
                            const struct weft__envelope *envelope)
{
    (void)kind, (void)to, (void)envelope;
}
#ifndef WITH_EXITS
void weft__exit_records_add(struct weft__exit_records *exits, weft_pid who, int error,
                            weft_buf *result)
{
    (void)exits, (void)who, (void)error;
    X_ASSERT(!result);
}
int weft__exit_records_take(struct weft__exit_records *exits, weft_pid who, weft_buf **result)
{
    (void)exits, (void)who;
    *result = NULL;
    return -ESRCH;
}
weft_host *weft__host_at(uint32_t number)
{
    (void)number;
    return NULL;
}
#endif
void weft__hooks_end(weft_actor *actor, size_t agreed, int reason)
{
    (void)actor, (void)agreed, (void)reason;
}
#ifndef WITH_PENDING
void weft__pending_end_actor(weft_pid self)
{
    (void)self;
    x_fail("an actor of nothing to come has something to come");
}
#endif
void weft_buf_free(weft_buf *buf)
{
    X_ASSERT(!buf);
}
weft_buf *weft_buf_copy(const void *bytes, size_t len)
{
    (void)bytes, (void)len;
    return NULL;
}

#endif
