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
 * CONTENDED is cleared: what its sender sends later arrives later. mailbox/admission.h says which
 * threads give the places and how many. It need not be the actor, which may end meanwhile: then the
 * exchange on its word fails, and its end rejects the senders that remain.
 */
#include "mailbox/admission.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "mailbox/mailbox.h"
#include "mailbox/pending_send.h"

#define WAIT_BUCKETS 256u

static struct wait_bucket {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    struct weft__sender *first, *last; /* under the lock */
} wait_buckets[WAIT_BUCKETS];

#ifdef WEFT_EXPLORE /* each execution starts from zero */
void weft__admission_reset(void)
{
    memset(wait_buckets, 0, sizeof wait_buckets);
}
#endif

static struct wait_bucket *wait_bucket_of(uint64_t id)
{
    return &wait_buckets[(uint32_t)id % WAIT_BUCKETS];
}

static void link_last(struct wait_bucket *wait_bucket, struct weft__sender *sender)
{
    sender->linked = true;
    sender->next = NULL;
    sender->prev = wait_bucket->last;
    *(wait_bucket->last ? &wait_bucket->last->next : &wait_bucket->first) = sender;
    wait_bucket->last = sender;
}

static void unlink_sender(struct wait_bucket *wait_bucket, struct weft__sender *sender)
{
    *(sender->prev ? &sender->prev->next : &wait_bucket->first) = sender->next;
    *(sender->next ? &sender->next->prev : &wait_bucket->last) = sender->prev;
    sender->linked = false;
}

/* Return the oldest sender to this actor, or NULL. */
static struct weft__sender *first_to(const struct wait_bucket *wait_bucket, uint64_t id)
{
    struct weft__sender *sender = wait_bucket->first;
    while (sender && sender->to.id != id) {
        sender = sender->next;
    }
    return sender;
}

static bool try_exchange(weft_actor *actor, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&actor->admission, from, to, memory_order_acquire,
                                                 memory_order_relaxed);
}

static bool is_for(uint64_t admission, weft_pid to)
{
    return weft__admission_generation(admission) == weft__pid_generation(to);
}

/* --- queueing --------------------------------------------------------------------------------- */

static int enqueue_locked(weft_actor *actor, struct wait_bucket *wait_bucket,
                          struct weft__sender *sender)
{
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    bool full, drops;
    do {
        if (!is_for(admission, sender->to)) {
            return -ESRCH;
        }
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        full = weft__admission_is_full(admission, limit);
        drops = limit >> WEFT__LIMIT_SHIFT == WEFT_MAILBOX_DROP_OLDEST; /* after an upgrade */
    } while (!try_exchange(actor, &admission,
                           full && !drops ? admission | WEFT__ADMISSION_CONTENDED : admission + 1));
    if (full && !drops) {
        link_last(wait_bucket, sender);
        return WEFT__ADMISSION_QUEUED;
    }
    return full;
}

int weft__admission_enqueue(struct weft__sender *sender)
{
    struct wait_bucket *wait_bucket = wait_bucket_of(sender->to.id);
    weft__lock(&wait_bucket->lock);
    int err = enqueue_locked(weft__actor_find((uint32_t)sender->to.id), wait_bucket, sender);
    weft__unlock(&wait_bucket->lock);
    return err;
}

bool weft__admission_dequeue(struct weft__sender *sender)
{
    struct wait_bucket *wait_bucket = wait_bucket_of(sender->to.id);
    weft__lock(&wait_bucket->lock);
    bool linked = sender->linked;
    if (linked) {
        unlink_sender(wait_bucket, sender);
    }
    weft__unlock(&wait_bucket->lock);
    return linked;
}

static const struct weft__wait_kind capacity_kind = {.name = "capacity of a mailbox"};

int weft__admission_wait(weft_actor *actor, weft_pid to, int64_t deadline)
{
    struct weft__node node;
    struct weft__sender sender = {.to = to, .node = &node};
    struct weft__waiter waiter;
    (void)actor;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    int err = weft__admission_enqueue(&sender);
    if (err != WEFT__ADMISSION_QUEUED) {
        weft__waiter_defer(weft__waiter_disarm(&waiter));
        return err;
    }
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &capacity_kind, 0);
    if (weft__reason_is_done(reason)) {
        return node.status;
    }
    weft__admission_dequeue(&sender);
    return weft__reason_errno(reason);
}

/* --- places ----------------------------------------------------------------------------------- */

int weft__admission_reserve_by_credit(weft_actor *actor, weft_pid to)
{
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_relaxed);
    while (is_for(admission, to)) {
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        bool full = weft__admission_count(admission) >= (limit & WEFT__LIMIT_MAX);
        if (full && limit >> WEFT__LIMIT_SHIFT != WEFT_MAILBOX_DROP_OLDEST) {
            return -ENOBUFS;
        }
        if (try_exchange(actor, &admission, admission + 1)) {
            return full;
        }
    }
    return -ESRCH;
}

/* Subtract the count and clear the bits. Returns the former word; 0: it belongs to another
 * actor. */
static uint64_t subtract(weft_actor *actor, weft_pid to, uint64_t count, uint64_t bits)
{
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_relaxed);
    while (is_for(admission, to)) {
        if (try_exchange(actor, &admission, (admission - count) & ~bits)) {
            return admission;
        }
    }
    return 0;
}

/* --- admitting waiting senders ---------------------------------------------------------------- */

/* What was decided under the lock and is carried out after it is released. */
struct deferred {
    struct weft__chain ready;
    struct weft__sender *sends, **last; /* removed from the queue, oldest first */
    unsigned pushed;
};

static void deferred_init(struct deferred *deferred)
{
    weft__chain_init(&deferred->ready);
    deferred->sends = NULL;
    deferred->last = &deferred->sends;
    deferred->pushed = 0;
}

static void defer_completion(struct deferred *deferred, struct weft__sender *sender)
{
    sender->next = NULL;
    *deferred->last = sender;
    deferred->last = &sender->next;
}

static void complete_sends(struct weft__sender *sends, int error)
{
    while (sends) {
        struct weft__sender *next = sends->next;
        weft__pending_send_complete(weft__pending_send_of(sends), error);
        sends = next;
    }
}

/* The part of the capacity that one credit is expected to use. */
static uint32_t credit_size(uint32_t limit)
{
    uint32_t part = limit / 4 ? limit / 4 : 1;
    return part < WEFT__SEND_CREDIT_MAX ? part : WEFT__SEND_CREDIT_MAX;
}

/* Is there capacity beyond what the outstanding credits are expected to use? If the mailbox is
 * empty, the owners of the credits are too slow to wait for. */
static bool has_capacity(uint64_t admission, uint32_t limit)
{
    uint64_t count = weft__admission_count(admission);
    uint64_t credits = (admission & WEFT__ADMISSION_CREDITS) / WEFT__ADMISSION_CREDIT;
    return count == 0 || count + credits * credit_size(limit) < limit;
}

/* Credits are granted one after another: the owner of one wakes the next sender when it begins to
 * use it. */
static bool can_grant_credit(uint64_t admission)
{
    return !(admission & WEFT__ADMISSION_CREDIT_UNUSED) &&
           (admission & WEFT__ADMISSION_CREDITS) != WEFT__ADMISSION_CREDITS;
}

/* Reserve a place for this sender, and its credit. If the actor drops the oldest message there is
 * always a place, and no sender needs a credit. */
static bool reserve(weft_actor *actor, struct weft__sender *sender, bool drops)
{
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_relaxed);
    uint64_t more = 0;
    bool capacity;
    sender->credit = sender->envelope && !drops;
    if (sender->credit) {
        more = WEFT__ADMISSION_CREDIT + WEFT__ADMISSION_CREDIT_UNUSED;
    }
    do {
        uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed);
        capacity = is_for(admission, sender->to) &&
                   (drops || has_capacity(admission, limit & WEFT__LIMIT_MAX)) &&
                   (!sender->credit || can_grant_credit(admission));
    } while (capacity && !try_exchange(actor, &admission, admission + more + 1));
    return capacity;
}

static void admit(weft_actor *actor, struct wait_bucket *wait_bucket, struct weft__sender *sender,
                  struct deferred *deferred)
{
    unlink_sender(wait_bucket, sender);
    if (sender->envelope) {
        weft__actor_push(actor, sender->to, sender->envelope);
        deferred->pushed++;
        defer_completion(deferred, sender);
    } else if (!weft__node_fire(sender->node, NULL, 0, &deferred->ready)) {
        subtract(actor, sender->to, 1, 0);
    }
}

static void admit_locked(weft_actor *actor, struct wait_bucket *wait_bucket, weft_pid to,
                         bool drops, struct deferred *deferred)
{
    struct weft__sender *sender;
    while ((sender = first_to(wait_bucket, to.id)) && reserve(actor, sender, drops)) {
        admit(actor, wait_bucket, sender, deferred);
    }
    if (!sender) {
        subtract(actor, to, 0, WEFT__ADMISSION_CONTENDED);
    }
}

void weft__admission_admit_waiters(weft_pid to)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    struct wait_bucket *wait_bucket = wait_bucket_of(to.id);
    struct deferred deferred;
    if (!actor) {
        return;
    }
    bool drops = weft__mailbox_is_shared(actor);
    deferred_init(&deferred);
    weft__lock(&wait_bucket->lock);
    admit_locked(actor, wait_bucket, to, drops, &deferred);
    weft__unlock(&wait_bucket->lock);
    weft__place_all(&deferred.ready, WEFT__BACK);
    if (deferred.pushed) {
        weft__actor_wake(actor, to, false);
    }
    for (unsigned i = 0; drops && i < deferred.pushed; i++) {
        weft__mailbox_drop_excess(actor, to);
    }
    complete_sends(deferred.sends, 0);
}

static void change_credits(weft_pid to, uint64_t count, uint64_t bits)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    uint64_t admission = actor ? subtract(actor, to, count, bits) : 0;
    if (admission & WEFT__ADMISSION_CONTENDED) {
        weft__admission_admit_waiters(to);
    }
}

void weft__send_credit_begin(weft_pid to)
{
    change_credits(to, 0, WEFT__ADMISSION_CREDIT_UNUSED);
}

void weft__send_credit_end(weft_pid to)
{
    change_credits(to, WEFT__ADMISSION_CREDIT, 0);
}

void weft__send_credit_drop(weft_pid to)
{
    change_credits(to, WEFT__ADMISSION_CREDIT, WEFT__ADMISSION_CREDIT_UNUSED);
}

void weft__admission_unreserve(weft_pid to)
{
    change_credits(to, 1, 0);
}

static void reject_waiters(uint64_t id)
{
    struct wait_bucket *wait_bucket = wait_bucket_of(id);
    struct deferred deferred;
    struct weft__sender *sender;
    deferred_init(&deferred);
    weft__lock(&wait_bucket->lock);
    while ((sender = first_to(wait_bucket, id))) {
        unlink_sender(wait_bucket, sender);
        if (sender->envelope) {
            defer_completion(&deferred, sender);
        } else {
            weft__node_notify(sender->node, -ESRCH, &deferred.ready);
        }
    }
    weft__unlock(&wait_bucket->lock);
    weft__place_all(&deferred.ready, WEFT__BACK);
    for (sender = deferred.sends; sender; sender = sender->next) {
        weft__envelope_address(sender->envelope, sender->to);
        weft__envelope_discard(sender->envelope, (uint32_t)id);
    }
    complete_sends(deferred.sends, -ESRCH);
}

void weft__admission_settle(weft_pid self, uint64_t admission)
{
    if (admission & WEFT__ADMISSION_CONTENDED) {
        reject_waiters(self.id);
    }
    if (admission & WEFT__ADMISSION_HAS_PENDING) {
        weft__pending_end_actor(self);
    }
}

bool weft__admission_mark_pending(weft_actor *actor, weft_pid self)
{
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    do {
        if (weft__admission_generation(admission) != weft__pid_generation(self)) {
            return false;
        }
    } while (!(admission & WEFT__ADMISSION_HAS_PENDING) &&
             !try_exchange(actor, &admission, admission | WEFT__ADMISSION_HAS_PENDING));
    return true;
}
