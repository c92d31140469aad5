/* Reports: what Weft says by itself when fibers cannot go on.
 *
 *  cycle     fibers that wait for one another in a circle: each for what the next holds, or for its
 *            end. Always reported, whatever else runs, once for each.
 *  deadlock  every fiber of every pool waits, and so does every thread that is inside Weft, no
 *            timer is pending, and nothing outside of Weft is left that could wake one. The report
 *            names all that wait. weft_pool_run, weft_run and a stop by the caller then return
 *            -EDEADLK instead of hanging; other waits go on.
 *  hog       a fiber has kept its worker for longer than the pool's hog_ns, without a wait or a
 *            yield. Reported with its backtrace, for which its thread gets one SIGURG, where the
 *            program does not use that. Meanwhile the other workers take over what waits there: its
 *            queues and its timers, all but what is bound to it.
 *
 *  unjoined  a pool is destroyed, and fibers that ended in it were neither joined nor detached:
 *            what is kept for their joiners is lost. Says how many, and the first by name.
 *
 * Something outside could wake a fiber if there is a thread in the process that is not Weft's (a
 * pool's caller outside of run and stop, and one in a host's loop, is such a thread; so is the
 * background thread of a sanitizer) and does not wait inside Weft without a deadline (in weft_join,
 * for a mutex, on a channel; a wait for a descriptor does not count), a blocking call that has not
 * returned, a child process that is watched, an open set of signals, or a handler for a signal that
 * may come at any time. Then there is no error: the outlook says so, and a dump shows it. A fiber
 * in a system call runs; it does not wait.
 *
 * One thread for all pools, the watchdog, looks. It comes with the first pool and goes with the
 * last, ticks every 10 ms while some worker is awake, and sleeps when all do.
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

/* `text` has one or more lines, each ended by a newline; it is gone after the call. Called on the
 * watchdog's thread, one at a time (unjoined: on the thread that destroys the pool), with nothing
 * locked: it may call Weft as any plain thread, but
 * must not create or destroy pools, and keeps the watchdog from its work. */
typedef void (*weft_report_fn)(enum weft_report_kind kind, const char *text, void *arg);

/* Where reports go; NULL: to stderr, the default. One that has begun may still come to the function
 * set before. */
WEFT_API void weft_on_report(weft_report_fn fn, void *arg);

/* Looks for cycles now and writes each to `out` (NULL: none), reported before or not. Returns how
 * many there are. From any thread. */
WEFT_API size_t weft_find_cycles(FILE *out);

/* What the watchdog found when all workers were last asleep. */
enum weft_outlook {
    WEFT_OUTLOOK_RUNS,     /* some worker was on its way */
    WEFT_OUTLOOK_EMPTY,    /* no fibers */
    WEFT_OUTLOOK_TIMER,    /* a timer is pending */
    WEFT_OUTLOOK_OUTSIDE,  /* fibers wait for something outside */
    WEFT_OUTLOOK_DEADLOCK, /* fibers wait, for ever */
};
WEFT_API const char *weft_outlook_name(enum weft_outlook outlook);

struct weft_watch_stats {
    uint64_t cycles, deadlocks, hogs; /* reported so far */
    uint64_t ticks;                   /* times the watchdog looked at the workers */
    enum weft_outlook outlook;
    char outside[32]; /* with WEFT_OUTLOOK_OUTSIDE: what it may be, e.g. "thread 4711" */
};
WEFT_API void weft_watch_stats(struct weft_watch_stats *out);

/* This thread (0: the calling one) never wakes a fiber: it does not count as something outside. For
 * threads of loggers, profilers, sanitizers. -ENOMEM. */
WEFT_API int weft_harmless_thread(int tid);

WEFT_END_DECLS
#endif
