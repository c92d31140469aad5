/* Perf events: how long things take, and in which pool or dispatcher. The runtime passes each
 * event to installed callbacks as it happens, or to the built-in collector.
 *
 * An event has a type, a cost in nanoseconds, and two numbers whose meaning depends on the type:
 * how many items the cost covers (count), and a total over them, such as bytes (sum). Runtime
 * types:
 *
 *   type     cost                                                               count    sum
 *   poll     a worker's sleep, from going to sleep to resuming                  1        0
 *   work     a worker's time between two sleeps, reported in pieces of about    turns    0
 *            10 ms; for a dispatcher: a round in which a fiber ran
 *   queue    from being woken or spawned to running. Sampled: at most 64 of     1        0
 *            the fibers that are ready at one time, and at most 64 per tick
 *            and worker; not reported after a yield
 *   acquire  suspended in a wait of any kind (lock, channel, join, sleep,       1        0
 *            park), fiber or plain thread, however the wait ended; a call
 *            that completes without waiting is not reported
 *
 * Users register more types by name and report their own spans (weft_perf_begin and
 * weft_perf_end).
 *
 * A type that no callback accepts costs one load and one never-taken branch: for the runtime types
 * at each sleep and tick of a worker and at each wake from outside. A fiber's yield or wait pays
 * nothing extra because one flag covers perf events and the trace ring. A span costs two calls
 * that return at once (about 3 ns for both: perf_off in bench/weft/perf.c). The clock is read only
 * for accepted types. */
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
    WEFT_PERF_USER = 8, /* the first user type */
};
#define WEFT_PERF_TYPES 64 /* 56 of them for users */

/* Register an event type, or find it: the same name is the same type. Types are never
 * unregistered.
 *
 * name: not empty, any length, printable ASCII without white space; copied.
 * Returns the type; -EINVAL for a bad name; -ENOSPC if all types are in use; -ENOMEM.
 * Context: any thread, but not an event callback; does not wait. */
WEFT_API int weft_perf_register(const char *name);

/* --- callbacks ------------------------------------------------------------------ */

struct weft_perf {
    /* Does the callback want this type? Asked once per type, when the callback is installed or the
     * type is registered. NULL: every type. */
    bool (*accept)(unsigned type, void *arg);
    /* Called on the thread where the event happened, possibly on several threads at once, and for
     * `acquire` and spans on a fiber's stack. It must be short, use little stack, and must not
     * wait, yield, install, remove or register. `pool` is the pool whose worker this thread is,
     * also for a dispatcher (weft_dispatcher_pool); NULL on a plain thread. */
    void (*on_event)(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                     void *arg);
    void *arg;
    weft_pool *pool; /* only events from this pool; default: from everywhere */
};

#define WEFT_PERF_CALLBACKS 16 /* installed at the same time */

/* Install a callback. Events of the program (weft_perf_event) reach it at once, events of a worker
 * from the worker's next tick on. Callbacks are called in slot order; a new one takes the first
 * free slot.
 *
 * perf: borrowed until weft_perf_remove has returned, which must be before its pool is destroyed.
 * Returns 0; -EBUSY if `perf` is installed already; -EINVAL without on_event; -ENOSPC if
 * WEFT_PERF_CALLBACKS callbacks are installed.
 * Context: any thread, but not an event callback; does not wait. */
WEFT_API int weft_perf_install(const struct weft_perf *perf);
/* Remove a callback. After the return no thread is in the callback or will enter it, so what it
 * uses may be freed.
 *
 * Returns 0; -ENOENT if `perf` is not installed.
 * Context: any thread, but not an event callback; blocks the thread, without suspending the fiber,
 * until running callbacks have returned; not a cancellation point. */
WEFT_API int weft_perf_remove(const struct weft_perf *perf);

/* --- user events -------------------------------------------------------------------- */

/* Begin a span.
 *
 * Returns the time if a callback accepts the type, else 0.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_perf_begin(unsigned type);
/* End a span and report it. Does nothing if `began` is 0. A span may end on another thread than it
 * began on.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_perf_end(unsigned type, int64_t began, uint64_t count, uint64_t sum);
/* Report an event whose cost the caller has measured.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_perf_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum);

/* --- the built-in collector --------------------------------------------------------- */

/* Sums up events and keeps a histogram of their costs per type. */
typedef struct weft_collector weft_collector;

struct weft_collector_opts {
    const char *prefix; /* prefix of each printed line; copied; default "weft" */
    uint64_t types;     /* bit per accepted type; default: all */
    weft_pool *pool;    /* as in struct weft_perf */
};

/* Create a collector, stopped.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned collector in *out; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_collector_create(weft_collector **out, const struct weft_collector_opts *opts);
/* Destroy a collector, stopping it first if it is started. NULL is allowed.
 *
 * Context: any thread, but not an event callback; may block as weft_perf_remove does. */
WEFT_API void weft_collector_destroy(weft_collector *collector);

/* Start collecting: install the collector as a callback. A type that is registered later is not
 * accepted if there is no memory for it.
 *
 * Returns 0; -EBUSY if it is started already; -ENOSPC as weft_perf_install; -ENOMEM.
 * Context: any thread, but not an event callback; does not wait. */
WEFT_API int weft_collector_start(weft_collector *collector);
/* Stop collecting and keep the data. Does nothing if the collector is not started.
 *
 * Context: any thread, but not an event callback; may block as weft_perf_remove does. */
WEFT_API void weft_collector_stop(weft_collector *collector);
/* Discard the collected data. An event that happens at the same time may be counted in part.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_collector_reset(weft_collector *collector);

struct weft_perf_stats {
    uint64_t calls;                    /* events */
    int64_t total_ns, mean_ns, max_ns; /* of their costs */
    int64_t p50_ns, p90_ns, p99_ns,
        p999_ns;                 /* percentiles of the cost, rounded up by at most 1/8 */
    uint64_t count, sum;         /* totals, */
    double mean_count, mean_sum; /* means per event, */
    uint64_t max_count, max_sum; /* and maxima over events */
};
/* Get the totals of one type over all threads, at any time.
 *
 * Returns 0 and the totals in *out; -ENOENT if the collector has never accepted the type.
 * Context: any thread; does not wait. */
WEFT_API int weft_collector_read(weft_collector *collector, struct weft_perf_stats *out,
                                 unsigned type);
/* Print one line for each type with at least one event.
 *
 * Context: any thread; does not wait (except for `out`). */
WEFT_API void weft_collector_dump(weft_collector *collector, FILE *out);

WEFT_END_DECLS
#endif
