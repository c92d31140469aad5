/* The exit of an actor, and waiting for it (join). */
#include <errno.h>

#include "actor/fiber_actor.h"
#include "relation/relation.h"
#include "remote/route.h"

/* From now on no message is accepted and no relation is added: a sender checks the admission word,
 * a thread that adds a relation checks it under the lock. */
static void close_admission(weft_actor *actor)
{
    weft__lock(&actor->lock);
    uint64_t admission = atomic_exchange_explicit(
        &actor->admission, 0, memory_order_seq_cst); /* pairs: weft__actor_wake */
    actor->live_state = WEFT__ENDING;
    weft__unlock(&actor->lock);
    weft__admission_settle(weft_actor_pid(actor), admission);
}

/* The inbox is read with seq_cst: see the banner of actor/actor.h. */
static struct weft__link *empty(struct weft__inbox *inbox)
{
    return weft__inbox_is_empty(inbox) ? NULL : weft__inbox_drain_local(inbox);
}

/* Record the exit for a later join, before the actor is gone. */
static void record_exit(weft_actor *actor, struct weft__end *end)
{
    if (!end->joined && (end->error || end->result)) {
        weft__exit_records_add(&actor->host->exits, weft_actor_pid(actor), end->error, end->result);
        end->result = NULL;
    }
}

bool weft__actor_leave(weft_actor *actor, struct weft__end *end)
{
    uint32_t slot = (uint32_t)actor->self;
    weft__lock(&actor->lock);
    if (actor->relations) {
        weft__unlock(&actor->lock);
        return false;
    }
    if (end) {
        record_exit(actor, end);
    }
    actor->live_state = false;
    struct weft__link *user = empty(&actor->user), *system = empty(&actor->system);
    weft__unlock(&actor->lock);
    weft__envelopes_discard(actor->urgent, slot);
    weft__envelopes_discard(actor->kept, slot);
    weft__envelopes_discard(system, slot);
    weft__envelopes_discard(user, slot);
    actor->urgent = actor->kept = NULL;
    return true;
}

void weft__actor_end(weft_actor *actor, struct weft__end *end)
{
    weft_host *host = actor->host;
    weft__actor_close(actor);
    weft__hooks_end(actor, host->hook_count, end->error);
    close_admission(actor);
    weft__actor_state_free(actor, actor->kind); /* no thread reads it any more */
    atomic_fetch_sub_explicit(&host->live, 1,
                              memory_order_relaxed); /* a notified actor may spawn */
    do {
        weft__relations_remove_all(actor, end);
    } while (!weft__actor_leave(actor, end));
    weft_buf_free(end->result);
    weft__exit_reason_unref(end->exit_reason);
    atomic_fetch_add_explicit(&host->ended, 1, memory_order_relaxed);
}

void weft__actor_undo(weft_actor *actor)
{
    weft__relations_remove_all(actor, NULL);
    weft__actor_leave(actor, NULL);
    weft__actor_state_free(actor, actor->kind);
}

/* --- join ------------------------------------------------------------------------------------- */

static const struct weft__wait_kind end_kind = {.name = "exit of an actor"};

int weft__join_wait(weft_actor *actor, struct weft__join *join, struct weft__waiter *waiter,
                    weft_buf **result, int64_t deadline)
{
    enum weft__reason reason = weft__waiter_park(waiter, deadline, &end_kind, 0);
    if (weft__reason_is_done(reason)) {
        if (result) {
            *result = join->node.value;
        } else {
            weft_buf_free(join->node.value);
        }
        return join->node.status;
    }
    weft__lock(&actor->lock);
    if (join->relation.back) {
        weft__relation_remove(&join->relation);
    }
    weft__unlock(&actor->lock);
    return weft__reason_errno(reason);
}

/* Its admission is closed and the rest of its exit is in progress: a join waits for that, too. */
static bool is_ending(const weft_actor *actor, weft_pid pid)
{
    return actor->live_state == WEFT__ENDING && actor->self == pid.id;
}

/* Join an actor that has exited. */
static int join_ended(weft_pid pid, weft_buf **result)
{
    weft_host *host = weft__host_at(pid.host);
    weft_buf *taken = NULL;
    int err = host ? weft__exit_records_take(&host->exits, pid, &taken) : -ESRCH;
    if (result && err == 0) {
        *result = taken;
    } else {
        weft_buf_free(taken);
    }
    return err;
}

int weft_actor_join(weft_pid pid, weft_buf **result, int64_t deadline)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    struct weft__waiter waiter;
    struct weft__join join;
    if (pid.node != weft__node()) {
        return -EREMOTE;
    }
    if (!actor) {
        return -ESRCH;
    }
    weft__lock(&actor->lock);
    if (weft__actor_of(pid) != actor && !is_ending(actor, pid)) {
        weft__unlock(&actor->lock);
        return join_ended(pid, result);
    }
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&join.node, &waiter, 0);
    weft__join_add(actor, &join);
    weft__unlock(&actor->lock);
    return weft__join_wait(actor, &join, &waiter, result, deadline);
}
