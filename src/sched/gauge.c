#include "sched/gauge.h"

#include "base/clock.h"
#include "sched/worker.h"

#define STRETCH_NS INT64_C(10000000) /* length of a piece in which long work is reported */
#define STALE_NS INT64_C(1000000000) /* age of a stamp whose fiber was not seen to run */
#define PLACES 64u
#define BUSY 1u /* not a fiber's handle */

static struct {
    _Atomic(uint64_t) who; /* 0: free */
    _Atomic(int64_t) at;
} stamps[PLACES];

/* --- following the mask ------------------------------------------------------------- */

static bool accepted(const struct weft__gauge *gauge, unsigned type)
{
    return gauge->seen >> type & 1;
}

static void begin_work(struct weft__worker *w, int64_t now)
{
    w->gauge.work_since = now;
    w->gauge.work_until = now + STRETCH_NS;
    w->gauge.work_turns = atomic_load_explicit(&w->counters.executed, memory_order_relaxed);
}

static void hear(struct weft__worker *w, unsigned flag, bool on)
{
    if (on) {
        atomic_fetch_or_explicit(&w->tracing, (uint8_t)flag, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&w->tracing, (uint8_t)~flag, memory_order_relaxed);
    }
}

void weft__gauge_follow(struct weft__worker *w, uint64_t mask)
{
    struct weft__gauge *gauge = &w->gauge;
    gauge->seen = mask;
    if (!accepted(gauge, WEFT_PERF_WORK)) {
        gauge->work_since = 0;
    } else if (!gauge->work_since) {
        begin_work(w, weft__clock_ns());
    }
    hear(w, WEFT__TRACING_WAITS, accepted(gauge, WEFT_PERF_ACQUIRE));
    hear(w, WEFT__TRACING_DELAYS, accepted(gauge, WEFT_PERF_QUEUE));
    if (accepted(gauge, WEFT_PERF_QUEUE)) {
        weft__worker_look_up(w); /* picks that check only the ring do not record events */
    } else {
        gauge->delays = 0;
    }
}

/* --- reporting ----------------------------------------------------------------------- */

static void tell_work(struct weft__worker *w, int64_t now)
{
    uint64_t turns = atomic_load_explicit(&w->counters.executed, memory_order_relaxed);
    if (turns != w->gauge.work_turns || !w->rounds) {
        weft__perf_tell(WEFT_PERF_WORK, now - w->gauge.work_since, turns - w->gauge.work_turns, 0);
    }
}

static void tell_delays(struct weft__gauge *gauge)
{
    for (unsigned i = 0; i < gauge->delays; i++) {
        weft__perf_tell(WEFT_PERF_QUEUE, gauge->delay[i], 1, 0);
    }
    gauge->delays = 0;
}

void weft__gauge_tell(struct weft__worker *w)
{
    tell_delays(&w->gauge);
    if (w->gauge.work_since && w->gauge.work_until <= w->now) {
        tell_work(w, w->now);
        begin_work(w, w->now);
    }
}

void weft__gauge_round(struct weft__worker *w)
{
    int64_t now = weft__clock_ns();
    tell_work(w, now);
    begin_work(w, now);
}

void weft__gauge_sleep(struct weft__worker *w)
{
    struct weft__gauge *gauge = &w->gauge;
    tell_delays(gauge);
    gauge->slept_at = weft__clock_ns();
    if (gauge->work_since) {
        tell_work(w, gauge->slept_at);
        gauge->work_since = 0;
    }
}

void weft__gauge_wake(struct weft__worker *w, bool slept)
{
    struct weft__gauge *gauge = &w->gauge;
    int64_t now = weft__clock_ns();
    if (slept && gauge->slept_at && accepted(gauge, WEFT_PERF_POLL)) {
        weft__perf_tell(WEFT_PERF_POLL, now - gauge->slept_at, 1, 0);
    }
    gauge->slept_at = 0;
    if (accepted(gauge, WEFT_PERF_WORK)) {
        begin_work(w, now);
    }
}

/* --- queueing delays --------------------------------------------------------------------- */

void weft__gauge_stamp(uint64_t fiber)
{
    unsigned i = (unsigned)fiber % PLACES;
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

void weft__gauge_ran(struct weft__worker *w, uint64_t fiber)
{
    unsigned i = (unsigned)fiber % PLACES;
    if (atomic_load_explicit(&stamps[i].who, memory_order_acquire) != fiber) { /* pairs: stamp */
        return;
    }
    int64_t at = atomic_load_explicit(&stamps[i].at, memory_order_relaxed);
    uint64_t who = fiber;
    if (atomic_compare_exchange_strong_explicit(
            &stamps[i].who, &who, 0, memory_order_release, /* `at` was read before. pairs: stamp */
            memory_order_relaxed) &&
        w->gauge.delays < WEFT__GAUGE_DELAYS) {
        w->gauge.delay[w->gauge.delays++] = weft__clock_ns() - at;
    }
}
