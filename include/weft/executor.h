/* The executor of a group: functions that run there now, at some time, or again and again, sent
 * from any thread.
 *
 * Each runs in a fiber of the group with a stack of its own: it may wait, and what it shares with
 * the group's other fibers needs no lock. (For the smallest things, which do not wait, there is
 * weft_group_post.) One that is to run once holds the group open until it has run or was cancelled;
 * one that runs periodically is a daemon, and ends with the group.
 *
 *     static int save(void *arg, void **value);   // 0, or a negative errno
 *
 *     struct weft_schedule_opts each_second = {.kind = WEFT_FIXED_DELAY, .period_ns =
 * WEFT_SECONDS(1)}; weft_schedule *saving; weft_group_schedule(group, &saving, save, world,
 * &each_second);
 *     ...
 *     weft_schedule_cancel(saving);
 *     weft_schedule_unref(saving);
 */
#ifndef WEFT_EXECUTOR_H
#define WEFT_EXECUTOR_H

#include <weft/dispatcher.h>

WEFT_BEGIN_DECLS

/* 0, with *value if there is one (it is NULL at first), or a negative errno. */
typedef int (*weft_work_fn)(void *arg, void **value);

/* Runs fn(arg) in the group, soon. *out, if `out` is not NULL, is a future for its value or its
 * error, with a reference for the caller; it fails with -ECANCELED if fn leaves by weft_exit.
 * -ESHUTDOWN: the group has finished; -EAGAIN, -ENOMEM as weft_group_spawn. fn does not run after
 * an error. */
WEFT_API int weft_group_call(weft_group *group, weft_future **out, weft_work_fn fn, void *arg);

typedef struct weft_schedule weft_schedule;

enum weft_schedule_kind {
    WEFT_ONCE,
    /* Every period_ns, counted from the first time it was due: what comes late is not added up. If
     * a run took longer than that, the next begins at once, after others had their turn; none is
     * left out. */
    WEFT_FIXED_RATE,
    WEFT_FIXED_DELAY, /* period_ns after the end of the last run */
};

struct weft_schedule_opts {
    const char *name; /* of the fiber; as in weft_fiber_opts */
    enum weft_schedule_kind kind;
    int64_t at;        /* when it runs first, as a deadline (weft_after); default: now */
    int64_t period_ns; /* of the periodic ones; greater than 0 */
    size_t stack_bytes;
};

/* From any thread. *out, if `out` is not NULL, is to be given back by weft_schedule_unref. A
 * periodic one that fails goes on: failures are counted, and the first is told on stderr. -EINVAL,
 * and as weft_group_call. */
WEFT_API int weft_group_schedule(weft_group *group, weft_schedule **out, weft_work_fn fn, void *arg,
                                 const struct weft_schedule_opts *opts);

/* From any thread. 0: fn does not run any more, and did not run just now. -EINPROGRESS: it is
 * running; it is the last time. -EALREADY: it has run, or it was cancelled before, or its group has
 * ended it. A run that has begun goes on to its end. */
WEFT_API int weft_schedule_cancel(weft_schedule *schedule);
/* Decided when it is over: of one that runs once its value or its error; -ECANCELED if it was
 * cancelled, by weft_schedule_cancel or with its fiber. Of a periodic one always that. The
 * schedule's own reference. */
WEFT_API weft_future *weft_schedule_over(weft_schedule *schedule);

struct weft_schedule_stats {
    uint64_t runs;     /* that have ended */
    uint64_t failures; /* of these */
    uint64_t overruns; /* runs that began at once, because their time had come before the last was
                          over */
    int last_error;    /* 0: none has failed */
};
/* From any thread; each number is of its own moment. */
WEFT_API void weft_schedule_stats(const weft_schedule *schedule, struct weft_schedule_stats *out);

/* It goes on. NULL is fine. */
WEFT_API void weft_schedule_unref(weft_schedule *schedule);

WEFT_END_DECLS
#endif
