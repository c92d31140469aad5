/* The parent: whoever is told by a fiber itself that it starts, and has to wait for its end. A
 * scope, in other words, as the scheduler knows it. */
#ifndef WEFT_SCHED_PARENT_H
#define WEFT_SCHED_PARENT_H

#include <weft/pool.h>

struct weft__parent {
    /* The whole of a child, on its stack: runs fn(arg) and gives the result. */
    void *(*run)(struct weft__parent *parent, weft_fn fn, void *arg);
};

/* weft_pool_spawn of a child. It is detached, and its handle good for everything but joining. */
int weft__spawn_child(struct weft__parent *parent, weft_pool *pool, weft_fiber *out, weft_fn fn,
                      void *arg, const struct weft_fiber_opts *opts);

#endif
