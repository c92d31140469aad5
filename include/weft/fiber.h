/* Fibers: lightweight threads with their own stack, run by a pool of worker threads. A fiber is
 * written in blocking style; a call that has to wait suspends the fiber, not the thread.
 *
 * A fiber handle is a number (slot and generation), not a pointer. A handle is never reused for
 * another fiber, so a stale handle is safe to pass: the call returns -ESRCH.
 *
 * Life cycle: created (weft_fiber_create) or spawned (weft_spawn, weft_pool_spawn) -> ready ->
 * running <-> waiting -> done. A detached fiber is freed when it ends. A joinable fiber keeps its
 * result until its last join right is used: it starts with one right, weft_fiber_share adds one,
 * weft_join and weft_fiber_detach each use one. Fibers and threads that are already waiting in
 * weft_join when the fiber ends all get its result, however many rights are left.
 *
 * A cancellation point is a call that returns -ECANCELED in a cancelled fiber and -EINTR in an
 * interrupted fiber if the call has to wait. A call that completes without waiting is not one. */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

#define WEFT_ANY_WORKER (-1)

typedef struct weft_pool weft_pool;
typedef struct weft_group weft_group; /* <weft/dispatcher.h> */

/* A fiber's handle. WEFT_NO_FIBER is never the handle of a fiber. */
typedef uint64_t weft_fiber;
#define WEFT_NO_FIBER ((weft_fiber)0)

/* A function that Weft runs, with its argument. weft_fn is a fiber's function: weft_join returns
 * its return value. A function whose result matters differently has another type: weft_void_fn
 * returns nothing; weft_int_fn returns success (>= 0) or a negative errno. */
typedef void *(*weft_fn)(void *arg);
typedef void (*weft_void_fn)(void *arg);
typedef int (*weft_int_fn)(void *arg);

struct weft_fiber_opts {
    const char *name;   /* copied, truncated to 15 bytes; default: none */
    size_t stack_bytes; /* rounded up to a power of two, 16 KiB .. 64 MiB; default: the pool's */
    int worker;         /* with `bound`: the index of the only worker that may run the fiber */
    bool bound;         /* stay on `worker`, until the fiber calls weft_fiber_migrate */
    bool detached;      /* not joinable; the default when `out` is NULL */
    /* The fiber makes hooked calls (weft/hook.h). Unless `bound` is set, the fiber is bound to one
     * of the workers with the fewest bound fibers. Its stack is at least 256 KiB unless
     * `stack_bytes` is set. */
    bool hooked;
    bool fp_env; /* save and restore the FP control words (rounding, masks) at each switch */
};

enum weft_fiber_state {
    WEFT_FIBER_CREATED, /* not submitted yet */
    WEFT_FIBER_READY,   /* in a run queue */
    WEFT_FIBER_RUNNING,
    WEFT_FIBER_WAITING,
    WEFT_FIBER_DONE, /* ended, result not taken yet */
};

/* Start fn(arg) in a new fiber of the caller's pool. The new fiber of a dispatcher's fiber joins
 * the caller's group.
 *
 * out: if not NULL, receives the handle before the fiber can run, and the fiber is joinable unless
 * opts->detached is set. If NULL, the fiber is detached.
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0; -ENXIO outside a fiber (use weft_pool_spawn); -EINVAL for a NULL fn or a bad option;
 * -EAGAIN if the pool has max_fibers fibers (retry after one has ended); -ENOMEM if there is no
 * memory, descriptor or address space for a stack. A pool that is stopping does not refuse its own
 * fibers (see weft_pool_stop).
 * Context: fiber only; does not wait. */
WEFT_API int weft_spawn(weft_fiber *out, weft_fn fn, void *arg, const struct weft_fiber_opts *opts);

/* Create a fiber that does not run yet and belongs to no pool. weft_fiber_submit starts it, once;
 * weft_fiber_discard frees it.
 *
 * opts: NULL for defaults; borrowed for the call. The default stack is 64 KiB; `bound` and
 * `worker` are ignored because weft_fiber_submit names the worker.
 * Returns 0 and an owned handle in *out; -EINVAL for a NULL fn or out, or a bad option; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_create(weft_fiber *out, weft_fn fn, void *arg,
                               const struct weft_fiber_opts *opts);

/* Start a created fiber in a pool.
 *
 * worker: the worker to bind the fiber to, or WEFT_ANY_WORKER.
 * Returns 0; -EALREADY if the fiber was submitted before; -ESRCH for a stale handle; -EINVAL for a
 * bad worker or a dispatcher's pool; -EAGAIN or -ESHUTDOWN as weft_pool_spawn. After an error the
 * fiber is unchanged and can be submitted again.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_submit(weft_fiber fiber, weft_pool *pool, int worker);

/* Free a fiber that was created and never submitted. Waiters in weft_join get -ECANCELED.
 *
 * Returns 0; -EALREADY if the fiber was submitted; -ESRCH for a stale handle; -ENOMEM if this
 * plain thread cannot get its spawn cache.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_discard(weft_fiber fiber);

/* Wait until a fiber ends and get its result. Uses one join right on success.
 *
 * result: receives the fiber's return value; may be NULL.
 * Returns 0; -ESRCH for a stale handle, or if all rights are used; -EINVAL if the fiber is
 * detached; -EDEADLK if a fiber joins itself, or if the deadline is WEFT_FOREVER and the calling
 * thread is the only one that could run the fiber (the caller of a pool, outside run, poll and
 * stop); -ETIMEDOUT, -ECANCELED, -EINTR if the wait ended first; no right is used then and the
 * caller may join again; -ENOMEM. -ECANCELED is also the result if the fiber was discarded.
 * Context: any thread; waits; a cancellation point. */
WEFT_API int weft_join(weft_fiber fiber, void **result, int64_t deadline);

/* Add a join right. Each right needs its own weft_join or weft_fiber_detach.
 *
 * Returns 0; -ESRCH for a stale handle; -EINVAL if the fiber is detached; -EOVERFLOW if the fiber
 * has 250 rights already.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_share(weft_fiber fiber);

/* Give one join right back without waiting. The fiber becomes detached with the last right, or is
 * freed if it has ended.
 *
 * Returns 0; -ESRCH for a stale handle; -EINVAL if the fiber is detached; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_detach(weft_fiber fiber);

/* Yield: move the caller to the back of this worker's run queue. One not-yet-started fiber may run
 * first.
 *
 * Context: any thread (a plain thread calls sched_yield); not a cancellation point. */
WEFT_API void weft_yield(void);

/* Suspend the calling fiber until weft_fiber_unpark. If the fiber was unparked before, park uses
 * that permit and returns at once. Two unparks without a park in between count as one. There are
 * no spurious wake-ups.
 *
 * Returns 0 if unparked; -ETIMEDOUT, -ECANCELED, -EINTR; -ENXIO outside a fiber.
 * Context: fiber only; waits; a cancellation point. */
WEFT_API int weft_fiber_park(int64_t deadline);

/* Wake a parked fiber, or make its next weft_fiber_park return at once.
 *
 * Returns 0; -ESRCH if the fiber has ended.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_unpark(weft_fiber fiber);

/* Suspend the caller until the deadline: weft_sleep(weft_after(WEFT_MS(5))). Never wakes early.
 *
 * Returns 0 when the time has come, at once for a deadline in the past; -ECANCELED, -EINTR.
 * Context: any thread (a plain thread sleeps); waits; a cancellation point. */
WEFT_API int weft_sleep(int64_t deadline);

/* Cancel a fiber: from now until the fiber ends, every wait it is in or begins returns -ECANCELED.
 * Calls that complete without waiting still succeed, as do calls with deadline 0, which only try.
 *
 * Returns 0; -ESRCH if the fiber has ended.
 * Context: any thread; does not wait. */
WEFT_API int weft_cancel(weft_fiber fiber);

/* Report whether the calling fiber is cancelled, for loops that compute without waiting.
 *
 * Returns false on a plain thread.
 * Context: any thread; does not wait. */
WEFT_API bool weft_fiber_is_cancelled(void);

/* Interrupt a fiber: end one wait with -EINTR, the wait the fiber is in or else its next wait. The
 * interrupt is kept until a wait delivers it; two undelivered interrupts count as one. If the
 * interrupted call completes at the same moment and succeeds, the interrupt is kept for the next
 * wait.
 *
 * Returns 0; -ESRCH if the fiber has ended.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_interrupt(weft_fiber fiber);

/* Report, or clear, an interrupt of the calling fiber that no wait has delivered yet.
 *
 * Returns whether there was one; false on a plain thread.
 * Context: any thread; does not wait. */
WEFT_API bool weft_fiber_is_interrupted(void);
WEFT_API bool weft_fiber_clear_interrupt(void);

/* Open and close a shield, which nests. Inside a shield neither cancel nor interrupt ends a wait
 * of the calling fiber; they take effect in its first wait after the outermost shield is closed.
 * For cleanup code that must wait. WEFT_STOP_ABORT overrides a shield.
 *
 * Context: fiber only; leave without enter is a caller's bug; does not wait. */
WEFT_API void weft_fiber_shield_enter(void);
WEFT_API void weft_fiber_shield_leave(void);

/* The wait of the calling fiber that a cancel or an interrupt ended last. */
struct weft_fiber_ended_wait {
    const char *what;   /* "sleep", "mutex", "join" */
    const void *object; /* the object's address, or NULL; the object may be freed by now */
    weft_fiber fiber;   /* the fiber waited for, if any */
    char name[32];      /* name of the object or fiber, or "fd 7", truncated; "" if none */
    unsigned others;    /* number of further objects, for example in a select; the fields above
                         * describe the first */
};
/* Get the wait that a cancel or an interrupt ended last.
 *
 * Returns 0 and a copy in *out; -ENOENT if no wait was ended so.
 * Context: any thread (a plain thread gets -ENOENT); does not wait. */
WEFT_API int weft_fiber_ended_wait(struct weft_fiber_ended_wait *out);

/* Get the calling fiber.
 *
 * Returns its handle, or WEFT_NO_FIBER on a plain thread.
 * Context: any thread; does not wait. */
WEFT_API weft_fiber weft_self(void);

/* Get a fiber's name (weft_fiber_name: copied into `buf`, truncated, "" if none) or state
 * (weft_fiber_state), or the text for a state (weft_fiber_state_name: a static string, "unknown"
 * for an unknown state).
 *
 * Returns 0; -ESRCH for a stale handle.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_name(weft_fiber fiber, char *buf, size_t size);
WEFT_API int weft_fiber_state(weft_fiber fiber, enum weft_fiber_state *out);
WEFT_API const char *weft_fiber_state_name(enum weft_fiber_state state);

/* Format a fiber's handle as dumps print it, such as "#17.3": unique in the process.
 *
 * Returns what snprintf returns.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_format(weft_fiber fiber, char *buf, size_t size);

/* Get the size of a fiber's stack and its high-water mark. The high-water mark is in whole pages
 * and covers all fibers that used this stack since its memory was last returned to the kernel;
 * locked memory (mlockall) counts as used. A fiber that has not run yet or has ended has no stack:
 * both are 0.
 *
 * Returns 0; -ESRCH for a stale handle.
 * Context: any thread; does not wait. */
WEFT_API int weft_fiber_stack(weft_fiber fiber, size_t *size, size_t *high_water);

/* Rename the calling fiber. The name is copied and truncated to 15 bytes.
 *
 * Returns 0; -ENXIO outside a fiber; -ENOMEM (only in a dispatcher's fiber), and then the old name
 * stays.
 * Context: fiber only; does not wait. */
WEFT_API int weft_fiber_set_name(const char *name);

/* Fiber-local storage: 16 slots per process, addressed by key. When a fiber ends, the key's
 * destructor runs for every value that is not NULL.
 *
 * weft_fiber_key_create: create a key, for the rest of the process; destructor may be NULL.
 * Returns 0; -EAGAIN if all 16 keys are in use.
 * weft_fiber_set_local: set the calling fiber's value. Returns 0; -ENXIO outside a fiber.
 * weft_fiber_get_local: returns the calling fiber's value; NULL if it was not set, or outside a
 * fiber.
 * Context: create from any thread, set and get from a fiber; a bad key is a caller's bug; do not
 * wait. */
typedef unsigned weft_fiber_key;
WEFT_API int weft_fiber_key_create(weft_fiber_key *out, weft_void_fn destructor);
WEFT_API int weft_fiber_set_local(weft_fiber_key key, void *value);
WEFT_API void *weft_fiber_get_local(weft_fiber_key key);

/* A cleanup: a function that runs when its fiber ends. */
struct weft_fiber_cleanup {
    void (*fn)(void *arg);
    void *arg;
    struct weft_fiber_cleanup *below; /* private */
};
/* Push a cleanup. Cleanups run when the fiber ends, last pushed first, before the destructors of
 * fiber-local values, also when the fiber ends by weft_fiber_exit.
 *
 * node: borrowed until it is popped or has run. It may live on the heap, or in a stack frame that
 * ends with weft_fiber_exit or after weft_fiber_cleanup_pop. To return from a frame whose node is
 * still pushed is a caller's bug.
 * Context: fiber only; does not wait. */
WEFT_API void weft_fiber_cleanup_push(struct weft_fiber_cleanup *node, weft_void_fn fn, void *arg);
/* Pop the top cleanup, which must be `node`, and run it if `run` is true.
 *
 * Context: fiber only; waits only if the cleanup does. */
WEFT_API void weft_fiber_cleanup_pop(struct weft_fiber_cleanup *node, bool run);

/* End the calling fiber from any call depth with this result. Cleanups run on the fiber's stack
 * before it is unwound. Inside a C++ catch block the caught exceptions are destroyed first;
 * destructors of the frames that are left do not run.
 *
 * Context: fiber only; does not return. */
WEFT_API void weft_fiber_exit(void *result) __attribute__((noreturn));

/* --- migration ------------------------------------------------------------------------------ */

/* Migration: moving a running or parked fiber to another pool or worker, for good
 * (weft_fiber_migrate, weft_fiber_unpark_on), for a scope (struct weft_migration) or for one call
 * (weft_pool_call). For code that must run on a certain thread or pool. */

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
 * result: receives fn's return value; may be NULL. deadline: for the start of fn; a call whose fn
 * has started waits until fn has returned. A fiber that migrates notices a deadline that has passed
 * when it arrives.
 * Returns 0. Every error means that fn did not run and will not: -ETIMEDOUT if fn did not start
 * before the deadline; -EDEADLK if nothing can run fn, because the caller itself would have to;
 * -EINVAL or -EPERM for a dispatcher's pool; other errors as weft_fiber_migrate and
 * weft_pool_spawn.
 * Context: any thread; waits; fn's waits are cancellation points, the moves are not. */
WEFT_API int weft_pool_call(weft_pool *pool, void **result, int worker, weft_fn fn, void *arg,
                            int64_t deadline);

WEFT_END_DECLS
#endif
