/* Worker metrics: what a worker measures about itself for the runtime's perf event types.
 *
 * When off, this costs one check of the mask of accepted types at each tick. When the mask has
 * changed, the worker follows: it starts timing `work`, and `queue` and `acquire` set flags beside
 * the trace ring's (worker/trace.h), which are all that wake-ups, spawns, picks and waits check.
 * Delays are measured on the stacks of fibers and kept until the worker is on its base context,
 * where user callbacks may run.
 *
 * Stamps: when a fiber becomes ready, its handle and the time are stored in one of 64 slots,
 * chosen by the fiber's slot number, unless the slot is taken. When the fiber runs, on whichever
 * worker, the stamp is taken out. A slot belongs to the thread that has written BUSY into it; a
 * fiber has only one waker and one runner at a time. Stamps of fibers whose run was not seen are
 * replaced when they are old. */
#ifndef WEFT_WORKER_WORKER_METRICS_H
#define WEFT_WORKER_WORKER_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/perf.h"
#include "worker/trace.h"

struct weft__worker;

#define WEFT__WORKER_METRICS_DELAYS 64u

/* Owner only. */
struct weft__worker_metrics {
    uint64_t seen;       /* the mask that it follows */
    int64_t work_since;  /* 0: not measured */
    int64_t work_until;  /* when continuing work is reported in pieces */
    uint64_t work_turns; /* `executed` at its beginning */
    int64_t slept_at;
    unsigned delays;
    int64_t delay[WEFT__WORKER_METRICS_DELAYS];
};

/* Follows the mask. */
void weft__worker_metrics_set_mask(struct weft__worker *w, uint64_t mask);
/* On the base context: reports what is due. */
void weft__worker_metrics_report(struct weft__worker *w);
/* Before and after a sleep, on the base context; `slept`: the worker did sleep. */
void weft__worker_metrics_before_sleep(struct weft__worker *w);
void weft__worker_metrics_after_sleep(struct weft__worker *w, bool slept);

/* Ends a dispatcher's round: work is reported round by round, except for rounds in which no fiber
 * ran. */
void weft__worker_metrics_end_round(struct weft__worker *w);

/* A fiber becomes ready; a fiber runs. */
void weft__worker_metrics_mark_ready(uint64_t fiber);
void weft__worker_metrics_mark_running(struct weft__worker *w, uint64_t fiber);

/* Is there something to report at the next tick? */
static inline bool weft__worker_metrics_is_due(const struct weft__worker_metrics *metrics,
                                               int64_t now)
{
    return metrics->delays || (metrics->work_since && metrics->work_until <= now);
}

#endif
