/* The pool of blocking threads: idle threads, when a thread is started, when one ends. The life of
 * a job is described in job.h.
 *
 * A submit queues its job and ensures that a thread comes for it: an idle thread, the one that was
 * busy last, or a new one. Such a thread counts as *coming* until it has checked the queue; a
 * submit wakes or starts another only if more jobs are queued than threads are coming. A thread
 * that comes takes the oldest job, or finds that a thread which had just become free was faster.
 *
 * Threads are detached and each has a reference to the pool, so that a hanging function blocks
 * neither stop nor destroy.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "base/thread.h"
#include "blocking/job.h"
#include "task/fork.h"
#include "wait/wake_source.h"

#define MAX_THREADS 4096u
#define DEFAULT_THREADS 64u
#define DEFAULT_QUEUE 65536u
#define DEFAULT_IDLE_NS INT64_C(10000000000)
#define DEFAULT_STACK ((size_t)1 << 20)

/* One thread, on its own stack. */
struct thread {
    struct thread *below, *above; /* in the stack of idle threads, under the lock */
    _Atomic(uint32_t) woken;      /* set under the lock by the thread that removes it from that
                                   * stack */
};

struct weft_blocking_pool {
    struct weft__jobs jobs; /* first; its source's waiters are the callers of stop */
    /* immutable */
    char *name; /* an owned copy */
    struct weft_blocking_opts opts;
    uint32_t born; /* task/fork.h */
    /* under the lock */
    struct thread *idle; /* the one that was busy last */
    unsigned idle_count, coming;
    unsigned threads; /* reserved: running, or being started */
    unsigned running, peak;
    unsigned serial;
    bool stopping;
    uint64_t refused, withdrawn, detached, retired, failed;
    /* any thread */
    _Atomic(uint32_t) refs;
};

static void pool_unref(weft_blocking_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) == 1) { /* pairs: itself */
        weft__free(pool->name);
        weft__free(pool);
    }
}

/* --- threads ----------------------------------------------------------------------- */

static void idle_push_locked(weft_blocking_pool *pool, struct thread *self)
{
    atomic_store_explicit(&self->woken, 0, memory_order_relaxed);
    self->above = NULL;
    self->below = pool->idle;
    if (pool->idle) {
        pool->idle->above = self;
    }
    pool->idle = self;
    pool->idle_count++;
}

static void idle_remove_locked(weft_blocking_pool *pool, struct thread *thread)
{
    *(thread->above ? &thread->above->below : &pool->idle) = thread->below;
    if (thread->below) {
        thread->below->above = thread->above;
    }
    pool->idle_count--;
}

/* Sleeps until woken, or until the idle time has passed. True: the thread should end. */
static bool idle_wait_locked(weft_blocking_pool *pool, struct thread *self)
{
    idle_push_locked(pool, self);
    int64_t until = pool->opts.idle_ns < 0 ? WEFT_FOREVER : weft_after(pool->opts.idle_ns);
    for (;;) {
        int64_t deadline = pool->threads > pool->opts.min_threads ? until : WEFT_FOREVER;
        weft__source_unlock(&pool->jobs.source);
        int err = weft__futex_wait(&self->woken, 0, deadline);
        weft__source_lock(&pool->jobs.source);
        if (atomic_load_explicit(&self->woken, memory_order_relaxed)) {
            pool->coming--;
            return false;
        }
        if (err == -ETIMEDOUT && pool->threads > pool->opts.min_threads) {
            idle_remove_locked(pool, self);
            pool->retired++;
            return true;
        }
    }
}

static void work_locked(weft_blocking_pool *pool)
{
    struct thread self;
    pool->coming--; /* the thread was started because a job was queued, or as one of min_threads */
    for (;;) {
        struct weft__job *job = weft__jobs_take_locked(&pool->jobs);
        if (job) {
            weft__source_unlock(&pool->jobs.source);
            job->run((struct weft_blocking_job *)(void *)job);
            weft__jobs_finish(&pool->jobs, job);
            weft__source_lock(&pool->jobs.source);
        } else if (pool->stopping || idle_wait_locked(pool, &self)) {
            return;
        }
    }
}

static void run_jobs_locked(void *arg)
{
    work_locked(arg);
}

static void lost(void *arg)
{
    const weft_blocking_pool *pool = arg;
    weft__panic(
        __FILE__, __LINE__,
        "a function that the blocking pool %s runs has ended its thread by pthread_exit or a "
        "cancel that it had allowed: its waiters would wait forever; return from the "
        "function",
        pool->name);
}

static void *thread_main(void *arg)
{
    weft_blocking_pool *pool = arg;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&pool->jobs.source);
    unsigned serial = pool->serial++;
    pool->running++;
    pool->peak = pool->running > pool->peak ? pool->running : pool->peak;
    weft__source_unlock(&pool->jobs.source);
    weft__thread_set_name(pthread_self(), pool->name, serial);
    weft__wake_source_ignore_thread();
    weft__source_lock(&pool->jobs.source);
    weft__thread_guard(run_jobs_locked, pool, lost);
    pool->running--;
    pool->threads--;
    if (pool->threads == 0 && pool->stopping) {
        weft__source_fire_all(&pool->jobs.source.waiters, 0, &ready);
    }
    weft__source_unlock(&pool->jobs.source);
    weft__place_all(&ready, WEFT__FRONT);
    pool_unref(pool);
    weft__wake_source_unignore_thread();
    return NULL;
}

/* For a thread that was reserved under the lock (threads, coming). */
static int thread_start(weft_blocking_pool *pool)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    int err = pthread_attr_setstacksize(&attr, pool->opts.stack_bytes) ? -EINVAL : 0;
    err = err ? err : weft__thread_create(&thread, &attr, thread_main, pool);
    pthread_attr_destroy(&attr);
    if (err) {
        pool_unref(pool);
    }
    return err;
}

static void reserve_thread_locked(weft_blocking_pool *pool)
{
    pool->threads++;
    pool->coming++;
}

/* A thread could not be started. Queued jobs are left to the existing threads; if there are none,
 * the callers get -EAGAIN. */
static void start_failed(weft_blocking_pool *pool)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&pool->jobs.source);
    pool->threads--;
    pool->coming--;
    pool->failed++;
    if (pool->threads == 0) {
        pool->refused += pool->jobs.queued;
        weft__jobs_drop_all_locked(&pool->jobs, -EAGAIN, &ready);
        if (pool->stopping) {
            weft__source_fire_all(&pool->jobs.source.waiters, 0, &ready);
        }
    }
    weft__source_unlock(&pool->jobs.source);
    weft__place_all(&ready, WEFT__FRONT);
}

/* --- create, stop, destroy ------------------------------------------------------------------ */

static int check_opts(struct weft_blocking_opts *opts)
{
    opts->name = opts->name ? opts->name : "blocking";
    if (!opts->max_threads) {
        opts->max_threads =
            opts->min_threads > DEFAULT_THREADS ? opts->min_threads : DEFAULT_THREADS;
    }
    opts->idle_ns = opts->idle_ns ? opts->idle_ns : DEFAULT_IDLE_NS;
    opts->queue_max = opts->queue_max ? opts->queue_max : DEFAULT_QUEUE;
    opts->stack_bytes = opts->stack_bytes ? opts->stack_bytes : DEFAULT_STACK;
    if (opts->max_threads > MAX_THREADS) {
        return weft__refuse(-EINVAL, "max_threads: must be at most 4096");
    }
    if (opts->min_threads > opts->max_threads) {
        return weft__refuse(-EINVAL, "min_threads: must be at most max_threads");
    }
    if (opts->stack_bytes < (size_t)PTHREAD_STACK_MIN) {
        return weft__refuse(-EINVAL, "stack_bytes: must be at least PTHREAD_STACK_MIN");
    }
    if (opts->policy != WEFT_BLOCKING_WAIT && opts->policy != WEFT_BLOCKING_REFUSE) {
        return weft__refuse(-EINVAL, "policy: must be one of enum weft_blocking_policy");
    }
    return 0;
}

/* Stops a pool that has no jobs, also in a cancelled fiber. */
static void end_idle_threads(weft_blocking_pool *pool)
{
    const struct weft__worker *w = weft__worker_self();
    bool shielded = w && weft__current(w);
    if (shielded) {
        weft_fiber_shield_enter();
    }
    while (weft_blocking_stop(pool, WEFT_FOREVER) != 0) {
        weft_yield(); /* WEFT_STOP_ABORT ends even this wait: idle threads end soon */
    }
    if (shielded) {
        weft_fiber_shield_leave();
    }
}

int weft_blocking_create(weft_blocking_pool **out, const struct weft_blocking_opts *options)
{
    struct weft_blocking_opts opts = {0};
    if (options) {
        opts = *options;
    }
    int err = check_opts(&opts);
    if (err) {
        return err;
    }
    weft__fork_install();
    weft_blocking_pool *pool = weft__alloc(sizeof *pool);
    if (!pool || !(pool->name = weft__objname_copy(opts.name))) {
        weft__free(pool);
        return -ENOMEM;
    }
    opts.name = pool->name;
    pool->opts = opts;
    pool->born = weft__fork_generation();
    weft__source_init(&pool->jobs.source, &(struct weft_sync_opts){.name = pool->name});
    atomic_init(&pool->refs, 1);
    for (unsigned i = 0; i < opts.min_threads && !err; i++) {
        weft__source_lock(&pool->jobs.source);
        reserve_thread_locked(pool);
        weft__source_unlock(&pool->jobs.source);
        err = thread_start(pool);
        if (err) {
            start_failed(pool);
        }
    }
    if (err) {
        end_idle_threads(pool);
        weft_blocking_destroy(pool);
        return err;
    }
    *out = pool;
    return 0;
}

/* Under the lock, after `stopping` is set: wakes all idle threads. */
static void wake_all_locked(weft_blocking_pool *pool)
{
    while (pool->idle) {
        struct thread *thread = pool->idle;
        idle_remove_locked(pool, thread);
        pool->coming++;
        atomic_store_explicit(&thread->woken, 1, memory_order_relaxed);
        weft__futex_wake(&thread->woken, 1);
    }
}

static const struct weft__wait_kind stop_kind = {.name = "blocking stop",
                                                 .label = weft__source_label};

int weft_blocking_stop(weft_blocking_pool *pool, int64_t deadline)
{
    WEFT__NONNULL(pool);
    weft__fork_check(pool->born, "blocking pool", pool->name);
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&pool->jobs.source);
    pool->stopping = true;
    wake_all_locked(pool);
    if (pool->threads == 0) {
        weft__source_unlock(&pool->jobs.source);
        return 0;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    weft__wake_source_ref(); /* a thread that ends, without a job, wakes this wait */
    int err = weft__source_wait_locked(&pool->jobs.source, &pool->jobs.source.waiters, &node,
                                       deadline, &stop_kind);
    weft__wake_source_unref();
    if (err == -ETIMEDOUT) {
        weft__source_lock(&pool->jobs.source);
        weft__jobs_drop_all_locked(&pool->jobs, -ESHUTDOWN, &ready);
        err = pool->threads ? -EBUSY : 0;
        weft__source_unlock(&pool->jobs.source);
        weft__place_all(&ready, WEFT__FRONT);
    }
    return err;
}

void weft_blocking_destroy(weft_blocking_pool *pool)
{
    if (!pool) {
        return;
    }
    weft__fork_check(pool->born, "blocking pool", pool->name);
    weft__source_lock(&pool->jobs.source);
    bool stopped = pool->stopping && !pool->jobs.first;
    weft__source_unlock(&pool->jobs.source);
    WEFT__REQUIRE(stopped, "blocking pool %s is destroyed before it was stopped", pool->name);
    weft__source_deinit(&pool->jobs.source, "blocking pool");
    pool_unref(pool);
}

/* --- the default pool ------------------------------------------------------------------------- */

static struct weft__lock default_lock;
static weft_blocking_pool *default_pool; /* under the lock */

static void fork_prepare(void)
{
    weft__lock(&default_lock);
}

static void fork_parent(void)
{
    weft__unlock(&default_lock);
}

/* The threads do not exist in the child; the next call creates another pool. */
static void fork_child(void)
{
    default_pool = NULL;
    weft__unlock(&default_lock);
}

static void watch_forks(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

weft_blocking_pool *weft_blocking_default(void)
{
    static struct weft__fork_once once;
    weft__fork_once(&once, watch_forks);
    weft__lock(&default_lock);
    if (!default_pool && weft_blocking_create(&default_pool, NULL) != 0) {
        default_pool = NULL;
    }
    weft_blocking_pool *pool = default_pool;
    weft__unlock(&default_lock);
    return pool;
}

/* --- calls --------------------------------------------------------------------------------- */

/* How many jobs may be queued: one for each thread that could run it immediately, plus the queue's
 * own limit. */
static uint64_t queue_space_locked(const weft_blocking_pool *pool)
{
    uint64_t free = (uint64_t)pool->idle_count + pool->coming;
    free += pool->opts.max_threads - pool->threads;
    return free + (pool->opts.policy == WEFT_BLOCKING_WAIT ? pool->opts.queue_max : 0);
}

/* Queues the job and ensures that a thread comes for it. 0, -EAGAIN, -ESHUTDOWN. */
static int submit(weft_blocking_pool *pool, struct weft__job *job, struct weft__node *node)
{
    struct thread *call = NULL;
    bool grow = false;
    int err = 0;
    weft__source_lock(&pool->jobs.source);
    if (pool->stopping) {
        err = -ESHUTDOWN;
    } else if (pool->jobs.queued >= queue_space_locked(pool)) {
        pool->refused++;
        err = -EAGAIN;
    } else {
        weft__jobs_push_locked(&pool->jobs, job, node);
        if (pool->jobs.queued <= pool->coming) {
            /* Enough threads are coming. */
        } else if (pool->idle) {
            call = pool->idle;
            idle_remove_locked(pool, call);
            pool->coming++;
            atomic_store_explicit(&call->woken, 1, memory_order_relaxed);
        } else if (pool->threads < pool->opts.max_threads) {
            reserve_thread_locked(pool);
            grow = true;
        }
    }
    weft__source_unlock(&pool->jobs.source);
    if (call) {
        weft__futex_wake(&call->woken, 1); /* the thread may already be awake and gone */
    }
    if (grow && thread_start(pool) != 0) {
        start_failed(pool);
    }
    return err;
}

static void count_left(weft_blocking_pool *pool, enum weft__job_outcome left)
{
    weft__source_lock(&pool->jobs.source);
    pool->withdrawn += left == WEFT__JOB_NEVER_RAN;
    pool->detached += left == WEFT__JOB_RUNS;
    weft__source_unlock(&pool->jobs.source);
}

/* 0: the job has run. Otherwise *left says whether it never ran or is still running. */
static int run_job(weft_blocking_pool *pool, struct weft__job *job, int64_t deadline,
                   enum weft__job_outcome *left)
{
    struct weft__waiter waiter;
    struct weft__node node;
    *left = WEFT__JOB_NEVER_RAN;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    int err = submit(pool, job, &node);
    if (err) {
        weft__waiter_defer(weft__waiter_disarm(&waiter));
        return err;
    }
    enum weft__reason reason = weft__jobs_park(&pool->jobs, &waiter, deadline);
    if (weft__reason_is_done(reason)) {
        *left = node.status ? WEFT__JOB_NEVER_RAN : WEFT__JOB_RAN;
        return node.status;
    }
    *left = weft__jobs_leave(&pool->jobs, job);
    if (*left == WEFT__JOB_RAN) {
        weft__waiter_defer(reason);
        return 0;
    }
    return weft__reason_errno(reason);
}

static weft_blocking_pool *pool_or_default(weft_blocking_pool *pool)
{
    if (!pool) {
        return weft_blocking_default();
    }
    weft__fork_check(pool->born, "blocking pool", pool->name);
    return pool;
}

void weft_blocking_job_init(struct weft_blocking_job *job, void (*run)(struct weft_blocking_job *),
                            void (*release)(struct weft_blocking_job *))
{
    WEFT__NONNULL(job);
    WEFT__REQUIRE(run && release, "a blocking job needs run and release");
    weft__job_init(weft__job_of(job), run, release);
}

int weft_blocking_run(weft_blocking_pool *which, struct weft_blocking_job *public, int64_t deadline)
{
    weft_blocking_pool *pool = pool_or_default(which);
    struct weft__job *job = weft__job_of(public);
    enum weft__job_outcome left;
    if (!pool) {
        return -ENOMEM;
    }
    WEFT__REQUIRE(job->state == WEFT__JOB_IDLE, "a blocking job is run while it is queued or runs");
    int err = run_job(pool, job, deadline, &left);
    if (err && err != -EAGAIN && err != -ESHUTDOWN) {
        count_left(pool, left);
    }
    job->started = left != WEFT__JOB_NEVER_RAN;
    return err;
}

void weft_blocking_release(struct weft_blocking_job *job)
{
    WEFT__NONNULL(job);
    if (weft__job_unref(weft__job_of(job))) {
        job->release(job);
    }
}

/* The job of weft_blocking_call, on the caller's stack. */
struct call {
    struct weft_blocking_job job; /* first */
    weft_fn fn;
    void *value; /* the argument, then the result */
};

static void call_run(struct weft_blocking_job *job)
{
    struct call *call = (struct call *)(void *)job;
    call->value = call->fn(call->value);
}

int weft_blocking_call(weft_blocking_pool *which, void **result, weft_fn fn, void *arg,
                       int64_t deadline)
{
    weft_blocking_pool *pool = pool_or_default(which);
    struct call call = {.fn = fn, .value = arg};
    enum weft__job_outcome left;
    if (!pool) {
        return -ENOMEM;
    }
    weft__job_init(weft__job_of(&call.job), call_run, NULL);
    int err = run_job(pool, weft__job_of(&call.job), deadline, &left);
    if (left == WEFT__JOB_RUNS) {
        weft__jobs_await(&pool->jobs, weft__job_of(&call.job));
        weft__waiter_defer(err == -EINTR ? WEFT__REASON_INTERRUPT : WEFT__REASON_NONE);
        err = 0;
    } else if (err == -ETIMEDOUT || err == -ECANCELED || err == -EINTR) {
        count_left(pool, left);
    }
    if (!err && result) {
        *result = call.value;
    }
    return err;
}

/* --- statistics ------------------------------------------------------------------------------- */

void weft_blocking_stats(weft_blocking_pool *which, struct weft_blocking_stats *out)
{
    weft_blocking_pool *pool = pool_or_default(which);
    memset(out, 0, sizeof *out);
    if (!pool) {
        return;
    }
    weft__source_lock(&pool->jobs.source);
    *out = (struct weft_blocking_stats){.threads = pool->threads,
                                        .idle = pool->idle_count,
                                        .peak = pool->peak,
                                        .queued = pool->jobs.queued,
                                        .done = pool->jobs.ended,
                                        .refused = pool->refused,
                                        .withdrawn = pool->withdrawn,
                                        .detached = pool->detached,
                                        .retired = pool->retired,
                                        .failed = pool->failed};
    weft__source_unlock(&pool->jobs.source);
}

void weft_blocking_dump(weft_blocking_pool *which, FILE *out)
{
    weft_blocking_pool *pool = pool_or_default(which);
    struct weft_blocking_stats s;
    if (!pool) {
        return;
    }
    weft_blocking_stats(pool, &s);
    fprintf(out,
            "blocking pool %s: threads=%u idle=%u peak=%u queued=%u done=%" PRIu64
            " refused=%" PRIu64 " withdrawn=%" PRIu64 " detached=%" PRIu64 " retired=%" PRIu64
            " failed=%" PRIu64 "\n",
            pool->name, s.threads, s.idle, s.peak, s.queued, s.done, s.refused, s.withdrawn,
            s.detached, s.retired, s.failed);
}
