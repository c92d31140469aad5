/* Snapshots of pools, workers, fibers and memory. */
#include <errno.h>
#include <stdio.h>

#include <weft/inspect.h>

#include "base/clock.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "buf/bufs.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "sched/stackless.h"
#include "task/ident.h"
#include "task/slab.h"

static uint64_t read_count(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void worker_snapshot(struct weft__worker *w, struct weft_worker_stats *out)
{
    const struct weft__counters *c = &w->counters;
    const struct weft__task *running = weft__current(w);
    *out = (struct weft_worker_stats){
        .state = (enum weft_worker_state)atomic_load_explicit(&w->state, memory_order_relaxed),
        .tid = atomic_load_explicit(&w->tid, memory_order_relaxed),
        .executed = read_count(&c->executed),
        .spawned = read_count(&c->spawned),
        .finished = read_count(&c->finished),
        .steals = read_count(&c->steals),
        .stolen = read_count(&c->stolen),
        .parks = read_count(&c->parks),
        .wakes = read_count(&c->wakes),
        .overflows = read_count(&c->overflows),
        .stacks = read_count(&c->stacks),
        .hogs = read_count(&w->watch_state.hogs),
        .io_waiting = atomic_load_explicit(&w->io.linked, memory_order_relaxed),
        .io_polls = read_count(&w->io.waits),
        .io_events = read_count(&w->io.events),
        .ring = weft__ring_length(&w->ring),
        .fresh = weft__fresh_length(&w->fresh),
        .bound = read_count(&w->bound),
        .inbox = !weft__inbox_is_empty(&w->inbox),
        .current = running ? weft__task_handle(running) : WEFT_NO_FIBER,
    };
}

int weft_worker_stats(weft_pool *pool, struct weft_worker_stats *out, unsigned worker)
{
    WEFT__NONNULL(pool);
    if (worker >= pool->worker_count) {
        return -EINVAL;
    }
    worker_snapshot(&pool->workers[worker], out);
    return 0;
}

void weft_pool_stats(weft_pool *pool, struct weft_pool_stats *out)
{
    WEFT__NONNULL(pool);
    int phase = atomic_load_explicit(&pool->phase, memory_order_relaxed);
    *out = (struct weft_pool_stats){
        .name = pool->name,
        .workers = pool->worker_count,
        .started = phase == WEFT__POOL_STARTED || phase == WEFT__POOL_STOPPING,
        .stopping = phase == WEFT__POOL_STOPPING,
        .compute = pool->compute,
        .live = weft__pool_live(pool),
        .global = weft__global_length(&pool->global),
        .submitted = read_count(&pool->entered) - read_count(&pool->refused),
    };
    const struct weft__driver_kind *kind =
        atomic_load_explicit(&pool->driver, memory_order_acquire); /* pairs: weft__worker_driver */
    if (kind) {
        out->driver = kind->name;
        out->driver_why = atomic_load_explicit(&pool->driver_why, memory_order_relaxed);
    }
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft_worker_stats w;
        worker_snapshot(&pool->workers[i], &w);
        out->active += w.state == WEFT_WORKER_RUNNING || w.state == WEFT_WORKER_SEARCHING;
        out->idle += w.state == WEFT_WORKER_PARKED;
        out->total.executed += w.executed;
        out->total.spawned += w.spawned;
        out->total.finished += w.finished;
        out->total.steals += w.steals;
        out->total.stolen += w.stolen;
        out->total.parks += w.parks;
        out->total.wakes += w.wakes;
        out->total.overflows += w.overflows;
        out->total.stacks += w.stacks;
        out->total.hogs += w.hogs;
        out->total.io_waiting += w.io_waiting;
        out->total.io_polls += w.io_polls;
        out->total.io_events += w.io_events;
        out->total.ring += w.ring;
        out->total.fresh += w.fresh;
        out->total.bound += w.bound;
        out->total.inbox += w.inbox;
    }
}

/* True: the fiber was woken meanwhile, and the caller must queue it. */
static bool wait_snapshot(struct weft__task *task, struct weft_fiber_info *out)
{
    if (!weft__task_hold(task)) {
        return false;
    }
    struct weft__wait_info wait = weft__task_wait_info(task);
    out->waits = wait.kind->name;
    out->on = wait.kind->fiber ? wait.on : WEFT_NO_FIBER;
    return weft__task_unhold(task);
}

/* Under its ident lock the fiber cannot end, so its fields are stable. Returns as wait_snapshot. */
static bool fiber_snapshot_locked(struct weft__task *task, uint64_t ident, int64_t now,
                                  struct weft_fiber_info *out)
{
    enum weft__task_state state = weft__task_state(task);
    *out = (struct weft_fiber_info){
        .fiber = weft__ident_generation(ident) << 32 | task->slot,
        .state = weft__fiber_state_of(state),
        .worker = atomic_load_explicit(&task->ran_on, memory_order_relaxed),
        .bound = task->pin,
        .age_ns = now > task->born ? now - task->born : 0, /* created since the walk began */
    };
    snprintf(out->name, sizeof out->name, "%s", weft__task_name(task));
    if (!(ident & WEFT__IDENT_DONE)) {
        weft__objname_truncate(out->group, sizeof out->group, weft__group_name_locked(task));
        out->daemon = task->flags & WEFT__TASK_DAEMON;
    }
    return !weft__task_is_stackless(task) && wait_snapshot(task, out);
}

void weft_fiber_each(weft_pool *pool, bool (*visit)(const struct weft_fiber_info *, void *),
                     void *arg)
{
    int64_t now = weft__clock_ns();
    uint32_t slots = weft__slab_slots();
    for (uint32_t slot = 1; slot <= slots; slot++) {
        struct weft__task *task = weft__slab_find(slot);
        uint64_t ident = atomic_load_explicit(&task->ident, memory_order_acquire);
        struct weft_fiber_info info;
        if (!(ident & WEFT__IDENT_LIVE) ||
            !weft__ident_lock(task, weft__ident_generation(ident), 0, &ident)) {
            continue;
        }
        bool ours = !pool || weft__pool_owns(pool, task, ident);
        bool woken = ours && fiber_snapshot_locked(task, ident, now, &info);
        weft__ident_unlock(task, ident);
        if (woken) {
            weft__place(task, WEFT__BACK);
        }
        if (ours && !visit(&info, arg)) {
            return;
        }
    }
}

void weft_memory_stats(struct weft_memory_stats *out)
{
    static const char *const ways[] = {"guard-install", "mprotect", "canary"};
    struct weft__stack_totals stacks;
    weft__stack_totals(&stacks);
    *out = (struct weft_memory_stats){
        .blocks = weft__slab_slots(),
        .stacks = stacks.carved,
        .reserved_bytes = stacks.reserved_bytes,
        .mappings = stacks.chunks,
        .guard = ways[stacks.guard],
    };
}

void weft_memory_trim(void)
{
    weft__stack_trim(0, SIZE_MAX);
    weft__buf_trim_pools();
}

void weft_pool_trace(weft_pool *pool, bool on)
{
    WEFT__NONNULL(pool);
    for (unsigned i = 0; i < pool->worker_count; i++) {
        _Atomic(uint8_t) *tracing = &pool->workers[i].tracing;
        if (on) {
            atomic_fetch_or_explicit(tracing, WEFT__TRACING_RING, memory_order_relaxed);
        } else {
            atomic_fetch_and_explicit(tracing, (uint8_t)~WEFT__TRACING_RING, memory_order_relaxed);
        }
    }
}
