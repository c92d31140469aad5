/* Message traces: the trace ID that a message passes on to the messages it causes. The public
 * contract is <weft/actor.h>. */
#ifndef WEFT_ACTOR_TRACE_H
#define WEFT_ACTOR_TRACE_H

#include <weft/actor.h>

#include "actor/fiber_actor.h"
#include "actor/step_state.h"

extern _Atomic(bool) weft__actor_tracing;

static inline bool weft__actor_trace_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&weft__actor_tracing, memory_order_relaxed), 0);
}

uint32_t weft__actor_trace_new_id(void);

/* The trace ID of what this actor, which runs on this worker, is handling; 0: none. */
static inline uint32_t weft__actor_trace_id(const weft_actor *self, const struct weft__worker *w)
{
    return self->kind->run ? weft__mail_of(self)->trace : weft__step_state_read(w)->handled_trace;
}

/* Call the trace function, if there is one. */
void weft__actor_trace_emit(enum weft_actor_trace_kind kind, weft_pid to,
                            const struct weft__envelope *envelope);

static inline void weft__actor_trace_sent(weft_pid to, const struct weft__envelope *envelope)
{
    if (weft__actor_trace_is_on() &&
        envelope->kind < WEFT__ENVELOPE_STATS) { /* only what becomes an event */
        weft__actor_trace_emit(WEFT_ACTOR_TRACE_SENT, to, envelope);
    }
}

static inline void weft__actor_trace_handled(const weft_actor *actor,
                                             const struct weft__envelope *envelope)
{
    if (weft__actor_trace_is_on() && envelope->trace) {
        weft__actor_trace_emit(WEFT_ACTOR_TRACE_HANDLED, weft_actor_pid(actor), envelope);
    }
}

#endif
