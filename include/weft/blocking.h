/* Threads for functions that block: file systems, resolvers, libraries that know nothing of fibers.
 *
 * The calling fiber (or plain thread) waits, its worker goes on with others. What ends the wait
 * early does not end the function, which cannot be stopped. So there are two forms:
 *
 *   weft_blocking_call     the function may use the caller's stack: once it has begun, the call
 *                          returns when it returns. A deadline, a cancel or an interrupt ends the
 *                          call only while it is queued.
 *   weft_blocking_run      detachable: the job is memory of its own with a count of references, and
 *                          the caller may leave while it runs. Whoever is last, the caller or the
 *                          thread, releases it.
 *
 * In both, a function that had not begun when its caller left never runs.
 *
 * Functions run on plain threads of the pool, in no fiber, with all signals blocked but those that
 * they cause. They may use everything of Weft that a plain thread may.
 *
 * A pool of before a fork() must not be used in the child (docs/fork.md).
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <stdio.h>

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_blocking_pool weft_blocking_pool;

enum weft_blocking_policy {
    WEFT_BLOCKING_WAIT,   /* all threads busy: queued, up to queue_max; beyond that -EAGAIN */
    WEFT_BLOCKING_REFUSE, /* all threads busy: -EAGAIN */
};

struct weft_blocking_opts {
    const char *name;     /* threads are "<name>_<i>", cut to 15 bytes; default "blocking" */
    unsigned min_threads; /* made at once, and kept; default 0 */
    unsigned max_threads; /* at most 4096; default 64, or min_threads if that is more */
    int64_t idle_ns;    /* a thread above min that is idle so long ends; default 10 s; < 0: never */
    unsigned queue_max; /* jobs that wait for a thread; default 65536 */
    enum weft_blocking_policy policy;
    size_t stack_bytes; /* of each thread; default 1 MiB */
};

/* -EINVAL: bad options. -ENOMEM. -EAGAIN: min_threads could not be made, and none is left
 * running. */
WEFT_API int weft_blocking_create(weft_blocking_pool **out, const struct weft_blocking_opts *opts);

/* Refuses new calls (-ESHUTDOWN) and waits until everything that was queued has run and all threads
 * have ended. 0: so it is. At the deadline what is still queued is given up, its callers get
 * -ESHUTDOWN; functions that still run are left to end by themselves: then -EBUSY. -ECANCELED,
 * -EINTR: as at the deadline, but nothing is given up. Stop again to wait again. */
WEFT_API int weft_blocking_stop(weft_blocking_pool *pool, int64_t deadline);

/* After a stop, which may have answered -EBUSY: the memory goes with the last thread. Before a stop
 * it is a caller's bug, as is another thread or fiber that is still in a call with this pool. NULL
 * is fine. */
WEFT_API void weft_blocking_destroy(weft_blocking_pool *pool);

/* The pool of the process, made with default options at the first call; never ended. NULL: no
 * memory. NULL as a pool means this one in all calls below. */
WEFT_API weft_blocking_pool *weft_blocking_default(void);

/* Runs fn(arg) on a thread of the pool and waits for it. 0: it ran, and *result (if not NULL) is
 * what it returned, however late. All errors mean that it did not run and will not:
 *  -ETIMEDOUT, -ECANCELED, -EINTR: the wait ended before it began. -EAGAIN: refused by the policy,
 *  or there is no thread and none could be made. -ESHUTDOWN: the pool was stopped. -ENOMEM: no
 *  default pool.
 * A cancel or an interrupt that came too late is kept for the next wait. A stop of the caller's
 * pool by WEFT_STOP_ABORT does not make it leave either; the worker's thread then blocks until fn
 * has returned. */
WEFT_API int weft_blocking_call(weft_blocking_pool *pool, weft_fn fn, void *arg, void **result,
                                int64_t deadline);

/* A detachable job: the head of the caller's own struct, in the heap. */
struct weft_blocking_job {
    void (*run)(struct weft_blocking_job *job);
    /* Runs once, when the last reference is given back; not under a lock, by the caller or by a
     * thread of the pool. Usually it frees. */
    void (*release)(struct weft_blocking_job *job);
    bool started; /* after weft_blocking_run: `run` was called; written by it alone */
    /* private */
    uint64_t weft_private[5];
};

/* The caller has the one reference. */
WEFT_API void weft_blocking_job_init(struct weft_blocking_job *job,
                                     void (*run)(struct weft_blocking_job *),
                                     void (*release)(struct weft_blocking_job *));

/* Queues the job and waits until it has run. The caller keeps its reference whatever the answer is,
 * and gives it back with weft_blocking_release; the pool has one of its own as long as the job is
 * queued or runs.
 *  0: it ran; its memory is the caller's alone again. It may be run once more.
 *  -ETIMEDOUT, -ECANCELED, -EINTR: the wait ended. job->started says which: true, it may be running
 *  still, and nothing of it may be touched but by weft_blocking_release; false, it never ran, and
 *  may be run again. -EAGAIN, -ESHUTDOWN, -ENOMEM as weft_blocking_call. */
WEFT_API int weft_blocking_run(weft_blocking_pool *pool, struct weft_blocking_job *job,
                               int64_t deadline);
WEFT_API void weft_blocking_release(struct weft_blocking_job *job);

struct weft_blocking_stats {
    unsigned threads, idle, peak; /* now; now; most at once */
    unsigned queued;              /* jobs that wait for a thread */
    uint64_t done;                /* functions that returned */
    uint64_t refused;             /* -EAGAIN */
    uint64_t withdrawn;           /* callers that left before the function began */
    uint64_t detached;            /* callers that left a running function */
    uint64_t retired;             /* threads that ended because they were idle */
    uint64_t failed;              /* threads that could not be made */
};
WEFT_API void weft_blocking_stats(weft_blocking_pool *pool, struct weft_blocking_stats *out);
/* One line of all that. */
WEFT_API void weft_blocking_dump(weft_blocking_pool *pool, FILE *out);

WEFT_END_DECLS
#endif
