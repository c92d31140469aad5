#include "worker/worker_metrics.h"

#include "base/clock.h"
#include "worker/worker.h"

#define WORK_PIECE_NS INT64_C(10000000) /* length of a piece in which long work is reported */
#define STALE_NS INT64_C(1000000000)    /* age of a stamp whose fiber was not seen to run */
#define STAMP_SLOTS 64u
#define BUSY 1u /* not a fiber's handle */

static struct {
    _Atomic(uint64_t) who; /* 0: free */
    _Atomic(int64_t) at;
} stamps[STAMP_SLOTS];

/* --- following the mask ------------------------------------------------------------- */

static bool accepted(const struct weft__worker_metrics *metrics, unsigned type)
{
    return metrics->seen >> type & 1;
}

static void begin_work(struct weft__worker *w, int64_t now)
{
    w->metrics.work_since = now;
    w->metrics.work_until = now + WORK_PIECE_NS;
    w->metrics.work_turns = atomic_load_explicit(&w->counters.executed, memory_order_relaxed);
}

static void set_tracing(struct weft__worker *w, unsigned flag, bool on)
{
    if (on) {
        atomic_fetch_or_explicit(&w->tracing, (uint8_t)flag, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&w->tracing, (uint8_t)~flag, memory_order_relaxed);
    }
}

void weft__worker_metrics_set_mask(struct weft__worker *w, uint64_t mask)
{
    struct weft__worker_metrics *metrics = &w->metrics;
    metrics->seen = mask;
    if (!accepted(metrics, WEFT_PERF_WORK)) {
        metrics->work_since = 0;
    } else if (!metrics->work_since) {
        begin_work(w, weft__clock_ns());
    }
    set_tracing(w, WEFT__TRACING_WAITS, accepted(metrics, WEFT_PERF_ACQUIRE));
    set_tracing(w, WEFT__TRACING_DELAYS, accepted(metrics, WEFT_PERF_QUEUE));
    if (accepted(metrics, WEFT_PERF_QUEUE)) {
        weft__worker_end_fast_turns(w); /* picks that check only the ring do not record events */
    } else {
        metrics->delays = 0;
    }
}

/* --- reporting ----------------------------------------------------------------------- */

static void report_work(struct weft__worker *w, int64_t now)
{
    uint64_t turns = atomic_load_explicit(&w->counters.executed, memory_order_relaxed);
    if (turns != w->metrics.work_turns || !w->group_sched) {
        weft__perf_emit(WEFT_PERF_WORK, now - w->metrics.work_since, turns - w->metrics.work_turns,
                        0);
    }
}

static void report_delays(struct weft__worker_metrics *metrics)
{
    for (unsigned i = 0; i < metrics->delays; i++) {
        weft__perf_emit(WEFT_PERF_QUEUE, metrics->delay[i], 1, 0);
    }
    metrics->delays = 0;
}

void weft__worker_metrics_report(struct weft__worker *w)
{
    report_delays(&w->metrics);
    if (w->metrics.work_since && w->metrics.work_until <= w->now) {
        report_work(w, w->now);
        begin_work(w, w->now);
    }
}

void weft__worker_metrics_end_round(struct weft__worker *w)
{
    int64_t now = weft__clock_ns();
    report_work(w, now);
    begin_work(w, now);
}

void weft__worker_metrics_before_sleep(struct weft__worker *w)
{
    struct weft__worker_metrics *metrics = &w->metrics;
    report_delays(metrics);
    metrics->slept_at = weft__clock_ns();
    if (metrics->work_since) {
        report_work(w, metrics->slept_at);
        metrics->work_since = 0;
    }
}

void weft__worker_metrics_after_sleep(struct weft__worker *w, bool slept)
{
    struct weft__worker_metrics *metrics = &w->metrics;
    int64_t now = weft__clock_ns();
    if (slept && metrics->slept_at && accepted(metrics, WEFT_PERF_POLL)) {
        weft__perf_emit(WEFT_PERF_POLL, now - metrics->slept_at, 1, 0);
    }
    metrics->slept_at = 0;
    if (accepted(metrics, WEFT_PERF_WORK)) {
        begin_work(w, now);
    }
}

/* --- queueing delays --------------------------------------------------------------------- */

void weft__worker_metrics_mark_ready(uint64_t fiber)
{
    unsigned i = (unsigned)fiber % STAMP_SLOTS;
    int64_t now = weft__clock_ns();
    uint64_t who = atomic_load_explicit(&stamps[i].who, memory_order_relaxed);
    if (who == BUSY ||
        (who && who != fiber &&
         now - atomic_load_explicit(&stamps[i].at, memory_order_relaxed) < STALE_NS)) {
        return;
    }
    if (atomic_compare_exchange_strong_explicit(&stamps[i].who, &who, BUSY,
                                                memory_order_acquire, /* pairs: ran */
                                                memory_order_relaxed)) {
        atomic_store_explicit(&stamps[i].at, now, memory_order_relaxed);
        atomic_store_explicit(&stamps[i].who, fiber, memory_order_release); /* pairs: ran */
    }
}

void weft__worker_metrics_mark_running(struct weft__worker *w, uint64_t fiber)
{
    unsigned i = (unsigned)fiber % STAMP_SLOTS;
    if (atomic_load_explicit(&stamps[i].who, memory_order_acquire) != fiber) { /* pairs: stamp */
        return;
    }
    int64_t at = atomic_load_explicit(&stamps[i].at, memory_order_relaxed);
    uint64_t who = fiber;
    if (atomic_compare_exchange_strong_explicit(
            &stamps[i].who, &who, 0, memory_order_release, /* `at` was read before. pairs: stamp */
            memory_order_relaxed) &&
        w->metrics.delays < WEFT__WORKER_METRICS_DELAYS) {
        w->metrics.delay[w->metrics.delays++] = weft__clock_ns() - at;
    }
}
