#include "obs/fiber_snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backtrace/sample.h"
#include "base/clock.h"
#include "base/objname.h"
#include "obs/fiber_wait.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "sched/stackless.h"
#include "task/ident.h"
#include "task/slab.h"
#include "wait/waiter.h"

_Atomic(weft__task_info_fn) weft__task_info_hook;

/* While the fiber is held, so that the object in `on` exists. */
static void snapshot_wait(struct weft__fiber_snapshot *out, const struct weft__task *task,
                          int64_t now)
{
    struct weft__wait_info wait = weft__task_wait_info(task);
    const struct weft__wait_kind *kind = wait.kind;
    if (wait.since) {
        out->since_ns = now > wait.since ? now - wait.since : 0;
    }
    if (!kind) {
        return;
    }
    out->waits = kind->name;
    out->on_fiber = kind->fiber;
    out->on = wait.on;
    out->others = wait.others;
    out->on_descriptor = kind->descriptor;
    weft__fiber_wait_label(kind, out->on, out->label, sizeof out->label);
    out->holder = kind->fiber ? out->on : WEFT_NO_FIBER;
    if (kind->holder && out->on) {
        out->holder = kind->holder(out->on);
    }
}

/* While the task is held. */
static void snapshot_stackless(const struct weft__snapshot_context *context,
                               const struct weft__task *task, struct weft__fiber_snapshot *out)
{
    const struct weft__stackless_kind *kind = task->stackless;
    if (!out->name[0] && kind->name) {
        weft__objname_truncate(out->name, sizeof out->name, kind->name(task));
    }
    if (context->max_steps && kind->trace) {
        int most = context->max_steps < WEFT__SNAPSHOT_FRAMES / 2 ? 2 * context->max_steps
                                                                  : WEFT__SNAPSHOT_FRAMES;
        out->frames = kind->trace(task, out->pcs, most);
        out->describe = kind->describe;
    }
}

/* The caller holds the task and has released the ident lock; this function unholds the task. */
static void snapshot_held(const struct weft__snapshot_context *context, struct weft__task *task,
                          struct weft__fiber_snapshot *out)
{
    bool stackless = weft__task_is_stackless(task), unwinds = context->max_frames && !stackless;
    snapshot_wait(out, task, weft__clock_ns());
    if (stackless) {
        snapshot_stackless(context, task, out);
    }
    if (unwinds) {
        weft__stack_sample_copy_held(context->stack_sample, task);
    }
    if (weft__task_unhold(task)) {
        weft__place(task, WEFT__BACK);
    }
    if (unwinds) {
        out->frames = weft__stack_sample_unwind(context->stack_sample, context->unwind_cache,
                                                out->pcs, context->max_frames);
        out->no_frames = out->frames ? NULL : "cannot be unwound";
    }
}

static void snapshot_running(struct weft__snapshot_context *context, int tid,
                             struct weft__fiber_snapshot *out)
{
    if (!context->max_frames) {
        return;
    }
    if (!context->sampling || context->sample_budget <= 0) {
        out->no_frames =
            context->sampling ? "not sampled: other fibers did not answer" : "not sampled";
        return;
    }
    int64_t now = weft__clock_ns();
    int64_t most =
        context->sample_ns < context->sample_budget ? context->sample_ns : context->sample_budget;
    int err = weft__sample(tid, out->fiber, weft__clock_add(now, most), context->stack_sample);
    context->sample_budget -= weft__clock_ns() - now;
    if (err) {
        out->no_frames = err == -ETIMEDOUT ? "did not answer in time" : "no longer running";
        return;
    }
    out->frames =
        weft__stack_sample_unwind(context->stack_sample, NULL, out->pcs, context->max_frames);
    out->no_frames = out->frames ? NULL : "cannot be unwound";
}

/* Under the ident lock, for a fiber that has not ended. The thread that runs it; 0: unknown, as
 * during a migration, when its home is not yet the pool where it runs. */
static int thread_of_locked(const struct weft__task *task)
{
    int ran_on = atomic_load_explicit(&task->ran_on, memory_order_relaxed);
    const weft_pool *home = task->home;
    if (!home || ran_on < 0 || (unsigned)ran_on >= home->worker_count) {
        return 0;
    }
    return atomic_load_explicit(&home->workers[ran_on].tid, memory_order_relaxed);
}

static void snapshot_locked(const struct weft__task *task, uint64_t ident,
                            struct weft__fiber_snapshot *out)
{
    int64_t now = weft__clock_ns();
    out->worker = atomic_load_explicit(&task->ran_on, memory_order_relaxed);
    out->bound = task->pin;
    out->age_ns = now > task->born ? now - task->born : 0;
    snprintf(out->name, sizeof out->name, "%s", weft__task_name(task));
    if (!(ident & WEFT__IDENT_DONE) && task->home) {
        weft__objname_truncate(out->pool, sizeof out->pool, task->home->name);
        out->daemon = task->flags & WEFT__TASK_DAEMON;
        weft__objname_truncate(out->group, sizeof out->group, weft__group_name_locked(task));
    }
}

/* The name of another fiber, if it can be read; for a waiting stackless task without a name, the
 * name that its kind gives it. */
static void name_of(weft_fiber fiber, char *name, size_t size)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    uint64_t ident;
    if (!task || weft__ident_lock_bounded(task, fiber >> 32, &ident) != 1) {
        return;
    }
    bool ready = false;
    snprintf(name, size, "%s", weft__task_name(task));
    if (!name[0] && weft__task_is_stackless(task) && task->stackless->name &&
        weft__task_hold(task)) {
        snprintf(name, size, "%s", task->stackless->name(task));
        ready = weft__task_unhold(task);
    }
    weft__ident_unlock(task, ident);
    if (ready) {
        weft__place(task, WEFT__BACK);
    }
}

static bool take_snapshot(struct weft__snapshot_context *context, struct weft__task *task,
                          uint64_t generation, struct weft__fiber_snapshot *out)
{
    uint64_t ident;
    *out = (struct weft__fiber_snapshot){
        .fiber = generation << 32 | task->slot, .worker = -1, .bound = -1, .since_ns = -1};
    int locked = weft__ident_lock_bounded(task, generation, &ident);
    if (locked != 1) {
        out->unreadable = locked != 0;
        return out->unreadable;
    }
    if ((context->pool && !weft__pool_owns(context->pool, task, ident)) ||
        (context->group &&
         ((ident & WEFT__IDENT_DONE) || weft__group_queues_of_locked(task) != context->group))) {
        weft__ident_unlock(task, ident);
        return false;
    }
    snapshot_locked(task, ident, out);
    bool held = weft__task_hold(task);
    out->state = held ? WEFT_FIBER_WAITING : weft__fiber_state_of(weft__task_state(task));
    int tid = out->state == WEFT_FIBER_RUNNING ? thread_of_locked(task) : 0;
    bool stackless = weft__task_is_stackless(task);
    weft__ident_unlock(task, ident);
    if (held) {
        snapshot_held(context, task, out);
    } else if (stackless) {
        out->no_frames =
            out->state == WEFT_FIBER_RUNNING && context->max_steps ? "a step is running" : NULL;
    } else if (out->state == WEFT_FIBER_RUNNING) {
        snapshot_running(context, tid, out);
    }
    weft__task_info_fn info_of =
        atomic_load_explicit(&weft__task_info_hook, memory_order_acquire); /* pairs: actor */
    if (info_of) {
        info_of(out->fiber, &out->actor);
    }
    if (out->holder) {
        name_of(out->holder, out->holder_name, sizeof out->holder_name);
    }
    if (out->on_fiber) {
        name_of(out->on, out->label, sizeof out->label);
    }
    return true;
}

bool weft__fiber_snapshot_slot(struct weft__snapshot_context *context, uint32_t slot,
                               struct weft__fiber_snapshot *out)
{
    struct weft__task *task = weft__slab_find(slot);
    uint64_t ident = task ? atomic_load_explicit(&task->ident, memory_order_relaxed) : 0;
    return (ident & WEFT__IDENT_LIVE) &&
           take_snapshot(context, task, weft__ident_generation(ident), out);
}
