/* Functions that run in a group at once, at some time, again and again. Times have lower bounds
 * only: a machine may be slow, but nothing may be early. */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/executor.h>

#include "dispatch/fixture.h"

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
    CHECK_EQ(weft_sleep(MS), 0);
    *value = arg;
    return 0;
}

static int leaves(void *arg, void **value)
{
    (void)value;
    weft_exit(arg);
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

TEST(a_call_gives_its_value_or_its_error_through_a_future)
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
    CHECK_EQ(weft_group_call(group, NULL, counts, &called), 0); /* nobody asks */
    CHECK_EQ(weft_group_call(group, NULL, NULL, &called), -EINVAL);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(atomic_load(&called), 1);
    CHECK_EQ(weft_group_call(group, &future, gives_its_argument, &token), -ESHUTDOWN);
    weft_schedule *schedule;
    CHECK_EQ(weft_group_schedule(group, &schedule, counts, &called, NULL), -ESHUTDOWN);
    stop_dispatcher(d);
}

TEST(one_that_runs_once_runs_at_its_time_and_holds_the_group_open)
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
    CHECK_EQ(weft_future_result(weft_schedule_over(now), &value), 0);
    CHECK_EQ(weft_future_result(weft_schedule_over(later), &value), 0);
    CHECK(value == &token);
    CHECK_EQ(weft_future_result(weft_schedule_over(failing), NULL), -EPROTO);
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

TEST(a_cancel_before_its_time_is_for_good_and_lets_the_group_go)
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
    CHECK_EQ(weft_future_result(weft_schedule_over(schedule), NULL), -ECANCELED);
    CHECK_EQ(atomic_load(&called), 0);
    weft_schedule_unref(schedule);
    stop_dispatcher(d);
}

/* --- again and again -------------------------------------------------------------------------- */

#define RUNS 6

static struct {
    int64_t began[RUNS + 2], ended[RUNS + 2];
    int64_t body_ns;
    _Atomic(int) n;
} runs;

static int notes_its_time(void *arg, void **value)
{
    int i = atomic_load_explicit(&runs.n, memory_order_relaxed);
    (void)arg, (void)value;
    i = i < RUNS + 1 ? i : RUNS + 1;
    runs.began[i] = weft_now();
    while (weft_now() < runs.began[i] + runs.body_ns) {
        CHECK_EQ(weft_sleep(runs.body_ns / 4), 0);
    }
    runs.ended[i] = weft_now();
    atomic_store_explicit(&runs.n, i + 1, memory_order_release);
    return 0;
}

static void wait_for_runs(void)
{
    while (atomic_load_explicit(&runs.n, memory_order_acquire) < RUNS) {
        usleep(100); /* nothing depends on it */
    }
}

static struct weft_schedule_stats run_periodically(const struct weft_schedule_opts *opts,
                                                   int64_t body_ns)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    weft_schedule *schedule;
    struct weft_schedule_stats stats;
    runs.body_ns = body_ns;
    atomic_store_explicit(&runs.n, 0, memory_order_relaxed);
    CHECK_EQ(weft_group_schedule(group, &schedule, notes_its_time, NULL, opts), 0);
    wait_for_runs();
    int err = weft_schedule_cancel(schedule);
    CHECK(err == 0 || err == -EINPROGRESS);
    CHECK_EQ(weft_future_get(weft_schedule_over(schedule), NULL, WEFT_FOREVER), -ECANCELED);
    weft_schedule_stats(schedule, &stats);
    weft_schedule_unref(schedule);
    stop_dispatcher(d);
    return stats;
}

TEST(a_fixed_delay_is_measured_from_the_end)
{
    struct weft_schedule_opts opts = {.kind = WEFT_FIXED_DELAY, .period_ns = 3 * MS};
    struct weft_schedule_stats stats = run_periodically(&opts, 2 * MS);
    CHECK(stats.runs >= RUNS);
    CHECK_EQ(stats.overruns, 0);
    for (int i = 1; i < RUNS; i++) {
        CHECK(runs.began[i] - runs.ended[i - 1] >= 3 * MS);
    }
}

/* The k-th is not before first + k * period, whenever those before it ran; and one that is late
 * does not delay the next. */
TEST(a_fixed_rate_is_measured_from_the_first)
{
    int64_t first = weft_after(2 * MS);
    struct weft_schedule_opts opts = {.kind = WEFT_FIXED_RATE, .period_ns = 2 * MS, .at = first};
    struct weft_schedule_stats stats = run_periodically(&opts, MS / 2);
    CHECK(stats.runs >= RUNS);
    for (int i = 0; i < RUNS; i++) {
        CHECK(runs.began[i] >= first + i * opts.period_ns);
    }
}

/* The body takes four periods: each run but the first is late, begins at once, and none is left
 * out. A delay in between would be seen as a sleep of the fiber, and an overrun fewer. */
TEST(overruns_of_a_fixed_rate_run_at_once)
{
    struct weft_schedule_opts opts = {.kind = WEFT_FIXED_RATE, .period_ns = MS / 2};
    struct weft_schedule_stats stats = run_periodically(&opts, 2 * MS);
    CHECK(stats.runs >= RUNS);
    CHECK(stats.overruns >= RUNS - 1);
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

TEST(one_that_fails_goes_on_and_is_counted)
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
    CHECK_EQ(weft_future_result(weft_schedule_over(schedule), NULL), -ECANCELED);
    CHECK_EQ(weft_schedule_cancel(schedule), -EALREADY);
    weft_schedule_unref(schedule);
    stop_dispatcher(d);
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

/* While it runs: it is the last time of a periodic one, and the value of one that runs once
 * stands. */
TEST(a_cancel_while_it_runs_says_so)
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
        CHECK_EQ(weft_future_get(weft_schedule_over(schedule), NULL, WEFT_FOREVER),
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

/* A definite answer: after 0 it never runs; the counts agree. */
TEST(a_cancel_that_races_with_its_time_is_right)
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

TEST(bad_options_are_refused)
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
