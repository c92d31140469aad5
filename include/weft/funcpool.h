/* Function pools: one function, called with a buffer, answered with a buffer, by workers of which
 * there are not too many.
 *
 *   kind       the function runs                              workers
 *   inline     where it is called                             none
 *   static     in a fiber of the pool                         as many as `workers`, from the
 *                                                             beginning
 *   lazy       in a fiber of the pool                         0 .. `workers`: made when a call
 *                                                             finds none idle; one that is idle for
 *                                                             idle_ns ends
 *   adaptive   in a fiber of the pool                         1 .. `workers`: as many as bring
 *                                                             something. Every probe_ns, while
 *                                                             calls wait, a quarter more, as long
 *                                                             as that raises the number of calls
 *                                                             that get done by a twentieth; else
 *                                                             one less
 *
 * The gate admits so many calls at once, those that run and those that wait for a worker; a call
 * that is not admitted waits at the gate, first come, first served, or is refused.
 *
 * The function may wait as a fiber may. Actors call by a command, weft_out_function.
 */
#ifndef WEFT_FUNCPOOL_H
#define WEFT_FUNCPOOL_H

#include <weft/actor_command.h>

WEFT_BEGIN_DECLS

typedef struct weft_funcpool weft_funcpool;

enum weft_funcpool_kind {
    WEFT_FUNCPOOL_INLINE,
    WEFT_FUNCPOOL_STATIC,
    WEFT_FUNCPOOL_LAZY,
    WEFT_FUNCPOOL_ADAPTIVE,
};

struct weft_funcpool_opts {
    enum weft_funcpool_kind kind;
    weft_pool *pool;  /* of the workers' fibers; not for inline */
    unsigned workers; /* default: static, the CPUs this process may use; lazy and adaptive, 16 */
    unsigned admit;   /* calls at once; default 256 for each worker; inline: 65,536 */
    bool refuse;      /* at a gate that is full: -EAGAIN, instead of waiting */
    int64_t idle_ns;  /* default 30 s */
    int64_t probe_ns; /* default 500 ms */
};

/* `arg` is the function's. -EINVAL, -ENOMEM, -ESHUTDOWN. */
WEFT_API int weft_funcpool_create(weft_funcpool **out, weft_function fn, void *arg,
                                  const struct weft_funcpool_opts *opts);

/* Calls, in a fiber or a plain thread. `input`, or NULL, is taken, also on an error. What the
 * function returned, and *output, owned, unless NULL. -EAGAIN: refused. -ESHUTDOWN: the pool is
 * stopped. -ENOMEM. -ETIMEDOUT, -ECANCELED, -EINTR: the call is left; a function that has begun
 * runs to its end, one that has not never does; inline, that holds for the gate only. */
WEFT_API int weft_funcpool_call(weft_funcpool *pool, weft_buf *input, weft_buf **output,
                                int64_t deadline);

/* From a step: the same as a command; its completion has the tag, and the output or an error.
 * `input` is taken, also on an error. The pool must not be destroyed before that. -ENOMEM. */
WEFT_API int weft_out_function(weft_out *out, uint64_t tag, weft_funcpool *pool, weft_buf *input,
                               int64_t deadline);

/* Refuses new calls, also those that wait at the gate, and waits until those that were admitted are
 * done and no worker is left. Not by a worker's function. 0, -ETIMEDOUT, -ECANCELED, -EINTR: stop
 * again to wait again. */
WEFT_API int weft_funcpool_stop(weft_funcpool *pool, int64_t deadline);
/* One that is stopped. NULL is fine. */
WEFT_API void weft_funcpool_destroy(weft_funcpool *pool);

struct weft_funcpool_stats {
    unsigned workers, idle, most; /* now; of these; ever */
    unsigned target;              /* how many workers there may be now */
    unsigned waiting;             /* calls that were admitted and have no worker yet */
    uint64_t done, refused, left; /* calls; left: by callers before they were done */
};
WEFT_API void weft_funcpool_stats(weft_funcpool *pool, struct weft_funcpool_stats *out);

WEFT_END_DECLS
#endif
