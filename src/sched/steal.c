/* Work stealing: what one worker takes from another. */
#include "sched/pool.h"
#include "worker/trace.h"
#include "worker/worker.h"

#define STEAL_FRESH 32u /* at most, per steal */

/* Takes the oldest not-yet-started tasks of a victim, up to half of them, with one CAS each:
 * returns the first to run and moves the others to our own fresh queue. Stealing one at a time
 * would make the two workers contend for the idle word at every task. */
static struct weft__task *steal_fresh(struct weft__worker *w, struct weft__worker *victim,
                                      uint64_t *n)
{
    uint64_t wanted = weft__fresh_length(&victim->fresh);
    wanted -= wanted / 2;
    if (wanted > STEAL_FRESH) {
        wanted = STEAL_FRESH;
    }
    struct weft__task *first = NULL;
    *n = 0;
    while (*n < wanted) {
        bool lost;
        struct weft__task *task = weft__task_of(weft__fresh_take_oldest(&victim->fresh, &lost));
        if (!task) {
            if (lost && !first) {
                continue;
            }
            break;
        }
        ++*n;
        if (!first) {
            first = task;
        } else if (weft__fresh_push_local(&w->fresh, &task->link) != 0) {
            weft__global_push(&w->pool->global, &task->link);
        }
    }
    return first;
}

struct weft__task *weft__worker_steal(struct weft__worker *w, struct weft__worker *victim,
                                      bool last)
{
    uint64_t n;
    struct weft__task *task = weft__task_of(weft__ring_steal(&victim->ring, &w->ring, &n));
    if (!task) {
        task = steal_fresh(w, victim, &n);
    }
    /* A task that was just woken runs best where it was woken: taken only if nothing else is
     * left. */
    if (!task && last && atomic_load_explicit(&victim->next, memory_order_relaxed)) {
        task = atomic_exchange_explicit(&victim->next, NULL,
                                        memory_order_acquire); /* pairs: swap_next */
        n = 1;
    }
    if (task) {
        weft__worker_end_fast_turns(w);
        weft__count(&w->counters.steals, 1);
        weft__count(&w->counters.stolen, n);
        WEFT__TRACE(w, WEFT__TRACE_STEAL, (uint64_t)(unsigned)victim->index << 32 | n);
    }
    return task;
}
