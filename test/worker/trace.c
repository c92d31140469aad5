/* The trace ring: off until switched on, then the last events of each worker in order. */
/* labels: valgrind */
#include "pool/fixture.h"
#include "sched/pool.h"

static char *trace_of(weft_pool *pool)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    CHECK(out != NULL);
    weft_pool_trace_dump(pool, out);
    CHECK_EQ(fclose(out), 0);
    return text;
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

static void *end_at_once(void *arg)
{
    return arg;
}

struct traced {
    weft_fiber main, child;
};

static void *live_a_little(void *arg)
{
    struct traced *traced = arg;
    traced->main = weft_self();
    CHECK_EQ(weft_spawn(&traced->child, end_at_once, NULL, NULL), 0);
    CHECK_EQ(weft_join(traced->child, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_spawn(NULL, end_at_once, NULL, NULL), 0);
    weft_yield();
    return NULL;
}

TEST(trace_is_empty_when_disabled)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct traced traced;
    CHECK_EQ(weft_pool_call(pool, NULL, 0, live_a_little, &traced, WEFT_FOREVER), 0);
    char *text = trace_of(pool);
    CHECK_STR(text, "");
    free(text);
    pool_close(pool);
}

/* Finds "<event> #<fiber>" after `from`. */
static const char *find_event(const char *from, const char *event, weft_fiber fiber)
{
    char id[32], line[64];
    CHECK(weft_fiber_format(fiber, id, sizeof id) > 0);
    snprintf(line, sizeof line, " %s %s\n", event, id);
    const char *at = strstr(from, line);
    if (!at) {
        check_fail(__FILE__, __LINE__, "no \"%.40s\" in %.400s", line, from);
    }
    return at;
}

TEST(trace_shows_fiber_events_in_order)
{
    weft_pool *pool;
    struct traced traced;
    struct weft_worker_stats stats;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    weft_pool_trace(pool, true);
    CHECK_EQ(weft_pool_start(pool), 0);
    do {
        sched_yield();
        CHECK_EQ(weft_worker_stats(pool, &stats, 0), 0);
    } while (stats.parks == 0);
    CHECK_EQ(weft_pool_call(pool, NULL, 0, live_a_little, &traced, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    char *text = trace_of(pool);
    const char *at = find_event(text, "run", traced.main);
    at = find_event(at, "spawn", traced.child);
    at = find_event(at, "wait", traced.main);
    at = find_event(at, "run", traced.child);
    const char *end = find_event(at, "end", traced.child);
    const char *wake = find_event(at, "wake", traced.main);
    at = find_event(end > wake ? end : wake, "run", traced.main);
    at = find_event(at, "end", traced.main);
    CHECK(strstr(text, " park -\n") != NULL);
    CHECK(strstr(text, "worker=0 ") != NULL);
    free(text);
    weft_pool_destroy(pool);
}

static void *yield_on(void *arg)
{
    for (int i = 0; i < 3000; i++) {
        weft_yield();
    }
    return arg;
}

TEST(trace_keeps_last_1024_events_per_worker_in_order)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct weft_job both[2] = {{yield_on, NULL}, {yield_on, NULL}};
    weft_pool_trace(pool, true);
    CHECK_EQ(weft_pool_submit_batch(pool, both, 2), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    char *text = trace_of(pool);
    CHECK_EQ(lines_of(text), 1024);
    long long before = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        long long at;
        CHECK_EQ(sscanf(line, "%lld worker=0", &at), 1);
        CHECK(at >= before);
        before = at;
    }
    free(text);
    weft_pool_destroy(pool);
}

TEST(trace_can_be_disabled_again)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct traced traced;
    weft_pool_trace(pool, true);
    CHECK_EQ(weft_pool_call(pool, NULL, 0, live_a_little, &traced, WEFT_FOREVER), 0);
    weft_pool_trace(pool, false);
    CHECK_EQ(weft_pool_call(pool, NULL, 0, live_a_little, &traced, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    char *text = trace_of(pool), id[32];
    CHECK(lines_of(text) > 0);
    CHECK(weft_fiber_format(traced.main, id, sizeof id) > 0);
    strcat(id, "\n");
    CHECK(strstr(text, id) == NULL); /* no event from the second run */
    free(text);
    weft_pool_destroy(pool);
}

struct steal {
    atomic_int ran;
};

static void *count_up(void *arg)
{
    struct steal *steal = arg;
    atomic_fetch_add(&steal->ran, 1);
    return NULL;
}

static void *spawn_and_hog(void *arg)
{
    struct steal *steal = arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_spawn(NULL, count_up, steal, NULL), 0);
    }
    while (atomic_load(&steal->ran) < 5) {
        sched_yield();
    }
    return NULL;
}

static void *hop_there(void *arg)
{
    CHECK_EQ(weft_pool_call(arg, NULL, 0, end_at_once, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(trace_records_steals_and_migrations)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct weft_worker_stats thief;
    weft_pool_trace(pool, true);
    do { /* fibers that the watchdog moves from a hogged worker before a thief comes are not
          * stolen */
        struct steal steal = {.ran = 0};
        CHECK_EQ(weft_pool_call(pool, NULL, 0, spawn_and_hog, &steal, WEFT_FOREVER), 0);
        CHECK_EQ(weft_worker_stats(pool, &thief, 1), 0);
    } while (thief.steals == 0);
    CHECK_EQ(weft_pool_call(pool, NULL, 0, hop_there, other, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    char *text = trace_of(pool);
    CHECK(strstr(text, "worker=1 steal from=0 n=") != NULL);
    CHECK(strstr(text, "worker=0 migrate #") != NULL);
    free(text);
    weft_pool_destroy(pool);
    pool_close(other);
}

TEST(trace_prints_whole_fiber_id_of_late_generation)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    weft_fiber fiber = (weft_fiber)UINT32_MAX << 32 | 7;
    weft__trace_add(&pool->workers[0].trace, WEFT__TRACE_RUN, fiber);
    char *text = trace_of(pool);
    find_event(text, "run", fiber);
    free(text);
    weft_pool_destroy(pool);
}
