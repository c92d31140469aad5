/* Message traces: the trace ID that a message passes on to the messages it causes. The public
 * contract is <weft/actor_look.h>. */
#ifndef WEFT_ACTOR_TRACE_H
#define WEFT_ACTOR_TRACE_H

#include <weft/actor_look.h>

#include "actor/fiber.h"

extern _Atomic(bool) weft__actor_tracing;

static inline bool weft__trace_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&weft__actor_tracing, memory_order_relaxed), 0);
}

uint32_t weft__trace_new(void);

/* The trace ID of what this actor, which runs on this worker, is handling; 0: none. */
static inline uint32_t weft__trace_of(const weft_actor *self, const struct weft__worker *w)
{
    return self->kind->run ? weft__mail_of(self)->trace : w->handles;
}

/* Call the trace function, if there is one. */
void weft__trace_tell(enum weft_passage_kind kind, weft_pid to, const struct weft__letter *letter);

static inline void weft__trace_sent(weft_pid to, const struct weft__letter *letter)
{
    if (weft__trace_is_on() && letter->kind < WEFT__LETTER_STATS) { /* only what becomes an event */
        weft__trace_tell(WEFT_PASSAGE_SENT, to, letter);
    }
}

static inline void weft__trace_handled(const weft_actor *actor, const struct weft__letter *letter)
{
    if (weft__trace_is_on() && letter->trace) {
        weft__trace_tell(WEFT_PASSAGE_HANDLED, weft_actor_pid(actor), letter);
    }
}

#endif
