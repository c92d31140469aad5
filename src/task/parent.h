/* The parent of a fiber: the scheduler's view of a scope. The child fiber runs through the
 * parent's function, so the parent learns of its start and end and can wait for its end. */
#ifndef WEFT_TASK_PARENT_H
#define WEFT_TASK_PARENT_H

#include <weft/pool.h>

struct weft__parent {
    /* Runs the whole child on its stack: calls fn(arg) and returns its result. */
    void *(*run)(struct weft__parent *parent, weft_fn fn, void *arg);
};

#endif
