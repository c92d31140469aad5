/* A dispatcher seen from outside: dumps as text and JSON, snapshots, perf events. */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/inspect.h>
#include <weft/perf.h>

#include "dispatch/fixture.h"

static weft_event ready_event;
static _Atomic(bool) over;

/* Two groups: one with a waiting fiber, a waiting frame and a sleeping daemon; one with a running
 * fiber and a ready one queued after it. */
static void *waits(void *arg)
{
    CHECK_EQ(weft_event_wait(&ready_event, WEFT_FOREVER), 0);
    return arg;
}

static void *sleeps(void *arg)
{
    weft_sleep(WEFT_FOREVER);
    return arg;
}

static void *runs_on(void *arg)
{
    CHECK_EQ(weft_spawn(NULL, waits, NULL, &(struct weft_fiber_opts){.name = "stands by"}), 0);
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    }
    return arg;
}

struct scene {
    weft_dispatcher *d;
    weft_group *quiet, *busy;
    struct party party;
};

static void open_scene(struct scene *s)
{
    struct weft_group_stats stats;
    atomic_store(&over, false);
    weft_event_init(&ready_event, &(struct weft_sync_opts){.name = "the \"door\""});
    s->d = start_dispatcher(&(struct weft_dispatcher_opts){.name = "stage", .hog_ns = -1});
    s->quiet = make_group(s->d, "the \"quiet\"");
    s->busy = make_group(s->d, "busy");
    CHECK_EQ(weft_group_spawn(s->quiet, NULL, waits, NULL,
                              &(struct weft_member_opts){.name = "visitor"}),
             0);
    CHECK_EQ(weft_group_spawn(s->quiet, NULL, sleeps, NULL,
                              &(struct weft_member_opts){.name = "guard", .daemon = true}),
             0);
    spawn_party(s->quiet, &s->party, FRAME, "framed", 1, 1);
    do {
        weft_group_stats(s->quiet, &stats);
    } while (stats.executed < 3);
    CHECK_EQ(stats.fibers, 2);
    CHECK_EQ(stats.daemons, 1);
    CHECK_EQ(weft_group_spawn(s->busy, NULL, runs_on, NULL,
                              &(struct weft_member_opts){.name = "runner"}),
             0);
}

static void close_scene(struct scene *s)
{
    atomic_store(&over, true);
    weft_event_set(&ready_event);
    weft_event_set(&s->party.event);
    stop_dispatcher(s->d);
}

static char *text_of(struct scene *s, weft_group *group, const struct weft_dump_opts *opts)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    CHECK_EQ(group ? weft_group_dump(group, out, opts) : weft_dispatcher_dump(s->d, out, opts), 0);
    fclose(out);
    return text;
}

static void check_has(const char *text, const char *what)
{
    if (!strstr(text, what)) {
        check_fail(__FILE__, __LINE__, "no %s in:\n%s", what, text);
    }
}

TEST(dispatcher_dump_shows_groups_wait_objects_and_times)
{
    struct scene s;
    open_scene(&s);
    char *text;
    do { /* until the runner has spawned the other, and was seen running */
        text = text_of(&s, NULL, &(struct weft_dump_opts){.no_frames = true});
    } while ((!strstr(text, "stands by") || !strstr(text, "group busy: executing fibers=")) &&
             (free(text), true));
    check_has(text, "dispatcher stage: rounds=");
    check_has(text, " groups=2 unfinished=2");
    check_has(text, "group the \"quiet\": running fibers=2 daemons=1 ready=0");
    check_has(text, "visitor pool=stage group=the \"quiet\" age=");
    check_has(text, "guard pool=stage group=the \"quiet\" daemon age=");
    check_has(text, "framed pool=stage group=the \"quiet\" age=");
    check_has(text, "fiber waiting: sleep");
    check_has(text, "waiting: event");
    check_has(text, "the \"door\"");
    check_has(text, " since=");
    check_has(text, "fiber running");
    check_has(text, "fiber ready");
    check_has(text, "stands by pool=stage group=busy");
    free(text);
    text = text_of(&s, s.quiet, NULL);
    check_has(text, "group the \"quiet\": running");
    check_has(text, "visitor");
    CHECK(!strstr(text, "runner"));
    free(text);
    close_scene(&s);
}

static void check_json(const char *text)
{
    FILE *python = popen(
        "python3 -c '"
        "import json, sys\n"
        "d = json.load(sys.stdin)\n"
        "assert d[\"weft_dispatcher\"] == 1 and d[\"name\"] == \"stage\", d\n"
        "g = {x[\"name\"]: x for x in d[\"groups\"]}\n"
        "q = g[\"the \\\"quiet\\\"\"]\n"
        "assert q[\"state\"] == \"running\" and q[\"fibers\"] == 2 and q[\"daemons\"] == 1, q\n"
        "assert q[\"ready\"] == 0 and q[\"turns\"] > 0, q\n"
        "f = {y[\"name\"]: (x, y) for x in d[\"dump\"][\"stacks\"] for y in x[\"fibers\"]}\n"
        "x, v = f[\"visitor\"]\n"
        "assert x[\"waits\"] == \"event\" and v[\"group\"] == \"the \\\"quiet\\\"\", v\n"
        "assert v[\"since_ns\"] is not None and v[\"on\"][\"name\"] == \"the \\\"door\\\"\", v\n"
        "assert f[\"guard\"][1][\"daemon\"] and not v[\"daemon\"]\n"
        "'",
        "w");
    CHECK(python);
    fputs(text, python);
    CHECK_EQ(pclose(python), 0);
}

TEST(dispatcher_dump_supports_json)
{
    struct scene s;
    open_scene(&s);
    char *text = text_of(&s, NULL, &(struct weft_dump_opts){.format = WEFT_DUMP_JSON});
    check_json(text);
    free(text);
    text = text_of(&s, s.quiet, &(struct weft_dump_opts){.format = WEFT_DUMP_JSON});
    check_json(text);
    free(text);
    struct weft_dump_opts bad = {.format = (enum weft_dump_format)9};
    CHECK_EQ(weft_dispatcher_dump(s.d, stderr, &bad), -EINVAL);
    close_scene(&s);
}

struct tally {
    int visitors, guards, others;
};

static bool counts(const struct weft_fiber_info *info, void *arg)
{
    struct tally *t = arg;
    bool quiet = strcmp(info->group, "the \"quiet\"") == 0;
    t->visitors += quiet && strcmp(info->name, "visitor") == 0 && !info->daemon;
    t->guards += quiet && strcmp(info->name, "guard") == 0 && info->daemon;
    t->others += strcmp(info->group, "busy") == 0;
    return true;
}

TEST(fiber_walk_names_groups)
{
    struct scene s;
    struct tally t = {0};
    open_scene(&s);
    weft_fiber_each(NULL, counts, &t);
    CHECK_EQ(t.visitors, 1);
    CHECK_EQ(t.guards, 1);
    CHECK(t.others >= 1);
    close_scene(&s);
}

/* --- snapshots -------------------------------------------------------------------------------- */

static void *breeds(void *arg)
{
    weft_group *group = arg;
    for (int i = 0; i < 200; i++) {
        weft_fiber fibers[3];
        for (int k = 0; k < 3;
             k++) { /* three at a time, so that the count is 1 or 4 after a turn */
            CHECK_EQ(weft_group_spawn(group, &fibers[k], waits, NULL, NULL), 0);
        }
        weft_yield();
        weft_event_set(&ready_event);
        for (int k = 0; k < 3; k++) {
            CHECK_EQ(weft_join(fibers[k], NULL, WEFT_FOREVER), 0);
        }
        weft_event_reset(&ready_event);
    }
    atomic_store(&over, true);
    return NULL;
}

TEST(group_snapshot_is_consistent_from_any_thread)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    struct weft_group_stats stats, last = {0};
    atomic_store(&over, false);
    weft_event_init(&ready_event, NULL);
    CHECK_EQ(weft_group_spawn(group, NULL, breeds, group, NULL), 0);
    do {
        weft_group_stats(group, &stats);
        CHECK(stats.fibers <= 4);
        CHECK(stats.ready <= stats.fibers + stats.daemons);
        CHECK(stats.turns >= last.turns && stats.executed >= last.executed);
        CHECK(stats.executed - last.executed <=
              8 * (stats.turns - last.turns)); /* both belong to the same moment */
        last = stats;
    } while (!atomic_load(&over));
    stop_dispatcher(d);
}

/* --- perf events ------------------------------------------------------------------------------ */

static void *yields(void *arg)
{
    for (int i = 0; i < 100; i++) {
        weft_yield();
    }
    return arg;
}

/* On a busy machine the dispatcher may be so late that it need not sleep for a nap. */
static void *naps(void *arg)
{
    struct weft_dispatcher_stats stats;
    int i = 0;
    do {
        CHECK_EQ(weft_sleep(weft_after(2 * MS)), 0);
        weft_dispatcher_stats(weft_dispatcher_self(), &stats);
    } while (++i < 5 || stats.sleeps == 0);
    return arg;
}

static void collect(enum kind kind)
{
    weft_collector *collector;
    struct weft_perf_stats poll, work, queue, acquire;
    struct party p[2];
    CHECK_EQ(weft_collector_create(&collector, NULL), 0);
    CHECK_EQ(weft_collector_start(collector), 0);
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, naps, NULL, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, yields, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        spawn_party(group, &p[i], kind, "", 10, 1);
    }
    p[0].tells = &p[1].event;
    p[1].tells = &p[0].event;
    weft_event_set(&p[0].event);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    stop_dispatcher(d);
    weft_collector_stop(collector);
    CHECK_EQ(weft_collector_read(collector, &poll, WEFT_PERF_POLL), 0);
    CHECK_EQ(weft_collector_read(collector, &work, WEFT_PERF_WORK), 0);
    CHECK_EQ(weft_collector_read(collector, &queue, WEFT_PERF_QUEUE), 0);
    CHECK_EQ(weft_collector_read(collector, &acquire, WEFT_PERF_ACQUIRE), 0);
    CHECK(poll.calls >= 1);           /* it slept */
    CHECK(work.calls >= 100);         /* a round for each yield, */
    CHECK(work.calls <= stats.turns); /* and none without a fiber */
    CHECK_EQ(work.count, stats.executed);
    CHECK(queue.calls >= 10);
    CHECK(acquire.calls >= 5);
    weft_collector_destroy(collector);
}

TEST(perf_callback_gets_polls_rounds_and_delays)
{
    collect(STACK);
    collect(FRAME);
}
