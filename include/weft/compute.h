/* Compute pools: for work that burns CPU and must not sit in front of I/O.
 *
 * A shared compute pool is a weft_pool with `compute` set. A weft_crew is the other form: N pools
 * of one thread each, isolated from one another (no stealing), with a placement rule over them.
 */
#ifndef WEFT_COMPUTE_H
#define WEFT_COMPUTE_H

#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_crew weft_crew;

enum weft_placement {
    WEFT_ROUND_ROBIN,
    WEFT_LEAST_LOADED, /* the member with the fewest live fibers at that moment */
};

struct weft_crew_opts {
    const char *name; /* members are "<name><i>"; of any length; default "crew" */
    unsigned members; /* default: usable CPUs */
    enum weft_placement placement;
    size_t stack_bytes;  /* default 64 KiB */
    uint64_t max_fibers; /* per member */
    const int *cpus;     /* member i is pinned to cpus[i % cpu_count] */
    size_t cpu_count;
};

WEFT_API int weft_crew_create(weft_crew **out, const struct weft_crew_opts *opts);
WEFT_API int weft_crew_start(weft_crew *crew);
WEFT_API int weft_crew_submit(weft_crew *crew, weft_fn fn, void *arg);
WEFT_API int weft_crew_spawn(weft_crew *crew, weft_fiber *out, weft_fn fn, void *arg,
                             const struct weft_fiber_opts *opts);
/* weft_call_on the member that the placement rule picks. */
WEFT_API int weft_crew_call(weft_crew *crew, weft_fn fn, void *arg, void **result);
/* Member i, or the next by the placement rule; borrowed. */
WEFT_API weft_pool *weft_crew_member(weft_crew *crew, unsigned i);
WEFT_API weft_pool *weft_crew_next(weft_crew *crew);
WEFT_API unsigned weft_crew_size(const weft_crew *crew);
/* As weft_pool_stop, every member; the first error, after all were tried. */
WEFT_API int weft_crew_stop(weft_crew *crew, enum weft_stop_mode mode, int64_t deadline);
WEFT_API void weft_crew_destroy(weft_crew *crew);

WEFT_END_DECLS
#endif
