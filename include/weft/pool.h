/* A pool runs M fibers on N threads, and steals work between them.
 *
 * Life: create -> start -> (submit, run, poll ...) -> stop -> destroy, or start again after stop.
 *
 * After fork() the child may exec, _exit, or make pools of its own; to use a pool or a fiber of the
 * parent's there ends the child with a message (docs/fork.md).
 */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include <stdio.h>

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

#define WEFT_MAX_WORKERS 1024u /* of one pool */

enum weft_fresh_order {
    WEFT_FRESH_LIFO, /* a worker starts its newest fiber first: trees run depth first */
    WEFT_FRESH_FIFO, /* ... its oldest first */
};

/* What does the I/O of a pool. */
enum weft_driver {
    WEFT_DRIVER_AUTO,  /* io_uring if it can be had, else epoll; WEFT_DRIVER=epoll|uring|poll in the
                          environment decides, and any other word there is refused: -EINVAL, and a
                          line on stderr */
    WEFT_DRIVER_EPOLL, /* readiness, edge-triggered */
    /* Completions, by io_uring. A ring is one worker's: a fiber that keeps its worker busy delays
     * what others have handed over there. With the other drivers, workers serve one another. */
    WEFT_DRIVER_URING,
    WEFT_DRIVER_POLL, /* readiness, by poll(2): for a few descriptors, and to test against */
};

/* Says why a pool or a loop cannot be made with this driver in this process: a static text. NULL:
 * it can. WEFT_DRIVER_AUTO: NULL, unless WEFT_DRIVER in the environment asks for one that cannot.
 * From any thread; does not wait.
 *
 * A driver that stops working for good ends the program with a message: when the program has closed
 * the driver's descriptors (close_range), or a filter that was installed later forbids its system
 * calls. Operations in flight use the memory of those who wait, so no wait could end honestly. */
WEFT_API const char *weft_driver_unavailable(enum weft_driver driver);

struct weft_pool_opts {
    const char *name; /* threads are "<name>_<i>", cut to 15 bytes; default "weft" */
    unsigned workers; /* default: the CPUs this process may use (affinity and cgroup quota) */
    bool caller;      /* the creating thread is worker 0 (weft_pool_run, weft_pool_poll, stop) */
    bool compute;     /* no I/O driver: I/O calls answer -EOPNOTSUPP (weft/compute.h) */
    enum weft_driver driver; /* default: auto */
    const int *cpus;         /* worker i is pinned to cpus[i % cpu_count]; default: not pinned */
    size_t cpu_count;
    size_t stack_bytes;   /* of fibers that do not say; default 64 KiB */
    unsigned ring_slots;  /* of each worker's ring, a power of two, 4 .. 65536; default 4096 */
    unsigned fresh_slots; /* first size of each worker's fresh queue; power of two; default 4096 */
    uint64_t max_fibers;  /* live at once; default: as memory allows */
    /* Longest busy search before a worker parks; default 5000; < 0: none; WEFT_FOREVER: one of
     * those without work never parks. */
    int64_t spin_ns;
    enum weft_fresh_order fresh_order;
    /* What times are rounded up to, itself rounded up to a power of two: how late a deadline or a
     * timer may be by design, and how seldom a worker wakes for timers that are close together. Up
     * to 1 s; default 65536. */
    int64_t timer_tick_ns;
    /* A fiber that keeps a worker for longer is reported (weft/report.h). Default 100 ms; < 0:
     * never. */
    int64_t hog_ns;
    /* Its fibers may be woken by what Weft does not see: while it has any, there is no deadlock. */
    bool deadlock_off;
};

/* -EINVAL: bad options (a CPU outside the allowed set, too many workers, sizes); weft_last_error
 * says which. -EBUSY: with `caller`, this thread is a worker already. -EOPNOTSUPP: the driver asked
 * for cannot be had here; weft_last_error says why. -ENOMEM. */
WEFT_API int weft_pool_create(weft_pool **out, const struct weft_pool_opts *opts);

/* Starts the threads. Started already: a no-op. After a stop: starts again. -EAGAIN: no threads. */
WEFT_API int weft_pool_start(weft_pool *pool);

/* Starts fn(arg) in a new fiber of this pool, from any thread, as weft_spawn. Before start the
 * fiber waits for it. */
WEFT_API int weft_pool_spawn(weft_pool *pool, weft_fiber *out, weft_fn fn, void *arg,
                             const struct weft_fiber_opts *opts);

/* The short form: a detached fiber on any worker. */
WEFT_API int weft_pool_submit(weft_pool *pool, weft_fn fn, void *arg);

struct weft_job {
    weft_fn fn;
    void *arg;
};
/* n detached fibers with one wake-up. All or nothing: on an error none of them runs. */
WEFT_API int weft_pool_submit_batch(weft_pool *pool, const struct weft_job *jobs, size_t n);

/* Spawns fn(arg) and lends the calling thread to the pool as worker 0 until that fiber has ended.
 * Only where the pool was created with `caller`, on that thread: else -EINVAL. -EDEADLK: it never
 * will: all fibers of all pools wait, and nothing is left to wake them (weft/report.h has said
 * which). They stay as they are, the first one detached; a stop that cancels ends them. */
WEFT_API int weft_pool_run(weft_pool *pool, weft_fn fn, void *arg, void **result);

/* Runs what is ready on worker 0 until nothing is, then returns the number of turns it ran; for a
 * thread that has a loop of its own. Between polls worker 0 counts as parked: others steal its
 * work. Wait for the descriptor of weft_pool_fd to become readable, or for weft_pool_next_deadline,
 * then poll again. -EINVAL as weft_pool_run. */
WEFT_API int weft_pool_poll(weft_pool *pool);
WEFT_API int weft_pool_fd(weft_pool *pool);
WEFT_API int64_t weft_pool_next_deadline(weft_pool *pool);

enum weft_stop_mode {
    WEFT_STOP_DRAIN,  /* wait until every fiber has ended; at the deadline cancel them and go on
                         waiting */
    WEFT_STOP_CANCEL, /* cancel every fiber now; at the deadline give up */
    WEFT_STOP_ABORT,  /* the same, and no shield keeps it away */
};

/* Ends the pool: nothing of it runs after this returned 0. Submits from outside are refused
 * (-ESHUTDOWN) from the first moment; fibers of the pool may go on spawning until they have ended.
 * A WEFT_STOP_DRAIN with WEFT_FOREVER waits for ever; one with a deadline cancels every fiber then
 * and waits as long again, at least a second. Any thread may call it, twice too: the second waits
 * for the first.
 *  -EINPROGRESS: called by a fiber of this pool; the stop has begun and goes on without it.
 *  -EDEADLK: worker 0 is another thread that is not in run, poll or stop, and work or fibers
 *  remain; or the
 *   caller's thread is worker 0, and all fibers wait for ever (weft/report.h): stop again,
 *   cancelling.
 *  -EBUSY: fibers have not ended in spite of being cancelled; the dump was written to stderr. The
 *   pool still works off what can end; stop again to wait again. */
WEFT_API int weft_pool_stop(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline);

/* Frees a pool that is stopped or was never started. Else a caller's bug, as is another thread that
 * is still in a call it was given this pool for (a submit, say). NULL is fine. */
WEFT_API void weft_pool_destroy(weft_pool *pool);

/* Where am I? NULL, -1 on a plain thread. In a group of a dispatcher (weft/dispatcher.h) it is the
 * pool that the dispatcher has for itself: its name and numbers can be asked for; start, run, poll,
 * stop, and spawns and submits from outside of it answer -EINVAL; weft_switch_to answers -EPERM; to
 * destroy it is a caller's bug. */
WEFT_API weft_pool *weft_pool_self(void);
WEFT_API int weft_worker_self(void);
WEFT_API const char *weft_pool_name(const weft_pool *pool);
WEFT_API unsigned weft_pool_workers(const weft_pool *pool);

/* One call for a whole program: a pool with the caller as worker 0, fn(arg) as its first fiber, and
 * a draining stop when that has ended. -EDEADLK as weft_pool_run: then the fibers are cancelled,
 * and aborted a second later; if some have not ended another second later they, and the pool, are
 * left as they are. */
WEFT_API int weft_run(weft_fn fn, void *arg, void **result, const struct weft_pool_opts *opts);

/* The CPUs this process may use: affinity mask, cut by the cgroup's quota, at least 1. */
WEFT_API unsigned weft_usable_cpus(void);

WEFT_END_DECLS
#endif
