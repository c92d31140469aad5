/* A set of isolated pools: pools of one thread each, and a placement rule over them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/fiber.h>
#include <weft/pool.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "sched/pool.h"

struct weft_pool_set {
    unsigned size;
    enum weft_placement placement;
    _Atomic(unsigned) turn;
    weft_pool *members[];
};

int weft_pool_set_create(weft_pool_set **out, const struct weft_pool_set_opts *options)
{
    struct weft_pool_set_opts opts = {0};
    if (options) {
        opts = *options;
    }
    const char *name = opts.name ? opts.name : "pools";
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
    weft_pool_set *pools = weft__alloc(sizeof *pools + size * sizeof pools->members[0]);
    size_t room = strlen(name) + 5; /* for a number up to 999 */
    char *member = weft__alloc(room);
    int err = pools && member ? 0 : -ENOMEM;
    if (err) {
        goto free_both;
    }
    pools->placement = opts.placement;
    for (; pools->size < size; pools->size++) {
        snprintf(member, room, "%s%u", name, pools->size % 1000);
        struct weft_pool_opts pool = {
            .name = member,
            .workers = 1,
            .compute = true,
            .stack_bytes = opts.stack_bytes,
            .max_fibers = opts.max_fibers,
            .cpus = opts.cpu_count ? &opts.cpus[pools->size % opts.cpu_count] : NULL,
            .cpu_count = opts.cpu_count ? 1 : 0,
        };
        err = weft_pool_create(&pools->members[pools->size], &pool);
        if (err) {
            goto destroy_members;
        }
        pools->members[pools->size]->yields_cpu = size > weft__cpu_usable();
    }
    weft__free(member);
    *out = pools;
    return 0;

destroy_members:
    while (pools->size > 0) {
        weft_pool_destroy(pools->members[--pools->size]);
    }
free_both:
    weft__free(member);
    weft__free(pools);
    return err;
}

void weft_pool_set_destroy(weft_pool_set *pools)
{
    if (pools) {
        for (unsigned i = 0; i < pools->size; i++) {
            weft_pool_destroy(pools->members[i]);
        }
        weft__free(pools);
    }
}

int weft_pool_set_start(weft_pool_set *pools)
{
    WEFT__NONNULL(pools);
    for (unsigned i = 0; i < pools->size; i++) {
        int err = weft_pool_start(pools->members[i]);
        if (err) {
            return err;
        }
    }
    return 0;
}

int weft_pool_set_stop(weft_pool_set *pools, enum weft_stop_mode mode, int64_t deadline)
{
    WEFT__NONNULL(pools);
    int first = 0;
    for (unsigned i = 0; i < pools->size; i++) {
        int err = weft_pool_stop(pools->members[i], mode, deadline);
        first = first ? first : err;
    }
    return first;
}

static weft_pool *least_loaded(const weft_pool_set *pools)
{
    weft_pool *best = pools->members[0];
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < pools->size && least > 0; i++) {
        uint64_t live = weft__pool_live(pools->members[i]);
        if (live < least) {
            least = live;
            best = pools->members[i];
        }
    }
    return best;
}

weft_pool *weft__pool_set_next(weft_pool_set *pools)
{
    WEFT__NONNULL(pools);
    if (pools->placement == WEFT_LEAST_LOADED) {
        return least_loaded(pools);
    }
    unsigned turn = atomic_fetch_add_explicit(&pools->turn, 1, memory_order_relaxed);
    return pools->members[turn % pools->size];
}

weft_pool *weft_pool_set_member(weft_pool_set *pools, unsigned i)
{
    WEFT__NONNULL(pools);
    return i < pools->size ? pools->members[i] : NULL;
}

unsigned weft_pool_set_size(const weft_pool_set *pools)
{
    WEFT__NONNULL(pools);
    return pools->size;
}

int weft_pool_set_submit(weft_pool_set *pools, weft_fn fn, void *arg)
{
    WEFT__NONNULL(pools);
    return weft_pool_submit(weft__pool_set_next(pools), fn, arg);
}

int weft_pool_set_spawn(weft_pool_set *pools, weft_fiber *out, weft_fn fn, void *arg,
                        const struct weft_fiber_opts *opts)
{
    WEFT__NONNULL(pools);
    return weft_pool_spawn(weft__pool_set_next(pools), out, fn, arg, opts);
}

int weft_pool_set_call(weft_pool_set *pools, void **result, weft_fn fn, void *arg, int64_t deadline)
{
    WEFT__NONNULL(pools);
    return weft_pool_call(weft__pool_set_next(pools), result, WEFT_ANY_WORKER, fn, arg, deadline);
}
