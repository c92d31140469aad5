/* labels: valgrind */
/* A group's state as observers see it: waiting, queued for its turn, in its turn, stopping. */
#include <sched.h>
#include <stdatomic.h>

#include "dispatch/fixture.h"

static struct weft_group_stats stats_of(const weft_group *group)
{
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    return stats;
}

static void await_group(const weft_group *group, enum weft_group_state state)
{
    while (stats_of(group).state != state) {
        sched_yield();
    }
}

static void check_dump_has(weft_group *group, const char *line)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    CHECK_EQ(weft_group_dump(group, out, &(struct weft_dump_opts){.no_frames = true}), 0);
    fclose(out);
    if (!strstr(text, line)) {
        check_fail(__FILE__, __LINE__, "no %s in:\n%s", line, text);
    }
    free(text);
}

/* Keeps its group's turn, and with it the dispatcher's round, until it is released. */
struct runner {
    weft_event *wakes; /* set first; NULL: none */
    atomic_bool runs, may_end;
};

static void *runs_on(void *arg)
{
    struct runner *r = arg;
    if (r->wakes) {
        weft_event_set(r->wakes);
    }
    atomic_store(&r->runs, true);
    while (!atomic_load(&r->may_end)) {
        sched_yield();
    }
    return NULL;
}

static void runs_posted(void *arg)
{
    runs_on(arg);
}

static void await_run(const struct runner *r)
{
    while (!atomic_load(&r->runs)) {
        sched_yield();
    }
}

static weft_dispatcher *start(void)
{
    return start_dispatcher(&(struct weft_dispatcher_opts){.hog_ns = -1});
}

static void *waits(void *arg)
{
    CHECK_EQ(weft_event_wait(arg, WEFT_FOREVER), 0);
    return NULL;
}

TEST(group_with_all_fibers_waiting_is_running)
{
    weft_event event = WEFT_EVENT_INIT;
    weft_dispatcher *d = start();
    weft_group *group = make_group(d, "g");
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_RUNNING); /* it never had a fiber */
    CHECK_EQ(weft_group_spawn(group, NULL, waits, &event, NULL), 0);
    while (stats_of(group).turns == 0) {
        sched_yield();
    }
    await_group(group, WEFT_GROUP_RUNNING);
    CHECK(!stats_of(group).executing);
    check_dump_has(group, "group g: running fibers=1");
    weft_event_set(&event);
    stop_dispatcher(d);
}

TEST(group_with_running_fiber_is_executing)
{
    weft_dispatcher *d = start();
    weft_group *group = make_group(d, "g");
    struct runner r = {0};
    CHECK_EQ(weft_group_spawn(group, NULL, runs_on, &r, NULL), 0);
    await_run(&r);
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_EXECUTING);
    CHECK(stats_of(group).executing);
    check_dump_has(group, "group g: executing fibers=");
    atomic_store(&r.may_end, true);
    stop_dispatcher(d);
}

TEST(group_running_posted_function_is_executing)
{
    weft_dispatcher *d = start();
    weft_group *group = make_group(d, "g");
    struct runner r = {0};
    CHECK_EQ(weft_group_post(group, runs_posted, &r), 0);
    await_run(&r);
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_EXECUTING);
    atomic_store(&r.may_end, true);
    await_group(group, WEFT_GROUP_RUNNING);
    stop_dispatcher(d);
}

TEST(group_waiting_for_its_turn_is_ready)
{
    weft_event event = WEFT_EVENT_INIT;
    weft_dispatcher *d = start();
    weft_group *busy = make_group(d, "busy"), *woken = make_group(d, "woken");
    struct runner r = {.wakes = &event};
    weft_fiber waiter;
    enum weft_fiber_state now;
    CHECK_EQ(weft_group_spawn(woken, &waiter, waits, &event, NULL), 0);
    do {
        CHECK_EQ(weft_fiber_state(waiter, &now), 0);
    } while (now != WEFT_FIBER_WAITING);
    CHECK_EQ(weft_group_spawn(busy, NULL, runs_on, &r, NULL), 0);
    await_run(&r); /* it has woken the other, and keeps the round */
    CHECK_EQ(stats_of(woken).state, WEFT_GROUP_READY);
    CHECK(!stats_of(woken).executing);
    CHECK_EQ(stats_of(busy).state, WEFT_GROUP_EXECUTING);
    check_dump_has(woken, "group woken: ready fibers=");
    atomic_store(&r.may_end, true);
    CHECK_EQ(weft_join(waiter, NULL, WEFT_FOREVER), 0);
    stop_dispatcher(d);
}

/* Observed in its own turn, and from another group, which is ready. */
struct looker {
    weft_group *own, *other;
    weft_event *wakes;
};

static void *looks(void *arg)
{
    struct looker *l = arg;
    CHECK_EQ(stats_of(l->own).state, WEFT_GROUP_EXECUTING);
    weft_event_set(l->wakes);
    CHECK_EQ(stats_of(l->other).state, WEFT_GROUP_READY);
    while (stats_of(l->other).state != WEFT_GROUP_RUNNING) {
        weft_yield();
    }
    CHECK_EQ(stats_of(l->own).state, WEFT_GROUP_EXECUTING);
    return NULL;
}

TEST(fiber_sees_own_group_executing_and_woken_group_ready)
{
    weft_event event = WEFT_EVENT_INIT;
    weft_dispatcher *d = start();
    struct looker l = {make_group(d, "own"), make_group(d, "other"), &event};
    weft_fiber waiter, looker;
    enum weft_fiber_state now;
    CHECK_EQ(weft_group_spawn(l.other, &waiter, waits, &event, NULL), 0);
    do {
        CHECK_EQ(weft_fiber_state(waiter, &now), 0);
    } while (now != WEFT_FIBER_WAITING);
    CHECK_EQ(weft_group_spawn(l.own, &looker, looks, &l, NULL), 0);
    CHECK_EQ(weft_join(looker, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(waiter, NULL, WEFT_FOREVER), 0);
    stop_dispatcher(d);
}

static void *yields_on(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        weft_yield();
    }
    return NULL;
}

TEST(unfinished_group_between_polls_is_ready)
{
    weft_dispatcher *d;
    atomic_bool done = false;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, yields_on, &done, NULL), 0);
    CHECK(weft_dispatcher_poll(d) > 0);
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_READY);
    atomic_store(&done, true);
    CHECK(weft_dispatcher_poll(d) > 0);
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_RUNNING);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
}

TEST(stopping_group_reports_whether_executing)
{
    weft_dispatcher *d = start();
    weft_group *group = make_group(d, "g");
    struct runner r = {0};
    CHECK_EQ(weft_group_spawn(group, NULL, runs_on, &r, NULL), 0);
    await_run(&r);
    weft_group_stop(group);
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_STOPPING);
    CHECK(stats_of(group).executing);
    check_dump_has(group, "group g: stopping, executing fibers=");
    atomic_store(&r.may_end, true);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(stats_of(group).state, WEFT_GROUP_FINISHED);
    CHECK(!stats_of(group).executing);
    stop_dispatcher(d);
}

TEST(each_group_state_has_name)
{
    CHECK_STR(weft_group_state_name(WEFT_GROUP_RUNNING), "running");
    CHECK_STR(weft_group_state_name(WEFT_GROUP_READY), "ready");
    CHECK_STR(weft_group_state_name(WEFT_GROUP_EXECUTING), "executing");
    CHECK_STR(weft_group_state_name(WEFT_GROUP_STOPPING), "stopping");
    CHECK_STR(weft_group_state_name(WEFT_GROUP_FINISHED), "finished");
}
