/* Dispatcher: one thread that runs groups of fibers, fairly and in a reproducible order.
 *
 * Use a dispatcher for state that many fibers share: a Raft node, a game world, a protocol engine.
 * All fibers of a dispatcher run on its one thread, and a fiber keeps the thread until it waits or
 * yields, so the fibers of a group share state without locks. A group holds fibers with a stack
 * (<weft/fiber.h>) and without (<weft/frame.h>). Timers, I/O and all synchronisation objects work
 * as in a pool.
 *
 * Scheduling order. The thread works in rounds. A round takes in what other threads sent, fires
 * timers, calls posted functions, then gives each ready group a turn. In a turn, the group's fibers
 * run one after another until none is ready or the group's slice is used up.
 *   - A fiber woken by an object goes to the front of the group's run queue.
 *   - A fiber woken by a timer, by I/O, by its handle (unpark, interrupt, cancel), from another
 *     thread, or by the end of another fiber goes to the back.
 *   - A new fiber goes to the back, or to the front with `front`.
 *   - A fiber that yields waits for the group's next turn.
 * A fiber is woken at most `signals_per_round` times per round; further wakes take effect in the
 * group's next turn, front wakes first. Two fibers that wake each other therefore cannot starve the
 * others. The same inputs give the same order: docs/dispatcher.md.
 *
 * Life cycle: create -> start (or run on the caller's thread) -> groups come and finish -> stop ->
 * destroy.
 */
#ifndef WEFT_DISPATCHER_H
#define WEFT_DISPATCHER_H

#include <weft/future.h>
#include <weft/inspect.h>
#include <weft/perf.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_dispatcher weft_dispatcher;

/* What a stop does with groups that have not finished by its deadline. */
enum weft_overdue {
    WEFT_OVERDUE_WARN,   /* dump the groups to stderr and keep waiting */
    WEFT_OVERDUE_CANCEL, /* dump the groups to stderr and cancel their fibers */
};

/* What a fatal error in a group stops: weft_group_fail. */
enum weft_on_fatal {
    WEFT_FATAL_STOPS_GROUP,
    WEFT_FATAL_STOPS_DISPATCHER,
    WEFT_FATAL_ABORTS,
};

struct weft_dispatcher_opts {
    const char
        *name;   /* any length; the thread is "<name>_0", cut to 15 bytes; default "dispatch" */
    bool caller; /* the creating thread runs the dispatcher: weft_dispatcher_run, _poll */
    enum weft_driver driver; /* as in weft_pool_opts */
    const int *cpu;          /* CPU to pin the thread to; default: not pinned */
    size_t stack_bytes;      /* default stack size of fibers; default 64 KiB */
    uint64_t max_fibers;     /* live fibers of both kinds; default: limited by memory only */
    int64_t timer_tick_ns;   /* as in weft_pool_opts */
    /* Longest sleep of an idle dispatcher; default: no limit. */
    int64_t max_poll_ns;
    int spin_rounds; /* empty rounds before the thread sleeps; default 1; < 0: none */
    /* Longest busy wait before the thread sleeps, while other threads keep sending; default 25000;
     * < 0: none. A process with one CPU never spins. */
    int64_t spin_ns;
    int64_t hog_ns;    /* as in weft_pool_opts */
    bool deadlock_off; /* as in weft_pool_opts */
    enum weft_overdue on_overdue;
    bool order_hash; /* maintain order_hash of weft_dispatcher_stats */
    /* Receives the perf events of this dispatcher only (weft/perf.h) until the dispatcher is
     * destroyed; copied, and its `pool` is ignored. Default: no receiver. */
    const struct weft_perf *perf;
};

/* Create a dispatcher; its thread is not started.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned dispatcher in *out; -EINVAL for a bad option (weft_last_error names it);
 * otherwise the errors of weft_pool_create.
 * Context: any thread; does not wait. */
WEFT_API int weft_dispatcher_create(weft_dispatcher **out, const struct weft_dispatcher_opts *opts);

/* Start the dispatcher's thread. A dispatcher with `caller` has no thread and needs no start.
 *
 * Returns 0, also if it is started already; -EAGAIN if no thread can be created; -ESHUTDOWN after a
 * stop was requested.
 * Context: any thread; does not wait. */
WEFT_API int weft_dispatcher_start(weft_dispatcher *dispatcher);

/* Run the dispatcher on the calling thread until every group has finished.
 *
 * Returns 0 when no unfinished group is left; -EINVAL without `caller` or from another thread than
 * the creating one; -EBUSY if this thread is a worker already; -ESHUTDOWN if the dispatcher is
 * stopped; -EDEADLK if all fibers of all pools and dispatchers wait and nothing can wake them
 * (weft/inspect.h has reported which); the fibers stay as they are.
 * Context: the creating thread; waits. */
WEFT_API int weft_dispatcher_run(weft_dispatcher *dispatcher);

/* Run the dispatcher from another event loop.
 *
 * weft_dispatcher_poll runs rounds until nothing is ready, at most 64. Afterwards wait until the
 * descriptor of weft_dispatcher_fd is readable (it is readable at once while something is ready)
 * or until weft_dispatcher_next_deadline, then poll again.
 * Returns (poll) the number of fibers that ran; -EINVAL, -EBUSY, -ESHUTDOWN as
 * weft_dispatcher_run; (fd) a descriptor that the dispatcher owns, or a negative errno;
 * (next_deadline) a deadline, WEFT_FOREVER if there is none.
 * Context: the creating thread; does not wait. */
WEFT_API int weft_dispatcher_poll(weft_dispatcher *dispatcher);
WEFT_API int weft_dispatcher_fd(weft_dispatcher *dispatcher);
WEFT_API int64_t weft_dispatcher_next_deadline(weft_dispatcher *dispatcher);

/* Ask all groups to stop, refuse new groups, wait until all groups have finished, and end the
 * thread. May be called again.
 *
 * At the deadline `on_overdue` applies. WEFT_OVERDUE_WARN then waits without limit;
 * WEFT_OVERDUE_CANCEL waits once more for the same time, at least one second.
 * late, max: if late is not NULL, it receives the names of up to `max` groups that had not finished
 * at the deadline. The names live as long as their groups.
 * Returns the number of groups that had not finished at the deadline; -EINPROGRESS on the
 * dispatcher's own thread (the stop has begun and continues without the caller); -EBUSY if groups
 * have not finished although they were cancelled (stop again to wait again); -EDEADLK if groups are
 * left and the dispatcher's thread is a caller outside run, poll and stop, or is the caller of this
 * function and all fibers wait forever as in weft_dispatcher_run; -ECANCELED, -EINTR if the waiting
 * fiber was cancelled or interrupted.
 * Context: any thread but the dispatcher's own; waits; a cancellation point. */
WEFT_API int weft_dispatcher_stop(weft_dispatcher *dispatcher, const char **late, size_t max,
                                  int64_t deadline);

/* Begin a stop without waiting for it: ask all groups to stop and refuse new groups.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_dispatcher_request_stop(weft_dispatcher *dispatcher);

/* Destroy a dispatcher and its groups. All groups must have finished: after weft_dispatcher_stop,
 * or before start if there is no unfinished group. NULL is ignored.
 *
 * Context: any thread but the dispatcher's own; does not wait. */
WEFT_API void weft_dispatcher_destroy(weft_dispatcher *dispatcher);

/* Return the dispatcher that owns the calling thread, or NULL.
 *
 * Context: any thread; does not wait. */
WEFT_API weft_dispatcher *weft_dispatcher_self(void);

/* Return the dispatcher's name; it lives as long as the dispatcher.
 *
 * Context: any thread; does not wait. */
WEFT_API const char *weft_dispatcher_name(const weft_dispatcher *dispatcher);

/* Return the dispatcher's pool, for calls that take one: statistics, dumps, perf events. The pool
 * is borrowed; only the dispatcher starts and stops it.
 *
 * Context: any thread; does not wait. */
WEFT_API weft_pool *weft_dispatcher_pool(const weft_dispatcher *dispatcher);

struct weft_dispatcher_stats {
    uint64_t rounds;             /* rounds run */
    uint64_t executed;           /* times a fiber ran */
    uint64_t sleeps;             /* times the thread blocked */
    uint64_t wakes;              /* times another thread unblocked it */
    unsigned groups, unfinished; /* groups not destroyed, and how many of them have not finished */
    /* A hash of the order in which fibers have run so far; 0 without the option `order_hash`. A
     * fiber is identified by its group and its start number, so two runs with the same hash ran in
     * the same order. */
    uint64_t order_hash;
};

/* Fill in *out. Each number is read separately, so the numbers may be from different moments.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_dispatcher_stats(weft_dispatcher *dispatcher, struct weft_dispatcher_stats *out);

/* Write the dispatcher, one line per group (state, number of fibers, ready fibers), then every
 * fiber with its group and what it waits on since when (docs/dump.md). In JSON the result is one
 * object that contains the dump.
 *
 * opts: as for weft_dump; NULL for defaults.
 * Returns 0 or the errors of weft_dump.
 * Context: any thread; does not wait. */
WEFT_API int weft_dispatcher_dump(weft_dispatcher *dispatcher, FILE *out,
                                  const struct weft_dump_opts *opts);

/* --- groups ------------------------------------------------------------------------ */

struct weft_group_opts {
    const char *name; /* any length; default "group" */
    /* Fibers that may run in one turn, so that one group cannot monopolise the round; default
     * 1024. */
    unsigned slice;
    enum weft_on_fatal on_fatal;
};

/* Create a group.
 *
 * Returns 0 and the group in *out, owned by the dispatcher; -ESHUTDOWN if the dispatcher is
 * stopping; -EAGAIN if it has 65,535 groups; -EINVAL for a bad option; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_create(weft_dispatcher *dispatcher, weft_group **out,
                               const struct weft_group_opts *opts);

/* Destroy a group that has finished. No thread may post to it, spawn into it or query it any more.
 * Groups that are not destroyed are destroyed with their dispatcher.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_group_destroy(weft_group *group);

struct weft_member_opts {
    const char *name;           /* as in weft_fiber_opts */
    size_t stack_bytes;         /* as in weft_fiber_opts; ignored for a frame fiber */
    unsigned signals_per_round; /* wakes per round, 1 .. 65535; default 1 */
    bool daemon;   /* does not keep the group open; cancelled when all other fibers have ended */
    bool front;    /* start before the group's ready fibers; default: after them */
    bool detached; /* as in weft_fiber_opts */
    bool fp_env;   /* as in weft_fiber_opts; ignored for a frame fiber */
};

/* Start fn(arg) in a new fiber of the group. A stopping group accepts new fibers; a finished one
 * does not.
 *
 * The fiber becomes ready at once if the caller is on the dispatcher's thread, otherwise in the
 * next round. It goes to the back of the group's run queue, with `front` to the front; of several
 * fibers started at the front the last one runs first. The start counts as one of
 * `signals_per_round`. Fibers that a member spawns with weft_spawn or in a scope belong to the same
 * group, are daemons if the spawner is one, and start at the back.
 * Returns 0 and a handle in *out (NULL if not wanted); -ESHUTDOWN if the group has finished;
 * -EAGAIN, -EINVAL, -ENOMEM as weft_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_spawn(weft_group *group, weft_fiber *out, weft_fn fn, void *arg,
                              const struct weft_member_opts *opts);

/* Call fn(arg) on the group's thread in the next round, or at once if the caller is in that group.
 * fn must not wait.
 *
 * Returns 0 if fn was called or will be called; -ESHUTDOWN if the group has finished; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_post(weft_group *group, weft_void_fn fn, void *arg);

/* A posted function in the caller's memory. The group owns the memory until it calls fn. */
struct weft_post {
    void (*fn)(struct weft_post *post);
    /* private */
    void *weft_private[3];
};

/* Post post->fn without allocating memory; otherwise like weft_group_post.
 *
 * Returns 0 if fn was called or will be called; -ESHUTDOWN if the group has finished.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_submit(weft_group *group, struct weft_post *post);

/* Ask the group to stop; its fibers decide how (weft_group_is_stopping, weft_group_sleep). May be
 * called more than once.
 *
 * The group finishes when only daemons are left and no posted function is pending; the daemons are
 * then cancelled and run their cleanups. Continuous posting keeps a group open. Fibers that wait
 * for the stop are woken at once if the caller is in the group, otherwise in the next round.
 * Context: any thread; does not wait. */
WEFT_API void weft_group_stop(weft_group *group);

/* Return true if the group was asked to stop.
 *
 * Context: any thread; does not wait. */
WEFT_API bool weft_group_is_stopping(const weft_group *group);

/* Sleep until the calling fiber's group is asked to stop, or until the deadline. If the group is
 * stopping already, the call yields once, so that a loop around it cannot starve other fibers.
 * Frame fibers use weft_frame_await_stop.
 *
 * Returns 0 if the group is stopping; -ETIMEDOUT; -ECANCELED; -EINTR.
 * Context: a fiber with a stack, in a group; waits; a cancellation point. */
WEFT_API int weft_group_sleep(int64_t deadline);

/* Report a fatal error (err < 0) of the calling fiber's group; the group's `on_fatal` says what
 * stops. The first error is kept.
 *
 * Context: in a group; does not wait. */
WEFT_API void weft_group_fail(int err);

/* Return the future that completes when the group has finished. After weft_group_fail it fails with
 * that error. The reference is the group's own.
 *
 * Context: any thread; does not wait. */
WEFT_API weft_future *weft_group_finished(weft_group *group);

/* Return the group that has its turn on this thread, or NULL.
 *
 * Context: any thread; does not wait. */
WEFT_API weft_group *weft_group_self(void);

/* Return the group's dispatcher, or its name. Both live as long as the group.
 *
 * Context: any thread; does not wait. */
WEFT_API weft_dispatcher *weft_group_dispatcher(const weft_group *group);
WEFT_API const char *weft_group_name(const weft_group *group);

enum weft_group_state {
    WEFT_GROUP_RUNNING,   /* all fibers wait */
    WEFT_GROUP_READY,     /* queued for its turn in this round or the next */
    WEFT_GROUP_EXECUTING, /* has its turn: its fibers or posted functions run now */
    WEFT_GROUP_STOPPING,  /* asked to stop; `executing` says whether it has its turn */
    WEFT_GROUP_FINISHED,
};

/* The numbers are a consistent snapshot from the end of the group's last turn; `state` and
 * `executing` are read at the call. */
struct weft_group_stats {
    enum weft_group_state state;
    bool executing;           /* has its turn; set for a stopping group too */
    uint64_t turns;           /* turns so far */
    uint64_t executed;        /* times a fiber ran */
    uint64_t fibers, daemons; /* live fibers */
    uint64_t ready;           /* live fibers and daemons that are ready */
};

/* Fill in *out.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_group_stats(const weft_group *group, struct weft_group_stats *out);

/* Return the name of the constant: "running", "ready", "executing", "stopping" or "finished".
 *
 * Context: any thread; does not wait. */
WEFT_API const char *weft_group_state_name(enum weft_group_state state);

/* Write the dump of one group, as weft_dispatcher_dump does for all groups.
 *
 * Returns 0 or the errors of weft_dump.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_dump(weft_group *group, FILE *out, const struct weft_dump_opts *opts);

/* --- calls and schedules -------------------------------------------------------------------- */

/* Executor: functions that run in a dispatcher's group, now, at a given time, or periodically,
 * submitted from any thread.
 *
 * Each function runs in a fiber of the group with its own stack, so it may wait, and it shares the
 * group's state without locks. (weft_group_post is cheaper for functions that do not wait.) A
 * function that runs once keeps the group open until it has run or is cancelled; a periodic one is
 * a daemon and ends with the group.
 *
 *     static int save(void *arg, void **value);   // returns 0 or a negative errno
 *
 *     struct weft_schedule_opts each_second = {.kind = WEFT_FIXED_DELAY,
 *                                              .period_ns = WEFT_SECONDS(1)};
 *     weft_schedule *saving;
 *     weft_group_schedule(group, &saving, save, world, &each_second);
 *     ...
 *     weft_schedule_cancel(saving);
 *     weft_schedule_unref(saving);
 */

/* Returns 0 and may set *value (initially NULL), or returns a negative errno. */
typedef int (*weft_result_fn)(void *arg, void **result);

/* Run fn(arg) in a new fiber of the group.
 *
 * out: if not NULL, receives an owned reference to a future for fn's value or error. The future
 * fails with -ECANCELED if fn leaves through weft_fiber_exit.
 * Returns 0; -EINVAL if fn is NULL; -ESHUTDOWN if the group has finished; -EAGAIN, -ENOMEM as
 * weft_group_spawn. After an error fn does not run.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_call(weft_group *group, weft_future **out, weft_result_fn fn, void *arg);

typedef struct weft_schedule weft_schedule;

enum weft_schedule_kind {
    WEFT_ONCE,
    /* Every period_ns, counted from the first due time, so delays do not accumulate. If a run takes
     * longer than the period, the next run starts at once, after other fibers had their turn; no
     * run is skipped. */
    WEFT_FIXED_RATE,
    WEFT_FIXED_DELAY, /* period_ns after the end of the previous run */
};

struct weft_schedule_opts {
    const char *name; /* the fiber's name; as in weft_fiber_opts */
    enum weft_schedule_kind kind;
    int64_t at;        /* deadline of the first run (weft_after); default: now */
    int64_t period_ns; /* for periodic kinds; greater than 0 */
    size_t stack_bytes;
};

/* Schedule fn(arg) to run in the group once or periodically. A periodic function that fails keeps
 * running: failures are counted and the first one is printed to stderr.
 *
 * out: if not NULL, receives an owned reference; release it with weft_schedule_unref.
 * Returns 0; -EINVAL for bad options; otherwise the errors of weft_group_call.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_schedule(weft_group *group, weft_schedule **out, weft_result_fn fn,
                                 void *arg, const struct weft_schedule_opts *opts);

/* Cancel a schedule. A run that has begun completes.
 *
 * Returns 0 if fn is not running and will not run again; -EINPROGRESS if fn is running for the last
 * time; -EALREADY if it has run, was cancelled before, or ended with its group.
 * Context: any thread; does not wait. */
WEFT_API int weft_schedule_cancel(weft_schedule *schedule);

/* Return the future that is decided when the schedule is over. A one-time schedule decides it with
 * fn's value or error. A schedule that was cancelled, through weft_schedule_cancel or with its
 * fiber, fails it with -ECANCELED; a periodic one always ends that way. The reference is the
 * schedule's own.
 *
 * Context: any thread; does not wait. */
WEFT_API weft_future *weft_schedule_finished(weft_schedule *schedule);

struct weft_schedule_stats {
    uint64_t runs;     /* completed runs */
    uint64_t failures; /* completed runs that failed */
    uint64_t overruns; /* runs that started at once because they were due before the previous run
                          ended */
    int last_error;    /* error of the last failed run; 0: none has failed */
};

/* Fill in *out. Each number is read separately, so the numbers may be from different moments.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_schedule_stats(const weft_schedule *schedule, struct weft_schedule_stats *out);

/* Release a reference. The schedule continues. NULL is ignored.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_schedule_unref(weft_schedule *schedule);

WEFT_END_DECLS
#endif
