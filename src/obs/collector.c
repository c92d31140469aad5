/* The standard collector of perf events: sums and histograms in shards, which are added up when
 * they are read.
 *
 * A histogram has eight buckets for each power of two: 0 .. 7 are exact, above that a bucket is 1/8
 * of its lower bound wide. So 488 counters hold any cost up to 2^63 ns, and a percentile is at most
 * 1/8 too high.
 *
 * No worker owns a shard: workers of two pools may use the same one, so everything is added with
 * atomic operations, which are cheap while a cache line stays on one CPU.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/perf.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "lock/lock.h"
#include "worker/perf.h"

#define BUCKETS 488u

struct event_shard {
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) calls;
    _Atomic(uint64_t) total, max, count, max_count, sum, max_sum;
    _Atomic(uint64_t) buckets[BUCKETS];
};

struct weft_collector {
    struct weft_perf callback; /* immutable */
    char *prefix;
    uint64_t types;
    struct weft__lock lock;        /* start, stop */
    bool started, short_of_memory; /* under it */
    /* For each type an array of shards; NULL: not accepted. */
    _Atomic(struct event_shard *) records[WEFT_PERF_TYPES];
};

/* --- histograms ---------------------------------------------------------------- */

static unsigned bucket_of(uint64_t cost)
{
    if (cost < 8) {
        return (unsigned)cost;
    }
    unsigned exponent = 63u - (unsigned)__builtin_clzl(cost);
    return (exponent - 2) * 8 + (unsigned)(cost >> (exponent - 3) & 7);
}

/* The largest cost of a bucket. */
static uint64_t bucket_most(unsigned bucket)
{
    if (bucket < 8) {
        return bucket;
    }
    unsigned exponent = bucket / 8 + 2;
    return ((UINT64_C(9) + bucket % 8) << (exponent - 3)) - 1;
}

/* --- collecting ------------------------------------------------------------------ */

static void add(_Atomic(uint64_t) *to, uint64_t n)
{
    if (n) {
        atomic_fetch_add_explicit(to, n, memory_order_relaxed);
    }
}

static void raise_to(_Atomic(uint64_t) *most, uint64_t n)
{
    uint64_t max = atomic_load_explicit(most, memory_order_relaxed);
    while (n > max && !atomic_compare_exchange_weak_explicit(most, &max, n, memory_order_relaxed,
                                                             memory_order_relaxed)) {
    }
}

static void on_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                     void *arg)
{
    (void)pool;
    weft_collector *collector = arg;
    struct event_shard *event_shard =
        atomic_load_explicit(&collector->records[type], memory_order_acquire); /* pairs: accept */
    if (!event_shard) {
        return;
    }
    event_shard += weft__perf_shard();
    uint64_t cost = cost_ns > 0 ? (uint64_t)cost_ns : 0;
    add(&event_shard->calls, 1);
    add(&event_shard->total, cost);
    add(&event_shard->count, count);
    add(&event_shard->sum, sum);
    add(&event_shard->buckets[bucket_of(cost)], 1);
    raise_to(&event_shard->max, cost);
    raise_to(&event_shard->max_count, count);
    raise_to(&event_shard->max_sum, sum);
}

/* Types are offered one at a time. */
static bool accept(unsigned type, void *arg)
{
    weft_collector *collector = arg;
    if (!(collector->types >> type & 1)) {
        return false;
    }
    if (!atomic_load_explicit(&collector->records[type], memory_order_relaxed)) {
        struct event_shard *event_shards = weft__alloc(WEFT__PERF_SHARDS * sizeof *event_shards);
        if (!event_shards) {
            collector->short_of_memory = true;
            return false;
        }
        atomic_store_explicit(&collector->records[type], event_shards, memory_order_release);
    }
    return true;
}

/* --- create, start, stop, destroy ----------------------------------------------------- */

int weft_collector_create(weft_collector **out, const struct weft_collector_opts *opts)
{
    const char *prefix = opts && opts->prefix ? opts->prefix : "weft";
    weft_collector *collector = weft__alloc(sizeof *collector);
    if (!collector || !(collector->prefix = weft__objname_copy(prefix))) {
        weft__free(collector);
        return -ENOMEM;
    }
    collector->callback = (struct weft_perf){
        .accept = accept, .on_event = on_event, .arg = collector, .pool = opts ? opts->pool : NULL};
    collector->types = opts && opts->types ? opts->types : UINT64_MAX;
    *out = collector;
    return 0;
}

void weft_collector_destroy(weft_collector *collector)
{
    if (!collector) {
        return;
    }
    weft_collector_stop(collector);
    for (unsigned type = 0; type < WEFT_PERF_TYPES; type++) {
        weft__free(atomic_load_explicit(&collector->records[type], memory_order_relaxed));
    }
    weft__free(collector->prefix);
    weft__free(collector);
}

int weft_collector_start(weft_collector *collector)
{
    WEFT__NONNULL(collector);
    weft__lock(&collector->lock);
    int err = collector->started ? -EBUSY : 0;
    if (!err) {
        collector->short_of_memory = false;
        err = weft_perf_install(&collector->callback);
    }
    if (!err && collector->short_of_memory) {
        weft_perf_remove(&collector->callback);
        err = -ENOMEM;
    } else if (!err) {
        collector->started = true;
    }
    weft__unlock(&collector->lock);
    return err;
}

void weft_collector_stop(weft_collector *collector)
{
    WEFT__NONNULL(collector);
    weft__lock(&collector->lock);
    if (collector->started) {
        weft_perf_remove(&collector->callback);
        collector->started = false;
    }
    weft__unlock(&collector->lock);
}

static void zero(_Atomic(uint64_t) *counter)
{
    atomic_store_explicit(counter, 0, memory_order_relaxed);
}

void weft_collector_reset(weft_collector *collector)
{
    WEFT__NONNULL(collector);
    for (unsigned type = 0; type < WEFT_PERF_TYPES; type++) {
        struct event_shard *event_shards =
            atomic_load_explicit(&collector->records[type], memory_order_acquire);
        for (unsigned i = 0; event_shards && i < WEFT__PERF_SHARDS; i++) {
            zero(&event_shards[i].calls);
            zero(&event_shards[i].total);
            zero(&event_shards[i].max);
            zero(&event_shards[i].count);
            zero(&event_shards[i].max_count);
            zero(&event_shards[i].sum);
            zero(&event_shards[i].max_sum);
            for (unsigned k = 0; k < BUCKETS; k++) {
                zero(&event_shards[i].buckets[k]);
            }
        }
    }
}

/* --- reading -------------------------------------------------------------------------- */

static uint64_t get(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* The least cost that `part` of a thousand of all events do not exceed, to the precision of the
 * buckets. */
static int64_t percentile(const uint64_t *buckets, uint64_t events, unsigned part, int64_t max)
{
    uint64_t wanted = (events * part + 999) / 1000, seen = 0;
    for (unsigned k = 0; k < BUCKETS; k++) {
        seen += buckets[k];
        if (seen >= wanted && seen > 0) {
            uint64_t most = bucket_most(k);
            return most < (uint64_t)max ? (int64_t)most : max;
        }
    }
    return 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Saturates: no sum gets that large unless a cost is wrong. */
static uint64_t sum_ns(uint64_t a, uint64_t b)
{
    return b < INT64_MAX - a ? a + b : INT64_MAX;
}

int weft_collector_read(weft_collector *collector, struct weft_perf_stats *out, unsigned type)
{
    WEFT__NONNULL(collector);
    const struct event_shard *event_shards =
        type < WEFT_PERF_TYPES ? atomic_load_explicit(&collector->records[type],
                                                      memory_order_acquire) /* pairs: accept */
                               : NULL;
    if (!event_shards) {
        return -ENOENT;
    }
    uint64_t buckets[BUCKETS] = {0}, events = 0, max = 0, total = 0;
    *out = (struct weft_perf_stats){0};
    for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {
        out->calls += get(&event_shards[i].calls);
        total = sum_ns(total, get(&event_shards[i].total));
        out->count += get(&event_shards[i].count);
        out->sum += get(&event_shards[i].sum);
        max = larger(max, get(&event_shards[i].max));
        out->max_count = larger(out->max_count, get(&event_shards[i].max_count));
        out->max_sum = larger(out->max_sum, get(&event_shards[i].max_sum));
        for (unsigned k = 0; k < BUCKETS; k++) {
            uint64_t n = get(&event_shards[i].buckets[k]);
            buckets[k] += n;
            events += n;
        }
    }
    out->total_ns = (int64_t)total;
    out->max_ns = (int64_t)max;
    out->mean_ns = out->calls ? out->total_ns / (int64_t)out->calls : 0;
    out->mean_count = out->calls ? (double)out->count / (double)out->calls : 0;
    out->mean_sum = out->calls ? (double)out->sum / (double)out->calls : 0;
    out->p50_ns = percentile(buckets, events, 500, out->max_ns);
    out->p90_ns = percentile(buckets, events, 900, out->max_ns);
    out->p99_ns = percentile(buckets, events, 990, out->max_ns);
    out->p999_ns = percentile(buckets, events, 999, out->max_ns);
    return 0;
}

void weft_collector_dump(weft_collector *collector, FILE *out)
{
    WEFT__NONNULL(collector);
    for (unsigned type = 0; type < WEFT_PERF_TYPES; type++) {
        struct weft_perf_stats s;
        if (weft_collector_read(collector, &s, type) == 0 && s.calls) {
            fprintf(out,
                    "%s %s calls=%" PRIu64 " total_us=%.1f mean_us=%.2f max_us=%.2f p50_us=%.2f"
                    " p90_us=%.2f p99_us=%.2f p999_us=%.2f count=%" PRIu64
                    " mean_count=%.2f max_count=%" PRIu64 " sum=%" PRIu64
                    " mean_sum=%.2f max_sum=%" PRIu64 "\n",
                    collector->prefix, weft__perf_name(type), s.calls, (double)s.total_ns / 1e3,
                    (double)s.mean_ns / 1e3, (double)s.max_ns / 1e3, (double)s.p50_ns / 1e3,
                    (double)s.p90_ns / 1e3, (double)s.p99_ns / 1e3, (double)s.p999_ns / 1e3,
                    s.count, s.mean_count, s.max_count, s.sum, s.mean_sum, s.max_sum);
        }
    }
}
