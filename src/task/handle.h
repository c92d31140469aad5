/* Looking up the task of a handle. */
#ifndef WEFT_TASK_HANDLE_H
#define WEFT_TASK_HANDLE_H

#include <weft/fiber.h>

#include "task/ident.h"
#include "task/slab.h"

/* Locks the ident of the handle's fiber and sets flags. Returns NULL if the fiber is gone. */
static inline struct weft__task *weft__handle_lock(weft_fiber fiber, uint64_t flags,
                                                   uint64_t *ident)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    return task && weft__ident_lock(task, fiber >> 32, flags, ident) ? task : NULL;
}

/* Same, but also returns NULL if the fiber has ended. */
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

/* For a handle without a fiber: returns -ESRCH. In a forked child, a handle from before the fork
 * is a caller's bug and panics. */
int weft__handle_missing(weft_fiber fiber) __attribute__((noinline, cold));

#endif
