/* The holder of a lock as a number: a fiber is represented by the address of its control block, a
 * plain thread by its tid. The low bits are left to the lock. 0: no holder.
 *
 * Control blocks are never unmapped, so any thread may inspect a holder at any time; the result may
 * be out of date immediately. */
#ifndef WEFT_SYNC_HOLDER_H
#define WEFT_SYNC_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "task/ident.h"
#include "worker/worker.h"

enum {
    WEFT__HOLDER_THREAD = 4, /* ORed with tid << 3 */
    WEFT__HOLDER_FLAGS = 3,  /* reserved for the lock */
};

/* A fiber that ended without unlocking. */
#define WEFT__HOLDER_GONE ((uint64_t)WEFT__HOLDER_THREAD)

/* The calling thread as a holder. */
uint64_t weft__holder_thread(void);

static inline uint64_t weft__holder_of(const struct weft__task *task)
{
    return task ? (uint64_t)(uintptr_t)task : weft__holder_thread();
}

/* The stackless task whose step runs on this worker, if tasks of its kind can hold locks; else
 * NULL. */
struct weft__task *weft__holder_stackless(const struct weft__worker *w);

/* The calling fiber, with or without a stack. NULL: a plain thread, or a context that counts as
 * one.
 */
static inline struct weft__task *weft__holder_caller(void)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = w ? weft__current(w) : NULL;
    return __builtin_expect(!task && w, 0) ? weft__holder_stackless(w) : task;
}

static inline struct weft__task *weft__holder_task(uint64_t holder)
{
    return holder & WEFT__HOLDER_THREAD
               ? NULL
               : (struct weft__task *)(uintptr_t)(holder & ~(uint64_t)WEFT__HOLDER_FLAGS);
}

/* The holder's fiber handle; 0: no holder, or a thread. */
static inline uint64_t weft__holder_fiber(uint64_t holder)
{
    const struct weft__task *task = weft__holder_task(holder);
    return task ? weft__task_handle(task) : 0;
}

/* Whether it is worthwhile to spin until the holder unlocks: only while the holder runs, which is
 * then on a thread other than the caller's. */
static inline bool weft__holder_is_running(uint64_t holder)
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
