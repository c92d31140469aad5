/* Spawning into a dispatcher's group, and in two steps. */
#ifndef WEFT_SCHED_SPAWN_H
#define WEFT_SCHED_SPAWN_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/pool.h>

struct weft__gate;

/* A fiber's place in a dispatcher. */
struct weft__member {
    uint16_t group;          /* which */
    uint16_t signals;        /* how often it may be woken in a round; 0: once */
    bool daemon;             /* does not keep its group from finishing */
    bool front;              /* starts before those of its group that are ready */
    struct weft__gate *gate; /* to be passed; NULL: the maker is on the dispatcher's thread */
};

/* weft_pool_spawn into a dispatcher's pool. -ESHUTDOWN: the gate is shut. */
int weft__spawn_member(weft_pool *pool, weft_fiber *out, weft_fn fn, void *arg,
                       const struct weft_fiber_opts *opts, const struct weft__member *member);

struct weft__task;

/* A detached fiber that does not run yet, admitted to its pool; on one thread and without a wait in
 * between it is started, once, or taken back. Those who walk over all fibers may see it; its handle
 * is nobody's. NULL: *err says why, as weft_pool_spawn. */
struct weft__task *weft__fiber_make(weft_pool *pool, weft_fn fn, const struct weft_fiber_opts *opts,
                                    int *err);
void weft__fiber_start(struct weft__task *task, void *arg);
void weft__fiber_unmake(struct weft__task *task);

#endif
