/* Links, monitors and exit signals. How relations are stored is described in actor/tie.h. */
#include <errno.h>

#include "actor/fiber.h"
#include "actor/route.h"
#include "actor/tie.h"

/* --- events already delivered ----------------------------------------------------------------- */

/* Withdraw the matching envelopes from those that wait for the actor, which calls this itself.
 * Returns the number of withdrawn envelopes. */
static unsigned take_back(weft_actor *self, bool (*is)(const struct weft__letter *, uint64_t),
                          uint64_t what)
{
    struct weft__link **at = &self->urgent;
    unsigned count = 0;
    while (*at) {
        at = &(*at)->next;
    }
    *at = weft__inbox_drain_local(&self->system);
    at = &self->urgent;
    while (*at) {
        struct weft__letter *letter = (struct weft__letter *)(void *)*at;
        if (is(letter, what)) {
            *at = letter->link.next;
            weft__letter_free(letter);
            count++;
        } else {
            at = &(*at)->next;
        }
    }
    return count;
}

static bool is_exit_of(const struct weft__letter *letter, uint64_t who)
{
    return letter->kind == WEFT_EVENT_EXIT && letter->by_link && letter->from_id == who;
}

static bool is_down(const struct weft__letter *letter, uint64_t ref)
{
    return letter->kind == WEFT_EVENT_DOWN && letter->tag == ref;
}

/* --- lookup ----------------------------------------------------------------------------------- */

/* Is this the link between `own`, in whose slot's list it was found, and `other`? (The slot may
 * belong to a newer actor by now.) Or, with a reference, `watcher`'s monitor? */
static bool is_it(struct weft__tie *tie, weft_pid own, weft_pid other, weft_pid watcher,
                  uint64_t ref)
{
    const struct weft__bond *bond = weft__tie_bond(tie);
    if (ref) {
        return (tie->kind == WEFT__TIE_WATCHES || tie->kind == WEFT__TIE_WATCHED) &&
               bond->ref == ref && bond->pids[1].id == watcher.id;
    }
    return tie->kind == WEFT__TIE_LINK && weft_pid_equal(bond->pids[tie->side], own) &&
           weft_pid_equal(weft__tie_other(tie), other);
}

/* Find a's monitor on b with this reference, or the link between the two (ref 0). It is in both
 * lists or in neither, so both lists are searched in step, and the shorter one ends the search.
 * Under both locks. */
static struct weft__bond *find(weft_pid a, weft_pid b, uint64_t ref)
{
    struct weft__tie *of_a = weft__actor_find((uint32_t)a.id)->ties;
    struct weft__tie *of_b = weft__actor_find((uint32_t)b.id)->ties;
    for (; of_a && of_b; of_a = of_a->next, of_b = of_b->next) {
        if (is_it(of_a, a, b, a, ref)) {
            return weft__tie_bond(of_a);
        }
        if (is_it(of_b, b, a, a, ref)) {
            return weft__tie_bond(of_b);
        }
    }
    return NULL;
}

/* Find it and remove it from both lists. */
static struct weft__bond *take(weft_pid a, weft_pid b, uint64_t ref)
{
    weft__pair_lock(a, b);
    struct weft__bond *bond = find(a, b, ref);
    if (bond) {
        weft__bond_untie(bond);
    }
    weft__pair_unlock(a, b);
    return bond;
}

/* --- links ------------------------------------------------------------------------------------ */

/* Returns true if the link was inserted; otherwise *err is 0 (there was a link) or -ESRCH. */
static bool try_link(struct weft__bond *bond, weft_pid me, weft_pid other, int *err)
{
    weft__pair_lock(me, other);
    bool there = weft__actor_of(other) != NULL;
    bool tied = there && !find(me, other, 0);
    if (tied) {
        weft__bond_tie(bond);
    }
    weft__pair_unlock(me, other);
    *err = there ? 0 : -ESRCH;
    return tied;
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
    struct weft__bond *bond = weft__bond_new(me, other, 0);
    if (!bond) {
        return -ENOMEM;
    }
    if (!try_link(bond, me, other, &err)) {
        weft__bond_free(bond);
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
    struct weft__bond *bond = take(me, other, 0);
    if (bond) {
        weft__bond_free(bond);
    } else if (!self->kind->run || atomic_load_explicit(&self->trap, memory_order_relaxed)) {
        take_back(self, is_exit_of, other.id);
    } /* else its fiber has been cancelled by the exit, and the envelope holds the cause */
    return 0;
}

void weft_actor_trap(weft_actor *self, bool trap)
{
    bool before = atomic_exchange_explicit(&self->trap, trap,
                                           memory_order_seq_cst); /* pairs: weft__actor_break */
    if (trap && !before && self->kind->run) {
        weft__fiber_settle(self);
    }
}

/* --- monitors --------------------------------------------------------------------------------- */

/* Deliver the event of a monitored actor that ended before the monitor was added. */
static void tell_at_once(weft_actor *self, struct weft__bond *bond)
{
    struct weft__letter *letter = bond->letters[1];
    bond->letters[1] = NULL;
    letter->error = -ESRCH;
    weft__actor_deliver(self, weft_actor_pid(self), letter);
    weft__bond_free(bond);
}

/* Insert the monitor, or deliver its event immediately if the other actor has ended. Takes the pair
 * relation. */
static void watch(weft_actor *self, weft_pid other, struct weft__bond *bond)
{
    weft_pid me = weft_actor_pid(self);
    bool there = false;
    if ((uint32_t)other.id != (uint32_t)me.id && weft__actor_of(other)) {
        weft__pair_lock(me, other);
        there = weft__actor_of(other) != NULL;
        if (there) {
            weft__bond_tie(bond);
        }
        weft__pair_unlock(me, other);
    }
    if (!there) {
        tell_at_once(self, bond);
    }
}

/* Create a monitor on the other actor: 0, -EINVAL, -EREMOTE or -ENOMEM. */
static int new_watch(const weft_actor *self, weft_pid other, struct weft__bond **bond)
{
    weft_pid me = weft_actor_pid(self);
    if (weft_pid_equal(me, other)) {
        return -EINVAL;
    }
    if (other.node != me.node) {
        return -EREMOTE;
    }
    *bond = weft__bond_new(other, me, weft__monitor_ref(other));
    return *bond ? 0 : -ENOMEM;
}

int weft_actor_monitor(weft_actor *self, weft_pid other, uint64_t *ref)
{
    struct weft__bond *bond;
    int err = new_watch(self, other, &bond);
    if (err) {
        return err;
    }
    *ref = bond->ref;
    watch(self, other, bond);
    return 0;
}

int weft__monitor_command(weft_actor *self, weft_pid other, uint64_t tag)
{
    struct weft__bond *bond;
    int err = new_watch(self, other, &bond);
    if (err) {
        return err;
    }
    bond->letters[1]->kind = WEFT_EVENT_COMPLETE;
    bond->letters[1]->tag = tag;
    watch(self, other, bond);
    return 0;
}

int weft_actor_demonitor(weft_actor *self, uint64_t ref)
{
    weft_pid me = weft_actor_pid(self), slot = {.id = weft__monitor_slot(ref)};
    struct weft__bond *bond = NULL;
    if (slot.id != (uint32_t)me.id && weft__actor_find((uint32_t)slot.id)) {
        bond = take(me, slot, ref);
    }
    if (bond) {
        weft__bond_free(bond);
        return 0;
    }
    return take_back(self, is_down, ref) ? 0 : -ENOENT;
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
    struct weft__will *will = text ? weft__will_new(text) : NULL;
    struct weft__letter *letter = !text || will ? weft__letter_new(WEFT_EVENT_EXIT, 0, NULL) : NULL;
    if (!letter) {
        weft__will_unref(will);
        return -ENOMEM;
    }
    letter->error = reason;
    letter->will = will;
    weft__letter_sign(letter);
    weft__actor_deliver(actor, pid, letter);
    if (reason) {
        weft__actor_break(pid, false);
    }
    return 0;
}
