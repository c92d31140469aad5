/* The gauge of a worker: what it measures of itself for perf events of the runtime's types.
 *
 * Off, it is one look at the mask of accepted types at each tick. When the mask has changed the
 * worker follows: `work` begins to be timed, and `queue` and `acquire` raise flags beside the trace
 * ring's (sched/trace.h), which is all that wakes, spawns, picks and waits look at. Delays are
 * taken on the stacks of fibers and kept until the worker is on its base context, where callbacks
 * of users belong.
 *
 * Stamps: when a fiber becomes ready its handle and the time go into one of 64 places, by slot
 * number, unless that is taken; when it runs they are taken out, whatever worker it runs on. A
 * place belongs to whoever has written BUSY into it; of one fiber there is only one waker and one
 * runner at a time. Stamps of fibers that ran unseen are taken over when they are old.
 */
#ifndef WEFT_SCHED_GAUGE_H
#define WEFT_SCHED_GAUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/perf.h"
#include "sched/trace.h"

struct weft__worker;

#define WEFT__GAUGE_DELAYS 64u

/* Owner only. */
struct weft__gauge {
    uint64_t seen;       /* the mask that it has followed */
    int64_t work_since;  /* 0: not measured */
    int64_t work_until;  /* when the stretch is told of though it goes on */
    uint64_t work_turns; /* `executed` at its beginning */
    int64_t slept_at;
    unsigned delays;
    int64_t delay[WEFT__GAUGE_DELAYS];
};

/* Follows the mask. */
void weft__gauge_follow(struct weft__worker *w, uint64_t mask);
/* On the base context: tells what there is to tell. */
void weft__gauge_tell(struct weft__worker *w);
/* Before and after a sleep, on the base context; `slept`: it did. */
void weft__gauge_sleep(struct weft__worker *w);
void weft__gauge_wake(struct weft__worker *w, bool slept);

/* A dispatcher's round is over: work is told of round by round, and not of those in which nobody
 * ran. */
void weft__gauge_round(struct weft__worker *w);

/* A fiber becomes ready, or runs. */
void weft__gauge_stamp(uint64_t fiber);
void weft__gauge_ran(struct weft__worker *w, uint64_t fiber);

/* Has it something to tell at the next tick? */
static inline bool weft__gauge_due(const struct weft__gauge *gauge, int64_t now)
{
    return gauge->delays || (gauge->work_since && gauge->work_until <= now);
}

#endif
