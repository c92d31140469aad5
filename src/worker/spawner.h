/* The spawner: a per-thread cache of control blocks and stack credits for spawning fibers. Each
 * worker has one. A plain thread gets one on first use and returns it when the thread exits. The
 * struct is in worker/worker.h, which embeds it. */
#ifndef WEFT_WORKER_SPAWNER_H
#define WEFT_WORKER_SPAWNER_H

#include <errno.h>

#include "base/alloc.h"
#include "task/ident.h"
#include "task/slab.h"
#include "worker/worker.h"

/* The spawner of the calling plain thread. Returns NULL without memory. */
struct weft__spawner *weft__spawner_of_thread(void);

/* The calling thread's spawner. `w`: its worker, or NULL. */
static inline struct weft__spawner *weft__spawner_of(struct weft__worker *w)
{
    return __builtin_expect(w != NULL, 1) ? &w->spawner : weft__spawner_of_thread();
}

/* Takes a stack credit for one fiber, from the cached batch or a new one; a single credit if
 * memory is short. */
static inline int weft__spawner_take_credit(struct weft__spawner *spawner, unsigned class)
{
    if (__builtin_expect(spawner->credits[class] == 0, 0)) {
        unsigned batch = weft__stack_batch(class);
        if (weft__stack_credit_take(class, batch) == 0) {
            spawner->credits[class] = (uint16_t)batch;
        } else if (weft__stack_credit_take(class, 1) == 0) {
            spawner->credits[class] = 1;
        } else {
            return -ENOMEM;
        }
    }
    spawner->credits[class]--;
    return 0;
}

/* A fiber that ends returns its credit a moment before its stack. The one credit that stays in the
 * cache, which no other thread can use, makes up for that. */
static inline void weft__spawner_give_credit(struct weft__spawner *spawner, unsigned class)
{
    unsigned batch = weft__stack_batch(class);
    if (__builtin_expect(++spawner->credits[class] >= 2 * batch, 0)) {
        weft__stack_credit_give(class, batch);
        spawner->credits[class] -= (uint16_t)batch;
    }
}

/* Frees the slot for another fiber. The caller holds the ident lock, or no other thread has seen
 * the task. */
static inline void weft__spawner_retire(struct weft__spawner *spawner, struct weft__task *task)
{
    if (__builtin_expect(task->flags & WEFT__TASK_GROUPED, 0) && task->label) {
        weft__free(task->label);
        task->label = NULL;
    }
    weft__task_free(task);
    weft__ident_retire(task);
    weft__slab_put(&spawner->blocks, task);
}

#endif
