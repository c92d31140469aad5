#include <weft/blocking.h>

#include <signal.h>

#include "base/thread.h"
#include "blocking/job.h"
#include "pool/fixture.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_blocking_pool *open_pool(struct weft_blocking_opts opts)
{
    weft_blocking_pool *pool = NULL;
    CHECK_EQ(weft_blocking_create(&pool, &opts), 0);
    return pool;
}

static void close_pool(weft_blocking_pool *pool)
{
    CHECK_EQ(weft_blocking_stop(pool, WEFT_FOREVER), 0);
    weft_blocking_destroy(pool);
}

static struct weft_blocking_stats stats_of(weft_blocking_pool *pool)
{
    struct weft_blocking_stats stats;
    weft_blocking_stats(pool, &stats);
    return stats;
}

/* A function that blocks until it is released. */
struct gate {
    atomic_int entered, open, left;
};

static void *through(void *arg)
{
    struct gate *gate = arg;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open)) {
        usleep(100);
    }
    atomic_fetch_add(&gate->left, 1);
    return (char *)arg + 1;
}

static void *twice(void *arg)
{
    CHECK_EQ(weft_self(), WEFT_NO_FIBER);
    return (void *)((intptr_t)arg * 2);
}

/* --- calls ----------------------------------------------------------------------------- */

static weft_blocking_pool *the_pool;

static void *call_twice(void *arg)
{
    void *result = NULL;
    CHECK_EQ(weft_blocking_call(the_pool, &result, twice, arg, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 2 * (intptr_t)arg);
    return NULL;
}

TEST(blocking_call_runs_on_pool_thread_and_returns_result)
{
    the_pool = open_pool((struct weft_blocking_opts){.name = "io", .max_threads = 2});
    run_in_fiber(1, call_twice, (void *)21);
    call_twice((void *)4); /* a plain thread */
    CHECK_EQ(stats_of(the_pool).done, 2);
    close_pool(the_pool);
    the_pool = NULL;
    call_twice((void *)7); /* the pool of the process */
    CHECK(weft_blocking_default() == weft_blocking_default());
}

static void *count_ticks(void *arg)
{
    struct gate *gate = arg;
    while (!atomic_load(&gate->entered)) {
        weft_yield();
    }
    atomic_store(&gate->open, 1); /* the worker was free to run this fiber meanwhile */
    return NULL;
}

static void *call_and_let_others_run(void *arg)
{
    struct gate gate = {0};
    weft_fiber other;
    void *result;
    CHECK_EQ(weft_spawn(&other, count_ticks, &gate, NULL), 0);
    CHECK_EQ(weft_blocking_call(arg, &result, through, &gate, WEFT_FOREVER), 0);
    CHECK(result == (char *)&gate + 1);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(worker_of_fiber_in_blocking_call_runs_other_fibers)
{
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    run_in_fiber(1, call_and_let_others_run, pool);
    close_pool(pool);
}

/* --- growth, retirement, policies ---------------------------------------------------------- */

struct caller {
    weft_blocking_pool *pool;
    struct gate *gate;
};

static void *call_gate(void *arg)
{
    struct caller *caller = arg;
    return (void *)(intptr_t)weft_blocking_call(caller->pool, NULL, through, caller->gate,
                                                WEFT_FOREVER);
}

static void await_entered(struct gate *gate, int n)
{
    while (atomic_load(&gate->entered) < n) {
        weft_yield();
    }
}

TEST(blocking_threads_start_on_demand_up_to_max_and_end_when_idle)
{
    struct gate gate = {0};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){
        .name = "grow", .min_threads = 1, .max_threads = 3, .idle_ns = 1 * MS});
    struct caller caller = {pool, &gate};
    CHECK_EQ(stats_of(pool).threads, 1);
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) {
        threads[i] = thread_open(call_gate, &caller);
    }
    await_entered(&gate, 3);
    while (stats_of(pool).queued < 2) {
        weft_yield();
    }
    struct weft_blocking_stats stats = stats_of(pool);
    CHECK_EQ(stats.threads, 3);
    CHECK_EQ(stats.peak, 3);
    CHECK_EQ(stats.idle, 0);
    CHECK_EQ(stats.queued, 2);
    atomic_store(&gate.open, 1);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ((intptr_t)thread_close(threads[i]), 0);
    }
    CHECK_EQ(atomic_load(&gate.left), 5);
    while (stats_of(pool).threads > 1) {
        usleep(1000);
    }
    stats = stats_of(pool);
    CHECK_EQ(stats.retired, 2);
    CHECK_EQ(stats.done, 5);
    usleep(5000); /* the last one stays, however long it is idle */
    CHECK_EQ(stats_of(pool).threads, 1);
    close_pool(pool);
}

TEST(blocking_pool_without_queue_rejects_when_threads_are_busy)
{
    struct gate gate = {0};
    weft_blocking_pool *pool =
        open_pool((struct weft_blocking_opts){.max_threads = 2, .policy = WEFT_BLOCKING_REFUSE});
    struct caller caller = {pool, &gate};
    pthread_t a = thread_open(call_gate, &caller), b = thread_open(call_gate, &caller);
    await_entered(&gate, 2);
    CHECK_EQ(weft_blocking_call(pool, NULL, twice, NULL, WEFT_FOREVER), -EAGAIN);
    CHECK_EQ(stats_of(pool).refused, 1);
    atomic_store(&gate.open, 1);
    thread_close(a);
    thread_close(b);
    while (stats_of(pool).idle < 2) {
        weft_yield();
    }
    CHECK_EQ(weft_blocking_call(pool, NULL, twice, NULL, WEFT_FOREVER), 0);
    close_pool(pool);
}

TEST(blocking_queue_is_bounded)
{
    struct gate gate = {0};
    weft_blocking_pool *pool =
        open_pool((struct weft_blocking_opts){.max_threads = 1, .queue_max = 1});
    struct caller caller = {pool, &gate};
    pthread_t a = thread_open(call_gate, &caller);
    await_entered(&gate, 1);
    pthread_t b = thread_open(call_gate, &caller);
    while (stats_of(pool).queued < 1) {
        weft_yield();
    }
    CHECK_EQ(weft_blocking_call(pool, NULL, twice, NULL, WEFT_FOREVER), -EAGAIN);
    atomic_store(&gate.open, 1);
    CHECK_EQ((intptr_t)thread_close(a), 0);
    CHECK_EQ((intptr_t)thread_close(b), 0);
    close_pool(pool);
}

/* --- callers that leave ---------------------------------------------------------------------- */

struct heap_job {
    struct weft_blocking_job job; /* first */
    struct gate *gate;
    int value;
};

static atomic_int released;

static void heap_run(struct weft_blocking_job *job)
{
    struct heap_job *self = (struct heap_job *)(void *)job;
    through(self->gate);
    self->value = 42; /* in some tests after the caller has left */
}

static void heap_release(struct weft_blocking_job *job)
{
    atomic_fetch_add(&released, 1);
    free(job);
}

static struct heap_job *heap_job(struct gate *gate)
{
    struct heap_job *job = calloc(1, sizeof *job);
    CHECK(job);
    weft_blocking_job_init(&job->job, heap_run, heap_release);
    job->gate = gate;
    atomic_store(&released, 0);
    return job;
}

static void *leave_running(void *arg)
{
    struct gate gate = {0};
    struct heap_job *job = heap_job(&gate);
    /* Not by time alone: on a loaded machine the function may not have begun. */
    for (;;) {
        CHECK_EQ(weft_blocking_run(arg, &job->job, weft_after(5 * MS)), -ETIMEDOUT);
        if (job->job.started) {
            break;
        }
        CHECK_EQ(atomic_load(&gate.entered), 0);
    }
    weft_blocking_release(&job->job);
    CHECK_EQ(atomic_load(&released), 0);
    CHECK_EQ(stats_of(arg).detached, 1);
    await_entered(&gate, 1);
    atomic_store(&gate.open, 1);
    while (!atomic_load(&released)) { /* by the thread; only then may the gate be freed */
        weft_yield();
    }
    return NULL;
}

TEST(caller_can_abandon_running_job_and_last_user_frees_memory)
{
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    run_in_fiber(1, leave_running, pool);
    CHECK_EQ(atomic_load(&released), 1);
    close_pool(pool);
    pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    leave_running(pool); /* a plain thread */
    CHECK_EQ(atomic_load(&released), 1);
    close_pool(pool);
}

TEST(completed_job_is_released_by_caller_and_can_run_again)
{
    struct gate gate = {.open = 1};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    struct heap_job *job = heap_job(&gate);
    CHECK_EQ(weft_blocking_run(pool, &job->job, WEFT_FOREVER), 0);
    CHECK(job->job.started);
    CHECK_EQ(job->value, 42);
    CHECK_EQ(weft_blocking_run(pool, &job->job, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&gate.left), 2);
    CHECK_EQ(atomic_load(&released), 0);
    weft_blocking_release(&job->job);
    CHECK_EQ(atomic_load(&released), 1);
    close_pool(pool);
}

TEST(job_abandoned_before_start_never_runs)
{
    struct gate gate = {0}, other = {.open = 1};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    struct caller caller = {pool, &gate};
    pthread_t busy = thread_open(call_gate, &caller);
    await_entered(&gate, 1);
    struct heap_job *job = heap_job(&other);
    CHECK_EQ(weft_blocking_run(pool, &job->job, weft_after(1 * MS)), -ETIMEDOUT);
    CHECK(!job->job.started);
    CHECK_EQ(weft_blocking_call(pool, NULL, through, &other, 0), -ETIMEDOUT);
    CHECK_EQ(stats_of(pool).withdrawn, 2);
    CHECK_EQ(stats_of(pool).queued, 0);
    weft_blocking_release(&job->job);
    CHECK_EQ(atomic_load(&released), 1);
    atomic_store(&gate.open, 1);
    thread_close(busy);
    close_pool(pool);
    CHECK_EQ(atomic_load(&other.entered), 0);
}

static void *call_and_say(void *arg)
{
    struct caller *caller = arg;
    int err = weft_blocking_call(caller->pool, NULL, through, caller->gate, WEFT_FOREVER);
    CHECK(err || atomic_load(&caller->gate->left) == 1);
    int next = weft_sleep(weft_after(0)); /* an interrupt that came too late ends the next wait */
    return (void *)(intptr_t)(err ? err : next);
}

static void *end_started_call(void *arg)
{
    bool cancel = *(bool *)arg;
    struct gate gate = {0};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    struct caller caller = {pool, &gate};
    weft_fiber fiber;
    void *result;
    CHECK_EQ(weft_spawn(&fiber, call_and_say, &caller, NULL), 0);
    await_entered(&gate, 1);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    for (int i = 0; i < 20; i++) {
        weft_yield();
    }
    enum weft_fiber_state state;
    CHECK_EQ(weft_fiber_state(fiber, &state), 0); /* the fiber has not left */
    atomic_store(&gate.open, 1);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, cancel ? -ECANCELED : -EINTR);
    close_pool(pool);
    return NULL;
}

TEST(started_blocking_call_is_left_only_when_function_returns)
{
    bool cancel = false;
    run_in_fiber(1, end_started_call, &cancel);
    cancel = true;
    run_in_fiber(2, end_started_call, &cancel);
}

static void *end_queued_call(void *arg)
{
    bool cancel = *(bool *)arg;
    struct gate gate = {0}, other = {.open = 1};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    struct caller busy = {pool, &gate}, caller = {pool, &other};
    weft_fiber first, fiber;
    void *result;
    CHECK_EQ(weft_spawn(&first, call_gate, &busy, NULL), 0);
    await_entered(&gate, 1);
    CHECK_EQ(weft_spawn(&fiber, call_gate, &caller, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, cancel ? -ECANCELED : -EINTR);
    atomic_store(&gate.open, 1);
    CHECK_EQ(weft_join(first, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 0);
    close_pool(pool);
    CHECK_EQ(atomic_load(&other.entered), 0);
    return NULL;
}

TEST(cancel_and_interrupt_end_queued_blocking_call)
{
    bool cancel = false;
    run_in_fiber(1, end_queued_call, &cancel);
    cancel = true;
    run_in_fiber(2, end_queued_call, &cancel);
}

/* The abort passes through every shield; the function uses the fiber's stack, so the fiber
 * stays. */
static void *open_later(void *arg)
{
    struct gate *gate = arg;
    await_entered(gate, 1);
    usleep(3000);
    atomic_store(&gate->open, 1);
    return NULL;
}

TEST(aborted_fiber_stays_until_blocking_function_returns)
{
    struct gate gate = {0};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    weft_pool *fibers = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct caller caller = {pool, &gate};
    weft_fiber fiber;
    void *result;
    CHECK_EQ(weft_pool_spawn(fibers, &fiber, call_gate, &caller, NULL), 0);
    await_entered(&gate, 1);
    pthread_t opener = thread_open(open_later, &gate);
    CHECK_EQ(weft_pool_stop(fibers, WEFT_STOP_ABORT, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(fiber, &result, 0), 0);
    CHECK_EQ((intptr_t)result, 0);
    CHECK_EQ(atomic_load(&gate.left), 1);
    thread_close(opener);
    weft_pool_destroy(fibers);
    close_pool(pool);
}

/* --- stackless tasks -------------------------------------------------------------------------- */

TEST(stackless_task_waits_for_blocking_job)
{
    struct gate gate = {.open = 1};
    struct weft__jobs jobs = {0};
    struct heap_job *job = heap_job(&gate);
    struct weft__job *inner = weft__job_of(&job->job);
    struct body body;
    body_arm(&body);
    weft__source_lock(&jobs.source);
    weft__jobs_push_locked(&jobs, inner, &body.node);
    CHECK(weft__jobs_take_locked(&jobs) == inner);
    weft__source_unlock(&jobs.source);
    CHECK(!body_told(&body));
    inner->run(&job->job);
    weft__jobs_finish(&jobs, inner);
    CHECK(body_told(&body));
    CHECK_EQ(job->value, 42);

    body_arm(&body);
    weft__source_lock(&jobs.source);
    weft__jobs_push_locked(&jobs, inner, &body.node);
    weft__source_unlock(&jobs.source);
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(weft__jobs_leave(&jobs, inner), WEFT__JOB_NEVER_RAN);
    CHECK(!jobs.first);
    weft_blocking_release(&job->job);
    CHECK_EQ(atomic_load(&released), 1);
}

/* --- stopping --------------------------------------------------------------------------------- */

TEST(blocking_stop_runs_queued_jobs_and_rejects_new_ones)
{
    struct gate gate = {0};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    struct caller caller = {pool, &gate};
    pthread_t a = thread_open(call_gate, &caller);
    await_entered(&gate, 1);
    pthread_t b = thread_open(call_gate, &caller);
    while (stats_of(pool).queued < 1) {
        weft_yield();
    }
    pthread_t opener = thread_open(open_later, &gate);
    CHECK_EQ(weft_blocking_stop(pool, WEFT_FOREVER), 0);
    CHECK_EQ(weft_blocking_call(pool, NULL, twice, NULL, WEFT_FOREVER), -ESHUTDOWN);
    thread_close(opener);
    CHECK_EQ((intptr_t)thread_close(a), 0);
    CHECK_EQ((intptr_t)thread_close(b), 0);
    CHECK_EQ(atomic_load(&gate.left), 2);
    weft_blocking_destroy(pool);
}

TEST(blocking_stop_at_deadline_leaves_running_and_drops_queued)
{
    struct gate gate = {0};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 1});
    struct caller caller = {pool, &gate};
    pthread_t a = thread_open(call_gate, &caller);
    await_entered(&gate, 1);
    pthread_t b = thread_open(call_gate, &caller);
    while (stats_of(pool).queued < 1) {
        weft_yield();
    }
    CHECK_EQ(weft_blocking_stop(pool, weft_after(1 * MS)), -EBUSY);
    CHECK_EQ((intptr_t)thread_close(b), -ESHUTDOWN);
    atomic_store(&gate.open, 1);
    CHECK_EQ((intptr_t)thread_close(a), 0);
    weft_blocking_destroy(pool);
    CHECK_EQ(atomic_load(&gate.entered), 1);
}

static void destroys_running(void *arg)
{
    weft_blocking_destroy(open_pool((struct weft_blocking_opts){.name = "busy"}));
    (void)arg;
}

TEST(destroy_of_blocking_pool_before_stop_aborts)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(destroys_running, NULL, err, sizeof err)));
    CHECK(strstr(err, "blocking pool busy is destroyed before it was stopped"));
    weft_blocking_destroy(NULL);
}

/* --- thread creation failures, options, names ------------------------------------------------- */

TEST(blocking_call_without_any_thread_fails_and_with_one_waits)
{
    struct gate gate = {0};
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.max_threads = 4});
    weft__thread_fail_next(1);
    CHECK_EQ(weft_blocking_call(pool, NULL, twice, NULL, WEFT_FOREVER), -EAGAIN);
    CHECK_EQ(stats_of(pool).threads, 0);
    CHECK_EQ(stats_of(pool).failed, 1);
    CHECK_EQ(stats_of(pool).refused, 1);
    struct caller caller = {pool, &gate};
    pthread_t a = thread_open(call_gate, &caller);
    await_entered(&gate, 1);
    weft__thread_fail_next(1000);
    pthread_t b = thread_open(call_gate, &caller);
    while (stats_of(pool).failed < 2) {
        weft_yield();
    }
    CHECK_EQ(stats_of(pool).queued, 1); /* it waits for the existing thread */
    atomic_store(&gate.open, 1);
    CHECK_EQ((intptr_t)thread_close(a), 0);
    CHECK_EQ((intptr_t)thread_close(b), 0);
    weft_blocking_pool *none;
    CHECK_EQ(weft_blocking_create(&none, &(struct weft_blocking_opts){.min_threads = 2}), -EAGAIN);
    weft__thread_fail_next(0);
    CHECK_EQ(stats_of(pool).peak, 1);
    close_pool(pool);
}

/* The threads race with the wait for them: several of them, several times. */
static void *create_fails_when_cancelled(void *arg)
{
    weft_blocking_pool *none;
    struct weft_fiber_ended_wait wait;
    CHECK_EQ(weft_cancel(weft_self()), 0);
    for (int i = 0; i < 10; i++) {
        weft__thread_fail_after(7, 1);
        CHECK_EQ(weft_blocking_create(&none, &(struct weft_blocking_opts){.min_threads = 8}),
                 -EAGAIN);
        CHECK_EQ(weft_fiber_ended_wait(&wait), -ENOENT); /* the cancel did not end the wait */
    }
    weft__thread_fail_next(0);
    return arg;
}

TEST(failed_blocking_create_in_cancelled_fiber_waits_for_its_threads)
{
    run_in_fiber(1, create_fails_when_cancelled, NULL);
}

TEST(blocking_pool_rejects_bad_options)
{
    weft_blocking_pool *pool;
    CHECK_EQ(weft_blocking_create(&pool,
                                  &(struct weft_blocking_opts){.min_threads = 3, .max_threads = 2}),
             -EINVAL);
    CHECK_EQ(weft_blocking_create(&pool, &(struct weft_blocking_opts){.stack_bytes = 100}),
             -EINVAL);
    CHECK_EQ(weft_blocking_create(&pool, &(struct weft_blocking_opts){.max_threads = 100000}),
             -EINVAL);
}

static void *see_thread(void *arg)
{
    sigset_t mask;
    pthread_getname_np(pthread_self(), arg, 16);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    CHECK(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGCHLD) &&
          !sigismember(&mask, SIGSEGV));
    return NULL;
}

TEST(blocking_pool_name_of_any_length_is_accepted)
{
    static const char text[] = "a name that is longer than what the kernel keeps";
    char name[16] = "", line[300];
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.name = text});
    CHECK_EQ(weft_blocking_call(pool, NULL, see_thread, name, WEFT_FOREVER), 0);
    CHECK_STR(name, "a name that i_0");
    FILE *out = fmemopen(line, sizeof line, "w");
    weft_blocking_dump(pool, out);
    fclose(out);
    CHECK(strstr(line, text));
    close_pool(pool);
}

TEST(blocking_threads_have_names_and_block_signals)
{
    char name[16] = "";
    weft_blocking_pool *pool = open_pool((struct weft_blocking_opts){.name = "disk"});
    CHECK_EQ(weft_blocking_call(pool, NULL, see_thread, name, WEFT_FOREVER), 0);
    CHECK_STR(name, "disk_0");
    char line[300];
    FILE *out = fmemopen(line, sizeof line, "w");
    weft_blocking_dump(pool, out);
    fclose(out);
    CHECK(strstr(line, "blocking pool disk: threads=1 "));
    CHECK(strstr(line, " done=1 refused=0"));
    close_pool(pool);
}
