#include "sched/rounds.h"

#include "base/clock.h"
#include "sched/body.h"
#include "sched/pool.h"
#include "sched/worker.h"

void weft__rounds_init(struct weft__rounds *r, struct weft__worker *w)
{
    r->worker = w;
    r->round = WEFT__TURN_ONE_ROUND;
    r->pace = 1;
    r->unlooked = 1;
    r->last = &r->first;
    weft__inbox_init(&r->commands);
    w->rounds = r;
    weft__turns_set(
        &w->turns_left,
        -1); /* as if a tick were due: a yield that finds no task goes to the base context */
}

void weft__ranks_init(struct weft__ranks *ranks, struct weft__rounds *r)
{
    ranks->rounds = r;
    weft__gate_init(&ranks->gate);
}

const struct weft__ranks *weft__ranks_of_locked(const struct weft__task *task)
{
    return task->flags & WEFT__TASK_GROUPED ? weft__rounds_ranks(task->home->rounds, task) : NULL;
}

const char *weft__ranks_name_locked(const struct weft__task *task)
{
    const struct weft__ranks *ranks = weft__ranks_of_locked(task);
    return ranks ? ranks->name : "";
}

/* --- queues ------------------------------------------------------------------------- */

void weft__rounds_wake(struct weft__rounds *r, struct weft__task *task, bool front)
{
    weft__rounds_wake_in(r, weft__rounds_ranks(r, task), task, front);
}

void weft__rounds_wake_all(struct weft__rounds *r, struct weft__chain *tasks)
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
        weft__rounds_wake(r, weft__task_of(reversed), true);
        reversed = next;
    }
    weft__chain_init(tasks);
}

void weft__rounds_yield(struct weft__rounds *r, struct weft__task *task)
{
    struct weft__ranks *ranks = weft__rounds_ranks(r, task);
    ranks->queued++;
    weft__row_push(&ranks->next2, &task->link);
    weft__rounds_list(r, ranks);
}

void weft__rounds_start(struct weft__rounds *r, struct weft__task *task)
{
    struct weft__ranks *ranks = weft__rounds_ranks(r, task);
    bool front = task->turn != 0; /* requested by its creator: join_group in sched/fiber.c */
    task->turn = r->round + task->signals - 1;                     /* the start counts as one
                                                                    * wake-up */
    atomic_store_explicit(&task->ran_on, 0, memory_order_relaxed); /* the only worker */
    if (__builtin_expect(r->order != NULL, 0)) {
        weft__order_started(r->order, task);
    }
    if (__builtin_expect(task->flags & WEFT__TASK_DAEMON, 0)) {
        ranks->daemons++;
        ranks->daemons_ever++;
    } else {
        ranks->live++;
    }
    ranks->queued++;
    if (__builtin_expect(front, 0)) {
        weft__row_push_front(&ranks->ready, &task->link);
    } else {
        weft__row_push(&ranks->ready, &task->link);
    }
    weft__rounds_list(r, ranks);
}

/* next1 to the front, in the order that front insertion produced; next2 to the back. */
static inline void promote(struct weft__ranks *ranks)
{
    if (__builtin_expect(ranks->next1.first != NULL, 0)) {
        weft__row_append(&ranks->next1, &ranks->ready);
        weft__row_append(&ranks->ready, &ranks->next1);
    }
    weft__row_append(&ranks->ready, &ranks->next2);
}

/* --- a turn ------------------------------------------------------------------------------ */

/* Prefetches the next tasks while this one runs: the second's control block, the first's own
 * memory. */
static inline void ask_for(const struct weft__link *next)
{
    if (next && next->next) {
        const struct weft__task *task = (const struct weft__task *)(const void *)next;
        __builtin_prefetch(next->next);
        __builtin_prefetch((const char *)next->next + WEFT__CACHE_LINE);
        weft__body_prefetch(task);
    }
}

/* Records what runs. weft__worker_run records fibers with a stack that start from the base
 * context. */
static __attribute__((noinline, cold)) void tell(struct weft__rounds *r,
                                                 const struct weft__task *task, bool picked)
{
    if (r->order) {
        weft__order_runs(r->order, task);
    }
    if (picked || weft__task_is_body(task)) {
        weft__trace_event(r->worker, WEFT__TRACE_RUN, weft__task_handle(task));
    }
}

static inline struct weft__task *take(struct weft__worker *w, struct weft__ranks *ranks,
                                      bool picked)
{
    uint32_t left = atomic_load_explicit(&w->slice_left, memory_order_relaxed);
    struct weft__link *link = left > 0 ? weft__row_pop(&ranks->ready) : NULL;
    if (!link) {
        return NULL;
    }
    ranks->queued--;
    atomic_store_explicit(&w->slice_left, left - 1, memory_order_relaxed);
    if (__builtin_expect(weft__watched(w), 0)) {
        tell(ranks->rounds, weft__task_of(link), picked);
    }
    ask_for(ranks->ready.first);
    return weft__task_of(link);
}

struct weft__task *weft__rounds_pick(struct weft__rounds *r)
{
    struct weft__link *head = r->running ? r->running->ready.first : NULL;
    return head && !weft__task_is_body(weft__task_of(head)) ? take(r->worker, r->running, true)
                                                            : NULL;
}

static void enter(struct weft__rounds *r, struct weft__ranks *ranks)
{
    weft__rounds_set_running(r, ranks);
    r->worker->owner = ranks ? weft__ranks_owner(ranks) : r->worker->pool;
}

/* Not inlined into the turn, so that the turn's loop has all registers; most waits have settled. */
static __attribute__((noinline)) void settle(struct weft__ranks *ranks, struct weft__task *task)
{
    if (__builtin_expect(!weft__waiter_settle(task), 0)) {
        weft__rounds_wake_in(ranks->rounds, ranks, task, false);
    }
}

static inline __attribute__((always_inline)) void
run_body(struct weft__worker *w, struct weft__ranks *ranks, struct weft__task *task)
{
    weft__task_run(task);
    weft__body_steps_on(w, task);
    enum weft__body_step step = task->body->step(w, task);
    if (__builtin_expect(step <= WEFT__BODY_END, 1)) {
        return; /* the task may be gone */
    }
    if (step == WEFT__BODY_YIELD) {
        weft__task_requeue(task);
        ranks->queued++;
        weft__row_push(&ranks->next2, &task->link);
    } else {
        settle(ranks, task);
    }
}

/* Runs a fiber with a stack, and the handoffs, which need a stack from the base context. */
static __attribute__((noinline)) void run_fiber(struct weft__worker *w, struct weft__task *task)
{
    weft__body_steps_over(w);
    do {
        w->handoff = NULL;
        weft__worker_run(w, task);
    } while ((task = w->handoff));
}

/* Returns the number of tasks that ran. */
static inline uint32_t run_ready(struct weft__worker *w, struct weft__ranks *ranks)
{
    struct weft__task *task;
    ranks->turns++;
    promote(ranks);
    atomic_store_explicit(&w->slice_left, ranks->slice, memory_order_relaxed);
    while ((task = take(w, ranks, false))) {
        if (__builtin_expect(weft__task_is_body(task), 1)) {
            run_body(w, ranks, task);
        } else {
            run_fiber(w, task);
        }
    }
    uint32_t ran = ranks->slice - atomic_load_explicit(&w->slice_left, memory_order_relaxed);
    ranks->executed += ran;
    weft__count(&w->counters.executed, ran);
    return ran;
}

static inline bool is_ready(const struct weft__ranks *ranks)
{
    return ranks->queued > 0;
}

static inline void begin_round(struct weft__rounds *r)
{
    r->most--;
    r->round += WEFT__TURN_ONE_ROUND;
    weft__count(&r->gone, 1);
}

/* A round of one or two fibers: four of them count as one round for the polling interval. */
static inline bool is_tiny(const struct weft__rounds *r, uint32_t ran)
{
    return ran <= 2 && (r->round & (3 * WEFT__TURN_ONE_ROUND)) != 0;
}

/* After a turn: is the next round only the next turn of this group? That is so for fibers that
 * yield or wake each other while nothing comes from outside and no other group is ready, for this
 * round or the next. The finished round must not be one after which more work is due, and the next
 * must not be one that polls the clock. */
static inline bool is_alone(const struct weft__rounds *r, const struct weft__worker *w,
                            const struct weft__ranks *ranks)
{
    return is_ready(ranks) && !ranks->next && !r->first && r->unlooked > 1 &&
           r->unlooked != r->pace && r->most > 0 && ranks->live > 0 &&
           weft__inbox_is_still(&w->inbox) && weft__inbox_is_still(&r->commands) &&
           w->gauge.work_since == 0;
}

/* Not inlined into the round, so that the round's loop has all registers. */
static __attribute__((noinline)) void turn(struct weft__worker *w, struct weft__ranks *ranks)
{
    struct weft__rounds *r = ranks->rounds;
    enter(r, ranks);
    for (;;) {
        uint32_t ran = run_ready(w, ranks);
        if (!is_alone(r, w, ranks)) {
            break;
        }
        begin_round(r);
        r->unlooked -= !is_tiny(r, ran);
    }
    weft__body_steps_over(w);
    enter(r, NULL);
}

void weft__rounds_record(struct weft__rounds *r, struct weft__order *order)
{
    r->order = order;
    atomic_fetch_or_explicit(&r->worker->tracing, WEFT__TRACING_ORDER, memory_order_relaxed);
}

/* --- a round ------------------------------------------------------------------------------- */

static void take_in(struct weft__rounds *r, struct weft__link *items)
{
    while (items) {
        struct weft__link *next = items->next;
        struct weft__task *task = weft__task_of(items);
        if (weft__task_is_fresh(task)) {
            struct weft__ranks *ranks = weft__rounds_ranks(r, task);
            weft__rounds_start(r, task);
            weft__gate_arrive(&ranks->gate);
        } else {
            weft__rounds_wake(r, task, false);
        }
        items = next;
    }
}

static void run_commands(struct weft__rounds *r)
{
    struct weft__link *items = weft__inbox_drain_local(&r->commands);
    while (items) {
        struct weft__command *command = (struct weft__command *)(void *)items;
        struct weft__ranks *ranks = command->ranks;
        items = items->next;
        enter(r, ranks);
        command->run(command); /* which frees the command */
        enter(r, NULL);
        if (ranks) {
            weft__rounds_list(r, ranks); /* to be settled after its turn, be it an empty one */
            weft__gate_arrive(&ranks->gate);
        }
    }
}

void weft__rounds_post(struct weft__rounds *r, struct weft__command *command)
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
static void run_groups(struct weft__rounds *r)
{
    struct weft__ranks *ranks = r->first;
    r->first = NULL;
    r->last = &r->first;
    while (ranks) {
        struct weft__ranks *next = ranks->next;
        weft__ranks_set_listed(ranks, false);
        turn(r->worker, ranks);
        bool ready = is_ready(ranks);
        if (ready) {
            weft__rounds_list(r, ranks);
        }
        if (!ready || ranks->live == 0 || r->unlooked == r->pace) {
            r->settle(ranks); /* it may be freed */
        }
        ranks = next;
    }
}

#define PACE_MOST 16u
#define PACE_NS 20000

/* Polls the clock, timers and I/O, and decides after how many rounds to poll again. */
static void look(struct weft__rounds *r)
{
    int64_t before = r->worker->now;
    weft__worker_begin_round(r->worker);
    if (r->worker->now - before > PACE_NS) {
        r->pace = 1;
    } else if (r->pace < PACE_MOST) {
        r->pace *= 2;
    }
    r->unlooked = r->pace;
}

static void go_round(struct weft__rounds *r)
{
    struct weft__worker *w = r->worker;
    struct weft__link *woken = weft__inbox_drain_local(&w->inbox);
    begin_round(r);
    if (--r->unlooked == 0) {
        look(r);
    }
    take_in(r, woken);
    run_commands(r);
    run_groups(r);
    if (__builtin_expect(w->gauge.work_since != 0, 0)) {
        weft__gauge_round(w);
    }
}

bool weft__rounds_handed(const struct weft__rounds *r)
{
    return !weft__inbox_empty(&r->commands) || !weft__inbox_empty(&r->worker->inbox);
}

bool weft__rounds_busy(const struct weft__rounds *r)
{
    return r->first || weft__rounds_handed(r);
}

void weft__rounds_work(struct weft__rounds *r, unsigned most)
{
    unsigned idle = 0;
    bool looked = true; /* the request to leave is checked as often as the clock */
    r->most = most;
    while (r->most > 0 && !(looked && weft__worker_told_to_leave(r->worker))) {
        go_round(r);
        looked = r->unlooked == r->pace;
        if (weft__rounds_busy(r)) {
            idle = 0;
            continue;
        }
        looked = true;
        r->unlooked = 1; /* with nothing ready, the clock is polled in every round */
        if (++idle > r->spins) {
            break;
        }
    }
}

/* --- spinning ------------------------------------------------------------------------------ */

#define SPIN_POLL_NS 5000 /* between two polls of the driver */

/* Anything but a hand-off: a driver event, a timer, the request to leave. */
static bool is_called_away(struct weft__rounds *r, int64_t *polled)
{
    struct weft__worker *w = r->worker;
    if (w->now - *polled >= SPIN_POLL_NS) {
        *polled = w->now;
        weft__worker_poll(w);
    }
    return r->first || weft__wheel_next(&w->wheel) <= w->now || weft__worker_told_to_leave(w);
}

bool weft__rounds_spin(struct weft__rounds *r)
{
    struct weft__worker *w = r->worker;
    if (!r->spin_ns) {
        return false;
    }
    int64_t end = weft__clock_later(w->now, r->spin_ns),
            polled = 0; /* so that the driver is polled first, for submitted operations */
    do {
        if (is_called_away(r, &polled)) {
            return true;
        }
        if (weft__rounds_handed(r)) {
            weft__spin_hit(&r->spin);
            return true;
        }
    } while (weft__spin_on(&w->now, end));
    weft__spin_missed(&r->spin);
    return false;
}
