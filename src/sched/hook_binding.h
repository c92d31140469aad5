/* Fibers that make hooked calls: whether hooks apply at the moment, and to which worker the fiber
 * is bound.
 */
#ifndef WEFT_SCHED_HOOK_BINDING_H
#define WEFT_SCHED_HOOK_BINDING_H

#include <stddef.h>

#include <weft/pool.h>

#define WEFT__HOOKED_STACK_BYTES                                                                   \
    ((size_t)256 * 1024) /* at least, for code that does not expect small stacks */

/* Chooses the worker for a fiber that is spawned as hooked: one of those with the fewest bound
 * fibers, in turn. */
int weft__hooked_choose_worker(weft_pool *pool);

/* Called whenever a pool is created: warns, once, if libweft-hook.so is loaded but works for
 * another libweft. */
void weft__hooked_check_library(void);

#endif
