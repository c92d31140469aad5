/* The gate of a mailbox, and the senders who wait there.
 *
 * The gate is one word, so a message is counted for the very actor it is for, or not at all. It is full when the
 * count has reached the limit, and as long as anybody waits (CROWDED): who comes later does not pass.
 *
 * Senders that wait are in a lot, by the actor's slot; few actors have any, and a record has no room for a list.
 *     sender                                        actor
 *     1. takes the lot's lock                       1. counts down: was it CROWDED?
 *     2. sees that the gate is full and marks it    2. takes the lot's lock, and gives the places to those
 *        CROWDED by the same CAS; links its node       who wait, oldest first; nobody left: not CROWDED
 * CROWDED is set on a word that is full, so a count down after that sees it. A place that was given is the sender's: the
 * count stays as it is.
 */
#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "actor/actor.h"
#include "actor/ledger.h"

#define LOTS 256u

/* A sender that waits, on its stack. */
struct sender {
    struct weft__node node; /* first */
    weft_pid to;
};

static struct lot {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    struct weft__waitlist senders; /* under it */
} lots[LOTS];

#ifdef WEFT_EXPLORE /* whose executions begin anew */
void weft__gate_reset(void)
{
    memset(lots, 0, sizeof lots);
}
#endif

static struct lot *lot_of(uint64_t id)
{
    return &lots[(uint32_t)id % LOTS];
}

static bool step_to(weft_actor *actor, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&actor->gate, from, to, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Under the lot's lock. 0: it has a place. 1: it must wait. */
static int queue_locked(weft_actor *actor, struct lot *lot, struct sender *sender)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_acquire);
    bool full;
    do {
        if (weft__gate_generation(gate) != weft__pid_generation(sender->to)) {
            return -ESRCH;
        }
        full = weft__gate_is_full(gate, atomic_load_explicit(&actor->limit, memory_order_relaxed));
    } while (!step_to(actor, &gate, full ? gate | WEFT__GATE_CROWDED : gate + 1));
    if (full) {
        weft__waitlist_push(&lot->senders, &sender->node);
    }
    return full;
}

static const struct weft__wait_kind room_kind = {.name = "room in a mailbox"};

int weft__gate_await(weft_actor *actor, weft_pid to, int64_t deadline)
{
    struct lot *lot = lot_of(to.id);
    struct sender sender = {.to = to};
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&sender.node, &waiter, 0);
    weft__lock(&lot->lock);
    int err = queue_locked(actor, lot, &sender);
    weft__unlock(&lot->lock);
    if (err <= 0) {
        enum weft__reason reason = weft__waiter_disarm(&waiter);
        if (reason == WEFT__REASON_INTERRUPT) {
            weft_interrupt(weft_self()); /* the next wait has it */
        }
        return err;
    }
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &room_kind, 0);
    if (weft__reason_done(reason)) {
        return sender.node.status;
    }
    weft__lock(&lot->lock);
    if (sender.node.linked) {
        weft__waitlist_remove(&lot->senders, &sender.node);
    }
    weft__unlock(&lot->lock);
    return weft__reason_errno(reason);
}

/* The oldest sender to this actor, or NULL. */
static struct sender *first_to(const struct lot *lot, uint64_t id)
{
    struct weft__node *node = lot->senders.first;
    while (node && ((struct sender *)(void *)node)->to.id != id) {
        node = node->next;
    }
    return (struct sender *)(void *)node;
}

/* A place for one who waits. */
static bool reserve(weft_actor *actor)
{
    uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed) & WEFT__LIMIT_MOST;
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    while (weft__gate_count(gate) < limit) {
        if (step_to(actor, &gate, gate + 1)) {
            return true;
        }
    }
    return false;
}

void weft__gate_admit(weft_actor *actor)
{
    struct lot *lot = lot_of(actor->self);
    struct weft__chain ready;
    struct sender *sender;
    weft__chain_init(&ready);
    weft__lock(&lot->lock);
    while ((sender = first_to(lot, actor->self)) && reserve(actor)) {
        weft__waitlist_remove(&lot->senders, &sender->node);
        if (!weft__node_fire(&sender->node, NULL, 0, &ready)) {
            atomic_fetch_sub_explicit(&actor->gate, 1, memory_order_relaxed);
        }
    }
    if (!sender) {
        atomic_fetch_and_explicit(&actor->gate, ~WEFT__GATE_CROWDED, memory_order_relaxed);
    }
    weft__unlock(&lot->lock);
    weft__place_many(&ready);
}

static void turn_away(uint64_t id)
{
    struct lot *lot = lot_of(id);
    struct weft__chain ready;
    struct sender *sender;
    weft__chain_init(&ready);
    weft__lock(&lot->lock);
    while ((sender = first_to(lot, id))) {
        weft__waitlist_remove(&lot->senders, &sender->node);
        weft__node_fire(&sender->node, NULL, -ESRCH, &ready);
    }
    weft__unlock(&lot->lock);
    weft__place_many(&ready);
}

void weft__gate_settle(weft_pid self, uint64_t gate)
{
    if (gate & WEFT__GATE_CROWDED) {
        turn_away(self.id);
    }
    if (gate & WEFT__GATE_OWED) {
        weft__ledger_end(self);
    }
}

bool weft__gate_owe(weft_actor *actor, weft_pid self)
{
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    do {
        if (weft__gate_generation(gate) != weft__pid_generation(self)) {
            return false;
        }
    } while (!(gate & WEFT__GATE_OWED) && !step_to(actor, &gate, gate | WEFT__GATE_OWED));
    return true;
}
