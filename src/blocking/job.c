#include "blocking/job.h"

#include "lock/futex.h"
#include "task/ident.h"
#include "wait/wake_source.h"

static const struct weft__wait_kind job_kind = {.name = "blocking", .label = weft__source_label};

void weft__job_init(struct weft__job *job, void (*run)(struct weft_blocking_job *),
                    void (*release)(struct weft_blocking_job *))
{
    job->run = run;
    job->release = release;
    job->started = false;
    job->ran = false;
    job->state = WEFT__JOB_IDLE;
    job->node = NULL;
    atomic_init(&job->refs, 1);
}

bool weft__job_unref(struct weft__job *job)
{
    /* Release: what this side did to the job precedes its end; acquire: what the other side did.
     * pairs: itself */
    return atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1;
}

void weft__jobs_push_locked(struct weft__jobs *jobs, struct weft__job *job, struct weft__node *node)
{
    job->state = WEFT__JOB_QUEUED;
    job->ran = false;
    job->node = node;
    job->next = NULL;
    job->prev = jobs->last;
    *(jobs->last ? &jobs->last->next : &jobs->first) = job;
    jobs->last = job;
    jobs->queued++;
    weft__wake_source_ref(); /* until it has run: a running job may wake a fiber */
    atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
}

static void unlink_locked(struct weft__jobs *jobs, struct weft__job *job)
{
    *(job->prev ? &job->prev->next : &jobs->first) = job->next;
    *(job->next ? &job->next->prev : &jobs->last) = job->prev;
    jobs->queued--;
}

struct weft__job *weft__jobs_take_locked(struct weft__jobs *jobs)
{
    struct weft__job *job = jobs->first;
    if (job) {
        unlink_locked(jobs, job);
        job->state = WEFT__JOB_RUNNING;
    }
    return job;
}

void weft__jobs_finish(struct weft__jobs *jobs, struct weft__job *job)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&jobs->source);
    struct weft__node *node = job->node;
    job->state = WEFT__JOB_IDLE;
    job->ran = true;
    job->node = NULL;
    jobs->ended++;
    bool last = weft__job_unref(job);
    if (node) {
        weft__node_notify(node, 0, &ready); /* if this fire fails, the caller is about to leave and
                                           * will see the state */
    }
    weft__source_unlock(&jobs->source);
    weft__place_all(&ready, WEFT__FRONT);
    if (last) {
        job->release((struct weft_blocking_job *)(void *)job);
    }
    weft__wake_source_unref();
}

/* The job will not run. The caller of this function, or the waiter, has a reference: this one is
 * not the last. The waiter is notified by the caller, which is awake. */
static void give_up_locked(struct weft__jobs *jobs, struct weft__job *job)
{
    unlink_locked(jobs, job);
    job->state = WEFT__JOB_IDLE;
    job->node = NULL;
    weft__job_unref(job);
    weft__wake_source_unref();
}

void weft__jobs_drop_all_locked(struct weft__jobs *jobs, int status, struct weft__chain *ready)
{
    struct weft__job *job;
    while ((job = jobs->first)) {
        struct weft__node *node = job->node;
        give_up_locked(jobs, job);
        weft__node_notify(node, status, ready);
    }
}

enum weft__job_outcome weft__jobs_leave(struct weft__jobs *jobs, struct weft__job *job)
{
    enum weft__job_outcome left = WEFT__JOB_RUNS;
    weft__source_lock(&jobs->source);
    if (job->state == WEFT__JOB_QUEUED) {
        give_up_locked(jobs, job);
        left = WEFT__JOB_NEVER_RAN;
    } else if (job->state == WEFT__JOB_IDLE) {
        left = job->ran ? WEFT__JOB_RAN : WEFT__JOB_NEVER_RAN;
    }
    job->node = NULL;
    weft__source_unlock(&jobs->source);
    return left;
}

enum weft__reason weft__jobs_park(struct weft__jobs *jobs, struct weft__waiter *waiter,
                                  int64_t deadline)
{
    return weft__waiter_park(waiter, deadline, &job_kind, (uint64_t)(uintptr_t)&jobs->source);
}

/* The word may be freed by now; a wake of an unrelated futex does not disturb code that waits in a
 * loop. */
static void wake_thread(struct weft__waiter *waiter)
{
    weft__futex_wake(&waiter->word, 1);
}

/* Blocks the thread itself, worker or not: for a fiber that is aborted, whose waits all end
 * immediately. */
static void block_thread(struct weft__waiter *waiter)
{
    while (weft__waiter_reason(waiter) == WEFT__REASON_NONE) {
        weft__futex_wait(&waiter->word, 0, INT64_MAX);
    }
}

static struct weft__task *self(void)
{
    struct weft__worker *w = weft__worker_self();
    return w ? weft__current(w) : NULL;
}

/* Waits again, continuing from leave. True: the job has run. */
static bool await_once(struct weft__jobs *jobs, struct weft__job *job)
{
    struct weft__waiter waiter;
    struct weft__node node;
    struct weft__task *task = self();
    bool asleep = task && (weft__ident_flags(task) & WEFT__IDENT_ABORT);
    if (task) {
        weft_fiber_shield_enter();
    }
    if (asleep) {
        weft__waiter_arm_notify(&waiter, wake_thread);
    } else {
        weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    }
    weft__node_init(&node, &waiter, 0);
    weft__source_lock(&jobs->source);
    bool ran = job->state == WEFT__JOB_IDLE;
    job->node = ran ? NULL : &node;
    weft__source_unlock(&jobs->source);
    if (ran) {
        enum weft__reason shielded = weft__waiter_disarm(&waiter);
        WEFT__ASSERT(shielded == WEFT__REASON_NONE || shielded == WEFT__REASON_CANCEL);
    } else if (asleep) {
        block_thread(&waiter);
        ran = true;
    } else {
        ran = weft__reason_is_done(weft__jobs_park(jobs, &waiter, WEFT_FOREVER)) ||
              weft__jobs_leave(jobs, job) == WEFT__JOB_RAN;
    }
    if (task) {
        weft_fiber_shield_leave();
    }
    return ran;
}

void weft__jobs_await(struct weft__jobs *jobs, struct weft__job *job)
{
    while (!await_once(jobs, job)) {
        /* Aborted meanwhile: try again. */
    }
}
