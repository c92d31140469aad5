/* What dumps show about a task that belongs to a higher layer (an actor): this folder itself knows
 * fibers only, so the actor layer registers a function that fills this in. */
#ifndef WEFT_OBS_TASK_INFO_H
#define WEFT_OBS_TASK_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>

#include "base/atomic.h"

/* Set if the actor is a supervisor. The name is truncated if necessary. */
struct weft__supervisor_info {
    const char *strategy; /* NULL: not a supervisor */
    char name[24];
    uint32_t children, down; /* down: those that do not run */
    uint64_t restarts;
};

/* Set if the actor is a child of a supervisor. */
struct weft__child_info {
    weft_fiber of; /* its supervisor; 0: not supervised */
    char name[24]; /* in its supervisor; "": none */
    const char *state;
    uint64_t restarts;
};

/* An actor; the strings are literals. */
struct weft__task_info {
    uint32_t node, host; /* parts of its PID */
    const char *kind;    /* NULL: the task is not an actor */
    const char *state;
    const char *topic; /* of the last message; may be NULL */
    unsigned mailbox;
    uint64_t steps;
    struct weft__supervisor_info supervisor_info;
    struct weft__child_info child_info;
};

/* Returns true and fills *out if the fiber is an actor. Never blocks; async-signal-safe. */
typedef bool (*weft__task_info_fn)(weft_fiber fiber, struct weft__task_info *out);
/* NULL until the first host is created: no actors. */
extern _Atomic(weft__task_info_fn) weft__task_info_hook;

#endif
