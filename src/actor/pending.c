#include "actor/pending.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "actor/pending_send.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "sched/cancel.h"

#ifdef WEFT_EXPLORE
#define INDEXES 2u
#else
#define INDEXES 1024u
#endif
#define MAX_SLOTS (1u << WEFT__PENDING_SLOT_BITS)
#define FIRST_SLOTS 8u
#define NO_SLOT UINT32_MAX
#define NO_REF UINT64_MAX        /* of a pending send: not looked up by reference */
#define TURN ((uint64_t)1 << 32) /* one turn of a slot, in a reference */

struct weft__pending_bucket weft__pending_buckets[WEFT__PENDING_BUCKETS];

/* The calls of steps, and transferred calls, by the slot of their callee. */
struct weft__callee_index {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    struct weft__pending_entry *first; /* under the lock */
};
static struct weft__callee_index indexes[INDEXES];

#ifdef WEFT_EXPLORE /* each execution starts from zero */
void weft__pending_reset(bool over)
{
    for (unsigned i = 0; over && i < WEFT__PENDING_BUCKETS; i++) {
        struct weft__pending_slots *slots =
            atomic_load_explicit(&weft__pending_buckets[i].slots, memory_order_relaxed);
        while (slots) {
            struct weft__pending_slots *former = slots->former;
            weft__free(slots);
            slots = former;
        }
    }
    memset(weft__pending_buckets, 0, sizeof weft__pending_buckets);
    memset(indexes, 0, sizeof indexes);
}
#endif

static struct weft__pending_bucket *bucket_of(uint64_t ref)
{
    return &weft__pending_buckets[ref % WEFT__PENDING_BUCKETS];
}

static struct weft__callee_index *index_of(uint64_t callee)
{
    return &indexes[(uint32_t)callee % INDEXES];
}

/* The buckets of fibers and threads that wait for a reply from this actor. */
static struct weft__pending_bucket *call_bucket(uint64_t callee, unsigned stripe)
{
    return bucket_of((uint32_t)callee + stripe * (WEFT__PENDING_BUCKETS / WEFT__CALL_BUCKETS));
}

/* --- slots, under the bucket's lock ---------------------------------------------------- */

static bool grow(struct weft__pending_bucket *bucket)
{
    uint32_t capacity = bucket->capacity ? 2 * bucket->capacity : FIRST_SLOTS;
    struct weft__pending_slots *more =
        capacity <= MAX_SLOTS ? weft__alloc(sizeof *more + capacity * sizeof more->at[0]) : NULL;
    if (!more) {
        return false;
    }
    more->former = atomic_load_explicit(&bucket->slots, memory_order_relaxed);
    if (bucket->used) {
        memcpy(more->at, more->former->at, bucket->used * sizeof more->at[0]);
    }
    atomic_store_explicit(&bucket->slots, more,
                          memory_order_release); /* pairs: weft__pending_has */
    bucket->capacity = capacity;
    return true;
}

static struct weft__pending_slot *slot_at(const struct weft__pending_bucket *bucket, uint32_t at)
{
    return &atomic_load_explicit(&bucket->slots, memory_order_relaxed)->at[at];
}

/* No slot is free. */
static __attribute__((noinline)) uint32_t take_new_slot(struct weft__pending_bucket *bucket)
{
    if (bucket->used == bucket->capacity && !grow(bucket)) {
        return NO_SLOT;
    }
    uint32_t at = bucket->used++;
    atomic_store_explicit(&slot_at(bucket, at)->ref,
                          TURN | at << WEFT__PENDING_BUCKET_BITS |
                              (uint32_t)(bucket - weft__pending_buckets),
                          memory_order_relaxed);
    return at;
}

/* Assign a slot and with it a reference. Returns false if there is no memory. */
static inline bool assign_ref(struct weft__pending_bucket *bucket,
                              struct weft__pending_entry *entry)
{
    uint32_t at = bucket->free - 1;
    if (__builtin_expect(!bucket->free, 0) && (at = take_new_slot(bucket)) == NO_SLOT) {
        return false;
    }
    struct weft__pending_slot *slot = slot_at(bucket, at);
    bucket->free = slot->next_free; /* 0 for a new slot */
    slot->entry = entry;
    entry->ref = atomic_load_explicit(&slot->ref, memory_order_relaxed);
    return true;
}

static struct weft__pending_entry *find(const struct weft__pending_bucket *bucket, uint64_t ref)
{
    uint32_t slot = weft__pending_ref_slot(ref);
    struct weft__pending_entry *entry = slot < bucket->used ? slot_at(bucket, slot)->entry : NULL;
    return entry && entry->ref == ref ? entry : NULL;
}

static inline void free_slot(struct weft__pending_bucket *bucket, uint64_t ref)
{
    uint32_t at = weft__pending_ref_slot(ref);
    struct weft__pending_slot *slot = slot_at(bucket, at);
    slot->entry = NULL;
    ref += TURN;
    atomic_store_explicit(&slot->ref, ref, memory_order_relaxed);
    if (__builtin_expect(ref >= TURN, 1)) { /* otherwise the slot is used up */
        slot->next_free = bucket->free;
        bucket->free = at + 1;
    }
}

/* --- calls and their callees, under the bucket's lock ------------------------------------- */

static inline void link_call(struct weft__pending_entry **first, struct weft__pending_entry *entry)
{
    struct weft__pending_entry *next = *first;
    entry->linked = true;
    entry->back = first;
    entry->next_call = next;
    if (next) {
        next->back = &entry->next_call;
    }
    *first = entry;
}

static inline void unlink_call(struct weft__pending_entry *entry)
{
    struct weft__pending_entry *next = entry->next_call;
    *entry->back = next;
    if (next) {
        next->back = entry->back;
    }
    entry->linked = false;
}

/* Link the call so that the end of the callee finds it. Returns false if the callee has ended. */
static inline bool link_if_live(struct weft__pending_entry **first,
                                struct weft__pending_entry *entry, weft_actor *actor)
{
    weft_pid callee = {.id = entry->callee};
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    bool has_pending = weft__admission_generation(admission) == weft__pid_generation(callee) &&
                       (admission & WEFT__ADMISSION_HAS_PENDING);
    if (__builtin_expect(!has_pending, 0) && !weft__admission_mark_pending(actor, callee)) {
        return false;
    }
    link_call(first, entry);
    return true;
}

static bool link_callee(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry)
{
    struct weft__callee_index *index = entry->index;
    weft_actor *callee = weft__actor_find((uint32_t)entry->callee);
    if (!index) {
        return link_if_live(&bucket->calls, entry, callee);
    }
    weft__lock(&index->lock);
    bool linked = link_if_live(&index->first, entry, callee);
    weft__unlock(&index->lock);
    return linked;
}

static __attribute__((noinline)) void unlink_indexed(struct weft__pending_entry *entry)
{
    weft__lock(&entry->index->lock);
    unlink_call(entry);
    weft__unlock(&entry->index->lock);
}

static inline void unlink_callee(struct weft__pending_entry *entry)
{
    if (__builtin_expect(!entry->index, 1)) {
        unlink_call(entry);
    } else {
        unlink_indexed(entry);
    }
}

static inline void remove_wait(struct weft__pending_bucket *bucket,
                               struct weft__pending_entry *entry)
{
    if (__builtin_expect(entry->linked, 1)) {
        unlink_callee(entry);
    }
    free_slot(bucket, entry->ref);
    entry->ref = 0;
}

static void remove_entry(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry)
{
    if (entry->kind == WEFT__PENDING_WAIT) {
        remove_wait(bucket, entry);
        return;
    }
    if (entry->kind == WEFT__PENDING_CALL && entry->linked) {
        unlink_callee(entry);
    }
    if (entry->ref != NO_REF) {
        free_slot(bucket, entry->ref);
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
static bool stop_timer(struct weft__pending_entry *entry)
{
    return !entry->timed || weft_timer_cancel(&entry->timer) != WEFT_TIMER_RUNNING;
}

/* --- entries ------------------------------------------------------------------------------- */

struct weft__pending_entry *weft__pending_entry_new(enum weft__pending_kind kind, weft_pid to,
                                                    enum weft_actor_event_kind event, uint64_t tag)
{
    struct weft__pending_entry *entry = weft__alloc(sizeof *entry);
    struct weft__envelope *envelope = entry ? weft__envelope_new(event, tag, NULL) : NULL;
    if (!envelope) {
        weft__free(entry);
        return NULL;
    }
    entry->kind = (uint8_t)kind;
    entry->to = to;
    entry->envelope = envelope;
    return entry;
}

struct weft__pending_entry *weft__pending_entry_new_call(weft_pid caller, weft_pid callee,
                                                         uint64_t tag)
{
    struct weft__pending_entry *entry =
        weft__pending_entry_new(WEFT__PENDING_CALL, caller, WEFT_EVENT_COMPLETE, tag);
    if (entry) {
        entry->callee = callee.id;
        entry->index = index_of(callee.id);
    }
    return entry;
}

void weft__pending_entry_free(struct weft__pending_entry *entry)
{
    if (entry->envelope) {
        weft__envelope_free(entry->envelope);
    }
    if (entry->kind == WEFT__PENDING_SEND) {
        weft__pending_send_free((struct weft__pending_send *)(void *)entry);
    } else {
        weft__free(entry);
    }
}

/* Send to the actor, unless it has ended. */
static void send_to(weft_pid to, struct weft__envelope *envelope)
{
    weft__envelope_set_trace(envelope);
    if (weft__envelope_is_message(envelope)) {
        if (weft__envelope_send(to, envelope, WEFT__AT_ONCE) != 0) {
            weft__envelope_address(envelope, to);
            weft__envelope_discard(envelope, (uint32_t)to.id);
        }
    } else {
        weft__envelope_post_system(to, envelope);
    }
}

/* --- timer callbacks -------------------------------------------------------------------------- */

static struct weft__envelope *copy_of(const struct weft__envelope *envelope)
{
    weft_buf *buf = envelope->buf ? weft_buf_share(envelope->buf) : NULL;
    if (envelope->buf && !buf) {
        return NULL;
    }
    struct weft__envelope *copy = weft__envelope_new(WEFT_EVENT_MESSAGE, envelope->tag, buf);
    if (!copy) {
        weft_buf_free(buf);
        return NULL;
    }
    copy->topic = envelope->topic;
    return copy;
}

/* In the entry's own callback: the timer is not used afterwards. */
static void free_running(struct weft__pending_entry *entry)
{
    weft_timer_deinit(&entry->timer);
    weft__pending_entry_free(entry);
}

static void set_timer(struct weft__pending_entry *entry);

/* In the callback, which has given up its timer: a thread that removes the entry from now on finds
 * a timer that is pending. */
static void set_next(struct weft__pending_entry *entry)
{
    int64_t now = weft__clock_ns(), period = entry->period_ns;
    int64_t passed = now > entry->deadline ? (now - entry->deadline) / period * period : 0;
    bool never = __builtin_add_overflow(entry->deadline, passed, &entry->deadline) ||
                 __builtin_add_overflow(entry->deadline, period, &entry->deadline);
    entry->deadline = never ? WEFT_FOREVER : entry->deadline;
    weft_timer_deinit(&entry->timer);
    set_timer(entry);
}

static void repeat(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry)
{
    weft_pid to = entry->to;
    weft_host *host = entry->host;
    struct weft__envelope *copy = copy_of(entry->envelope);
    weft__unlock(&bucket->lock);
    if (copy) {
        send_to(to, copy);
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
static struct weft__pending_send *dequeue_send(struct weft__pending_entry *entry)
{
    struct weft__pending_send *send = (struct weft__pending_send *)(void *)entry;
    return weft__admission_dequeue(&send->sender) ? send : NULL;
}

/* The error that an entry reports when its deadline has passed. */
static int deadline_error(const struct weft__pending_entry *entry)
{
    return entry->kind == WEFT__PENDING_CALL || entry->kind == WEFT__PENDING_SEND ? -ETIMEDOUT : 0;
}

static void on_timer(weft_timer *timer, void *arg, uint64_t times)
{
    struct weft__pending_entry *entry = arg;
    struct weft__pending_bucket *bucket = bucket_of((uint32_t)entry->to.id);
    struct weft__pending_send *send = NULL;
    (void)timer, (void)times;
    weft__lock(&bucket->lock);
    if (entry->ref && entry->kind == WEFT__PENDING_REPEAT) {
        repeat(bucket, entry);
        return;
    }
    if (entry->ref && entry->kind == WEFT__PENDING_SEND && !(send = dequeue_send(entry))) {
        entry->timed = false; /* the thread that dequeued it frees it */
        weft_timer_deinit(&entry->timer);
        weft__unlock(&bucket->lock);
        return;
    }
    struct weft__envelope *envelope = NULL;
    weft_pid to = entry->to;
    if (entry->ref) {
        envelope = entry->envelope;
        entry->envelope = NULL;
        envelope->error = deadline_error(entry);
        remove_entry(bucket, entry);
    }
    weft__unlock(&bucket->lock);
    if (send) {
        weft__envelope_free(send->sender.envelope);
    }
    free_running(entry);
    if (envelope) {
        send_to(to, envelope);
    }
}

static void set_timer(struct weft__pending_entry *entry)
{
    weft_timer_init(&entry->timer, on_timer, entry,
                    &(struct weft_timer_opts){.pool = entry->host->pool});
    entry->timed = true;
    weft_timer_set(&entry->timer, entry->deadline);
}

/* --- adding and removing ---------------------------------------------------------------------- */

/* Add to the actor's list, where its end finds the entry. */
static int enlist_locked(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry)
{
    weft_actor *actor = weft__actor_find((uint32_t)entry->to.id);
    entry->prev = NULL;
    entry->next = bucket->first;
    if (entry->next) {
        entry->next->prev = entry;
    }
    bucket->first = entry;
    if (!weft__admission_mark_pending(actor, entry->to)) {
        remove_entry(bucket, entry);
        return -ESRCH;
    }
    entry->host = actor->host;
    return 0;
}

static int add_locked(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry,
                      uint64_t *ref)
{
    if (!assign_ref(bucket, entry)) {
        return -ENOMEM;
    }
    int err = enlist_locked(bucket, entry);
    if (!err && entry->kind == WEFT__PENDING_CALL && !link_callee(bucket, entry)) {
        remove_entry(bucket, entry);
        err = -ESRCH;
    }
    if (ref && !err) {
        *ref = entry->ref;
    }
    return err;
}

int weft__pending_add_wait(struct weft__pending_entry *entry, weft_actor *callee, uint64_t *ref)
{
    unsigned stripe = (uint32_t)((uintptr_t)entry >> 12) * 0x9E3779B1u >> 30; /* by stack address */
    struct weft__pending_bucket *bucket = call_bucket(entry->callee, stripe);
    int err = 0;
    weft__lock(&bucket->lock);
    if (__builtin_expect(!link_if_live(&bucket->calls, entry, callee), 0)) {
        err = -ESRCH;
    } else if (__builtin_expect(!assign_ref(bucket, entry), 0)) {
        unlink_call(entry);
        err = -ENOMEM;
    }
    *ref = entry->ref;
    weft__unlock(&bucket->lock);
    return err;
}

_Static_assert(WEFT__CALL_BUCKETS == 4, "two bits of a hash");

int weft__pending_add(struct weft__pending_entry *entry, int64_t deadline, int64_t period_ns,
                      uint64_t *ref)
{
    struct weft__pending_bucket *bucket = bucket_of((uint32_t)entry->to.id);
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

static bool is_on_stack(const struct weft__pending_entry *entry)
{
    return entry->kind == WEFT__PENDING_WAIT || entry->kind == WEFT__PENDING_FIBER;
}

bool weft__pending_drop(uint64_t ref, unsigned kinds)
{
    struct weft__pending_bucket *bucket = bucket_of(ref);
    bool freeable = false;
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = find(bucket, ref);
    bool found = entry && (kinds >> entry->kind & 1);
    if (found) {
        remove_entry(bucket, entry);
        freeable = !is_on_stack(entry) && stop_timer(entry);
    }
    weft__unlock(&bucket->lock);
    if (freeable) {
        weft__pending_entry_free(entry);
    }
    return found;
}

enum end_cause {
    BY_END,     /* ends all calls */
    BY_UPGRADE, /* ends calls that were seen and not kept */
    RESET_KEPT, /* ends no call; resets `kept` */
};

static bool apply_end_cause(struct weft__pending_entry *entry, uint64_t callee,
                            enum end_cause end_cause)
{
    if (entry->callee != callee) {
        return false;
    }
    entry->kept = entry->kept && end_cause != RESET_KEPT;
    return end_cause == BY_END || (end_cause == BY_UPGRADE && entry->seen && !entry->kept);
}

/* callee, unless 0: the call must still belong to this callee, and be one that ends. */
static inline __attribute__((always_inline)) bool
settle_call(uint64_t ref, int error, weft_buf *buf, uint64_t callee, enum end_cause end_cause)
{
    struct weft__pending_bucket *bucket = bucket_of(ref);
    struct weft__envelope *envelope = NULL;
    struct weft__chain ready;
    weft_pid to = {0};
    bool delivered = false, freeable = false;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = find(bucket, ref);
    if (callee && entry && !apply_end_cause(entry, callee, end_cause)) {
        entry = NULL;
    }
    if (entry && entry->kind == WEFT__PENDING_WAIT) {
        remove_wait(bucket, entry);
        delivered = weft__node_fire(entry->node, buf, error, &ready);
    } else if (entry && entry->kind == WEFT__PENDING_CALL) {
        remove_entry(bucket, entry);
        to = entry->to;
        envelope = entry->envelope;
        entry->envelope = NULL;
        freeable = stop_timer(entry);
        delivered = true;
    }
    weft__unlock(&bucket->lock);
    weft__place_many(&ready);
    if (freeable) {
        weft__pending_entry_free(entry);
    }
    if (envelope) {
        envelope->error = error;
        envelope->buf = buf;
        send_to(to, envelope);
    } else if (!delivered) {
        weft_buf_free(buf);
    }
    return delivered;
}

bool weft__pending_reply(uint64_t ref, int error, weft_buf *buf)
{
    return settle_call(ref, error, buf, 0, BY_END);
}

/* --- pending sends ---------------------------------------------------------------------------- */

int weft__pending_queue_send(struct weft__pending_send *send, int64_t deadline)
{
    struct weft__pending_entry *entry = &send->entry;
    struct weft__pending_bucket *bucket = bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    entry->ref = NO_REF;
    int err = enlist_locked(bucket, entry);
    if (!err) {
        err = weft__admission_enqueue(&send->sender);
        if (err != WEFT__ADMISSION_QUEUED) {
            remove_entry(bucket, entry);
        } else if (deadline != WEFT_FOREVER) {
            weft__deadline_check(deadline);
            entry->deadline = deadline > 0 ? deadline : 0;
            set_timer(entry);
        }
    }
    weft__unlock(&bucket->lock);
    return err;
}

struct weft__envelope *weft__pending_take_send(struct weft__pending_send *send)
{
    struct weft__pending_entry *entry = &send->entry;
    struct weft__pending_bucket *bucket = bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    struct weft__envelope *envelope = entry->envelope;
    entry->envelope = NULL;
    remove_entry(bucket, entry);
    bool freeable = stop_timer(entry);
    weft__unlock(&bucket->lock);
    if (freeable) {
        weft__pending_entry_free(entry);
    }
    return envelope;
}

bool weft__pending_has_send(weft_pid from, weft_pid to)
{
    struct weft__pending_bucket *bucket = bucket_of((uint32_t)from.id);
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = bucket->first;
    while (entry && (entry->kind != WEFT__PENDING_SEND || entry->to.id != from.id ||
                     ((struct weft__pending_send *)(void *)entry)->sender.to.id != to.id)) {
        entry = entry->next;
    }
    weft__unlock(&bucket->lock);
    return entry != NULL;
}

/* The sender has ended: withdraw its message. Returns false if another thread has dequeued it and
 * frees it; its timer is stopped here because the timer's pool may be gone by then. The envelope is
 * prepended to the list; it is not traced any longer, so its `trace` stores the receiver's slot. */
static bool withdraw_send(struct weft__pending_entry *entry, struct weft__link **envelopes)
{
    struct weft__pending_send *send = dequeue_send(entry);
    if (!send) {
        entry->timed = entry->timed && !stop_timer(entry);
        return false;
    }
    struct weft__envelope *envelope = send->sender.envelope;
    weft__envelope_address(envelope, send->sender.to);
    envelope->trace = (uint32_t)send->sender.to.id;
    envelope->link.next = *envelopes;
    *envelopes = &envelope->link;
    return true;
}

static void discard_all(struct weft__link *envelopes)
{
    while (envelopes) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)envelopes;
        envelopes = envelopes->next;
        weft__envelope_discard(envelope, envelope->trace);
    }
}

static void drop_all(weft_pid self)
{
    struct weft__pending_bucket *bucket = bucket_of((uint32_t)self.id);
    struct weft__pending_entry *freeable = NULL, *next;
    struct weft__link *envelopes = NULL;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    for (struct weft__pending_entry *entry = bucket->first; entry; entry = next) {
        next = entry->next;
        if (entry->to.id != self.id) {
            continue;
        }
        if (entry->kind == WEFT__PENDING_SEND && !withdraw_send(entry, &envelopes)) {
            continue;
        }
        remove_entry(bucket, entry);
        if (entry->kind == WEFT__PENDING_FIBER) {
            weft__cancel(entry->fiber, WEFT__IDENT_CANCEL, &ready);
        } else if (stop_timer(entry)) {
            entry->next = freeable;
            freeable = entry;
        }
    }
    weft__unlock(&bucket->lock);
    weft__place_many(&ready);
    discard_all(envelopes);
    while (freeable) {
        next = freeable->next;
        weft__pending_entry_free(freeable);
        freeable = next;
    }
}

/* --- calls without a reply -------------------------------------------------------------------- */

static void end_waits(struct weft__pending_bucket *bucket, uint64_t callee,
                      enum end_cause end_cause)
{
    struct weft__pending_entry *next;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    for (struct weft__pending_entry *entry = bucket->calls; entry; entry = next) {
        next = entry->next_call;
        if (apply_end_cause(entry, callee, end_cause)) {
            remove_wait(bucket, entry);
            weft__node_notify(entry->node, -EOWNERDEAD,
                              &ready); /* unless the deadline came first */
        }
    }
    weft__unlock(&bucket->lock);
    weft__place_many(&ready);
}

#define REFS 64u

static size_t collect(struct weft__callee_index *index, uint64_t callee, enum end_cause end_cause,
                      uint64_t *refs)
{
    size_t n = 0;
    weft__lock(&index->lock);
    for (struct weft__pending_entry *entry = index->first; entry && n < REFS;
         entry = entry->next_call) {
        if (apply_end_cause(entry, callee, end_cause)) {
            refs[n++] = entry->ref;
        }
    }
    weft__unlock(&index->lock);
    return n;
}

static void end_calls(weft_pid self, enum end_cause end_cause)
{
    uint64_t refs[REFS];
    size_t n;
    for (unsigned i = 0; i < WEFT__CALL_BUCKETS; i++) {
        end_waits(call_bucket(self.id, i), self.id, end_cause);
    }
    do { /* Calls that any thread has settled or transferred are no longer in the list. */
        n = collect(index_of(self.id), self.id, end_cause, refs);
        for (size_t i = 0; i < n; i++) {
            settle_call(refs[i], -EOWNERDEAD, NULL, self.id, end_cause);
        }
    } while (n == REFS);
}

void weft__pending_end_actor(weft_pid self)
{
    drop_all(self);
    end_calls(self, BY_END);
}

static bool has_pending(weft_pid self)
{
    const weft_actor *actor = weft__actor_of(self);
    return actor && atomic_load_explicit(&actor->admission, memory_order_relaxed) &
                        WEFT__ADMISSION_HAS_PENDING;
}

void weft__pending_upgrade_begin(weft_pid self)
{
    if (has_pending(self)) {
        end_calls(self, RESET_KEPT);
    }
}

void weft__pending_upgrade_end(weft_pid self)
{
    if (has_pending(self)) {
        end_calls(self, BY_UPGRADE);
    }
}

static void mark(struct weft__pending_entry *entry, bool kept)
{
    struct weft__callee_index *index = entry->index;
    if (index) {
        weft__lock(&index->lock);
    }
    entry->seen = true;
    entry->kept = kept;
    if (index) {
        weft__unlock(&index->lock);
    }
}

static struct weft__pending_entry *find_call(const struct weft__pending_bucket *bucket,
                                             uint64_t ref)
{
    struct weft__pending_entry *entry = find(bucket, ref);
    bool is_call =
        entry && (entry->kind == WEFT__PENDING_CALL || entry->kind == WEFT__PENDING_WAIT);
    return is_call ? entry : NULL;
}

void weft__pending_mark_seen(uint64_t ref)
{
    struct weft__pending_bucket *bucket = bucket_of(ref);
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = find_call(bucket, ref);
    if (entry) {
        mark(entry, entry->kept); /* a callee it was transferred to may have kept it */
    }
    weft__unlock(&bucket->lock);
}

static bool move_to(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry,
                    uint64_t callee, struct weft__callee_index *index)
{
    entry->callee = callee;
    entry->index = index;
    return link_callee(bucket, entry);
}

/* While the call is between two lists no end finds it: if both callees have ended, it ends here. */
static int transfer_locked(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry,
                           weft_pid to, bool *lost)
{
    uint64_t former = entry->callee;
    struct weft__callee_index *index = entry->index;
    if (former == to.id) {
        mark(entry, true);
        return 0;
    }
    unlink_callee(entry);
    if (move_to(bucket, entry, to.id, index_of(to.id))) {
        mark(entry, false);
        return 0;
    }
    *lost = !move_to(bucket, entry, former, index);
    return -EOWNERDEAD;
}

int weft__pending_transfer(uint64_t ref, weft_pid to)
{
    struct weft__pending_bucket *bucket = bucket_of(ref);
    bool lost = false;
    int err = -ESRCH;
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = find_call(bucket, ref);
    if (entry) {
        err = transfer_locked(bucket, entry, to, &lost);
    }
    weft__unlock(&bucket->lock);
    if (lost) {
        weft__pending_reply(ref, -EOWNERDEAD, NULL);
    }
    return err;
}
