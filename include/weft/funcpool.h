/* Function pools: a bounded set of workers that run one function from buffer to buffer.
 *
 *   kind      the function runs       workers
 *   inline    in the caller           none
 *   static    in a fiber of the pool  `workers`, from the beginning
 *   lazy      in a fiber of the pool  0 .. `workers`: a call that finds no idle worker starts one;
 *                                     a worker that is idle for idle_ns ends
 *   adaptive  in a fiber of the pool  1 .. `workers`, found by hill climbing: every probe_ns, while
 *                                     calls wait, a quarter more as long as that raises the
 *                                     throughput by a twentieth; otherwise one less
 *
 * A semaphore limits the calls that are admitted at the same time, running or waiting for a worker.
 * A call that is not admitted waits in FIFO order, or is refused (fail_when_full).
 *
 * The function may wait as any fiber may. Actors call with a command, weft_out_function. Life
 * cycle: create, call, stop, destroy.
 */
#ifndef WEFT_FUNCPOOL_H
#define WEFT_FUNCPOOL_H

#include <weft/buf.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_funcpool weft_funcpool;

/* A function from an input buffer to an output buffer. It borrows input and stores an owned buffer,
 * or nothing, in *output. Returns 0 or a negative errno. */
typedef int (*weft_function)(const weft_buf *input, weft_buf **output, void *arg);

enum weft_funcpool_kind {
    WEFT_FUNCPOOL_INLINE,
    WEFT_FUNCPOOL_STATIC,
    WEFT_FUNCPOOL_LAZY,
    WEFT_FUNCPOOL_ADAPTIVE,
};

struct weft_funcpool_opts {
    enum weft_funcpool_kind kind;
    weft_pool *pool;  /* runs the workers' fibers; required unless the kind is inline */
    unsigned workers; /* default: static, the usable CPUs; lazy and adaptive, 16 */
    unsigned
        max_calls; /* Calls admitted at the same time; default 256 per worker, inline: 65,536. */
    bool fail_when_full; /* a call that is not admitted at once fails with -EAGAIN */
    int64_t idle_ns;     /* lazy: idle workers end after this; default 30 s */
    int64_t probe_ns;    /* adaptive: interval of the probe; default 500 ms */
};

/* Create a function pool.
 *
 * fn, arg: the function and its argument; arg is borrowed. opts: required; borrowed for the call.
 * Returns 0 and an owned pool in *out; -EINVAL if fn is NULL or for a bad option (weft_last_error
 * names it); -ESHUTDOWN if opts->pool is stopping; -ENOMEM.
 * Context: any thread; does not wait unless it fails: then it waits for the workers already
 * started. */
WEFT_API int weft_funcpool_create(weft_funcpool **out, weft_function fn, void *arg,
                                  const struct weft_funcpool_opts *opts);

/* Call the function and wait for its result.
 *
 * input: taken, also on an error; NULL is allowed. output: NULL, or receives the output, owned.
 * Returns the function's return value, and *output if that is 0; -EAGAIN if the call was not
 * admitted (fail_when_full); -ESHUTDOWN if the pool is stopped; -ENOMEM; -ETIMEDOUT, -ECANCELED,
 * -EINTR: the call is abandoned, a function that has begun runs to its end, a function that has not
 * begun never runs. With an inline pool the deadline applies to admission only.
 * Context: any thread or fiber; waits; cancellation point. */
WEFT_API int weft_funcpool_call(weft_funcpool *pool, weft_buf **output, weft_buf *input,
                                int64_t deadline);

/* Stop the pool: refuse new calls and calls that wait for admission, and wait until the admitted
 * calls are done and all workers have ended. A worker's own function must not call it.
 *
 * Returns 0; -ETIMEDOUT, -ECANCELED, -EINTR: the pool is stopping; call again to wait again.
 * Context: any thread or fiber; waits; cancellation point. */
WEFT_API int weft_funcpool_stop(weft_funcpool *pool, int64_t deadline);
/* Destroy a stopped pool. NULL is allowed. Context: any thread; does not wait. */
WEFT_API void weft_funcpool_destroy(weft_funcpool *pool);

struct weft_funcpool_stats {
    unsigned workers, idle, peak_workers; /* now; of them idle; the maximum ever */
    unsigned target;                      /* number of workers allowed now */
    unsigned waiting;                     /* admitted calls that have no worker yet */
    /* calls; the last: abandoned by their callers before they were done */
    uint64_t done, refused, abandoned;
};
/* Read the pool's counters. Context: any thread; does not wait. */
WEFT_API void weft_funcpool_stats(weft_funcpool *pool, struct weft_funcpool_stats *out);

WEFT_END_DECLS
#endif
