/* labels: valgrind */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/alloc.h"
#include "check.h"
#include "command/hill_climb.h"

#define MS ((int64_t)1000000)

static weft_pool *pool;
static weft_event go;
static atomic_int inside, most_inside, ran;

static weft_buf *number(int n)
{
    return weft_buf_copy(&n, sizeof n);
}

static int read_number(const weft_buf *buf)
{
    int n;
    memcpy(&n, buf->data, sizeof n);
    return n;
}

static void enter(void)
{
    int now = atomic_fetch_add(&inside, 1) + 1, peak_workers = atomic_load(&most_inside);
    while (now > peak_workers && !atomic_compare_exchange_weak(&most_inside, &peak_workers, now)) {
    }
}

/* Returns the square of its input; waits for `go` if its argument asks for it. */
static int square(const weft_buf *input, weft_buf **output, void *arg)
{
    int n = read_number(input);
    enter();
    if (arg) {
        weft_event_wait(&go, WEFT_FOREVER);
    }
    atomic_fetch_sub(&inside, 1);
    atomic_fetch_add(&ran, 1);
    if (n < 0) {
        *output = number(0); /* the output of a failing call is dropped */
        return -EDOM;
    }
    *output = number(n * n);
    return 0;
}

static void begin(void)
{
    atomic_store(&inside, 0);
    atomic_store(&most_inside, 0);
    atomic_store(&ran, 0);
    weft_event_init(&go, NULL);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
}

static void end(weft_funcpool *functions)
{
    CHECK_EQ(weft_funcpool_stop(functions, WEFT_FOREVER), 0);
    CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), WEFT_FOREVER), -ESHUTDOWN);
    weft_funcpool_destroy(functions);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    weft_event_deinit(&go);
}

static struct weft_funcpool_stats stats_of(weft_funcpool *functions)
{
    struct weft_funcpool_stats stats;
    weft_funcpool_stats(functions, &stats);
    return stats;
}

TEST(funcpool_of_every_kind_returns_results)
{
    for (unsigned kind = WEFT_FUNCPOOL_INLINE; kind <= WEFT_FUNCPOOL_ADAPTIVE; kind++) {
        weft_funcpool *functions;
        weft_buf *output = NULL;
        begin();
        CHECK_EQ(weft_funcpool_create(&functions, square, NULL,
                                      &(struct weft_funcpool_opts){
                                          .kind = (enum weft_funcpool_kind)kind, .pool = pool}),
                 0);
        for (int i = 0; i < 100; i++) {
            CHECK_EQ(weft_funcpool_call(functions, &output, number(i), WEFT_FOREVER), 0);
            CHECK_EQ(read_number(output), i * i);
            weft_buf_free(output);
        }
        output = NULL;
        CHECK_EQ(weft_funcpool_call(functions, &output, number(-1), WEFT_FOREVER), -EDOM);
        CHECK(!output);
        CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), WEFT_FOREVER), 0);
        CHECK_EQ(stats_of(functions).done, 102);
        end(functions);
    }
}

TEST(funcpool_bad_options_are_einval)
{
    weft_funcpool *functions;
    CHECK_EQ(weft_funcpool_create(&functions, square, NULL,
                                  &(struct weft_funcpool_opts){.kind = WEFT_FUNCPOOL_STATIC}),
             -EINVAL);
    CHECK_EQ(weft_funcpool_create(&functions, NULL, NULL, &(struct weft_funcpool_opts){0}),
             -EINVAL);
    CHECK_EQ(
        weft_funcpool_create(&functions, square, NULL, &(struct weft_funcpool_opts){.idle_ns = -1}),
        -EINVAL);
}

/* No machine has memory for this many calls, and none of them exists yet. */
TEST(funcpool_maximal_admission_limit_allocates_nothing)
{
    for (unsigned kind = WEFT_FUNCPOOL_INLINE; kind <= WEFT_FUNCPOOL_ADAPTIVE; kind++) {
        weft_funcpool *functions;
        weft_buf *output = NULL;
        begin();
        CHECK_EQ(
            weft_funcpool_create(&functions, square, NULL,
                                 &(struct weft_funcpool_opts){.kind = (enum weft_funcpool_kind)kind,
                                                              .pool = pool,
                                                              .max_calls = UINT_MAX}),
            0);
        CHECK_EQ(weft_funcpool_call(functions, &output, number(7), WEFT_FOREVER), 0);
        CHECK_EQ(read_number(output), 49);
        weft_buf_free(output);
        end(functions);
    }
}

/* --- callers ---------------------------------------------------------------------------------- */

struct caller {
    weft_funcpool *functions;
    int64_t deadline;
    int answer;
    pthread_t thread;
};

static void *call(void *arg)
{
    struct caller *c = arg;
    c->answer = weft_funcpool_call(c->functions, NULL, number(3), c->deadline);
    return NULL;
}

static void start_callers(struct caller *callers, int n, weft_funcpool *functions)
{
    for (int i = 0; i < n; i++) {
        callers[i] = (struct caller){.functions = functions, .deadline = WEFT_FOREVER, .answer = 1};
        CHECK_EQ(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
}

static void join_callers(struct caller *callers, int n, int expected)
{
    for (int i = 0; i < n; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_EQ(callers[i].answer, expected);
    }
}

static void await_inside(int n)
{
    while (atomic_load(&inside) < n) {
        weft_sleep(weft_after(50000));
    }
}

static void await_waiting(weft_funcpool *functions, unsigned n)
{
    while (stats_of(functions).waiting < n) {
        weft_sleep(weft_after(50000));
    }
}

TEST(static_funcpool_runs_worker_count_calls_rest_queue)
{
    weft_funcpool *functions;
    struct caller callers[10];
    begin();
    CHECK_EQ(weft_funcpool_create(&functions, square, &go,
                                  &(struct weft_funcpool_opts){
                                      .kind = WEFT_FUNCPOOL_STATIC, .pool = pool, .workers = 3}),
             0);
    CHECK_EQ(stats_of(functions).workers, 3);
    start_callers(callers, 10, functions);
    await_inside(3);
    await_waiting(functions, 7);
    CHECK_EQ(atomic_load(&inside), 3);
    weft_event_set(&go);
    join_callers(callers, 10, 0);
    CHECK_EQ(atomic_load(&most_inside), 3);
    end(functions);
}

TEST(funcpool_at_admission_limit_refuses_or_waits)
{
    for (int fail_when_full = 0; fail_when_full < 2; fail_when_full++) {
        weft_funcpool *functions;
        struct caller callers[3];
        begin();
        CHECK_EQ(
            weft_funcpool_create(&functions, square, &go,
                                 &(struct weft_funcpool_opts){.kind = WEFT_FUNCPOOL_STATIC,
                                                              .pool = pool,
                                                              .workers = 1,
                                                              .max_calls = 3,
                                                              .fail_when_full = fail_when_full}),
            0);
        start_callers(callers, 3, functions);
        await_inside(1);
        await_waiting(functions, 2);
        int err = weft_funcpool_call(functions, NULL, number(1), weft_after(2 * MS));
        CHECK_EQ(err, fail_when_full ? -EAGAIN : -ETIMEDOUT);
        CHECK_EQ(stats_of(functions).refused, fail_when_full);
        CHECK_EQ(stats_of(functions).waiting, 2);
        weft_event_set(&go);
        join_callers(callers, 3, 0);
        CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), WEFT_FOREVER), 0);
        end(functions);
    }
}

TEST(funcpool_admission_limit_applies_to_inline_calls)
{
    weft_funcpool *functions;
    struct caller callers[2];
    begin();
    CHECK_EQ(
        weft_funcpool_create(&functions, square, &go,
                             &(struct weft_funcpool_opts){.max_calls = 2, .fail_when_full = true}),
        0);
    start_callers(callers, 2, functions);
    await_inside(2);
    CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), WEFT_FOREVER), -EAGAIN);
    weft_event_set(&go);
    join_callers(callers, 2, 0);
    end(functions);
}

TEST(funcpool_call_abandoned_before_start_never_runs)
{
    weft_funcpool *functions;
    struct caller callers[1];
    begin();
    CHECK_EQ(weft_funcpool_create(&functions, square, &go,
                                  &(struct weft_funcpool_opts){
                                      .kind = WEFT_FUNCPOOL_STATIC, .pool = pool, .workers = 1}),
             0);
    start_callers(callers, 1, functions);
    await_inside(1);
    CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), weft_after(2 * MS)), -ETIMEDOUT);
    CHECK_EQ(stats_of(functions).abandoned, 1);
    weft_event_set(&go);
    join_callers(callers, 1, 0);
    CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ran), 2);
    /* A call that has started runs to its end. */
    weft_event_reset(&go);
    do { /* calls that their callers abandoned early never start */
        CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), weft_after(2 * MS)), -ETIMEDOUT);
    } while (atomic_load(&inside) < 1);
    weft_event_set(&go);
    end(functions);
    CHECK_EQ(atomic_load(&ran), 3);
}

TEST(lazy_funcpool_grows_with_calls_and_shrinks_when_idle)
{
    weft_funcpool *functions;
    struct caller callers[6];
    begin();
    CHECK_EQ(weft_funcpool_create(
                 &functions, square, &go,
                 &(struct weft_funcpool_opts){
                     .kind = WEFT_FUNCPOOL_LAZY, .pool = pool, .workers = 4, .idle_ns = 2 * MS}),
             0);
    CHECK_EQ(stats_of(functions).workers, 0);
    start_callers(callers, 6, functions);
    await_inside(4);
    await_waiting(functions, 2);
    CHECK_EQ(stats_of(functions).workers, 4);
    weft_event_set(&go);
    join_callers(callers, 6, 0);
    while (stats_of(functions).workers > 0) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(stats_of(functions).peak_workers, 4);
    CHECK_EQ(weft_funcpool_call(functions, NULL, number(1), WEFT_FOREVER), 0);
    CHECK_EQ(stats_of(functions).peak_workers, 4);
    end(functions);
}

static weft_funcpool *nested;
static atomic_bool hogs, first_is_over, in_order;
static weft_fiber hog_fiber;

/* 0 waits; 1 calls 2. */
static int nest(const weft_buf *input, weft_buf **output, void *arg)
{
    int n = read_number(input);
    (void)output, (void)arg;
    enter();
    if (n == 0) {
        weft_event_wait(&go, WEFT_FOREVER);
        atomic_store(&first_is_over, true);
    }
    if (n == 1) {
        atomic_store(&in_order, atomic_load(&first_is_over));
    }
    return n == 1 ? weft_funcpool_call(nested, NULL, number(2), WEFT_FOREVER) : 0;
}

static void *call_number(void *arg)
{
    CHECK_EQ(weft_funcpool_call(nested, NULL, number(*(int *)arg), WEFT_FOREVER), 0);
    return NULL;
}

static void *hog(void *arg)
{
    (void)arg;
    atomic_store(&hogs, true);
    while (atomic_load(&hogs)) {
        sched_yield();
    }
    weft_event_set(&go); /* the waiter usually runs next on this worker */
    return NULL;
}

/* Returns false if the second worker has started before the first was done, as a worker whose tick
 * is due may choose: then a third is needed. */
static bool call_while_worker_starts(void)
{
    weft_pool *one;
    pthread_t threads[2];
    int numbers[] = {0, 1};
    begin();
    atomic_store(&first_is_over, false);
    CHECK_EQ(weft_pool_create(&one, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(one), 0);
    CHECK_EQ(weft_funcpool_create(&nested, nest, NULL,
                                  &(struct weft_funcpool_opts){
                                      .kind = WEFT_FUNCPOOL_LAZY, .pool = one, .workers = 4}),
             0);
    CHECK_EQ(pthread_create(&threads[0], NULL, call_number, &numbers[0]), 0);
    await_inside(1);
    CHECK_EQ(weft_pool_spawn(one, &hog_fiber, hog, NULL, NULL), 0);
    while (!atomic_load(&hogs)) {
        weft_sleep(weft_after(50000));
    }
    CHECK_EQ(pthread_create(&threads[1], NULL, call_number, &numbers[1]), 0);
    await_waiting(nested, 1);
    CHECK_EQ(stats_of(nested).workers, 2); /* the second for this call, which the first will run */
    atomic_store(&hogs, false);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_EQ(stats_of(nested).peak_workers, atomic_load(&in_order) ? 2 : 3);
    CHECK_EQ(weft_join(hog_fiber, NULL, WEFT_FOREVER), 0);
    end(nested);
    CHECK_EQ(weft_pool_stop(one, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(one);
    return atomic_load(&in_order);
}

TEST(funcpool_counts_workers_not_yet_started)
{
    int tries = 1;
    while (!call_while_worker_starts()) {
        CHECK(++tries <= 100);
    }
}

TEST(funcpool_stop_refuses_waiting_and_finishes_admitted_calls)
{
    weft_funcpool *functions;
    struct caller in[2], at_gate[2];
    begin();
    CHECK_EQ(weft_funcpool_create(
                 &functions, square, &go,
                 &(struct weft_funcpool_opts){
                     .kind = WEFT_FUNCPOOL_STATIC, .pool = pool, .workers = 1, .max_calls = 2}),
             0);
    start_callers(in, 2, functions);
    await_inside(1);
    await_waiting(functions, 1);
    start_callers(at_gate, 2, functions);
    CHECK_EQ(weft_funcpool_stop(functions, weft_after(2 * MS)), -ETIMEDOUT);
    join_callers(at_gate, 2, -ESHUTDOWN);
    weft_event_set(&go);
    join_callers(in, 2, 0);
    end(functions);
}

/* --- adaptive size ---------------------------------------------------------------------------- */

TEST(hill_climb_finds_useful_worker_count)
{
    static const unsigned knees[] = {1, 3, 8, 40};
    for (size_t k = 0; k < sizeof knees / sizeof *knees; k++) {
        struct weft__hill_climb probe = {0};
        unsigned knee = knees[k], now = 1;
        uint64_t done = 0;
        for (int i = 0; i < 400; i++) {
            done += 1000ull * (now < knee ? now : knee);
            now = weft__hill_climb_next(&probe, done, true, now, 100);
            CHECK(now >= 1 && now <= 100);
            if (i > 100) { /* the size stays near this */
                CHECK(now + 1 + knee / 8 >= knee);
                CHECK(now <= knee + knee / 2 + 2); /* two quarters, if the first one helped */
            }
        }
        for (int i = 0; i < 100; i++) { /* nothing is queued: the pool shrinks to one worker */
            now = weft__hill_climb_next(&probe, done, false, now, 100);
        }
        CHECK_EQ(now, 1);
    }
    struct weft__hill_climb probe = {0};
    CHECK_EQ(weft__hill_climb_next(&probe, 10, true, 1, 1), 1);
    CHECK_EQ(weft__hill_climb_next(&probe, 100, true, 1, 1), 1);
}

/* Sleeps briefly, like a disk access: more workers give more throughput. */
static int nap(const weft_buf *input, weft_buf **output, void *arg)
{
    (void)input, (void)output, (void)arg;
    enter();
    weft_sleep(weft_after(MS / 2));
    atomic_fetch_sub(&inside, 1);
    return 0;
}

static atomic_bool enough;

static void *call_and_call(void *arg)
{
    while (!atomic_load(&enough)) {
        CHECK_EQ(weft_funcpool_call(arg, NULL, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(adaptive_funcpool_grows_while_useful_and_shrinks_when_idle)
{
    weft_funcpool *functions;
    begin();
    CHECK_EQ(weft_funcpool_create(&functions, nap, NULL,
                                  &(struct weft_funcpool_opts){.kind = WEFT_FUNCPOOL_ADAPTIVE,
                                                               .pool = pool,
                                                               .workers = 12,
                                                               .probe_ns = 4 * MS}),
             0);
    CHECK_EQ(stats_of(functions).target, 1);
    atomic_store(&enough, false);
    for (int i = 0; i < 32; i++) {
        CHECK_EQ(weft_pool_submit(pool, call_and_call, functions), 0);
    }
    while (stats_of(functions).workers < 4) { /* one worker alone is not enough */
        weft_sleep(weft_after(MS));
    }
    atomic_store(&enough, true);
    while (stats_of(functions).workers > 1) {
        weft_sleep(weft_after(MS));
    }
    CHECK(stats_of(functions).peak_workers <= 12);
    CHECK(atomic_load(&most_inside) <= (int)stats_of(functions).peak_workers);
    end(functions);
}

/* --- actors ----------------------------------------------------------------------------------- */

static weft_funcpool *shared;

static int ask(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *seen = weft_actor_state(self);
    if (!n) {
        for (int i = 0; i < 10; i++) {
            CHECK_EQ(
                weft_out_function(out, (uint64_t)i, shared, number(i == 5 ? -1 : i), WEFT_FOREVER),
                0);
        }
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].error, events[i].tag == 5 ? -EDOM : 0);
        if (!events[i].error) {
            CHECK_EQ(read_number(events[i].buf), (int)(events[i].tag * events[i].tag));
        }
        ++*seen;
    }
    if (*seen == 10) {
        weft_out_done(out, NULL);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

static const struct weft_actor_kind asker = {
    .name = "asker", .state_bytes = sizeof(int), .step = ask};

TEST(actors_call_funcpool_by_commands)
{
    weft_host *host;
    weft_pid pids[5];
    begin();
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2, .max_actors = 5}), 0);
    CHECK_EQ(weft_funcpool_create(&shared, square, NULL,
                                  &(struct weft_funcpool_opts){
                                      .kind = WEFT_FUNCPOOL_LAZY, .pool = pool, .workers = 2}),
             0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pids[i], &asker, NULL, NULL), 0);
    }
    for (int i = 0; i < 5; i++) {
        int err = weft_actor_join(pids[i], NULL, WEFT_FOREVER);
        CHECK(err == 0 || err == -ESRCH);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
    CHECK(atomic_load(&most_inside) <= 2);
    end(shared);
}

TEST(actor_exit_abandons_its_funcpool_calls)
{
    weft_host *host;
    weft_pid pid;
    begin();
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_funcpool_create(&shared, square, &go,
                                  &(struct weft_funcpool_opts){
                                      .kind = WEFT_FUNCPOOL_STATIC, .pool = pool, .workers = 1}),
             0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &asker, NULL, NULL), 0);
    await_inside(1);
    await_waiting(shared, 9);
    CHECK_EQ(weft_actor_kill(pid), 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0); /* and the fibers that waited for it */
    weft_host_destroy(host);
    CHECK_EQ(stats_of(shared).abandoned, 10);
    weft_event_set(&go);
    end(shared);
    CHECK_EQ(atomic_load(&ran), 1);
}

TEST(funcpool_call_without_memory_returns_enomem)
{
    weft_funcpool *functions;
    begin();
    CHECK_EQ(weft_funcpool_create(&functions, square, NULL,
                                  &(struct weft_funcpool_opts){
                                      .kind = WEFT_FUNCPOOL_STATIC, .pool = pool, .workers = 1}),
             0);
    weft_buf *input = number(1);
    weft__alloc_fail_after(1, true);
    int err = weft_funcpool_call(functions, NULL, input, WEFT_FOREVER);
    weft__alloc_fail_after(0, false);
    CHECK_EQ(err, -ENOMEM);
    end(functions);
}

static void *create_in_want(void *arg)
{
    weft_funcpool *functions;
    (void)arg;
    CHECK_EQ(weft_cancel(weft_self()), 0);
    weft__alloc_fail_after(20, true);
    int err = weft_funcpool_create(
        &functions, square, NULL,
        &(struct weft_funcpool_opts){
            .kind = WEFT_FUNCPOOL_STATIC, .pool = pool, .workers = 60000, .max_calls = 10});
    weft__alloc_fail_after(0, false);
    CHECK_EQ(err, -ENOMEM);
    return NULL;
}

TEST(failed_funcpool_create_in_cancelled_fiber_joins_workers)
{
    weft_fiber fiber;
    begin();
    CHECK_EQ(weft_pool_spawn(pool, &fiber, create_in_want, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    weft_event_deinit(&go);
}
