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
#ifndef WEFT_SCHED_PULSE_H
#define WEFT_SCHED_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "sched/parker.h"

struct weft__pulse {
    _Atomic(uint64_t) word;
    _Atomic(uint32_t) bell; /* incremented to wake the watcher */
};

#define WEFT__PULSE_RESTING ((uint64_t)1 << 31)
#define WEFT__PULSE_AWOKEN ((uint64_t)1 << 32)

/* Wakes the watcher, if it still waits. */
void weft__pulse_rouse(struct weft__pulse *pulse);

/* A worker's thread is about to run something. */
static inline void weft__pulse_awake(struct weft__pulse *pulse)
{
    /* Relaxed: the worker's next park releases it. */
    uint64_t before =
        atomic_fetch_add_explicit(&pulse->word, WEFT__PULSE_AWOKEN + 1, memory_order_relaxed);
    if (__builtin_expect((before & WEFT__PULSE_RESTING) != 0, 0)) {
        weft__pulse_rouse(pulse);
    }
}

/* The thread is about to sleep or to leave its loop. */
static inline void weft__pulse_asleep(struct weft__pulse *pulse)
{
    atomic_fetch_sub_explicit(&pulse->word, 1, memory_order_release); /* pairs: weft__pulse_read */
}

/* The state has changed that the watcher inspects when all workers are asleep: it inspects it
 * again. Any thread. */
void weft__pulse_changed(struct weft__pulse *pulse);

/* --- the watcher ----------------------------------------------------------- */

static inline uint64_t weft__pulse_read(struct weft__pulse *pulse)
{
    return atomic_load_explicit(&pulse->word, memory_order_acquire); /* pairs: asleep, changed */
}

static inline bool weft__pulse_all_asleep(uint64_t word)
{
    return (word & (WEFT__PULSE_RESTING - 1)) == 0;
}

static inline bool weft__pulse_parked(const struct weft__parker *parker)
{
    return atomic_load_explicit(&parker->word, memory_order_acquire) == /* pairs: park */
           WEFT__PARKER_PARKED;
}

/* The value to pass to weft__pulse_rest; to be read before the word, and before the state that a
 * call reports. */
static inline uint32_t weft__pulse_bell(struct weft__pulse *pulse)
{
    return atomic_load_explicit(&pulse->bell, memory_order_acquire); /* pairs: weft__pulse_call */
}

/* Sleeps until it is woken or called, or until the time has come; returns at once if the word is no
 * longer the given one. */
void weft__pulse_rest(struct weft__pulse *pulse, uint64_t word, uint32_t bell, int64_t until);
/* Ends the sleep, or the next one if it is begun with an older `bell` value. Any thread. */
void weft__pulse_call(struct weft__pulse *pulse);

#endif
