#include "worker/worker.h"
#include "worker/worker_metrics.h"

void weft__trace_event(struct weft__worker *w, enum weft__trace_kind kind, uint64_t who)
{
    unsigned tracing = atomic_load_explicit(&w->tracing, memory_order_relaxed);
    if (tracing & WEFT__TRACING_RING) {
        weft__trace_add(&w->trace, kind, who);
    }
    if (tracing & WEFT__TRACING_DELAYS) {
        if (kind == WEFT__TRACE_WAKE || kind == WEFT__TRACE_SPAWN) {
            weft__worker_metrics_mark_ready(who);
        } else if (kind == WEFT__TRACE_RUN) {
            weft__worker_metrics_mark_running(w, who);
        }
    }
}
