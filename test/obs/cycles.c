/* Fibers that wait for one another in a cycle are reported, once; other fibers are not. */
#include <stdio.h>

#include "obs/reports.h"
#include "sync/source.h"

/* A minimal lock that is only waited for. */
struct gate {
    struct weft__source source; /* first: the object that is waited on */
    _Atomic(uint64_t) holder;
};

static uint64_t gate_holder(uint64_t on)
{
    return atomic_load(&((struct gate *)(uintptr_t)on)->holder);
}

static const struct weft__wait_kind gate_kind = {
    .name = "gate", .holder = gate_holder, .label = weft__source_label};

static void gate_wait(struct gate *gate)
{
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    weft__source_lock(&gate->source);
    CHECK_EQ(weft__source_wait_locked(&gate->source, &gate->source.waiters, &node, WEFT_FOREVER,
                                      &gate_kind),
             -ECANCELED);
}

/* A fiber that holds one lock and waits for another. */
struct part {
    struct gate *holds, *wants;
    atomic_bool go;
};

static void *play(void *arg)
{
    struct part *part = arg;
    atomic_store(&part->holds->holder, weft_self());
    while (!atomic_load(&part->go)) {
        weft_yield();
    }
    gate_wait(part->wants);
    return NULL;
}

static void let_go(weft_fiber fiber)
{
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}

static void *join_it(void *arg)
{
    weft_fiber *other = arg;
    while (!__atomic_load_n(other, __ATOMIC_ACQUIRE)) {
        weft_yield();
    }
    return (void *)(intptr_t)weft_join(*other, NULL, WEFT_FOREVER);
}

static weft_pool *open_two(void)
{
    reports_begin();
    return pool_open(&(struct weft_pool_opts){.workers = 2});
}

static void close_two(weft_pool *pool)
{
    pool_close(pool);
    weft_on_report(NULL, NULL);
}

static void *run_on(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        weft_yield();
    }
    return NULL;
}

/* Waits for some walks of the watchdog, which needs a running fiber for that. */
static void let_walks_pass(weft_pool *pool)
{
    atomic_bool stop = false;
    weft_fiber runner;
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    uint64_t ticks = stats.ticks + 30; /* of which there are at least ten to a walk */
    CHECK_EQ(weft_pool_spawn(pool, &runner, run_on, &stop, NULL), 0);
    do {
        sched_yield();
        weft_watchdog_stats(&stats);
    } while (stats.ticks < ticks);
    atomic_store(&stop, true);
    CHECK_EQ(weft_join(runner, NULL, WEFT_FOREVER), 0);
}

TEST(mutual_join_cycle_is_reported_once)
{
    weft_pool *pool = open_two();
    weft_fiber a = 0, b = 0, of_a, of_b;
    char line[256], text[2][64];
    CHECK_EQ(weft_pool_spawn(pool, &of_a, join_it, &b, &(struct weft_fiber_opts){.name = "a"}), 0);
    CHECK_EQ(weft_pool_spawn(pool, &of_b, join_it, &a, &(struct weft_fiber_opts){.name = "b"}), 0);
    fiber_text(of_a, text[0], sizeof text[0]);
    fiber_text(of_b, text[1], sizeof text[1]);
    __atomic_store_n(&a, of_a, __ATOMIC_RELEASE);
    __atomic_store_n(&b, of_b, __ATOMIC_RELEASE);
    await_reports(WEFT_REPORT_CYCLE, 1);
    let_walks_pass(pool);
    CHECK_EQ(reports_of(WEFT_REPORT_CYCLE), 1);
    CHECK(strstr(reports_text[WEFT_REPORT_CYCLE], "weft: cycle: 2 fibers wait for one another\n"));
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "  fiber %s waits on join of %s\n", text[i], text[1 - i]);
        CHECK(strstr(reports_text[WEFT_REPORT_CYCLE], line));
    }
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    CHECK_EQ(stats.cycles, 1);
    CHECK_EQ(weft_cancel(of_a), 0); /* each joins the other, so no other fiber may */
    close_two(pool);
}

TEST(lock_cycle_of_three_fibers_is_named_while_others_run)
{
    weft_pool *pool = open_two();
    static const char *const names[] = {"db", "cache", "log"};
    struct gate gates[3];
    struct part parts[3];
    weft_fiber fibers[3], runner;
    atomic_bool stop = false;
    CHECK_EQ(weft_pool_spawn(pool, &runner, run_on, &stop, NULL), 0);
    for (int i = 0; i < 3; i++) {
        weft__source_init(&gates[i].source, &(struct weft_sync_opts){.name = names[i]});
        atomic_init(&gates[i].holder, 0);
    }
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct part){.holds = &gates[i], .wants = &gates[(i + 1) % 3]};
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], play, &parts[i],
                                 &(struct weft_fiber_opts){.name = names[i]}),
                 0);
    }
    for (int i = 0; i < 3; i++) {
        while (atomic_load(&gates[i].holder) == 0) {
            sched_yield();
        }
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_wait_cycles_dump(NULL), 0);
        atomic_store(&parts[i].go, true);
        await_state(fibers[i], WEFT_FIBER_WAITING);
    }
    await_reports(WEFT_REPORT_CYCLE, 1);
    for (int i = 0; i < 3; i++) {
        char line[256], text[2][64];
        snprintf(line, sizeof line, "  fiber %s waits on gate %s held by %s\n",
                 fiber_text(fibers[i], text[0], sizeof text[0]), names[(i + 1) % 3],
                 fiber_text(fibers[(i + 1) % 3], text[1], sizeof text[1]));
        CHECK(strstr(reports_text[WEFT_REPORT_CYCLE], line));
    }
    CHECK(strstr(reports_text[WEFT_REPORT_CYCLE], "weft: cycle: 3 fibers wait for one another\n"));
    for (int i = 0; i < 3; i++) {
        let_go(fibers[i]);
    }
    CHECK_EQ(weft_wait_cycles_dump(NULL), 0);
    atomic_store(&stop, true);
    CHECK_EQ(weft_join(runner, NULL, WEFT_FOREVER), 0);
    close_two(pool);
}

TEST(fiber_waiting_for_own_lock_is_cycle)
{
    weft_pool *pool = open_two();
    struct gate gate = {.source = {.name = "twice"}};
    struct part part = {.holds = &gate, .wants = &gate, .go = true};
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, play, &part, NULL), 0);
    await_reports(WEFT_REPORT_CYCLE, 1);
    CHECK(strstr(reports_text[WEFT_REPORT_CYCLE], "weft: cycle: a fiber waits for itself\n"));
    let_go(fiber);
    close_two(pool);
}

TEST(recurring_cycle_is_reported_again)
{
    weft_pool *pool = open_two();
    struct gate gate = {.source = {.name = "again"}};
    for (int n = 1; n <= 3; n++) {
        struct part part = {.holds = &gate, .wants = &gate, .go = true};
        weft_fiber fiber;
        CHECK_EQ(weft_pool_spawn(pool, &fiber, play, &part, NULL), 0);
        await_reports(WEFT_REPORT_CYCLE, n);
        let_go(fiber);
    }
    CHECK_EQ(reports_of(WEFT_REPORT_CYCLE), 3);
    close_two(pool);
}

static void *park(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

TEST(wait_chains_and_trees_are_not_cycles)
{
    weft_pool *pool = open_two();
    weft_fiber fibers[20];
    CHECK_EQ(weft_pool_spawn(pool, &fibers[0], park, NULL, NULL), 0);
    for (int i = 1; i < 20; i++) {
        weft_fiber *on = &fibers[i / 3];
        CHECK_EQ(weft_fiber_share(*on), 0);
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], join_it, on, NULL), 0);
    }
    for (int i = 0; i < 20; i++) {
        await_state(fibers[i], WEFT_FIBER_WAITING);
    }
    CHECK_EQ(weft_wait_cycles_dump(stderr), 0);
    let_walks_pass(pool);
    CHECK_EQ(reports_of(WEFT_REPORT_CYCLE), 0);
    CHECK_EQ(weft_fiber_unpark(fibers[0]), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    close_two(pool);
}

TEST(find_cycles_writes_every_cycle)
{
    weft_pool *pool = open_two();
    struct gate gates[2] = {{.source = {.name = "one"}}, {.source = {.name = "two"}}};
    struct part parts[2];
    weft_fiber fibers[2];
    for (int i = 0; i < 2; i++) {
        parts[i] = (struct part){.holds = &gates[i], .wants = &gates[i], .go = true};
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], play, &parts[i], NULL), 0);
        await_state(fibers[i], WEFT_FIBER_WAITING);
    }
    char *text = NULL;
    size_t length;
    for (int round = 0; round < 2; round++) {
        FILE *out = open_memstream(&text, &length);
        CHECK_EQ(weft_wait_cycles_dump(out), 2);
        fclose(out);
        CHECK(strstr(text, " waits on gate one held by ") && strstr(text, " waits on gate two "));
        free(text);
    }
    for (int i = 0; i < 2; i++) {
        let_go(fibers[i]);
    }
    close_two(pool);
}

/* Two fibers that lock two mutexes in opposite order. */
struct locker {
    weft_mutex *first, *second;
    atomic_int *holding;
};

static void *lock_both(void *arg)
{
    const struct locker *locker = arg;
    CHECK_EQ(weft_mutex_lock(locker->first, WEFT_FOREVER), 0);
    atomic_fetch_add(locker->holding, 1);
    await_count(locker->holding, 2);
    if (weft_mutex_lock(locker->second, WEFT_FOREVER) == 0) {
        weft_mutex_unlock(locker->second);
    }
    weft_mutex_unlock(locker->first);
    return NULL;
}

TEST(opposite_lock_order_cycle_names_mutexes_and_holders)
{
    weft_pool *pool = open_two();
    weft_mutex db, cache;
    atomic_int holding = 0;
    weft_mutex_init(&db, &(struct weft_sync_opts){.name = "db"});
    weft_mutex_init(&cache, &(struct weft_sync_opts){.name = "cache"});
    struct locker lockers[2] = {{&db, &cache, &holding}, {&cache, &db, &holding}};
    weft_fiber fibers[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], lock_both, &lockers[i],
                                 &(struct weft_fiber_opts){.name = i ? "b" : "a"}),
                 0);
    }
    await_reports(WEFT_REPORT_CYCLE, 1);
    for (int i = 0; i < 2; i++) {
        char line[256], text[2][64];
        snprintf(line, sizeof line, "  fiber %s waits on mutex %s held by %s\n",
                 fiber_text(fibers[i], text[0], sizeof text[0]), i ? "db" : "cache",
                 fiber_text(fibers[1 - i], text[1], sizeof text[1]));
        CHECK(strstr(reports_text[WEFT_REPORT_CYCLE], line));
    }
    let_go(fibers[0]);
    CHECK_EQ(weft_join(fibers[1], NULL, WEFT_FOREVER), 0);
    weft_mutex_deinit(&db);
    weft_mutex_deinit(&cache);
    close_two(pool);
}
