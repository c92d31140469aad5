#include "obs/waits.h"
#include "base/text.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "sched/body.h"
#include "sched/handle.h"
#include "sched/pool.h"
#include "sched/waiter.h"
#include "sched/worker.h"

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

void weft__waits_label(const struct weft__wait_kind *kind, uint64_t on, char *out, size_t size)
{
    if (kind->descriptor) {
        snprintf(out, size, "fd %d", (int)on);
        return;
    }
    const char *label = kind->label && on ? kind->label(on) : NULL;
    snprintf(out, size, "%s", label ? label : "");
}

/* `on` is the first of the objects that are waited on. */
static void read_first(const struct weft__wait_kind *kind, uint64_t on, struct weft__waits *out)
{
    if (!kind) {
        out->what = "?";
        return;
    }
    out->on = on;
    out->what = kind->name;
    out->on_fiber = kind->fiber;
    out->holder = kind->holder ? kind->holder(out->on) : WEFT_NO_FIBER;
    weft__waits_label(kind, out->on, out->label, sizeof out->label);
}

void weft__waits_read(const struct weft__wait_kind *kind, uint64_t on, struct weft__waits *out)
{
    uint64_t first = kind ? weft__wait_first(kind, on, &out->others) : on;
    read_first(kind, first, out);
}

/* While the task is held. */
static void read_wait(const struct weft__task *task, struct weft__waits *out)
{
    struct weft__body_wait wait = weft__task_waits(task);
    unsigned how;
    weft__task_ticket(task, &out->ticket, &how);
    read_first(wait.kind, wait.on, out);
    out->others = wait.others;
}

bool weft__waits_look(weft_fiber fiber, struct weft__waits *out)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock_running(fiber, 0, &ident);
    if (!task) {
        return false;
    }
    bool waits = hold(task), ready = false;
    if (waits) {
        *out = (struct weft__waits){.fiber = fiber};
        snprintf(out->name, sizeof out->name, "%s", weft__task_name(task));
        if (!out->name[0] && weft__task_is_body(task) && task->body->name) {
            weft__text_cut(out->name, sizeof out->name, task->body->name(task));
        }
        weft__text_cut(out->pool, sizeof out->pool, task->home->name);
        read_wait(task, out);
        ready = weft__task_unhold(task);
    }
    weft__ident_unlock(task, ident);
    if (ready) {
        weft__place(task);
    }
    return waits;
}

void weft__fiber_print(weft_fiber fiber, FILE *out)
{
    char text[32], name[16] = "";
    weft_fiber_text(fiber, text, sizeof text);
    weft_fiber_name(fiber, name, sizeof name);
    fprintf(out, "%s%s%s", text, name[0] ? " " : "", name);
}

void weft__waits_print(const struct weft__waits *waits, FILE *out)
{
    char text[32];
    weft_fiber_text(waits->fiber, text, sizeof text);
    fprintf(out, "fiber %s%s%s ", text, waits->name[0] ? " " : "", waits->name);
    weft__waits_print_what(waits, out);
}

void weft__waits_print_what(const struct weft__waits *waits, FILE *out)
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
