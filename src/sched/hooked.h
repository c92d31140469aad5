/* Fibers that make hooked calls: whether they do now, and where they are bound. */
#ifndef WEFT_SCHED_HOOKED_H
#define WEFT_SCHED_HOOKED_H

#include <stddef.h>

#include <weft/pool.h>

#define WEFT__HOOKED_STACK                                                                         \
    ((size_t)256 * 1024) /* at least, for code that knows nothing of small stacks */

/* The worker for a fiber that is spawned as hooked: one of those with the fewest bound fibers, in
 * turn. */
int weft__hooked_place(weft_pool *pool);

/* Whenever a pool is made: says so, once, if libweft-hook.so is there and works for another
 * libweft. */
void weft__hooked_look(void);

#endif
