/* The hot path: pick, switch, and the work after a switch. The rules are in worker/worker.h. */
#include <sched.h>

#include <weft/fiber.h>

#include "base/assert.h"
#include "sched/fiber_local.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "sched/stackless.h"
#include "sched/switch.h"
#include "task/ident.h"
#include "task/parent.h"
#include "wait/waiter.h"
#include "worker/worker.h"

_Thread_local struct weft__worker *weft__worker_tls __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) struct weft__worker *weft__worker_self(void)
{
    struct weft__worker *w = weft__worker_tls;
    __asm__ volatile("" : "+r"(w)::"memory");
    return w;
}

void weft__worker_set_self(struct weft__worker *worker)
{
    weft__worker_tls = worker;
}

/* --- pick ------------------------------------------------------------------- */

/* The rare branches are functions, so that the frame of a yield is two cache lines. */
#define RARE __attribute__((noinline, cold))

RARE struct weft__task *weft__worker_take_oldest(struct weft__worker *w)
{
    bool lost;
    struct weft__link *item;
    do {
        item = weft__fresh_take_oldest(&w->fresh, &lost);
    } while (lost);
    return weft__task_of(item);
}

WEFT__HOT struct weft__task *take_fresh(struct weft__worker *w)
{
    if (__builtin_expect(w->fresh_fifo, 0)) {
        return weft__worker_take_oldest(w);
    }
    return weft__task_of(weft__fresh_take_newest_local(&w->fresh));
}

/* With a task in the next slot, or bound tasks: applies the rules of precedence. */
static __attribute__((noinline)) struct weft__task *pick_mixed(struct weft__worker *w)
{
    struct weft__task *task;
    if (atomic_load_explicit(&w->next, memory_order_relaxed) &&
        (w->streak < WEFT__NEXT_STREAK || !weft__has_other_ready(w))) {
        w->streak += w->streak < WEFT__NEXT_STREAK;
        if ((task = weft__worker_swap_next(w, NULL))) { /* a thief may have been faster */
            return task;
        }
    }
    w->streak = 0;
    if (w->pinned.head && w->pinned_turn) {
        w->pinned_turn = false;
        return weft__task_of(weft__chain_pop(&w->pinned));
    }
    if ((task = weft__task_of(weft__ring_pop_local(&w->ring)))) {
        w->pinned_turn = true;
        return task;
    }
    return weft__task_of(weft__chain_pop(&w->pinned));
}

/* Applies the full order of precedence. Sets `fast_turns` if from now on only the ring has to be
 * checked. */
struct weft__task *weft__pick_by_rules(struct weft__worker *w, bool yielded)
{
    struct weft__task *task;
    weft__worker_end_fast_turns(w);
    int left = weft__turns(&w->turns_left) - 1;
    weft__turns_set(&w->turns_left, left);
    if (left < 0 && !weft__worker_try_quiet_tick(w)) {
        return NULL; /* a tick is due: the base context serves what the queues would delay */
    }
    bool fresh_first = yielded && !w->fresh_last;
    w->fresh_last = false;
    if (fresh_first && (task = take_fresh(w))) {
        w->fresh_last = true;
    } else if (atomic_load_explicit(&w->next, memory_order_relaxed) || w->pinned.head) {
        task = pick_mixed(w);
    } else {
        w->streak = 0;
        task = weft__task_of(weft__ring_pop_local(&w->ring));
        if (weft__fresh_length(&w->fresh) == 0 &&
            !atomic_load_explicit(&w->tracing, memory_order_relaxed)) {
            weft__turns_set(&w->fast_turns, weft__turns(&w->turns_left));
            weft__turns_set(&w->turns_left, 0);
        }
    }
    if (!task && !fresh_first) {
        task = take_fresh(w);
    }
    if (task) {
        WEFT__TRACE(w, WEFT__TRACE_RUN, weft__task_handle(task));
    }
    return task;
}

void weft__warm_tlb_many(struct weft__worker *w, uint64_t head, uint64_t n)
{
    n = n < WEFT__TLB_BATCH ? n : WEFT__TLB_BATCH;
    w->translated = head + n;
    for (uint64_t i = 0; i < n; i++) {
        weft__prefetch_frame(weft__task_of(weft__ring_peek_local(&w->ring, i)), true);
    }
}

struct weft__task *weft__worker_pick(struct weft__worker *w)
{
    return weft__pick(w, false);
}

/* --- after a switch ---------------------------------------------------------- */

void weft__requeue_bound(struct weft__worker *w, struct weft__task *task)
{
    weft__chain_push(&w->pinned, &task->link);
    weft__worker_end_fast_turns(w);
}

void weft__requeue_in_group(struct weft__worker *w, struct weft__task *task, bool yielded)
{
    if (yielded) {
        weft__group_sched_yield(w->group_sched, task);
    } else {
        weft__group_sched_wake(w->group_sched, task, WEFT__BACK);
    }
}

void weft__worker_requeue(struct weft__worker *w, struct weft__task *task, bool yielded)
{
    weft__requeue(w, task, yielded, WEFT__SCHEDULER_POOL);
}

/* --- switching ------------------------------------------------------------------ */

/* Without an offset, the hottest lines of all stacks would map to the same few cache sets. */
WEFT__HOT size_t colour(const struct weft__task *task)
{
    return (size_t)(task->slot % 16) * WEFT__CACHE_LINE;
}

void weft__fiber_main(void *pass);

void weft__attach(struct weft__worker *w, struct weft__task *task, struct weft__stack *stack)
{
    task->stack = stack;
    atomic_store_explicit(&stack->user, task, memory_order_relaxed);
    struct weft__rare *rare = weft__task_rare(task);
    rare->cleanups = NULL;
    rare->locals_used = 0;
    rare->fp = weft__fp_default();
    rare->ended.kind = NULL;
    rare->migrations = NULL;
    rare->scope = NULL;
    weft__context_init_main(&task->ctx, (char *)rare - colour(task), weft__fiber_main);
    const char *bottom = weft__stack_bottom(stack, task->stack_class);
    weft__san_create(WEFT__SAN_OF(stack), bottom, weft__stack_bytes(task->stack_class));
    if (task->flags & WEFT__TASK_INSTRUMENTED) {
        weft__asan_attach(bottom, weft__stack_bytes(task->stack_class));
    }
    weft__count(&w->counters.stacks, 1);
}

/* Switches the FP control words between two fibers of which one has its own. NULL is the base
 * context, which has the default words, as has every other fiber. */
RARE static void switch_fp(const struct weft__task *from, const struct weft__task *to)
{
    if (from && (from->flags & WEFT__TASK_FP_ENV)) {
        weft__fp_save(&weft__task_rare(from)->fp);
    }
    struct weft__fp_env standard = weft__fp_default();
    bool own = to && (to->flags & WEFT__TASK_FP_ENV);
    weft__fp_load(own ? &weft__task_rare(to)->fp : &standard);
}

/* NULL: the base context. */
static inline __attribute__((always_inline)) void *
notify_asan(struct weft__worker *w, const struct weft__task *next, bool ends)
{
    return next ? weft__asan_leave(&w->asan, weft__stack_bottom(next->stack, next->stack_class),
                                   weft__stack_bytes(next->stack_class), ends)
                : weft__asan_leave(&w->asan, NULL, 0, ends);
}

WEFT__HOT struct weft__worker *leave_instrumented(struct weft__worker *w, struct weft__task *self,
                                                  struct weft__task *next, int error, bool asan,
                                                  enum weft__scheduler scheduler)
{
    struct weft__exceptions mine = weft__exceptions_save(w->exceptions_at);
    void *fake = asan ? notify_asan(w, next, false) : NULL;
    weft__san_leave(next ? WEFT__SAN_OF(next->stack) : &w->base_san);
    w = weft__context_switch(&self->ctx, next ? &next->ctx : &w->base, w);
    if (asan) {
        weft__asan_arrive(&w->asan, fake);
    }
    weft__exceptions_restore(w->exceptions_at, mine);
    weft__after_switch(w, scheduler);
    *w->errno_at = error;
    return w;
}

static __attribute__((noinline)) struct weft__worker *
leave_with_asan(struct weft__worker *w, struct weft__task *self, struct weft__task *next, int error)
{
    return weft__scheduler_of(self->flags) == WEFT__SCHEDULER_GROUPS
               ? leave_instrumented(w, self, next, error, true, WEFT__SCHEDULER_GROUPS)
               : leave_instrumented(w, self, next, error, true, WEFT__SCHEDULER_POOL);
}

/* The end of weft__leave for fibers with state that their frame does not hold, or switches that
 * others must learn of. A separate function with its own switch, because tests in the common one
 * would slow down every fiber. With C++ every switch goes through here, so the frame is as small
 * as that of a yield and no stack is read. `flags` are the flags of both fibers. */
__attribute__((noinline)) struct weft__worker *weft__leave_out_of_line(struct weft__worker *w,
                                                                       struct weft__task *self,
                                                                       struct weft__task *next,
                                                                       int error, unsigned flags)
{
    if (__builtin_expect(flags & WEFT__TASK_FP_ENV, 0)) {
        switch_fp(self, next);
    }
    if (__builtin_expect(weft__asan_start_switch != NULL, 0)) {
        return leave_with_asan(w, self, next, error);
    }
    return weft__scheduler_of(flags) == WEFT__SCHEDULER_GROUPS
               ? leave_instrumented(w, self, next, error, false, WEFT__SCHEDULER_GROUPS)
               : leave_instrumented(w, self, next, error, false, WEFT__SCHEDULER_POOL);
}

/* Same from the base context. */
static __attribute__((noinline)) struct weft__worker *run_out_of_line(struct weft__worker *w,
                                                                      struct weft__task *task)
{
    if (task->flags & WEFT__TASK_FP_ENV) {
        switch_fp(NULL, task);
    }
    struct weft__exceptions mine = weft__exceptions_save(w->exceptions_at);
    bool asan = weft__asan_is_present();
    void *fake = asan ? notify_asan(w, task, false) : NULL;
    weft__san_leave(WEFT__SAN_OF(task->stack));
    w = weft__context_switch(&w->base, &task->ctx, w);
    if (asan) {
        weft__asan_arrive(&w->asan, fake);
    }
    weft__exceptions_restore(w->exceptions_at, mine);
    return w;
}

void weft__worker_check_fp(const struct weft__task *task)
{
    WEFT__REQUIRE(
        (task->flags & WEFT__TASK_FP_ENV) || weft__fp_get().words == weft__fp_default().words,
        "fiber %s changed the floating-point control words without fp_env", weft__task_name(task));
}

/* A dispatcher's fiber leaves even if nothing else is ready: the round ends, and others come. */
static __attribute__((noinline)) void yield_in_group(struct weft__worker *w)
{
    weft__leave(w, weft__group_sched_pick(w->group_sched), WEFT__POST_YIELD,
                WEFT__SCHEDULER_GROUPS);
}

void weft_yield(void)
{
    struct weft__worker *w = weft__worker_self();
    if (!w || !weft__current(w)) {
        sched_yield();
        return;
    }
    struct weft__task *next = weft__pick_from_ring(w, true);
    if (!next) {
        if (__builtin_expect(w->group_sched != NULL, 0)) {
            yield_in_group(w);
            return;
        }
        next = weft__pick_by_rules(w, true);
        if (!next && weft__turns(&w->turns_left) >= 0) {
            return; /* nothing is ready here, and no tick is due */
        }
    }
    weft__leave(w, next, WEFT__POST_YIELD, WEFT__SCHEDULER_POOL);
}

/* Events or the lengths of waits are being recorded. */
RARE struct weft__worker *weft__suspend_traced(struct weft__worker *w, unsigned tracing,
                                               enum weft__post post)
{
    bool measured = (tracing & WEFT__TRACING_WAITS) && post == WEFT__POST_PARK;
    int64_t began = measured ? weft__clock_ns() : 0;
    weft__trace_event(w, post == WEFT__POST_MIGRATE ? WEFT__TRACE_MIGRATE : WEFT__TRACE_WAIT,
                      weft__task_handle(weft__current(w)));
    w = w->group_sched ? weft__suspend_in_group(w, post)
                       : weft__leave(w, weft__pick(w, false), post, WEFT__SCHEDULER_POOL);
    if (began) {
        weft__perf_emit(WEFT_PERF_ACQUIRE, weft__clock_ns() - began, 1, 0);
    }
    return w;
}

__attribute__((noinline)) struct weft__worker *weft__suspend_in_group(struct weft__worker *w,
                                                                      enum weft__post post)
{
    return weft__leave(w, weft__group_sched_pick(w->group_sched), post, WEFT__SCHEDULER_GROUPS);
}

struct weft__worker *weft__worker_suspend(struct weft__worker *w, enum weft__post post)
{
    return weft__suspend_inline(w, post);
}

/* Runs a stackless task, then the tasks it has woken, as a fiber that blocks would, without the
 * detour through the loop. */
WEFT__HOT void run_stackless_tasks(struct weft__worker *w, struct weft__task *task)
{
    do {
        weft__stackless_run(w, task);
        task = weft__pick_woken(w);
    } while (task && weft__task_is_stackless(task));
    w->handoff = task;
}

/* Runs a fiber with a stack, and every fiber it switches to. */
WEFT__HOT void run_fibers(struct weft__worker *w, struct weft__task *task,
                          enum weft__scheduler scheduler)
{
    struct weft__stack *spare = NULL;
    if (weft__task_is_fresh(task) && !w->stacks.free[task->stack_class]) {
        weft__stack_cache_fill(&w->stacks, task->stack_class);
        if (!w->stacks.free[task->stack_class]) {
            spare = weft__stack_get_slow(task->stack_class);
        }
    }
    weft__start(w, task, spare);
    WEFT__TRACE(w, WEFT__TRACE_RUN, weft__task_handle(task));
    w->counted_from = weft__turns(&w->turns_left) + weft__turns(&w->fast_turns);
    if (__builtin_expect(task->flags & WEFT__TASK_OUT_OF_LINE, 0)) {
        w = run_out_of_line(w, task);
    } else {
        weft__san_leave(WEFT__SAN_OF(task->stack));
        w = weft__context_switch(&w->base, &task->ctx, w);
    }
    weft__after_switch(w, scheduler);
    if (scheduler == WEFT__SCHEDULER_POOL) {
        /* Counts this turn, and one turn for every pick since except the last, which led back here.
         * Counted here to keep it off the path of a yield. */
        weft__worker_count_turns(w);
    }
}

void weft__worker_run(struct weft__worker *w, struct weft__task *task)
{
    if (weft__task_is_stackless(task)) {
        run_stackless_tasks(w, task);
        return;
    }
    run_fibers(w, task, WEFT__SCHEDULER_POOL);
}

void weft__worker_run_in_group(struct weft__worker *w, struct weft__task *task)
{
    run_fibers(w, task, WEFT__SCHEDULER_GROUPS);
}

static __attribute__((noinline)) void *run_child(struct weft__task *self, void *arg)
{
    struct weft__parent *parent = (struct weft__parent *)(void *)self->joiners;
    self->joiners = NULL;
    return parent->run(parent, self->fn, arg);
}

/* The first C function of every fiber, called by weft__context_entry. */
void weft__fiber_main(void *pass)
{
    struct weft__worker *w = pass;
    struct weft__task *self = weft__current(w);
    if (__builtin_expect(self->flags & WEFT__TASK_INSTRUMENTED, 0)) {
        weft__asan_arrive(&w->asan, NULL);
    }
    if (__builtin_expect(weft__scheduler_of(self->flags) == WEFT__SCHEDULER_GROUPS, 0)) {
        weft__after_switch(w, WEFT__SCHEDULER_GROUPS);
    } else {
        weft__after_switch(w, WEFT__SCHEDULER_POOL);
    }
    *w->errno_at = 0;
    void *arg = self->value;
    self->held = NULL;
    void *result =
        __builtin_expect(self->flags & WEFT__TASK_CHILD, 0) ? run_child(self, arg) : self->fn(arg);
    if (__builtin_expect(weft__task_rare(self)->cleanups != NULL, 0)) {
        weft__local_check_nodes(self, __builtin_frame_address(0));
    }
    weft_fiber_exit(result);
}

void weft__worker_end_fiber(struct weft__worker *w, struct weft__stack *stack, unsigned stack_class)
{
    struct weft__task *next = weft__pick_from_ring(w, false);
    if (!next) {
        next = __builtin_expect(w->group_sched != NULL, 0) ? weft__group_sched_pick(w->group_sched)
                                                           : weft__pick_by_rules(w, false);
    }
    const struct weft__context *to = &w->base;
    struct weft__san *to_san = &w->base_san;
    struct weft__stack *spare = NULL;
    weft__reader_slot_settle(w->reader_slot);
    w->ended_san = weft__san_detach(WEFT__SAN_OF(stack));
    if (next && weft__task_is_fresh(next) && !weft__task_is_stackless(next) &&
        next->stack_class == stack_class) {
        /* A not-yet-started fiber takes over this stack, which is warm in the cache. */
        spare = stack;
        w->post = WEFT__POST_NONE;
    } else {
        w->post = WEFT__POST_END;
        w->post_stack = stack;
        w->post_class = (uint8_t)stack_class;
    }
    if (next && weft__start(w, next, spare)) {
        to = &next->ctx;
        to_san = WEFT__SAN_OF(next->stack);
        if (next->flags & WEFT__TASK_FP_ENV) {
            switch_fp(NULL, next);
        }
    } else {
        next = NULL;
        weft__set_current(w, NULL);
    }
    if (__builtin_expect(weft__asan_is_present(), 0)) {
        notify_asan(w, next, true);
    }
    weft__san_leave(to_san);
    weft__context_switch(&w->discarded, to, w);
    (void)to_san;
    __builtin_unreachable();
}
