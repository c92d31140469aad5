/* Rules common to all synchronisation objects.
 *
 * - Objects live in the caller's memory. All-zero bytes are a valid object with default options, so
 *   init is needed only to set options. An object must not be copied or moved.
 * - Every object works between fibers of one pool, fibers of different pools, and plain threads.
 * - A call that can wait takes an absolute deadline (0 tries once, WEFT_FOREVER never expires) and
 *   returns 0 on success, -ETIMEDOUT, -ECANCELED (weft_cancel), -EINTR (weft_fiber_interrupt), or
 *   an error that its own contract adds. If the call did not return 0, nothing was acquired and
 *   nothing is lost, however closely the two events raced. A call that does not have to wait
 *   succeeds even in a cancelled fiber: calls are cancellation points only when they wait.
 * - deinit of an object that has waiters is a caller's bug and stops the program. Objects without
 *   options need no deinit, but calling it finds that bug. Any thread may call deinit, also for an
 *   object with an owner, and also after its owner is gone.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

struct weft_sync_opts {
    const char *name; /* for dumps and reports; borrowed; default none */
    /* Only fibers of this pool, which must have exactly one worker, use the object. The object then
     * needs no atomic read-modify-write operations; use from anywhere else is a caller's bug.
     * Default: any thread may use the object. */
    weft_pool *owner;
    /* The same restriction for one group of a dispatcher: only tasks of that group use the
     * object. */
    weft_group *group;
    /* For mutexes: a fiber that holds a mutex of rank r may lock only mutexes of a greater rank;
     * debug builds check this. 0: not checked. */
    unsigned rank;
};

/* The storage that every object begins with. */
struct weft_source {
    /* private */
    uint64_t weft_private[5];
};

WEFT_END_DECLS
#endif
