/* Who has been silent for a period: the core of idle groups, with no clock, lock or timer of its
 * own.
 *
 * Time is cut into steps. `step` is the number of the present one; a touch copies it into the
 * member, one store. tick() closes the present step and notes when, *after* the next number was
 * visible: whoever was touched in step k was touched before closed(k), and is silent at closed(k) +
 * period if its number is still k. Never early.
 *
 *   lists       oldest          ...           step
 *             +--------+--------+--------+--------+     a ring: list k % slots
 *             |  a  b  |        |   c    |  d  e  |
 *             +--------+--------+--------+--------+
 *
 * A member lies in the list of the step of its last known touch, and is not moved by a touch. When
 * the time of the oldest list has come, each of its members is looked at once: its number is still
 * the list's (silent), or newer, then it moves there. So a member costs one look per period however
 * often it is touched, and a tick looks at nothing that is not due.
 *
 * A step is a quarter of the precision. Touched right after closed(k - 1), a member is known to be
 * silent a step late at most, and the look comes at the first tick after that, another step: half a
 * precision step late, the other half is for ticks that are late themselves.
 */
#ifndef WEFT_TIME_SILENCE_H
#define WEFT_TIME_SILENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__SILENCE_STEPS 4          /* per precision */
#define WEFT__SILENCE_PRECISIONS 65536 /* per period, at most */

struct __attribute__((may_alias)) weft__quiet {
    _Atomic(uint64_t) seen; /* the step of its last touch; written by anybody */
    struct weft__quiet *next, *prev;
    uint32_t place; /* 1 + its list; 0: in none */
};

struct weft__quiet_list {
    struct weft__quiet *first, *last;
};

struct weft__silence {
    _Atomic(uint64_t) step; /* first: the public touch reads it; written by tick */
    /* immutable after init */
    int64_t period_ns, step_ns;
    uint32_t slots;
    /* the user's lock */
    uint64_t oldest;                /* no member lies in an older step */
    int64_t closed;                 /* when the present step began */
    size_t members;                 /* in the lists */
    size_t silent;                  /* in the last list: found, not taken yet */
    struct weft__quiet_list *lists; /* slots of them, and that of the silent */
    int64_t *ends;                  /* closed(k), per slot */
};

/* -ENOMEM. 0 < precision <= period, period / precision <= 2^16: else -EINVAL. */
int weft__silence_init(struct weft__silence *s, int64_t period_ns, int64_t precision_ns,
                       int64_t now);
void weft__silence_deinit(struct weft__silence *s);

/* Counts as a touch. After a time without members and ticks: `now` is the beginning of a step. */
void weft__silence_add(struct weft__silence *s, struct weft__quiet *quiet, int64_t now);
/* False: it is in no list, it was never added or has been taken. */
bool weft__silence_remove(struct weft__silence *s, struct weft__quiet *quiet);

static inline void weft__silence_touch(const struct weft__silence *s, struct weft__quiet *quiet)
{
    /* Relaxed: the number says when; nothing is published by it. */
    uint64_t step = atomic_load_explicit(&s->step, memory_order_relaxed);
    atomic_store_explicit(&quiet->seen, step, memory_order_relaxed);
}

/* Closes the step if it has lasted long enough by `clock`, and looks at what is due, up to max
 * members. True: there is more to look at now. clock() must not be early: it is read after the step
 * was closed. */
bool weft__silence_tick(struct weft__silence *s, int64_t (*clock)(void), size_t max);

/* When tick has something to do next, if there are members. */
static inline int64_t weft__silence_next(const struct weft__silence *s)
{
    return s->closed + s->step_ns;
}

/* Takes the silent out, linked by `next`; *n is how many. */
struct weft__quiet *weft__silence_take(struct weft__silence *s, size_t *n);

#endif
