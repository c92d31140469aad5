/* A hash of the order in which a dispatcher's fibers ran, kept on request: the same inputs give
 * the same order and so the same hash.
 *
 * Each run adds the group's number and the fiber's number among all fibers started on this
 * dispatcher. Slots and handles are not used because they depend on what the program did before. */
#ifndef WEFT_SCHED_RUN_ORDER_H
#define WEFT_SCHED_RUN_ORDER_H

#include <stdint.h>

#include "base/atomic.h"
#include "task/task.h"

struct weft__run_order {
    _Atomic(uint64_t) hash; /* written by the worker only */
    /* owned by the worker */
    uint32_t *numbers; /* by slot */
    uint32_t capacity;
    uint32_t last;
};

/* Returns NULL without memory. */
struct weft__run_order *weft__run_order_create(void);
void weft__run_order_destroy(struct weft__run_order *order); /* NULL is allowed */
void weft__run_order_add_start(struct weft__run_order *order, const struct weft__task *task);
void weft__run_order_add_run(struct weft__run_order *order, const struct weft__task *task);

#endif
