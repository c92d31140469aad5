/* The timer wheel: pending timers of one worker, as a hierarchy of wheels.
 *
 * Time is counted in ticks of 2^tick_shift ns; a deadline belongs to the first tick that begins at
 * or after it, so no timer ever fires early. A tick is a number of digits, one per level: the
 * lowest has 14 bits, the others 6. `current` is the tick up to which the wheel has been advanced:
 *
 *   level 2 | level 1 | level 0
 *   --------+---------+--------
 *       3   |   41    |    7       current
 *       3   |   41    |  9000      differs in digit 0: level 0, slot 9000
 *       3   |   50    |   63       digit 1 is the highest that differs: level 1, slot 50
 *       9   |    0    |    1       level 2, slot 9
 *
 * A timer is in the level of the highest digit in which its tick differs from current, in the slot
 * of that digit. 10 levels cover 68 bits, so there is no horizon and no overflow list. Level 0
 * covers about a second: with very many timers, each one is a cache line that is in no cache when
 * the wheel reaches it, so the number of times it is reached matters, and most timers of less than
 * a second never move. (The content of a slot is not read until its bit is set: pages of slots that
 * are not used are never touched.) When current enters a slot of an upper level, its timers move
 * down (they *cascade*), each at most once per level; a level-0 slot is one tick, and expires.
 * Invariants:
 *
 * - Above level 0 the digit of an occupied slot is greater than current's digit there; in level 0
 *   greater or equal (equal: it is due). The one exception is the slot `cascade`, which current has
 *   entered and whose timers have not all moved down yet; no timer is added to that one.
 * - Hence everything in a level is earlier than everything in the levels above, slots never wrap,
 *   and the earliest slot is `cascade`, or else the first bit of the first level that has one.
 * - Let S be the first tick of the earliest slot, and E the tick of the earliest timer (or current,
 *   if it was overdue when added). Then S <= next <= E, in ns; INT64_MAX if nothing is pending. So
 *   next is too early only by the cascading that is still ahead. It is exactly E from the add that
 *   made E the earliest, and when a slot with one timer becomes the earliest: a single sleeper is
 *   woken once.
 * - advance(now) that was not sliced or halted leaves next > now. So polling at next() always makes
 *   progress, and reaches E in at most one step per level.
 *
 * The front: most timers of waits are set and cancelled before any other, so the timer that was
 * added last is not put into its slot at once. It is the front, and next() takes it into account;
 * `next_without_front` is the value of next() without it. If it is cancelled first, that takes two
 * stores. Any other operation settles it, that is, puts it into its slot; the wheel is then as if
 * there had never been a front.
 *
 * Order: by tick. Timers of one tick expire in the order in which they were added, unless a mass
 * cascade was sliced in between.
 *
 * Rejected: levels without cascading (a far deadline is late by up to 1/64 of its delay); a heap
 * (cancel is O(log n) and misses the cache); a list per distinct timeout (deadlines here are
 * absolute and all different).
 */
#ifndef WEFT_TIME_WHEEL_H
#define WEFT_TIME_WHEEL_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "lock/latch.h"

#define WEFT__WHEEL_TICK_SHIFT 16 /* the default tick: 65.5 us */
#ifdef WEFT_EXPLORE
#define WEFT__WHEEL_LOW_BITS 10 /* small: each execution initialises a wheel */
#else
#define WEFT__WHEEL_LOW_BITS 14 /* bits of level 0 */
#endif
#define WEFT__WHEEL_LOW (1u << WEFT__WHEEL_LOW_BITS)
#define WEFT__WHEEL_LOW_WORDS (WEFT__WHEEL_LOW / 64)
#define WEFT__WHEEL_SLOTS 64u  /* per level above: one word of occupancy each */
#define WEFT__WHEEL_LEVELS 10  /* 14 bits and nine times 6: any 64-bit tick */
#define WEFT__WHEEL_MOVES 1024 /* timers that one advance may cascade, unless max is greater */

/* Memory of the caller. In at most one wheel; must not move while pending. */
struct weft__timer {
    /* under the wheel's lock */
    struct weft__timer *next, *prev; /* in its slot, oldest first */
    _Atomic(uint32_t) slot;          /* index over all levels, or one of the two values below */
    int64_t deadline;                /* ns of CLOCK_MONOTONIC, as given */
    /* immutable after init */
    void (*expire)(struct weft__timer *timer, void *arg);
};

#define WEFT__TIMER_IDLE UINT32_MAX
#define WEFT__TIMER_FRONT (UINT32_MAX - 1)

struct weft__wheel_slot {
    struct weft__timer *first, *last;
};

struct weft__wheel {
    /* read by any thread, written under the lock */
    alignas(WEFT__CACHE_LINE) _Atomic(int64_t) next;
    /* immutable after init */
    unsigned tick_shift;
    unsigned moves; /* WEFT__WHEEL_MOVES; smaller in tests */
    /* under the lock */
    alignas(WEFT__CACHE_LINE) struct weft__latch lock;
    uint32_t cascade; /* the slot that is moving down, or WEFT__TIMER_IDLE */
    bool halt;        /* the current advance has to stop, see weft__wheel_halt */
    uint32_t levels;  /* bit set of the levels that have a timer */
    uint64_t current;
    struct weft__timer *front;  /* in no slot yet, or NULL */
    int64_t next_without_front; /* with a front: the value of next() without it */
    /* Bit sets of the occupied slots; for level 0, see the next two. */
    uint64_t occupied[WEFT__WHEEL_LEVELS];
    uint64_t low[WEFT__WHEEL_LOW_WORDS];
    uint64_t low_words[WEFT__WHEEL_LOW_WORDS / 64]; /* which words of `low` are not 0 */
    struct weft__wheel_slot slots[WEFT__WHEEL_LOW + (WEFT__WHEEL_LEVELS - 1) * WEFT__WHEEL_SLOTS];
};

static inline void weft__timer_init(struct weft__timer *timer,
                                    void (*expire)(struct weft__timer *timer, void *arg))
{
    timer->next = timer->prev = NULL;
    timer->deadline = 0;
    timer->expire = expire;
    atomic_init(&timer->slot, WEFT__TIMER_IDLE);
}

/* A hint from any thread; exact for a caller that excludes adds, cancels and advances. */
static inline bool weft__timer_is_pending(const struct weft__timer *timer)
{
    return atomic_load_explicit(&timer->slot, memory_order_relaxed) != WEFT__TIMER_IDLE;
}

/* now >= 0; tick_shift 0..62. There is no deinit: pending timers belong to the callers. */
void weft__wheel_init(struct weft__wheel *wheel, int64_t now, unsigned tick_shift);

/* Any thread. Links an idle timer; borrows it until it expires or is cancelled. Any deadline is
 * allowed: a past one expires at the next advance, one inside the last tick before INT64_MAX
 * only at now == INT64_MAX. True: next() became earlier, so an owner that parked by it has to be
 * woken. */
bool weft__wheel_add(struct weft__wheel *wheel, struct weft__timer *timer, int64_t deadline);

/* Any thread. True: the timer was pending and no longer is; false: it has expired already or was
 * never added. A callback that was running has returned: nothing touches the node after this
 * call. */
bool weft__wheel_cancel(struct weft__wheel *wheel, struct weft__timer *timer);

/* Cancels and adds under one lock, whether or not the timer was pending. True as for add: only if
 * next() is earlier than before the call. */
bool weft__wheel_rearm(struct weft__wheel *wheel, struct weft__timer *timer, int64_t deadline);

/* Any thread: the time before which advance has nothing to do; the exact rule is in the banner.
 * Relaxed. No wake-up is lost if the owner announces that it parks with a read-modify-write
 * (acq_rel) of some word and reads this afterwards, and a thread that got true from add does a
 * read-modify-write of the same word afterwards: the later of the two sees what came before the
 * earlier one. */
static inline int64_t weft__wheel_next(const struct weft__wheel *wheel)
{
    return atomic_load_explicit(&wheel->next, memory_order_relaxed);
}

/* --- for a caller that holds the lock, because it guards data kept beside the node too -------- */

void weft__wheel_flush_front(struct weft__wheel *wheel);
void weft__wheel_remove(struct weft__wheel *wheel, struct weft__timer *timer);

/* The start of the first tick that begins at or after the deadline; the start of the current tick
 * if that is past. */
static inline int64_t weft__wheel_due(const struct weft__wheel *wheel, int64_t deadline)
{
    uint64_t last = ((uint64_t)1 << wheel->tick_shift) - 1;
    uint64_t due = deadline > 0 ? ((uint64_t)deadline + last) & ~last : 0;
    uint64_t now = wheel->current << wheel->tick_shift;
    due = due > now ? due : now;
    return due <= INT64_MAX ? (int64_t)due : INT64_MAX;
}

static inline void weft__wheel_next_set(struct weft__wheel *wheel, int64_t next)
{
    atomic_store_explicit(&wheel->next, next, memory_order_relaxed); /* see weft__wheel_next */
}

/* Like weft__wheel_add. */
static inline bool weft__wheel_add_locked(struct weft__wheel *wheel, struct weft__timer *timer,
                                          int64_t deadline)
{
    WEFT__REQUIRE(!weft__timer_is_pending(timer), "timer added twice");
    if (wheel->front) {
        weft__wheel_flush_front(wheel);
    }
    timer->deadline = deadline;
    atomic_store_explicit(&timer->slot, WEFT__TIMER_FRONT, memory_order_relaxed);
    wheel->front = timer;
    wheel->next_without_front = weft__wheel_next(wheel);
    int64_t due = weft__wheel_due(wheel, deadline);
    bool earlier = due < wheel->next_without_front;
    if (earlier) {
        weft__wheel_next_set(wheel, due);
    }
    return earlier;
}

/* The timer is pending. */
static inline void weft__wheel_cancel_locked(struct weft__wheel *wheel, struct weft__timer *timer)
{
    if (timer != wheel->front) {
        weft__wheel_remove(wheel, timer);
        return;
    }
    wheel->front = NULL;
    atomic_store_explicit(&timer->slot, WEFT__TIMER_IDLE, memory_order_relaxed);
    weft__wheel_next_set(wheel, wheel->next_without_front);
}

/* Any thread. Not by next(): a timer for the end of time is pending too. */
bool weft__wheel_is_empty(struct weft__wheel *wheel);

/* next() in the total order of seq_cst, for two sides that share no common word: one side stores
 * next() (add) and orders it (publish) before it reads what the other wrote; the other side writes
 * before it reads this. */
static inline int64_t weft__wheel_next_ordered(const struct weft__wheel *wheel)
{
    return atomic_load_explicit(&wheel->next, memory_order_seq_cst); /* pairs: publish */
}

static inline void weft__wheel_publish(struct weft__wheel *wheel)
{
    /* Changes nothing; puts the present value into the total order. pairs: next_ordered */
    atomic_fetch_add_explicit(&wheel->next, 0, memory_order_seq_cst);
}

/* From an expire callback: makes the advance return after this timer, so that the caller can do
 * without the lock what must not be done under it. */
static inline void weft__wheel_halt(struct weft__wheel *wheel)
{
    wheel->halt = true;
}

/* Any thread, several at once too; a `now` before that of another thread does nothing. Expires up
 * to max timers that are due at `now` and returns how many. expire(timer, arg) is called UNDER the
 * lock: it must be short, must not block, and must not call into this wheel. The node was unlinked
 * before its callback and is not touched after it. A slice also moves at most max or
 * WEFT__WHEEL_MOVES timers, whichever is more, down the levels. There is more to do at `now` if and
 * only if next() <= now (for now < INT64_MAX); if fewer than max expired, this happens only after a
 * mass cascade or a halt. O(levels + expired + moved), whatever time has passed. */
size_t weft__wheel_advance(struct weft__wheel *wheel, int64_t now, size_t max, void *arg);

#endif
