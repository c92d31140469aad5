/* Function pools.
 *
 * A call is a job with two references: the caller's, and that of the queue, which passes to the
 * worker. The job's state decides the race between a worker and a caller that gives up:
 *
 *   QUEUED -> RUNNING    by a worker: the caller may give up, the function runs to its end
 *   QUEUED -> ABANDONED  by the caller: no worker runs the function
 *
 * The job's permit is released by its last owner: the worker, or the caller if the job could not be
 * queued. There are never more jobs than permits, so the queue is never full.
 */
#include <weft/actor_out.h>
#include <weft/funcpool.h>

#include <errno.h>

#include <weft/chan.h>
#include <weft/sync.h>
#include <weft/timer.h>

#include "base/alloc.h"
#include "base/atomic.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "command/command_request.h"
#include "command/funcpool.h"
#include "command/hill_climb.h"
#include "lock/lock.h"

#define DEFAULT_WORKERS 16u
#define DEFAULT_CALLS_PER_WORKER 256u
#define DEFAULT_INLINE 65536u
#define DEFAULT_IDLE_NS 30000000000
#define DEFAULT_PROBE_NS 500000000
#define MAX_WORKERS 65536u
#define INITIAL_CAPACITY 4096u              /* initial queue capacity; it grows */
#define PERMITS_ON_STOP ((uint64_t)1 << 40) /* released on stop: wakes every waiting caller */

enum { QUEUED, RUNNING, ABANDONED };

struct job {
    weft_buf *input, *output;
    int err;
    _Atomic(uint32_t) state, refs;
    weft_event done;
};

struct weft_funcpool {
    weft_function fn;
    void *arg;
    struct weft_funcpool_opts opts;
    weft_sem permits;
    weft_chan *jobs;       /* NULL: inline */
    weft_waitgroup inside; /* callers and workers */
    weft_timer timer;      /* adaptive */
    _Atomic(bool) stopping;
    struct weft__lock lock;
    /* under the lock */
    unsigned workers, starting, idle, peak_workers, target, waiting; /* starting: not yet running */
    uint64_t done, refused, abandoned;
    struct weft__hill_climb probe;
};

/* --- jobs ---------------------------------------------------------------------------------- */

static struct job *job_new(weft_buf *input)
{
    struct job *job = weft__alloc(sizeof *job);
    if (job) {
        job->input = input;
        atomic_init(&job->refs, 2);
        weft_event_init(&job->done, NULL);
    }
    return job;
}

static void job_unref(struct job *job)
{
    if (atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1) {
        weft_event_deinit(&job->done);
        weft_buf_free(job->input);
        weft_buf_free(job->output);
        weft__free(job);
    }
}

/* Decide the race: returns true for the first caller. */
static bool claim(struct job *job, uint32_t state)
{
    uint32_t queued = QUEUED;
    return atomic_compare_exchange_strong_explicit(&job->state, &queued, state,
                                                   memory_order_relaxed, memory_order_relaxed);
}

static void run_job(weft_funcpool *pool, struct job *job)
{
    if (claim(job, RUNNING)) {
        job->err = pool->fn(job->input, &job->output, pool->arg);
        weft__lock(&pool->lock);
        pool->done++;
        weft__unlock(&pool->lock);
    }
    weft_event_set(&job->done);
    job_unref(job);
    weft_sem_release(&pool->permits, 1);
}

/* --- workers --------------------------------------------------------------------------------- */

/* Called under the lock: retire this worker if it has nothing to do or there are too many
 * workers. */
static bool try_retire_locked(weft_funcpool *pool, bool waited)
{
    bool surplus = pool->workers > pool->target;
    if (pool->opts.kind == WEFT_FUNCPOOL_LAZY) {
        surplus = waited && pool->waiting == 0;
    }
    if (surplus) {
        pool->workers--;
    }
    return surplus;
}

/* Returns false if the worker ends. */
static bool next_job(weft_funcpool *pool, struct job **job, int64_t timeout_ns)
{
    int err;
    bool is_retired = false;
    do {
        weft__lock(&pool->lock);
        pool->idle++;
        weft__unlock(&pool->lock);
        err = weft_chan_recv(pool->jobs, job, timeout_ns ? weft_after(timeout_ns) : WEFT_FOREVER);
        weft__lock(&pool->lock);
        pool->idle--;
        if (!err) {
            pool->waiting--;
        } else if (err != -ETIMEDOUT) { /* the queue is closed, or the fibers' pool is stopped */
            is_retired = true;
            pool->workers--;
        } else {
            is_retired = try_retire_locked(pool, true);
        }
        weft__unlock(&pool->lock);
    } while (err && !is_retired);
    return !err;
}

static bool try_retire(weft_funcpool *pool)
{
    weft__lock(&pool->lock);
    bool surplus = try_retire_locked(pool, false);
    weft__unlock(&pool->lock);
    return surplus;
}

static void *work(void *arg)
{
    weft_funcpool *pool = arg;
    int64_t timeout_ns = pool->opts.kind == WEFT_FUNCPOOL_LAZY       ? pool->opts.idle_ns
                         : pool->opts.kind == WEFT_FUNCPOOL_ADAPTIVE ? pool->opts.probe_ns
                                                                     : 0;
    struct job *job;
    weft__lock(&pool->lock);
    pool->starting--;
    weft__unlock(&pool->lock);
    while (next_job(pool, &job, timeout_ns)) {
        run_job(pool, job);
        if (try_retire(pool)) {
            break;
        }
    }
    weft_waitgroup_done(&pool->inside);
    return NULL;
}

/* Start a worker under the lock, so that a worker that others rely on really exists. Returns 1 if
 * one was started; 0 if the target is reached; or an error. */
static int start_worker_locked(weft_funcpool *pool)
{
    if (pool->workers >= pool->target) {
        return 0;
    }
    weft_waitgroup_add(&pool->inside, 1);
    int err = weft_pool_submit(pool->opts.pool, work, pool);
    if (err) {
        weft_waitgroup_done(&pool->inside);
        return err;
    }
    pool->workers++;
    pool->starting++;
    pool->peak_workers = pool->workers > pool->peak_workers ? pool->workers : pool->peak_workers;
    return 1;
}

/* Called under the lock: more calls wait than workers are available for them. */
static bool needs_worker_locked(const weft_funcpool *pool)
{
    return pool->waiting > pool->idle + pool->starting;
}

static void probe(weft_timer *timer, void *arg, uint64_t times)
{
    weft_funcpool *pool = arg;
    (void)timer, (void)times;
    weft__lock(&pool->lock);
    pool->target = weft__hill_climb_next(&pool->probe, pool->done, pool->waiting > 0, pool->target,
                                         pool->opts.workers);
    while (needs_worker_locked(pool) && start_worker_locked(pool) > 0) {
    }
    weft__unlock(&pool->lock);
}

/* --- life ------------------------------------------------------------------------------------- */

static int check_opts(struct weft_funcpool_opts *opts)
{
    if (opts->kind > WEFT_FUNCPOOL_ADAPTIVE) {
        return weft__refuse(-EINVAL, "kind: must be one of enum weft_funcpool_kind");
    }
    if (opts->workers > MAX_WORKERS) {
        return weft__refuse(-EINVAL, "workers: must be at most 65536");
    }
    if (opts->idle_ns < 0 || opts->probe_ns < 0) {
        return weft__refuse(-EINVAL, "idle_ns, probe_ns: must not be negative");
    }
    if (!opts->pool && opts->kind != WEFT_FUNCPOOL_INLINE) {
        return weft__refuse(-EINVAL, "pool: must be given outside of a fiber");
    }
    bool fixed = opts->kind == WEFT_FUNCPOOL_STATIC;
    opts->workers = opts->workers ? opts->workers : fixed ? weft_usable_cpus() : DEFAULT_WORKERS;
    if (!opts->max_calls) {
        opts->max_calls = opts->kind == WEFT_FUNCPOOL_INLINE
                              ? DEFAULT_INLINE
                              : opts->workers * DEFAULT_CALLS_PER_WORKER;
    }
    opts->idle_ns = opts->idle_ns ? opts->idle_ns : DEFAULT_IDLE_NS;
    opts->probe_ns = opts->probe_ns ? opts->probe_ns : DEFAULT_PROBE_NS;
    return 0;
}

static int start(weft_funcpool *pool)
{
    int err = 0;
    if (pool->opts.kind == WEFT_FUNCPOOL_ADAPTIVE) {
        pool->target = 1;
        weft_timer_set_every(&pool->timer, weft_after(pool->opts.probe_ns), pool->opts.probe_ns,
                             WEFT_TIMER_DELAY);
    } else {
        pool->target = pool->opts.workers;
    }
    for (unsigned i = 0; pool->opts.kind == WEFT_FUNCPOOL_STATIC && i < pool->opts.workers && !err;
         i++) {
        weft__lock(&pool->lock);
        int started = start_worker_locked(pool);
        weft__unlock(&pool->lock);
        err = started < 0 ? started : 0;
    }
    return err;
}

int weft_funcpool_create(weft_funcpool **out, weft_function fn, void *arg,
                         const struct weft_funcpool_opts *options)
{
    WEFT__NONNULL_AS(options, "opts");
    struct weft_funcpool_opts opts = *options;
    int err = fn ? check_opts(&opts) : -EINVAL;
    if (err) {
        return err;
    }
    weft_funcpool *pool = weft__alloc(sizeof *pool);
    if (!pool) {
        return -ENOMEM;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->opts = opts;
    weft_sem_init(&pool->permits, opts.max_calls, NULL);
    weft_waitgroup_init(&pool->inside, NULL);
    if (opts.kind != WEFT_FUNCPOOL_INLINE) {
        weft_timer_init(&pool->timer, probe, pool, &(struct weft_timer_opts){.pool = opts.pool});
        err = weft_chan_create(
            &pool->jobs, sizeof(struct job *),
            &(struct weft_chan_opts){
                .capacity = opts.max_calls < INITIAL_CAPACITY ? opts.max_calls : INITIAL_CAPACITY,
                .max_capacity = opts.max_calls});
        err = err ? err : start(pool);
    }
    if (err) {
        while (weft_funcpool_stop(pool, WEFT_FOREVER) != 0) {
            weft_yield(); /* also in a cancelled fiber: idle workers end soon */
        }
        weft_funcpool_destroy(pool);
        return err;
    }
    *out = pool;
    return 0;
}

int weft_funcpool_stop(weft_funcpool *pool, int64_t deadline)
{
    WEFT__NONNULL(pool);
    if (!atomic_exchange_explicit(&pool->stopping, true, memory_order_acq_rel)) {
        weft_sem_release(&pool->permits, PERMITS_ON_STOP);
    }
    int err = 0;
    if (pool->opts.kind != WEFT_FUNCPOOL_INLINE) {
        err = weft_timer_cancel_wait(&pool->timer, deadline);
        if (pool->jobs) {
            weft_chan_close(pool->jobs);
        }
    }
    return err < 0 ? err : weft_waitgroup_wait(&pool->inside, deadline);
}

void weft_funcpool_destroy(weft_funcpool *pool)
{
    if (!pool) {
        return;
    }
    weft_chan_destroy(pool->jobs);
    weft_sem_deinit(&pool->permits);
    weft_waitgroup_deinit(&pool->inside);
    weft__free(pool);
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool is_stopping(const weft_funcpool *pool)
{
    return atomic_load_explicit(&pool->stopping, memory_order_acquire);
}

/* Returns 0 with a permit. */
static int acquire_permit(weft_funcpool *pool, int64_t deadline)
{
    int err = is_stopping(pool)
                  ? -ESHUTDOWN
                  : weft_sem_acquire(&pool->permits, 1, pool->opts.fail_when_full ? 0 : deadline);
    if (!err && is_stopping(pool)) {
        weft_sem_release(&pool->permits, 1);
        err = -ESHUTDOWN;
    }
    if (err == -ETIMEDOUT && pool->opts.fail_when_full) {
        weft__lock(&pool->lock);
        pool->refused++;
        weft__unlock(&pool->lock);
        err = -EAGAIN;
    }
    return err;
}

/* Count one more waiting job, and make sure that a worker takes it. */
static int ensure_worker(weft_funcpool *pool)
{
    weft__lock(&pool->lock);
    pool->waiting++;
    int started = needs_worker_locked(pool) ? start_worker_locked(pool) : 0;
    bool no_worker = started < 0 && pool->workers == 0; /* otherwise the existing workers take it */
    pool->waiting -= no_worker;
    weft__unlock(&pool->lock);
    return no_worker ? started : 0;
}

static int queue(weft_funcpool *pool, struct job *job)
{
    int err = ensure_worker(pool);
    /* All admitted jobs may be queued at once: the channel has capacity, or no memory to grow. */
    int sent = err ? 0 : weft_chan_send(pool->jobs, &job, 0);
    if (sent) {
        weft__lock(&pool->lock);
        pool->waiting--;
        weft__unlock(&pool->lock);
        err = sent == -ETIMEDOUT ? -ENOMEM : -ESHUTDOWN;
    }
    if (err) {
        job_unref(job); /* the queue's reference */
        weft_sem_release(&pool->permits, 1);
    }
    return err;
}

static int wait_done(weft_funcpool *pool, struct job *job, weft_buf **output, int64_t deadline)
{
    int err = weft_event_wait(&job->done, deadline);
    if (err) {
        claim(job, ABANDONED);
        weft__lock(&pool->lock);
        pool->abandoned++;
        weft__unlock(&pool->lock);
        return err;
    }
    if (output && !job->err) {
        *output = job->output;
        job->output = NULL;
    }
    return job->err;
}

static int call_queued(weft_funcpool *pool, weft_buf *input, weft_buf **output, int64_t deadline)
{
    struct job *job = job_new(input);
    if (!job) {
        weft_buf_free(input);
        weft_sem_release(&pool->permits, 1);
        return -ENOMEM;
    }
    int err = queue(pool, job);
    err = err ? err : wait_done(pool, job, output, deadline);
    job_unref(job);
    return err;
}

static int call_inline(weft_funcpool *pool, weft_buf *input, weft_buf **output)
{
    weft_buf *made = NULL;
    int err = pool->fn(input, &made, pool->arg);
    weft__lock(&pool->lock);
    pool->done++;
    weft__unlock(&pool->lock);
    weft_sem_release(&pool->permits, 1);
    weft_buf_free(input);
    if (output && !err) {
        *output = made;
    } else {
        weft_buf_free(made);
    }
    return err;
}

int weft_funcpool_call(weft_funcpool *pool, weft_buf **output, weft_buf *input, int64_t deadline)
{
    WEFT__NONNULL(pool);
    weft_waitgroup_add(&pool->inside, 1);
    int err = acquire_permit(pool, deadline);
    if (err) {
        weft_buf_free(input);
    } else if (pool->opts.kind == WEFT_FUNCPOOL_INLINE) {
        err = call_inline(pool, input, output);
    } else {
        err = call_queued(pool, input, output, deadline);
    }
    weft_waitgroup_done(&pool->inside);
    return err;
}

void weft_funcpool_stats(weft_funcpool *pool, struct weft_funcpool_stats *out)
{
    WEFT__NONNULL(pool);
    weft__lock(&pool->lock);
    *out = (struct weft_funcpool_stats){.workers = pool->workers,
                                        .idle = pool->idle,
                                        .peak_workers = pool->peak_workers,
                                        .target = pool->target,
                                        .waiting = pool->waiting,
                                        .done = pool->done,
                                        .refused = pool->refused,
                                        .abandoned = pool->abandoned};
    weft__unlock(&pool->lock);
}

/* --- as a command ----------------------------------------------------------------------------- */

struct function {
    struct weft__command_request request; /* first */
    weft_funcpool *pool;
    weft_buf *input;
    int64_t deadline;
};

static void drop_function(struct weft__command_request *request)
{
    weft_buf_free(((struct function *)(void *)request)->input);
}

int weft_out_function(weft_out *out, uint64_t tag, weft_funcpool *pool, weft_buf *input,
                      int64_t deadline)
{
    struct function function = {
        .request.drop = drop_function, .pool = pool, .input = input, .deadline = deadline};
    return weft__command_request_issue(out, WEFT_COMMAND_FUNCTION, tag, &function.request,
                                       sizeof function);
}

static int run_function(struct weft__command_request *request, weft_buf **result)
{
    struct function *function = (struct function *)(void *)request;
    weft_buf *input = function->input;
    function->input = NULL;
    return weft_funcpool_call(function->pool, result, input, function->deadline);
}

int weft__funcpool_handle_command(const struct weft_command *command, void *arg)
{
    (void)arg;
    return weft__command_fiber_start(command, run_function);
}
