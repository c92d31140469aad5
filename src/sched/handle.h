/* Following a handle to its task. */
#ifndef WEFT_SCHED_HANDLE_H
#define WEFT_SCHED_HANDLE_H

#include <weft/fiber.h>

#include "sched/ident.h"
#include "sched/slab.h"

/* Locks the ident of the handle's fiber, setting flags. NULL: there is no such fiber any more. */
static inline struct weft__task *weft__handle_lock(weft_fiber fiber, uint64_t flags,
                                                   uint64_t *ident)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    return task && weft__ident_lock(task, fiber >> 32, flags, ident) ? task : NULL;
}

/* The same, and the fiber has not ended. */
static inline struct weft__task *weft__handle_lock_running(weft_fiber fiber, uint64_t flags,
                                                           uint64_t *ident)
{
    struct weft__task *task = weft__handle_lock(fiber, flags, ident);
    if (task && (*ident & WEFT__IDENT_DONE)) {
        weft__ident_unlock(task, *ident);
        return NULL;
    }
    return task;
}

/* There is no such fiber: -ESRCH; or, in a forked child, there was, which is a caller's bug. */
int weft__handle_missing(weft_fiber fiber) __attribute__((noinline, cold));

#endif
