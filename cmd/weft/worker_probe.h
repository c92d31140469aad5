/* A probe of the workers: a fiber on each worker records when it ran. That is how long work waits
 * on that worker now. The health check and the metrics use it.
 *
 * A probe is shared by its fibers and the request that asked for it, which may have ended before a
 * worker answers: the last reference frees it.
 */
#ifndef WEFT_CMD_WORKER_PROBE_H
#define WEFT_CMD_WORKER_PROBE_H

#include <stdatomic.h>

#include <weft/weft.h>

#define WORKER_PROBE_NS 1000000000 /* a probe waits no longer */

struct worker_probe {
    _Atomic(int) refs;
    int64_t began;
    weft_waitgroup waiting;
    unsigned workers;
    _Atomic(int64_t) delay_ns[]; /* -1: not yet */
};

/* Probes the workers and waits for them, at most WORKER_PROBE_NS. Returns a probe with a reference
 * for the caller; NULL if there is no memory. */
struct worker_probe *worker_probe_run(weft_pool *pool);
void worker_probe_unref(struct worker_probe *probe);

#endif
