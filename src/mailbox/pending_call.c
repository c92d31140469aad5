/* Calls without a reply: the entries of the pending table that a callee has to answer.
 *
 * A call is linked to its callee, in a list of its bucket or of an index by callee
 * (mailbox/pending.h says which). Four events settle it: the reply, the end or upgrade of the
 * callee, the deadline, the end of the caller. Each removes the entry under the bucket's lock, and
 * only the one that finds it settles it.
 *
 *     end of the callee                          caller
 *     1. closes its admission word               1. under the lock of the list: sets HAS_PENDING
 *     2. if HAS_PENDING was set, walks the          in the admission word, unless it is set; this
 *        lists under their locks                    fails if the word is closed
 *                                                2. links the call, under the same lock
 *
 * So either the caller learns that the callee has ended, or the end finds the call. A thread that
 * walks an index collects references, not entries, and settles them after the index's lock is
 * released: a bucket's lock is taken before that of an index. By then a call may have been answered
 * or transferred, so settle_call checks the callee again.
 *
 * A transfer unlinks the call from one callee and links it to another, under the bucket's lock.
 */
#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "mailbox/pending_table.h"

#ifdef WEFT_EXPLORE
#define INDEXES 2u
#else
#define INDEXES 1024u
#endif

/* The calls of steps, and transferred calls, by the slot of their callee. */
struct weft__callee_index {
    alignas(WEFT__CACHE_LINE) struct weft__lock lock;
    struct weft__pending_entry *first; /* under the lock */
};
static struct weft__callee_index indexes[INDEXES];

#ifdef WEFT_EXPLORE
void weft__pending_reset_calls(void)
{
    memset(indexes, 0, sizeof indexes);
}
#endif

static struct weft__callee_index *index_of(uint64_t callee)
{
    return &indexes[(uint32_t)callee % INDEXES];
}

/* The buckets of fibers and threads that wait for a reply from this actor. */
static struct weft__pending_bucket *call_bucket(uint64_t callee, unsigned stripe)
{
    return weft__pending_bucket_of((uint32_t)callee +
                                   stripe * (WEFT__PENDING_BUCKETS / WEFT__CALL_BUCKETS));
}

/* --- calls and their callees, under the bucket's lock ----------------------------------------- */

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

bool weft__pending_link_callee(struct weft__pending_bucket *bucket,
                               struct weft__pending_entry *entry)
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

inline void weft__pending_unlink_callee(struct weft__pending_entry *entry)
{
    if (__builtin_expect(!entry->index, 1)) {
        unlink_call(entry);
    } else {
        unlink_indexed(entry);
    }
}

inline void weft__pending_remove_wait(struct weft__pending_bucket *bucket,
                                      struct weft__pending_entry *entry)
{
    if (__builtin_expect(entry->linked, 1)) {
        weft__pending_unlink_callee(entry);
    }
    weft__pending_free_slot(bucket, entry->ref);
    entry->ref = 0;
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

int weft__pending_add_wait(struct weft__pending_entry *entry, weft_actor *callee, uint64_t *ref)
{
    unsigned stripe = (uint32_t)((uintptr_t)entry >> 12) * 0x9E3779B1u >> 30; /* by stack address */
    struct weft__pending_bucket *bucket = call_bucket(entry->callee, stripe);
    int err = 0;
    weft__lock(&bucket->lock);
    if (__builtin_expect(!link_if_live(&bucket->calls, entry, callee), 0)) {
        err = -ESRCH;
    } else if (__builtin_expect(!weft__pending_assign_ref(bucket, entry), 0)) {
        unlink_call(entry);
        err = -ENOMEM;
    }
    *ref = entry->ref;
    weft__unlock(&bucket->lock);
    return err;
}

_Static_assert(WEFT__CALL_BUCKETS == 4, "two bits of a hash");

/* --- settling a call -------------------------------------------------------------------------- */

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
    struct weft__pending_bucket *bucket = weft__pending_bucket_of(ref);
    struct weft__envelope *envelope = NULL;
    struct weft__chain ready;
    weft_pid to = {0};
    bool delivered = false, freeable = false;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = weft__pending_find(bucket, ref);
    if (callee && entry && !apply_end_cause(entry, callee, end_cause)) {
        entry = NULL;
    }
    if (entry && entry->kind == WEFT__PENDING_WAIT) {
        weft__pending_remove_wait(bucket, entry);
        delivered = weft__node_fire(entry->node, buf, error, &ready);
    } else if (entry && entry->kind == WEFT__PENDING_CALL) {
        weft__pending_remove_entry(bucket, entry);
        to = entry->to;
        envelope = entry->envelope;
        entry->envelope = NULL;
        freeable = weft__pending_stop_timer(entry);
        delivered = true;
    }
    weft__unlock(&bucket->lock);
    weft__place_all(&ready, WEFT__BACK);
    if (freeable) {
        weft__pending_entry_free(entry);
    }
    if (envelope) {
        envelope->error = error;
        envelope->buf = buf;
        weft__pending_send_to(to, envelope);
    } else if (!delivered) {
        weft_buf_free(buf);
    }
    return delivered;
}

bool weft__pending_reply(uint64_t ref, int error, weft_buf *buf)
{
    return settle_call(ref, error, buf, 0, BY_END);
}

/* --- the end and the upgrade of a callee ------------------------------------------------------ */

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
            weft__pending_remove_wait(bucket, entry);
            weft__node_notify(entry->node, -EOWNERDEAD,
                              &ready); /* unless the deadline came first */
        }
    }
    weft__unlock(&bucket->lock);
    weft__place_all(&ready, WEFT__BACK);
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

void weft__pending_end_calls(weft_pid callee)
{
    end_calls(callee, BY_END);
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

/* --- which callee is responsible -------------------------------------------------------------- */

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
    struct weft__pending_entry *entry = weft__pending_find(bucket, ref);
    bool is_call =
        entry && (entry->kind == WEFT__PENDING_CALL || entry->kind == WEFT__PENDING_WAIT);
    return is_call ? entry : NULL;
}

void weft__pending_mark_seen(uint64_t ref)
{
    struct weft__pending_bucket *bucket = weft__pending_bucket_of(ref);
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
    return weft__pending_link_callee(bucket, entry);
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
    weft__pending_unlink_callee(entry);
    if (move_to(bucket, entry, to.id, index_of(to.id))) {
        mark(entry, false);
        return 0;
    }
    *lost = !move_to(bucket, entry, former, index);
    return -EOWNERDEAD;
}

int weft__pending_transfer(uint64_t ref, weft_pid to)
{
    struct weft__pending_bucket *bucket = weft__pending_bucket_of(ref);
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
