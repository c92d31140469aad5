/* Reader slots: units of a shared count that a worker's thread holds without having counted them.
 * Each thread has one slot, in which it publishes the address of the count's word.
 *
 * A slot is written by its thread only, with plain stores. A slot with the address of a word means:
 * the count is one unit higher than the word says. The unit belongs to the fiber that runs: before
 * a fiber is switched away, its unit is added to the word (weft__reader_slot_settle), so the code
 * that runs on a thread need not ask whose unit it is. A thread that reads the count from outside
 * first needs a barrier in the publishing thread (lock/membarrier.h), and reads the slot first and
 * the word second: settling counts before it clears the slot.
 *
 * Slots are never freed, so that any thread may read any of them. Slot 0 belongs to no thread.
 */
#ifndef WEFT_WORKER_READER_SLOT_H
#define WEFT_WORKER_READER_SLOT_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__READER_SLOTS 128u
#define WEFT__READER_SLOT_TAG 4u    /* tag of a slot = its index times this */
#define WEFT__READER_SLOT_UNIT 512u /* what a slot stands for in the word */

struct weft__reader_slot {
    alignas(WEFT__CACHE_LINE) _Atomic(_Atomic(uint64_t) *) word; /* NULL: nothing */
    uint64_t tag;                /* immutable once the slot was taken for the first time */
    struct weft__worker *worker; /* whose thread it is; read by that thread only */
    _Atomic(uint32_t) taken;
};

extern struct weft__reader_slot weft__reader_slots[WEFT__READER_SLOTS];

/* The calling thread's slot, or one whose tag belongs to no slot. Must not be kept across a switch,
 * nor be used in a function that switches or is inlined into others. */
#ifdef WEFT_EXPLORE
struct weft__reader_slot *weft__reader_slot_self(void);
void weft__reader_slot_set_self(struct weft__reader_slot *reader_slot);
#else
extern _Thread_local struct weft__reader_slot *weft__reader_slot_own
    __attribute__((tls_model("initial-exec")));
static inline struct weft__reader_slot *weft__reader_slot_self(void)
{
    return weft__reader_slot_own;
}
#endif

static inline struct weft__reader_slot *weft__reader_slot_tagged(uint64_t tag)
{
    return &weft__reader_slots[tag / WEFT__READER_SLOT_TAG];
}

/* Takes a slot for the calling thread; NULL: none is left. */
struct weft__reader_slot *weft__reader_slot_open(struct weft__worker *worker);
/* By its thread; NULL: none was opened. */
void weft__reader_slot_close(struct weft__reader_slot *reader_slot);

/* By its thread: the word in the slot; NULL: not in use. */
static inline _Atomic(uint64_t) *weft__reader_slot_word(const struct weft__reader_slot *reader_slot)
{
    return atomic_load_explicit(&reader_slot->word, memory_order_relaxed);
}

/* Release, also for the published unit: a thread that reads the slot later sees what was done
 * before. pairs: weft__reader_slot_has */
static inline void weft__reader_slot_set(struct weft__reader_slot *reader_slot,
                                         _Atomic(uint64_t) *word)
{
    atomic_store_explicit(&reader_slot->word, word, memory_order_release);
}

/* Any thread. */
static inline bool weft__reader_slot_has(const struct weft__reader_slot *reader_slot,
                                         const _Atomic(uint64_t) *word)
{
    return atomic_load_explicit(&reader_slot->word, memory_order_acquire) ==
           word; /* pairs: weft__reader_slot_set */
}

/* By its thread, before the running fiber is switched away. */
static inline void weft__reader_slot_settle(struct weft__reader_slot *reader_slot)
{
    _Atomic(uint64_t) *word = reader_slot ? weft__reader_slot_word(reader_slot) : NULL;
    if (__builtin_expect(word != NULL, 0)) {
        /* Release: as if the unit had been counted from the beginning. pairs: readers of the
         * word */
        atomic_fetch_add_explicit(word, WEFT__READER_SLOT_UNIT, memory_order_release);
        weft__reader_slot_set(reader_slot, NULL);
    }
}

#endif
