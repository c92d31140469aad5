/* Functions that run in a group: each has one fiber, which waits until the function is due.
 *
 * The word of a schedule decides whether a cancel comes in time:
 *
 *   PENDING -> RUNNING -> PENDING ... -> ENDED    by the schedule's fiber
 *   PENDING -> CANCELLED                          by the first cancel
 *   RUNNING -> RUNNING | CANCELLED -> ENDED       by the first cancel, then by the fiber
 *
 * Every transition is a CAS, so the result of each cancel stays true.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/dispatcher.h>

#include "base/alloc.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "dispatch/dispatcher.h"

/* --- calls ------------------------------------------------------------------------------ */

struct call {
    weft_result_fn fn;
    void *arg;
    weft_future *over;
};

/* Cancels the future if fn left through weft_fiber_exit; otherwise the future is decided
 * already. */
static void end_call(void *arg)
{
    struct call *call = arg;
    weft_future_cancel(call->over);
    weft_future_unref(call->over);
    weft__free(call);
}

static void decide(weft_future *over, int err, void *value)
{
    if (err) {
        weft_future_fail(over, err);
    } else {
        weft_future_complete(over, value);
    }
}

static void *run_call(void *arg)
{
    struct call *call = arg;
    struct weft_fiber_cleanup end;
    void *value = NULL;
    weft_fiber_cleanup_push(&end, end_call, call);
    int err = call->fn(call->arg, &value);
    decide(call->over, err, value);
    weft_fiber_cleanup_pop(&end, true);
    return NULL;
}

int weft_group_call(weft_group *group, weft_future **out, weft_result_fn fn, void *arg)
{
    WEFT__NONNULL(group);
    struct call *call = fn ? weft__alloc(sizeof *call) : NULL;
    if (!call) {
        return fn ? -ENOMEM : -EINVAL;
    }
    *call = (struct call){.fn = fn, .arg = arg};
    int err = weft_future_create(&call->over, &(struct weft_sync_opts){.name = "a call"});
    if (err) {
        weft__free(call);
        return err;
    }
    weft_future *over = weft_future_ref(call->over);
    err = weft_group_spawn(group, NULL, run_call, call, &(struct weft_member_opts){.name = "call"});
    if (err) {
        weft_future_unref(call->over);
        weft__free(call);
    }
    if (err || !out) {
        weft_future_unref(over);
        return err;
    }
    *out = over;
    return 0;
}

/* --- schedules ------------------------------------------------------------------------- */

enum {
    PENDING = 0,
    RUNNING = 1,
    CANCELLED = 2,
    ENDED = 4,
};

struct weft_schedule {
    /* immutable */
    weft_result_fn fn;
    void *arg;
    weft_group *group;
    enum weft_schedule_kind kind;
    int64_t period_ns;
    weft_future *over;
    char name[16];
    /* any thread */
    _Atomic(uint32_t) refs;
    _Atomic(uint32_t) word;
    weft_event cancelled; /* ends the fiber's wait for the due time */
    /* written by the fiber */
    _Atomic(uint64_t) runs, failures, overruns;
    _Atomic(int) last_error;
    int64_t due; /* fiber only */
};

static void unref(weft_schedule *s)
{
    /* acq_rel: all uses by other holders happen before the free. pairs: itself */
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        weft_event_deinit(&s->cancelled);
        weft_future_unref(s->over);
        weft__free(s);
    }
}

void weft_schedule_unref(weft_schedule *schedule)
{
    if (schedule) {
        unref(schedule);
    }
}

/* A transition by the fiber. False: a cancel came first. */
static bool step(weft_schedule *s, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&s->word, &from, to, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Cleanup: runs however the fiber ends. */
static void end_schedule(void *arg)
{
    weft_schedule *s = arg;
    atomic_store_explicit(&s->word, ENDED, memory_order_relaxed);
    weft_future_cancel(s->over);
    unref(s);
}

static void count(_Atomic(uint64_t) *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void note_failure(weft_schedule *s, int err)
{
    bool first = atomic_load_explicit(&s->failures, memory_order_relaxed) == 0;
    count(&s->failures);
    atomic_store_explicit(&s->last_error, err, memory_order_relaxed);
    if (first && s->kind != WEFT_ONCE) {
        fprintf(stderr, "weft: group %s: %s failed and keeps running: %s\n",
                weft_group_name(s->group), s->name[0] ? s->name : "a periodic function",
                weft_strerror(err));
    }
}

static int run_once(weft_schedule *s, void **value)
{
    *value = NULL;
    int err = s->fn(s->arg, value);
    if (err) {
        note_failure(s, err);
    }
    count(&s->runs);
    return err;
}

/* True when the function is due; false when cancelled. */
static bool wait_for_time(weft_schedule *s)
{
    int err;
    do {
        err = weft_event_wait(&s->cancelled, s->due);
    } while (err == -EINTR); /* an interrupt is meant for fn, which is not running */
    return err == -ETIMEDOUT;
}

/* Yield so that other fibers run first even if the next run is due already, because then the wait
 * for the due time would return at once. */
static void set_next(weft_schedule *s)
{
    int64_t now = weft_now();
    int64_t from = s->kind == WEFT_FIXED_RATE ? s->due : now;
    int64_t next = weft__clock_add(from, s->period_ns);
    s->due = next < WEFT_FOREVER ? next : WEFT_FOREVER - 1;
    if (s->due <= now) {
        count(&s->overruns);
    }
    weft_yield();
}

static void *run_schedule(void *arg)
{
    weft_schedule *s = arg;
    struct weft_fiber_cleanup end;
    void *value;
    weft_fiber_cleanup_push(&end, end_schedule, s);
    while (wait_for_time(s) && step(s, PENDING, RUNNING)) {
        int err = run_once(s, &value);
        if (s->kind == WEFT_ONCE) {
            decide(s->over, err, value);
            break;
        }
        if (!step(s, RUNNING, PENDING)) {
            break;
        }
        set_next(s);
    }
    weft_fiber_cleanup_pop(&end, true);
    return NULL;
}

static bool is_valid(const struct weft_schedule_opts *opts)
{
    return opts->kind == WEFT_ONCE
               ? opts->period_ns == 0
               : (opts->kind == WEFT_FIXED_RATE || opts->kind == WEFT_FIXED_DELAY) &&
                     opts->period_ns > 0;
}

int weft_group_schedule(weft_group *group, weft_schedule **out, weft_result_fn fn, void *arg,
                        const struct weft_schedule_opts *options)
{
    WEFT__NONNULL(group);
    static const struct weft_schedule_opts defaults;
    const struct weft_schedule_opts *opts = options ? options : &defaults;
    if (!fn) {
        return weft__refuse(-EINVAL, "fn: must be given");
    }
    if (!is_valid(opts)) {
        return weft__refuse(-EINVAL, "kind, period_ns: a periodic schedule needs a period");
    }
    weft_schedule *s = weft__alloc(sizeof *s);
    if (!s) {
        return -ENOMEM;
    }
    int err = weft_future_create(&s->over, &(struct weft_sync_opts){.name = "a schedule"});
    if (err) {
        weft__free(s);
        return err;
    }
    s->fn = fn;
    s->arg = arg;
    s->group = group;
    s->kind = opts->kind;
    s->period_ns = opts->period_ns;
    weft__deadline_check(opts->at);
    s->due = opts->at ? opts->at : weft_now();
    weft__objname_truncate(s->name, sizeof s->name, opts->name ? opts->name : "");
    atomic_init(&s->refs, out ? 2 : 1); /* the fiber's and the caller's */
    weft_event_init(&s->cancelled, &(struct weft_sync_opts){.name = "its time"});
    struct weft_member_opts member = {.name = opts->name ? opts->name : "schedule",
                                      .stack_bytes = opts->stack_bytes,
                                      .daemon = opts->kind != WEFT_ONCE};
    err = weft_group_spawn(group, NULL, run_schedule, s, &member);
    if (err) {
        atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
        unref(s);
    } else if (out) {
        *out = s;
    }
    return err;
}

int weft_schedule_cancel(weft_schedule *s)
{
    WEFT__NONNULL_AS(s, "schedule");
    uint32_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
    do {
        if (word & (CANCELLED | ENDED)) {
            return -EALREADY;
        }
        if (word == RUNNING && s->kind == WEFT_ONCE) {
            return -EINPROGRESS; /* fn's result stands */
        }
    } while (!atomic_compare_exchange_weak_explicit(&s->word, &word, word | CANCELLED,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (word == RUNNING) {
        return -EINPROGRESS;
    }
    weft_event_set(&s->cancelled);
    return 0;
}

weft_future *weft_schedule_finished(weft_schedule *schedule)
{
    WEFT__NONNULL(schedule);
    return schedule->over;
}

void weft_schedule_stats(const weft_schedule *s, struct weft_schedule_stats *out)
{
    WEFT__NONNULL_AS(s, "schedule");
    *out = (struct weft_schedule_stats){
        .runs = atomic_load_explicit(&s->runs, memory_order_relaxed),
        .failures = atomic_load_explicit(&s->failures, memory_order_relaxed),
        .overruns = atomic_load_explicit(&s->overruns, memory_order_relaxed),
        .last_error = atomic_load_explicit(&s->last_error, memory_order_relaxed),
    };
}
