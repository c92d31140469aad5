/* Compute pools: for work that burns CPU and must not delay I/O.
 *
 * A shared compute pool is a weft_pool with `compute` set: its workers share work by stealing. The
 * other form is a set of isolated pools, weft_pool_set: N compute pools of one thread each, without
 * stealing between them, and a placement rule that chooses the pool for each new fiber.
 *
 * Life cycle of a set: create -> start -> (submit, spawn, call ...) -> stop -> destroy.
 */
#ifndef WEFT_COMPUTE_H
#define WEFT_COMPUTE_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_pool_set weft_pool_set;

/* Which member of a set gets the next fiber. */
enum weft_placement {
    WEFT_ROUND_ROBIN,
    WEFT_LEAST_LOADED, /* the member with the fewest live fibers at the moment */
};

struct weft_pool_set_opts {
    const char *name; /* copied; members are "<name><i>"; default "pools" */
    unsigned members; /* at most 1000; default: weft_usable_cpus() */
    enum weft_placement placement;
    size_t stack_bytes;  /* default stack size of fibers; default 64 KiB */
    uint64_t max_fibers; /* limit of live fibers, per member; default: limited by memory only */
    const int *cpus;     /* member i is pinned to cpus[i % cpu_count] */
    size_t cpu_count;
};

/* Create a set of isolated compute pools with their threads stopped.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned set in *out; -EINVAL for a bad option (weft_last_error names it); -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_set_create(weft_pool_set **out, const struct weft_pool_set_opts *opts);
/* Start every member, as weft_pool_start.
 *
 * Returns 0; the first error of weft_pool_start, with the members before it started: call again, or
 * stop the set.
 * Context: any thread; does not wait for fibers. */
WEFT_API int weft_pool_set_start(weft_pool_set *pools);
/* Start fn(arg) in a new fiber on the member that the placement rule chooses: detached
 * (weft_pool_set_submit), or with options and a handle in *out (weft_pool_set_spawn).
 *
 * Returns as weft_pool_submit and weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_set_submit(weft_pool_set *pools, weft_fn fn, void *arg);
WEFT_API int weft_pool_set_spawn(weft_pool_set *pools, weft_fiber *out, weft_fn fn, void *arg,
                                 const struct weft_fiber_opts *opts);
/* Run fn(arg) on the member that the placement rule chooses and wait for its result, as
 * weft_call_on.
 *
 * Returns 0 and the result of fn in *result, unless that is NULL; errors as weft_call_on.
 * Context: any thread; waits. */
WEFT_API int weft_pool_set_call(weft_pool_set *pools, weft_fn fn, void *arg, void **result);
/* Return one member: the one with index i, or the one that the placement rule chooses next.
 *
 * Returns a borrowed pool; weft_pool_set_member returns NULL if i is out of range.
 * Context: any thread; does not wait. */
WEFT_API weft_pool *weft_pool_set_member(weft_pool_set *pools, unsigned i);
WEFT_API weft_pool *weft_pool_set_next(weft_pool_set *pools);
/* Return the number of members.
 *
 * Context: any thread; does not wait. */
WEFT_API unsigned weft_pool_set_size(const weft_pool_set *pools);
/* Stop every member, as weft_pool_stop, one after the other.
 *
 * Returns 0; the first error of weft_pool_stop after all members were tried: stop again.
 * Context: any thread or fiber; waits; a cancellation point for fibers. */
WEFT_API int weft_pool_set_stop(weft_pool_set *pools, enum weft_stop_mode mode, int64_t deadline);
/* Free a set whose members are all stopped or were never started. NULL is allowed.
 *
 * Takes the set and its members. Context: any thread, as weft_pool_destroy. */
WEFT_API void weft_pool_set_destroy(weft_pool_set *pools);

WEFT_END_DECLS
#endif
