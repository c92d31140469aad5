#include "sync/holder.h"

#include <stdio.h>
#include <unistd.h>

#include "sched/stackless.h"

/* For a plain thread or a worker's own context; neither ever migrates to another thread. */
static _Thread_local uint64_t this_thread;

__attribute__((noinline)) uint64_t weft__holder_thread(void)
{
    if (!this_thread) {
        this_thread = (uint64_t)gettid() << 3 | WEFT__HOLDER_THREAD;
    }
    uint64_t holder = this_thread;
    __asm__ volatile("" : "+r"(holder)::"memory");
    return holder;
}

struct weft__task *weft__holder_stackless(const struct weft__worker *w)
{
    struct weft__task *task = atomic_load_explicit(&w->stackless, memory_order_relaxed);
    return task && task->stackless->holds ? task : NULL;
}

struct weft__holder_text weft__holder_text(uint64_t holder)
{
    struct weft__holder_text out;
    const struct weft__task *task = weft__holder_task(holder);
    holder &= ~(uint64_t)WEFT__HOLDER_FLAGS;
    if (task) {
        uint64_t fiber = weft__task_handle(task);
        const char *name = weft__task_name(task);
        snprintf(out.text, sizeof out.text, "fiber #%u.%u%s%.15s%s", (unsigned)(uint32_t)fiber,
                 (unsigned)(fiber >> 32), name[0] ? " (" : "", name, name[0] ? ")" : "");
    } else if (holder == WEFT__HOLDER_GONE) {
        snprintf(out.text, sizeof out.text, "a fiber that has ended");
    } else if (holder) {
        snprintf(out.text, sizeof out.text, "thread %u", (unsigned)(holder >> 3));
    } else {
        snprintf(out.text, sizeof out.text, "nobody");
    }
    return out;
}
