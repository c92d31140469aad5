/* Adaptive spinning before a sleep.
 *
 * A thread that sleeps is woken by the kernel, which takes 4 us at best and, where the CPU sleeps
 * too, 25 us and more. Two threads that answer each other at once pay it twice per exchange;
 * spinning, they need less than one microsecond. But a spin that finds nothing is lost CPU time. So
 * a thread spins only after it has seen that spinning would have helped:
 *
 *   asleep  TRIAL waits in a row that ended within SHORT_NS begin a trial; a longer wait starts the
 *           count again;
 *   spins   a hit adds 1 to the score, up to MOST; a miss subtracts 2. At 0 the spinning ends, and
 *           the next trial needs twice as many short waits as this one, up to 1,024: a thread that
 *           is woken fast and yet never within a spin, as when both are bound to one CPU, pays next
 *           to nothing for finding that out again. A full score resets this.
 *
 * So spinning continues while two of three waits are hits, and after the last hand-off at most MOST
 * / 2 spins are lost. A spin ends at once if the thread was preempted in it: other threads need the
 * CPU.
 *
 * Each thread that is not a worker has one of these, and each dispatcher (sched/group_scheduler.h).
 * Nothing here is shared.
 */
#ifndef WEFT_IDLE_SPIN_H
#define WEFT_IDLE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"

#define WEFT__SPIN_NS 25000        /* at most */
#define WEFT__SPIN_SHORT_NS 100000 /* a sleep, with its wake-ups, that a spin might have replaced */
#define WEFT__SPIN_MAX_SCORE 8
#define WEFT__SPIN_TRIAL 4u
#define WEFT__SPIN_DOUBLINGS 8u
#define WEFT__SPIN_GAP_NS 10000 /* more between two checks: it was preempted */

struct weft__spin {
    int8_t score;         /* > 0: the next wait spins */
    uint8_t failures;     /* consecutive failed trials */
    uint16_t short_waits; /* consecutive short waits */
};

static inline bool weft__spin_is_worthwhile(const struct weft__spin *spin)
{
    return spin->score > 0;
}

static inline void weft__spin_hit(struct weft__spin *spin)
{
    if (spin->score < WEFT__SPIN_MAX_SCORE) {
        spin->score++;
    } else {
        spin->failures = 0;
    }
}

static inline void weft__spin_missed(struct weft__spin *spin)
{
    spin->score = (int8_t)(spin->score > 2 ? spin->score - 2 : 0);
    if (!spin->score) {
        spin->short_waits = 0;
        spin->failures += spin->failures < WEFT__SPIN_DOUBLINGS;
    }
}

/* A wait that did not spin, and that a spin could have replaced, has ended after `ns`. */
static inline void weft__spin_slept(struct weft__spin *spin, int64_t ns)
{
    spin->short_waits = (uint16_t)(ns <= WEFT__SPIN_SHORT_NS ? spin->short_waits + 1 : 0);
    if (spin->short_waits >= WEFT__SPIN_TRIAL << spin->failures) {
        spin->score = WEFT__SPIN_TRIAL;
    }
}

/* Pauses between two checks. False: stop spinning; *last becomes the current time. */
static inline bool weft__spin_pause(int64_t *last, int64_t end)
{
    int64_t before = *last;
    weft__cpu_pause();
    *last = weft__clock_ns();
    return *last < end && *last - before < WEFT__SPIN_GAP_NS;
}

/* For a plain thread that begins to wait at `now`: spins until the word is not 0. False: the thread
 * has to sleep. */
bool weft__spin_thread(const _Atomic(uint32_t) *word, int64_t now, int64_t deadline);
/* The thread has slept after all. */
void weft__spin_thread_slept(int64_t ns);

#endif
