/* Spawning children and members of a dispatcher's group, and spawning in two steps. */
#ifndef WEFT_TASK_SPAWN_H
#define WEFT_TASK_SPAWN_H

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

struct weft__parent;

/* A fiber to be spawned; all fields but `fn` may be 0. */
struct weft__spawn_request {
    weft_fn fn;
    void *arg;
    const struct weft_fiber_opts *opts; /* NULL: all defaults */
    /* Makes the fiber a child (task/parent.h): detached, its handle works for everything but
     * joining. */
    struct weft__parent *parent;
    /* In a dispatcher's pool: its group. NULL: the group of the fiber that spawns it. */
    const struct weft__group_member *member;
    bool is_successor; /* of the calling fiber, in the same pool, which ends soon */
};

/* weft_pool_spawn for any kind of fiber. Returns -ESHUTDOWN if the group's intake is closed. */
int weft__spawn(weft_pool *pool, weft_fiber *out, const struct weft__spawn_request *request);

struct weft__task;

/* Creates a detached fiber that does not run yet and is admitted to its pool. On the same thread
 * and without a wait in between it is started, once, or taken back. Walks over all fibers may see
 * it; no other code has its handle. Returns NULL on error; *err is the error of weft_pool_spawn. */
struct weft__task *weft__fiber_make(weft_pool *pool, weft_fn fn, const struct weft_fiber_opts *opts,
                                    int *err);
void weft__fiber_start(struct weft__task *task, void *arg);
void weft__fiber_unmake(struct weft__task *task);

#endif
