/* The trace ring: the last events of one worker, written by that worker only, read on request. A
 * reader may see an event that is being overwritten; the ring is for diagnosis, not for proofs.
 *
 * The same hooks feed the worker metrics (worker/worker_metrics.h) with the times for which fibers
 * were ready or waited: one byte of flags says which consumers are active. */
#ifndef WEFT_WORKER_TRACE_H
#define WEFT_WORKER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"

enum weft__trace_kind {
    WEFT__TRACE_NONE,
    WEFT__TRACE_SPAWN,
    WEFT__TRACE_RUN,
    WEFT__TRACE_WAIT,
    WEFT__TRACE_WAKE,
    WEFT__TRACE_END,
    WEFT__TRACE_STEAL,
    WEFT__TRACE_PARK,
    WEFT__TRACE_UNPARK,
    WEFT__TRACE_MIGRATE,
};

enum {
    WEFT__TRACING_RING = 1,
    WEFT__TRACING_DELAYS = 2,
    WEFT__TRACING_WAITS = 4, /* measured in weft__worker_suspend */
    WEFT__TRACING_ORDER = 8, /* a dispatcher's: sched/run_order.h. Used by no other consumer */
};

#define WEFT__TRACE_EVENTS 1024u

struct weft__trace {
    _Atomic(uint64_t) written;
    struct {
        _Atomic(int64_t) at;
        _Atomic(uint64_t) who; /* a handle, with all its bits, or a number */
    } events[WEFT__TRACE_EVENTS];
    _Atomic(uint8_t) kinds[WEFT__TRACE_EVENTS];
};

static inline void weft__trace_add(struct weft__trace *trace, enum weft__trace_kind kind,
                                   uint64_t who)
{
    uint64_t n = atomic_load_explicit(&trace->written, memory_order_relaxed);
    unsigned i = n % WEFT__TRACE_EVENTS;
    atomic_store_explicit(&trace->events[i].at, weft__clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&trace->events[i].who, who, memory_order_relaxed);
    atomic_store_explicit(&trace->kinds[i], (uint8_t)kind, memory_order_relaxed);
    atomic_store_explicit(&trace->written, n + 1, memory_order_release);
}

struct weft__worker;
/* Called when a consumer is active. */
void weft__trace_event(struct weft__worker *w, enum weft__trace_kind kind, uint64_t who)
    __attribute__((cold));

/* A macro, so that `who`, whose computation touches another cache line, costs nothing while
 * tracing is off. */
#define WEFT__TRACE(w, kind, who)                                                                  \
    (__builtin_expect(atomic_load_explicit(&(w)->tracing, memory_order_relaxed), 0)                \
         ? weft__trace_event((w), kind, who)                                                       \
         : (void)0)

#endif
