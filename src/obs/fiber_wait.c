#include "obs/fiber_wait.h"
#include "base/objname.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "sched/pool.h"
#include "sched/stackless.h"
#include "task/handle.h"
#include "wait/waiter.h"
#include "worker/worker.h"

#define HOLD_TRIES 1000 /* another thread that inspects a fiber holds it for some microseconds */

/* True: the fiber waits and is held now. */
static bool hold(struct weft__task *task)
{
    for (int i = 0; i < HOLD_TRIES; i++) {
        if (weft__task_hold(task)) {
            return true;
        }
        if (weft__task_state(task) != WEFT__TASK_HELD) {
            return false;
        }
        sched_yield();
    }
    return false;
}

void weft__fiber_wait_label(const struct weft__wait_kind *kind, uint64_t on, char *out, size_t size)
{
    if (kind->descriptor) {
        snprintf(out, size, "fd %d", (int)on);
        return;
    }
    const char *label = kind->label && on ? kind->label(on) : NULL;
    snprintf(out, size, "%s", label ? label : "");
}

/* `on` is the first of the objects that are waited on. */
static void read_first(const struct weft__wait_kind *kind, uint64_t on,
                       struct weft__fiber_wait *out)
{
    if (!kind) {
        out->what = "?";
        return;
    }
    out->on = on;
    out->what = kind->name;
    out->on_fiber = kind->fiber;
    out->holder = kind->holder ? kind->holder(out->on) : WEFT_NO_FIBER;
    weft__fiber_wait_label(kind, out->on, out->label, sizeof out->label);
}

void weft__fiber_wait_fill(const struct weft__wait_kind *kind, uint64_t on,
                           struct weft__fiber_wait *out)
{
    uint64_t first = kind ? weft__wait_first(kind, on, &out->others) : on;
    read_first(kind, first, out);
}

/* While the task is held. */
static void read_wait(const struct weft__task *task, struct weft__fiber_wait *out)
{
    struct weft__wait_info wait = weft__task_wait_info(task);
    unsigned how;
    weft__task_ticket(task, &out->ticket, &how);
    read_first(wait.kind, wait.on, out);
    out->others = wait.others;
}

bool weft__fiber_wait_read(weft_fiber fiber, struct weft__fiber_wait *out)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock_running(fiber, 0, &ident);
    if (!task) {
        return false;
    }
    bool waits = hold(task), ready = false;
    if (waits) {
        *out = (struct weft__fiber_wait){.fiber = fiber};
        snprintf(out->name, sizeof out->name, "%s", weft__task_name(task));
        if (!out->name[0] && weft__task_is_stackless(task) && task->stackless->name) {
            weft__objname_truncate(out->name, sizeof out->name, task->stackless->name(task));
        }
        weft__objname_truncate(out->pool, sizeof out->pool, task->home->name);
        read_wait(task, out);
        ready = weft__task_unhold(task);
    }
    weft__ident_unlock(task, ident);
    if (ready) {
        weft__place(task, WEFT__BACK);
    }
    return waits;
}

void weft__fiber_print(weft_fiber fiber, FILE *out)
{
    char text[32], name[16] = "";
    weft_fiber_format(fiber, text, sizeof text);
    weft_fiber_name(fiber, name, sizeof name);
    fprintf(out, "%s%s%s", text, name[0] ? " " : "", name);
}

void weft__fiber_wait_print(const struct weft__fiber_wait *waits, FILE *out)
{
    char text[32];
    weft_fiber_format(waits->fiber, text, sizeof text);
    fprintf(out, "fiber %s%s%s ", text, waits->name[0] ? " " : "", waits->name);
    weft__fiber_wait_print_object(waits, out);
}

void weft__fiber_wait_print_object(const struct weft__fiber_wait *waits, FILE *out)
{
    fprintf(out, "waits on %s", waits->what);
    if (waits->label[0]) {
        fprintf(out, " %s", waits->label);
    } else if (waits->on && !waits->on_fiber) {
        fprintf(out, " 0x%" PRIx64, waits->on);
    }
    if (waits->on_fiber) {
        fputs(" of ", out);
        weft__fiber_print(waits->on, out);
    } else if (waits->holder != WEFT_NO_FIBER) {
        fputs(" held by ", out);
        weft__fiber_print(waits->holder, out);
    }
    if (waits->others) {
        fprintf(out, " and %u other%s", waits->others, waits->others > 1 ? "s" : "");
    }
}
