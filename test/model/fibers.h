/* Fibers for clients of waits and of the objects that fibers wait on: thread i of the client is a
 * worker that runs fiber i and nothing else; a suspended fiber sleeps until a thread places it.
 * Threads from FIBERS on are plain threads. A client includes this header once, calls fibers_setup
 * in its setup and fibers_rest in its check.
 *
 * cancel and interrupt work by handle; deadlines: fibers_expire(i) does what the clock would do to
 * fiber i once LATER has come. */
#ifndef WEFT_TEST_MODEL_FIBERS_H
#define WEFT_TEST_MODEL_FIBERS_H

#include <string.h>

#include "lock/futex.h"
#include "model/explore.h"
#include "model/twins.h"
#include "sched/pool.h"
#include "task/handle.h"
#include "wait/waiter.h"
#include "worker/worker.h"

#ifndef FIBERS
#define FIBERS 2
#endif
#ifndef TASKS /* control blocks; those from FIBERS on belong to no thread, and a client sets them
               * up */
#define TASKS FIBERS
#endif

#define GENERATION 3
#define HANDLE(i) ((weft_fiber)GENERATION << 32 | (weft_fiber)((i) + 1))
#define LATER (TWIN_NOW + ((int64_t)1 << WEFT__WHEEL_TICK_SHIFT))

static struct weft__task tasks[TASKS];
static struct weft__worker workers[FIBERS];
static struct weft__stack stacks[FIBERS];
static char stack_bytes[FIBERS][1024] __attribute__((aligned(64)));
static _Atomic(uint32_t) placed[FIBERS];

struct weft__worker *weft__worker_self(void)
{
    int i = x_thread();
    return i >= 0 && i < FIBERS ? &workers[i] : NULL;
}

weft_fiber weft_self(void)
{
    int i = x_thread();
    return i >= 0 && i < FIBERS ? HANDLE(i) : WEFT_NO_FIBER;
}

struct weft__task *weft__slab_find(uint32_t slot)
{
    return slot >= 1 && slot <= TASKS ? &tasks[slot - 1] : NULL;
}

struct weft__worker *weft__worker_suspend(struct weft__worker *w, enum weft__post post)
{
    int i = x_thread();
    X_ASSERT(w == &workers[i] && post == WEFT__POST_PARK);
    weft__reader_slot_settle(w->reader_slot);
    if (weft__waiter_settle(&tasks[i])) {
        while (atomic_load_explicit(&placed[i], memory_order_acquire) == 0) {
            weft__futex_wait(&placed[i], 0, INT64_MAX);
        }
        atomic_store_explicit(&placed[i], 0, memory_order_relaxed);
    }
    X_ASSERT(!weft__task_run(&tasks[i]));
    return w;
}

int weft__place(struct weft__task *which, enum weft__queue_end end)
{
    (void)end;
    size_t i = (size_t)(which - tasks);
    X_ASSERT(i < FIBERS);
    X_ASSERT(atomic_exchange_explicit(&placed[i], 1, memory_order_release) == 0);
    weft__futex_wake(&placed[i], 1);
    return 0;
}

void weft__place_many(struct weft__chain *ready, enum weft__queue_end end)
{
    struct weft__link *link;
    while ((link = weft__chain_pop(ready))) {
        weft__place((struct weft__task *)(void *)link, end);
    }
}

/* No hook is installed. */
void weft__trace_event(struct weft__worker *w, enum weft__trace_kind kind, uint64_t who)
{
    (void)w, (void)kind, (void)who;
}

__attribute__((unused)) static void fibers_setup(void)
{
    memset(stack_bytes, 0, sizeof stack_bytes);
    for (int i = 0; i < FIBERS; i++) {
        stacks[i] = (struct weft__stack){.top = stack_bytes[i] + sizeof stack_bytes[i]};
        tasks[i] = (struct weft__task){.pin = -1, .slot = (uint32_t)i + 1, .stack = &stacks[i]};
        atomic_init(&tasks[i].state, WEFT__TASK_RUNNING);
        atomic_init(&tasks[i].ident, (uint64_t)GENERATION << 32 | WEFT__IDENT_LIVE);
        atomic_init(&placed[i], 0);
        workers[i].current = &tasks[i];
        workers[i].reader_slot = NULL;
        workers[i].owner = &workers[i]; /* an object without an owner is not owned by the caller */
        weft__wheel_init(&workers[i].wheel, TWIN_NOW, WEFT__WHEEL_TICK_SHIFT);
    }
    x_name(tasks, sizeof tasks, "tasks");
    x_name(workers, sizeof workers, "workers");
    x_name(placed, sizeof placed, "placed");
}

/* No fiber is left in a wait, none was queued twice. */
__attribute__((unused)) static void fibers_rest(void)
{
    for (int i = 0; i < FIBERS; i++) {
        X_ASSERT(weft__task_state(&tasks[i]) == WEFT__TASK_RUNNING);
        X_ASSERT(!(weft__ident_flags(&tasks[i]) & WEFT__IDENT_LOCK));
        X_ASSERT(placed[i] == 0);
    }
}

/* Time passes for fiber i, beyond LATER. */
__attribute__((unused)) static void fibers_expire(int i)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__wheel_advance(&workers[i].wheel, LATER + (1 << WEFT__WHEEL_TICK_SHIFT), 16, &ready);
    weft__place_all(&ready, WEFT__FRONT);
}

#endif
