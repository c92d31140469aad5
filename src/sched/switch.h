/* One switch, in parts that are inlined into the function that suspends: pick, leave, and the work
 * for the fiber that was switched away from. Rare parts are in sched/switch.c; the rules are in
 * worker/worker.h.
 *
 * The parts are a template with two instances, one for the workers of a pool and one for those of a
 * dispatcher. A part that differs takes the scheduler as a constant, so that neither instance tests
 * for the other. A switch chooses its instance once, where the pool's shortest path ends: with a
 * task in the next slot, or in the ring while only the ring has to be checked, the worker is a
 * pool's, because a dispatcher's worker uses neither. All tasks of a dispatcher, and no others,
 * have WEFT__TASK_GROUPED, and no task moves between the two, so the context that is resumed
 * belongs to the same instance (docs/adr/0033-one-switch-two-schedulers.md).
 *
 * Most callers suspend by weft__worker_suspend, which is the whole switch as one function. A wait
 * that happens for each message of a connection inlines the switch (weft__waiter_park_inline): one
 * set of saved registers less, which is one cache line of each stack. */
#ifndef WEFT_SCHED_SWITCH_H
#define WEFT_SCHED_SWITCH_H

#include "sched/pool.h"
#include "sched/stackless.h"
#include "wait/waiter.h"
#include "worker/worker.h"

#define WEFT__WAIT_LINES 5u /* cache lines: the frames of a switch, a wait and a call */
#define WEFT__TLB_BATCH 48u /* stacks whose addresses are translated at the same time */

/* Each part of a switch is a function; all are inlined into one piece of code. */
#define WEFT__HOT static inline __attribute__((always_inline))

WEFT__HOT void weft__set_current(struct weft__worker *w, struct weft__task *task)
{
    atomic_store_explicit(&w->current, task, memory_order_relaxed);
}

/* Which instance of the template. */
enum weft__scheduler {
    WEFT__SCHEDULER_POOL,   /* the order of worker/worker.h */
    WEFT__SCHEDULER_GROUPS, /* the order of sched/group_scheduler.h */
};

/* The scheduler of a running task, given its flags. */
static inline enum weft__scheduler weft__scheduler_of(unsigned flags)
{
    return flags & WEFT__TASK_GROUPED ? WEFT__SCHEDULER_GROUPS : WEFT__SCHEDULER_POOL;
}

/* The rare parts. */
struct weft__task *weft__pick_by_rules(struct weft__worker *w, bool yielded);
void weft__warm_tlb_many(struct weft__worker *w, uint64_t head, uint64_t n);
void weft__requeue_bound(struct weft__worker *w, struct weft__task *task);
void weft__requeue_in_group(struct weft__worker *w, struct weft__task *task, bool yielded);
void weft__attach(struct weft__worker *w, struct weft__task *task, struct weft__stack *stack);
struct weft__worker *weft__leave_out_of_line(struct weft__worker *w, struct weft__task *self,
                                             struct weft__task *next, int error, unsigned flags);
struct weft__worker *weft__suspend_traced(struct weft__worker *w, unsigned tracing,
                                          enum weft__post post);
/* weft__worker_suspend on a dispatcher's worker. */
struct weft__worker *weft__suspend_in_group(struct weft__worker *w, enum weft__post post);
/* weft__worker_run on a dispatcher's worker, for a fiber with a stack. */
void weft__worker_run_in_group(struct weft__worker *w, struct weft__task *task);

/* --- pick ------------------------------------------------------------------- */

static inline bool weft__has_other_ready(const struct weft__worker *w)
{
    return w->pinned.head || weft__ring_length(&w->ring) || weft__fresh_length(&w->fresh);
}

/* Prefetches the stack of the task after this one, which among thousands is in no near cache. The
 * task may run on another worker by now: blocks are never unmapped, and any address is good enough
 * for a prefetch. A task that waited usually returns through some frames to its caller and then
 * waits again; a task that yielded needs only the first line. */
WEFT__HOT void weft__prefetch_frame(const struct weft__task *task, bool yielded)
{
    if (task) {
        const char *sp = __atomic_load_n((const char *const *)&task->ctx.sp, __ATOMIC_RELAXED);
        __builtin_prefetch(sp);
        for (size_t line = 1; !yielded && line < WEFT__WAIT_LINES; line++) {
            __builtin_prefetch(sp + line * WEFT__CACHE_LINE);
        }
    }
}

/* No TLB holds the translations for hundreds of fibers in turn, each on a page of its own. A
 * prefetch waits for its own translation, 0.2 us in a virtual machine, but several translations
 * overlap: so one fiber waits for those of all the next ones. */
WEFT__HOT void weft__warm_tlb(struct weft__worker *w, uint64_t head)
{
    if ((int64_t)(head - w->translated) >= 0) {
        uint64_t n = atomic_load_explicit(&w->ring.tail, memory_order_relaxed) - head;
        if (n > 1) {
            weft__warm_tlb_many(w, head, n);
        }
    }
}

/* Prefetches what the next task reads first, if its waker left a prefetch hint. */
WEFT__HOT void weft__prefetch_hint(const void **hint)
{
    if (*hint) {
        __builtin_prefetch(*hint, 1);
        *hint = NULL; /* the slot may belong to another task next time */
    }
}

/* Most turns of a busy worker find work only in the ring: until something is put anywhere else
 * (weft__worker_end_fast_turns) or a tick is due, check nothing else. NULL: all else has to be
 * checked, or this is a dispatcher's worker. */
WEFT__HOT struct weft__task *weft__pick_from_ring(struct weft__worker *w, bool yielded)
{
    int fast_turns = weft__turns(&w->fast_turns);
    if (fast_turns > 0) {
        struct weft__task *task = weft__task_of(weft__ring_pop_local(&w->ring));
        if (task) {
            uint64_t head = atomic_load_explicit(&w->ring.head, memory_order_relaxed);
            if (!yielded) {
                weft__warm_tlb(w, head);
                weft__prefetch_hint(&w->prefetch_hint[head & w->ring.mask]);
            }
            weft__prefetch_frame(weft__task_of(weft__ring_peek_local(&w->ring, 0)), yielded);
            __builtin_prefetch(weft__ring_peek_local(&w->ring, 1), 1);
            weft__turns_set(&w->fast_turns, fast_turns - 1);
            return task;
        }
    }
    return NULL;
}

/* On a pool's worker. */
WEFT__HOT struct weft__task *weft__pick(struct weft__worker *w, bool yielded)
{
    struct weft__task *task = weft__pick_from_ring(w, yielded);
    return task ? task : weft__pick_by_rules(w, yielded);
}

/* A task that waits is usually followed by the task it has just woken: the same rules in fewer
 * steps. NULL: the case is not that simple, or a thief was faster. */
WEFT__HOT struct weft__task *weft__pick_woken(struct weft__worker *w)
{
    if (!atomic_load_explicit(&w->next, memory_order_relaxed)) {
        return NULL;
    }
    int left = weft__turns(&w->turns_left);
    if (left <= 0) {
        return NULL;
    }
    if (w->streak >= WEFT__NEXT_STREAK) {
        if (weft__has_other_ready(w)) {
            return NULL;
        }
        w->streak = 0; /* no other task was passed over */
    }
    struct weft__task *task = weft__worker_swap_next(w, NULL);
    if (task) {
        weft__turns_set(&w->turns_left, left - 1);
        w->streak++;
        w->fresh_last = false;
    }
    return task;
}

/* --- after a switch ---------------------------------------------------------- */

WEFT__HOT void weft__requeue(struct weft__worker *w, struct weft__task *task, bool yielded,
                             enum weft__scheduler scheduler)
{
    if (scheduler == WEFT__SCHEDULER_GROUPS) {
        weft__requeue_in_group(w, task, yielded);
        return;
    }
    if (task->pin >= 0) {
        weft__requeue_bound(w, task);
        return;
    }
    if (__builtin_expect(!weft__ring_push_local(&w->ring, &task->link, memory_order_release), 0)) {
        weft__place_local(w, task, memory_order_release);
    }
    /* The task is queued after the running one, which may run for long: a sleeping worker could
     * take it. The check has no barrier, because a yield should not pay for one: a sleeper missed
     * by nanoseconds is found at the next switch or tick. */
    uint32_t idle = atomic_load_explicit(&w->pool->idle.word, memory_order_relaxed);
    if (__builtin_expect(weft__idle_wants_work(idle), 0)) {
        weft__idle_wake_one(&w->pool->idle);
    }
}

/* Does, for the context that was switched away from, what could not be done on its stack. */
WEFT__HOT void weft__after_switch(struct weft__worker *w, enum weft__scheduler scheduler)
{
    struct weft__task *task = w->post_task;
    enum weft__post post = (enum weft__post)w->post;
    if (post == WEFT__POST_YIELD) {
        weft__task_requeue(task);
        weft__requeue(w, task, true, scheduler);
    } else if (post == WEFT__POST_PARK) {
        if (__builtin_expect(!weft__waiter_settle(task), 0)) {
            weft__requeue(w, task, false, scheduler);
        }
    } else if (post == WEFT__POST_END) {
        weft__stack_cache_put(&w->stacks, w->post_stack, w->post_class);
    } else if (post == WEFT__POST_MIGRATE) {
        weft__task_requeue(task);
        weft__place(task, WEFT__BACK);
    }
    w->post = WEFT__POST_NONE;
    weft__san_destroy(&w->ended_san);
}

/* --- switching ------------------------------------------------------------------ */

#if WEFT__TSAN
#define WEFT__SAN_OF(stack) (&(stack)->san)
#else
#define WEFT__SAN_OF(stack) NULL
#endif

/* Makes the task the running one; `spare` is a stack for it, or NULL. False: the task needs a
 * stack that only the base context may fetch, or is stackless and runs on the base context. */
WEFT__HOT bool weft__start(struct weft__worker *w, struct weft__task *task,
                           struct weft__stack *spare)
{
    if (__builtin_expect(weft__task_is_stackless(task), 0)) {
        w->handoff = task;
        return false;
    }
    if (weft__task_is_fresh(task)) {
        struct weft__stack *stack =
            spare ? spare : weft__stack_cache_get(&w->stacks, task->stack_class);
        if (__builtin_expect(!stack, 0)) {
            w->handoff = task;
            return false;
        }
        weft__attach(w, task, stack);
    }
    weft__task_run(task);
    weft__set_current(w, task);
    atomic_store_explicit(&task->ran_on, (int16_t)w->index, memory_order_relaxed);
    return true;
}

WEFT__HOT void weft__check_fp(const struct weft__task *task)
{
    if (WEFT_DEBUG) {
        weft__worker_check_fp(task);
    }
}

/* `next` NULL: to the base context. */
WEFT__HOT struct weft__worker *weft__leave(struct weft__worker *w, struct weft__task *next,
                                           enum weft__post post, enum weft__scheduler scheduler)
{
    struct weft__task *self = weft__current(w);
    int error = *w->errno_at; /* errno belongs to the fiber, not to the thread */
    unsigned flags = self->flags;
    weft__check_fp(self);
    weft__reader_slot_settle(w->reader_slot);
    w->post = (uint8_t)post;
    w->post_task = self;
    const struct weft__context *to = &w->base;
    struct weft__san *to_san = &w->base_san;
    if (next && weft__start(w, next, NULL)) {
        to = &next->ctx;
        to_san = WEFT__SAN_OF(next->stack);
        flags |= next->flags;
    } else {
        next = NULL;
        weft__set_current(w, NULL);
    }
    if (__builtin_expect(flags & WEFT__TASK_OUT_OF_LINE, 0)) {
        return weft__leave_out_of_line(w, self, next, error, flags);
    }
    weft__san_leave(to_san);
    w = weft__context_switch(&self->ctx, to, w);
    weft__after_switch(w, scheduler);
    *w->errno_at = error;
    (void)to_san;
    return w;
}

WEFT__HOT struct weft__worker *weft__suspend_inline(struct weft__worker *w, enum weft__post post)
{
#ifdef WEFT_EXPLORE /* where fibers are threads */
    return weft__worker_suspend(w, post);
#endif
    unsigned tracing = weft__worker_trace_flags(w);
    if (__builtin_expect(tracing, 0)) {
        return weft__suspend_traced(w, tracing, post);
    }
    struct weft__task *next = weft__pick_woken(w);
    if (!next) {
        next = weft__pick_from_ring(w, false);
    }
    if (!next) {
        if (__builtin_expect(w->group_sched != NULL, 0)) {
            return weft__suspend_in_group(w, post);
        }
        next = weft__pick_by_rules(w, false);
    }
    return weft__leave(w, next, post, WEFT__SCHEDULER_POOL);
}

/* weft__waiter_park with the switch inlined, for a fiber that has armed its task itself. */
WEFT__MUST_USE WEFT__HOT enum weft__reason
weft__waiter_park_inline(struct weft__task *task, uint64_t ticket, struct weft__worker *w,
                         int64_t deadline, const struct weft__wait_kind *kind, uint64_t on)
{
    if (!weft__waiter_is_plain(task, deadline)) {
        return weft__waiter_park_until(task, ticket, w, deadline, kind, on);
    }
    struct weft__wait_note note = {.kind = kind, .on = on, .since = w->now};
    task->note = &note;
    w = weft__suspend_inline(w, WEFT__POST_PARK);
    return weft__waiter_after_park(weft__current(w), &note);
}

#endif
