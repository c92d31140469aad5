#include "worker_probe.h"

#include <stdlib.h>

void worker_probe_unref(struct worker_probe *probe)
{
    if (atomic_fetch_sub(&probe->refs, 1) == 1) {
        weft_waitgroup_deinit(&probe->waiting);
        free(probe);
    }
}

static void *run_probe(void *arg)
{
    struct worker_probe *probe = arg;
    atomic_store(&probe->delay_ns[weft_worker_self()], weft_now() - probe->began);
    weft_waitgroup_done(&probe->waiting);
    worker_probe_unref(probe);
    return NULL;
}

struct worker_probe *worker_probe_run(weft_pool *pool)
{
    unsigned workers = weft_pool_workers(pool);
    struct worker_probe *probe = calloc(1, sizeof *probe + workers * sizeof *probe->delay_ns);
    if (!probe) {
        return NULL;
    }
    weft_waitgroup_init(&probe->waiting, NULL);
    atomic_init(&probe->refs, 1);
    probe->workers = workers;
    probe->began = weft_now();
    for (unsigned i = 0; i < workers; i++) {
        struct weft_fiber_opts opts = {
            .name = "probe", .worker = (int)i, .bound = true, .stack_bytes = 16384};
        atomic_init(&probe->delay_ns[i], -1);
        atomic_fetch_add(&probe->refs, 1);
        weft_waitgroup_add(&probe->waiting, 1);
        if (weft_pool_spawn(pool, NULL, run_probe, probe, &opts) != 0) {
            weft_waitgroup_done(&probe->waiting);
            atomic_fetch_sub(&probe->refs, 1); /* the caller's reference is left */
        }
    }
    weft_waitgroup_wait(&probe->waiting, weft_after(WORKER_PROBE_NS));
    return probe;
}
