/* Seeing inside: counters, snapshots, the text dump and the trace ring.
 *
 * Counters are written by their worker alone and may be read at any time; a snapshot is not one
 * instant of all workers.
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
    uint64_t executed;  /* turns: times a fiber was switched to */
    uint64_t spawned;   /* fibers made by this worker's fibers */
    uint64_t finished;  /* fibers that ended here */
    uint64_t steals;    /* successful steals */
    uint64_t stolen;    /* fibers they brought */
    uint64_t parks;     /* times the thread blocked */
    uint64_t wakes;     /* times another thread unblocked it */
    uint64_t overflows; /* times the ring spilled into the global queue */
    uint64_t stacks;    /* stacks attached */
    uint64_t hogs;      /* times a fiber was reported for keeping the worker too long */
    int64_t io_waiting; /* waits on descriptors that began here less those that ended here: the sum
                           counts */
    uint64_t io_looks;  /* times the driver was asked */
    uint64_t io_events; /* what it reported */
    size_t ring, fresh; /* queue lengths now */
    size_t inbox;       /* 1 if something has arrived from outside and was not taken yet */
    size_t bound;       /* live fibers that only this worker may run */
    weft_fiber current;
};

struct weft_pool_stats {
    const char *name;
    unsigned workers;
    unsigned active, idle; /* workers running or searching; parked */
    bool started, stopping;
    bool compute;                    /* has no I/O driver */
    const char *driver, *driver_why; /* which runs, and how it came to that; NULL: no I/O yet */
    uint64_t live;                   /* fibers that have not ended */
    size_t global;                   /* length of the global queue */
    uint64_t submitted; /* fibers that came from outside the pool: submitted, or by a hop */
    struct weft_worker_stats total; /* sums of the workers' counters */
};

WEFT_API void weft_pool_stats(weft_pool *pool, struct weft_pool_stats *out);
/* -EINVAL: no such worker. */
WEFT_API int weft_worker_stats(weft_pool *pool, unsigned worker, struct weft_worker_stats *out);

struct weft_fiber_info {
    weft_fiber fiber;
    char name[16];
    char group[32]; /* of a dispatcher's: the name of its group; else "" */
    bool daemon;    /* that does not hold it open */
    enum weft_fiber_state state;
    int worker;        /* the worker that runs it or ran it last, -1 if none has */
    int bound;         /* the worker it is bound to, or -1 */
    int64_t age_ns;    /* since it was made, to one clock tick of its maker's worker */
    const char *waits; /* what it waits for ("park", "join"), NULL if it does not wait */
    weft_fiber on;     /* the fiber it waits for, if it joins one */
};
/* Calls visit for every live fiber of the pool (of all pools if NULL) until it returns false. The
 * fibers go on meanwhile, so each record is true of its own moment. */
WEFT_API void weft_each_fiber(weft_pool *pool,
                              bool (*visit)(const struct weft_fiber_info *, void *), void *arg);

/* The whole picture as text: pool, workers, counters, then up to max_fibers fibers (0: none). */
WEFT_API void weft_pool_dump(weft_pool *pool, FILE *out, size_t max_fibers);

/* The process: stacks, guards, memory. */
struct weft_memory_stats {
    size_t blocks;         /* fiber control blocks ever made */
    size_t stacks;         /* stacks carved so far */
    size_t reserved_bytes; /* address space reserved for stacks */
    size_t mappings;       /* reservations that took */
    const char *guard;     /* how stacks are guarded: "guard-install", "mprotect" or "canary" */
};
WEFT_API void weft_memory_stats(struct weft_memory_stats *out);

/* Gives the pages of idle stacks back to the kernel, all but the few (up to 32 of a size) that each
 * worker keeps at hand. Returns how many stacks it trimmed. */
WEFT_API size_t weft_trim(void);

/* The trace ring: the last 1024 scheduling events of each worker. Off until switched on; costs one
 * predicted branch per event when off. Events print oldest first, one per line. */
WEFT_API void weft_pool_trace(weft_pool *pool, bool on);
WEFT_API void weft_pool_trace_dump(weft_pool *pool, FILE *out);

WEFT_END_DECLS
#endif
