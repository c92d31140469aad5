/* Clients of blocking/job.c: a caller that abandons its job against the thread that takes, runs and
 * ends the job. Thread 1, a plain thread, is the pool's thread. */
#include <errno.h>

#define FIBERS 1
#include "blocking/job.h"
#include "model/fibers.h"
#include "wait/wake_source.h"

/* Each job is a wake source while it is queued. */
enum { REFS, UNREFS };

void weft__wake_source_ref(void)
{
    x_count(REFS);
}

void weft__wake_source_unref(void)
{
    x_count(UNREFS);
}

static struct weft__jobs jobs;
static struct weft__job *job;
static int *data; /* the data that the job works on: freed when the job is released */
static int runs, releases;
static _Atomic(uint32_t) queued; /* the job was published: from now on a thread may find it */

static void run(struct weft_blocking_job *which)
{
    (void)which;
    *data += 1;
    runs++;
}

static void release(struct weft_blocking_job *which)
{
    x_free(data);
    releases++;
    x_free(which);
}

static void setup(void)
{
    fibers_setup();
    memset(&jobs, 0, sizeof jobs);
    job = x_alloc(sizeof *job, false);
    data = x_alloc(sizeof *data, false);
    weft__job_init(job, run, release);
    runs = releases = 0;
    atomic_init(&queued, 0);
    x_name(&jobs, sizeof jobs, "jobs");
    x_name(job, sizeof *job, "job");
    x_name(data, sizeof *data, "data");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!jobs.first && jobs.queued == 0);
    X_ASSERT(releases == 1);
    X_ASSERT(runs <= 1);
    X_ASSERT(x_counted(REFS) == 1 && x_counted(UNREFS) == 1);
}

/* As blocking.c does it. Returns the reason; sets *left if the job was not done. */
static enum weft__reason wait_for(struct weft__job *which, int64_t deadline,
                                  enum weft__job_outcome *left)
{
    struct weft__waiter waiter;
    struct weft__node node;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    weft__source_lock(&jobs.source);
    weft__jobs_push_locked(&jobs, which, &node);
    weft__source_unlock(&jobs.source);
    atomic_store_explicit(&queued, 1, memory_order_relaxed);
    weft__futex_wake(&queued, 1);
    enum weft__reason reason = weft__jobs_park(&jobs, &waiter, deadline);
    *left = weft__reason_is_done(reason) ? node.status ? WEFT__JOB_NEVER_RAN : WEFT__JOB_RAN
                                         : weft__jobs_leave(&jobs, which);
    return reason;
}

static void await_queued(void)
{
    while (atomic_load_explicit(&queued, memory_order_relaxed) == 0) {
        weft__futex_wait(&queued, 0, INT64_MAX);
    }
}

/* The thread: runs the job, unless its caller has left. */
static void work(void)
{
    await_queued();
    weft__source_lock(&jobs.source);
    struct weft__job *mine = weft__jobs_take_locked(&jobs);
    weft__source_unlock(&jobs.source);
    if (mine) {
        mine->run((struct weft_blocking_job *)(void *)mine);
        weft__jobs_finish(&jobs, mine);
    }
}

static void caller_releases(void)
{
    if (weft__job_unref(job)) {
        job->release((struct weft_blocking_job *)(void *)job);
    }
}

static void detachable(int64_t deadline)
{
    enum weft__job_outcome left;
    wait_for(job, deadline, &left);
    if (left == WEFT__JOB_RAN) {
        X_ASSERT(*data == 1);
    } else if (left == WEFT__JOB_NEVER_RAN) {
        X_ASSERT(*data == 0);
    }
    caller_releases();
}

static void run_and_wait(int i)
{
    if (i == 0) {
        detachable(WEFT_FOREVER);
    } else {
        work();
    }
}

/* The deadline passes at any moment; the thread may find the job or not. */
static void leave_against_end(int i)
{
    if (i == 0) {
        detachable(LATER);
    } else if (i == 1) {
        work();
    } else {
        fibers_expire(0);
    }
}

static void leave_against_cancel_and_end(int i)
{
    if (i == 0) {
        detachable(WEFT_FOREVER);
    } else if (i == 1) {
        work();
    } else {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

/* The deadline has passed before the park: the caller leaves at once, against the thread. */
static void leave_at_once(int i)
{
    if (i == 0) {
        detachable(0);
    } else {
        work();
    }
}

/* A job on the caller's stack: here, memory that is freed as soon as the caller returns. */
static void on_stack(int i)
{
    if (i == 0) {
        enum weft__job_outcome left;
        struct weft__job *mine = x_alloc(sizeof *mine, false);
        weft__job_init(mine, run, NULL);
        wait_for(mine, 0, &left);
        if (left == WEFT__JOB_RUNS) {
            weft__jobs_await(&jobs, mine);
        }
        X_ASSERT(*data == (left != WEFT__JOB_NEVER_RAN));
        x_free(mine);
        caller_releases();
    } else {
        work();
    }
}

/* A stop abandons the queued jobs, against the caller's deadline. */
static void drop_against_leave(int i)
{
    if (i == 0) {
        enum weft__job_outcome left;
        wait_for(job, LATER, &left);
        X_ASSERT(left == WEFT__JOB_NEVER_RAN);
        caller_releases();
    } else if (i == 1) {
        struct weft__chain ready;
        weft__chain_init(&ready);
        await_queued();
        weft__source_lock(&jobs.source);
        weft__jobs_drop_all_locked(&jobs, -ESHUTDOWN, &ready);
        weft__source_unlock(&jobs.source);
        weft__place_all(&ready, WEFT__FRONT);
    } else {
        fibers_expire(0);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("run_and_wait", 2, setup, run_and_wait, rest),
    X_CLIENT("leave_at_once", 2, setup, leave_at_once, rest),
    X_CLIENT("on_stack", 2, setup, on_stack, rest, .preemptions = 3, .stale = 2),
    X_CLIENT("leave_against_end", 3, setup, leave_against_end, rest, .preemptions = 2, .stale = 1),
    X_CLIENT("leave_against_cancel_and_end", 3, setup, leave_against_cancel_and_end, rest,
             .preemptions = 2, .stale = 1),
    X_CLIENT("drop_against_leave", 3, setup, drop_against_leave, rest, .preemptions = 2,
             .stale = 1),
};

X_MAIN(clients)
