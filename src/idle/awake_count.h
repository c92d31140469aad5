/* The number of workers that are awake: one word for all workers of the process, and the sleep of
 * the watchdog thread (the watcher), which waits until a worker wakes up.
 *
 * Word: {wake-ups of workers:32, watcher waits:1, workers awake:31}. A worker counts as awake from
 * entering its loop until it leaves, except while it sleeps in its parker. A worker that wakes up
 * while the watcher waits wakes the watcher; both are steps on one word, so one of them sees the
 * other.
 *
 * If the word is read with no worker awake, then every worker in its loop is seen PARKED, and then
 * the word is read again with the same value, then no worker runs and none is about to:
 * - No worker was awake between the two reads: every wake-up is counted, and the count only grows.
 * - A worker that has been notified is not seen PARKED. Its parker became NOTIFIED before the
 *   waker's own sleep was counted (release), which the first read has seen (acquire). It is EMPTY
 *   next; and PARKED again (release) only after its wake-up was counted, which the second read sees
 *   if the check of its parker did (acquire).
 * A worker seen EMPTY is entering or leaving its parker; there is no answer yet.
 */
#ifndef WEFT_IDLE_AWAKE_COUNT_H
#define WEFT_IDLE_AWAKE_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "idle/parker.h"

struct weft__awake_count {
    _Atomic(uint64_t) word;
    _Atomic(uint32_t) doorbell; /* incremented to wake the watcher */
};

/* The count of this process. */
extern struct weft__awake_count weft__awake_count;

#define WEFT__AWAKE_COUNT_WAITING ((uint64_t)1 << 31)
#define WEFT__AWAKE_COUNT_WAKEUP ((uint64_t)1 << 32)

/* Wakes the watcher, if it still waits. */
void weft__awake_count_wake_watcher(struct weft__awake_count *awake);

/* A worker's thread is about to run something. */
static inline void weft__awake_count_inc(struct weft__awake_count *awake)
{
    /* Relaxed: the worker's next park releases it. */
    uint64_t before =
        atomic_fetch_add_explicit(&awake->word, WEFT__AWAKE_COUNT_WAKEUP + 1, memory_order_relaxed);
    if (__builtin_expect((before & WEFT__AWAKE_COUNT_WAITING) != 0, 0)) {
        weft__awake_count_wake_watcher(awake);
    }
}

/* The thread is about to sleep or to leave its loop. */
static inline void weft__awake_count_dec(struct weft__awake_count *awake)
{
    atomic_fetch_sub_explicit(&awake->word, 1,
                              memory_order_release); /* pairs: weft__awake_count_read */
}

/* The state has changed that the watcher inspects when all workers are asleep: it inspects it
 * again. Any thread. */
void weft__awake_count_invalidate(struct weft__awake_count *awake);

/* --- the watcher ----------------------------------------------------------- */

static inline uint64_t weft__awake_count_read(struct weft__awake_count *awake)
{
    return atomic_load_explicit(&awake->word, memory_order_acquire); /* pairs: asleep, changed */
}

static inline bool weft__awake_count_is_zero(uint64_t word)
{
    return (word & (WEFT__AWAKE_COUNT_WAITING - 1)) == 0;
}

static inline bool weft__awake_count_is_parked(const struct weft__parker *parker)
{
    return atomic_load_explicit(&parker->word, memory_order_acquire) == /* pairs: park */
           WEFT__PARKER_PARKED;
}

/* The value to pass to weft__awake_count_wait; to be read before the word, and before the state
 * that a call reports. */
static inline uint32_t weft__awake_count_doorbell(struct weft__awake_count *awake)
{
    return atomic_load_explicit(&awake->doorbell,
                                memory_order_acquire); /* pairs: weft__awake_count_ring */
}

/* Sleeps until it is woken or called, or until the time has come; returns at once if the word is no
 * longer the given one. */
void weft__awake_count_wait(struct weft__awake_count *awake, uint64_t word, uint32_t doorbell,
                            int64_t until);
/* Ends the sleep, or the next one if it is begun with an older `doorbell` value. Any thread. */
void weft__awake_count_ring(struct weft__awake_count *awake);

#endif
