/* The engine: runs the steps of a fiber's top frame until the fiber waits or ends. */
#include <errno.h>

#include "frame/frame.h"
#include "sync/source.h"
#include "task/ident.h"

/* The input of a frame's next step: a value, or an error. */
struct outcome {
    struct weft_got got;
    weft_error *error;
};

static struct outcome value(int status, void *value)
{
    return (struct outcome){.got = {.status = status, .value = value}};
}

static struct outcome failure(weft_error *error)
{
    return (struct outcome){.error = error};
}

/* --- misuse ------------------------------------------------------------------------------ */

/* A bug of the caller that would leave the fiber without a valid state. In a group it is an error
 * that fails the group, after all frames of the fiber have handled it. */
static weft_error *misuse_error(const weft_frame *frame, const char *what)
{
    WEFT__REQUIRE(weft_group_self(), "frame %s %s", frame->kind->name, what);
    weft_group_fail(-ENOTRECOVERABLE);
    return weft__error_new(frame, -ENOTRECOVERABLE, "frame %s %s", frame->kind->name, what);
}

/* The value that a step with this action must return. */
static enum weft_step step_of(const weft_frame *frame)
{
    switch (weft__frame_get_act(frame)) {
    case WEFT__ACT_CALL:
    case WEFT__ACT_TRY:
    case WEFT__ACT_CONTINUE:
    case WEFT__ACT_COMPLETED:
        return WEFT_CALL;
    case WEFT__ACT_YIELD:
    case WEFT__ACT_SLEEP:
    case WEFT__ACT_PARK:
    case WEFT__ACT_WAIT:
    case WEFT__ACT_ARMED:
    case WEFT__ACT_SETTLED:
        return frame->act & WEFT__ACT_ENDED_EARLY ? WEFT_CALL : WEFT_SUSPEND;
    default:
        return WEFT_RETURN;
    }
}

/* --- waits ------------------------------------------------------------------------------------ */

static struct weft__await *waits_of(const weft_frame *frame)
{
    return frame->wait;
}

/* Unlink the nodes of the frame's wait, whether the fiber was parked or not. */
static void unlink_nodes(const weft_frame *frame)
{
    for (unsigned i = 0; i < frame->waits; i++) {
        struct weft__await *wait = &waits_of(frame)[i];
        wait->kind->finish(wait);
    }
}

static bool is_wait(enum weft__frame_act act)
{
    return act >= WEFT__ACT_SLEEP && act <= WEFT__ACT_WAIT;
}

/* The result that the object has stored in the node. */
static inline struct weft_got got_of(const struct weft__await *wait)
{
    return (struct weft_got){.status = wait->node.status, .value = wait->node.value};
}

static inline weft_step_fn next_of(const weft_frame *frame)
{
    return frame->next ? frame->next->fn : frame->kind->start;
}

/* A wait on an object of the fiber's own group, without a misuse flag. */
static inline bool is_in_group(unsigned act)
{
    _Static_assert(WEFT__ACT_ARMED % 2 == 0 && WEFT__ACT_SETTLED == WEFT__ACT_ARMED + 1,
                   "one look");
    return (act | 1) == WEFT__ACT_SETTLED;
}

static inline bool is_suspension(enum weft__frame_act act)
{
    return is_wait(act) || act == WEFT__ACT_YIELD;
}

static inline enum weft__stackless_step suspension_result(enum weft__frame_act act)
{
    if (__builtin_expect(act == WEFT__ACT_SETTLED, 1)) {
        return WEFT__STACKLESS_GONE;
    }
    return act == WEFT__ACT_YIELD ? WEFT__STACKLESS_YIELD : WEFT__STACKLESS_WAIT;
}

/* The object of the wait, for inspection. */
static struct weft__wait_info wait_of(const weft_frame *frame)
{
    static const struct weft__wait_kind sleep_kind = {.name = "sleep"};
    static const struct weft__wait_kind park_kind = {.name = "park"};
    if (frame->waits) {
        const struct weft__await *wait = waits_of(frame);
        return (struct weft__wait_info){.kind = &wait->kind->wait_kind,
                                        .on = wait->on,
                                        .since = wait->since,
                                        .others = frame->waits - 1u};
    }
    return (struct weft__wait_info){
        .kind = weft__frame_get_act(frame) == WEFT__ACT_SLEEP ? &sleep_kind : &park_kind};
}

static bool ends_waits(enum weft__reason reason)
{
    return reason == WEFT__REASON_CANCEL || reason == WEFT__REASON_INTERRUPT;
}

/* With the object's name, if the object may be read: while its nodes are linked. An object that
 * ended the wait by itself may have been freed since. */
static struct weft__ended describe_wait(const weft_frame *frame, bool named)
{
    struct weft__wait_info wait = wait_of(frame);
    return named ? weft__ended_describe(wait.kind, wait.on, wait.others)
                 : (struct weft__ended){.kind = wait.kind, .on = wait.on, .others = wait.others};
}

static struct outcome outcome_of(const weft_frame *frame, enum weft__reason reason,
                                 const struct weft__ended *what)
{
    struct outcome out = value(0, NULL);
    const struct weft__await *wait = waits_of(frame);
    int err = weft__reason_errno(reason);
    if (weft__reason_is_done(reason)) {
        if (frame->waits == 0) {
            return out; /* an unpark */
        }
        wait += weft__reason_index(reason);
        err = wait->kind->outcome(wait, &out.got);
    } else if (reason == WEFT__REASON_NONE) {
        err = -ENOMEM;
    } else if (err == -ETIMEDOUT && !(frame->waits && wait->kind->throws_timeout)) {
        out = value(weft__frame_get_act(frame) == WEFT__ACT_SLEEP ? 0 : -ETIMEDOUT, NULL);
        if (frame->waits && wait->kind->timed_out) {
            wait->kind->timed_out(wait, frame->waits, &out.got);
        }
        return out;
    }
    if (err) {
        struct weft__ended unnamed = describe_wait(frame, false);
        out.error = weft__error_from_wait(frame, err, what ? what : &unnamed, what != NULL);
    }
    return out;
}

/* Finish the wait, or one round of it, which ended for this reason. False: the wait continues with
 * another round. */
static bool end_wait_or_round(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                              enum weft__reason reason, struct outcome *out)
{
    struct weft__ended ended, *what = NULL;
    if (__builtin_expect(ends_waits(reason), 0)) { /* for weft_fiber_ended_wait */
        ended = describe_wait(frame, true);
        what = &ended;
    }
    unlink_nodes(frame);
    if (__builtin_expect(frame->waits == 0 || !waits_of(frame)->kind->again, 1)) {
        *out = outcome_of(frame, reason, what);
        return true;
    }
    int err = 0;
    *out = value(0, NULL);
    if (weft__await_next_round(w, task, frame, reason, &out->got, &err)) {
        return false;
    }
    if (err) {
        /* A wait in rounds is on a descriptor and not on an object, or on an object that still
         * exists. */
        if (!what) {
            ended = describe_wait(frame, wait_of(frame).kind->descriptor);
        }
        out->error = weft__error_from_wait(frame, err, &ended, err == -ECANCELED || err == -EINTR);
    }
    return true;
}

/* --- calls and returns of frames -------------------------------------------------------------- */

static inline void begin_frame(struct weft__task *task, weft_frame *caller, weft_frame *frame)
{
    frame->caller = caller;
    frame->fiber = task->slot;
    frame->phase = WEFT__FRAME_BODY;
    frame->next = NULL;
    weft__stackless_set_data(task, frame);
}

/* Enter a frame that was called. Returns an error if the frame cannot be called. */
static weft_error *enter(struct weft__task *task, weft_frame *caller, weft_frame *frame)
{
    if (frame->fiber) {
        return misuse_error(frame, frame->fiber == task->slot ? "is called while it is in use"
                                                              : "is used by two fibers");
    }
    begin_frame(task, caller, frame);
    return NULL;
}

/* The frame has its result or error. True: it is left. False: finally runs first, and the result is
 * pending. */
static bool finally_or_leave(struct weft__task *task, weft_frame *frame, const struct outcome *out)
{
    if (frame->phase == WEFT__FRAME_FINALLY) {
        task->shields--;
        return true;
    }
    if (frame->phase == WEFT__FRAME_HANDLING && frame->pending_outcome != out->error) {
        weft__error_free(frame->pending_outcome);
    }
    if (!frame->kind->finally) {
        return true;
    }
    frame->phase = WEFT__FRAME_FINALLY;
    frame->failed = out->error != NULL;
    frame->pending_outcome = out->error ? out->error : out->got.value;
    frame->next = NULL;
    task->shields++;
    return false;
}

/* In finally, a result or an error replaces the pending one; an error keeps an earlier error as
 * suppressed. */
static void replace_pending(const weft_frame *frame, const struct outcome *out)
{
    if (frame->phase != WEFT__FRAME_FINALLY || !frame->failed ||
        frame->pending_outcome == out->error) {
        return;
    }
    if (out->error) {
        weft__error_suppress(out->error, frame->pending_outcome);
    } else {
        weft__error_free(frame->pending_outcome);
    }
}

/* Return to the caller. NULL: this was the bottom frame. */
static weft_frame *leave(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                         struct outcome *out)
{
    weft_frame *caller = frame->caller;
    if (!caller) {
        weft__held_abandon(task); /* as in end_fast */
    }
    weft__frame_release_here(w, frame);
    weft__stackless_set_data(task, caller);
    if (caller && caller->is_try) {
        caller->is_try = false;
        if (out->error) {
            caller->caught = true;
            caller->wait = out->error;
            *out = value(weft_error_code(out->error), NULL);
        }
    }
    return caller;
}

/* --- one step --------------------------------------------------------------------------------- */

/* If the outcome is an error and the top frame has a handle that has not run yet, begin the
 * handling. */
static bool begin_handling(weft_frame *frame, const struct outcome *out)
{
    if (!out->error || frame->phase != WEFT__FRAME_BODY || !frame->kind->handle) {
        return false;
    }
    frame->phase = WEFT__FRAME_HANDLING;
    frame->pending_outcome = out->error;
    frame->next = NULL;
    return true;
}

static inline void begin_step(weft_frame *frame)
{
    frame->act = WEFT__ACT_NONE;
    frame->waits = 0;
}

static enum weft_step call_next(weft_frame *frame, struct weft_got got)
{
    weft_error *caught = frame->caught ? frame->wait : NULL;
    enum weft_step step = next_of(frame)(frame, got);
    if (__builtin_expect(caught != NULL, 0)) {
        frame->caught = false;
        weft__error_free(caught);
    }
    return step;
}

/* Did the step perform one action, and return it? */
static bool is_valid_step(const weft_frame *frame, enum weft_step step)
{
    return frame->act != WEFT__ACT_NONE && step == step_of(frame) &&
           !(frame->act & WEFT__ACT_MISUSED);
}

/* Undo the action of a step that misused the API, and make the error. */
static weft_error *undo_misuse(struct weft__worker *w, struct weft__task *task, weft_frame *frame)
{
    enum weft__frame_act act = weft__frame_get_act(frame);
    const char *what = frame->act & WEFT__ACT_WRONG_FRAME ? "waits with a frame that is not its own"
                       : frame->act & WEFT__ACT_MISUSED   ? "performed two actions in one step"
                       : act == WEFT__ACT_NONE ? "has neither called, nor waited, nor returned"
                                               : "returned a value that does not match its action";
    if (is_wait(act)) {
        enum weft__reason reason = weft__stackless_wait_reason(w, task);
        unlink_nodes(frame);
        if (frame->waits && waits_of(frame)->kind->abandon) {
            waits_of(frame)->kind->abandon(waits_of(frame), reason);
        }
    } else if (act == WEFT__ACT_THROW) {
        weft__error_free(frame->wait);
    } else if (act == WEFT__ACT_CALL || act == WEFT__ACT_TRY) {
        weft__frame_drop(frame->wait);
    }
    return misuse_error(frame, what);
}

enum next_action {
    RUN_STEP,      /* with the outcome, in the frame that is on top now */
    LEAVE_FRAME,   /* the frame is left, with the outcome */
    SUSPEND_FIBER, /* the fiber waits or yields */
};

/* Perform the action of the step. */
static enum next_action act_on(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                               struct outcome *out)
{
    weft_error *error;
    switch (weft__frame_get_act(frame)) {
    case WEFT__ACT_TRY:
        frame->is_try = true; /* fall through */
    case WEFT__ACT_CALL:
        error = enter(task, frame, frame->wait);
        if (error) {
            frame->is_try = false;
        }
        *out = error ? failure(error) : value(0, NULL);
        return RUN_STEP;
    case WEFT__ACT_CONTINUE:
        *out = value(0, frame->wait);
        return RUN_STEP;
    case WEFT__ACT_COMPLETED:
        *out = value(waits_of(frame)->node.status, waits_of(frame)->node.value);
        return RUN_STEP;
    case WEFT__ACT_SLEEP:
    case WEFT__ACT_PARK:
    case WEFT__ACT_WAIT:
    case WEFT__ACT_ARMED:
    case WEFT__ACT_SETTLED:
        if (!(frame->act & WEFT__ACT_ENDED_EARLY)) {
            return SUSPEND_FIBER;
        }
        return end_wait_or_round(w, task, frame, weft__stackless_wait_reason(w, task), out)
                   ? RUN_STEP
                   : SUSPEND_FIBER;
    case WEFT__ACT_YIELD:
        return SUSPEND_FIBER;
    case WEFT__ACT_RETURN:
        *out = value(0, frame->wait);
        replace_pending(frame, out);
        return LEAVE_FRAME;
    case WEFT__ACT_DONE:
        if (frame->phase != WEFT__FRAME_FINALLY) {
            *out = value(0, NULL);
        } else {
            *out =
                frame->failed ? failure(frame->pending_outcome) : value(0, frame->pending_outcome);
        }
        return LEAVE_FRAME;
    case WEFT__ACT_RETHROW:
        if (frame->phase != WEFT__FRAME_HANDLING) {
            *out = failure(misuse_error(frame, "has no error to rethrow"));
            return RUN_STEP;
        }
        *out = failure(frame->pending_outcome);
        return RUN_STEP;
    default: /* THROW */
        *out = failure(frame->wait);
        return RUN_STEP;
    }
}

static bool is_cancelled(const struct weft__task *task)
{
    return weft__ident_flags(task) & (WEFT__IDENT_CANCEL | WEFT__IDENT_ABORT);
}

/* The bottom frame, which was of this kind, is left. */
static void end(struct weft__worker *w, struct weft__task *task, const struct weft_frame_kind *kind,
                const struct outcome *out)
{
    int status = out->error ? weft_error_code(out->error) : 0;
    if (out->error && !(status == -ECANCELED && is_cancelled(task))) {
        const char *name = weft__task_name(task);
        weft__error_report(weft__task_handle(task), name[0] ? name : kind->name, out->error);
    }
    if (out->error) {
        weft__error_free(out->error);
    }
    if (task->stackless->on_end) {
        task->stackless->on_end(task, status);
    }
    weft__stackless_end(w, task, out->got.value, status);
}

/* --- the general path ------------------------------------------------------------------------- */

/* Continue with the outcome or, if `given` is NULL, with the action of the top frame's step, which
 * is not checked yet. */
static enum weft__stackless_step run_general(struct weft__worker *w, struct weft__task *task,
                                             const struct outcome *given, enum weft_step step)
{
    weft_frame *frame = task->own;
    struct outcome out = given ? *given : value(0, NULL);
    enum next_action next_action = RUN_STEP;
    bool stepped = !given;
    for (;; stepped = false) {
        if (!stepped && next_action == LEAVE_FRAME && finally_or_leave(task, frame, &out)) {
            const struct weft_frame_kind *kind = frame->kind;
            frame = leave(w, task, frame, &out);
            if (!frame) {
                end(w, task, kind, &out);
                return WEFT__STACKLESS_END;
            }
            next_action = RUN_STEP;
        }
        if (!stepped) {
            bool handled = next_action == RUN_STEP && begin_handling(frame, &out);
            if (out.error && next_action == RUN_STEP && !handled) {
                replace_pending(frame, &out);
                next_action = LEAVE_FRAME;
                continue;
            }
            begin_step(frame);
            step = handled                      ? frame->kind->handle(frame, out.error)
                   : next_action == LEAVE_FRAME ? frame->kind->finally(frame)
                                                : call_next(frame, out.got);
        }
        if (__builtin_expect(!is_valid_step(frame, step), 0)) {
            if (weft__frame_get_act(frame) == WEFT__ACT_SETTLED && !weft__task_unsettle(task)) {
                weft__frame_add_flag(frame, WEFT__ACT_MISUSE_PENDING);
                return WEFT__STACKLESS_GONE;
            }
            out = failure(undo_misuse(w, task, frame));
            next_action = RUN_STEP;
            continue;
        }
        next_action = act_on(w, task, frame, &out);
        if (next_action == SUSPEND_FIBER) {
            return suspension_result(weft__frame_get_act(frame));
        }
        frame = task->own;
    }
}

static __attribute__((noinline)) enum weft__stackless_step
run_stepped(struct weft__worker *w, struct weft__task *task, enum weft_step step)
{
    return run_general(w, task, NULL, step);
}

static __attribute__((noinline)) enum weft__stackless_step
run_resumed(struct weft__worker *w, struct weft__task *task, enum weft__reason reason)
{
    struct outcome out;
    if (!end_wait_or_round(w, task, task->own, reason, &out)) {
        return WEFT__STACKLESS_WAIT;
    }
    return run_general(w, task, &out, WEFT_CALL);
}

/* --- the fast path ---------------------------------------------------------------------------- */

/* Does this frame, which has returned, return directly to its caller or to the fiber's end? */
static inline bool is_direct_return(const weft_frame *frame)
{
    return frame->phase == WEFT__FRAME_BODY && !frame->kind->finally &&
           (!frame->caller || !frame->caller->is_try);
}

/* These functions load the worker and the fiber themselves: otherwise their caller, which runs a
 * step before, would have to keep both in registers across the step. */

static __attribute__((noinline)) enum weft__stackless_step end_fast(weft_frame *bottom)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = atomic_load_explicit(&w->stackless, memory_order_relaxed);
    void *result = bottom->wait;
    weft__held_abandon(task); /* before the memory that may contain the lock is freed */
    weft__frame_release_here(w, bottom);
    if (task->stackless->on_end) {
        task->stackless->on_end(task, 0);
    }
    weft__stackless_end(w, task, result, 0);
    return WEFT__STACKLESS_END;
}

/* Continue after a step of the fiber's top frame. Handles the common actions; run_stepped handles
 * the rest. */
static __attribute__((noinline)) enum weft__stackless_step run_steps(enum weft_step step)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = atomic_load_explicit(&w->stackless, memory_order_relaxed);
    weft_frame *frame = task->own, *other;
    for (;;) {
        struct weft_got got = {0};
        enum weft__frame_act act = (enum weft__frame_act)frame->act;
        if (step == WEFT_SUSPEND && is_suspension(act)) {
            return suspension_result(act);
        }
        if (step == WEFT_CALL && act == WEFT__ACT_COMPLETED) {
            got = got_of(waits_of(frame));
        } else if (step == WEFT_CALL && act == WEFT__ACT_CONTINUE) {
            got.value = frame->wait;
        } else if (step == WEFT_CALL && act == WEFT__ACT_CALL &&
                   (other = frame->wait)->fiber == 0) {
            begin_frame(task, frame, other);
            frame = other;
        } else if (step == WEFT_RETURN && act == WEFT__ACT_RETURN && is_direct_return(frame)) {
            other = frame->caller;
            if (!other) {
                return end_fast(frame);
            }
            got.value = frame->wait;
            weft__frame_release_here(w, frame);
            frame = other;
            weft__stackless_set_data(task, frame);
        } else {
            return run_stepped(w, task, step);
        }
        begin_step(frame);
        step = next_of(frame)(frame, got);
    }
}

/* The fiber waited, and the wait was not ended by an object of its group; or the step of another
 * fiber has set a flag in its frame. */
static __attribute__((noinline)) enum weft__stackless_step run_after_wait(struct weft__worker *w,
                                                                          struct weft__task *task)
{
    weft_frame *frame = task->own;
    enum weft__frame_act act = weft__frame_get_act(frame);
    struct weft_got got = {0};
    if (frame->act & WEFT__ACT_MISUSE_PENDING) {
        struct outcome out = failure(undo_misuse(w, task, frame));
        return run_general(w, task, &out, WEFT_CALL);
    }
    if (is_in_group(act) && weft__task_is_done(task)) {
        got = got_of(waits_of(frame));
    } else if (is_wait(act)) {
        enum weft__reason reason = weft__stackless_wait_reason(w, task);
        if (act != WEFT__ACT_SLEEP || reason != WEFT__REASON_TIMEOUT) {
            return run_resumed(w, task, reason);
        }
    }
    begin_step(frame);
    return run_steps(next_of(frame)(frame, got));
}

/* Run the next step with the result of its wait, or without one. */
static inline enum weft_step run_step_with(weft_frame *frame, const struct weft__await *wait)
{
    begin_step(frame);
    return next_of(frame)(frame, got_of(wait));
}

static inline enum weft_step run_step(weft_frame *frame)
{
    begin_step(frame);
    return next_of(frame)(frame, (struct weft_got){0});
}

/* Usually runs one step, or two if the first got at once what it asked for. Only the frame is kept
 * in a register across a step. */
enum weft__stackless_step weft__frame_run(struct weft__worker *w, struct weft__task *task)
{
    weft_frame *frame = task->own;
    enum weft_step step;
    if (__builtin_expect(is_in_group(frame->act) && weft__task_is_done(task), 1)) {
        step = run_step_with(frame, waits_of(frame));
    } else if (frame->act == WEFT__ACT_YIELD) {
        step = run_step(frame);
    } else if (frame->act == WEFT__ACT_NONE) {
        frame->fiber = task->slot; /* its first step */
        step = run_step(frame);
    } else {
        return run_after_wait(w, task);
    }
    if (__builtin_expect(step == WEFT_SUSPEND && frame->act == WEFT__ACT_SETTLED, 1)) {
        return WEFT__STACKLESS_GONE;
    }
    if (step == WEFT_CALL && frame->act == WEFT__ACT_COMPLETED) {
        step = run_step_with(frame, waits_of(frame));
    }
    enum weft__frame_act act = (enum weft__frame_act)frame->act;
    if (step == WEFT_SUSPEND && is_suspension(act)) {
        return suspension_result(act);
    }
    bool ends =
        step == WEFT_RETURN && act == WEFT__ACT_RETURN && !frame->caller && is_direct_return(frame);
    return ends ? end_fast(frame) : run_steps(step);
}

/* --- inspection ------------------------------------------------------------------------------- */

/* The name of a fiber that has none: its bottom frame's. */
const char *weft__frame_name(const struct weft__task *task)
{
    const weft_frame *frame = task->own;
    while (frame->caller) {
        frame = frame->caller;
    }
    return frame->kind->name;
}

struct weft__wait_info weft__frame_wait_info(const struct weft__task *task)
{
    return wait_of(task->own);
}

int weft__frame_trace(const struct weft__task *task, void **out, int max)
{
    int n = 0;
    for (const weft_frame *frame = task->own; frame && n + 1 < max; frame = frame->caller) {
        out[n++] = (void *)(uintptr_t)frame->kind;
        out[n++] = (void *)(uintptr_t)frame->next;
    }
    return n;
}

struct weft__stackless_frame weft__frame_describe(void *const *pair)
{
    const struct weft_frame_kind *kind = pair[0];
    const struct weft_resume_point *at = pair[1];
    struct weft__stackless_frame out = {.frame = kind->name};
    if (at) {
        out.step = at->name;
        out.file = at->file;
        out.line = at->line;
    }
    return out;
}

/* The error that is being handled: that of the innermost frame that has one. */
static const weft_error *current_error(const struct weft__task *task)
{
    for (const weft_frame *frame = task->own; frame; frame = frame->caller) {
        if (frame->caught) {
            return frame->wait;
        }
        if (frame->phase == WEFT__FRAME_HANDLING ||
            (frame->phase == WEFT__FRAME_FINALLY && frame->failed)) {
            return frame->pending_outcome;
        }
    }
    return NULL;
}

struct weft__ended weft__frame_ended_wait(const struct weft__task *task)
{
    const weft_error *error = current_error(task);
    return error ? weft__error_ended_wait(error) : (struct weft__ended){0};
}

const struct weft__stackless_kind weft__frame_stackless = {WEFT__FRAME_STACKLESS_KIND,
                                                           .step = weft__frame_run};

/* --- steps that do not wait ------------------------------------------------------------------- */

static enum weft_step call(weft_frame *frame, weft_frame *sub, const struct weft_resume_point *then,
                           enum weft__frame_act act)
{
    if (weft__frame_set_act(frame, act)) {
        frame->next = then;
        frame->wait = sub;
    } else if (frame->wait != sub) {
        weft__frame_drop(sub); /* it will not be called */
    }
    return WEFT_CALL;
}

enum weft_step weft_frame_call(weft_frame *frame, weft_frame *sub,
                               const struct weft_resume_point *then)
{
    return call(frame, sub, then, WEFT__ACT_CALL);
}

enum weft_step weft_frame_try(weft_frame *frame, weft_frame *sub,
                              const struct weft_resume_point *then)
{
    return call(frame, sub, then, WEFT__ACT_TRY);
}

const weft_error *weft_frame_caught(const weft_frame *frame)
{
    return frame->caught ? frame->wait : NULL;
}

enum weft_step weft_frame_continue(weft_frame *frame, void *passed,
                                   const struct weft_resume_point *then)
{
    if (weft__frame_set_act(frame, WEFT__ACT_CONTINUE)) {
        frame->next = then;
        frame->wait = passed;
    }
    return WEFT_CALL;
}

enum weft_step weft_frame_return(weft_frame *frame, void *result)
{
    if (weft__frame_set_act(frame, WEFT__ACT_RETURN)) {
        frame->wait = result;
    }
    return WEFT_RETURN;
}

enum weft_step weft_frame_done(weft_frame *frame)
{
    weft__frame_set_act(frame, WEFT__ACT_DONE);
    return WEFT_RETURN;
}

enum weft_step weft_frame_yield(weft_frame *frame, const struct weft_resume_point *then)
{
    if (weft__frame_set_act(frame, WEFT__ACT_YIELD)) {
        frame->next = then;
    }
    return WEFT_SUSPEND;
}
