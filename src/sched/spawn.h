/* Spawning into a dispatcher's group, and spawning in two steps. */
#ifndef WEFT_SCHED_SPAWN_H
#define WEFT_SCHED_SPAWN_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/pool.h>

struct weft__intake;

/* A fiber's membership in a dispatcher's group. */
struct weft__group_member {
    uint16_t group;              /* index of the group */
    uint16_t signals;            /* how often it may be woken in one round; 0: once */
    bool daemon;                 /* does not keep its group from finishing */
    bool front;                  /* starts before the ready fibers of its group */
    struct weft__intake *intake; /* to be entered first; NULL: the caller is on the dispatcher's
                              * thread */
};

/* weft_pool_spawn into a dispatcher's pool. Returns -ESHUTDOWN if the group's intake is closed. */
int weft__spawn_in_group(weft_pool *pool, weft_fiber *out, weft_fn fn, void *arg,
                         const struct weft_fiber_opts *opts,
                         const struct weft__group_member *member);

struct weft__task;

/* Creates a detached fiber that does not run yet and is admitted to its pool. On the same thread
 * and without a wait in between it is started, once, or taken back. Walks over all fibers may see
 * it; no other code has its handle. Returns NULL on error; *err is the error of weft_pool_spawn. */
struct weft__task *weft__fiber_make(weft_pool *pool, weft_fn fn, const struct weft_fiber_opts *opts,
                                    int *err);
void weft__fiber_start(struct weft__task *task, void *arg);
void weft__fiber_unmake(struct weft__task *task);

#endif
