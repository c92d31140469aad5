/* Inspection: dumps, statistics, reports. */
#ifndef WEFT_INSPECT_H
#define WEFT_INSPECT_H

#include <stdint.h>
#include <stdio.h>

#include <weft/base.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

/* --- dump ----------------------------------------------------------------------------------- */

/* The dump of all fibers: state, since when, what each fiber waits on and the holder of that
 * object, and the backtrace. For finding out why a program hangs.
 *
 * Fibers with identical stacks are shown together. A waiting fiber is held only while its stack is
 * copied; a running fiber is sampled by a signal to its thread, with a deadline. The dump takes no
 * lock that a fiber or a stuck worker could keep: information that cannot be read in time is marked
 * as missing. The information about one fiber is from one moment; different fibers are from
 * different moments.
 *
 * Backtraces need libunwind when Weft is built; without it the rest of the dump is the same. They
 * use some 16 KiB of the caller's stack. docs/dump.md shows both formats.
 */

enum weft_dump_format {
    WEFT_DUMP_TEXT,
    WEFT_DUMP_JSON,
};

struct weft_dump_opts {
    enum weft_dump_format format;
    weft_pool *pool;     /* only fibers of this pool; default: all pools */
    weft_group *group;   /* only fibers of this group (weft/dispatcher.h); default: all */
    size_t max_fibers;   /* fibers to inspect; default: all */
    unsigned max_shown;  /* fibers listed individually for each stack, the first ones; default 8 */
    unsigned max_frames; /* up to 128; default 32 */
    bool no_frames;      /* no backtraces, and no signal */
    /* The signal that samples running fibers; used only if it has its default disposition, which is
     * restored afterwards. Threads of pools block all signals but SIGURG (the default) and SIGPROF.
     * < 0: running fibers are not sampled. */
    int sample_signal;
    /* Timeout for sampling one fiber; default 20 ms. All samples together: ten times that. */
    int64_t sample_ns;
};

/* Write the dump.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0; -EINVAL for bad options; -ENOMEM; -EIO or another error of the stream.
 * Context: any thread; a fiber blocks its worker during the call. */
WEFT_API int weft_dump(FILE *out, const struct weft_dump_opts *opts);

/* Write a dump to `fd` whenever the signal arrives, from a thread of the library, until
 * weft_dump_on_signal_stop. Signals that arrive while a dump is written count once.
 *
 * fd: borrowed until weft_dump_on_signal_stop, as is the pool in `opts`.
 * Returns 0; -EBUSY if dumps on a signal are on already or the signal does not have its default
 * disposition; -EINVAL for bad options, a bad signal or descriptor; -EAGAIN if no thread can be
 * created; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_dump_on_signal(int signal, int fd, const struct weft_dump_opts *opts);

/* Stop weft_dump_on_signal: wait until the dumps for signals that have arrived are complete, and
 * restore the signal's former disposition. Does nothing if dumps on a signal are off.
 *
 * Context: any thread; blocks the thread while a dump is written. */
WEFT_API void weft_dump_on_signal_stop(void);

/* --- statistics ----------------------------------------------------------------------------- */

/* Statistics and inspection: counters of pools, workers and memory, snapshots of fibers, a text
 * dump of a pool, and the trace ring.
 *
 * Counters are written by their worker alone and may be read at any time; the numbers of different
 * workers are from different moments.
 */

enum weft_worker_state {
    WEFT_WORKER_ABSENT, /* not started, or a caller that is not in run, poll or stop */
    WEFT_WORKER_RUNNING,
    WEFT_WORKER_SEARCHING,
    WEFT_WORKER_PARKED,
};

struct weft_worker_stats {
    enum weft_worker_state state;
    int tid;            /* kernel thread id, 0 if absent */
    uint64_t executed;  /* times a fiber was switched to */
    uint64_t spawned;   /* fibers spawned by this worker's fibers */
    uint64_t finished;  /* fibers that ended here */
    uint64_t steals;    /* successful steals */
    uint64_t stolen;    /* fibers that the steals brought */
    uint64_t parks;     /* times the thread blocked */
    uint64_t wakes;     /* times another thread unblocked it */
    uint64_t overflows; /* times the ring spilled into the global queue */
    uint64_t stacks;    /* stacks attached */
    uint64_t hogs;      /* times a fiber was reported for keeping the worker too long */
    /* Waits on descriptors that began here minus those that ended here: only the sum over all
     * workers is meaningful. */
    int64_t io_waiting;
    uint64_t io_polls;  /* times the driver was polled */
    uint64_t io_events; /* events it reported */
    size_t ring, fresh; /* queue lengths now */
    size_t inbox;       /* 1 if tasks have arrived from other threads and were not taken yet */
    size_t bound;       /* live fibers that only this worker may run */
    weft_fiber current;
};

struct weft_pool_stats {
    const char *name;
    unsigned workers;
    unsigned active, idle; /* workers running or searching; parked */
    bool started, stopping;
    bool compute;                    /* has no I/O driver */
    const char *driver, *driver_why; /* driver in use, and why it was chosen; NULL: no I/O yet */
    uint64_t live;                   /* fibers that have not ended */
    size_t global;                   /* length of the global queue */
    uint64_t submitted;              /* fibers from outside the pool: submitted, or migrated here */
    struct weft_worker_stats total;  /* sums of the workers' counters */
};

/* Fill in *out.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_stats(weft_pool *pool, struct weft_pool_stats *out);

/* Fill in *out for one worker.
 *
 * Returns 0; -EINVAL if there is no such worker.
 * Context: any thread; does not wait. */
WEFT_API int weft_worker_stats(weft_pool *pool, struct weft_worker_stats *out, unsigned worker);

struct weft_fiber_info {
    weft_fiber fiber;
    char name[16];
    char group[32]; /* name of its group; "" outside a dispatcher */
    bool daemon;    /* does not keep the group open */
    enum weft_fiber_state state;
    int worker;        /* the worker that runs it or ran it last; -1 if none has */
    int bound;         /* the worker it is bound to, or -1 */
    int64_t age_ns;    /* since its creation, to one clock tick of the creating worker */
    const char *waits; /* what it waits for ("park", "join"); NULL if it does not wait */
    weft_fiber on;     /* the fiber it waits for, if it joins one */
};

/* Call `visit` for every live fiber of the pool, or of all pools if NULL, until `visit` returns
 * false. The fibers keep running meanwhile, so different records are from different moments.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_fiber_each(weft_pool *pool,
                              bool (*visit)(const struct weft_fiber_info *, void *), void *arg);

/* Write the pool as text: the pool, its workers, their counters, then up to max_fibers fibers (0:
 * none).
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_dump(weft_pool *pool, FILE *out, size_t max_fibers);

/* Memory of the process: fiber control blocks and stacks. */
struct weft_memory_stats {
    size_t blocks;         /* fiber control blocks ever created */
    size_t stacks;         /* stacks carved so far */
    size_t reserved_bytes; /* address space reserved for stacks */
    size_t mappings;       /* mappings that the reservations use */
    const char *guard;     /* how stacks are guarded: "guard-install", "mprotect" or "canary" */
};

/* Fill in *out.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_memory_stats(struct weft_memory_stats *out);

/* Return memory that is kept for reuse to the kernel: the pages of idle stacks, except the few
 * stacks (up to 32 of a size) that each worker keeps in its cache, and pooled buffers. The other
 * workers free their buffers at their next tick or before they sleep.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_memory_trim(void);

/* Switch the trace ring on or off. The ring holds the last 1024 scheduling events of each worker;
 * it costs one predicted branch per event while it is off, as it is at first.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_trace(weft_pool *pool, bool on);

/* Write the events in the trace ring, worker by worker, the oldest first, one per line.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_pool_trace_dump(weft_pool *pool, FILE *out);

/* --- reports -------------------------------------------------------------------------------- */

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
WEFT_API size_t weft_wait_cycles_dump(FILE *out);

/* What could still wake a fiber when the watchdog last found all workers asleep. */
enum weft_wake_source {
    WEFT_WAKE_SOURCE_RUNNING,   /* a worker was running */
    WEFT_WAKE_SOURCE_NO_FIBERS, /* there are no fibers */
    WEFT_WAKE_SOURCE_TIMER,     /* a timer is pending */
    WEFT_WAKE_SOURCE_EXTERNAL,  /* fibers wait, and there is an external wake source */
    WEFT_WAKE_SOURCE_DEADLOCK,  /* fibers wait forever */
};

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
