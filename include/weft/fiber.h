/* Fibers: code that looks blocking, with a stack of its own, run by a pool.
 *
 * A fiber handle is a number, not a pointer: slot and generation. It stays valid to *ask* for ever
 * and never comes to mean another fiber; a handle whose fiber is gone is answered with -ESRCH.
 *
 * Life: created (weft_fiber_create) or spawned (weft_spawn, weft_pool_spawn) -> ready -> running
 * <-> waiting -> done. A detached fiber is forgotten when it ends. A joinable one keeps its result
 * until its join rights are used up: it is born with one, weft_fiber_share adds one, weft_join and
 * weft_fiber_detach use one. Fibers and plain threads that are already waiting in weft_join when
 * the fiber ends all get its result, whatever rights are left.
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/base.h>
#include <weft/export.h>

WEFT_BEGIN_DECLS

#define WEFT_FOREVER INT64_MAX
#define WEFT_ANY_WORKER (-1)

typedef struct weft_pool weft_pool;
typedef struct weft_group weft_group; /* <weft/dispatcher.h> */

/* A fiber's handle; WEFT_NO_FIBER is never a fiber. */
typedef uint64_t weft_fiber;
#define WEFT_NO_FIBER ((weft_fiber)0)

/* What a fiber runs. What it returns is what weft_join gives. */
typedef void *(*weft_fn)(void *arg);

struct weft_fiber_opts {
    const char *name;   /* copied, cut to 15 bytes; default: none */
    size_t stack_bytes; /* rounded up to a power of two, 16 KiB .. 64 MiB; default: the pool's */
    int worker;         /* with `bound`: the worker index that alone may run it */
    bool bound;    /* stay on `worker` for life, or until the fiber moves itself (weft_switch_to) */
    bool detached; /* nobody will join; the default when `out` is NULL */
    /* It will make hooked calls (weft/hook.h): unless it is bound, it is bound to one of the
     * workers with the fewest bound fibers; its stack is 256 KiB at least, unless `stack_bytes`
     * says otherwise. */
    bool hooked;
    bool fp_env; /* save and restore the FP control words (rounding, masks) at each switch */
};

enum weft_fiber_state {
    WEFT_FIBER_CREATED, /* not submitted yet */
    WEFT_FIBER_READY,   /* in a queue */
    WEFT_FIBER_RUNNING,
    WEFT_FIBER_WAITING,
    WEFT_FIBER_DONE, /* ended, its result not yet taken */
};

/* Starts fn(arg) in a new fiber of the caller's pool. With `out` the fiber is joinable (unless
 * opts->detached) and *out its handle; with NULL it is detached.
 * -ENXIO: not called from a fiber (use weft_pool_spawn). -ENOMEM: no memory, descriptors or address
 * space for a stack. -EAGAIN: the pool's max_fibers reached. -ESHUTDOWN: the pool's stop has passed
 * its drain (see weft_pool_stop). -EINVAL: bad options. */
WEFT_API int weft_spawn(weft_fiber *out, weft_fn fn, void *arg, const struct weft_fiber_opts *opts);

/* Makes a fiber that does not run yet and belongs to no pool: its stack is 64 KiB unless `opts`
 * says otherwise, and what it is bound to is said not by `opts` but by weft_fiber_submit, which
 * starts it, once. weft_fiber_discard gives it up. -EINVAL: bad options. -ENOMEM. */
WEFT_API int weft_fiber_create(weft_fiber *out, weft_fn fn, void *arg,
                               const struct weft_fiber_opts *opts);

/* Hands a created fiber to a pool, to any worker or bound to one. -EALREADY: submitted before.
 * -ESRCH: stale handle. Otherwise as weft_pool_spawn; after an error the fiber is as it was. */
WEFT_API int weft_fiber_submit(weft_fiber fiber, weft_pool *pool, int worker);

/* Frees a fiber that was created and never submitted; whoever waits in weft_join for it gets
 * -ECANCELED. -EALREADY: it was submitted. -ESRCH: stale handle. */
WEFT_API int weft_fiber_discard(weft_fiber fiber);

/* Waits for the fiber's end; writes its result if `result` is not NULL. From fibers and plain
 * threads alike. Uses one join right when it returns 0. -ESRCH: stale, or all rights used.
 * -EDEADLK: joining oneself, or for ever from the one thread that could run the fiber (a pool's
 * caller, outside of run, poll and stop). -EINVAL: the fiber is detached. -ETIMEDOUT, -ECANCELED,
 * -EINTR: the wait ended first, no right was used. */
WEFT_API int weft_join(weft_fiber fiber, void **result, int64_t deadline);

/* Adds a join right; each needs its own join or detach. -ESRCH, -EINVAL as weft_join. -EOVERFLOW:
 * 250 rights are out already. */
WEFT_API int weft_fiber_share(weft_fiber fiber);

/* Gives one join right back without waiting. */
WEFT_API int weft_fiber_detach(weft_fiber fiber);

/* Goes behind every fiber that waits for a turn on this worker, and lets one that never ran start
 * before them. Outside a fiber: sched_yield. */
WEFT_API void weft_yield(void);

/* Suspends the calling fiber until weft_unpark. An unpark that came before is kept, and then park
 * returns at once; two count once. Never returns without a reason: 0 = unparked, -ETIMEDOUT,
 * -ECANCELED, -EINTR. -ENXIO: not in a fiber. */
WEFT_API int weft_park(int64_t deadline);

/* Lets a parked fiber go on, or its next park return at once. From any thread, never blocks.
 * -ESRCH: the fiber has ended. */
WEFT_API int weft_unpark(weft_fiber fiber);

/* Suspends the caller until the deadline, or for `ns`. 0: it passed; -ECANCELED, -EINTR. Never
 * early. On a plain thread the thread sleeps. */
WEFT_API int weft_sleep_until(int64_t deadline);
WEFT_API int weft_sleep(int64_t ns);

/* Asks a fiber to end: every wait it is in, or begins later, returns -ECANCELED, until it ends. A
 * call that need not wait is no wait: it succeeds as ever; nor is one with the deadline 0, which
 * only tries. From any thread. -ESRCH: it has ended. */
WEFT_API int weft_cancel(weft_fiber fiber);

/* True in a cancelled fiber: for loops that compute without waiting. */
WEFT_API bool weft_cancelled(void);

/* Ends one wait of a fiber with -EINTR: the one it is in, or else the next that has to wait. It is
 * kept until a wait has delivered it; two that were not delivered count once. A call that succeeds
 * although an interrupt came, because it was done at the same moment, leaves it for the next wait.
 * From any thread. -ESRCH: it has ended. */
WEFT_API int weft_interrupt(weft_fiber fiber);

/* An interrupt of the calling fiber that no wait has delivered yet; clear takes it back. */
WEFT_API bool weft_interrupted(void);
WEFT_API bool weft_clear_interrupt(void);

/* Between the two, which nest, neither cancel nor interrupt ends a wait of the calling fiber; they
 * take effect in its next wait after the last leave. For cleanups that must wait. WEFT_STOP_ABORT
 * goes through. */
WEFT_API void weft_shield_enter(void);
WEFT_API void weft_shield_leave(void);

/* What the calling fiber was waiting on when a cancel or an interrupt last ended a wait of it. */
struct weft_ended_wait {
    const char *what;   /* "sleep", "mutex", "join" */
    const void *object; /* the address of the object, if it was one; it may be gone by now */
    weft_fiber fiber;   /* the fiber, if it was one */
    char name[32];      /* of the object or the fiber, or "fd 7", cut; "": it has none */
    unsigned others;    /* it waited on so many more, by a select, say; the above is the first */
};
/* -ENOENT: there was none. */
WEFT_API int weft_ended_wait(struct weft_ended_wait *out);

/* The calling fiber, or WEFT_NO_FIBER on a plain thread. */
WEFT_API weft_fiber weft_self(void);

/* The name ("" if none) is copied into `buf`. -ESRCH: it has ended. */
WEFT_API int weft_fiber_name(weft_fiber fiber, char *buf, size_t size);
WEFT_API int weft_fiber_state(weft_fiber fiber, enum weft_fiber_state *out);
WEFT_API const char *weft_fiber_state_name(enum weft_fiber_state state);

/* A process-wide unique number of the fiber, as dumps print it: "#17.3". */
WEFT_API int weft_fiber_text(weft_fiber fiber, char *buf, size_t size);

/* The stack of a fiber: its size, and how far it has ever been used (in whole pages, counted over
 * all fibers that had this stack since it was last given back to the kernel; locked memory,
 * mlockall, counts as used). A fiber that has not run yet, or has ended, has no stack: both 0. */
WEFT_API int weft_fiber_stack(weft_fiber fiber, size_t *size, size_t *high_water);

/* Renames the calling fiber. -ENXIO outside one. */
WEFT_API int weft_set_name(const char *name);

/* Fiber-local storage: 16 slots per process, handed out by key. The destructor runs at the fiber's
 * end for every non-NULL value. -EAGAIN: no key left. get/set outside a fiber: NULL / -ENXIO. */
typedef unsigned weft_key;
WEFT_API int weft_key_create(weft_key *out, void (*destructor)(void *value));
WEFT_API int weft_set_local(weft_key key, void *value);
WEFT_API void *weft_get_local(weft_key key);

/* A cleanup runs when its fiber ends, last pushed first, also when the fiber leaves by weft_exit.
 * The node is the caller's: in the heap, or in a frame that is left by weft_exit or after
 * weft_cleanup_pop. To return from a frame with its node still pushed is a caller's bug. */
struct weft_cleanup {
    void (*fn)(void *arg);
    void *arg;
    struct weft_cleanup *below; /* private */
};
WEFT_API void weft_cleanup_push(struct weft_cleanup *node, void (*fn)(void *arg), void *arg);
/* Takes the top node off, which must be `node`; runs it if `run`. */
WEFT_API void weft_cleanup_pop(struct weft_cleanup *node, bool run);

/* Ends the calling fiber from anywhere in it with this result. Cleanups run on its stack as it
 * is. Inside a C++ catch block the exceptions that are caught are destroyed first; destructors of
 * the frames that are left do not run. */
WEFT_API void weft_exit(void *result) __attribute__((noreturn));

/* The clock of all deadlines, in nanoseconds. */
WEFT_API int64_t weft_now(void);
/* The same without a look at the clock: what the calling worker saw when it last looked around,
 * which it does every 61 turns, about every 200 us if turns are longer, and whenever it was idle.
 * So it is at most that old, and never ahead; but within one turn it stands still, however long the
 * turn lasts. Elsewhere as weft_now. */
WEFT_API int64_t weft_now_cached(void);
/* The deadline `ns` from now, such as weft_after(WEFT_MS(5)); never wraps. In debug builds a
 * deadline that is negative, or before the start of the program but not 0, ends it: a duration was
 * passed where a deadline is wanted. */
WEFT_API int64_t weft_after(int64_t ns);

WEFT_END_DECLS
#endif
