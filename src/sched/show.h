/* What a worker's thread has taken of a shared count without counting: one slot per thread, in
 * which the thread shows the address of the count's word.
 *
 * A slot is written by its thread alone, with plain stores, and says: one more unit than the word
 * does. It speaks of what runs: before a fiber is switched away its unit is counted for good
 * (weft__show_settle), so whoever runs on a thread need not ask whose the unit is. Who reads the
 * count from outside needs a barrier in the showing thread first (base/membarrier.h), and looks at
 * the slot first and at the word second: settling counts before it clears the slot.
 *
 * Slots live for ever, so that anybody may look at any of them. Slot 0 is nobody's.
 */
#ifndef WEFT_SCHED_SHOW_H
#define WEFT_SCHED_SHOW_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__SHOW_SLOTS 128u
#define WEFT__SHOW_TAG 4u    /* a slot's number, times this, is its tag */
#define WEFT__SHOW_UNIT 512u /* what a slot stands for in the word */

struct weft__show {
    alignas(WEFT__CACHE_LINE) _Atomic(_Atomic(uint64_t) *) word; /* NULL: nothing */
    uint64_t tag;                /* immutable once the slot was ever taken */
    struct weft__worker *worker; /* whose thread it is; for that thread */
    _Atomic(uint32_t) taken;
};

extern struct weft__show weft__shows[WEFT__SHOW_SLOTS];

/* The calling thread's slot, or one that has no slot's tag. Not kept across a switch, nor used in a
 * function that switches or is inlined into others. */
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

/* Makes sure that the calling thread has a slot; NULL: there is none left. */
struct weft__show *weft__show_open(struct weft__worker *worker);
/* By its thread; NULL: none was opened. */
void weft__show_close(struct weft__show *show);

/* By its thread: is it in use? */
static inline _Atomic(uint64_t) *weft__show_local(const struct weft__show *show)
{
    return atomic_load_explicit(&show->word, memory_order_relaxed);
}

/* Release, also of what is shown: a later look at the slot finds what was done before. pairs:
 * weft__show_is */
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

/* By its thread, before what runs is switched away. */
static inline void weft__show_settle(struct weft__show *show)
{
    _Atomic(uint64_t) *word = show ? weft__show_local(show) : NULL;
    if (__builtin_expect(word != NULL, 0)) {
        /* Release: as if it had been counted from the first. pairs: who reads the word */
        atomic_fetch_add_explicit(word, WEFT__SHOW_UNIT, memory_order_release);
        weft__show_set(show, NULL);
    }
}

#endif
