#include "obs/view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "obs/sample.h"
#include "obs/waits.h"
#include "sched/body.h"
#include "sched/ident.h"
#include "sched/pool.h"
#include "sched/rounds.h"
#include "sched/slab.h"
#include "sched/waiter.h"

/* While the fiber is held, so that the object in `on` exists. */
static void look_at_wait(struct weft__view *out, const struct weft__task *task, int64_t now)
{
    struct weft__body_wait wait = weft__task_waits(task);
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
    weft__waits_label(kind, out->on, out->label, sizeof out->label);
    out->holder = kind->fiber ? out->on : WEFT_NO_FIBER;
    if (kind->holder && out->on) {
        out->holder = kind->holder(out->on);
    }
}

/* While the task is held. */
static void look_at_body(const struct weft__viewer *viewer, const struct weft__task *task,
                         struct weft__view *out)
{
    const struct weft__body_kind *kind = task->body;
    if (!out->name[0] && kind->name) {
        weft__text_cut(out->name, sizeof out->name, kind->name(task));
    }
    if (viewer->max_steps && kind->trace) {
        int most =
            viewer->max_steps < WEFT__VIEW_FRAMES / 2 ? 2 * viewer->max_steps : WEFT__VIEW_FRAMES;
        out->frames = kind->trace(task, out->pcs, most);
        out->describe = kind->describe;
    }
}

/* The caller holds the task and has released the ident lock; this function unholds the task. */
static void look_at_held(const struct weft__viewer *viewer, struct weft__task *task,
                         struct weft__view *out)
{
    bool body = weft__task_is_body(task), unwinds = viewer->max_frames && !body;
    look_at_wait(out, task, weft__clock_ns());
    if (body) {
        look_at_body(viewer, task, out);
    }
    if (unwinds) {
        weft__shot_take_held(viewer->shot, task);
    }
    if (weft__task_unhold(task)) {
        weft__place(task);
    }
    if (unwinds) {
        out->frames = weft__shot_unwind(viewer->shot, viewer->trails, out->pcs, viewer->max_frames);
        out->no_frames = out->frames ? NULL : "cannot be unwound";
    }
}

static void look_at_running(struct weft__viewer *viewer, int tid, struct weft__view *out)
{
    if (!viewer->max_frames) {
        return;
    }
    if (!viewer->sampling || viewer->sample_budget <= 0) {
        out->no_frames = viewer->sampling ? "not asked: others did not answer" : "not asked";
        return;
    }
    int64_t now = weft__clock_ns();
    int64_t most =
        viewer->sample_ns < viewer->sample_budget ? viewer->sample_ns : viewer->sample_budget;
    int err = weft__sample(tid, out->fiber, weft__clock_later(now, most), viewer->shot);
    viewer->sample_budget -= weft__clock_ns() - now;
    if (err) {
        out->no_frames = err == -ETIMEDOUT ? "did not answer in time" : "went on meanwhile";
        return;
    }
    out->frames = weft__shot_unwind(viewer->shot, NULL, out->pcs, viewer->max_frames);
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

static void snapshot_locked(const struct weft__task *task, uint64_t ident, struct weft__view *out)
{
    int64_t now = weft__clock_ns();
    out->worker = atomic_load_explicit(&task->ran_on, memory_order_relaxed);
    out->bound = task->pin;
    out->age_ns = now > task->born ? now - task->born : 0;
    snprintf(out->name, sizeof out->name, "%s", weft__task_name(task));
    if (!(ident & WEFT__IDENT_DONE) && task->home) {
        weft__text_cut(out->pool, sizeof out->pool, task->home->name);
        out->daemon = task->flags & WEFT__TASK_DAEMON;
        weft__text_cut(out->group, sizeof out->group, weft__ranks_name_locked(task));
    }
}

/* The name of another fiber, if it can be read; for a waiting stackless task without a name, the
 * name that its kind gives it. */
static void name_of(weft_fiber fiber, char *name, size_t size)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    uint64_t ident;
    if (!task || weft__ident_lock_soon(task, fiber >> 32, &ident) != 1) {
        return;
    }
    bool ready = false;
    snprintf(name, size, "%s", weft__task_name(task));
    if (!name[0] && weft__task_is_body(task) && task->body->name && weft__task_hold(task)) {
        snprintf(name, size, "%s", task->body->name(task));
        ready = weft__task_unhold(task);
    }
    weft__ident_unlock(task, ident);
    if (ready) {
        weft__place(task);
    }
}

static bool view(struct weft__viewer *viewer, struct weft__task *task, uint64_t generation,
                 struct weft__view *out)
{
    uint64_t ident;
    *out = (struct weft__view){
        .fiber = generation << 32 | task->slot, .worker = -1, .bound = -1, .since_ns = -1};
    int locked = weft__ident_lock_soon(task, generation, &ident);
    if (locked != 1) {
        out->unreadable = locked != 0;
        return out->unreadable;
    }
    if ((viewer->pool && !weft__pool_has(viewer->pool, task, ident)) ||
        (viewer->group &&
         ((ident & WEFT__IDENT_DONE) || weft__ranks_of_locked(task) != viewer->group))) {
        weft__ident_unlock(task, ident);
        return false;
    }
    snapshot_locked(task, ident, out);
    bool held = weft__task_hold(task);
    out->state = held ? WEFT_FIBER_WAITING : weft__fiber_state_of(weft__task_state(task));
    int tid = out->state == WEFT_FIBER_RUNNING ? thread_of_locked(task) : 0;
    bool body = weft__task_is_body(task);
    weft__ident_unlock(task, ident);
    if (held) {
        look_at_held(viewer, task, out);
    } else if (body) {
        out->no_frames =
            out->state == WEFT_FIBER_RUNNING && viewer->max_steps ? "one of its steps runs" : NULL;
    } else if (out->state == WEFT_FIBER_RUNNING) {
        look_at_running(viewer, tid, out);
    }
    weft__face_fn face =
        atomic_load_explicit(&weft__face_of, memory_order_acquire); /* pairs: actor */
    if (face) {
        face(out->fiber, &out->actor);
    }
    if (out->holder) {
        name_of(out->holder, out->holder_name, sizeof out->holder_name);
    }
    if (out->on_fiber) {
        name_of(out->on, out->label, sizeof out->label);
    }
    return true;
}

bool weft__view_slot(struct weft__viewer *viewer, uint32_t slot, struct weft__view *out)
{
    struct weft__task *task = weft__slab_find(slot);
    uint64_t ident = task ? atomic_load_explicit(&task->ident, memory_order_relaxed) : 0;
    return (ident & WEFT__IDENT_LIVE) && view(viewer, task, weft__ident_generation(ident), out);
}

bool weft__view_fiber(struct weft__viewer *viewer, weft_fiber fiber, struct weft__view *out)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    return task && view(viewer, task, fiber >> 32, out);
}
