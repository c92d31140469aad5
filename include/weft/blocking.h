/* Thread pools for functions that block: file systems, resolvers, libraries that do not know
 * fibers.
 *
 * The calling fiber (or plain thread) waits while its worker runs other fibers. Ending the wait
 * early does not end the function, which cannot be stopped. So there are two forms:
 *
 *   weft_blocking_call     the function may use the caller's stack: once it has started, the call
 *                          returns when the function returns. A deadline, cancel or interrupt ends
 *                          the call only while it is queued.
 *   weft_blocking_run      detachable: the job is separate, reference-counted memory, and the
 *                          caller may leave while it runs. The last of the two, caller or thread,
 *                          releases it.
 *
 * In both forms, a function that had not started when its caller left never runs.
 *
 * Functions run on plain threads of the pool, in no fiber, with all signals blocked except those
 * that they cause themselves. They may use everything in Weft that a plain thread may use.
 *
 * A pool created before a fork() must not be used in the child (docs/fork.md).
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <stdio.h>

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_blocking_pool weft_blocking_pool;

enum weft_blocking_policy {
    WEFT_BLOCKING_WAIT,   /* all threads busy: queue, up to queue_max; beyond that -EAGAIN */
    WEFT_BLOCKING_REFUSE, /* all threads busy: -EAGAIN */
};

struct weft_blocking_opts {
    const char *name;     /* threads are named "<name>_<i>", cut to 15 bytes; default "blocking" */
    unsigned min_threads; /* started by create, and kept; default 0 */
    unsigned max_threads; /* at most 4096; default 64, or min_threads if that is greater */
    int64_t idle_ns;    /* idle threads above min_threads end after this; default 10 s; <0: never */
    unsigned queue_max; /* jobs waiting for a thread; default 65536 */
    enum weft_blocking_policy policy;
    size_t stack_bytes; /* per thread; default 1 MiB */
};

/* Create a pool and start min_threads threads.
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned pool in *out; -EINVAL for a bad option (weft_last_error names it);
 * -ENOMEM; -EAGAIN if min_threads could not be started, and then no thread is left running.
 * Context: any thread; does not wait, except for started threads to end after -EAGAIN. */
WEFT_API int weft_blocking_create(weft_blocking_pool **out, const struct weft_blocking_opts *opts);

/* Stop a pool: refuse new calls (-ESHUTDOWN) and wait until all queued jobs have run and all
 * threads have ended.
 * Returns 0 if they have. At the deadline, jobs that are still queued are dropped, their callers
 * get -ESHUTDOWN, and functions that still run are left to end by themselves: then -EBUSY.
 * -ECANCELED or -EINTR if the wait ended first, and nothing is dropped. Call again to wait again.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_blocking_stop(weft_blocking_pool *pool, int64_t deadline);

/* Destroy a stopped pool; takes it; NULL is ignored. The stop may have returned -EBUSY: the memory
 * is then freed with the last thread. Stops the program if the pool was not stopped. Destroying
 * while another thread or fiber is still inside a call on this pool is a caller's bug.
 * Context: any thread; does not wait. */
WEFT_API void weft_blocking_destroy(weft_blocking_pool *pool);

/* Get the process-wide pool, created with default options by the first call and never stopped. In
 * all calls below, a NULL pool means this one.
 * Returns the pool, borrowed; NULL if memory runs out.
 * Context: any thread; does not wait. */
WEFT_API weft_blocking_pool *weft_blocking_default(void);

/* Run fn(arg) on a thread of the pool and wait for it.
 *
 * result: receives fn's return value; may be NULL.
 * Returns 0 if fn ran, however late. Every error means that fn did not run and will not:
 * -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended before fn started; -EAGAIN if the policy
 * refused the call, or there is no thread and none could be started; -ESHUTDOWN if the pool was
 * stopped; -ENOMEM if there is no default pool. A cancel or interrupt that arrived after fn started
 * is kept for the next wait. WEFT_STOP_ABORT of the caller's pool does not end the call either; the
 * worker's thread then blocks until fn has returned.
 * Context: any fiber or thread; waits; cancellation point only until fn starts. */
WEFT_API int weft_blocking_call(weft_blocking_pool *pool, void **result, weft_fn fn, void *arg,
                                int64_t deadline);

/* A detachable job: the first member of the caller's own heap-allocated struct. */
struct weft_blocking_job {
    void (*run)(struct weft_blocking_job *job);
    /* Called once, when the last reference is released, without a lock held, by the caller or by a
     * thread of the pool. Usually frees the job. */
    void (*release)(struct weft_blocking_job *job);
    bool started; /* after weft_blocking_run: `run` was called; written only by that call */
    /* private */
    uint64_t weft_private[5];
};

/* Initialise a job with one reference, owned by the caller. run and release must not be NULL,
 * otherwise the program stops.
 * Context: any thread; does not wait. */
WEFT_API void weft_blocking_job_init(struct weft_blocking_job *job,
                                     void (*run)(struct weft_blocking_job *),
                                     void (*release)(struct weft_blocking_job *));

/* Queue the job and wait until it has run. The caller keeps its reference whatever the result, and
 * drops it with weft_blocking_release; the pool holds its own reference while the job is queued or
 * running. Running a job that is queued or running stops the program.
 * Returns 0 if the job ran: its memory is the caller's alone again, and it may be run again.
 * -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first: if job->started is true the job may
 * still be running and must not be touched except by weft_blocking_release; if false, it never ran
 * and may be run again. -EAGAIN, -ESHUTDOWN, -ENOMEM as weft_blocking_call.
 * Context: any fiber or thread; waits; cancellation point. */
WEFT_API int weft_blocking_run(weft_blocking_pool *pool, struct weft_blocking_job *job,
                               int64_t deadline);
/* Drop a reference to a job; the last one calls job->release.
 * Context: any thread; does not wait. */
WEFT_API void weft_blocking_release(struct weft_blocking_job *job);

struct weft_blocking_stats {
    unsigned threads, idle, peak; /* now; now; maximum */
    unsigned queued;              /* jobs waiting for a thread */
    uint64_t done;                /* functions that returned */
    uint64_t refused;             /* calls that got -EAGAIN */
    uint64_t withdrawn;           /* callers that left before the function started */
    uint64_t detached;            /* callers that left a running function */
    uint64_t retired;             /* threads that ended because they were idle */
    uint64_t failed;              /* threads that could not be started */
};
/* Read a pool's counters (stats), or print them as one line (dump).
 * Context: any thread; do not wait. */
WEFT_API void weft_blocking_stats(weft_blocking_pool *pool, struct weft_blocking_stats *out);
WEFT_API void weft_blocking_dump(weft_blocking_pool *pool, FILE *out);

WEFT_END_DECLS
#endif
