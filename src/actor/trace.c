#include "actor/trace.h"

#include <errno.h>
#include <sched.h>

#include "base/clock.h"

_Atomic(bool) weft__actor_tracing;

static _Atomic(uint32_t) last_trace;

/* The trace function: written while there are no readers. A reader increments `readers` before it
 * loads `weft__actor_tracing`, and a stop loads `readers` after it has cleared
 * `weft__actor_tracing`; all four are seq_cst, so at least one side sees the other. */
static struct weft__lock config_lock;
static weft_actor_trace_fn listener;
static void *listener_arg;
static _Atomic(uint32_t) readers;

uint32_t weft__actor_trace_new_id(void)
{
    uint32_t trace;
    do {
        trace = atomic_fetch_add_explicit(&last_trace, 1, memory_order_relaxed) + 1;
    } while (trace == 0);
    return trace;
}

void weft__actor_trace_emit(enum weft_actor_trace_kind kind, weft_pid to,
                            const struct weft__envelope *envelope)
{
    atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst); /* pairs: weft_actor_trace */
    if (atomic_load_explicit(&weft__actor_tracing, memory_order_seq_cst)) {
        bool message = weft__envelope_is_message(envelope);
        struct weft_actor_trace_event trace_event = {
            .kind = kind,
            .event = (enum weft_actor_event_kind)envelope->kind,
            .trace = envelope->trace,
            .from = {.node = envelope->from_node,
                     .host = envelope->from_host,
                     .id = envelope->from_id},
            .to = to,
            .topic = message ? envelope->topic : NULL,
            .tag = envelope->tag,
            .at_ns = weft__clock_ns(),
        };
        listener(&trace_event, listener_arg);
    }
    atomic_fetch_sub_explicit(&readers, 1, memory_order_release); /* pairs: weft_actor_trace */
}

static void stop_locked(void)
{
    atomic_store_explicit(&weft__actor_tracing, false,
                          memory_order_seq_cst); /* pairs: weft__actor_trace_emit */
    while (atomic_load_explicit(&readers, memory_order_seq_cst) > 0) {
        sched_yield();
    }
}

int weft_actor_trace(weft_actor_trace_fn fn, void *arg)
{
    int err = 0;
    weft__lock(&config_lock);
    bool on = atomic_load_explicit(&weft__actor_tracing, memory_order_relaxed);
    if (!fn) {
        if (on) {
            stop_locked();
        }
    } else if (on) {
        err = -EBUSY;
    } else {
        listener = fn;
        listener_arg = arg;
        atomic_store_explicit(&weft__actor_tracing, true,
                              memory_order_seq_cst); /* pairs: weft__actor_trace_emit */
    }
    weft__unlock(&config_lock);
    return err;
}
