/* Moving a running or a parked fiber to another pool or worker, and back. */
#ifndef WEFT_HOP_H
#define WEFT_HOP_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* Moves the calling fiber: from now on its home is `pool`, bound to `worker` or to none
 * (WEFT_ANY_WORKER). Already there: a no-op. Not cancellable. -ESHUTDOWN: the target is stopped or
 * stopping; -EAGAIN: it has all the fibers it may have; -EINVAL: no such worker; -ENXIO: not in a
 * fiber; -EPERM: a fiber of a dispatcher's group, which stays there, or the pool is a dispatcher's,
 * where fibers belong to groups. After an error the fiber is where it was. */
WEFT_API int weft_switch_to(weft_pool *pool, int worker);

/* Lets a parked fiber go on, as weft_unpark, but elsewhere: when its weft_park has returned 0 it is
 * where weft_switch_to(pool, worker) would have brought it, and stays bound to that worker, or to
 * none. Until then it is in its old pool, which gives it one more turn for the move. From any
 * thread, never blocks. -EBUSY: it is not in weft_park; nothing is kept for its next one. -ESRCH:
 * it has ended. -EPERM: a fiber of a dispatcher's group, a frame fiber or a step actor, or the pool
 * is a dispatcher's. -EINVAL, -ESHUTDOWN, -EAGAIN as weft_switch_to. After an error the fiber is
 * where it was, and still parked if it was. */
WEFT_API int weft_unpark_on(weft_fiber fiber, weft_pool *pool, int worker);

/* The scoped form. enter moves as weft_switch_to; leave goes back to the pool (and the worker, if
 * the fiber was bound) it came from. That pool waits in its stop for the fiber's return, so leave
 * cannot fail. Scopes end in reverse order; a weft_exit inside leaves them all. */
struct weft_hop {
    /* private */
    weft_pool *from;
    struct weft_hop *outer;
    int from_worker;
    bool held; /* `from` counts the fiber although it is elsewhere */
};
WEFT_API int weft_hop_enter(struct weft_hop *hop, weft_pool *pool, int worker);
WEFT_API void weft_hop_leave(struct weft_hop *hop);

/* Runs fn(arg) on another pool and returns to this one with its result, also when fn was ended
 * early by a cancel. Called by a plain thread it blocks the thread until fn is done. A fiber of a
 * dispatcher's group stays where it is, and waits: fn runs in a fiber of its own there, to which a
 * cancel or an interrupt of the one that waits is passed on. Errors as weft_switch_to, -EINVAL for
 * a dispatcher's pool; fn did not run then. */
WEFT_API int weft_call_on(weft_pool *pool, int worker, weft_fn fn, void *arg, void **result);

WEFT_END_DECLS
#endif
