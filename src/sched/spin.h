/* Spinning before a sleep, where that has been paying.
 *
 * A thread that sleeps is woken by the kernel, which takes 4 us at best and, where the CPU sleeps
 * too, 25 us and more. Two threads that answer one another at once pay it twice for each answer;
 * spinning, they need less than one microsecond. But a spin that finds nothing is CPU time lost. So
 * nobody spins who has not seen that it would have helped:
 *
 *   asleep  waits that ended within SHORT_NS, TRIAL in a row, begin a trial; a longer one, and it
 *           counts anew;
 *   spins   a hit adds 1 to the score, up to MOST; a miss takes 2. At 0 the spinning is over, and
 *           the next trial needs twice as many short waits as this one, up to 1,024: who is woken
 *           fast and yet never within a spin, as when both are bound to one CPU, pays next to
 *           nothing for finding that out again. A full score makes that good.
 *
 * So spinning goes on while two of three waits are hits, and after the last hand-off at most MOST /
 * 2 spins are lost. A spin ends at once when the thread was preempted in it: others need the CPU.
 *
 * One of these belongs to each thread that is no worker, and one to each dispatcher
 * (sched/rounds.h). Nothing here is shared.
 */
#ifndef WEFT_SCHED_SPIN_H
#define WEFT_SCHED_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"

#define WEFT__SPIN_NS 25000        /* at most */
#define WEFT__SPIN_SHORT_NS 100000 /* a sleep with its wake-ups that spinning might have spared */
#define WEFT__SPIN_MOST 8
#define WEFT__SPIN_TRIAL 4u
#define WEFT__SPIN_DOUBLINGS 8u
#define WEFT__SPIN_GAP_NS 10000 /* between two looks: it was preempted */

struct weft__spin {
    int8_t score;     /* > 0: the next wait spins */
    uint8_t failures; /* trials in a row that came to nothing */
    uint16_t promise; /* short waits in a row */
};

static inline bool weft__spin_pays(const struct weft__spin *spin)
{
    return spin->score > 0;
}

static inline void weft__spin_hit(struct weft__spin *spin)
{
    if (spin->score < WEFT__SPIN_MOST) {
        spin->score++;
    } else {
        spin->failures = 0;
    }
}

static inline void weft__spin_missed(struct weft__spin *spin)
{
    spin->score = (int8_t)(spin->score > 2 ? spin->score - 2 : 0);
    if (!spin->score) {
        spin->promise = 0;
        spin->failures += spin->failures < WEFT__SPIN_DOUBLINGS;
    }
}

/* A wait that did not spin has ended as spinning could have ended it, after so long. */
static inline void weft__spin_slept(struct weft__spin *spin, int64_t ns)
{
    spin->promise = (uint16_t)(ns <= WEFT__SPIN_SHORT_NS ? spin->promise + 1 : 0);
    if (spin->promise >= WEFT__SPIN_TRIAL << spin->failures) {
        spin->score = WEFT__SPIN_TRIAL;
    }
}

/* Between two looks. False: no more; *last, the time of the last look, is now. */
static inline bool weft__spin_on(int64_t *last, int64_t end)
{
    int64_t before = *last;
    weft__cpu_pause();
    *last = weft__clock_ns();
    return *last < end && *last - before < WEFT__SPIN_GAP_NS;
}

/* For a plain thread that begins to wait at `now`: until the word is not 0. False: it is to
 * sleep. */
bool weft__spin_thread(const _Atomic(uint32_t) *word, int64_t now, int64_t deadline);
/* It has slept after all. */
void weft__spin_thread_slept(int64_t ns);

#endif
