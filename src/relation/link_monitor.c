/* Links, monitors and exit signals. How relations are stored is described in
 * relation/relation.h. */
#include <errno.h>

#include "actor/fiber_actor.h"
#include "relation/relation.h"
#include "remote/route.h"

/* --- events already delivered ----------------------------------------------------------------- */

/* Withdraw the matching envelopes from those that wait for the actor, which calls this itself.
 * Returns the number of withdrawn envelopes. */
static unsigned withdraw_events(weft_actor *self,
                                bool (*is)(const struct weft__envelope *, uint64_t), uint64_t what)
{
    struct weft__link **at = &self->urgent;
    unsigned count = 0;
    while (*at) {
        at = &(*at)->next;
    }
    *at = weft__inbox_drain_local(&self->system);
    at = &self->urgent;
    while (*at) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)*at;
        if (is(envelope, what)) {
            *at = envelope->link.next;
            weft__envelope_free(envelope);
            count++;
        } else {
            at = &(*at)->next;
        }
    }
    return count;
}

static bool is_exit_of(const struct weft__envelope *envelope, uint64_t who)
{
    return envelope->kind == WEFT_EVENT_EXIT && envelope->by_link && envelope->from_id == who;
}

static bool is_down(const struct weft__envelope *envelope, uint64_t ref)
{
    return envelope->kind == WEFT_EVENT_DOWN && envelope->tag == ref;
}

/* --- lookup ----------------------------------------------------------------------------------- */

/* Is this the link between `own`, in whose slot's list it was found, and `other`? (The slot may
 * belong to a newer actor by now.) Or, with a reference, `monitor_owner`'s monitor? */
static bool is_wanted(struct weft__relation *relation, weft_pid own, weft_pid other,
                      weft_pid monitor_owner, uint64_t ref)
{
    const struct weft__pair_relation *pair = weft__relation_pair(relation);
    if (ref) {
        return (relation->kind == WEFT__RELATION_MONITORING ||
                relation->kind == WEFT__RELATION_MONITORED) &&
               pair->ref == ref && pair->pids[1].id == monitor_owner.id;
    }
    return relation->kind == WEFT__RELATION_LINK &&
           weft_pid_equal(pair->pids[relation->side], own) &&
           weft_pid_equal(weft__relation_other_pid(relation), other);
}

/* Find a's monitor on b with this reference, or the link between the two (ref 0). It is in both
 * lists or in neither, so both lists are searched in step, and the shorter one ends the search.
 * Under both locks. */
static struct weft__pair_relation *find(weft_pid a, weft_pid b, uint64_t ref)
{
    struct weft__relation *of_a = weft__actor_find((uint32_t)a.id)->relations;
    struct weft__relation *of_b = weft__actor_find((uint32_t)b.id)->relations;
    for (; of_a && of_b; of_a = of_a->next, of_b = of_b->next) {
        if (is_wanted(of_a, a, b, a, ref)) {
            return weft__relation_pair(of_a);
        }
        if (is_wanted(of_b, b, a, a, ref)) {
            return weft__relation_pair(of_b);
        }
    }
    return NULL;
}

/* Find it and remove it from both lists. */
static struct weft__pair_relation *take_relation(weft_pid a, weft_pid b, uint64_t ref)
{
    weft__actor_pair_lock(a, b);
    struct weft__pair_relation *pair = find(a, b, ref);
    if (pair) {
        weft__pair_relation_remove(pair);
    }
    weft__actor_pair_unlock(a, b);
    return pair;
}

/* --- links ------------------------------------------------------------------------------------ */

/* Returns true if the link was inserted; otherwise *err is 0 (there was a link) or -ESRCH. */
static bool try_link(struct weft__pair_relation *pair, weft_pid me, weft_pid other, int *err)
{
    weft__actor_pair_lock(me, other);
    bool there = weft__actor_of(other) != NULL;
    bool added = there && !find(me, other, 0);
    if (added) {
        weft__pair_relation_add(pair);
    }
    weft__actor_pair_unlock(me, other);
    *err = there ? 0 : -ESRCH;
    return added;
}

int weft_actor_link(weft_actor *self, weft_pid other)
{
    weft_pid me = weft_actor_pid(self);
    int err;
    if (other.node != me.node) {
        return -EREMOTE;
    }
    if ((uint32_t)other.id == (uint32_t)me.id) {
        return weft_pid_equal(me, other) ? -EINVAL : -ESRCH; /* a previous actor of this slot */
    }
    if (!weft__actor_of(other)) {
        return -ESRCH;
    }
    struct weft__pair_relation *pair = weft__pair_relation_new(me, other, 0);
    if (!pair) {
        return -ENOMEM;
    }
    if (!try_link(pair, me, other, &err)) {
        weft__pair_relation_free(pair);
    }
    return err;
}

int weft_actor_unlink(weft_actor *self, weft_pid other)
{
    weft_pid me = weft_actor_pid(self);
    if (other.node != me.node || (uint32_t)other.id == (uint32_t)me.id ||
        !weft__actor_find((uint32_t)other.id)) {
        return 0;
    }
    struct weft__pair_relation *pair = take_relation(me, other, 0);
    if (pair) {
        weft__pair_relation_free(pair);
    } else if (!self->kind->run || atomic_load_explicit(&self->trap, memory_order_relaxed)) {
        withdraw_events(self, is_exit_of, other.id);
    } /* else its fiber has been cancelled by the exit, and the envelope holds the cause */
    return 0;
}

void weft_actor_trap(weft_actor *self, bool trap)
{
    bool before = atomic_exchange_explicit(
        &self->trap, trap, memory_order_seq_cst); /* pairs: weft__actor_cancel_fiber */
    if (trap && !before && self->kind->run) {
        weft__fiber_apply_exits(self);
    }
}

/* --- monitors --------------------------------------------------------------------------------- */

/* Deliver the event of a monitored actor that ended before the monitor was added. */
static void notify_already_ended(weft_actor *self, struct weft__pair_relation *pair)
{
    struct weft__envelope *envelope = pair->envelopes[1];
    pair->envelopes[1] = NULL;
    envelope->error = -ESRCH;
    weft__actor_deliver(self, weft_actor_pid(self), envelope);
    weft__pair_relation_free(pair);
}

/* Insert the monitor, or deliver its event immediately if the other actor has ended. Takes the pair
 * relation. */
static void add_monitor(weft_actor *self, weft_pid other, struct weft__pair_relation *pair)
{
    weft_pid me = weft_actor_pid(self);
    bool there = false;
    if ((uint32_t)other.id != (uint32_t)me.id && weft__actor_of(other)) {
        weft__actor_pair_lock(me, other);
        there = weft__actor_of(other) != NULL;
        if (there) {
            weft__pair_relation_add(pair);
        }
        weft__actor_pair_unlock(me, other);
    }
    if (!there) {
        notify_already_ended(self, pair);
    }
}

/* Create a monitor on the other actor: 0, -EINVAL, -EREMOTE or -ENOMEM. */
static int new_monitor(const weft_actor *self, weft_pid other, struct weft__pair_relation **pair)
{
    weft_pid me = weft_actor_pid(self);
    if (weft_pid_equal(me, other)) {
        return -EINVAL;
    }
    if (other.node != me.node) {
        return -EREMOTE;
    }
    *pair = weft__pair_relation_new(other, me, weft__monitor_ref(other));
    return *pair ? 0 : -ENOMEM;
}

int weft_actor_monitor(weft_actor *self, uint64_t *ref, weft_pid other)
{
    struct weft__pair_relation *pair;
    int err = new_monitor(self, other, &pair);
    if (err) {
        return err;
    }
    *ref = pair->ref;
    add_monitor(self, other, pair);
    return 0;
}

int weft__monitor_command(weft_actor *self, weft_pid other, uint64_t tag)
{
    struct weft__pair_relation *pair;
    int err = new_monitor(self, other, &pair);
    if (err) {
        return err;
    }
    pair->envelopes[1]->kind = WEFT_EVENT_COMPLETE;
    pair->envelopes[1]->tag = tag;
    add_monitor(self, other, pair);
    return 0;
}

int weft_actor_demonitor(weft_actor *self, uint64_t ref)
{
    weft_pid me = weft_actor_pid(self), slot = {.id = weft__monitor_slot(ref)};
    struct weft__pair_relation *pair = NULL;
    if (slot.id != (uint32_t)me.id && weft__actor_find((uint32_t)slot.id)) {
        pair = take_relation(me, slot, ref);
    }
    if (pair) {
        weft__pair_relation_free(pair);
        return 0;
    }
    return withdraw_events(self, is_down, ref) ? 0 : -ENOENT;
}

/* --- exit signals ----------------------------------------------------------------------------- */

int weft_actor_exit(weft_pid pid, int reason, weft_buf *text)
{
    weft_actor *actor = weft__actor_of(pid);
    int err = reason > 0 ? -EINVAL : pid.node != weft__node() ? -EREMOTE : actor ? 0 : -ESRCH;
    if (err) {
        weft_buf_free(text);
        return err;
    }
    struct weft__exit_reason *exit_reason = text ? weft__exit_reason_new(text) : NULL;
    struct weft__envelope *envelope =
        !text || exit_reason ? weft__envelope_new(WEFT_EVENT_EXIT, 0, NULL) : NULL;
    if (!envelope) {
        weft__exit_reason_unref(exit_reason);
        return -ENOMEM;
    }
    envelope->error = reason;
    envelope->exit_reason = exit_reason;
    weft__envelope_set_sender(envelope);
    weft__actor_deliver(actor, pid, envelope);
    if (reason) {
        weft__actor_cancel_fiber(pid, false);
    }
    return 0;
}
