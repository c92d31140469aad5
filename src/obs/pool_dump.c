/* The text dump of a pool: its counters, its workers, its fibers, and the trace ring. The dump with
 * backtraces is obs/dump.c. */
#include <inttypes.h>
#include <stdio.h>

#include <weft/buf.h>
#include <weft/inspect.h>

#include "base/nonnull.h"
#include "obs/report.h"
#include "sched/pool.h"

static const char *state_name(enum weft_worker_state state)
{
    static const char *const names[] = {"absent", "running", "searching", "parked"};
    return names[state];
}

static void dump_worker(weft_pool *pool, unsigned i, FILE *out)
{
    struct weft_worker_stats w;
    char current[32] = "-";
    weft_worker_stats(pool, &w, i);
    if (w.current) {
        weft_fiber_format(w.current, current, sizeof current);
    }
    fprintf(out,
            "  worker %u: %s tid=%d current=%s executed=%" PRIu64 " spawned=%" PRIu64
            " finished=%" PRIu64 " steals=%" PRIu64 " stolen=%" PRIu64 " parks=%" PRIu64
            " wakes=%" PRIu64 " overflows=%" PRIu64 " stacks=%" PRIu64 " hogs=%" PRIu64
            " ring=%zu fresh=%zu bound=%zu inbox=%zu\n",
            i, state_name(w.state), w.tid, current, w.executed, w.spawned, w.finished, w.steals,
            w.stolen, w.parks, w.wakes, w.overflows, w.stacks, w.hogs, w.ring, w.fresh, w.bound,
            w.inbox);
    if (w.io_polls) {
        fprintf(out, "    io: waiting=%" PRId64 " polls=%" PRIu64 " events=%" PRIu64 "\n",
                w.io_waiting, w.io_polls, w.io_events);
    }
}

struct fiber_list {
    FILE *out;
    size_t left, more;
};

static bool dump_fiber(const struct weft_fiber_info *info, void *arg)
{
    struct fiber_list *list = arg;
    if (list->left == 0) {
        list->more++;
        return true;
    }
    list->left--;
    char text[32], on[32];
    weft_fiber_format(info->fiber, text, sizeof text);
    fprintf(list->out, "  fiber %s %s %s age=%.3fs", text, info->name[0] ? info->name : "-",
            weft_fiber_state_name(info->state), (double)info->age_ns / 1e9);
    if (info->group[0]) {
        fprintf(list->out, " group=%s%s", info->group, info->daemon ? " daemon" : "");
    }
    if (info->worker >= 0) {
        fprintf(list->out, " worker=%d", info->worker);
    }
    if (info->bound >= 0) {
        fprintf(list->out, " bound=%d", info->bound);
    }
    if (info->waits) {
        fprintf(list->out, " waits=%s", info->waits);
    }
    if (info->on) {
        weft_fiber_format(info->on, on, sizeof on);
        fprintf(list->out, " on=%s", on);
    }
    fputc('\n', list->out);
    return true;
}

static void dump_buffers(FILE *out)
{
    struct weft_buf_stats b;
    weft_buf_stats(&b);
    fprintf(out,
            "  buffers: live=%" PRIu64 " live_bytes=%zu kept=%" PRIu64
            " kept_bytes=%zu hits=%" PRIu64 " misses=%" PRIu64 " foreign=%" PRIu64 "\n",
            b.live, b.live_bytes, b.kept, b.kept_bytes, b.hits, b.misses, b.foreign);
}

static void dump_watchdog(FILE *out)
{
    struct weft_watchdog_stats w;
    weft_watchdog_stats(&w);
    fprintf(out, "  watchdog: %s", weft__wake_source_name(w.wake_source));
    if (w.wake_source == WEFT_WAKE_SOURCE_EXTERNAL) {
        fprintf(out, " (%s)", w.source_name);
    }
    fprintf(out, " cycles=%" PRIu64 " deadlocks=%" PRIu64 " hogs=%" PRIu64 " ticks=%" PRIu64 "\n",
            w.cycles, w.deadlocks, w.hogs, w.ticks);
}

void weft_pool_dump(weft_pool *pool, FILE *out, size_t max_fibers)
{
    WEFT__NONNULL(pool);
    struct weft_pool_stats p;
    struct weft_memory_stats m;
    weft_pool_stats(pool, &p);
    weft_memory_stats(&m);
    fprintf(out,
            "pool %s: workers=%u active=%u idle=%u started=%s stopping=%s live=%" PRIu64
            " global=%zu submitted=%" PRIu64 "%s\n",
            p.name, p.workers, p.active, p.idle, p.started ? "yes" : "no",
            p.stopping ? "yes" : "no", p.live, p.global, p.submitted, p.compute ? " compute" : "");
    if (p.driver) {
        fprintf(out, "  driver: %s (%s)\n", p.driver, p.driver_why);
    }
    fprintf(out, "  memory: blocks=%zu stacks=%zu reserved=%zuMiB mappings=%zu guard=%s\n",
            m.blocks, m.stacks, m.reserved_bytes >> 20, m.mappings, m.guard);
    dump_buffers(out);
    dump_watchdog(out);
    for (unsigned i = 0; i < p.workers; i++) {
        dump_worker(pool, i, out);
    }
    if (max_fibers) {
        struct fiber_list list = {.out = out, .left = max_fibers};
        weft_fiber_each(pool, dump_fiber, &list);
        if (list.more) {
            fprintf(out, "  ... and %zu more fibers\n", list.more);
        }
    }
}

void weft_pool_trace_dump(weft_pool *pool, FILE *out)
{
    WEFT__NONNULL(pool);
    static const char *const kinds[] = {"",    "spawn", "run",  "wait",   "wake",
                                        "end", "steal", "park", "unpark", "migrate"};
    for (unsigned i = 0; i < pool->worker_count; i++) {
        const struct weft__trace *trace = &pool->workers[i].trace;
        uint64_t end = atomic_load_explicit(&trace->written, memory_order_acquire);
        uint64_t n = end < WEFT__TRACE_EVENTS ? 0 : end - WEFT__TRACE_EVENTS;
        for (; n < end; n++) {
            unsigned at = n % WEFT__TRACE_EVENTS;
            uint64_t who = atomic_load_explicit(&trace->events[at].who, memory_order_relaxed);
            int64_t ns = atomic_load_explicit(&trace->events[at].at, memory_order_relaxed);
            unsigned kind = atomic_load_explicit(&trace->kinds[at], memory_order_relaxed);
            fprintf(out, "%" PRId64 " worker=%u %s ", ns, i,
                    kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "?");
            if (kind == WEFT__TRACE_STEAL) {
                fprintf(out, "from=%u n=%u\n", (unsigned)(who >> 32), (unsigned)who);
            } else {
                char text[32];
                weft_fiber_format(who, text, sizeof text);
                fprintf(out, "%s\n", who ? text : "-");
            }
        }
    }
}
