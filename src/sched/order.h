/* A hash of the order in which a dispatcher's fibers ran, kept on request: the same inputs give
 * the same order and so the same hash.
 *
 * Each run adds the group's number and the fiber's number among all fibers started on this
 * dispatcher. Slots and handles are not used because they depend on what the program did before. */
#ifndef WEFT_SCHED_ORDER_H
#define WEFT_SCHED_ORDER_H

#include <stdint.h>

#include "base/atomic.h"
#include "sched/task.h"

struct weft__order {
    _Atomic(uint64_t) hash; /* written by the worker only */
    /* owned by the worker */
    uint32_t *numbers; /* by slot */
    uint32_t room;
    uint32_t last;
};

/* Returns NULL without memory. */
struct weft__order *weft__order_create(void);
void weft__order_destroy(struct weft__order *order); /* NULL is allowed */
void weft__order_started(struct weft__order *order, const struct weft__task *task);
void weft__order_runs(struct weft__order *order, const struct weft__task *task);

#endif
