/* What a task is for the layers above, for those who look at all tasks: they know fibers only. */
#ifndef WEFT_SCHED_FACE_H
#define WEFT_SCHED_FACE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>

#include "base/atomic.h"

/* One that supervises others. Its name is cut if need be. */
struct weft__team {
    const char *strategy; /* NULL: it does not */
    char name[24];
    uint32_t children, down; /* down: of these are not there */
    uint64_t restarts;
};

/* One that is supervised. */
struct weft__seat {
    weft_fiber of; /* its supervisor; 0: it is not */
    char name[24]; /* there; "": it has none */
    const char *state;
    uint64_t restarts;
};

/* An actor; strings are literals. */
struct weft__face {
    uint32_t node, host; /* of its PID */
    const char *kind;    /* NULL: it is none */
    const char *state;
    const char *topic; /* of its last message; may be NULL */
    unsigned mailbox;
    uint64_t steps;
    struct weft__team team;
    struct weft__seat seat;
};

/* True: it is an actor, and *out says which. Waits for nobody; may be called by a handler of a
 * signal. */
typedef bool (*weft__face_fn)(weft_fiber fiber, struct weft__face *out);
/* NULL: there are none. */
extern _Atomic(weft__face_fn) weft__face_of;

#endif
