/* Information about a fiber: its handle, name, state and stack. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/objname.h"
#include "sched/pool.h"
#include "task/fork.h"
#include "task/handle.h"

weft_fiber weft_self(void)
{
    struct weft__worker *w = weft__worker_self();
    return w && weft__running(w) ? weft__task_handle(weft__running(w)) : WEFT_NO_FIBER;
}

int weft_fiber_name(weft_fiber fiber, char *buf, size_t size)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        return -ESRCH;
    }
    snprintf(buf, size, "%s", weft__task_name(task));
    weft__ident_unlock(task, ident);
    return 0;
}

int weft_fiber_set_name(const char *name)
{
    uint64_t ident;
    int err = 0;
    char *label = NULL;
    struct weft__task *task = weft__handle_lock(weft_self(), 0, &ident);
    if (!task) {
        weft__fork_check_fiber("weft_fiber_set_name");
        return -ENXIO;
    }
    if (!(task->flags & WEFT__TASK_GROUPED)) {
        weft__objname_truncate(task->name, sizeof task->name, name);
    } else if ((label = weft__alloc(sizeof task->name))) {
        weft__objname_truncate(label, sizeof task->name, name);
        char *before = task->label;
        task->label = label;
        label = before;
    } else {
        err = -ENOMEM;
    }
    weft__ident_unlock(task, ident);
    weft__free(label);
    return err;
}

enum weft_fiber_state weft__fiber_state_of(enum weft__task_state state)
{
    switch (state) {
    case WEFT__TASK_FREE:
    case WEFT__TASK_CREATED:
        return WEFT_FIBER_CREATED;
    case WEFT__TASK_FRESH:
    case WEFT__TASK_READY:
    case WEFT__TASK_WOKEN:
        return WEFT_FIBER_READY;
    case WEFT__TASK_RUNNING:
    case WEFT__TASK_ARMED:
    case WEFT__TASK_FIRED:
        return WEFT_FIBER_RUNNING;
    case WEFT__TASK_WAITING:
    case WEFT__TASK_HELD:
        return WEFT_FIBER_WAITING;
    case WEFT__TASK_DONE:
        break;
    }
    return WEFT_FIBER_DONE;
}

int weft_fiber_state(weft_fiber fiber, enum weft_fiber_state *out)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        return -ESRCH;
    }
    *out = weft__fiber_state_of(weft__task_state(task));
    weft__ident_unlock(task, ident);
    return 0;
}

const char *weft_fiber_state_name(enum weft_fiber_state state)
{
    static const char *const names[] = {"created", "ready", "running", "waiting", "done"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

int weft_fiber_format(weft_fiber fiber, char *buf, size_t size)
{
    return snprintf(buf, size, "#%u.%u", (unsigned)(uint32_t)fiber, (unsigned)(fiber >> 32));
}

int weft_fiber_stack(weft_fiber fiber, size_t *size, size_t *high_water)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        return -ESRCH;
    }
    enum weft__task_state state = weft__task_state(task);
    bool attached = !weft__task_is_stackless(task) && state != WEFT__TASK_CREATED &&
                    state != WEFT__TASK_FRESH && state != WEFT__TASK_DONE && task->stack;
    *size = attached ? weft__stack_bytes(task->stack_class) : 0;
    *high_water = attached ? weft__stack_high_water(task->stack, task->stack_class) : 0;
    weft__ident_unlock(task, ident);
    return 0;
}
