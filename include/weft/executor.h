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
#ifndef WEFT_EXECUTOR_H
#define WEFT_EXECUTOR_H

#include <weft/dispatcher.h>

WEFT_BEGIN_DECLS

/* Returns 0 and may set *value (initially NULL), or returns a negative errno. */
typedef int (*weft_work_fn)(void *arg, void **value);

/* Run fn(arg) in a new fiber of the group.
 *
 * out: if not NULL, receives an owned reference to a future for fn's value or error. The future
 * fails with -ECANCELED if fn leaves through weft_fiber_exit.
 * Returns 0; -EINVAL if fn is NULL; -ESHUTDOWN if the group has finished; -EAGAIN, -ENOMEM as
 * weft_group_spawn. After an error fn does not run.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_call(weft_group *group, weft_future **out, weft_work_fn fn, void *arg);

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
WEFT_API int weft_group_schedule(weft_group *group, weft_schedule **out, weft_work_fn fn, void *arg,
                                 const struct weft_schedule_opts *opts);

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
WEFT_API weft_future *weft_schedule_over(weft_schedule *schedule);

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
