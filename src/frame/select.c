/* weft_select for frame fibers: the steps of chan/select.h, with the nodes in the frame. */
#include <errno.h>

#include "chan/select.h"
#include "frame/frame.h"
#include "sync/source.h"

#define MAX_CASES 64u

static struct weft_case *case_of(const struct weft__await *wait)
{
    return wait->object;
}

static bool arm_case(struct weft__await *wait)
{
    wait->node.shared = true; /* several cases may receive into the same memory */
    return weft__case_ops_of(case_of(wait))->arm(case_of(wait), &wait->node);
}

static void finish_case(struct weft__await *wait)
{
    weft__case_ops_of(case_of(wait))->finish(case_of(wait), &wait->node, false);
}

static int case_done(const struct weft__await *wait, struct weft_got *got)
{
    case_of(wait)->status = wait->node.status;
    got->status = wait->node.index;
    got->value = wait->object;
    return 0;
}

/* If a case has a time that is not after now, the deadline was that of this case. */
static void timed_out(const struct weft__await *wait, unsigned n, struct weft_got *got)
{
    int timer = weft__select_timer(case_of(wait), n, weft_now());
    if (timer >= 0) {
        case_of(wait)[timer].status = 0;
        *got = (struct weft_got){.status = timer, .value = &case_of(wait)[timer]};
    }
}

/* Every object begins with a source. */
static const struct weft__await_kind case_kind = {
    .wait_kind = {.name = "select", .label = weft__source_label},
    .arm = arm_case,
    .finish = finish_case,
    .outcome = case_done,
    .timed_out = timed_out,
};

static enum weft_step continue_with_case(weft_frame *frame, struct weft__await *waits, int which,
                                         const struct weft_resume_point *then)
{
    struct weft_got got = {.status = which, .value = waits[which].object};
    return weft__frame_continue_with(frame, waits, got, then);
}

/* Returns the number of linked nodes; if it is less than n, the next case need not wait. */
static unsigned arm_all(struct weft__task *task, struct weft__await *waits, unsigned n)
{
    unsigned i = 0;
    weft__stackless_arm(task, WEFT__WAIT_OBJECT);
    for (; i < n; i++) {
        weft__node_init(&waits[i].node, weft__stackless_waiter(task), i);
        waits[i].node.item = case_of(&waits[i])->item;
        if (!arm_case(&waits[i])) {
            break;
        }
    }
    return i;
}

enum weft_step weft_frame_select(weft_frame *frame, struct weft_wait *records,
                                 struct weft_case *cases, size_t n, int64_t deadline,
                                 const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = weft__await_begin(frame, &task);
    struct weft__await *waits = weft__await_of(records);
    WEFT__REQUIRE(n >= 1 && n <= MAX_CASES, "frame %s selects from %zu cases: must be 1 to 64",
                  frame->kind->name, n);
    if (!w) {
        return WEFT_SUSPEND;
    }
    unsigned others;
    uint64_t first = weft__select_first(cases, n, &others);
    for (size_t i = 0; i < n; i++) {
        WEFT__REQUIRE(cases[i].kind != WEFT_CASE_COND || !cases[i].item,
                      "frame %s selects a condition with a mutex", frame->kind->name);
        waits[i].kind = &case_kind;
        waits[i].object = &cases[i];
        waits[i].on = first;
    }
    for (;;) {
        int which = weft__select_take(cases, n);
        if (which >= 0) {
            return continue_with_case(frame, waits, which, then);
        }
        unsigned armed = arm_all(task, waits, (unsigned)n);
        if (armed == n) {
            int timer = weft__select_timer(cases, n, deadline);
            return weft__await_park(w, task, frame, waits, (unsigned)n,
                                    timer >= 0 ? cases[timer].at : deadline, then);
        }
        enum weft__reason reason = weft__task_disarm(task);
        for (unsigned i = 0; i < armed; i++) {
            finish_case(&waits[i]);
        }
        if (weft__reason_is_done(reason)) {
            struct weft_got got = {0};
            case_done(&waits[weft__reason_index(reason)], &got);
            return continue_with_case(frame, waits, got.status, then);
        }
        if (reason != WEFT__REASON_NONE) {
            return weft__await_throw(frame, reason, weft__reason_errno(reason), waits, others,
                                     then);
        }
        if (weft__case_ops_of(&cases[armed])->take(&cases[armed])) {
            return continue_with_case(frame, waits, (int)armed, then);
        }
    }
}
