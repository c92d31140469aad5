/* A crew: pools of one thread each, and a rule that places work on them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/compute.h>
#include <weft/hop.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "sched/pool.h"

struct weft_crew {
    unsigned size;
    enum weft_placement placement;
    _Atomic(unsigned) turn;
    weft_pool *members[];
};

int weft_crew_create(weft_crew **out, const struct weft_crew_opts *options)
{
    struct weft_crew_opts opts = {0};
    if (options) {
        opts = *options;
    }
    const char *name = opts.name ? opts.name : "crew";
    unsigned size = opts.members ? opts.members : weft__cpu_usable();
    if (strlen(name) > 6 || size > 1000 ||
        (opts.placement != WEFT_ROUND_ROBIN && opts.placement != WEFT_LEAST_LOADED)) {
        return -EINVAL;
    }
    weft_crew *crew = weft__alloc(sizeof *crew + size * sizeof crew->members[0]);
    if (!crew) {
        return -ENOMEM;
    }
    crew->placement = opts.placement;
    for (; crew->size < size; crew->size++) {
        char member[24];
        snprintf(member, sizeof member, "%.6s%u", name, crew->size);
        struct weft_pool_opts pool = {
            .name = member,
            .workers = 1,
            .compute = true,
            .stack_bytes = opts.stack_bytes,
            .max_fibers = opts.max_fibers,
            .cpus = opts.cpu_count ? &opts.cpus[crew->size % opts.cpu_count] : NULL,
            .cpu_count = opts.cpu_count ? 1 : 0,
        };
        int err = weft_pool_create(&crew->members[crew->size], &pool);
        if (err) {
            weft_crew_destroy(crew);
            return err;
        }
    }
    *out = crew;
    return 0;
}

void weft_crew_destroy(weft_crew *crew)
{
    if (crew) {
        for (unsigned i = 0; i < crew->size; i++) {
            weft_pool_destroy(crew->members[i]);
        }
        weft__free(crew);
    }
}

int weft_crew_start(weft_crew *crew)
{
    for (unsigned i = 0; i < crew->size; i++) {
        int err = weft_pool_start(crew->members[i]);
        if (err) {
            return err;
        }
    }
    return 0;
}

int weft_crew_stop(weft_crew *crew, enum weft_stop_mode mode, int64_t deadline)
{
    int first = 0;
    for (unsigned i = 0; i < crew->size; i++) {
        int err = weft_pool_stop(crew->members[i], mode, deadline);
        first = first ? first : err;
    }
    return first;
}

static weft_pool *least_loaded(const weft_crew *crew)
{
    weft_pool *best = crew->members[0];
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < crew->size && least > 0; i++) {
        uint64_t live = weft__pool_live(crew->members[i]);
        if (live < least) {
            least = live;
            best = crew->members[i];
        }
    }
    return best;
}

weft_pool *weft_crew_next(weft_crew *crew)
{
    if (crew->placement == WEFT_LEAST_LOADED) {
        return least_loaded(crew);
    }
    unsigned turn = atomic_fetch_add_explicit(&crew->turn, 1, memory_order_relaxed);
    return crew->members[turn % crew->size];
}

weft_pool *weft_crew_member(weft_crew *crew, unsigned i)
{
    return i < crew->size ? crew->members[i] : NULL;
}

unsigned weft_crew_size(const weft_crew *crew)
{
    return crew->size;
}

int weft_crew_submit(weft_crew *crew, weft_fn fn, void *arg)
{
    return weft_pool_submit(weft_crew_next(crew), fn, arg);
}

int weft_crew_spawn(weft_crew *crew, weft_fiber *out, weft_fn fn, void *arg,
                    const struct weft_fiber_opts *opts)
{
    return weft_pool_spawn(weft_crew_next(crew), out, fn, arg, opts);
}

int weft_crew_call(weft_crew *crew, weft_fn fn, void *arg, void **result)
{
    return weft_call_on(weft_crew_next(crew), WEFT_ANY_WORKER, fn, arg, result);
}
