/* A set of isolated pools: pools of one thread each, and a placement rule over them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/compute.h>
#include <weft/hop.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/need.h"
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
    if (size > 1000) {
        return weft__refuse(-EINVAL, "members: must be at most 1000");
    }
    if (opts.placement != WEFT_ROUND_ROBIN && opts.placement != WEFT_LEAST_LOADED) {
        return weft__refuse(-EINVAL, "placement: must be one of enum weft_placement");
    }
    if (opts.cpu_count && !opts.cpus) {
        return weft__refuse(-EINVAL, "cpus: must be given with cpu_count");
    }
    weft_crew *crew = weft__alloc(sizeof *crew + size * sizeof crew->members[0]);
    size_t room = strlen(name) + 5; /* for a number up to 999 */
    char *member = weft__alloc(room);
    int err = crew && member ? 0 : -ENOMEM;
    if (err) {
        goto free_both;
    }
    crew->placement = opts.placement;
    for (; crew->size < size; crew->size++) {
        snprintf(member, room, "%s%u", name, crew->size % 1000);
        struct weft_pool_opts pool = {
            .name = member,
            .workers = 1,
            .compute = true,
            .stack_bytes = opts.stack_bytes,
            .max_fibers = opts.max_fibers,
            .cpus = opts.cpu_count ? &opts.cpus[crew->size % opts.cpu_count] : NULL,
            .cpu_count = opts.cpu_count ? 1 : 0,
        };
        err = weft_pool_create(&crew->members[crew->size], &pool);
        if (err) {
            goto destroy_members;
        }
        crew->members[crew->size]->yields = size > weft__cpu_usable();
    }
    weft__free(member);
    *out = crew;
    return 0;

destroy_members:
    while (crew->size > 0) {
        weft_pool_destroy(crew->members[--crew->size]);
    }
free_both:
    weft__free(member);
    weft__free(crew);
    return err;
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
    WEFT__NEED(crew);
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
    WEFT__NEED(crew);
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
    WEFT__NEED(crew);
    if (crew->placement == WEFT_LEAST_LOADED) {
        return least_loaded(crew);
    }
    unsigned turn = atomic_fetch_add_explicit(&crew->turn, 1, memory_order_relaxed);
    return crew->members[turn % crew->size];
}

weft_pool *weft_crew_member(weft_crew *crew, unsigned i)
{
    WEFT__NEED(crew);
    return i < crew->size ? crew->members[i] : NULL;
}

unsigned weft_crew_size(const weft_crew *crew)
{
    WEFT__NEED(crew);
    return crew->size;
}

int weft_crew_submit(weft_crew *crew, weft_fn fn, void *arg)
{
    WEFT__NEED(crew);
    return weft_pool_submit(weft_crew_next(crew), fn, arg);
}

int weft_crew_spawn(weft_crew *crew, weft_fiber *out, weft_fn fn, void *arg,
                    const struct weft_fiber_opts *opts)
{
    WEFT__NEED(crew);
    return weft_pool_spawn(weft_crew_next(crew), out, fn, arg, opts);
}

int weft_crew_call(weft_crew *crew, weft_fn fn, void *arg, void **result)
{
    WEFT__NEED(crew);
    return weft_call_on(weft_crew_next(crew), WEFT_ANY_WORKER, fn, arg, result);
}
