/* Spawning into a dispatcher's group. */
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
    struct weft__gate *gate; /* to be passed; NULL: the maker is on the dispatcher's thread */
};

/* weft_pool_spawn into a dispatcher's pool. -ESHUTDOWN: the gate is shut. */
int weft__spawn_member(weft_pool *pool, weft_fiber *out, weft_fn fn, void *arg,
                       const struct weft_fiber_opts *opts, const struct weft__member *member);

#endif
