/* The order in which a dispatcher's fibers ran, as one number, for those who ask for it: the same
 * inputs give the same order, and so the same number.
 *
 * A fiber counts as the number of its group and its own among all that were started on this
 * dispatcher. Slots and handles would not do: they depend on what the program did before.
 */
#ifndef WEFT_SCHED_ORDER_H
#define WEFT_SCHED_ORDER_H

#include <stdint.h>

#include "base/atomic.h"
#include "sched/task.h"

struct weft__order {
    _Atomic(uint64_t) hash; /* written by the worker alone */
    /* its own */
    uint32_t *numbers; /* by slot */
    uint32_t room;
    uint32_t last;
};

/* NULL: no memory. */
struct weft__order *weft__order_create(void);
void weft__order_destroy(struct weft__order *order); /* NULL is fine */
void weft__order_started(struct weft__order *order, const struct weft__task *task);
void weft__order_runs(struct weft__order *order, const struct weft__task *task);

#endif
