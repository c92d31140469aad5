/* What the running step of an actor keeps on its worker, in the space that a worker has for the
 * kind of its stackless task. All zero between steps. */
#ifndef WEFT_ACTOR_STEP_STATE_H
#define WEFT_ACTOR_STEP_STATE_H

#include <stdint.h>

#include "worker/worker.h"

struct __attribute__((may_alias)) weft__step_state {
    uint32_t handled_trace; /* the trace of the message that the step processes (actor/trace.h) */
    uint32_t credits_left;  /* send credits: how many more messages it may send to `credits_to`
                               (mailbox/admission.h) */
    uint64_t credits_to;
};
_Static_assert(sizeof(struct weft__step_state) <= WEFT__STEP_STATE_BYTES, "a step's state fits");

/* On the worker's thread. */
static inline struct weft__step_state *weft__step_state(struct weft__worker *w)
{
    return (struct weft__step_state *)(void *)w->step_state;
}

static inline const struct weft__step_state *weft__step_state_read(const struct weft__worker *w)
{
    return (const struct weft__step_state *)(const void *)w->step_state;
}

#endif
