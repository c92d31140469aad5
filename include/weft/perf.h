/* Perf events: how long things take and in which pool or dispatcher, told to callbacks of yours as
 * they happen, or to the stock collector.
 *
 * An event has a type, a cost in nanoseconds, and two numbers whose meaning is the type's: how many
 * things the cost was for (count), and some total of them such as bytes (sum). Runtime types:
 *
 *   type     cost is                                                            count    sum
 *   poll     a worker's sleep, from going to sleep to going on                  1        0
 *   work     a worker's stretch between two sleeps; a longer one is told in     turns    0
 *            pieces of about 10 ms. Of a dispatcher: a round in which a
 *            fiber ran
 *   queue    from being woken or spawned to running. Sampled: of the fibers     1        0
 *            that are ready at one moment at most 64, each 64 per tick and
 *            worker; not after a yield
 *   acquire  being suspended in a wait of any kind (a lock, a channel, a join,  1        0
 *            a sleep, park), fiber or plain thread, however it ended; nothing
 *            that was there at once
 *
 * Users register further types by name and tell of their own spans (weft_perf_begin and
 * weft_perf_end).
 *
 * A type that nobody accepts costs one load and one branch that is never taken: for the runtime
 * types at each sleep and tick of a worker and at wakes from outside; a yield and a wait of a fiber
 * pay nothing, they have one flag for this and the trace ring. A span costs two calls that return
 * at once (about 3 ns for both: perf_off of bench/weft/perf.c). The clock is read for accepted
 * types only.
 */
#ifndef WEFT_PERF_H
#define WEFT_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/pool.h>

WEFT_BEGIN_DECLS

enum weft_perf_type {
    WEFT_PERF_POLL,
    WEFT_PERF_WORK,
    WEFT_PERF_QUEUE,
    WEFT_PERF_ACQUIRE,
    WEFT_PERF_USER = 8, /* the first type of a user */
};
#define WEFT_PERF_TYPES 64 /* so 56 of users */

/* Registers a type, or finds it: the same name is the same type. A name has any
 * length, no white space and only printable ASCII. Returns the type; -EINVAL: the name is empty or
 * has other characters; -ENOSPC: all types are taken; -ENOMEM. Types are never given back. */
WEFT_API int weft_perf_register(const char *name);
/* NULL: there is no such type. */
WEFT_API const char *weft_perf_name(unsigned type);

/* --- callbacks ------------------------------------------------------------------ */

struct weft_perf {
    /* Is the type wanted? Asked once for each type, when the callback is installed or the type
     * registered. NULL: all are. */
    bool (*accept)(unsigned type, void *arg);
    /* Called on the thread where it happened, in the middle of things, maybe on several threads at
     * once, and for `acquire` and spans on the stack of a fiber: short, small, and it must not
     * wait, yield, or install, remove or register anything. `pool` is the pool whose worker the
     * thread is, a dispatcher's too (weft_dispatcher_pool); NULL: a plain thread. */
    void (*on_event)(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                     void *arg);
    void *arg;
    weft_pool *pool; /* events from this pool only; default: from everywhere */
};

#define WEFT_PERF_CALLBACKS 16 /* installed at once */

/* From now on events go there too; workers see it by their next tick. Borrows `perf` until
 * weft_perf_remove has returned, which is to be before its pool is destroyed. Callbacks are called
 * in the order of their places, a new one in the first that is free. Any thread. -EBUSY: it is
 * installed already; -EINVAL: no on_event; -ENOSPC: WEFT_PERF_CALLBACKS are installed. */
WEFT_API int weft_perf_install(const struct weft_perf *perf);
/* When it returns no thread is in the callback and none will be: what it uses may be freed. Any
 * thread, but not the callback itself. It waits, without suspending a fiber, for those that are in
 * the callback. -ENOENT: it is not installed. */
WEFT_API int weft_perf_remove(const struct weft_perf *perf);

/* --- your own events -------------------------------------------------------------- */

/* The time, if somebody accepts the type; else 0. */
WEFT_API int64_t weft_perf_begin(unsigned type);
/* Tells of a span that began then; 0: does nothing. It may end on another thread than it began
 * on. */
WEFT_API void weft_perf_end(unsigned type, int64_t began, uint64_t count, uint64_t sum);
/* An event with a cost that was measured otherwise. */
WEFT_API void weft_perf_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum);

/* --- the stock collector ------------------------------------------------------------ */

/* Adds events up and keeps a histogram of their costs for each type. */
typedef struct weft_collector weft_collector;

struct weft_collector_opts {
    const char *prefix; /* of each printed line; copied; default "weft" */
    uint64_t types;     /* bit per type that it accepts; default all */
    weft_pool *pool;    /* as in struct weft_perf */
};

/* -ENOMEM. */
WEFT_API int weft_collector_create(weft_collector **out, const struct weft_collector_opts *opts);
/* Stops it, if need be. NULL is nothing. */
WEFT_API void weft_collector_destroy(weft_collector *collector);

/* Installs it as a callback. -EBUSY: it is started. -ENOSPC as weft_perf_install. -ENOMEM. A type
 * that is registered later and finds no memory is not accepted. */
WEFT_API int weft_collector_start(weft_collector *collector);
/* What it has collected stays. Nothing if it is not started. */
WEFT_API void weft_collector_stop(weft_collector *collector);
/* Begins from nothing. An event that comes meanwhile may be counted in part. */
WEFT_API void weft_collector_reset(weft_collector *collector);

struct weft_perf_stats {
    uint64_t calls;                    /* events */
    int64_t total_ns, mean_ns, max_ns; /* of their costs */
    int64_t p50_ns, p90_ns, p99_ns,
        p999_ns;                 /* at least so many took no longer; up to 1/8 too high */
    uint64_t count, sum;         /* totals of those, */
    double mean_count, mean_sum; /* per event, */
    uint64_t max_count, max_sum; /* and the largest of an event */
};
/* All threads together, at any time. -ENOENT: the type was never accepted. */
WEFT_API int weft_collector_read(weft_collector *collector, unsigned type,
                                 struct weft_perf_stats *out);
/* One line for each type that has seen an event. */
WEFT_API void weft_collector_print(weft_collector *collector, FILE *out);

WEFT_END_DECLS
#endif
