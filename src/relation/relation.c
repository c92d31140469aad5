#include "relation/relation.h"
#include "actor/fiber_actor.h"

#include "base/assert.h"
#include "task/slab.h"

#define SLOT_SHIFT 35u /* 2^29 slots; a reference repeats after 2^35 monitors on one slot */

/* --- exit reasons ----------------------------------------------------------------------------- */

struct weft__exit_reason *weft__exit_reason_new(weft_buf *text)
{
    struct weft__exit_reason *exit_reason = weft__small_get(
        weft__small_self(), weft__small_class(sizeof *exit_reason), sizeof *exit_reason);
    if (!exit_reason) {
        weft_buf_free(text);
        return NULL;
    }
    atomic_init(&exit_reason->refs, 1);
    exit_reason->text = text;
    return exit_reason;
}

struct weft__exit_reason *weft__exit_reason_ref(struct weft__exit_reason *exit_reason)
{
    if (exit_reason) {
        atomic_fetch_add_explicit(&exit_reason->refs, 1, memory_order_relaxed);
    }
    return exit_reason;
}

void weft__exit_reason_unref(struct weft__exit_reason *exit_reason)
{
    if (exit_reason &&
        atomic_fetch_sub_explicit(&exit_reason->refs, 1, memory_order_acq_rel) == 1) {
        weft_buf_free(exit_reason->text);
        weft__small_put(weft__small_self(), weft__small_class(sizeof *exit_reason), exit_reason);
    }
}

/* --- locking two actors ----------------------------------------------------------------------- */

static weft_actor *record_of(weft_pid pid)
{
    return weft__actor_find((uint32_t)pid.id);
}

void weft__actor_pair_lock(weft_pid a, weft_pid b)
{
    bool first = (uint32_t)a.id < (uint32_t)b.id;
    weft__lock(&record_of(first ? a : b)->lock);
    weft__lock(&record_of(first ? b : a)->lock);
}

void weft__actor_pair_unlock(weft_pid a, weft_pid b)
{
    weft__unlock(&record_of(a)->lock);
    weft__unlock(&record_of(b)->lock);
}

/* --- links and monitors ----------------------------------------------------------------------- */

uint64_t weft__monitor_ref(weft_pid monitored)
{
    static _Atomic(uint64_t) count;
    uint64_t number = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    return (uint64_t)(uint32_t)monitored.id << SLOT_SHIFT |
           (number & (((uint64_t)1 << SLOT_SHIFT) - 1));
}

uint32_t weft__monitor_slot(uint64_t ref)
{
    return (uint32_t)(ref >> SLOT_SHIFT);
}

static struct weft__envelope *new_exit_envelope(weft_pid who, unsigned kind, uint64_t ref)
{
    struct weft__envelope *envelope =
        weft__envelope_new((enum weft_actor_event_kind)kind, ref, NULL);
    if (envelope) {
        envelope->from_id = who.id;
        envelope->from_host = who.host;
        envelope->from_node = who.node;
        envelope->by_link = !ref;
        envelope->tag = ref ? ref : 1;
    }
    return envelope;
}

struct weft__pair_relation *weft__pair_relation_new(weft_pid a, weft_pid b, uint64_t ref)
{
    struct weft__pair_relation *pair =
        weft__small_get(weft__small_self(), weft__small_class(sizeof *pair), sizeof *pair);
    if (!pair) {
        return NULL;
    }
    *pair = (struct weft__pair_relation){
        .ends = {{.kind = ref ? WEFT__RELATION_MONITORED : WEFT__RELATION_LINK, .side = 0},
                 {.kind = ref ? WEFT__RELATION_MONITORING : WEFT__RELATION_LINK, .side = 1}},
        .pids = {a, b},
        .ref = ref,
        .envelopes = {ref ? NULL : new_exit_envelope(b, WEFT_EVENT_EXIT, 0),
                      new_exit_envelope(a, ref ? WEFT_EVENT_DOWN : WEFT_EVENT_EXIT, ref)},
    };
    if (!pair->envelopes[1] || (!ref && !pair->envelopes[0])) {
        weft__pair_relation_free(pair);
        return NULL;
    }
    return pair;
}

void weft__pair_relation_free(struct weft__pair_relation *pair)
{
    for (int i = 0; pair && i < 2; i++) {
        if (pair->envelopes[i]) {
            weft__envelope_free(pair->envelopes[i]);
        }
    }
    if (pair) {
        weft__small_put(weft__small_self(), weft__small_class(sizeof *pair), pair);
    }
}

void weft__pair_relation_add(struct weft__pair_relation *pair)
{
    for (int i = 0; i < 2; i++) {
        weft__relation_add(&record_of(pair->pids[i])->relations, &pair->ends[i]);
    }
}

void weft__pair_relation_remove(struct weft__pair_relation *pair)
{
    weft__relation_remove(&pair->ends[0]);
    weft__relation_remove(&pair->ends[1]);
}

/* --- removal at an exit ----------------------------------------------------------------------- */

/* Lock the other actor, too, in slot order: `above` if its slot is the higher one. False: the
 * actor's own lock was released for that, and the first relation of its list is a different one
 * now. */
static bool lock_other(weft_actor *actor, struct weft__relation *relation, weft_actor *other,
                       bool above)
{
    if (above) {
        weft__lock(&other->lock);
        return true;
    }
    if (weft__lock_try(&other->lock)) {
        return true;
    }
    weft__unlock(&actor->lock);
    weft__lock(&other->lock);
    weft__lock(&actor->lock);
    /* After the relock the only thing known about this memory is whether it is still the actor's
     * first relation, and that one may lead to a different actor by now. */
    if (actor->relations == relation && weft__relation_is_pair(relation) &&
        record_of(weft__relation_other_pid(relation)) == other) {
        return true;
    }
    weft__unlock(&other->lock);
    return false;
}

/* Called with the actor's lock held; releases it. */
static void end_pair(weft_actor *actor, struct weft__relation *relation,
                     const struct weft__end *end)
{
    weft_pid pid = weft__relation_other_pid(relation);
    weft_actor *other = record_of(pid);
    if (!lock_other(actor, relation, other, (uint32_t)pid.id > (uint32_t)actor->self)) {
        weft__unlock(&actor->lock);
        return;
    }
    struct weft__pair_relation *pair = weft__relation_pair(relation);
    unsigned there = 1u - relation->side;
    struct weft__envelope *envelope = end ? pair->envelopes[there] : NULL;
    bool ends = envelope && envelope->kind == WEFT_EVENT_EXIT && end->error;
    pid = pair->pids[there];
    weft__pair_relation_remove(pair);
    if (envelope) {
        pair->envelopes[there] = NULL;
        envelope->error = end->error;
        if (envelope->kind ==
            WEFT_EVENT_COMPLETE) { /* of a command; without memory the text is left out */
            envelope->buf = end->exit_reason && end->exit_reason->text
                                ? weft_buf_share(end->exit_reason->text)
                                : NULL;
        } else {
            envelope->exit_reason = weft__exit_reason_ref(end->exit_reason);
        }
        weft__actor_push(other, pid, envelope);
    }
    weft__unlock(&other->lock);
    weft__unlock(&actor->lock);
    if (envelope) {
        weft__actor_wake(other, pid, true);
    }
    if (ends) {
        weft__actor_cancel_fiber(pid, false);
    }
    weft__pair_relation_free(pair);
}

/* Called with the actor's lock held; releases it. Wakes one joiner; the first one gets the
 * result. */
static void wake_joiner(weft_actor *actor, struct weft__relation *relation, struct weft__end *end)
{
    struct weft__join *join = (struct weft__join *)(void *)relation;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__relation_remove(relation);
    if (weft__node_fire(&join->node, end->result, end->error, &ready)) {
        end->result = NULL;
        end->joined = true;
    }
    weft__unlock(&actor->lock);
    weft__place_all(&ready, WEFT__BACK);
}

static void move_to_list(struct weft__relation **at, struct weft__relation *relation)
{
    weft__relation_remove(relation);
    weft__relation_add(at, relation);
}

/* Names are released before any relation is notified: an actor that restarts this one needs the
 * name. Joiners are moved to a list of their own, in the order in which they joined. */
static void release_names(weft_actor *actor, struct weft__relation **joins)
{
    struct weft__relation *relation, *next;
    weft__lock(&actor->lock);
    for (relation = actor->relations; relation; relation = next) {
        next = relation->next;
        if (relation->kind == WEFT__RELATION_JOIN) {
            move_to_list(joins, relation);
        } else if (!weft__relation_is_pair(relation)) {
            weft__relation_remove(relation);
            (relation->kind == WEFT__RELATION_NAME ? weft__name_release
                                                   : weft__group_release)(relation);
        }
    }
    weft__unlock(&actor->lock);
}

/* Joiners are woken last, so that they find every other relation notified; this includes those that
 * join meanwhile, except for the result, which goes to the first one. A joiner that gives up
 * removes its relation from whichever list it is in. */
void weft__relations_remove_all(weft_actor *actor, struct weft__end *end)
{
    struct weft__relation *joins = NULL, *relation;
    release_names(actor, &joins);
    weft__lock(&actor->lock);
    while ((relation = actor->relations)) {
        if (relation->kind == WEFT__RELATION_JOIN) {
            move_to_list(joins ? &joins->next : &joins, relation);
        } else {
            end_pair(actor, relation, end);
            weft__lock(&actor->lock);
        }
    }
    while (joins) {
        WEFT__ASSERT(end);
        wake_joiner(actor, joins, end);
        weft__lock(&actor->lock);
    }
    weft__unlock(&actor->lock);
}

/* --- kill ------------------------------------------------------------------------------------- */

/* The side of the link that is in the other actor's list, because the list of one child is short.
 * Under both locks. */
static struct weft__relation *find_link(weft_pid me, weft_pid other)
{
    struct weft__relation *relation = record_of(other)->relations;
    while (relation &&
           !(relation->kind == WEFT__RELATION_LINK &&
             weft_pid_equal(weft__relation_other_pid(relation), me) &&
             weft_pid_equal(weft__relation_pair(relation)->pids[relation->side], other))) {
        relation = relation->next;
    }
    return relation;
}

void weft__link_kill(weft_actor *actor, weft_pid other)
{
    weft_pid me = weft_actor_pid(actor);
    weft__actor_pair_lock(me, other);
    struct weft__relation *relation = find_link(me, other);
    struct weft__pair_relation *pair = relation ? weft__relation_pair(relation) : NULL;
    if (pair) {
        struct weft__envelope *envelope = pair->envelopes[relation->side];
        pair->envelopes[relation->side] = NULL;
        envelope->kind = WEFT__ENVELOPE_KILL;
        weft__pair_relation_remove(pair);
        weft__actor_push(record_of(other), other, envelope);
    }
    weft__actor_pair_unlock(me, other);
    if (pair) { /* else it has exited */
        weft__actor_wake(record_of(other), other, true);
        weft__actor_cancel_fiber(other, true);
        weft__pair_relation_free(pair);
    }
}
