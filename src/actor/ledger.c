#include "actor/ledger.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "actor/parcel.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "sched/cancel.h"

#ifdef WEFT_EXPLORE
#define INDEXES 2u
#else
#define INDEXES 1024u
#endif
#define MOST_SLOTS (1u << WEFT__SLOT_BITS)
#define FIRST_SLOTS 8u
#define NO_SLOT UINT32_MAX
#define NO_REF UINT64_MAX        /* of a pending send: not looked up by reference */
#define TURN ((uint64_t)1 << 32) /* one turn of a slot, in a reference */

struct weft__bucket weft__buckets[WEFT__BUCKETS];

/* The calls of steps, and transferred calls, by the slot of their callee. */
struct weft__callees {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    struct weft__debt *first; /* under the lock */
};
static struct weft__callees indexes[INDEXES];

#ifdef WEFT_EXPLORE /* each execution starts from zero */
void weft__ledger_reset(bool over)
{
    for (unsigned i = 0; over && i < WEFT__BUCKETS; i++) {
        struct weft__slots *slots =
            atomic_load_explicit(&weft__buckets[i].slots, memory_order_relaxed);
        while (slots) {
            struct weft__slots *former = slots->former;
            weft__free(slots);
            slots = former;
        }
    }
    memset(weft__buckets, 0, sizeof weft__buckets);
    memset(indexes, 0, sizeof indexes);
}
#endif

static struct weft__bucket *bucket_of(uint64_t ref)
{
    return &weft__buckets[ref % WEFT__BUCKETS];
}

static struct weft__callees *index_of(uint64_t callee)
{
    return &indexes[(uint32_t)callee % INDEXES];
}

/* The buckets of fibers and threads that wait for a reply from this actor. */
static struct weft__bucket *call_bucket(uint64_t callee, unsigned spread)
{
    return bucket_of((uint32_t)callee + spread * (WEFT__BUCKETS / WEFT__CALL_SPREAD));
}

/* --- slots, under the bucket's lock ---------------------------------------------------- */

static bool grow(struct weft__bucket *bucket)
{
    uint32_t room = bucket->room ? 2 * bucket->room : FIRST_SLOTS;
    struct weft__slots *more =
        room <= MOST_SLOTS ? weft__alloc(sizeof *more + room * sizeof more->at[0]) : NULL;
    if (!more) {
        return false;
    }
    more->former = atomic_load_explicit(&bucket->slots, memory_order_relaxed);
    if (bucket->used) {
        memcpy(more->at, more->former->at, bucket->used * sizeof more->at[0]);
    }
    atomic_store_explicit(&bucket->slots, more,
                          memory_order_release); /* pairs: weft__ledger_is_pending */
    bucket->room = room;
    return true;
}

static struct weft__slot *slot_at(const struct weft__bucket *bucket, uint32_t at)
{
    return &atomic_load_explicit(&bucket->slots, memory_order_relaxed)->at[at];
}

/* No slot is free. */
static __attribute__((noinline)) uint32_t take_new_slot(struct weft__bucket *bucket)
{
    if (bucket->used == bucket->room && !grow(bucket)) {
        return NO_SLOT;
    }
    uint32_t at = bucket->used++;
    atomic_store_explicit(&slot_at(bucket, at)->ref,
                          TURN | at << WEFT__BUCKET_BITS | (uint32_t)(bucket - weft__buckets),
                          memory_order_relaxed);
    return at;
}

/* Assign a slot and with it a reference. Returns false if there is no memory. */
static inline bool give_ref(struct weft__bucket *bucket, struct weft__debt *entry)
{
    uint32_t at = bucket->free - 1;
    if (__builtin_expect(!bucket->free, 0) && (at = take_new_slot(bucket)) == NO_SLOT) {
        return false;
    }
    struct weft__slot *slot = slot_at(bucket, at);
    bucket->free = slot->next_free; /* 0 for a new slot */
    slot->entry = entry;
    entry->ref = atomic_load_explicit(&slot->ref, memory_order_relaxed);
    return true;
}

static struct weft__debt *find(const struct weft__bucket *bucket, uint64_t ref)
{
    uint32_t slot = weft__ref_slot(ref);
    struct weft__debt *entry = slot < bucket->used ? slot_at(bucket, slot)->entry : NULL;
    return entry && entry->ref == ref ? entry : NULL;
}

static inline void give_slot(struct weft__bucket *bucket, uint64_t ref)
{
    uint32_t at = weft__ref_slot(ref);
    struct weft__slot *slot = slot_at(bucket, at);
    slot->entry = NULL;
    ref += TURN;
    atomic_store_explicit(&slot->ref, ref, memory_order_relaxed);
    if (__builtin_expect(ref >= TURN, 1)) { /* otherwise the slot is used up */
        slot->next_free = bucket->free;
        bucket->free = at + 1;
    }
}

/* --- calls and their callees, under the bucket's lock ------------------------------------- */

static inline void link_call(struct weft__debt **first, struct weft__debt *entry)
{
    struct weft__debt *next = *first;
    entry->linked = true;
    entry->back = first;
    entry->next_call = next;
    if (next) {
        next->back = &entry->next_call;
    }
    *first = entry;
}

static inline void unlink_call(struct weft__debt *entry)
{
    struct weft__debt *next = entry->next_call;
    *entry->back = next;
    if (next) {
        next->back = entry->back;
    }
    entry->linked = false;
}

/* Link the call so that the end of the callee finds it. Returns false if the callee has ended. */
static inline bool link_to_live(struct weft__debt **first, struct weft__debt *entry,
                                weft_actor *actor)
{
    weft_pid callee = {.id = entry->callee};
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    bool owes =
        weft__gate_generation(gate) == weft__pid_generation(callee) && (gate & WEFT__GATE_OWED);
    if (__builtin_expect(!owes, 0) && !weft__gate_owe(actor, callee)) {
        return false;
    }
    link_call(first, entry);
    return true;
}

static bool join_callee(struct weft__bucket *bucket, struct weft__debt *entry)
{
    struct weft__callees *index = entry->index;
    weft_actor *callee = weft__actor_find((uint32_t)entry->callee);
    if (!index) {
        return link_to_live(&bucket->calls, entry, callee);
    }
    weft__lock(&index->lock);
    bool linked = link_to_live(&index->first, entry, callee);
    weft__unlock(&index->lock);
    return linked;
}

static __attribute__((noinline)) void leave_index(struct weft__debt *entry)
{
    weft__lock(&entry->index->lock);
    unlink_call(entry);
    weft__unlock(&entry->index->lock);
}

static inline void leave_callee(struct weft__debt *entry)
{
    if (__builtin_expect(!entry->index, 1)) {
        unlink_call(entry);
    } else {
        leave_index(entry);
    }
}

static inline void take_out_wait(struct weft__bucket *bucket, struct weft__debt *entry)
{
    if (__builtin_expect(entry->linked, 1)) {
        leave_callee(entry);
    }
    give_slot(bucket, entry->ref);
    entry->ref = 0;
}

static void take_out(struct weft__bucket *bucket, struct weft__debt *entry)
{
    if (entry->kind == WEFT__DEBT_WAIT) {
        take_out_wait(bucket, entry);
        return;
    }
    if (entry->kind == WEFT__DEBT_CALL && entry->linked) {
        leave_callee(entry);
    }
    if (entry->ref != NO_REF) {
        give_slot(bucket, entry->ref);
    }
    if (!weft_pid_is_none(entry->to)) {
        *(entry->prev ? &entry->prev->next : &bucket->first) = entry->next;
        if (entry->next) {
            entry->next->prev = entry->prev;
        }
    }
    entry->ref = 0;
}

/* After the removal, still under the lock: may the entry be freed? If not, its callback has started
 * and frees it. */
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

struct weft__debt *weft__debt_new_call(weft_pid caller, weft_pid callee, uint64_t tag)
{
    struct weft__debt *entry = weft__debt_new(WEFT__DEBT_CALL, caller, WEFT_EVENT_COMPLETE, tag);
    if (entry) {
        entry->callee = callee.id;
        entry->index = index_of(callee.id);
    }
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

/* Send to the actor, unless it has ended. */
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

/* --- timer callbacks -------------------------------------------------------------------------- */

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

/* In the entry's own callback: the timer is not used afterwards. */
static void free_running(struct weft__debt *entry)
{
    weft_timer_deinit(&entry->timer);
    weft__debt_free(entry);
}

static void set_timer(struct weft__debt *entry);

/* In the callback, which has given up its timer: a thread that removes the entry from now on finds
 * a timer that is pending. */
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

static void repeat(struct weft__bucket *bucket, struct weft__debt *entry)
{
    weft_pid to = entry->to;
    weft_host *host = entry->host;
    struct weft__letter *copy = copy_of(entry->letter);
    weft__unlock(&bucket->lock);
    if (copy) {
        hand_over(to, copy);
    } else { /* no memory: this message is lost */
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

/* Remove the send from the admission queue. Returns NULL if another thread has done so and settles
 * it. */
static struct weft__parcel *withdraw(struct weft__debt *entry)
{
    struct weft__parcel *parcel = (struct weft__parcel *)(void *)entry;
    return weft__gate_unqueue(&parcel->sender) ? parcel : NULL;
}

/* The error that an entry reports when its deadline has passed. */
static int due_error(const struct weft__debt *entry)
{
    return entry->kind == WEFT__DEBT_CALL || entry->kind == WEFT__DEBT_SEND ? -ETIMEDOUT : 0;
}

static void due(weft_timer *timer, void *arg, uint64_t times)
{
    struct weft__debt *entry = arg;
    struct weft__bucket *bucket = bucket_of((uint32_t)entry->to.id);
    struct weft__parcel *parcel = NULL;
    (void)timer, (void)times;
    weft__lock(&bucket->lock);
    if (entry->ref && entry->kind == WEFT__DEBT_REPEAT) {
        repeat(bucket, entry);
        return;
    }
    if (entry->ref && entry->kind == WEFT__DEBT_SEND && !(parcel = withdraw(entry))) {
        entry->timed = false; /* the thread that dequeued it frees it */
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

/* --- adding and removing ---------------------------------------------------------------------- */

/* Add to the actor's list, where its end finds the entry. */
static int enlist_locked(struct weft__bucket *bucket, struct weft__debt *entry)
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

static int add_locked(struct weft__bucket *bucket, struct weft__debt *entry, uint64_t *ref)
{
    if (!give_ref(bucket, entry)) {
        return -ENOMEM;
    }
    int err = enlist_locked(bucket, entry);
    if (!err && entry->kind == WEFT__DEBT_CALL && !join_callee(bucket, entry)) {
        take_out(bucket, entry);
        err = -ESRCH;
    }
    if (ref && !err) {
        *ref = entry->ref;
    }
    return err;
}

int weft__ledger_add_wait(struct weft__debt *entry, weft_actor *callee, uint64_t *ref)
{
    unsigned spread = (uint32_t)((uintptr_t)entry >> 12) * 0x9E3779B1u >> 30; /* by stack address */
    struct weft__bucket *bucket = call_bucket(entry->callee, spread);
    int err = 0;
    weft__lock(&bucket->lock);
    if (__builtin_expect(!link_to_live(&bucket->calls, entry, callee), 0)) {
        err = -ESRCH;
    } else if (__builtin_expect(!give_ref(bucket, entry), 0)) {
        unlink_call(entry);
        err = -ENOMEM;
    }
    *ref = entry->ref;
    weft__unlock(&bucket->lock);
    return err;
}

_Static_assert(WEFT__CALL_SPREAD == 4, "two bits of a hash");

int weft__ledger_add(struct weft__debt *entry, int64_t deadline, int64_t period_ns, uint64_t *ref)
{
    struct weft__bucket *bucket = bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    int err = add_locked(bucket, entry, ref);
    weft__deadline_check(deadline);
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
    struct weft__bucket *bucket = bucket_of(ref);
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

enum ending {
    BY_END,     /* ends all calls */
    BY_UPGRADE, /* ends calls that were seen and not kept */
    UNKEEP,     /* ends no call; resets `kept` */
};

static bool ends(struct weft__debt *entry, uint64_t callee, enum ending ending)
{
    if (entry->callee != callee) {
        return false;
    }
    entry->kept = entry->kept && ending != UNKEEP;
    return ending == BY_END || (ending == BY_UPGRADE && entry->seen && !entry->kept);
}

/* callee, unless 0: the call must still belong to this callee, and be one that ends. */
static inline __attribute__((always_inline)) bool
settle_call(uint64_t ref, int error, weft_buf *buf, uint64_t callee, enum ending ending)
{
    struct weft__bucket *bucket = bucket_of(ref);
    struct weft__letter *letter = NULL;
    struct weft__chain ready;
    weft_pid to = {0};
    bool told = false, gone = false;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    struct weft__debt *entry = find(bucket, ref);
    if (callee && entry && !ends(entry, callee, ending)) {
        entry = NULL;
    }
    if (entry && entry->kind == WEFT__DEBT_WAIT) {
        take_out_wait(bucket, entry);
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

bool weft__ledger_answer(uint64_t ref, int error, weft_buf *buf)
{
    return settle_call(ref, error, buf, 0, BY_END);
}

/* --- pending sends ---------------------------------------------------------------------------- */

int weft__ledger_queue(struct weft__parcel *parcel, int64_t deadline)
{
    struct weft__debt *entry = &parcel->entry;
    struct weft__bucket *bucket = bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    entry->ref = NO_REF;
    int err = enlist_locked(bucket, entry);
    if (!err) {
        err = weft__gate_queue(&parcel->sender);
        if (err != WEFT__GATE_WAITS) {
            take_out(bucket, entry);
        } else if (deadline != WEFT_FOREVER) {
            weft__deadline_check(deadline);
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
    struct weft__bucket *bucket = bucket_of((uint32_t)entry->to.id);
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
    struct weft__bucket *bucket = bucket_of((uint32_t)from.id);
    weft__lock(&bucket->lock);
    struct weft__debt *entry = bucket->first;
    while (entry && (entry->kind != WEFT__DEBT_SEND || entry->to.id != from.id ||
                     ((struct weft__parcel *)(void *)entry)->sender.to.id != to.id)) {
        entry = entry->next;
    }
    weft__unlock(&bucket->lock);
    return entry != NULL;
}

/* The sender has ended: withdraw its message. Returns false if another thread has dequeued it and
 * frees it; its timer is stopped here because the timer's pool may be gone by then. The envelope is
 * prepended to the list; it is not traced any longer, so its `trace` stores the receiver's slot. */
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

static void drop_all(weft_pid self)
{
    struct weft__bucket *bucket = bucket_of((uint32_t)self.id);
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

/* --- calls without a reply -------------------------------------------------------------------- */

static void end_waits(struct weft__bucket *bucket, uint64_t callee, enum ending ending)
{
    struct weft__debt *next;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    for (struct weft__debt *entry = bucket->calls; entry; entry = next) {
        next = entry->next_call;
        if (ends(entry, callee, ending)) {
            take_out_wait(bucket, entry);
            weft__node_tell(entry->node, -EOWNERDEAD, &ready); /* unless the deadline came first */
        }
    }
    weft__unlock(&bucket->lock);
    weft__place_many(&ready);
}

#define REFS 64u

static size_t collect(struct weft__callees *index, uint64_t callee, enum ending ending,
                      uint64_t *refs)
{
    size_t n = 0;
    weft__lock(&index->lock);
    for (struct weft__debt *entry = index->first; entry && n < REFS; entry = entry->next_call) {
        if (ends(entry, callee, ending)) {
            refs[n++] = entry->ref;
        }
    }
    weft__unlock(&index->lock);
    return n;
}

static void end_calls(weft_pid self, enum ending ending)
{
    uint64_t refs[REFS];
    size_t n;
    for (unsigned i = 0; i < WEFT__CALL_SPREAD; i++) {
        end_waits(call_bucket(self.id, i), self.id, ending);
    }
    do { /* Calls that any thread has settled or transferred are no longer in the list. */
        n = collect(index_of(self.id), self.id, ending, refs);
        for (size_t i = 0; i < n; i++) {
            settle_call(refs[i], -EOWNERDEAD, NULL, self.id, ending);
        }
    } while (n == REFS);
}

void weft__ledger_end(weft_pid self)
{
    drop_all(self);
    end_calls(self, BY_END);
}

static bool owes(weft_pid self)
{
    const weft_actor *actor = weft__actor_of(self);
    return actor && atomic_load_explicit(&actor->gate, memory_order_relaxed) & WEFT__GATE_OWED;
}

void weft__ledger_upgrade_begin(weft_pid self)
{
    if (owes(self)) {
        end_calls(self, UNKEEP);
    }
}

void weft__ledger_upgrade_end(weft_pid self)
{
    if (owes(self)) {
        end_calls(self, BY_UPGRADE);
    }
}

static void mark(struct weft__debt *entry, bool kept)
{
    struct weft__callees *index = entry->index;
    if (index) {
        weft__lock(&index->lock);
    }
    entry->seen = true;
    entry->kept = kept;
    if (index) {
        weft__unlock(&index->lock);
    }
}

static struct weft__debt *find_call(const struct weft__bucket *bucket, uint64_t ref)
{
    struct weft__debt *entry = find(bucket, ref);
    bool is_call = entry && (entry->kind == WEFT__DEBT_CALL || entry->kind == WEFT__DEBT_WAIT);
    return is_call ? entry : NULL;
}

void weft__ledger_see(uint64_t ref)
{
    struct weft__bucket *bucket = bucket_of(ref);
    weft__lock(&bucket->lock);
    struct weft__debt *entry = find_call(bucket, ref);
    if (entry) {
        mark(entry, entry->kept); /* a callee it was transferred to may have kept it */
    }
    weft__unlock(&bucket->lock);
}

static bool move_to(struct weft__bucket *bucket, struct weft__debt *entry, uint64_t callee,
                    struct weft__callees *index)
{
    entry->callee = callee;
    entry->index = index;
    return join_callee(bucket, entry);
}

/* While the call is between two lists no end finds it: if both callees have ended, it ends here. */
static int transfer_locked(struct weft__bucket *bucket, struct weft__debt *entry, weft_pid to,
                           bool *lost)
{
    uint64_t former = entry->callee;
    struct weft__callees *index = entry->index;
    if (former == to.id) {
        mark(entry, true);
        return 0;
    }
    leave_callee(entry);
    if (move_to(bucket, entry, to.id, index_of(to.id))) {
        mark(entry, false);
        return 0;
    }
    *lost = !move_to(bucket, entry, former, index);
    return -EOWNERDEAD;
}

int weft__ledger_transfer(uint64_t ref, weft_pid to)
{
    struct weft__bucket *bucket = bucket_of(ref);
    bool lost = false;
    int err = -ESRCH;
    weft__lock(&bucket->lock);
    struct weft__debt *entry = find_call(bucket, ref);
    if (entry) {
        err = transfer_locked(bucket, entry, to, &lost);
    }
    weft__unlock(&bucket->lock);
    if (lost) {
        weft__ledger_answer(ref, -EOWNERDEAD, NULL);
    }
    return err;
}
