/* Clients of queue/intake.h and of the group scheduler that serves it, sched/group_scheduler.c:
 * tasks sent to a group against the group's end. T0 is the dispatcher's thread, which sleeps as a
 * worker does; the others send functions, fibers and the stop request. T0 leaves when the group has
 * finished: a group that never finishes is a deadlock. T0 then frees the group. */
#include <limits.h>
#include <string.h>

#include "model/explore.h"
#include "model/twins.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "sched/stackless.h"

#define SENDERS 2

struct sent {
    struct weft__command command; /* first */
    int by;
};

static weft_pool *pool;
static struct weft__worker *worker;
static struct weft__group_sched rounds;
static struct weft__group_queues *by_number[2];
static struct weft__group_queues *group;
static struct weft__task task;
static bool stopping, finished;
static int accepted[SENDERS + 1], served[SENDERS + 1], written[SENDERS + 1];

/* --- what the group scheduler needs of a worker ----------------------------------------------- */

struct weft__worker *weft__worker_self(void)
{
    return x_thread() == 0 ? worker : NULL;
}

void weft__worker_begin_round(struct weft__worker *w)
{
    (void)w;
}

void weft__worker_poll(struct weft__worker *w) /* for a thread that spins: idle/spin.h */
{
    (void)w;
}

bool weft__worker_should_exit(const struct weft__worker *w)
{
    (void)w;
    return finished;
}

void weft__worker_run_in_group(struct weft__worker *w, struct weft__task *which)
{
    (void)w, (void)which;
    X_ASSERT(false); /* all tasks are stackless here */
}

static enum weft__stackless_step step(struct weft__worker *w, struct weft__task *which)
{
    X_ASSERT(which == &task && weft__task_state(which) == WEFT__TASK_RUNNING);
    served[1] += written[1];
    weft__group_sched_end(w->group_sched, which);
    return WEFT__STACKLESS_END;
}

static const struct weft__stackless_kind kind = {.what = "task", .step = step};

bool weft__waiter_end_settled(struct weft__task *which, uint64_t armed, uint64_t flags)
{
    (void)which, (void)armed, (void)flags;
    X_ASSERT(false); /* it does not wait */
    return false;
}

void weft__worker_metrics_end_round(struct weft__worker *w)
{
    (void)w;
}

void weft__trace_event(struct weft__worker *w, enum weft__trace_kind kind, uint64_t who)
{
    (void)w, (void)kind, (void)who;
}

void weft__run_order_add_start(struct weft__run_order *order, const struct weft__task *which)
{
    (void)order, (void)which;
}

void weft__run_order_add_run(struct weft__run_order *order, const struct weft__task *which)
{
    (void)order, (void)which;
}

/* As dispatch/group.c settles it. */
static void settle(struct weft__group_queues *queues)
{
    if (!stopping || finished || queues->live > 0 || !weft__intake_is_empty(&queues->intake) ||
        !weft__intake_close(&queues->intake)) {
        return;
    }
    finished = true;
}

/* --- the threads ------------------------------------------------------------------------------ */

static void setup(void)
{
    pool = x_alloc(sizeof *pool, false);
    worker = x_alloc(sizeof *worker, false);
    group = x_alloc(sizeof *group, false);
    memset(pool, 0, sizeof *pool);
    memset(worker, 0, sizeof *worker);
    memset(group, 0, sizeof *group);
    memset(&rounds, 0, sizeof rounds);
    worker->pool = pool;
    weft__parker_init(&worker->sleeper.parker);
    weft__inbox_init(&worker->inbox);
    weft__group_sched_init(&rounds, worker);
    weft__group_queues_init(group, &rounds);
    group->index = 1;
    group->slice = 10;
    by_number[1] = group;
    rounds.queues = by_number;
    rounds.settle = settle;
    task = (struct weft__task){.flags = WEFT__TASK_STACKLESS | WEFT__TASK_GROUPED,
                               .stackless = &kind,
                               .group = 1,
                               .signals = 1,
                               .slot = 1};
    atomic_init(&task.state, WEFT__TASK_FRESH);
    stopping = finished = false;
    for (int i = 0; i <= SENDERS; i++) {
        accepted[i] = served[i] = written[i] = 0;
    }
    x_name(&rounds, sizeof rounds, "rounds");
    x_name(worker, sizeof *worker, "worker");
    x_name(group, sizeof *group, "group");
    x_name(&task, sizeof task, "task");
}

static void dispatch(void)
{
    while (!finished) {
        weft__group_sched_run(&rounds, UINT_MAX);
        if (!finished && !weft__group_sched_is_busy(&rounds)) {
            weft__parker_park(&worker->sleeper.parker, INT64_MAX);
        }
    }
}

static void run_sent(struct weft__command *command)
{
    struct sent *sent = (struct sent *)(void *)command;
    served[sent->by] += written[sent->by]; /* the sender's write is visible here */
    x_free(sent);
}

static void run_stop(struct weft__command *command)
{
    stopping = true;
    x_free(command);
}

static bool post(struct weft__group_queues *to, void (*run)(struct weft__command *))
{
    struct sent *sent = x_alloc(sizeof *sent, false);
    *sent = (struct sent){.command = {.run = run, .queues = to}, .by = x_thread()};
    if (run == run_sent) {
        written[x_thread()] = 1;
    }
    if (!weft__intake_enter(&to->intake)) {
        x_free(sent);
        return false;
    }
    weft__group_sched_post(to->rounds, &sent->command); /* from here on the group may be gone */
    return true;
}

/* As a spawn from outside does it: fiber/fiber.c, sched/placement.c. */
static bool spawn(void)
{
    written[x_thread()] = 1;
    if (!weft__intake_enter(&group->intake)) {
        return false;
    }
    if (weft__inbox_push_remote(&worker->inbox, &task.link)) {
        weft__parker_wake(&worker->sleeper.parker);
    }
    return true;
}

static void rest(void)
{
    X_ASSERT(finished);
    for (int i = 1; i <= SENDERS; i++) {
        X_ASSERT(served[i] == accepted[i]); /* exactly those, exactly once */
    }
    X_ASSERT(!weft__group_sched_is_busy(&rounds));
    x_free(group);
    x_free(worker);
    x_free(pool);
}

/* One thread sends, one stops. */
static void post_against_stop(int i)
{
    if (i == 0) {
        dispatch();
    } else if (i == 1) {
        accepted[1] = post(group, run_sent);
    } else {
        X_ASSERT(post(group, run_stop));
    }
}

static void spawn_against_stop(int i)
{
    if (i == 0) {
        dispatch();
    } else if (i == 1) {
        accepted[1] = spawn();
    } else {
        X_ASSERT(post(group, run_stop));
    }
}

/* Both in one thread: the send is always before the stop. */
static void post_then_stop(int i)
{
    if (i == 0) {
        dispatch();
    } else {
        accepted[1] = post(group, run_sent);
        X_ASSERT(accepted[1]);
        X_ASSERT(post(group, run_stop));
    }
}

/* A send after the stop may be in time or not. */
static void stop_then_post(int i)
{
    if (i == 0) {
        dispatch();
    } else {
        X_ASSERT(post(group, run_stop));
        accepted[1] = post(group, run_sent);
    }
}

/* The sender that was accepted last does not touch the group again: T0 frees the group as soon as
 * it has finished. */
static void freed_when_finished(int i)
{
    if (i == 0) {
        dispatch();
        x_free(group);
    } else {
        X_ASSERT(post(group, run_stop));
    }
}

static void freed_before(void)
{
    X_ASSERT(finished);
    x_free(worker);
    x_free(pool);
}

static const struct x_client clients[] = {
    X_CLIENT("post_then_stop", 2, setup, post_then_stop, rest, .preemptions = 3, .stale = 2),
    X_CLIENT("stop_then_post", 2, setup, stop_then_post, rest, .preemptions = 3, .stale = 1,
             .spurious = 1),
    X_CLIENT("freed_when_finished", 2, setup, freed_when_finished, freed_before),
    X_CLIENT("post_against_stop", 3, setup, post_against_stop, rest, .preemptions = 2, .stale = 1),
    X_CLIENT("spawn_against_stop", 3, setup, spawn_against_stop, rest, .preemptions = 2,
             .stale = 1),
};

X_MAIN(clients)
