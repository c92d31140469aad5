/* Steps that wait. Each tries first, then arms: what is there already goes on at once. */
#include <errno.h>

#include "frame/frame.h"
#include "sched/handle.h"
#include "sched/ident.h"
#include "sched/pool.h"
#include "sync/chan.h"
#include "sync/cond.h"
#include "sync/event.h"
#include "sync/future.h"

#define MOST_CONDITIONS 64u

static struct weft__await *await_of(struct weft_wait *wait)
{
    return (struct weft__await *)(void *)wait;
}

static uint64_t address(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

/* The worker and the fiber of a step; a frame whose step does not run cannot wait. */
static struct weft__worker *here(const weft_frame *frame, struct weft__task **task)
{
    struct weft__worker *w = weft__worker_self();
    *task = w ? atomic_load_explicit(&w->body, memory_order_relaxed) : NULL;
    WEFT__REQUIRE(*task && (*task)->slot == frame->fiber, "frame %s waits outside of its fiber",
                  frame->kind->name);
    return w;
}

/* Its nodes are linked, if there are any. */
static enum weft_step park(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                           int64_t deadline)
{
    frame->over = !weft__body_park(w, task, deadline);
    return frame->over ? WEFT_CALL : WEFT_SUSPEND;
}

/* Links all nodes. False: one could be had, and none is linked. */
static bool arm(struct weft__task *task, struct weft__await *waits, unsigned n)
{
    weft__body_arm(task, WEFT__WAIT_OBJECT);
    for (unsigned i = 0; i < n; i++) {
        weft__node_init(&waits[i].node, weft__body_waiter(task), i);
        waits[i].node.item = waits[i].item;
        if (!waits[i].kind->arm(&waits[i])) {
            enum weft__reason reason = weft__task_disarm(task);
            WEFT__ASSERT(n == 1 && reason == WEFT__REASON_NONE);
            return false;
        }
    }
    return true;
}

static enum weft_step throw(weft_frame * frame, int err, const struct weft__await *wait) {
    if (weft__frame_does(frame, WEFT__ACT_THROW)){
        frame->wait = weft__error_new(frame, err, "%s", wait->kind->shown.name);}
return WEFT_RETURN;
}

/* The whole of it. Of several objects none can be had at once. */
static enum weft_step await(weft_frame *frame, struct weft__await *waits, unsigned n,
                            int64_t deadline, const struct weft_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = here(frame, &task);
    const struct weft__await_kind *kind = waits->kind;
    if (frame->act != WEFT__ACT_NONE) {
        frame->misused = true;
        return WEFT_SUSPEND;
    }
    do {
        struct weft_got got = {0};
        int err = 0;
        if (kind->attempt && kind->attempt(waits, &got, &err)) {
            return err ? throw(frame, err, waits)
                       : weft__frame_go(frame, got.status, got.value, then);
        }
    } while (!arm(task, waits, n));
    frame->act = WEFT__ACT_WAIT;
    frame->next = then;
    frame->wait = waits;
    frame->waits = (uint8_t)n;
    return park(w, task, frame, deadline);
}

/* --- without an object ------------------------------------------------------------------------ */

enum weft_step weft_frame_sleep(weft_frame *frame, int64_t until, const struct weft_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = here(frame, &task);
    if (!weft__frame_does(frame, WEFT__ACT_SLEEP)) {
        return WEFT_SUSPEND;
    }
    frame->next = then;
    weft__body_arm(task, WEFT__WAIT_OBJECT);
    return park(w, task, frame, until);
}

enum weft_step weft_frame_park(weft_frame *frame, int64_t deadline, const struct weft_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = here(frame, &task);
    if (frame->act != WEFT__ACT_NONE) {
        frame->misused = true;
        return WEFT_SUSPEND;
    }
    for (;;) { /* as weft_park */
        if ((weft__ident_flags(task) & WEFT__IDENT_PERMIT) &&
            weft__ident_take(task, WEFT__IDENT_PERMIT)) {
            return weft__frame_go(frame, 0, NULL, then);
        }
        weft__body_arm(task, WEFT__WAIT_PARK);
        /* A permit that came before the ticket could be seen. pairs: weft_unpark sets, then looks */
        if (!(weft__ident_flags(task) & WEFT__IDENT_PERMIT)) {
            frame->act = WEFT__ACT_PARK;
            frame->next = then;
            return park(w, task, frame, deadline);
        }
        if (weft__task_disarm(task) == WEFT__REASON_DONE) {
            return weft__frame_go(frame, 0, NULL, then);
        }
    }
}

/* --- events and conditions --------------------------------------------------------------------- */

static int status_only(const struct weft__await *wait, struct weft_got *got)
{
    got->status = wait->node.status;
    return 0;
}

static bool attempt_event(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)got, (void)err;
    return weft_event_is_set(wait->object);
}

static bool arm_event(struct weft__await *wait)
{
    return weft__event_arm(weft__event_of(wait->object), &wait->node);
}

static void finish_event(struct weft__await *wait)
{
    weft__event_finish(weft__event_of(wait->object), &wait->node);
}

static const struct weft__await_kind event_kind = {
    .shown = {.name = "event", .label = weft__source_label},
    .attempt = attempt_event,
    .arm = arm_event,
    .finish = finish_event,
    .outcome = status_only,
};

enum weft_step weft_frame_await_event(weft_frame *frame, struct weft_wait *wait, weft_event *event,
                                      int64_t deadline, const struct weft_point *then)
{
    struct weft__await *a = await_of(wait);
    *a = (struct weft__await){.kind = &event_kind, .object = event, .on = address(event)};
    return await(frame, a, 1, deadline, then);
}

static bool arm_cond(struct weft__await *wait)
{
    weft__cond_arm(weft__cond_of(wait->object), &wait->node);
    return true;
}

static void finish_cond(struct weft__await *wait)
{
    weft__cond_finish(weft__cond_of(wait->object), &wait->node);
}

static int which_cond(const struct weft__await *wait, struct weft_got *got)
{
    got->value = wait->object;
    return 0;
}

static const struct weft__await_kind cond_kind = {
    .shown = {.name = "condition", .label = weft__source_label},
    .arm = arm_cond,
    .finish = finish_cond,
    .outcome = which_cond,
};

enum weft_step weft_frame_await_cond(weft_frame *frame, struct weft_wait *wait, weft_cond *cond,
                                     int64_t deadline, const struct weft_point *then)
{
    struct weft__await *a = await_of(wait);
    a->kind = &cond_kind;
    a->object = cond;
    a->on = address(cond);
    return await(frame, a, 1, deadline, then);
}

enum weft_step weft_frame_await_conds(weft_frame *frame, struct weft_wait *waits,
                                      weft_cond *const *conds, size_t n, int64_t deadline,
                                      const struct weft_point *then)
{
    WEFT__REQUIRE(n >= 1 && n <= MOST_CONDITIONS, "frame %s waits for %zu conditions",
                  frame->kind->name, n);
    for (size_t i = 0; i < n; i++) {
        *await_of(&waits[i]) =
            (struct weft__await){.kind = &cond_kind, .object = conds[i], .on = address(conds[i])};
    }
    return await(frame, await_of(waits), (unsigned)n, deadline, then);
}

/* --- futures -------------------------------------------------------------------------------------- */

static bool attempt_future(struct weft__await *wait, struct weft_got *got, int *err)
{
    *err = weft_future_result(wait->object, &got->value);
    return *err != -EINPROGRESS;
}

static bool arm_future(struct weft__await *wait)
{
    return weft__future_arm(wait->object, &wait->node);
}

static void finish_future(struct weft__await *wait)
{
    weft__future_finish(wait->object, &wait->node);
}

static int future_result(const struct weft__await *wait, struct weft_got *got)
{
    return weft_future_result(wait->object, &got->value);
}

static const struct weft__await_kind future_kind = {
    .shown = {.name = "future", .label = weft__source_label},
    .attempt = attempt_future,
    .arm = arm_future,
    .finish = finish_future,
    .outcome = future_result,
    .throws_timeout = true,
};

enum weft_step weft_frame_await_future(weft_frame *frame, struct weft_wait *wait,
                                       weft_future *future, int64_t deadline,
                                       const struct weft_point *then)
{
    struct weft__await *a = await_of(wait);
    *a = (struct weft__await){.kind = &future_kind, .object = future, .on = address(future)};
    return await(frame, a, 1, deadline, then);
}

/* --- channels --------------------------------------------------------------------------------------- */

static bool attempt_send(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)err;
    got->status = weft__chan_try_send(wait->object, wait->item);
    return got->status != -EAGAIN;
}

static bool arm_send(struct weft__await *wait)
{
    return weft__chan_arm_send(wait->object, &wait->node);
}

static void finish_send(struct weft__await *wait)
{
    weft__chan_finish_send(wait->object, &wait->node);
}

static const struct weft__await_kind send_kind = {
    .shown = {.name = "channel send", .label = weft__source_label},
    .attempt = attempt_send,
    .arm = arm_send,
    .finish = finish_send,
    .outcome = status_only,
};

enum weft_step weft_frame_await_send(weft_frame *frame, struct weft_wait *wait, weft_chan *chan,
                                     const void *item, int64_t deadline,
                                     const struct weft_point *then)
{
    struct weft__await *a = await_of(wait);
    *a = (struct weft__await){
        .kind = &send_kind, .object = chan, .on = address(chan), .item = (void *)(uintptr_t)item};
    return await(frame, a, 1, deadline, then);
}

static bool attempt_recv(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)err;
    got->status = weft__chan_try_recv(wait->object, wait->item);
    return got->status != -EAGAIN;
}

static bool arm_recv(struct weft__await *wait)
{
    return weft__chan_arm_recv(wait->object, &wait->node);
}

static void finish_recv(struct weft__await *wait)
{
    weft__chan_finish_recv(wait->object, &wait->node);
}

static const struct weft__await_kind recv_kind = {
    .shown = {.name = "channel receive", .label = weft__source_label},
    .attempt = attempt_recv,
    .arm = arm_recv,
    .finish = finish_recv,
    .outcome = status_only,
};

enum weft_step weft_frame_await_recv(weft_frame *frame, struct weft_wait *wait, weft_chan *chan,
                                     void *item, int64_t deadline, const struct weft_point *then)
{
    struct weft__await *a = await_of(wait);
    *a =
        (struct weft__await){.kind = &recv_kind, .object = chan, .on = address(chan), .item = item};
    return await(frame, a, 1, deadline, then);
}

/* --- the end of a fiber -------------------------------------------------------------------------------- */

static uint64_t joined_fiber(uint64_t on)
{
    return on;
}

static bool attempt_join(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)err;
    got->status = wait->on == weft_self() ? -EDEADLK : weft_join(wait->on, &got->value, 0);
    return got->status != -ETIMEDOUT;
}

static bool arm_join(struct weft__await *wait)
{
    return weft__join_arm_known(wait->on, &wait->node);
}

static void finish_join(struct weft__await *wait)
{
    weft__join_leave(wait->on, &wait->node);
}

static int joined(const struct weft__await *wait, struct weft_got *got)
{
    *got = (struct weft_got){.status = wait->node.status, .value = wait->node.value};
    return 0;
}

static const struct weft__await_kind join_kind = {
    .shown = {.name = "join", .fiber = true, .holder = joined_fiber},
    .attempt = attempt_join,
    .arm = arm_join,
    .finish = finish_join,
    .outcome = joined,
};

enum weft_step weft_frame_await_join(weft_frame *frame, struct weft_wait *wait, weft_fiber fiber,
                                     int64_t deadline, const struct weft_point *then)
{
    struct weft__await *a = await_of(wait);
    *a = (struct weft__await){.kind = &join_kind, .on = fiber};
    return await(frame, a, 1, deadline, then);
}
