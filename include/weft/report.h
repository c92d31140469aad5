/* Reports of the watchdog: problems that Weft detects by itself.
 *
 * cycle     fibers wait for one another in a circle: each fiber waits for an object that the next
 *           fiber holds, or for the end of the next fiber. Always reported, whatever else runs,
 *           once per cycle.
 * deadlock  every fiber of every pool waits, and so does every thread that is inside Weft, no timer
 *           is pending, and no wake source outside Weft is left. The report names all waiters.
 *           weft_pool_run, weft_run and a stop by the caller then return -EDEADLK instead of
 *           hanging; other waits continue to wait.
 * hog       a fiber has kept its worker for longer than the pool's hog_ns, without a wait or a
 *           yield. Reported with its backtrace, for which its thread gets one SIGURG unless the
 *           program uses that signal. Meanwhile the other workers take over the worker's queues and
 *           timers, except fibers that are bound to it.
 * unjoined  a pool is destroyed, and fibers that ended in it were neither joined nor detached: the
 *           results kept for their joiners are lost. The report has their number and names the
 *           first.
 *
 * External wake sources: a thread of the process that is not Weft's (a pool's caller outside of run
 * and stop, and a caller in a host's loop, is such a thread; so is the background thread of a
 * sanitizer) and does not wait inside Weft without a deadline (in weft_join, for a mutex, on a
 * channel; a wait for a descriptor does not count); a blocking call that has not returned; a child
 * process that is watched; an open set of signals; a handler for a signal that may arrive at any
 * time. While there is a wake source, there is no deadlock: weft_watchdog_stats and dumps name the
 * source. A fiber in a system call runs; it does not wait.
 *
 * The watchdog is one thread for all pools. It starts with the first pool and ends with the last,
 * ticks every 10 ms while some worker is awake, and sleeps while all workers sleep.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

enum weft_report_kind {
    WEFT_REPORT_CYCLE,
    WEFT_REPORT_DEADLOCK,
    WEFT_REPORT_HOG,
    WEFT_REPORT_UNJOINED,
};

/* A function that gets reports. `text` has one or more lines, each ended by a newline, and is valid
 * only during the call. The function is called on the watchdog's thread, one report at a time
 * (unjoined: on the thread that destroys the pool), with nothing locked: it may call Weft as any
 * plain thread may, but must not create or destroy pools, and it delays the watchdog. */
typedef void (*weft_report_fn)(enum weft_report_kind kind, const char *text, void *arg);

/* Set the function that gets reports. A report in progress may still go to the function that was
 * set before.
 *
 * fn: NULL for the default, which writes reports to stderr.
 * Context: any thread; does not wait. */
WEFT_API void weft_on_report(weft_report_fn fn, void *arg);

/* Search for wait cycles now and write each to `out`, whether or not it was reported before.
 *
 * out: NULL to count only.
 * Returns the number of cycles.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_find_cycles(FILE *out);

/* What could still wake a fiber when the watchdog last found all workers asleep. */
enum weft_wake_source {
    WEFT_WAKE_SOURCE_RUNNING,   /* a worker was running */
    WEFT_WAKE_SOURCE_NO_FIBERS, /* there are no fibers */
    WEFT_WAKE_SOURCE_TIMER,     /* a timer is pending */
    WEFT_WAKE_SOURCE_EXTERNAL,  /* fibers wait, and there is an external wake source */
    WEFT_WAKE_SOURCE_DEADLOCK,  /* fibers wait forever */
};

/* Return the name of the constant, as dumps show it.
 *
 * Context: any thread; does not wait. */
WEFT_API const char *weft_wake_source_name(enum weft_wake_source wake_source);

struct weft_watchdog_stats {
    uint64_t cycles, deadlocks, hogs; /* reported so far */
    uint64_t ticks;                   /* times the watchdog checked the workers */
    enum weft_wake_source wake_source;
    char source_name[32]; /* with WEFT_WAKE_SOURCE_EXTERNAL: the source, e.g. "thread 4711" */
};

/* Fill in *out.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_watchdog_stats(struct weft_watchdog_stats *out);

/* Declare that a thread cannot wake any fiber, so that the watchdog does not count it as a wake
 * source. For threads of loggers, profilers, sanitizers.
 *
 * tid: kernel thread id; 0 for the calling thread.
 * Returns 0; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_watchdog_ignore_thread(int tid);

WEFT_END_DECLS
#endif
