/* Functions that run in a group at once, at a given time, or periodically. With the real clock
 * times have only lower bounds: a machine may be slow, but nothing may be early. */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/dispatcher.h>

#include "dispatch/fixture.h"
#include "virtual_clock.h"

static int gives_its_argument(void *arg, void **value)
{
    CHECK(weft_group_self());
    *value = arg;
    return 0;
}

static int fails(void *arg, void **value)
{
    *value = arg;
    return -EPROTO;
}

static int sleeps_first(void *arg, void **value)
{
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    *value = arg;
    return 0;
}

static int leaves(void *arg, void **value)
{
    (void)value;
    weft_fiber_exit(arg);
}

static int counts(void *arg, void **value)
{
    (void)value;
    atomic_fetch_add_explicit((_Atomic(int) *)arg, 1, memory_order_relaxed);
    return 0;
}

static int result_of(weft_future *future, void **value)
{
    int err = weft_future_get(future, value, WEFT_FOREVER);
    weft_future_unref(future);
    return err;
}

TEST(group_call_returns_value_or_error_through_future)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    weft_future *future;
    void *value = NULL;
    int token;
    _Atomic(int) called = 0;
    CHECK_EQ(weft_group_call(group, &future, gives_its_argument, &token), 0);
    CHECK_EQ(result_of(future, &value), 0);
    CHECK(value == &token);
    CHECK_EQ(weft_group_call(group, &future, fails, &token), 0);
    CHECK_EQ(result_of(future, NULL), -EPROTO);
    CHECK_EQ(weft_group_call(group, &future, sleeps_first, &token), 0);
    CHECK_EQ(result_of(future, &value), 0);
    CHECK_EQ(weft_group_call(group, &future, leaves, &token), 0);
    CHECK_EQ(result_of(future, NULL), -ECANCELED);
    CHECK_EQ(weft_group_call(group, NULL, counts, &called), 0); /* without a waiter */
    CHECK_EQ(weft_group_call(group, NULL, NULL, &called), -EINVAL);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(atomic_load(&called), 1);
    CHECK_EQ(weft_group_call(group, &future, gives_its_argument, &token), -ESHUTDOWN);
    weft_schedule *schedule;
    CHECK_EQ(weft_group_schedule(group, &schedule, counts, &called, NULL), -ESHUTDOWN);
    stop_dispatcher(d);
}

TEST(one_time_schedule_runs_on_time_and_holds_group_open)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    weft_schedule *now, *later, *failing;
    void *value;
    int token;
    int64_t at = weft_after(5 * MS);
    CHECK_EQ(weft_group_schedule(group, &now, gives_its_argument, &token, NULL), 0);
    CHECK_EQ(weft_group_schedule(group, &later, gives_its_argument, &token,
                                 &(struct weft_schedule_opts){.at = at, .name = "later"}),
             0);
    CHECK_EQ(weft_group_schedule(group, &failing, fails, NULL,
                                 &(struct weft_schedule_opts){.at = weft_after(MS)}),
             0);
    weft_group_stop(group); /* it waits for all three */
    CHECK_EQ(finish_of(group), 0);
    CHECK(weft_now() >= at);
    CHECK_EQ(weft_future_result(weft_schedule_finished(now), &value), 0);
    CHECK_EQ(weft_future_result(weft_schedule_finished(later), &value), 0);
    CHECK(value == &token);
    CHECK_EQ(weft_future_result(weft_schedule_finished(failing), NULL), -EPROTO);
    CHECK_EQ(weft_schedule_cancel(later), -EALREADY);
    struct weft_schedule_stats stats;
    weft_schedule_stats(failing, &stats);
    CHECK_EQ(stats.runs, 1);
    CHECK_EQ(stats.failures, 1);
    CHECK_EQ(stats.last_error, -EPROTO);
    weft_schedule_unref(now);
    weft_schedule_unref(later);
    weft_schedule_unref(failing);
    weft_schedule_unref(NULL);
    stop_dispatcher(d);
}

TEST(schedule_cancel_before_due_is_final_and_releases_group)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    weft_schedule *schedule;
    _Atomic(int) called = 0;
    struct weft_schedule_opts opts = {.at = weft_after(INT64_C(10000) * 1000 * MS)};
    CHECK_EQ(weft_group_schedule(group, &schedule, counts, &called, &opts), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_schedule_cancel(schedule), 0);
    CHECK_EQ(weft_schedule_cancel(schedule), -EALREADY);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(weft_future_result(weft_schedule_finished(schedule), NULL), -ECANCELED);
    CHECK_EQ(atomic_load(&called), 0);
    weft_schedule_unref(schedule);
    stop_dispatcher(d);
}

/* --- periodic functions ----------------------------------------------------------------------- */

#define RUNS 6

/* Only the test and the function move the clock; everything happens on this thread. */
#define PERIOD (INT64_C(1) << 21)

struct clockwork {
    weft_dispatcher *d;
    weft_schedule *schedule;
    int64_t takes[2]; /* the function: the first time, and later */
    int runs;
};

static int takes_its_time(void *arg, void **value)
{
    struct clockwork *c = arg;
    (void)value;
    virtual_clock_set(weft_now() + c->takes[c->runs > 0]);
    c->runs++;
    return 0;
}

/* Returns the time of the first run. */
static int64_t open_clockwork(struct clockwork *c, enum weft_schedule_kind kind)
{
    struct weft_dispatcher_opts opts = {
        .caller = true, .timer_tick_ns = PERIOD / 16, .hog_ns = -1, .spin_ns = -1};
    int64_t first = virtual_clock_stop(PERIOD) + PERIOD;
    CHECK_EQ(weft_dispatcher_create(&c->d, &opts), 0);
    weft_group *group = make_group(c->d, "g");
    CHECK_EQ(weft_group_schedule(
                 group, &c->schedule, takes_its_time, c,
                 &(struct weft_schedule_opts){.kind = kind, .period_ns = PERIOD, .at = first}),
             0);
    return first;
}

/* Returns how often the function ran immediately because its time had come before the last run was
 * over. */
static uint64_t close_clockwork(struct clockwork *c)
{
    struct weft_schedule_stats stats;
    weft_schedule_stats(c->schedule, &stats);
    CHECK_EQ(stats.runs, c->runs);
    CHECK_EQ(stats.failures, 0);
    CHECK_EQ(weft_schedule_cancel(c->schedule), 0);
    weft_schedule_unref(c->schedule);
    stop_dispatcher(c->d);
    virtual_clock_go();
    return stats.overruns;
}

static int runs_at(struct clockwork *c, int64_t time)
{
    virtual_clock_set(time);
    CHECK(weft_dispatcher_poll(c->d) >= 0);
    return c->runs;
}

TEST(fixed_delay_schedule_counts_from_end_of_run)
{
    struct clockwork c = {.takes = {2 * PERIOD, 2 * PERIOD}};
    int64_t due = open_clockwork(&c, WEFT_FIXED_DELAY);
    for (int i = 0; i < RUNS; i++) {
        int64_t late = i % 2 ? PERIOD / 4 : 0;
        CHECK_EQ(runs_at(&c, due - 1), i);
        CHECK_EQ(runs_at(&c, due + late), i + 1);
        due += late + 2 * PERIOD + PERIOD;
    }
    CHECK_EQ(close_clockwork(&c), 0);
}

/* The k-th run is due at first + k * period, whenever the earlier runs happened and however long
 * they took; a late run does not delay the next. */
TEST(fixed_rate_schedule_counts_from_first_run)
{
    struct clockwork c = {.takes = {PERIOD / 2, PERIOD / 2}};
    int64_t first = open_clockwork(&c, WEFT_FIXED_RATE);
    for (int i = 0; i < RUNS; i++) {
        int64_t due = first + i * PERIOD;
        CHECK_EQ(runs_at(&c, due - 1), i);
        CHECK_EQ(runs_at(&c, i % 2 ? due + PERIOD / 4 : due), i + 1);
    }
    CHECK_EQ(close_clockwork(&c), 0);
}

/* One run takes four periods: the runs that were due meanwhile follow at once, none is left out,
 * and then the schedule is on time again. */
TEST(fixed_rate_overruns_run_immediately)
{
    struct clockwork c = {.takes = {4 * PERIOD, 0}};
    int64_t first = open_clockwork(&c, WEFT_FIXED_RATE);
    CHECK_EQ(runs_at(&c, first - 1), 0);
    CHECK_EQ(runs_at(&c, first), 5); /* including the run of first + 4 * PERIOD, which is now */
    CHECK_EQ(runs_at(&c, first + 5 * PERIOD - 1), 5);
    CHECK_EQ(runs_at(&c, first + 5 * PERIOD), 6);
    CHECK_EQ(close_clockwork(&c), 4);
}

struct flaky {
    _Atomic(int) n;
};

static int fails_every_other_time(void *arg, void **value)
{
    struct flaky *f = arg;
    (void)value;
    return atomic_fetch_add_explicit(&f->n, 1, memory_order_relaxed) % 2 ? -EIO : 0;
}

TEST(failing_periodic_schedule_continues_and_is_counted)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    weft_schedule *schedule;
    struct flaky f = {0};
    struct weft_schedule_opts opts = {.kind = WEFT_FIXED_DELAY, .period_ns = 1, .name = "flaky"};
    CHECK_EQ(weft_group_schedule(group, &schedule, fails_every_other_time, &f, &opts), 0);
    struct weft_schedule_stats stats;
    do {
        weft_schedule_stats(schedule, &stats);
    } while (stats.runs < 4);
    CHECK(stats.failures >= 1);
    CHECK_EQ(stats.last_error, -EIO);
    /* It does not hold the group open, and ends with it. */
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(weft_future_result(weft_schedule_finished(schedule), NULL), -ECANCELED);
    CHECK_EQ(weft_schedule_cancel(schedule), -EALREADY);
    weft_schedule_unref(schedule);
    stop_dispatcher(d);
}

static int fails_at_once(void *arg, void **value)
{
    (void)arg, (void)value;
    return -EIO;
}

static void fail_periodically(void *name)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_schedule *schedule;
    struct weft_schedule_opts opts = {.kind = WEFT_FIXED_DELAY, .period_ns = 1, .name = name};
    CHECK_EQ(weft_group_schedule(make_group(d, "g"), &schedule, fails_at_once, NULL, &opts), 0);
    struct weft_schedule_stats stats;
    do {
        weft_schedule_stats(schedule, &stats);
    } while (stats.runs < 3);
    weft_schedule_unref(schedule);
    stop_dispatcher(d);
}

TEST(only_first_schedule_failure_is_reported)
{
    static const char told[] = "weft: group g: %s failed and keeps running: Input/output error\n";
    for (int named = 0; named < 2; named++) {
        char err[CHECK_ERR], line[128];
        CHECK_EQ(
            check_child(fail_periodically, named ? (void *)(uintptr_t) "s" : NULL, err, sizeof err),
            0);
        snprintf(line, sizeof line, told, named ? "s" : "a periodic function");
        CHECK_STR(check_without_hogs(err), line);
    }
}

struct slow {
    _Atomic(int) stage;
};

static int runs_until_told(void *arg, void **value)
{
    struct slow *s = arg;
    *value = s;
    atomic_store(&s->stage, 1);
    while (atomic_load(&s->stage) != 2) {
        weft_yield();
    }
    return 0;
}

/* Cancel during a run: for a periodic function it is the last run, and the value of a function that
 * runs once is kept. */
TEST(schedule_cancel_while_running_reports_in_progress)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    for (int kind = WEFT_ONCE; kind <= WEFT_FIXED_DELAY; kind++) {
        weft_group *group = make_group(d, "g");
        struct slow s = {0};
        struct weft_schedule_opts opts = {.kind = (enum weft_schedule_kind)kind,
                                          .period_ns = kind == WEFT_ONCE ? 0 : 1};
        weft_schedule *schedule;
        CHECK_EQ(weft_group_schedule(group, &schedule, runs_until_told, &s, &opts), 0);
        while (atomic_load(&s.stage) != 1) {
            sched_yield();
        }
        CHECK_EQ(weft_schedule_cancel(schedule), -EINPROGRESS);
        atomic_store(&s.stage, 2);
        CHECK_EQ(weft_future_get(weft_schedule_finished(schedule), NULL, WEFT_FOREVER),
                 kind == WEFT_ONCE ? 0 : -ECANCELED);
        struct weft_schedule_stats stats;
        weft_group_stop(group);
        CHECK_EQ(finish_of(group), 0);
        weft_schedule_stats(schedule, &stats);
        CHECK_EQ(stats.runs, 1);
        weft_schedule_unref(schedule);
    }
    stop_dispatcher(d);
}

/* The result is definite: after 0 the function never runs; the counts agree. */
TEST(schedule_cancel_racing_with_due_time_counts_once)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    _Atomic(int) called = 0;
    int cancelled = 0;
    enum { TIMES = 200 };
    for (int i = 0; i < TIMES; i++) {
        weft_schedule *schedule;
        struct weft_schedule_opts opts = {.at = weft_after(i * 200)};
        CHECK_EQ(weft_group_schedule(group, &schedule, counts, &called, &opts), 0);
        int err = weft_schedule_cancel(schedule);
        CHECK(err == 0 || err == -EALREADY || err == -EINPROGRESS);
        cancelled += err == 0;
        weft_schedule_unref(schedule);
    }
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(atomic_load(&called) + cancelled, TIMES);
    stop_dispatcher(d);
}

TEST(schedule_rejects_bad_options)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    static const struct weft_schedule_opts bad[] = {
        {.kind = WEFT_FIXED_RATE},
        {.kind = WEFT_FIXED_DELAY, .period_ns = -1},
        {.kind = WEFT_ONCE, .period_ns = 1},
        {.kind = (enum weft_schedule_kind)3, .period_ns = 1},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(weft_group_schedule(group, NULL, counts, NULL, &bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_group_schedule(group, NULL, NULL, NULL, NULL), -EINVAL);
    stop_dispatcher(d);
}
