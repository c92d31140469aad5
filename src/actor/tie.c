#include "actor/tie.h"
#include "actor/fiber.h"

#include "base/assert.h"
#include "sched/slab.h"

#define SLOT_SHIFT 35u /* 2^29 slots; a reference repeats after 2^35 monitors on one slot */

/* --- exit reasons ----------------------------------------------------------------------------- */

struct weft__will *weft__will_new(weft_buf *text)
{
    struct weft__will *will =
        weft__small_get(weft__small_here(), weft__small_class(sizeof *will), sizeof *will);
    if (!will) {
        weft_buf_free(text);
        return NULL;
    }
    atomic_init(&will->refs, 1);
    will->text = text;
    return will;
}

struct weft__will *weft__will_ref(struct weft__will *will)
{
    if (will) {
        atomic_fetch_add_explicit(&will->refs, 1, memory_order_relaxed);
    }
    return will;
}

void weft__will_unref(struct weft__will *will)
{
    if (will && atomic_fetch_sub_explicit(&will->refs, 1, memory_order_acq_rel) == 1) {
        weft_buf_free(will->text);
        weft__small_put(weft__small_here(), weft__small_class(sizeof *will), will);
    }
}

/* --- locking two actors ----------------------------------------------------------------------- */

static weft_actor *record_of(weft_pid pid)
{
    return weft__actor_find((uint32_t)pid.id);
}

void weft__pair_lock(weft_pid a, weft_pid b)
{
    bool first = (uint32_t)a.id < (uint32_t)b.id;
    weft__lock(&record_of(first ? a : b)->lock);
    weft__lock(&record_of(first ? b : a)->lock);
}

void weft__pair_unlock(weft_pid a, weft_pid b)
{
    weft__unlock(&record_of(a)->lock);
    weft__unlock(&record_of(b)->lock);
}

/* --- links and monitors ----------------------------------------------------------------------- */

uint64_t weft__monitor_ref(weft_pid watched)
{
    static _Atomic(uint64_t) count;
    uint64_t number = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    return (uint64_t)(uint32_t)watched.id << SLOT_SHIFT |
           (number & (((uint64_t)1 << SLOT_SHIFT) - 1));
}

uint32_t weft__monitor_slot(uint64_t ref)
{
    return (uint32_t)(ref >> SLOT_SHIFT);
}

static struct weft__letter *letter_about(weft_pid who, unsigned kind, uint64_t ref)
{
    struct weft__letter *letter = weft__letter_new((enum weft_actor_event_kind)kind, ref, NULL);
    if (letter) {
        letter->from_id = who.id;
        letter->from_host = who.host;
        letter->from_node = who.node;
        letter->by_link = !ref;
        letter->tag = ref ? ref : 1;
    }
    return letter;
}

struct weft__bond *weft__bond_new(weft_pid a, weft_pid b, uint64_t ref)
{
    struct weft__bond *bond =
        weft__small_get(weft__small_here(), weft__small_class(sizeof *bond), sizeof *bond);
    if (!bond) {
        return NULL;
    }
    *bond = (struct weft__bond){
        .ends = {{.kind = ref ? WEFT__TIE_WATCHED : WEFT__TIE_LINK, .side = 0},
                 {.kind = ref ? WEFT__TIE_WATCHES : WEFT__TIE_LINK, .side = 1}},
        .pids = {a, b},
        .ref = ref,
        .letters = {ref ? NULL : letter_about(b, WEFT_EVENT_EXIT, 0),
                    letter_about(a, ref ? WEFT_EVENT_DOWN : WEFT_EVENT_EXIT, ref)},
    };
    if (!bond->letters[1] || (!ref && !bond->letters[0])) {
        weft__bond_free(bond);
        return NULL;
    }
    return bond;
}

void weft__bond_free(struct weft__bond *bond)
{
    for (int i = 0; bond && i < 2; i++) {
        if (bond->letters[i]) {
            weft__letter_free(bond->letters[i]);
        }
    }
    if (bond) {
        weft__small_put(weft__small_here(), weft__small_class(sizeof *bond), bond);
    }
}

void weft__bond_tie(struct weft__bond *bond)
{
    for (int i = 0; i < 2; i++) {
        weft__tie_add(&record_of(bond->pids[i])->ties, &bond->ends[i]);
    }
}

void weft__bond_untie(struct weft__bond *bond)
{
    weft__tie_remove(&bond->ends[0]);
    weft__tie_remove(&bond->ends[1]);
}

/* --- removal at an exit ----------------------------------------------------------------------- */

/* Lock the other actor, too, in slot order: `above` if its slot is the higher one. False: the
 * actor's own lock was released for that, and the first relation of its list is a different one
 * now. */
static bool lock_other(weft_actor *actor, struct weft__tie *tie, weft_actor *other, bool above)
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
    if (actor->ties == tie && weft__tie_is_bond(tie) && record_of(weft__tie_other(tie)) == other) {
        return true;
    }
    weft__unlock(&other->lock);
    return false;
}

/* Called with the actor's lock held; releases it. */
static void cut_bond(weft_actor *actor, struct weft__tie *tie, const struct weft__end *end)
{
    weft_pid pid = weft__tie_other(tie);
    weft_actor *other = record_of(pid);
    if (!lock_other(actor, tie, other, (uint32_t)pid.id > (uint32_t)actor->self)) {
        weft__unlock(&actor->lock);
        return;
    }
    struct weft__bond *bond = weft__tie_bond(tie);
    unsigned there = 1u - tie->side;
    struct weft__letter *letter = end ? bond->letters[there] : NULL;
    bool ends = letter && letter->kind == WEFT_EVENT_EXIT && end->error;
    pid = bond->pids[there];
    weft__bond_untie(bond);
    if (letter) {
        bond->letters[there] = NULL;
        letter->error = end->error;
        if (letter->kind ==
            WEFT_EVENT_COMPLETE) { /* of a command; without memory the text is left out */
            letter->buf = end->will && end->will->text ? weft_buf_share(end->will->text) : NULL;
        } else {
            letter->will = weft__will_ref(end->will);
        }
        weft__actor_push(other, pid, letter);
    }
    weft__unlock(&other->lock);
    weft__unlock(&actor->lock);
    if (letter) {
        weft__actor_wake(other, pid, true);
    }
    if (ends) {
        weft__actor_break(pid, false);
    }
    weft__bond_free(bond);
}

/* Called with the actor's lock held; releases it. Wakes one joiner; the first one gets the
 * result. */
static void cut_join(weft_actor *actor, struct weft__tie *tie, struct weft__end *end)
{
    struct weft__join *join = (struct weft__join *)(void *)tie;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__tie_remove(tie);
    if (weft__node_fire(&join->node, end->result, end->error, &ready)) {
        end->result = NULL;
        end->joined = true;
    }
    weft__unlock(&actor->lock);
    weft__place_many(&ready);
}

static void set_aside(struct weft__tie **at, struct weft__tie *tie)
{
    weft__tie_remove(tie);
    weft__tie_add(at, tie);
}

/* Names are released before any relation is notified: an actor that restarts this one needs the
 * name. Joiners are moved to a list of their own, in the order in which they joined. */
static void cut_names(weft_actor *actor, struct weft__tie **joins)
{
    struct weft__tie *tie, *next;
    weft__lock(&actor->lock);
    for (tie = actor->ties; tie; tie = next) {
        next = tie->next;
        if (tie->kind == WEFT__TIE_JOIN) {
            set_aside(joins, tie);
        } else if (!weft__tie_is_bond(tie)) {
            weft__tie_remove(tie);
            (tie->kind == WEFT__TIE_NAME ? weft__name_cut : weft__group_cut)(tie);
        }
    }
    weft__unlock(&actor->lock);
}

/* Joiners are woken last, so that they find every other relation notified; this includes those that
 * join meanwhile, except for the result, which goes to the first one. A joiner that gives up
 * removes its relation from whichever list it is in. */
void weft__ties_cut(weft_actor *actor, struct weft__end *end)
{
    struct weft__tie *joins = NULL, *tie;
    cut_names(actor, &joins);
    weft__lock(&actor->lock);
    while ((tie = actor->ties)) {
        if (tie->kind == WEFT__TIE_JOIN) {
            set_aside(joins ? &joins->next : &joins, tie);
        } else {
            cut_bond(actor, tie, end);
            weft__lock(&actor->lock);
        }
    }
    while (joins) {
        WEFT__ASSERT(end);
        cut_join(actor, joins, end);
        weft__lock(&actor->lock);
    }
    weft__unlock(&actor->lock);
}

/* --- kill ------------------------------------------------------------------------------------- */

/* The side of the link that is in the other actor's list, because the list of one child is short.
 * Under both locks. */
static struct weft__tie *find_link(weft_pid me, weft_pid other)
{
    struct weft__tie *tie = record_of(other)->ties;
    while (tie && !(tie->kind == WEFT__TIE_LINK && weft_pid_equal(weft__tie_other(tie), me) &&
                    weft_pid_equal(weft__tie_bond(tie)->pids[tie->side], other))) {
        tie = tie->next;
    }
    return tie;
}

void weft__link_kill(weft_actor *actor, weft_pid other)
{
    weft_pid me = weft_actor_pid(actor);
    weft__pair_lock(me, other);
    struct weft__tie *tie = find_link(me, other);
    struct weft__bond *bond = tie ? weft__tie_bond(tie) : NULL;
    if (bond) {
        struct weft__letter *letter = bond->letters[tie->side];
        bond->letters[tie->side] = NULL;
        letter->kind = WEFT__LETTER_KILL;
        weft__bond_untie(bond);
        weft__actor_push(record_of(other), other, letter);
    }
    weft__pair_unlock(me, other);
    if (bond) { /* else it has exited */
        weft__actor_wake(record_of(other), other, true);
        weft__actor_break(other, true);
        weft__bond_free(bond);
    }
}
