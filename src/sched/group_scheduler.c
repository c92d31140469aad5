#include "sched/group_scheduler.h"

#include "base/clock.h"
#include "sched/pool.h"
#include "sched/stackless.h"
#include "sched/switch.h"
#include "worker/worker.h"

void weft__group_sched_init(struct weft__group_sched *r, struct weft__worker *w)
{
    r->worker = w;
    r->round = WEFT__TURN_ONE_ROUND;
    r->poll_interval = 1;
    r->rounds_to_poll = 1;
    r->last = &r->first;
    weft__inbox_init(&r->commands);
    w->group_sched = r;
}

void weft__group_queues_init(struct weft__group_queues *queues, struct weft__group_sched *r)
{
    queues->rounds = r;
    weft__intake_init(&queues->intake);
}

const struct weft__group_queues *weft__group_queues_of_locked(const struct weft__task *task)
{
    return task->flags & WEFT__TASK_GROUPED
               ? weft__group_sched_queues(task->home->group_sched, task)
               : NULL;
}

const char *weft__group_name_locked(const struct weft__task *task)
{
    const struct weft__group_queues *queues = weft__group_queues_of_locked(task);
    return queues ? queues->name : "";
}

/* --- queues ------------------------------------------------------------------------- */

void weft__group_sched_wake(struct weft__group_sched *r, struct weft__task *task,
                            enum weft__queue_end end)
{
    weft__group_sched_wake_in(r, weft__group_sched_queues(r, task), task, end);
}

void weft__group_sched_wake_all(struct weft__group_sched *r, struct weft__chain *tasks)
{
    struct weft__link *link = tasks->head, *reversed = NULL;
    while (link) {
        struct weft__link *next = link->next;
        link->next = reversed;
        reversed = link;
        link = next;
    }
    while (reversed) {
        struct weft__link *next = reversed->next;
        weft__group_sched_wake(r, weft__task_of(reversed), WEFT__FRONT);
        reversed = next;
    }
    weft__chain_init(tasks);
}

void weft__group_sched_yield(struct weft__group_sched *r, struct weft__task *task)
{
    struct weft__group_queues *queues = weft__group_sched_queues(r, task);
    queues->queued++;
    weft__task_list_push(&queues->next_back, &task->link);
    weft__group_sched_add_ready(r, queues);
}

void weft__group_sched_start(struct weft__group_sched *r, struct weft__task *task)
{
    struct weft__group_queues *queues = weft__group_sched_queues(r, task);
    bool front = task->turn != 0; /* requested by its creator: add_to_group in fiber/fiber.c */
    task->turn = r->round + task->signals - 1;                     /* the start counts as one
                                                                    * wake-up */
    atomic_store_explicit(&task->ran_on, 0, memory_order_relaxed); /* the only worker */
    if (__builtin_expect(r->order != NULL, 0)) {
        weft__run_order_add_start(r->order, task);
    }
    if (__builtin_expect(task->flags & WEFT__TASK_DAEMON, 0)) {
        queues->daemons++;
        queues->daemons_ever++;
    } else {
        queues->live++;
    }
    queues->queued++;
    if (__builtin_expect(front, 0)) {
        weft__task_list_push_front(&queues->ready, &task->link);
    } else {
        weft__task_list_push(&queues->ready, &task->link);
    }
    weft__group_sched_add_ready(r, queues);
}

/* next_front to the front, in the order that front insertion produced; next_back to the back. */
static inline void promote(struct weft__group_queues *queues)
{
    if (__builtin_expect(queues->next_front.first != NULL, 0)) {
        weft__task_list_append(&queues->next_front, &queues->ready);
        weft__task_list_append(&queues->ready, &queues->next_front);
    }
    weft__task_list_append(&queues->ready, &queues->next_back);
}

/* --- a turn ------------------------------------------------------------------------------ */

/* Prefetches the next tasks while this one runs: the second's control block, the first's own
 * memory. */
static inline void prefetch_next(const struct weft__link *next)
{
    if (next && next->next) {
        const struct weft__task *task = (const struct weft__task *)(const void *)next;
        __builtin_prefetch(next->next);
        __builtin_prefetch((const char *)next->next + WEFT__CACHE_LINE);
        weft__stackless_prefetch(task);
    }
}

/* Records what runs. weft__worker_run_in_group records fibers with a stack that start from
 * the base context. */
static __attribute__((noinline, cold)) void report_run(struct weft__group_sched *r,
                                                       const struct weft__task *task, bool picked)
{
    if (r->order) {
        weft__run_order_add_run(r->order, task);
    }
    if (picked || weft__task_is_stackless(task)) {
        weft__trace_event(r->worker, WEFT__TRACE_RUN, weft__task_handle(task));
    }
}

static inline struct weft__task *take(struct weft__worker *w, struct weft__group_queues *queues,
                                      bool picked)
{
    uint32_t left = atomic_load_explicit(&w->slice_left, memory_order_relaxed);
    struct weft__link *link = left > 0 ? weft__task_list_pop(&queues->ready) : NULL;
    if (!link) {
        return NULL;
    }
    queues->queued--;
    atomic_store_explicit(&w->slice_left, left - 1, memory_order_relaxed);
    if (__builtin_expect(weft__worker_is_traced(w), 0)) {
        report_run(queues->rounds, weft__task_of(link), picked);
    }
    prefetch_next(queues->ready.first);
    return weft__task_of(link);
}

struct weft__task *weft__group_sched_pick(struct weft__group_sched *r)
{
    struct weft__link *head = r->running ? r->running->ready.first : NULL;
    return head && !weft__task_is_stackless(weft__task_of(head)) ? take(r->worker, r->running, true)
                                                                 : NULL;
}

static void set_running_group(struct weft__group_sched *r, struct weft__group_queues *queues)
{
    weft__group_sched_set_running(r, queues);
    r->worker->owner = queues ? weft__group_queues_owner(queues) : r->worker->pool;
}

/* Not inlined into the turn, so that the turn's loop has all registers; most waits have settled. */
static __attribute__((noinline)) void settle(struct weft__group_queues *queues,
                                             struct weft__task *task)
{
    if (__builtin_expect(!weft__waiter_settle(task), 0)) {
        weft__group_sched_wake_in(queues->rounds, queues, task, WEFT__BACK);
    }
}

static inline __attribute__((always_inline)) void
run_body(struct weft__worker *w, struct weft__group_queues *queues, struct weft__task *task)
{
    weft__task_run(task);
    weft__stackless_set_running(w, task);
    enum weft__stackless_step step = task->stackless->step(w, task);
    if (__builtin_expect(step <= WEFT__STACKLESS_END, 1)) {
        return; /* the task may be gone */
    }
    if (step == WEFT__STACKLESS_YIELD) {
        weft__task_requeue(task);
        queues->queued++;
        weft__task_list_push(&queues->next_back, &task->link);
    } else {
        settle(queues, task);
    }
}

/* Runs a fiber with a stack, and the handoffs, which need a stack from the base context. */
static __attribute__((noinline)) void run_fiber(struct weft__worker *w, struct weft__task *task)
{
    weft__stackless_clear_running(w);
    do {
        w->handoff = NULL;
        weft__worker_run_in_group(w, task);
    } while ((task = w->handoff));
}

/* Returns the number of tasks that ran. */
static inline uint32_t run_ready(struct weft__worker *w, struct weft__group_queues *queues)
{
    struct weft__task *task;
    queues->turns++;
    promote(queues);
    atomic_store_explicit(&w->slice_left, queues->slice, memory_order_relaxed);
    while ((task = take(w, queues, false))) {
        if (__builtin_expect(weft__task_is_stackless(task), 1)) {
            run_body(w, queues, task);
        } else {
            run_fiber(w, task);
        }
    }
    uint32_t ran = queues->slice - atomic_load_explicit(&w->slice_left, memory_order_relaxed);
    queues->executed += ran;
    weft__count(&w->counters.executed, ran);
    return ran;
}

static inline bool is_ready(const struct weft__group_queues *queues)
{
    return queues->queued > 0;
}

static inline void begin_round(struct weft__group_sched *r)
{
    r->most--;
    r->round += WEFT__TURN_ONE_ROUND;
    weft__count(&r->gone, 1);
}

/* A round of one or two fibers: four of them count as one round for the polling interval. */
static inline bool is_tiny(const struct weft__group_sched *r, uint32_t ran)
{
    return ran <= 2 && (r->round & (3 * WEFT__TURN_ONE_ROUND)) != 0;
}

/* After a turn: is the next round only the next turn of this group? That is so for fibers that
 * yield or wake each other while nothing comes from outside and no other group is ready, for this
 * round or the next. The finished round must not be one after which more work is due, and the next
 * must not be one that polls the clock. */
static inline bool is_alone(const struct weft__group_sched *r, const struct weft__worker *w,
                            const struct weft__group_queues *queues)
{
    return is_ready(queues) && !queues->next && !r->first && r->rounds_to_poll > 1 &&
           r->rounds_to_poll != r->poll_interval && r->most > 0 && queues->live > 0 &&
           weft__inbox_is_empty_relaxed(&w->inbox) && weft__inbox_is_empty_relaxed(&r->commands) &&
           w->metrics.work_since == 0;
}

/* Not inlined into the round, so that the round's loop has all registers. */
static __attribute__((noinline)) void turn(struct weft__worker *w,
                                           struct weft__group_queues *queues)
{
    struct weft__group_sched *r = queues->rounds;
    set_running_group(r, queues);
    for (;;) {
        uint32_t ran = run_ready(w, queues);
        if (!is_alone(r, w, queues)) {
            break;
        }
        begin_round(r);
        r->rounds_to_poll -= !is_tiny(r, ran);
    }
    weft__stackless_clear_running(w);
    set_running_group(r, NULL);
}

void weft__group_sched_record_order(struct weft__group_sched *r, struct weft__run_order *order)
{
    r->order = order;
    atomic_fetch_or_explicit(&r->worker->tracing, WEFT__TRACING_ORDER, memory_order_relaxed);
}

/* --- a round ------------------------------------------------------------------------------- */

static void accept_handoffs(struct weft__group_sched *r, struct weft__link *items)
{
    while (items) {
        struct weft__link *next = items->next;
        struct weft__task *task = weft__task_of(items);
        if (weft__task_is_fresh(task)) {
            struct weft__group_queues *queues = weft__group_sched_queues(r, task);
            weft__group_sched_start(r, task);
            weft__intake_arrive(&queues->intake);
        } else {
            weft__group_sched_wake(r, task, WEFT__BACK);
        }
        items = next;
    }
}

static void run_commands(struct weft__group_sched *r)
{
    struct weft__link *items = weft__inbox_drain_local(&r->commands);
    while (items) {
        struct weft__command *command = (struct weft__command *)(void *)items;
        struct weft__group_queues *queues = command->queues;
        items = items->next;
        set_running_group(r, queues);
        command->run(command); /* which frees the command */
        set_running_group(r, NULL);
        if (queues) {
            weft__group_sched_add_ready(
                r, queues); /* to be settled after its turn, even an empty one */
            weft__intake_arrive(&queues->intake);
        }
    }
}

void weft__group_sched_post(struct weft__group_sched *r, struct weft__command *command)
{
    weft_pool *pool = r->worker->pool;
    if (weft__worker_self() == r->worker) { /* it checks before it sleeps */
        weft__inbox_push_remote(&r->commands, &command->link);
        return;
    }
    weft__pool_visit(pool);
    if (weft__inbox_push_remote(&r->commands, &command->link)) {
        weft__parker_wake(&r->worker->sleeper.parker);
    }
    weft__pool_visit_end(pool);
}

/* Groups that become ready meanwhile wait for the next round: the list is detached here and its
 * present end is the end of this round. */
static void run_groups(struct weft__group_sched *r)
{
    struct weft__group_queues *queues = r->first;
    r->first = NULL;
    r->last = &r->first;
    while (queues) {
        struct weft__group_queues *next = queues->next;
        weft__group_queues_set_listed(queues, false);
        turn(r->worker, queues);
        bool ready = is_ready(queues);
        if (ready) {
            weft__group_sched_add_ready(r, queues);
        }
        if (!ready || queues->live == 0 || r->rounds_to_poll == r->poll_interval) {
            r->settle(queues); /* it may be freed */
        }
        queues = next;
    }
}

#define MAX_POLL_INTERVAL 16u
#define LONG_POLL_NS 20000

/* Polls the clock, timers and I/O, and decides after how many rounds to poll again. */
static void poll_events(struct weft__group_sched *r)
{
    int64_t before = r->worker->now;
    weft__worker_begin_round(r->worker);
    if (r->worker->now - before > LONG_POLL_NS) {
        r->poll_interval = 1;
    } else if (r->poll_interval < MAX_POLL_INTERVAL) {
        r->poll_interval *= 2;
    }
    r->rounds_to_poll = r->poll_interval;
}

static void run_round(struct weft__group_sched *r)
{
    struct weft__worker *w = r->worker;
    struct weft__link *woken = weft__inbox_drain_local(&w->inbox);
    begin_round(r);
    if (--r->rounds_to_poll == 0) {
        poll_events(r);
    }
    accept_handoffs(r, woken);
    run_commands(r);
    run_groups(r);
    if (__builtin_expect(w->metrics.work_since != 0, 0)) {
        weft__worker_metrics_end_round(w);
    }
}

bool weft__group_sched_has_handoffs(const struct weft__group_sched *r)
{
    return !weft__inbox_is_empty(&r->commands) || !weft__inbox_is_empty(&r->worker->inbox);
}

bool weft__group_sched_is_busy(const struct weft__group_sched *r)
{
    return r->first || weft__group_sched_has_handoffs(r);
}

void weft__group_sched_run(struct weft__group_sched *r, unsigned most)
{
    unsigned idle = 0;
    bool looked = true; /* the request to leave is checked as often as the clock */
    r->most = most;
    while (r->most > 0 && !(looked && weft__worker_should_exit(r->worker))) {
        run_round(r);
        looked = r->rounds_to_poll == r->poll_interval;
        if (weft__group_sched_is_busy(r)) {
            idle = 0;
            continue;
        }
        looked = true;
        r->rounds_to_poll = 1; /* with nothing ready, the clock is polled in every round */
        if (++idle > r->spins) {
            break;
        }
    }
}

/* --- spinning ------------------------------------------------------------------------------ */

#define SPIN_POLL_NS 5000 /* between two polls of the driver */

/* Anything but a hand-off: a driver event, a timer, the request to leave. */
static bool has_other_event(struct weft__group_sched *r, int64_t *polled)
{
    struct weft__worker *w = r->worker;
    if (w->now - *polled >= SPIN_POLL_NS) {
        *polled = w->now;
        weft__worker_poll(w);
    }
    return r->first || weft__wheel_next(&w->wheel) <= w->now || weft__worker_should_exit(w);
}

bool weft__group_sched_spin(struct weft__group_sched *r)
{
    struct weft__worker *w = r->worker;
    if (!r->spin_ns) {
        return false;
    }
    int64_t end = weft__clock_add(w->now, r->spin_ns),
            polled = 0; /* so that the driver is polled first, for submitted operations */
    do {
        if (has_other_event(r, &polled)) {
            return true;
        }
        if (weft__group_sched_has_handoffs(r)) {
            weft__spin_hit(&r->spin);
            return true;
        }
    } while (weft__spin_pause(&w->now, end));
    weft__spin_missed(&r->spin);
    return false;
}
