/* Reader slots: units of a shared count that a worker's thread holds without having counted them.
 * Each thread has one slot, in which it publishes the address of the count's word.
 *
 * A slot is written by its thread only, with plain stores. A slot with the address of a word means:
 * the count is one unit higher than the word says. The unit belongs to the fiber that runs: before
 * a fiber is switched away, its unit is added to the word (weft__show_settle), so the code that
 * runs on a thread need not ask whose unit it is. A thread that reads the count from outside first
 * needs a barrier in the publishing thread (base/membarrier.h), and reads the slot first and the
 * word second: settling counts before it clears the slot.
 *
 * Slots are never freed, so that any thread may read any of them. Slot 0 belongs to no thread.
 */
#ifndef WEFT_SCHED_SHOW_H
#define WEFT_SCHED_SHOW_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__SHOW_SLOTS 128u
#define WEFT__SHOW_TAG 4u    /* tag of a slot = its index times this */
#define WEFT__SHOW_UNIT 512u /* what a slot stands for in the word */

struct weft__show {
    alignas(WEFT__CACHE_LINE) _Atomic(_Atomic(uint64_t) *) word; /* NULL: nothing */
    uint64_t tag;                /* immutable once the slot was taken for the first time */
    struct weft__worker *worker; /* whose thread it is; read by that thread only */
    _Atomic(uint32_t) taken;
};

extern struct weft__show weft__shows[WEFT__SHOW_SLOTS];

/* The calling thread's slot, or one whose tag belongs to no slot. Must not be kept across a switch,
 * nor be used in a function that switches or is inlined into others. */
#ifdef WEFT_EXPLORE
struct weft__show *weft__show_self(void);
void weft__show_set_self(struct weft__show *show);
#else
extern _Thread_local struct weft__show *weft__show_own __attribute__((tls_model("initial-exec")));
static inline struct weft__show *weft__show_self(void)
{
    return weft__show_own;
}
#endif

static inline struct weft__show *weft__show_tagged(uint64_t tag)
{
    return &weft__shows[tag / WEFT__SHOW_TAG];
}

/* Takes a slot for the calling thread; NULL: none is left. */
struct weft__show *weft__show_open(struct weft__worker *worker);
/* By its thread; NULL: none was opened. */
void weft__show_close(struct weft__show *show);

/* By its thread: the word in the slot; NULL: not in use. */
static inline _Atomic(uint64_t) *weft__show_local(const struct weft__show *show)
{
    return atomic_load_explicit(&show->word, memory_order_relaxed);
}

/* Release, also for the published unit: a thread that reads the slot later sees what was done
 * before. pairs: weft__show_is */
static inline void weft__show_set(struct weft__show *show, _Atomic(uint64_t) *word)
{
    atomic_store_explicit(&show->word, word, memory_order_release);
}

/* Any thread. */
static inline bool weft__show_is(const struct weft__show *show, const _Atomic(uint64_t) *word)
{
    return atomic_load_explicit(&show->word, memory_order_acquire) ==
           word; /* pairs: weft__show_set */
}

/* By its thread, before the running fiber is switched away. */
static inline void weft__show_settle(struct weft__show *show)
{
    _Atomic(uint64_t) *word = show ? weft__show_local(show) : NULL;
    if (__builtin_expect(word != NULL, 0)) {
        /* Release: as if the unit had been counted from the beginning. pairs: readers of the
         * word */
        atomic_fetch_add_explicit(word, WEFT__SHOW_UNIT, memory_order_release);
        weft__show_set(show, NULL);
    }
}

#endif
