/* Inside the pending table: what pending.c, pending_slot.c and pending_call.c share. The table and
 * its rules are in mailbox/pending.h; all other files include only that.
 *
 *     pending_slot.c   slots: the reference of an entry, and the entry of a reference
 *     pending_call.c   calls without a reply: linked to their callees, settled, transferred
 *     pending.c        entries: added, removed, fired by their timers; pending sends
 *
 * Every function here that takes a bucket, or an entry in the table, is called under the bucket's
 * lock. A slot is assigned when its entry is added and freed when the entry is removed; in between
 * its `ref` equals the entry's. The functions on slots are inline because a call by a fiber, the
 * most frequent entry, consists of little else.
 */
#ifndef WEFT_MAILBOX_PENDING_TABLE_H
#define WEFT_MAILBOX_PENDING_TABLE_H

#include "mailbox/pending.h"

/* --- pending_slot.c --------------------------------------------------------------------------- */

#define WEFT__PENDING_NO_SLOT UINT32_MAX
#define WEFT__PENDING_TURN ((uint64_t)1 << 32) /* one turn of a slot, in a reference */

static inline struct weft__pending_bucket *weft__pending_bucket_of(uint64_t ref)
{
    return &weft__pending_buckets[ref % WEFT__PENDING_BUCKETS];
}

static inline struct weft__pending_slot *
weft__pending_slot_at(const struct weft__pending_bucket *bucket, uint32_t at)
{
    return &atomic_load_explicit(&bucket->slots, memory_order_relaxed)->at[at];
}

/* No slot is free: return the index of a new one. WEFT__PENDING_NO_SLOT if there is no memory. */
uint32_t weft__pending_take_new_slot(struct weft__pending_bucket *bucket);

/* Assign a slot and with it a reference. Returns false if there is no memory. */
static inline bool weft__pending_assign_ref(struct weft__pending_bucket *bucket,
                                            struct weft__pending_entry *entry)
{
    uint32_t at = bucket->free - 1;
    if (__builtin_expect(!bucket->free, 0) &&
        (at = weft__pending_take_new_slot(bucket)) == WEFT__PENDING_NO_SLOT) {
        return false;
    }
    struct weft__pending_slot *slot = weft__pending_slot_at(bucket, at);
    bucket->free = slot->next_free; /* 0 for a new slot */
    slot->entry = entry;
    entry->ref = atomic_load_explicit(&slot->ref, memory_order_relaxed);
    return true;
}

static inline struct weft__pending_entry *
weft__pending_find(const struct weft__pending_bucket *bucket, uint64_t ref)
{
    uint32_t slot = weft__pending_ref_slot(ref);
    struct weft__pending_entry *entry =
        slot < bucket->used ? weft__pending_slot_at(bucket, slot)->entry : NULL;
    return entry && entry->ref == ref ? entry : NULL;
}

static inline void weft__pending_free_slot(struct weft__pending_bucket *bucket, uint64_t ref)
{
    uint32_t at = weft__pending_ref_slot(ref);
    struct weft__pending_slot *slot = weft__pending_slot_at(bucket, at);
    slot->entry = NULL;
    ref += WEFT__PENDING_TURN;
    atomic_store_explicit(&slot->ref, ref, memory_order_relaxed);
    if (__builtin_expect(ref >= WEFT__PENDING_TURN, 1)) { /* otherwise the slot is used up */
        slot->next_free = bucket->free;
        bucket->free = at + 1;
    }
}

/* --- pending_call.c --------------------------------------------------------------------------- */

/* Link the call so that the end of the callee finds it. Returns false if the callee has ended. */
bool weft__pending_link_callee(struct weft__pending_bucket *bucket,
                               struct weft__pending_entry *entry);
void weft__pending_unlink_callee(struct weft__pending_entry *entry);
/* Remove a call by a fiber or thread. */
void weft__pending_remove_wait(struct weft__pending_bucket *bucket,
                               struct weft__pending_entry *entry);
/* The callee has ended: end the calls it has not answered. Takes the locks. */
void weft__pending_end_calls(weft_pid callee);
#ifdef WEFT_EXPLORE
void weft__pending_reset_calls(void);
#endif

/* --- pending.c -------------------------------------------------------------------------------- */

/* Remove an entry of any kind. */
void weft__pending_remove_entry(struct weft__pending_bucket *bucket,
                                struct weft__pending_entry *entry);
/* After the removal, still under the lock: may the entry be freed? If not, its callback has started
 * and frees it. */
bool weft__pending_stop_timer(struct weft__pending_entry *entry);
/* Send to the actor, unless it has ended. Takes the envelope. Called without a lock. */
void weft__pending_send_to(weft_pid to, struct weft__envelope *envelope);

#endif
