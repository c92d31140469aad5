/* The pulse: is anybody awake? One word for all workers of the process, and the sleep of the one
 * who watches them.
 *
 * Word: {times a worker awoke:32, resting:1, workers awake:31}. A worker counts as awake from
 * entering its loop until it leaves, but for the time it sleeps in its parker. Whoever awakes while
 * the watcher rests rouses it; both are steps of one word, so one of them sees the other.
 *
 * When the word is read with nobody awake, then every worker in its loop is seen PARKED, and then
 * the word is read again and is the same, no worker runs and none is about to:
 *  - Nobody was awake between the two reads: to awake is counted, and the count only grows.
 *  - One that was told to go on is not seen PARKED. Its word became NOTIFIED before the waker's own
 *    sleep was counted (release), which the first read has seen (acquire). It is EMPTY next; and
 *    PARKED again (release) only after its awakening was counted, which the second read sees if the
 *    look at its parker did (acquire).
 * One seen EMPTY is on its way into its parker or out of it; there is no answer yet.
 */
#ifndef WEFT_SCHED_PULSE_H
#define WEFT_SCHED_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "sched/parker.h"

struct weft__pulse {
    _Atomic(uint64_t) word;
    _Atomic(uint32_t) bell; /* counts the calls of the one who rests */
};

#define WEFT__PULSE_RESTING ((uint64_t)1 << 31)
#define WEFT__PULSE_AWOKEN ((uint64_t)1 << 32)

/* Ends the watcher's rest, if it is still at it. */
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

/* It is about to sleep, or to leave its loop. */
static inline void weft__pulse_asleep(struct weft__pulse *pulse)
{
    atomic_fetch_sub_explicit(&pulse->word, 1, memory_order_release); /* pairs: weft__pulse_read */
}

/* Something changed that the watcher looks at when all are asleep: it looks again. Any thread. */
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

/* To be given to rest; read before the word, and before whatever a call is about. */
static inline uint32_t weft__pulse_bell(struct weft__pulse *pulse)
{
    return atomic_load_explicit(&pulse->bell, memory_order_acquire); /* pairs: weft__pulse_call */
}

/* Sleeps until it is roused or called, or until the time has come; at once returns if the word is
 * no longer the one given. */
void weft__pulse_rest(struct weft__pulse *pulse, uint64_t word, uint32_t bell, int64_t until);
/* Ends a rest, or the next one that was begun with an older bell. Any thread. */
void weft__pulse_call(struct weft__pulse *pulse);

#endif
