/* Who holds a lock, as a number: a fiber by the address of its control block, a plain thread by its
 * tid. The low bits are left to the lock. 0: nobody.
 *
 * Control blocks are never unmapped, so a holder may be looked at by anybody at any time; what is
 * seen is true of its own moment. */
#ifndef WEFT_SYNC_HOLDER_H
#define WEFT_SYNC_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "sched/ident.h"
#include "sched/worker.h"

enum {
    WEFT__HOLDER_THREAD = 4, /* tid << 3 is or-ed to it */
    WEFT__HOLDER_FLAGS = 3,  /* the lock's own */
};

/* A fiber that has ended, and did not let go. */
#define WEFT__HOLDER_GONE ((uint64_t)WEFT__HOLDER_THREAD)

/* The calling thread's. */
uint64_t weft__holder_thread(void);

static inline uint64_t weft__holder_of(const struct weft__task *task)
{
    return task ? (uint64_t)(uintptr_t)task : weft__holder_thread();
}

/* The body whose step runs on this worker, if bodies of its kind hold locks; else NULL. */
struct weft__task *weft__holder_body(const struct weft__worker *w);

/* The fiber that calls, with a stack or without one. NULL: a plain thread, or what counts as one.
 */
static inline struct weft__task *weft__holder_caller(void)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = w ? weft__current(w) : NULL;
    return __builtin_expect(!task && w, 0) ? weft__holder_body(w) : task;
}

static inline struct weft__task *weft__holder_task(uint64_t holder)
{
    return holder & WEFT__HOLDER_THREAD
               ? NULL
               : (struct weft__task *)(uintptr_t)(holder & ~(uint64_t)WEFT__HOLDER_FLAGS);
}

/* Its handle; 0: nobody, or a thread. */
static inline uint64_t weft__holder_fiber(uint64_t holder)
{
    const struct weft__task *task = weft__holder_task(holder);
    return task ? weft__task_handle(task) : 0;
}

/* Is it worth while to spin until the holder lets go? Only while it runs, which is on another
 * thread than the caller's. */
static inline bool weft__holder_runs(uint64_t holder)
{
    const struct weft__task *task = weft__holder_task(holder);
    return !task || weft__task_state(task) == WEFT__TASK_RUNNING;
}

/* "fiber #17.3 (name)", "thread 4711", "a fiber that has ended", "nobody". */
struct weft__holder_text {
    char text[64];
};
struct weft__holder_text weft__holder_text(uint64_t holder);

#endif
