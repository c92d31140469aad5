/* Scopes and frames: children whose bottom is a frame, and a parent that waits in a step. A child
 * is a stackless task of its own kind: its only joiner is its record in the scope, and everything
 * else is found through that record. */
#include <errno.h>

#include "base/nonnull.h"
#include "frame/frame.h"
#include "sync/scope.h"

static enum weft__stackless_step run_child(struct weft__worker *w, struct weft__task *task)
{
    if (__builtin_expect(!weft__scope_child_has_started(task->joiners), 0)) {
        weft__scope_child_start(task->joiners);
    }
    return weft__frame_run(w, task);
}

static struct weft__scope *scope_of(const struct weft__task *task)
{
    return weft__scope_of_child(task->joiners);
}

static void on_end(struct weft__task *task, int status)
{
    weft__scope_child_exit(task->joiners, status);
}

static const struct weft__stackless_kind child_body = {
    WEFT__FRAME_STACKLESS_KIND,
    .step = run_child,
    .scope = scope_of,
    .on_end = on_end,
};

int weft_scope_spawn_frame(weft_scope *scope, weft_fiber *out, weft_frame *frame,
                           const struct weft_fiber_opts *opts)
{
    WEFT__NONNULL(scope);
    struct weft__scope *s = weft__scope_of(scope);
    int err = weft__scope_admit(s);
    if (err) {
        return err;
    }
    struct weft__node *child = weft__scope_child_make(s);
    err = child ? weft__frame_spawn(s->pool, out, &child_body, frame,
                                    &(struct weft__stackless_opts){.name = opts ? opts->name : NULL,
                                                                   .inherit_group = true,
                                                                   .joiner = child})
                : -ENOMEM;
    if (err) {
        weft__scope_admit_undo(s, child);
    }
    return err;
}

/* --- the parent's wait ----------------------------------------------------------------- */

/* A cancel, an interrupt or a deadline that ends the parent's wait is passed to the children, and
 * the wait continues: a cancel stays set and must not end the wait twice. */
static bool again_scope(struct weft__await *wait, enum weft__reason reason,
                        struct weft__await_round *next, struct weft_got *got, int *err)
{
    struct weft__scope *s = wait->object;
    const struct weft__task *self = weft__running(weft__worker_self());
    (void)err;
    if (weft__scope_finish(s, &wait->node, reason, &got->status)) {
        return false;
    }
    bool cancelled = weft__ident_flags(self) & (WEFT__IDENT_CANCEL | WEFT__IDENT_ABORT);
    next->how = cancelled ? WEFT__WAIT_OBJECT | WEFT__WAIT_SHIELDED | WEFT__WAIT_UNABORTABLE
                          : WEFT__WAIT_OBJECT;
    next->deadline = weft__scope_until(s);
    return true;
}

static bool attempt_scope(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)err;
    return weft__scope_finish(wait->object, &wait->node, WEFT__REASON_NONE, &got->status);
}

static bool arm_scope(struct weft__await *wait)
{
    return weft__scope_arm(wait->object, &wait->node);
}

/* Done by `again`, which needs the reason. */
static void finish_scope(struct weft__await *wait)
{
    (void)wait;
}

static void abandon_scope(struct weft__await *wait, enum weft__reason reason)
{
    struct weft__scope *s = wait->object;
    (void)reason;
    weft__source_leave(&s->source, &s->source.waiters, &wait->node);
}

static const struct weft__await_kind scope_kind = {
    .wait_kind = {.name = "scope", .label = weft__source_label},
    .attempt = attempt_scope,
    .arm = arm_scope,
    .finish = finish_scope,
    .again = again_scope,
    .abandon = abandon_scope,
    .uninterruptible = true,
};

enum weft_step weft_frame_await_scope(weft_frame *frame, struct weft_wait *wait, weft_scope *scope,
                                      int64_t deadline, const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = weft__await_begin(frame, &task);
    struct weft__await *a = weft__await_of(wait);
    if (!w) {
        return WEFT_SUSPEND;
    }
    weft__scope_close_begin(weft__scope_of(scope), deadline);
    *a = (struct weft__await){
        .kind = &scope_kind, .object = scope, .on = weft__await_address(scope)};
    return weft__await(w, task, frame, a, 1, weft__scope_until(weft__scope_of(scope)), then);
}
