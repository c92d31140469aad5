/* Statistics and inspection: counters of pools, workers and memory, snapshots of fibers, a text
 * dump of a pool, and the trace ring.
 *
 * Counters are written by their worker alone and may be read at any time; the numbers of different
 * workers are from different moments.
 */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include <stdio.h>

#include <weft/pool.h>

WEFT_BEGIN_DECLS

enum weft_worker_state {
    WEFT_WORKER_ABSENT, /* not started, or a caller that is not in run, poll or stop */
    WEFT_WORKER_RUNNING,
    WEFT_WORKER_SEARCHING,
    WEFT_WORKER_PARKED,
};

struct weft_worker_stats {
    enum weft_worker_state state;
    int tid;            /* kernel thread id, 0 if absent */
    uint64_t executed;  /* times a fiber was switched to */
    uint64_t spawned;   /* fibers spawned by this worker's fibers */
    uint64_t finished;  /* fibers that ended here */
    uint64_t steals;    /* successful steals */
    uint64_t stolen;    /* fibers that the steals brought */
    uint64_t parks;     /* times the thread blocked */
    uint64_t wakes;     /* times another thread unblocked it */
    uint64_t overflows; /* times the ring spilled into the global queue */
    uint64_t stacks;    /* stacks attached */
    uint64_t hogs;      /* times a fiber was reported for keeping the worker too long */
    /* Waits on descriptors that began here minus those that ended here: only the sum over all
     * workers is meaningful. */
    int64_t io_waiting;
    uint64_t io_polls;  /* times the driver was polled */
    uint64_t io_events; /* events it reported */
    size_t ring, fresh; /* queue lengths now */
    size_t inbox;       /* 1 if tasks have arrived from other threads and were not taken yet */
    size_t bound;       /* live fibers that only this worker may run */
    weft_fiber current;
};

struct weft_pool_stats {
    const char *name;
    unsigned workers;
    unsigned active, idle; /* workers running or searching; parked */
    bool started, stopping;
    bool compute;                    /* has no I/O driver */
    const char *driver, *driver_why; /* driver in use, and why it was chosen; NULL: no I/O yet */
    uint64_t live;                   /* fibers that have not ended */
    size_t global;                   /* length of the global queue */
    uint64_t submitted;              /* fibers from outside the pool: submitted, or migrated here */
    struct weft_worker_stats total;  /* sums of the workers' counters */
};

/* Fill in *out.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_stats(weft_pool *pool, struct weft_pool_stats *out);

/* Fill in *out for one worker.
 *
 * Returns 0; -EINVAL if there is no such worker.
 * Context: any thread; does not wait. */
WEFT_API int weft_worker_stats(weft_pool *pool, unsigned worker, struct weft_worker_stats *out);

struct weft_fiber_info {
    weft_fiber fiber;
    char name[16];
    char group[32]; /* name of its group; "" outside a dispatcher */
    bool daemon;    /* does not keep the group open */
    enum weft_fiber_state state;
    int worker;        /* the worker that runs it or ran it last; -1 if none has */
    int bound;         /* the worker it is bound to, or -1 */
    int64_t age_ns;    /* since its creation, to one clock tick of the creating worker */
    const char *waits; /* what it waits for ("park", "join"); NULL if it does not wait */
    weft_fiber on;     /* the fiber it waits for, if it joins one */
};

/* Call `visit` for every live fiber of the pool, or of all pools if NULL, until `visit` returns
 * false. The fibers keep running meanwhile, so different records are from different moments.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_fiber_each(weft_pool *pool,
                              bool (*visit)(const struct weft_fiber_info *, void *), void *arg);

/* Write the pool as text: the pool, its workers, their counters, then up to max_fibers fibers (0:
 * none).
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_dump(weft_pool *pool, FILE *out, size_t max_fibers);

/* Memory of the process: fiber control blocks and stacks. */
struct weft_memory_stats {
    size_t blocks;         /* fiber control blocks ever created */
    size_t stacks;         /* stacks carved so far */
    size_t reserved_bytes; /* address space reserved for stacks */
    size_t mappings;       /* mappings that the reservations use */
    const char *guard;     /* how stacks are guarded: "guard-install", "mprotect" or "canary" */
};

/* Fill in *out.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_memory_stats(struct weft_memory_stats *out);

/* Return the pages of idle stacks to the kernel, except the few stacks (up to 32 of a size) that
 * each worker keeps in its cache.
 *
 * Returns the number of stacks trimmed.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_stack_trim(void);

/* Switch the trace ring on or off. The ring holds the last 1024 scheduling events of each worker;
 * it costs one predicted branch per event while it is off, as it is at first.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_trace(weft_pool *pool, bool on);

/* Write the events in the trace ring, worker by worker, the oldest first, one per line.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_trace_dump(weft_pool *pool, FILE *out);

WEFT_END_DECLS
#endif
