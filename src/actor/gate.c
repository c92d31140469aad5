/* Mailbox admission, and the senders that wait for it.
 *
 * The admission state is one word, so a message is counted for the very actor it is for, or not at
 * all. The mailbox is full when the count has reached the limit, and as long as any sender waits
 * (CONTENDED): later senders do not overtake.
 *
 * Waiting senders are queued in a wait bucket, by the actor's slot; few actors have any, and a
 * record has no space for a list.
 *
 *     sender                                      actor
 *     1. takes the bucket's lock                  1. counts down: was the word CONTENDED?
 *     2. sees that the mailbox is full and        2. takes the bucket's lock, and gives the places
 *        sets CONTENDED with the same CAS;           to the waiting senders, oldest first; if none
 *        appends itself to the queue                 remains, clears CONTENDED
 *
 * CONTENDED is set on a word that is full, so a count-down after that sees it. A place that was
 * given belongs to the sender: the count does not change. An envelope that waited is pushed before
 * CONTENDED is cleared: what its sender sends later arrives later. actor/admission.h says which
 * threads give the places and how many. It need not be the actor, which may end meanwhile: then the
 * exchange on its word fails, and its end rejects the senders that remain.
 */
#include "actor/gate.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "actor/mailbox.h"
#include "actor/parcel.h"

#define LOTS 256u

static struct lot {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    struct weft__sender *first, *last; /* under the lock */
} lots[LOTS];

#ifdef WEFT_EXPLORE /* each execution starts from zero */
void weft__gate_reset(void)
{
    memset(lots, 0, sizeof lots);
}
#endif

static struct lot *lot_of(uint64_t id)
{
    return &lots[(uint32_t)id % LOTS];
}

static void link_last(struct lot *lot, struct weft__sender *sender)
{
    sender->linked = true;
    sender->next = NULL;
    sender->prev = lot->last;
    *(lot->last ? &lot->last->next : &lot->first) = sender;
    lot->last = sender;
}

static void unlink_one(struct lot *lot, struct weft__sender *sender)
{
    *(sender->prev ? &sender->prev->next : &lot->first) = sender->next;
    *(sender->next ? &sender->next->prev : &lot->last) = sender->prev;
    sender->linked = false;
}

/* Return the oldest sender to this actor, or NULL. */
static struct weft__sender *first_to(const struct lot *lot, uint64_t id)
{
    struct weft__sender *sender = lot->first;
    while (sender && sender->to.id != id) {
        sender = sender->next;
    }
    return sender;
}

static bool step_to(weft_actor *actor, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&actor->gate, from, to, memory_order_acquire,
                                                 memory_order_relaxed);
}

static bool is_of(uint64_t gate, weft_pid to)
{
    return weft__gate_generation(gate) == weft__pid_generation(to);
}

/* --- queueing --------------------------------------------------------------------------------- */

static int queue_locked(weft_actor *actor, struct lot *lot, struct weft__sender *sender)
{
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    bool full, drops;
    do {
        if (!is_of(gate, sender->to)) {
            return -ESRCH;
        }
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        full = weft__gate_is_full(gate, limit);
        drops = limit >> WEFT__LIMIT_SHIFT == WEFT_MAILBOX_DROP; /* after an upgrade */
    } while (!step_to(actor, &gate, full && !drops ? gate | WEFT__GATE_CROWDED : gate + 1));
    if (full && !drops) {
        link_last(lot, sender);
        return WEFT__GATE_WAITS;
    }
    return full;
}

int weft__gate_queue(struct weft__sender *sender)
{
    struct lot *lot = lot_of(sender->to.id);
    weft__lock(&lot->lock);
    int err = queue_locked(weft__actor_find((uint32_t)sender->to.id), lot, sender);
    weft__unlock(&lot->lock);
    return err;
}

bool weft__gate_unqueue(struct weft__sender *sender)
{
    struct lot *lot = lot_of(sender->to.id);
    weft__lock(&lot->lock);
    bool linked = sender->linked;
    if (linked) {
        unlink_one(lot, sender);
    }
    weft__unlock(&lot->lock);
    return linked;
}

static const struct weft__wait_kind room_kind = {.name = "room in a mailbox"};

int weft__gate_await(weft_actor *actor, weft_pid to, int64_t deadline)
{
    struct weft__node node;
    struct weft__sender sender = {.to = to, .node = &node};
    struct weft__waiter waiter;
    (void)actor;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    int err = weft__gate_queue(&sender);
    if (err != WEFT__GATE_WAITS) {
        weft__waiter_hand_on(weft__waiter_disarm(&waiter));
        return err;
    }
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &room_kind, 0);
    if (weft__reason_done(reason)) {
        return node.status;
    }
    weft__gate_unqueue(&sender);
    return weft__reason_errno(reason);
}

/* --- places ----------------------------------------------------------------------------------- */

int weft__gate_pass(weft_actor *actor, weft_pid to)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    while (is_of(gate, to)) {
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        bool full = weft__gate_count(gate) >= (limit & WEFT__LIMIT_MOST);
        if (full && limit >> WEFT__LIMIT_SHIFT != WEFT_MAILBOX_DROP) {
            return -ENOBUFS;
        }
        if (step_to(actor, &gate, gate + 1)) {
            return full;
        }
    }
    return -ESRCH;
}

/* Subtract the count and clear the bits. Returns the former word; 0: it belongs to another
 * actor. */
static uint64_t step_down(weft_actor *actor, weft_pid to, uint64_t count, uint64_t bits)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    while (is_of(gate, to)) {
        if (step_to(actor, &gate, (gate - count) & ~bits)) {
            return gate;
        }
    }
    return 0;
}

/* --- admitting waiting senders ---------------------------------------------------------------- */

/* What was decided under the lock and is carried out after it is released. */
struct decided {
    struct weft__chain ready;
    struct weft__sender *parcels, **last; /* removed from the queue, oldest first */
    unsigned pushed;
};

static void decide(struct decided *decided)
{
    weft__chain_init(&decided->ready);
    decided->parcels = NULL;
    decided->last = &decided->parcels;
    decided->pushed = 0;
}

static void keep(struct decided *decided, struct weft__sender *sender)
{
    sender->next = NULL;
    *decided->last = sender;
    decided->last = &sender->next;
}

static void settle_all(struct weft__sender *parcels, int error)
{
    while (parcels) {
        struct weft__sender *next = parcels->next;
        weft__parcel_settle(weft__parcel_of(parcels), error);
        parcels = next;
    }
}

/* The part of the capacity that one credit is expected to use. */
static uint32_t measure(uint32_t limit)
{
    uint32_t part = limit / 4 ? limit / 4 : 1;
    return part < WEFT__PASS ? part : WEFT__PASS;
}

/* Is there capacity beyond what the outstanding credits are expected to use? If the mailbox is
 * empty, the owners of the credits are too slow to wait for. */
static bool has_room(uint64_t gate, uint32_t limit)
{
    uint64_t count = weft__gate_count(gate);
    uint64_t passes = (gate & WEFT__GATE_PASSES) / WEFT__GATE_PASS;
    return count == 0 || count + passes * measure(limit) < limit;
}

/* Credits are granted one after another: the owner of one wakes the next sender when it begins to
 * use it. */
static bool has_pass(uint64_t gate)
{
    return !(gate & WEFT__GATE_FRESH) && (gate & WEFT__GATE_PASSES) != WEFT__GATE_PASSES;
}

/* Reserve a place for this sender, and its credit. If the actor drops the oldest message there is
 * always a place, and no sender needs a credit. */
static bool reserve(weft_actor *actor, struct weft__sender *sender, bool drops)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    uint64_t more = 0;
    bool room;
    sender->pass = sender->letter && !drops;
    if (sender->pass) {
        more = WEFT__GATE_PASS + WEFT__GATE_FRESH;
    }
    do {
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        room = is_of(gate, sender->to) && (drops || has_room(gate, limit & WEFT__LIMIT_MOST)) &&
               (!sender->pass || has_pass(gate));
    } while (room && !step_to(actor, &gate, gate + more + 1));
    return room;
}

static void let_in(weft_actor *actor, struct lot *lot, struct weft__sender *sender,
                   struct decided *decided)
{
    unlink_one(lot, sender);
    if (sender->letter) {
        weft__actor_push(actor, sender->to, sender->letter);
        decided->pushed++;
        keep(decided, sender);
    } else if (!weft__node_fire(sender->node, NULL, 0, &decided->ready)) {
        step_down(actor, sender->to, 1, 0);
    }
}

static void admit_locked(weft_actor *actor, struct lot *lot, weft_pid to, bool drops,
                         struct decided *decided)
{
    struct weft__sender *sender;
    while ((sender = first_to(lot, to.id)) && reserve(actor, sender, drops)) {
        let_in(actor, lot, sender, decided);
    }
    if (!sender) {
        step_down(actor, to, 0, WEFT__GATE_CROWDED);
    }
}

void weft__gate_admit(weft_pid to)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    struct lot *lot = lot_of(to.id);
    struct decided decided;
    if (!actor) {
        return;
    }
    bool drops = weft__mailbox_is_shared(actor);
    decide(&decided);
    weft__lock(&lot->lock);
    admit_locked(actor, lot, to, drops, &decided);
    weft__unlock(&lot->lock);
    weft__place_many(&decided.ready);
    if (decided.pushed) {
        weft__actor_wake(actor, to, false);
    }
    for (unsigned i = 0; drops && i < decided.pushed; i++) {
        weft__mailbox_shed(actor, to);
    }
    settle_all(decided.parcels, 0);
}

static void change_pass(weft_pid to, uint64_t count, uint64_t bits)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    uint64_t gate = actor ? step_down(actor, to, count, bits) : 0;
    if (gate & WEFT__GATE_CROWDED) {
        weft__gate_admit(to);
    }
}

void weft__gate_pass_begin(weft_pid to)
{
    change_pass(to, 0, WEFT__GATE_FRESH);
}

void weft__gate_pass_end(weft_pid to)
{
    change_pass(to, WEFT__GATE_PASS, 0);
}

void weft__gate_pass_drop(weft_pid to)
{
    change_pass(to, WEFT__GATE_PASS, WEFT__GATE_FRESH);
}

void weft__gate_give_back(weft_pid to)
{
    change_pass(to, 1, 0);
}

static void turn_away(uint64_t id)
{
    struct lot *lot = lot_of(id);
    struct decided decided;
    struct weft__sender *sender;
    decide(&decided);
    weft__lock(&lot->lock);
    while ((sender = first_to(lot, id))) {
        unlink_one(lot, sender);
        if (sender->letter) {
            keep(&decided, sender);
        } else {
            weft__node_tell(sender->node, -ESRCH, &decided.ready);
        }
    }
    weft__unlock(&lot->lock);
    weft__place_many(&decided.ready);
    for (sender = decided.parcels; sender; sender = sender->next) {
        weft__letter_address(sender->letter, sender->to);
        weft__letter_bury(sender->letter, (uint32_t)id);
    }
    settle_all(decided.parcels, -ESRCH);
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
