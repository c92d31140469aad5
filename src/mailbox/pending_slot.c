/* Slots of the pending table: memory for them, one array per bucket.
 *
 * An array doubles when all its slots are in use, and is never freed, so that weft__pending_has may
 * read a reference without the lock, also in an array that was replaced. Slots are taken from the
 * bucket's list of free slots first (mailbox/pending_table.h); a new slot starts with turn 1, so no
 * reference is 0. At most 2^20 slots per bucket fit into a reference.
 */
#include <string.h>

#include "base/alloc.h"
#include "mailbox/pending_table.h"

#define MAX_SLOTS (1u << WEFT__PENDING_SLOT_BITS)
#define FIRST_SLOTS 8u

struct weft__pending_bucket weft__pending_buckets[WEFT__PENDING_BUCKETS];

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
    weft__pending_reset_calls();
}
#endif

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

uint32_t weft__pending_take_new_slot(struct weft__pending_bucket *bucket)
{
    if (bucket->used == bucket->capacity && !grow(bucket)) {
        return WEFT__PENDING_NO_SLOT;
    }
    uint32_t at = bucket->used++;
    atomic_store_explicit(&weft__pending_slot_at(bucket, at)->ref,
                          WEFT__PENDING_TURN | at << WEFT__PENDING_BUCKET_BITS |
                              (uint32_t)(bucket - weft__pending_buckets),
                          memory_order_relaxed);
    return at;
}
