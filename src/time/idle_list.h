/* Idle lists: finds the members that have not been touched for a period. The core of idle groups,
 * without a clock, lock or timer of its own.
 *
 * Time is cut into steps. `step` is the number of the current step; a touch copies it into the
 * member, one store. tick() closes the current step and notes the time *after* the next number is
 * visible: a member that was touched in step k was touched before closed(k), and is idle at
 * closed(k) + period if its number is still k. A member never expires early.
 *
 *   lists       oldest          ...           step
 *             +--------+--------+--------+--------+     a ring: list k % slots
 *             |  a  b  |        |   c    |  d  e  |
 *             +--------+--------+--------+--------+
 *
 * A member is in the list of the step of its last known touch; a touch does not move it. When the
 * oldest list is due, each of its members is checked once: if its number is still the list's, it
 * has expired; if it is newer, the member moves to that list. So a member costs one check per
 * period, however often it is touched, and a tick checks nothing that is not due.
 *
 * A step is a quarter of the precision. A member that was touched right after closed(k - 1) is
 * known to be idle at most one step late, and the check comes at the first tick after that, another
 * step: half the precision in all; the other half is for ticks that are late themselves.
 */
#ifndef WEFT_TIME_IDLE_LIST_H
#define WEFT_TIME_IDLE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFT__IDLE_LIST_STEPS 4          /* per precision */
#define WEFT__IDLE_LIST_PRECISIONS 65536 /* per period, at most */

struct __attribute__((may_alias)) weft__idle_list_node {
    _Atomic(uint64_t) seen; /* the step of the last touch; written by any thread */
    struct weft__idle_list_node *next, *prev;
    uint32_t place; /* index of its list + 1; 0: in no list */
};

struct weft__idle_list_bucket {
    struct weft__idle_list_node *first, *last;
};

struct weft__idle_list {
    _Atomic(uint64_t) step; /* first: the public touch reads it; written by tick */
    /* immutable after init */
    int64_t period_ns, step_ns;
    uint32_t slots;
    /* under the user's lock */
    uint64_t oldest;                      /* no member is in an older step */
    int64_t closed;                       /* when the current step began */
    size_t members;                       /* in the lists, without the expired ones */
    size_t expired;                       /* in the last list: expired, not taken yet */
    struct weft__idle_list_bucket *lists; /* `slots` lists, and that of the expired members */
    int64_t *ends;                        /* closed(k), per slot */
};

/* -ENOMEM. -EINVAL unless 0 < precision <= period and period / precision <= 2^16. */
int weft__idle_list_init(struct weft__idle_list *s, int64_t period_ns, int64_t precision_ns,
                         int64_t now);
void weft__idle_list_deinit(struct weft__idle_list *s);

/* Adds a member; counts as a touch. After a time without members and ticks, `now` begins a new
 * step. */
void weft__idle_list_add(struct weft__idle_list *s, struct weft__idle_list_node *entry,
                         int64_t now);
/* False: the member is in no list: it was never added, or has been taken. */
bool weft__idle_list_remove(struct weft__idle_list *s, struct weft__idle_list_node *entry);

static inline void weft__idle_list_touch(const struct weft__idle_list *s,
                                         struct weft__idle_list_node *entry)
{
    /* Relaxed: the number only tells the time; it publishes nothing. */
    uint64_t step = atomic_load_explicit(&s->step, memory_order_relaxed);
    atomic_store_explicit(&entry->seen, step, memory_order_relaxed);
}

/* Closes the step if it has lasted long enough by `clock`, and checks up to max members that are
 * due. True: there is more to check now. clock() must not be early: it is read after the step was
 * closed. */
bool weft__idle_list_tick(struct weft__idle_list *s, int64_t (*clock)(void), size_t max);

/* When tick has something to do next, if there are members. */
static inline int64_t weft__idle_list_next(const struct weft__idle_list *s)
{
    return s->closed + s->step_ns;
}

/* Takes the expired members out, linked by `next`; *n is how many. */
struct weft__idle_list_node *weft__idle_list_take_expired(struct weft__idle_list *s, size_t *n);

#endif
