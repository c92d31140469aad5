#include "dispatch/dispatcher.h"

#include <errno.h>
#include <stdio.h>

#include <weft/inspect.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "sched/pool.h"
#include "sync/event.h"

#define MIN_GRACE_NS 1000000000

/* --- life ---------------------------------------------------------------------------- */

static struct weft_pool_opts pool_opts(const struct weft_dispatcher_opts *opts)
{
    return (struct weft_pool_opts){
        .name = opts->name ? opts->name : "dispatch",
        .workers = 1,
        .caller = opts->caller,
        .driver = opts->driver,
        .cpus = opts->cpu,
        .cpu_count = opts->cpu ? 1 : 0,
        .stack_bytes = opts->stack_bytes,
        .ring_slots = 4, /* unused: fibers are in their groups' queues */
        .fresh_slots = 2,
        .max_fibers = opts->max_fibers,
        .spin_ns = -1,
        .timer_tick_ns = opts->timer_tick_ns,
        .hog_ns = opts->hog_ns,
        .deadlock_off = opts->deadlock_off,
    };
}

/* On one CPU, spinning would keep the sender from running. */
static int64_t spin_ns(const struct weft_dispatcher_opts *opts)
{
    int64_t asked = opts->spin_ns ? opts->spin_ns : WEFT__SPIN_NS;
    return asked > 0 && weft__cpu_usable() > 1 ? asked : 0;
}

/* Install the callback for this dispatcher only. On error the pool is destroyed. */
static int install_perf(weft_dispatcher *d, const struct weft_perf *perf)
{
    d->perf = *perf;
    d->perf.pool = d->pool;
    int err = weft_perf_install(&d->perf);
    if (err) {
        weft_pool_destroy(d->pool);
    }
    return err;
}

int weft_dispatcher_create(weft_dispatcher **out, const struct weft_dispatcher_opts *options)
{
    static const struct weft_dispatcher_opts defaults;
    const struct weft_dispatcher_opts *opts = options ? options : &defaults;
    if (opts->max_poll_ns < 0) {
        return weft__refuse(-EINVAL, "max_poll_ns: must not be negative");
    }
    if (opts->on_overdue != WEFT_OVERDUE_WARN && opts->on_overdue != WEFT_OVERDUE_CANCEL) {
        return weft__refuse(-EINVAL, "on_overdue: must be one of enum weft_overdue");
    }
    weft_dispatcher *d = weft__alloc(sizeof *d);
    struct weft__group_queues **queues = weft__map(WEFT__GROUPS * sizeof *queues);
    struct weft__run_order *order = opts->order_hash ? weft__run_order_create() : NULL;
    struct weft_pool_opts inner = pool_opts(opts);
    int err =
        d && queues && (order || !opts->order_hash) ? weft_pool_create(&d->pool, &inner) : -ENOMEM;
    if (!err && opts->perf) {
        err = install_perf(d, opts->perf);
    }
    if (err) {
        weft__run_order_destroy(order);
        if (queues) {
            weft__unmap(queues, WEFT__GROUPS * sizeof *queues);
        }
        weft__free(d);
        return err;
    }
    weft__group_sched_init(&d->rounds, &d->pool->workers[0]);
    if (order) {
        weft__group_sched_record_order(&d->rounds, order);
    }
    d->rounds.queues = queues;
    d->rounds.settle = weft__group_settle;
    d->rounds.max_poll_ns = opts->max_poll_ns;
    d->rounds.spins = opts->spin_rounds > 0 ? (unsigned)opts->spin_rounds : !opts->spin_rounds;
    d->rounds.spin_ns = spin_ns(opts);
    d->caller = opts->caller;
    d->on_overdue = opts->on_overdue;
    weft_event_init(&d->empty, &(struct weft_sync_opts){.name = "the dispatcher's groups"});
    weft_event_set(&d->empty);
    d->pool->group_sched = &d->rounds;
    *out = d;
    return 0;
}

int weft_dispatcher_start(weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    return atomic_load_explicit(&d->stopping, memory_order_relaxed) ? -ESHUTDOWN
                                                                    : weft__pool_start(d->pool);
}

void weft_dispatcher_destroy(weft_dispatcher *d)
{
    if (!d) {
        return;
    }
    WEFT__REQUIRE(d->unfinished == 0, "dispatcher %s is destroyed before its groups have finished",
                  d->pool->name);
    while (d->groups) {
        weft_group_destroy(d->groups);
    }
    weft_event_deinit(&d->empty);
    if (d->perf.on_event) {
        weft_perf_remove(&d->perf);
    }
    d->pool->group_sched = NULL; /* a pool with a scheduler refuses to be destroyed */
    weft_pool_destroy(d->pool);
    weft__run_order_destroy(d->rounds.order);
    weft__unmap(d->rounds.queues, WEFT__GROUPS * sizeof(struct weft__group_queues *));
    weft__free(d);
}

void weft__dispatcher_group_finished(weft_dispatcher *d)
{
    weft__lock(&d->lock);
    if (--d->unfinished == 0) {
        weft_event_set(&d->empty);
    }
    weft__unlock(&d->lock); /* `d` still exists: a stop has not joined this thread yet */
}

/* --- the caller's thread ------------------------------------------------------------------ */

static bool is_caller_thread(const weft_dispatcher *d)
{
    return d->caller && pthread_equal(d->pool->caller_thread, pthread_self());
}

/* Run the worker on the calling thread until no group is left: 0, -ETIMEDOUT, -EDEADLK. */
static int serve_until_empty(weft_dispatcher *d, int64_t deadline)
{
    weft_pool *pool = d->pool;
    struct weft__event *empty = weft__event_of(&d->empty);
    struct weft__waiter waiter;
    struct weft__node node;
    weft__pool_caller_enter(pool);
    weft__waiter_arm_worker(&waiter, &pool->workers[0].sleeper.parker, &pool->visitors);
    weft__node_init(&node, &waiter, 0);
    int err = 0;
    if (weft__event_arm(empty, &node)) {
        enum weft__reason reason = weft__pool_serve(pool, &waiter, deadline);
        weft__event_finish(empty, &node);
        err = reason == WEFT__REASON_CANCEL ? -EDEADLK : weft__reason_errno(reason);
    }
    weft__pool_caller_leave(pool);
    return err;
}

/* Allowed while the dispatcher is stopping: its groups must be able to end. */
static int start_or_resume(weft_dispatcher *d)
{
    weft__lock(&d->lock);
    bool stopped = d->stopped;
    weft__unlock(&d->lock);
    return stopped ? -ESHUTDOWN : weft__pool_start(d->pool);
}

int weft_dispatcher_run(weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    if (!is_caller_thread(d)) {
        return -EINVAL;
    }
    if (weft__worker_self()) {
        return -EBUSY;
    }
    int err = start_or_resume(d);
    return err ? err : serve_until_empty(d, WEFT_FOREVER);
}

int weft_dispatcher_poll(weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    int err = is_caller_thread(d) ? start_or_resume(d) : -EINVAL;
    return err ? err : weft__pool_poll(d->pool);
}

int weft_dispatcher_fd(weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    return weft_pool_fd(d->pool);
}

int64_t weft_dispatcher_next_deadline(weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    if (weft__group_sched_is_busy(&d->rounds)) {
        return 0;
    }
    int64_t next = weft_pool_next_deadline(d->pool);
    int64_t most = d->rounds.max_poll_ns ? weft_after(d->rounds.max_poll_ns) : next;
    return most < next ? most : next;
}

/* --- stop ------------------------- */

void weft_dispatcher_request_stop(weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    weft__lock(&d->lock);
    atomic_store_explicit(&d->stopping, true, memory_order_relaxed);
    for (weft_group *group = d->groups; group; group = group->next) {
        weft_group_stop(group);
    }
    weft__unlock(&d->lock);
}

static int wait_empty(weft_dispatcher *d, int64_t deadline)
{
    return is_caller_thread(d) ? serve_until_empty(d, deadline)
                               : weft_event_wait(&d->empty, deadline);
}

/* Count the unfinished groups and store up to `max` names. */
static int list_unfinished(weft_dispatcher *d, const char **late, size_t max)
{
    size_t n = 0;
    weft__lock(&d->lock);
    for (weft_group *group = d->groups; group; group = group->next) {
        if (atomic_load_explicit(&group->phase, memory_order_acquire) != WEFT__GROUP_FINISHED) {
            if (late && n < max) {
                late[n] = group->name;
            }
            n++;
        }
    }
    weft__unlock(&d->lock);
    return (int)n;
}

/* Wait after the deadline: 0, -EBUSY, or the error of the wait. */
static int wait_overdue(weft_dispatcher *d, int overdue, int64_t began, int64_t deadline)
{
    if (overdue) {
        fprintf(stderr, "weft: dispatcher %s: %d group%s not finished in time%s\n", d->pool->name,
                overdue, overdue == 1 ? " has" : "s have",
                d->on_overdue == WEFT_OVERDUE_CANCEL ? "; their fibers are cancelled" : "");
        weft_dispatcher_dump(d, stderr, NULL);
    }
    if (d->on_overdue == WEFT_OVERDUE_WARN) {
        return wait_empty(d, WEFT_FOREVER);
    }
    int64_t grace = deadline > began ? deadline - began : 0;
    weft__pool_cancel_all(d->pool, WEFT__IDENT_CANCEL);
    int err = wait_empty(d, weft_after(grace > MIN_GRACE_NS ? grace : MIN_GRACE_NS));
    return err == -ETIMEDOUT ? -EBUSY : err;
}

/* True if groups are left and only the absent caller thread could run them. */
static bool needs_absent_caller(weft_dispatcher *d)
{
    weft__lock(&d->lock);
    bool left = d->unfinished > 0;
    weft__unlock(&d->lock);
    return left && d->caller && !is_caller_thread(d) &&
           atomic_load_explicit(&d->pool->workers[0].state, memory_order_relaxed) ==
               WEFT_WORKER_ABSENT;
}

int weft_dispatcher_stop(weft_dispatcher *d, const char **late, size_t max, int64_t deadline)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    int64_t began = weft_now();
    int overdue = 0;
    weft_dispatcher_request_stop(d);
    if (weft_dispatcher_self() == d) {
        return -EINPROGRESS;
    }
    if (needs_absent_caller(d)) {
        return -EDEADLK;
    }
    int err = start_or_resume(d); /* fibers submitted before the start must end too */
    err = err == -EBUSY || err == -ESHUTDOWN ? 0 : err; /* another stop got at least this far */
    err = err ? err : wait_empty(d, deadline);
    if (err == -ETIMEDOUT) {
        overdue = list_unfinished(d, late, max);
        err = wait_overdue(d, overdue, began, deadline);
    }
    err = err ? err : weft__pool_stop(d->pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    if (err) {
        return err;
    }
    weft__lock(&d->lock);
    d->stopped = true;
    weft__unlock(&d->lock);
    return overdue;
}

/* --- queries ------------------------- */

weft_dispatcher *weft_dispatcher_self(void)
{
    const struct weft__worker *w = weft__worker_self();
    if (!w || !w->group_sched) {
        return NULL;
    }
    return (weft_dispatcher *)(void *)((char *)w->group_sched - offsetof(weft_dispatcher, rounds));
}

const char *weft_dispatcher_name(const weft_dispatcher *d)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    return weft_pool_name(d->pool);
}

weft_pool *weft_dispatcher_pool(const weft_dispatcher *d)
{
    return d->pool;
}

void weft_dispatcher_stats(weft_dispatcher *d, struct weft_dispatcher_stats *out)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    const struct weft__counters *c = &d->pool->workers[0].counters;
    const struct weft__run_order *order = d->rounds.order;
    *out = (struct weft_dispatcher_stats){
        .order_hash = order ? atomic_load_explicit(&order->hash, memory_order_relaxed) : 0,
        .rounds = atomic_load_explicit(&d->rounds.gone, memory_order_relaxed),
        .executed = atomic_load_explicit(&c->executed, memory_order_relaxed),
        .sleeps = atomic_load_explicit(&c->parks, memory_order_relaxed),
        .wakes = atomic_load_explicit(&c->wakes, memory_order_relaxed),
    };
    weft__lock(&d->lock);
    for (const weft_group *group = d->groups; group; group = group->next) {
        out->groups++;
    }
    out->unfinished = d->unfinished;
    weft__unlock(&d->lock);
}
