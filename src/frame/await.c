/* Steps that wait. Each wait first tries to complete at once and arms only if it cannot. */
#include <errno.h>

#include "chan/chan.h"
#include "dispatch/dispatcher.h"
#include "frame/frame.h"
#include "future/future.h"
#include "sched/pool.h"
#include "sync/cond.h"
#include "sync/event.h"
#include "sync/sem.h"
#include "task/handle.h"
#include "task/ident.h"

#define MAX_CONDITIONS 64u

/* `kind` is a constant at most call sites, so that its functions are inlined. */
#define HOT static inline __attribute__((always_inline))
/* The slow paths are out of line, so that the fast paths need not save registers. */
#define NOINLINE __attribute__((noinline))

static __attribute__((noinline, cold)) void report_wrong_frame(const weft_frame *frame,
                                                               const struct weft__task *running)
{
    weft_frame *top = running ? running->own : NULL;
    WEFT__REQUIRE(top && running->stackless->waits == weft__frame_wait_info,
                  "frame %s waits outside of a frame fiber", frame->kind->name);
    weft__frame_add_flag(top, WEFT__ACT_MISUSED | WEFT__ACT_WRONG_FRAME);
}

HOT struct weft__worker *begin(weft_frame *frame, struct weft__task **task)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *running =
        w ? atomic_load_explicit(&w->stackless, memory_order_relaxed) : NULL;
    if (__builtin_expect(!running || running->own != frame, 0)) {
        report_wrong_frame(frame, running);
        return NULL;
    }
    if (__builtin_expect(frame->act != WEFT__ACT_NONE, 0)) {
        weft__frame_add_flag(frame, WEFT__ACT_MISUSED);
        return NULL;
    }
    *task = running;
    return w;
}

struct weft__worker *weft__await_begin(weft_frame *frame, struct weft__task **task)
{
    return begin(frame, task);
}

HOT enum weft_step park(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                        int64_t deadline)
{
    if (__builtin_expect(weft__stackless_park(w, task, deadline), 1)) {
        return WEFT_SUSPEND;
    }
    weft__frame_add_flag(frame, WEFT__ACT_ENDED_EARLY);
    return WEFT_CALL;
}

HOT enum weft_step park_with(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                             struct weft__await *waits, unsigned n, int64_t deadline,
                             const struct weft_resume_point *then)
{
    frame->act = WEFT__ACT_WAIT;
    frame->next = then;
    frame->wait = waits;
    frame->waits = (uint8_t)n;
    waits->since = w->now;
    return park(w, task, frame, deadline);
}

enum weft_step weft__await_park(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                                struct weft__await *waits, unsigned n, int64_t deadline,
                                const struct weft_resume_point *then)
{
    return park_with(w, task, frame, waits, n, deadline, then);
}

enum weft_step weft__await_throw(weft_frame *frame, enum weft__reason reason, int err,
                                 const struct weft__await *wait, unsigned others,
                                 const struct weft_resume_point *then)
{
    frame->next = then; /* for the trace */
    if (weft__frame_set_act(frame, WEFT__ACT_THROW)) {
        bool ended = reason == WEFT__REASON_CANCEL || reason == WEFT__REASON_INTERRUPT;
        /* The step that waits has named the object, so the object exists. */
        struct weft__ended what = weft__ended_describe(&wait->kind->wait_kind, wait->on, others);
        frame->wait = weft__error_from_wait(frame, err, &what, ended);
    }
    return WEFT_RETURN;
}

/* Link the nodes; of several, none can complete at once. False: the wait can complete, and was
 * disarmed, unless it had ended with *reason. */
HOT bool arm(struct weft__task *task, const struct weft__await_kind *kind,
             struct weft__await *waits, unsigned n, enum weft__reason *reason)
{
    weft__stackless_arm(task, kind->wait_kind.holder ? WEFT__WAIT_OBJECT
                                                     : WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    for (unsigned i = 0; i < n; i++) {
        weft__node_init(&waits[i].node, weft__stackless_waiter(task), i);
        waits[i].node.item = waits[i].item;
        if (!kind->arm(&waits[i])) {
            WEFT__ASSERT(n == 1);
            *reason = weft__task_disarm(task);
            return false;
        }
    }
    return true;
}

/* The wait could complete when its node was to be linked, and a cancel or an interrupt had arrived
 * in between. */
static NOINLINE enum weft_step end_uninterruptible(weft_frame *frame, struct weft__await *wait,
                                                   enum weft__reason reason,
                                                   const struct weft_resume_point *then)
{
    struct weft_got got = {0};
    struct weft__await_round next;
    int err = 0;
    bool more = wait->kind->again(wait, reason, &next, &got, &err);
    WEFT__REQUIRE(!more && !err, "a wait of frame %s could complete but has not ended",
                  frame->kind->name);
    return weft__frame_continue_with(frame, wait, got, then);
}

HOT enum weft_step await(const struct weft__await_kind *kind, struct weft__worker *w,
                         struct weft__task *task, weft_frame *frame, struct weft__await *waits,
                         unsigned n, int64_t deadline, const struct weft_resume_point *then)
{
    enum weft__reason reason = WEFT__REASON_NONE;
    do {
        struct weft_got got = {0};
        int err = reason == WEFT__REASON_NONE ? 0 : weft__reason_errno(reason);
        if (__builtin_expect(err && kind->uninterruptible, 0)) {
            return end_uninterruptible(frame, waits, reason, then);
        }
        if (__builtin_expect(err && kind->abandon, 0)) {
            kind->abandon(waits, reason);
        }
        if (err || (kind->attempt && kind->attempt(waits, &got, &err))) {
            return err ? weft__await_throw(frame, reason, err, waits, n - 1, then)
                       : weft__frame_continue_with(frame, waits, got, then);
        }
    } while (!arm(task, kind, waits, n, &reason));
    return park_with(w, task, frame, waits, n, deadline, then);
}

enum weft_step weft__await(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                           struct weft__await *waits, unsigned n, int64_t deadline,
                           const struct weft_resume_point *then)
{
    return await(waits->kind, w, task, frame, waits, n, deadline, then);
}

/* A complete wait for one object. */
HOT enum weft_step await_one(weft_frame *frame, struct weft_wait *wait,
                             const struct weft__await_kind *kind, void *object, void *item,
                             uint64_t on, int64_t deadline, const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = begin(frame, &task);
    struct weft__await *a = weft__await_of(wait);
    if (!w) {
        return WEFT_SUSPEND;
    }
    a->kind = kind; /* the node is initialised when it is linked */
    a->object = object;
    a->item = item;
    a->on = on;
    return await(kind, w, task, frame, a, 1, deadline, then);
}

bool weft__await_next_round(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                            enum weft__reason reason, struct weft_got *got, int *err)
{
    struct weft__await *wait = frame->wait;
    struct weft__await_round next = {.how = WEFT__WAIT_OBJECT, .deadline = WEFT_FOREVER};
    while (wait->kind->again(wait, reason, &next, got, err)) {
        weft__stackless_arm(task, next.how);
        weft__node_init(&wait->node, weft__stackless_waiter(task), 0);
        if (!wait->kind->arm(wait)) {
            reason = weft__task_disarm(task);
            reason = reason == WEFT__REASON_NONE ? WEFT__REASON_DONE : reason;
            continue;
        }
        frame->act = (uint8_t)weft__frame_get_act(frame);
        if (weft__stackless_park(w, task, next.deadline)) {
            return true;
        }
        weft__frame_add_flag(frame, WEFT__ACT_ENDED_EARLY);
        reason = weft__stackless_wait_reason(w, task);
        wait->kind->finish(wait);
    }
    return false;
}

/* --- one object of the fiber's own group ------------------------------------------------------
 *
 * Nothing runs between the check of the object and the end of the step, so no second check is
 * needed. */

/* Return the object's worker, if it runs the step of this frame, the step has performed no action
 * yet, and the object is of the same group. The worker is found through the object's owner and not
 * through the thread-local, which would cost a call on the hot path. */
HOT struct weft__worker *same_group_worker(const weft_frame *frame,
                                           const struct weft__source *source)
{
    const void *owner = source->owner;
    const struct weft__group_queues *queues = weft__owner_group_queues(owner);
    if (!queues) {
        return NULL;
    }
    struct weft__worker *w = queues->rounds->worker;
    struct weft__task *running = atomic_load_explicit(&w->stackless, memory_order_relaxed);
    bool ours = running && weft__stackless_data(running) == frame && w->owner == owner &&
                frame->act == WEFT__ACT_NONE;
    return __builtin_expect(ours, 1) ? w : NULL;
}

/* The node is linked, and the wait has a deadline, is shielded, or a cancel is pending. */
static NOINLINE enum weft_step park_in_group_slow(struct weft__worker *w, struct weft__task *task,
                                                  weft_frame *frame, int64_t deadline)
{
    frame->act = WEFT__ACT_ARMED;
    weft__stackless_arm(task, WEFT__WAIT_PLAIN);
    if (weft__stackless_park_any(w, task, deadline)) {
        return WEFT_SUSPEND;
    }
    weft__frame_add_flag(frame, WEFT__ACT_ENDED_EARLY);
    return WEFT_CALL;
}

/* The wait is settled, and a cancel or an interrupt is pending. The canceller may have ended the
 * wait. */
static NOINLINE enum weft_step end_in_group(struct weft__worker *w, struct weft__task *task,
                                            weft_frame *frame)
{
    if (!weft__task_unsettle(task)) {
        return WEFT_SUSPEND;
    }
    frame->act = WEFT__ACT_ARMED;
    if (weft__stackless_park_any(w, task, WEFT_FOREVER)) {
        return WEFT_SUSPEND;
    }
    weft__frame_add_flag(frame, WEFT__ACT_ENDED_EARLY);
    return WEFT_CALL;
}

/* Wait in this list of the object. The notifier unlinks the node before it ends the wait, and has
 * stored the result. From weft__task_arm_settled on, the fiber may be fired and queued, and other
 * threads may inspect it: everything is written before. */
HOT enum weft_step await_in_group(struct weft__worker *w, weft_frame *frame, struct weft_wait *wait,
                                  const struct weft__await_kind *kind, void *object, void *item,
                                  void *value, struct weft__waitlist *list, int64_t deadline,
                                  const struct weft_resume_point *then)
{
    struct weft__task *task = atomic_load_explicit(&w->stackless, memory_order_relaxed);
    struct weft__await *a = weft__await_of(wait);
    weft__node_init(&a->node, weft__stackless_waiter(task), 0);
    a->node.item = item;
    a->node.value = value;
    weft__waitlist_push(list, &a->node);
    a->kind = kind;
    a->object = object;
    a->since = w->now;
    a->on = weft__await_address(object);
    frame->act = WEFT__ACT_SETTLED;
    frame->waits = 1;
    frame->next = then;
    frame->wait = a;
    if (__builtin_expect(deadline != WEFT_FOREVER || task->deadline || task->shields, 0)) {
        return park_in_group_slow(w, task, frame, deadline);
    }
    uint64_t resting = weft__task_settled_word(task);
    task->claim.ticket = resting >> WEFT__TICKET_SHIFT;
    weft__task_arm_settled(task, resting);
    return __builtin_expect(weft__ident_flags(task) & WEFT__IDENT_ENDS_WAITS, 0)
               ? end_in_group(w, task, frame)
               : WEFT_SUSPEND;
}

/* --- waits without an object ------------------------------------------------------------------ */

enum weft_step weft_frame_sleep(weft_frame *frame, int64_t until,
                                const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = begin(frame, &task);
    if (!w) {
        return WEFT_SUSPEND;
    }
    frame->act = WEFT__ACT_SLEEP;
    frame->next = then;
    weft__stackless_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    return park(w, task, frame, until);
}

/* For the error of a park that a cancel or an interrupt ended before the fiber was parked. */
static const struct weft__await_kind park_kind = {.wait_kind = {.name = "park"}};
static const struct weft__await parked = {.kind = &park_kind};

enum weft_step weft_frame_park(weft_frame *frame, int64_t deadline,
                               const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = begin(frame, &task);
    if (!w) {
        return WEFT_SUSPEND;
    }
    for (;;) { /* as weft_fiber_park */
        if ((weft__ident_flags(task) & WEFT__IDENT_PERMIT) &&
            weft__ident_consume(task, WEFT__IDENT_PERMIT)) {
            return weft_frame_continue(frame, NULL, then);
        }
        weft__stackless_arm(task, WEFT__WAIT_PARK);
        /* A permit that arrived before the ticket was visible. pairs: weft_fiber_unpark sets, then
         * checks */
        if (!(weft__ident_flags(task) & WEFT__IDENT_PERMIT)) {
            frame->act = WEFT__ACT_PARK;
            frame->next = then;
            return park(w, task, frame, deadline);
        }
        enum weft__reason reason = weft__task_disarm(task);
        if (reason == WEFT__REASON_DONE) {
            return weft_frame_continue(frame, NULL, then);
        }
        if (reason != WEFT__REASON_NONE) {
            return weft__await_throw(frame, reason, weft__reason_errno(reason), &parked, 0, then);
        }
    }
}

/* --- events and conditions -------------------------------------------------------------------- */

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
    .wait_kind = {.name = "event", .label = weft__source_label},
    .attempt = attempt_event,
    .arm = arm_event,
    .finish = finish_event,
    .outcome = status_only,
};

static NOINLINE enum weft_step await_event_general(weft_frame *frame, struct weft_wait *wait,
                                                   weft_event *event, int64_t deadline,
                                                   const struct weft_resume_point *then)
{
    return await_one(frame, wait, &event_kind, event, NULL, weft__await_address(event), deadline,
                     then);
}

enum weft_step weft_frame_await_event(weft_frame *frame, struct weft_wait *wait, weft_event *event,
                                      int64_t deadline, const struct weft_resume_point *then)
{
    struct weft__source *source = &weft__event_of(event)->source;
    struct weft__worker *w = same_group_worker(frame, source);
    return w && !weft_event_is_set(event) ? await_in_group(w, frame, wait, &event_kind, event, NULL,
                                                           NULL, &source->waiters, deadline, then)
                                          : await_event_general(frame, wait, event, deadline, then);
}

enum weft_step weft_frame_await_stop(weft_frame *frame, struct weft_wait *wait, int64_t deadline,
                                     const struct weft_resume_point *then)
{
    weft_group *group = weft_group_self();
    WEFT__REQUIRE(group, "frame %s calls weft_frame_await_stop outside a group", frame->kind->name);
    return weft_event_is_set(&group->stop)
               ? weft_frame_yield(frame, then) /* so that a loop around it does not starve other
                                                  fibers */
               : weft_frame_await_event(frame, wait, &group->stop, deadline, then);
}

/* --- semaphores ------------------------------------------------------------------------------- */

static uint64_t permits_of(const struct weft__await *wait)
{
    return (uint64_t)(uintptr_t)wait->item;
}

/* Until the node is linked, node.value != NULL says that the permits were taken when the node was
 * to be linked. */
static bool attempt_sem(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)got, (void)err;
    return wait->node.value || weft_sem_acquire(wait->object, permits_of(wait), 0) == 0;
}

static bool arm_sem(struct weft__await *wait)
{
    bool waits = weft__sem_arm(weft__sem_of(wait->object), &wait->node, permits_of(wait));
    if (!waits) {
        wait->node.value = wait;
    }
    return waits; /* if true, the node may be changed by other threads already */
}

static void finish_sem(struct weft__await *wait)
{
    weft__sem_finish(weft__sem_of(wait->object), &wait->node);
}

static void abandon_sem(struct weft__await *wait, enum weft__reason reason)
{
    if (wait->node.value || weft__reason_is_done(reason)) {
        weft_sem_release(wait->object, (uint64_t)(uintptr_t)wait->node.item); /* as many as were
                                                                                 armed */
    }
}

static const struct weft__await_kind sem_kind = {
    .wait_kind = {.name = "semaphore", .label = weft__source_label},
    .attempt = attempt_sem,
    .arm = arm_sem,
    .finish = finish_sem,
    .outcome = status_only,
    .abandon = abandon_sem,
};

enum weft_step weft_frame_await_sem(weft_frame *frame, struct weft_wait *wait, weft_sem *sem,
                                    uint64_t permits, int64_t deadline,
                                    const struct weft_resume_point *then)
{
    weft__await_of(wait)->node.value = NULL;
    return await_one(frame, wait, &sem_kind, sem, (void *)(uintptr_t)permits,
                     weft__await_address(sem), deadline, then);
}

static inline bool arm_cond(struct weft__await *wait)
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
    .wait_kind = {.name = "condition", .label = weft__source_label},
    .arm = arm_cond,
    .finish = finish_cond,
    .outcome = which_cond,
};

static NOINLINE enum weft_step await_cond_general(weft_frame *frame, struct weft_wait *wait,
                                                  weft_cond *cond, int64_t deadline,
                                                  const struct weft_resume_point *then)
{
    return await_one(frame, wait, &cond_kind, cond, NULL, weft__await_address(cond), deadline,
                     then);
}

enum weft_step weft_frame_await_cond(weft_frame *frame, struct weft_wait *wait, weft_cond *cond,
                                     int64_t deadline, const struct weft_resume_point *then)
{
    struct weft__source *source = &weft__cond_of(cond)->source;
    struct weft__worker *w = same_group_worker(frame, source);
    return w ? await_in_group(w, frame, wait, &cond_kind, cond, NULL, cond, &source->waiters,
                              deadline, then)
             : await_cond_general(frame, wait, cond, deadline, then);
}

enum weft_step weft_frame_await_conds(weft_frame *frame, struct weft_wait *waits,
                                      weft_cond *const *conds, size_t n, int64_t deadline,
                                      const struct weft_resume_point *then)
{
    WEFT__REQUIRE(n >= 1 && n <= MAX_CONDITIONS,
                  "frame %s waits for %zu conditions: must be 1 to 64", frame->kind->name, n);
    struct weft__task *task;
    struct weft__worker *w = begin(frame, &task);
    struct weft__await *first = weft__await_of(waits);
    if (!w) {
        return WEFT_SUSPEND;
    }
    for (size_t i = 0; i < n; i++) {
        first[i] = (struct weft__await){
            .kind = &cond_kind, .object = conds[i], .on = weft__await_address(conds[i])};
    }
    return weft__await(w, task, frame, first, (unsigned)n, deadline, then);
}

/* --- futures ---------------------------------------------------------------------------------- */

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
    .wait_kind = {.name = "future", .label = weft__source_label},
    .attempt = attempt_future,
    .arm = arm_future,
    .finish = finish_future,
    .outcome = future_result,
    .throws_timeout = true,
};

enum weft_step weft_frame_await_future(weft_frame *frame, struct weft_wait *wait,
                                       weft_future *future, int64_t deadline,
                                       const struct weft_resume_point *then)
{
    return await_one(frame, wait, &future_kind, future, NULL, weft__await_address(future), deadline,
                     then);
}

/* --- channels --------------------------------------------------------------------------------- */

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
    .wait_kind = {.name = "channel send", .label = weft__source_label},
    .attempt = attempt_send,
    .arm = arm_send,
    .finish = finish_send,
    .outcome = status_only,
};

static NOINLINE enum weft_step await_send_general(weft_frame *frame, struct weft_wait *wait,
                                                  weft_chan *chan, const void *item,
                                                  int64_t deadline,
                                                  const struct weft_resume_point *then)
{
    return await_one(frame, wait, &send_kind, chan, (void *)(uintptr_t)item,
                     weft__await_address(chan), deadline, then);
}

/* The fiber's own group; no receiver has a settled wait. */
static NOINLINE enum weft_step send_in_group(weft_frame *frame, struct weft_wait *wait,
                                             weft_chan *chan, const void *item, int64_t deadline,
                                             const struct weft_resume_point *then)
{
    struct weft__worker *w = weft__owner_group_queues(chan->source.owner)->rounds->worker;
    if (!weft__chan_can_send(chan)) {
        return await_in_group(w, frame, wait, &send_kind, chan, (void *)(uintptr_t)item, NULL,
                              weft__chan_senders_own(chan), deadline, then);
    }
    struct weft_got got = {.status = weft__chan_send_own(w, chan, item)};
    return got.status == -EAGAIN
               ? await_send_general(frame, wait, chan, item, deadline, then)
               : weft__frame_continue_with(frame, weft__await_of(wait), got, then);
}

enum weft_step weft_frame_await_send(weft_frame *frame, struct weft_wait *wait, weft_chan *chan,
                                     const void *item, int64_t deadline,
                                     const struct weft_resume_point *then)
{
    struct weft__worker *w = same_group_worker(frame, &chan->source);
    if (!w) {
        return await_send_general(frame, wait, chan, item, deadline, then);
    }
    if (weft__chan_handoff_own(w, chan, item)) {
        return weft__frame_continue_with(frame, weft__await_of(wait), (struct weft_got){0}, then);
    }
    return send_in_group(frame, wait, chan, item, deadline, then);
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
    .wait_kind = {.name = "channel receive", .label = weft__source_label},
    .attempt = attempt_recv,
    .arm = arm_recv,
    .finish = finish_recv,
    .outcome = status_only,
};

static NOINLINE enum weft_step await_recv_general(weft_frame *frame, struct weft_wait *wait,
                                                  weft_chan *chan, void *item, int64_t deadline,
                                                  const struct weft_resume_point *then)
{
    return await_one(frame, wait, &recv_kind, chan, item, weft__await_address(chan), deadline,
                     then);
}

static NOINLINE enum weft_step recv_in_group(weft_frame *frame, struct weft_wait *wait,
                                             weft_chan *chan, void *item, int64_t deadline,
                                             const struct weft_resume_point *then)
{
    struct weft_got got = {.status = weft__chan_recv_own(chan, item)};
    return got.status == -EAGAIN
               ? await_recv_general(frame, wait, chan, item, deadline, then)
               : weft__frame_continue_with(frame, weft__await_of(wait), got, then);
}

enum weft_step weft_frame_await_recv(weft_frame *frame, struct weft_wait *wait, weft_chan *chan,
                                     void *item, int64_t deadline,
                                     const struct weft_resume_point *then)
{
    struct weft__worker *w = same_group_worker(frame, &chan->source);
    return !w ? await_recv_general(frame, wait, chan, item, deadline, then)
           : weft__chan_can_recv(chan)
               ? recv_in_group(frame, wait, chan, item, deadline, then)
               : await_in_group(w, frame, wait, &recv_kind, chan, item, NULL, &chan->source.waiters,
                                deadline, then);
}

/* --- joins ------------------------------------------------------------------------------------ */

static uint64_t joined_fiber(uint64_t on)
{
    return on;
}

static bool attempt_join(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)err;
    return weft__join_try(wait->on, &got->value, &got->status);
}

static bool arm_join(struct weft__await *wait)
{
    return weft__join_arm_known(wait->on, &wait->node);
}

static void finish_join(struct weft__await *wait)
{
    weft__join_unlink(wait->on, &wait->node);
}

static int joined(const struct weft__await *wait, struct weft_got *got)
{
    *got = (struct weft_got){.status = wait->node.status, .value = wait->node.value};
    return 0;
}

static const struct weft__await_kind join_kind = {
    .wait_kind = {.name = "join", .fiber = true, .holder = joined_fiber},
    .attempt = attempt_join,
    .arm = arm_join,
    .finish = finish_join,
    .outcome = joined,
};

enum weft_step weft_frame_await_join(weft_frame *frame, struct weft_wait *wait, weft_fiber fiber,
                                     int64_t deadline, const struct weft_resume_point *then)
{
    return await_one(frame, wait, &join_kind, NULL, NULL, fiber, deadline, then);
}
