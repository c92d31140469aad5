/* Where a ready task is queued:
 *   bound to a worker              that worker's own list, or its inbox
 *   woken inside its pool          the waker's next slot; the task there moves to the ring
 *   woken or spawned outside       the pool's global queue
 *   spawned inside its pool        the spawner's fresh queue
 *   a dispatcher's                 its group's queues, or the inbox: sched/group_scheduler.h
 * A task that may run anywhere is never where only one worker can reach it.
 */
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "task/ident.h"
#include "worker/worker.h"

void weft__place_local(struct weft__worker *w, struct weft__task *task, memory_order order)
{
    while (!weft__ring_push_local(&w->ring, &task->link, order)) {
        struct weft__chain spill;
        weft__chain_init(&spill);
        weft__ring_spill_local(&w->ring, &spill);
        if (spill.count) {
            weft__count(&w->counters.overflows, 1);
            weft__global_push_chain(&w->pool->global, &spill);
        }
    }
}

static void place_bound(struct weft__worker *w, struct weft__task *task)
{
    weft_pool *home = task->home;
    struct weft__worker *target = &home->workers[task->pin];
    if (w == target) {
        weft__chain_push(&w->pinned, &task->link);
        weft__worker_end_fast_turns(w);
        return;
    }
    if (weft__inbox_push_remote(&target->inbox, &task->link)) {
        weft__parker_wake(&target->sleeper.parker);
    }
}

/* By a thread that is not a worker of the task's home pool. */
static void place_from_outside(struct weft__task *task)
{
    weft_pool *home = task->home;
    if (weft__perf_is_on(WEFT_PERF_QUEUE)) {
        weft__worker_metrics_mark_ready(weft__task_handle(task));
    }
    weft__pool_visit(home);
    if (task->pin >= 0) {
        place_bound(NULL, task);
    } else {
        weft__global_push(&home->global, &task->link);
        weft__idle_notify(&home->idle);
    }
    weft__pool_visit_end(home);
}

/* The less common cases: outside its pool, bound, or the next slot was occupied. */
static __attribute__((noinline)) int place_elsewhere(struct weft__worker *w,
                                                     struct weft__task *task)
{
    weft_pool *home = task->home;
    if (!w || w->pool != home) {
        place_from_outside(task);
    } else if (task->pin >= 0) {
        place_bound(w, task);
    } else {
        weft__place_local(w, task, memory_order_seq_cst);
        weft__idle_notify(&home->idle);
    }
    return 0;
}

__attribute__((noinline)) int weft__place(struct weft__task *task, enum weft__queue_end end)
{
    struct weft__worker *w = weft__worker_self_inline();
    if (w) {
        WEFT__TRACE(w, WEFT__TRACE_WAKE, weft__task_handle(task));
    }
    if (!w || w->pool != task->home || task->pin >= 0) {
        if (w && w->group_sched && w->pool == task->home) {
            weft__group_sched_wake(w->group_sched, task, end);
            return 0;
        }
        return place_elsewhere(w, task);
    }
    struct weft__task *before = weft__worker_swap_next(w, task);
    weft__worker_end_fast_turns(w);
    return __builtin_expect(before != NULL, 0) ? place_elsewhere(w, before) : 0;
}

/* Removes the tasks of this worker's dispatcher from the chain. */
static void take_ours(struct weft__worker *w, struct weft__chain *tasks, struct weft__chain *ours)
{
    struct weft__link *link = tasks->head, *next;
    weft__chain_init(tasks);
    weft__chain_init(ours);
    for (; link; link = next) {
        next = link->next;
        struct weft__task *task = weft__task_of(link);
        if (task->home == w->pool) {
            WEFT__TRACE(w, WEFT__TRACE_WAKE, weft__task_handle(task));
            weft__chain_push(ours, link);
        } else {
            weft__chain_push(tasks, link);
        }
    }
}

void weft__place_many(struct weft__chain *tasks, enum weft__queue_end end)
{
    struct weft__worker *w = weft__worker_self();
    if (end == WEFT__FRONT && w && w->group_sched) {
        struct weft__chain ours;
        take_ours(w, tasks, &ours);
        weft__group_sched_wake_all(w->group_sched, &ours); /* in their order */
    }
    struct weft__link *link = tasks->head, *next;
    weft__chain_init(tasks);
    for (; link; link = next) {
        next = link->next;
        weft__place(weft__task_of(link), end);
    }
}

void weft__place_fresh(struct weft__worker *w, struct weft__task *task)
{
    weft_pool *home = task->home;
    if (task->pin >= 0) {
        if (!w && weft__perf_is_on(WEFT_PERF_QUEUE)) {
            weft__worker_metrics_mark_ready(weft__task_handle(task));
        }
        place_bound(w, task);
        return;
    }
    if (w && weft__fresh_push_local(&w->fresh, &task->link) == 0) {
        weft__worker_end_fast_turns(w);
        if (w->fresh.no_thieves) {
            return; /* there is no other worker to wake */
        }
    } else {
        if (weft__perf_is_on(WEFT_PERF_QUEUE)) {
            weft__worker_metrics_mark_ready(weft__task_handle(task));
        }
        weft__global_push(&home->global, &task->link);
    }
    weft__idle_notify(&home->idle);
}
