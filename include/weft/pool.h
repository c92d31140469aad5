/* Pools: an M:N scheduler. A pool runs M fibers on N worker threads, with work stealing between the
 * workers. Use one pool for a whole program (weft_run), or several to isolate kinds of work from
 * one another.
 *
 * Life cycle: create -> start -> (submit, run, poll ...) -> stop -> destroy; a stopped pool may be
 * started again.
 *
 * After fork() the child may exec, _exit, or create pools of its own. Using a pool or a fiber of
 * the parent in the child ends the child with a message (docs/fork.md).
 */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include <stdio.h>

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

#define WEFT_MAX_WORKERS 1024u /* per pool */

/* The order in which a worker starts fibers that have not run yet. */
enum weft_fresh_order {
    WEFT_FRESH_LIFO, /* newest first: a tree of fibers runs depth first */
    WEFT_FRESH_FIFO, /* oldest first */
};

/* The I/O driver of a pool: the kernel interface that its workers use.
 *
 * If a driver stops working for good, the program ends with a message. This happens when the
 * program closes the driver's descriptors (close_range), or when a seccomp filter that is installed
 * later forbids the driver's system calls. Operations in flight use the memory of the fibers that
 * wait for them, so no wait could return safely. */
enum weft_driver {
    /* io_uring if it is available, else epoll. The environment variable WEFT_DRIVER=auto, epoll,
     * uring or poll overrides the choice; any other value is refused with -EINVAL and a line on
     * stderr. */
    WEFT_DRIVER_AUTO,
    WEFT_DRIVER_EPOLL, /* readiness, edge-triggered */
    /* Completions, with io_uring. A ring belongs to one worker: a fiber that keeps its worker busy
     * delays the operations that other fibers have submitted there. With the other drivers, workers
     * serve one another's I/O. */
    WEFT_DRIVER_URING,
    WEFT_DRIVER_POLL, /* readiness, with poll(2): for a few descriptors, and for comparison tests */
};

/* Explain why a pool or a loop cannot use `driver` in this process.
 *
 * Returns a static string with the reason; NULL if the driver is available. For WEFT_DRIVER_AUTO:
 * NULL, unless the environment variable WEFT_DRIVER names a driver that is unavailable.
 * Context: any thread; does not wait. */
WEFT_API const char *weft_driver_unavailable(enum weft_driver driver);

struct weft_pool_opts {
    const char *name; /* copied; threads are "<name>_<i>", cut to 15 bytes; default "weft" */
    unsigned workers; /* default: the CPUs this process may use (affinity and cgroup quota) */
    bool caller;      /* the creating thread is worker 0 (weft_pool_run, weft_pool_poll, stop) */
    bool compute;     /* no I/O driver: I/O calls return -EOPNOTSUPP */
    enum weft_driver driver; /* default: auto */
    const int *cpus;         /* worker i is pinned to cpus[i % cpu_count]; default: not pinned */
    size_t cpu_count;
    size_t stack_bytes; /* default stack size of fibers; default 64 KiB, at most 64 MiB */
    /* Capacity of each worker's run queue: a power of two, 4 .. 65536; default 4096. */
    unsigned ring_slots;
    /* Initial capacity of each worker's queue of not-yet-started fibers: a power of two, 2 ..
     * 1048576; default 4096. */
    unsigned fresh_slots;
    uint64_t max_fibers; /* limit of live fibers; default: limited by memory only */
    /* Longest time a worker without work searches before it parks; default 5000; < 0: no search;
     * WEFT_FOREVER: one worker without work keeps searching and never parks. */
    int64_t spin_ns;
    enum weft_fresh_order fresh_order;
    /* Timer granularity: deadlines are rounded up to a multiple of this, which is itself rounded up
     * to a power of two. It bounds how late a timer fires by design; a coarser tick saves wake-ups
     * for timers that are close together. Up to 1 s; default 65536. */
    int64_t timer_tick_ns;
    /* A fiber that runs for longer without returning to its worker is reported (weft/inspect.h).
     * Default 100 ms; < 0: never. */
    int64_t hog_ns;
    /* The fibers of this pool may be woken by sources that Weft does not know: no deadlock is
     * reported while the pool has live fibers. */
    bool deadlock_off;
};

/* Create a pool with its workers stopped; weft_pool_start starts them.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned pool in *out; -EINVAL for a bad option, such as a CPU outside the allowed
 * set or a size out of range (weft_last_error names it); -EBUSY if opts->caller is set and this
 * thread is already a worker or the caller of another pool; -EOPNOTSUPP if the driver is not
 * available (weft_last_error says why); -ENOMEM; -EMFILE or -ENFILE if opts->caller is set and no
 * descriptor is left.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_create(weft_pool **out, const struct weft_pool_opts *opts);

/* Start the worker threads. A pool that is running already is left alone; a stopped pool starts
 * again.
 *
 * Returns 0; -EAGAIN if the threads cannot be created (none runs then; the call may be repeated);
 * -EBUSY while a stop is under way; -EINVAL for a dispatcher's pool.
 * Context: any thread; does not wait for fibers. */
WEFT_API int weft_pool_start(weft_pool *pool);

/* Start fn(arg) in a new fiber of `pool`. Before weft_pool_start the fiber waits in a queue.
 *
 * out: NULL for a detached fiber, as for weft_spawn.
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and, in *out, the handle of a joinable fiber (unless opts->detached); -EINVAL for bad
 * options, a NULL fn, or a dispatcher's pool; -EAGAIN if max_fibers fibers are live; -ESHUTDOWN if
 * the pool is stopping and the caller is not one of its fibers; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_spawn(weft_pool *pool, weft_fiber *out, weft_fn fn, void *arg,
                             const struct weft_fiber_opts *opts);

/* Start fn(arg) in a new detached fiber on any worker: weft_pool_spawn(pool, NULL, fn, arg, NULL).
 *
 * Returns 0; -EAGAIN, -EINVAL, -ESHUTDOWN, -ENOMEM as weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_submit(weft_pool *pool, weft_fn fn, void *arg);

struct weft_job {
    weft_fn fn;
    void *arg;
};
/* Start n detached fibers with one wake-up.
 *
 * jobs: n entries; borrowed for the call.
 * Returns 0; on an error none of them runs: -EINVAL if a job has no function or for a dispatcher's
 * pool; -EAGAIN, -ESHUTDOWN, -ENOMEM as weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_submit_batch(weft_pool *pool, const struct weft_job *jobs, size_t n);

/* Spawn fn(arg) and run the calling thread as worker 0 until that fiber has ended or the deadline
 * has come.
 *
 * result: NULL, or where the fiber's result is written on success.
 * Returns 0; -ETIMEDOUT at the deadline; -EINVAL if the pool was not created with `caller` by this
 * thread; -EBUSY if the thread is inside a worker loop already; -EDEADLK if the fiber can never
 * end: every fiber of every pool waits and no wake source is left (weft/inspect.h has reported the
 * fibers). After -ETIMEDOUT and -EDEADLK the fibers stay as they are, the first one detached; stop
 * the pool with WEFT_STOP_CANCEL to end them. With a deadline, a deadlock is reported as
 * -ETIMEDOUT. -EAGAIN, -ESHUTDOWN, -ENOMEM as weft_pool_spawn.
 * Context: the creating thread only, outside of fibers; waits. */
WEFT_API int weft_pool_run(weft_pool *pool, void **result, weft_fn fn, void *arg, int64_t deadline);

/* Run the ready fibers of worker 0 until none is ready. For a thread with an event loop of its own:
 * wait until the descriptor of weft_pool_fd is readable or weft_pool_next_deadline has come, then
 * poll again. Between polls worker 0 counts as parked, and other workers steal its work.
 *
 * Returns the number of turns it ran; -EINVAL, -EBUSY as weft_pool_run.
 * Context: the creating thread only, outside of fibers; runs fibers, does not wait. */
WEFT_API int weft_pool_poll(weft_pool *pool);

/* Get the descriptor that an event loop waits for: it is readable when weft_pool_poll has work to
 * do. The pool keeps owning it.
 *
 * Returns the descriptor; -EINVAL if the pool was not created with `caller`.
 * Context: the creating thread, between polls; does not wait. */
WEFT_API int weft_pool_fd(weft_pool *pool);
/* Get the time at which an event loop must call weft_pool_poll at the latest: that of the next
 * timer that worker 0 has to serve.
 *
 * Returns nanoseconds of CLOCK_MONOTONIC; WEFT_FOREVER if there is no timer.
 * Context: the creating thread, between polls; does not wait. */
WEFT_API int64_t weft_pool_next_deadline(weft_pool *pool);

enum weft_stop_mode {
    WEFT_STOP_DRAIN,  /* wait until every fiber has ended; at the deadline cancel the rest and wait
                         again */
    WEFT_STOP_CANCEL, /* cancel every fiber now; at the deadline give up */
    WEFT_STOP_ABORT,  /* as CANCEL, and shields (weft_fiber_shield_enter) do not delay it */
};

/* Stop the pool. When this returns 0, none of its fibers exists and none of its threads runs.
 *
 * Spawns from outside the pool are refused with -ESHUTDOWN as soon as the stop begins; fibers of
 * the pool may spawn until they have ended. WEFT_STOP_DRAIN with WEFT_FOREVER waits without limit;
 * with a deadline, every fiber is cancelled at the deadline and the call waits as long again, at
 * least one second. Several threads may stop a pool at once: each waits until it is stopped.
 *
 * Returns 0, also if the pool is stopped already;
 * -EINPROGRESS if called by a fiber of this pool: the stop has begun and continues without the
 * caller;
 * -EDEADLK if worker 0 is another thread that is not in run, poll or stop, and work or fibers
 * remain for it; or if the calling thread is worker 0 and every fiber waits without a wake source
 * (weft/inspect.h): stop again with WEFT_STOP_CANCEL;
 * -EBUSY if cancelled fibers have not ended by the deadline: a dump was written to stderr, the pool
 * keeps running those that can end; stop again to wait again;
 * -ECANCELED or -EINTR if the calling fiber was cancelled or interrupted while it waited; the stop
 * has begun, call again to wait;
 * -EAGAIN if the pool was never started, has fibers, and the threads to run them cannot be created;
 * -EINVAL for an unknown mode or a dispatcher's pool.
 * Context: any thread or fiber; waits; a cancellation point for fibers of other pools. */
WEFT_API int weft_pool_stop(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline);

/* Free a pool that is stopped, or that was never started and has no fibers. NULL is allowed.
 *
 * Takes the pool. Destroying a pool in any other state stops the program with a message. No other
 * thread may still be in a call on this pool (a submit, say).
 * Context: any thread; waits only for threads that are just waking one of the pool's workers. */
WEFT_API void weft_pool_destroy(weft_pool *pool);

/* Return where the caller runs, and a pool's name and number of workers.
 *
 * weft_pool_self returns the calling fiber's pool, borrowed; weft_worker_self returns the index of
 * its worker. On a plain thread: NULL and -1. In a group of a dispatcher (weft/dispatcher.h),
 * weft_pool_self returns the dispatcher's internal pool: its name and numbers may be read; start,
 * run, poll, stop, and spawns from outside return -EINVAL; weft_fiber_migrate returns -EPERM;
 * destroying it is a caller's bug. weft_pool_name returns a string that lives as long as the pool.
 * Context: any thread; does not wait. */
WEFT_API weft_pool *weft_pool_self(void);
WEFT_API int weft_worker_self(void);
WEFT_API const char *weft_pool_name(const weft_pool *pool);
WEFT_API unsigned weft_pool_workers(const weft_pool *pool);

/* Run a whole program: create a pool with the calling thread as worker 0, run fn(arg) as its first
 * fiber, and when that fiber has ended stop the pool with WEFT_STOP_DRAIN and destroy it.
 *
 * result: NULL, or where the result of fn is written.
 * opts: NULL for defaults; borrowed for the call; `caller` is implied.
 * deadline: usually WEFT_FOREVER; when it comes, the fibers are cancelled.
 * Returns 0; -ETIMEDOUT if the first fiber had not ended by the deadline, -EDEADLK as
 * weft_pool_run: the fibers are then cancelled, and aborted a second later; if some have not ended
 * after another second, they and the pool are left as they are. Other errors as weft_pool_create,
 * weft_pool_start, weft_pool_run and weft_pool_stop.
 * Context: a plain thread; waits. A pthread_cancel of the thread takes effect after the call. */
WEFT_API int weft_run(void **result, weft_fn fn, void *arg, const struct weft_pool_opts *opts,
                      int64_t deadline);

/* Return the number of CPUs this process may use: the affinity mask, limited by the cgroup's CPU
 * quota; at least 1.
 *
 * Context: any thread; does not wait. */
WEFT_API unsigned weft_usable_cpus(void);

/* --- pool sets ------------------------------------------------------------------------------ */

/* Compute pools: for work that burns CPU and must not delay I/O.
 *
 * A shared compute pool is a weft_pool with `compute` set: its workers share work by stealing. The
 * other form is a set of isolated pools, weft_pool_set: N compute pools of one thread each, without
 * stealing between them, and a placement rule that chooses the pool for each new fiber.
 *
 * Life cycle of a set: create -> start -> (submit, spawn, call ...) -> stop -> destroy.
 */

typedef struct weft_pool_set weft_pool_set;

/* Which member of a set gets the next fiber. */
enum weft_placement {
    WEFT_ROUND_ROBIN,
    WEFT_LEAST_LOADED, /* the member with the fewest live fibers at the moment */
};

struct weft_pool_set_opts {
    const char *name; /* copied; members are "<name><i>"; default "pools" */
    unsigned members; /* at most 1000; default: weft_usable_cpus() */
    enum weft_placement placement;
    size_t stack_bytes;  /* default stack size of fibers; default 64 KiB */
    uint64_t max_fibers; /* limit of live fibers, per member; default: limited by memory only */
    const int *cpus;     /* member i is pinned to cpus[i % cpu_count] */
    size_t cpu_count;
};

/* Create a set of isolated compute pools with their threads stopped.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned set in *out; -EINVAL for a bad option (weft_last_error names it); -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_set_create(weft_pool_set **out, const struct weft_pool_set_opts *opts);
/* Start every member, as weft_pool_start.
 *
 * Returns 0; the first error of weft_pool_start, with the members before it started: call again, or
 * stop the set.
 * Context: any thread; does not wait for fibers. */
WEFT_API int weft_pool_set_start(weft_pool_set *pools);
/* Start fn(arg) in a new fiber on the member that the placement rule chooses: detached
 * (weft_pool_set_submit), or with options and a handle in *out (weft_pool_set_spawn).
 *
 * Returns as weft_pool_submit and weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_set_submit(weft_pool_set *pools, weft_fn fn, void *arg);
WEFT_API int weft_pool_set_spawn(weft_pool_set *pools, weft_fiber *out, weft_fn fn, void *arg,
                                 const struct weft_fiber_opts *opts);
/* Run fn(arg) on the member that the placement rule chooses and wait for its result, as
 * weft_pool_call.
 *
 * Returns 0 and the result of fn in *result, unless that is NULL; errors as weft_pool_call.
 * Context: any thread; waits. */
WEFT_API int weft_pool_set_call(weft_pool_set *pools, void **result, weft_fn fn, void *arg,
                                int64_t deadline);
/* Return the member with index i.
 *
 * Returns a borrowed pool; NULL if i is out of range.
 * Context: any thread; does not wait. */
WEFT_API weft_pool *weft_pool_set_member(weft_pool_set *pools, unsigned i);
/* Return the number of members.
 *
 * Context: any thread; does not wait. */
WEFT_API unsigned weft_pool_set_size(const weft_pool_set *pools);
/* Stop every member, as weft_pool_stop, one after the other.
 *
 * Returns 0; the first error of weft_pool_stop after all members were tried: stop again.
 * Context: any thread or fiber; waits; a cancellation point for fibers. */
WEFT_API int weft_pool_set_stop(weft_pool_set *pools, enum weft_stop_mode mode, int64_t deadline);
/* Free a set whose members are all stopped or were never started. NULL is allowed.
 *
 * Takes the set and its members. Context: any thread, as weft_pool_destroy. */
WEFT_API void weft_pool_set_destroy(weft_pool_set *pools);

WEFT_END_DECLS
#endif
