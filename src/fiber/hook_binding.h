/* Fibers that make hooked calls: whether hooks apply at the moment, and to which worker the fiber
 * is bound.
 */
#ifndef WEFT_FIBER_HOOK_BINDING_H
#define WEFT_FIBER_HOOK_BINDING_H

#include <stdbool.h>
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

/* For libweft-hook.so, which links libweft.so: exported under a version node of their own.
 *
 * Records that libweft-hook.so has been loaded. */
WEFT_API void weft__hook_attach(void);
/* True if the call is hooked; binds the fiber to its worker then. */
WEFT_API bool weft__hook_enter(void);
/* True if the caller may wait: it is a fiber on its own stack or a plain thread, not a callback or
 * a step on a worker. */
WEFT_API bool weft__hook_can_wait(void);

#endif
