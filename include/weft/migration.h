/* Migration: moving a running or parked fiber to another pool or worker, for good
 * (weft_fiber_migrate, weft_fiber_unpark_on), for a scope (struct weft_migration) or for one call
 * (weft_call_on). For code that must run on a certain thread or pool. */
#ifndef WEFT_MIGRATION_H
#define WEFT_MIGRATION_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* Move the calling fiber to `pool`, bound to `worker` or to none (WEFT_ANY_WORKER). A no-op if the
 * fiber is there already.
 *
 * Returns 0; -ESHUTDOWN if the target pool is stopped or stopping; -EAGAIN if the target has
 * max_fibers fibers; -EINVAL if there is no such worker; -ENXIO outside a fiber; -EPERM if the
 * fiber belongs to a dispatcher's group, which never migrates, or `pool` is a dispatcher's, whose
 * fibers belong to groups. After an error the fiber has not moved.
 * Context: fiber only; suspends the fiber for the move; not a cancellation point. */
WEFT_API int weft_fiber_migrate(weft_pool *pool, int worker);

/* Wake a parked fiber on another pool or worker. When its weft_fiber_park returns 0, the fiber is
 * where weft_fiber_migrate(pool, worker) would have moved it, and stays bound to that worker or to
 * none. Until then the fiber is in its old pool, which gives it one more turn for the move.
 *
 * Returns 0; -EBUSY if the fiber is not in weft_fiber_park (no permit is kept for its next park);
 * -ESRCH if the fiber has ended; -EPERM for a fiber of a dispatcher's group, a frame fiber, a step
 * actor, or a dispatcher's pool; -EINVAL, -ESHUTDOWN, -EAGAIN as weft_fiber_migrate. After an
 * error the fiber has not moved, and is still parked if it was.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_unpark_on(weft_fiber fiber, weft_pool *pool, int worker);

/* A migration for a scope: enter moves the calling fiber, leave moves it back. Scopes nest and end
 * in reverse order; weft_fiber_exit leaves all of them. */
struct weft_migration {
    /* private */
    weft_pool *from;
    struct weft_migration *outer;
    int from_worker;
    bool held; /* `from` still counts the fiber although it is elsewhere */
};
/* Enter a migration scope: move the calling fiber as weft_fiber_migrate does.
 *
 * migration: in the caller's memory; borrowed until leave.
 * Returns 0; otherwise an error of weft_fiber_migrate, and the scope is not entered.
 * Context: fiber only; suspends the fiber for the move; not a cancellation point. */
WEFT_API int weft_migration_enter(struct weft_migration *migration, weft_pool *pool, int worker);
/* Leave the innermost migration scope: move the calling fiber back to its previous pool, and to its
 * previous worker if it was bound. The previous pool's stop waits for the fiber to return, so leave
 * cannot fail. To leave a scope that is not the innermost is a caller's bug.
 *
 * Context: fiber only; suspends the fiber for the move; not a cancellation point. */
WEFT_API void weft_migration_leave(struct weft_migration *migration);

/* Run fn(arg) on another pool or worker, return to the current one, and get the result, also if a
 * cancel made fn return early. A plain thread blocks until fn has returned. A fiber of a
 * dispatcher's group cannot migrate: it waits while fn runs in a new fiber of `pool`, and a cancel
 * or an interrupt of the waiting fiber is forwarded to the new one.
 *
 * result: receives fn's return value; may be NULL.
 * Returns 0; -EINVAL or -EPERM for a dispatcher's pool; other errors as weft_fiber_migrate and
 * weft_pool_spawn. fn has not run after an error.
 * Context: any thread; waits; fn's waits are cancellation points, the moves are not. */
WEFT_API int weft_call_on(weft_pool *pool, int worker, weft_fn fn, void *arg, void **result);

WEFT_END_DECLS
#endif
