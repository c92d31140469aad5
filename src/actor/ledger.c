#include "actor/ledger.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "actor/parcel.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "sched/cancel.h"

#define BUCKET_BITS 12u
#define SLOT_BITS 20u
#define BUCKETS (1u << BUCKET_BITS)
#define MOST_SLOTS (1u << SLOT_BITS)
#define FIRST_SLOTS 8u
#define NO_SLOT UINT32_MAX
#define NO_REF UINT64_MAX /* of a parcel: nobody asks for it */

struct slot {
    struct weft__debt *entry;
    uint32_t turn; /* of the entry, or the next one */
    uint32_t next_free;
};

static struct bucket {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    /* under it */
    uint32_t used, room, free; /* `free`: the first + 1, 0: none */
    struct slot *slots;
    struct weft__debt *first; /* of actors */
} buckets[BUCKETS];

static struct bucket *bucket_of(uint64_t ref)
{
    return &buckets[ref % BUCKETS];
}

/* --- slots, under the bucket's lock ---------------------------------------------------- */

static bool grow(struct bucket *bucket)
{
    uint32_t room = bucket->room ? 2 * bucket->room : FIRST_SLOTS;
    struct slot *more = room <= MOST_SLOTS ? weft__alloc(room * sizeof *more) : NULL;
    if (!more) {
        return false;
    }
    if (bucket->used) {
        memcpy(more, bucket->slots, bucket->used * sizeof *more);
    }
    weft__free(bucket->slots);
    bucket->slots = more;
    bucket->room = room;
    return true;
}

static uint32_t take_slot(struct bucket *bucket)
{
    uint32_t slot = bucket->free - 1;
    if (bucket->free) {
        bucket->free = bucket->slots[slot].next_free;
        return slot;
    }
    if (bucket->used == bucket->room && !grow(bucket)) {
        return NO_SLOT;
    }
    slot = bucket->used++;
    bucket->slots[slot].turn = 1;
    return slot;
}

static uint32_t slot_of(uint64_t ref)
{
    return (uint32_t)(ref >> BUCKET_BITS) % MOST_SLOTS;
}

static struct weft__debt *find(const struct bucket *bucket, uint64_t ref)
{
    uint32_t slot = slot_of(ref);
    struct weft__debt *entry = slot < bucket->used ? bucket->slots[slot].entry : NULL;
    return entry && entry->ref == ref ? entry : NULL;
}

static void give_slot(struct bucket *bucket, uint32_t at)
{
    struct slot *slot = &bucket->slots[at];
    slot->entry = NULL;
    if (++slot->turn) { /* else it is used up */
        slot->next_free = bucket->free;
        bucket->free = at + 1;
    }
}

static void take_out(struct bucket *bucket, struct weft__debt *entry)
{
    if (entry->ref != NO_REF) {
        give_slot(bucket, slot_of(entry->ref));
    }
    if (!weft_pid_is_none(entry->to)) {
        *(entry->prev ? &entry->prev->next : &bucket->first) = entry->next;
        if (entry->next) {
            entry->next->prev = entry->prev;
        }
    }
    entry->ref = 0;
}

/* After it was taken out, under the lock still: may it be freed? Else its callback has begun, and
 * will. */
static bool stop_timer(struct weft__debt *entry)
{
    return !entry->timed || weft_timer_cancel(&entry->timer) != WEFT_TIMER_RUNNING;
}

/* --- entries ------------------------------------------------------------------------------- */

struct weft__debt *weft__debt_new(enum weft__debt_kind kind, weft_pid to,
                                  enum weft_actor_event_kind event, uint64_t tag)
{
    struct weft__debt *entry = weft__alloc(sizeof *entry);
    struct weft__letter *letter = entry ? weft__letter_new(event, tag, NULL) : NULL;
    if (!letter) {
        weft__free(entry);
        return NULL;
    }
    entry->kind = (uint8_t)kind;
    entry->to = to;
    entry->letter = letter;
    return entry;
}

void weft__debt_free(struct weft__debt *entry)
{
    if (entry->letter) {
        weft__letter_free(entry->letter);
    }
    if (entry->kind == WEFT__DEBT_SEND) {
        weft__parcel_free((struct weft__parcel *)(void *)entry);
    } else {
        weft__free(entry);
    }
}

/* To the actor, unless it has ended. */
static void hand_over(weft_pid to, struct weft__letter *letter)
{
    weft__letter_chain(letter);
    if (weft__letter_is_message(letter)) {
        if (weft__letter_send(to, letter, WEFT__AT_ONCE) != 0) {
            weft__letter_address(letter, to);
            weft__letter_bury(letter, (uint32_t)to.id);
        }
    } else {
        weft__letter_post_system(to, letter);
    }
}

/* --- the time has come ------------------------------------------------------------------------ */

static struct weft__letter *copy_of(const struct weft__letter *letter)
{
    weft_buf *buf = letter->buf ? weft_buf_share(letter->buf) : NULL;
    if (letter->buf && !buf) {
        return NULL;
    }
    struct weft__letter *copy = weft__letter_new(WEFT_EVENT_MESSAGE, letter->tag, buf);
    if (!copy) {
        weft_buf_free(buf);
        return NULL;
    }
    copy->topic = letter->topic;
    return copy;
}

/* In its callback: nothing of the timer is touched any more. */
static void free_running(struct weft__debt *entry)
{
    weft_timer_deinit(&entry->timer);
    weft__debt_free(entry);
}

static void set_timer(struct weft__debt *entry);

/* In the callback, whose timer has been given up: whoever takes the entry out from now on finds one
 * that is pending. */
static void set_next(struct weft__debt *entry)
{
    int64_t now = weft__clock_ns(), period = entry->period_ns;
    int64_t passed = now > entry->deadline ? (now - entry->deadline) / period * period : 0;
    bool never = __builtin_add_overflow(entry->deadline, passed, &entry->deadline) ||
                 __builtin_add_overflow(entry->deadline, period, &entry->deadline);
    entry->deadline = never ? WEFT_FOREVER : entry->deadline;
    weft_timer_deinit(&entry->timer);
    set_timer(entry);
}

static void repeat(struct bucket *bucket, struct weft__debt *entry)
{
    weft_pid to = entry->to;
    weft_host *host = entry->host;
    struct weft__letter *copy = copy_of(entry->letter);
    weft__unlock(&bucket->lock);
    if (copy) {
        hand_over(to, copy);
    } else { /* no memory: this one is missed */
        atomic_fetch_add_explicit(&host->dead, 1, memory_order_relaxed);
    }
    weft__lock(&bucket->lock);
    bool out = entry->ref == 0;
    if (!out) {
        set_next(entry);
    }
    weft__unlock(&bucket->lock);
    if (out) {
        free_running(entry);
    }
}

/* The parcel, if nobody else settles it. */
static struct weft__parcel *withdraw(struct weft__debt *entry)
{
    struct weft__parcel *parcel = (struct weft__parcel *)(void *)entry;
    return weft__gate_unqueue(&parcel->sender) ? parcel : NULL;
}

/* What is told of an entry whose time has come. */
static int due_error(const struct weft__debt *entry)
{
    return entry->kind == WEFT__DEBT_CALL || entry->kind == WEFT__DEBT_SEND ? -ETIMEDOUT : 0;
}

static void due(weft_timer *timer, void *arg, uint64_t times)
{
    struct weft__debt *entry = arg;
    struct bucket *bucket = bucket_of((uint32_t)entry->to.id);
    struct weft__parcel *parcel = NULL;
    (void)timer, (void)times;
    weft__lock(&bucket->lock);
    if (entry->ref && entry->kind == WEFT__DEBT_REPEAT) {
        repeat(bucket, entry);
        return;
    }
    if (entry->ref && entry->kind == WEFT__DEBT_SEND && !(parcel = withdraw(entry))) {
        entry->timed = false; /* who has it frees it */
        weft_timer_deinit(&entry->timer);
        weft__unlock(&bucket->lock);
        return;
    }
    struct weft__letter *letter = NULL;
    weft_pid to = entry->to;
    if (entry->ref) {
        letter = entry->letter;
        entry->letter = NULL;
        letter->error = due_error(entry);
        take_out(bucket, entry);
    }
    weft__unlock(&bucket->lock);
    if (parcel) {
        weft__letter_free(parcel->sender.letter);
    }
    free_running(entry);
    if (letter) {
        hand_over(to, letter);
    }
}

static void set_timer(struct weft__debt *entry)
{
    weft_timer_init(&entry->timer, due, entry,
                    &(struct weft_timer_opts){.pool = entry->host->pool});
    entry->timed = true;
    weft_timer_set(&entry->timer, entry->deadline);
}

/* --- the ledger ------------------------------------------------------------------------------- */

/* Of an actor: its end finds it. */
static int enlist_locked(struct bucket *bucket, struct weft__debt *entry)
{
    weft_actor *actor = weft__actor_find((uint32_t)entry->to.id);
    entry->prev = NULL;
    entry->next = bucket->first;
    if (entry->next) {
        entry->next->prev = entry;
    }
    bucket->first = entry;
    if (!weft__gate_owe(actor, entry->to)) {
        take_out(bucket, entry);
        return -ESRCH;
    }
    entry->host = actor->host;
    return 0;
}

static int add_locked(struct bucket *bucket, struct weft__debt *entry, uint64_t *ref)
{
    uint32_t slot = take_slot(bucket);
    if (slot == NO_SLOT) {
        return -ENOMEM;
    }
    entry->ref = (uint64_t)bucket->slots[slot].turn << 32 | slot << BUCKET_BITS |
                 (uint32_t)(bucket - buckets);
    bucket->slots[slot].entry = entry;
    int err = weft_pid_is_none(entry->to) ? 0 : enlist_locked(bucket, entry);
    if (ref && !err) {
        *ref = entry->ref;
    }
    return err;
}

int weft__ledger_add(struct weft__debt *entry, int64_t deadline, int64_t period_ns, uint64_t *ref)
{
    /* A fiber's: anywhere; by its stack they are spread. */
    uint64_t key = weft_pid_is_none(entry->to) ? (uintptr_t)entry >> 12 : (uint32_t)entry->to.id;
    struct bucket *bucket = bucket_of(key);
    weft__lock(&bucket->lock);
    int err = add_locked(bucket, entry, ref);
    if (!err && deadline != WEFT_FOREVER) {
        entry->deadline = deadline > 0 ? deadline : 0;
        entry->period_ns = period_ns;
        set_timer(entry);
    }
    weft__unlock(&bucket->lock);
    return err;
}

static bool is_on_stack(const struct weft__debt *entry)
{
    return entry->kind == WEFT__DEBT_WAIT || entry->kind == WEFT__DEBT_FIBER;
}

bool weft__ledger_drop(uint64_t ref, unsigned kinds)
{
    struct bucket *bucket = bucket_of(ref);
    bool gone = false;
    weft__lock(&bucket->lock);
    struct weft__debt *entry = find(bucket, ref);
    bool found = entry && (kinds >> entry->kind & 1);
    if (found) {
        take_out(bucket, entry);
        gone = !is_on_stack(entry) && stop_timer(entry);
    }
    weft__unlock(&bucket->lock);
    if (gone) {
        weft__debt_free(entry);
    }
    return found;
}

bool weft__ledger_answer(uint64_t ref, int error, weft_buf *buf)
{
    struct bucket *bucket = bucket_of(ref);
    struct weft__letter *letter = NULL;
    struct weft__chain ready;
    weft_pid to = {0};
    bool told = false, gone = false;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    struct weft__debt *entry = find(bucket, ref);
    if (entry && entry->kind == WEFT__DEBT_WAIT) {
        take_out(bucket, entry);
        told = weft__node_fire(entry->node, buf, error, &ready);
    } else if (entry && entry->kind == WEFT__DEBT_CALL) {
        take_out(bucket, entry);
        to = entry->to;
        letter = entry->letter;
        entry->letter = NULL;
        gone = stop_timer(entry);
        told = true;
    }
    weft__unlock(&bucket->lock);
    weft__place_many(&ready);
    if (gone) {
        weft__debt_free(entry);
    }
    if (letter) {
        letter->error = error;
        letter->buf = buf;
        hand_over(to, letter);
    } else if (!told) {
        weft_buf_free(buf);
    }
    return told;
}

/* --- parcels ---------------------------------------------------------------------------------- */

int weft__ledger_queue(struct weft__parcel *parcel, int64_t deadline)
{
    struct weft__debt *entry = &parcel->entry;
    struct bucket *bucket = bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    entry->ref = NO_REF;
    int err = enlist_locked(bucket, entry);
    if (!err) {
        err = weft__gate_queue(&parcel->sender);
        if (err != WEFT__GATE_WAITS) {
            take_out(bucket, entry);
        } else if (deadline != WEFT_FOREVER) {
            entry->deadline = deadline > 0 ? deadline : 0;
            set_timer(entry);
        }
    }
    weft__unlock(&bucket->lock);
    return err;
}

struct weft__letter *weft__ledger_deliver(struct weft__parcel *parcel)
{
    struct weft__debt *entry = &parcel->entry;
    struct bucket *bucket = bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    struct weft__letter *letter = entry->letter;
    entry->letter = NULL;
    take_out(bucket, entry);
    bool gone = stop_timer(entry);
    weft__unlock(&bucket->lock);
    if (gone) {
        weft__debt_free(entry);
    }
    return letter;
}

bool weft__ledger_queues(weft_pid from, weft_pid to)
{
    struct bucket *bucket = bucket_of((uint32_t)from.id);
    weft__lock(&bucket->lock);
    struct weft__debt *entry = bucket->first;
    while (entry && (entry->kind != WEFT__DEBT_SEND || entry->to.id != from.id ||
                     ((struct weft__parcel *)(void *)entry)->sender.to.id != to.id)) {
        entry = entry->next;
    }
    weft__unlock(&bucket->lock);
    return entry != NULL;
}

/* Of a sender that has ended. False: somebody has it, who frees it; without its timer, which is of
 * a pool that may be gone by then. The letter is put before the others: nobody traces it any more,
 * so there it says whose it was. */
static bool give_up(struct weft__debt *entry, struct weft__link **letters)
{
    struct weft__parcel *parcel = withdraw(entry);
    if (!parcel) {
        entry->timed = entry->timed && !stop_timer(entry);
        return false;
    }
    struct weft__letter *letter = parcel->sender.letter;
    weft__letter_address(letter, parcel->sender.to);
    letter->trace = (uint32_t)parcel->sender.to.id;
    letter->link.next = *letters;
    *letters = &letter->link;
    return true;
}

static void bury(struct weft__link *letters)
{
    while (letters) {
        struct weft__letter *letter = (struct weft__letter *)(void *)letters;
        letters = letters->next;
        weft__letter_bury(letter, letter->trace);
    }
}

void weft__ledger_end(weft_pid self)
{
    struct bucket *bucket = bucket_of((uint32_t)self.id);
    struct weft__debt *gone = NULL, *next;
    struct weft__link *letters = NULL;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    for (struct weft__debt *entry = bucket->first; entry; entry = next) {
        next = entry->next;
        if (entry->to.id != self.id) {
            continue;
        }
        if (entry->kind == WEFT__DEBT_SEND && !give_up(entry, &letters)) {
            continue;
        }
        take_out(bucket, entry);
        if (entry->kind == WEFT__DEBT_FIBER) {
            weft__cancel(entry->fiber, WEFT__IDENT_CANCEL, &ready);
        } else if (stop_timer(entry)) {
            entry->next = gone;
            gone = entry;
        }
    }
    weft__unlock(&bucket->lock);
    weft__place_many(&ready);
    bury(letters);
    while (gone) {
        next = gone->next;
        weft__debt_free(gone);
        gone = next;
    }
}
