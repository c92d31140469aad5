/* The text that a person reads first when a program hangs. */
/* labels: valgrind */
#include "pool/fixture.h"

struct text {
    char *chars;
    size_t size;
};

static char *dump_of(weft_pool *pool, size_t max_fibers)
{
    struct text text;
    FILE *out = open_memstream(&text.chars, &text.size);
    CHECK(out != NULL);
    weft_pool_dump(pool, out, max_fibers);
    CHECK_EQ(fclose(out), 0);
    return text.chars;
}

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        check_fail(__FILE__, __LINE__, "no \"%s\" in: %.300s", part, text);
    }
}

static int lines_with(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        n++;
    }
    return n;
}

static void *hold(void *arg)
{
    return weft_fiber_park(WEFT_FOREVER) ? NULL : arg;
}

static void await_all_parked(weft_pool *pool)
{
    struct weft_pool_stats stats;
    do {
        sched_yield();
        weft_pool_stats(pool, &stats);
    } while (stats.idle < stats.workers);
}

TEST(pool_dump_shows_pool_and_each_worker)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.name = "shown", .workers = 2});
    await_all_parked(pool);
    char *text = dump_of(pool, 0);
    check_has(text, "pool shown: workers=2 active=0 idle=2 started=yes stopping=no live=0");
    check_has(text, "global=0");
    for (unsigned i = 0; i < 2; i++) {
        struct weft_worker_stats stats;
        char line[64];
        CHECK_EQ(weft_worker_stats(pool, &stats, i), 0);
        snprintf(line, sizeof line, "worker %u: parked tid=%d current=-", i, stats.tid);
        check_has(text, line);
    }
    static const char *const counters[] = {
        "executed=", "spawned=",   "finished=", "steals=", "stolen=", "parks=",
        "wakes=",    "overflows=", "ring=",     "fresh=",  "bound=",  "inbox="};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        CHECK_EQ(lines_with(text, counters[i]), 2);
    }
    CHECK(strstr(text, "fiber #") == NULL);
    free(text);
    pool_close(pool);
}

TEST(pool_dump_shows_fiber_name_state_age_and_wait)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber fiber;
    struct weft_fiber_opts opts = {.name = "sleeper", .bound = true, .worker = 1};
    CHECK_EQ(weft_pool_spawn(pool, &fiber, hold, NULL, &opts), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    char line[96], id[32];
    CHECK(weft_fiber_format(fiber, id, sizeof id) > 0);
    snprintf(line, sizeof line, "fiber %s sleeper waiting age=", id);
    char *text = dump_of(pool, 10);
    check_has(text, line);
    check_has(text, "worker=1 bound=1 waits=park");
    check_has(text, "live=1");
    free(text);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

TEST(pool_dump_of_many_fibers_is_truncated_with_note)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    for (int i = 0; i < 30; i++) {
        CHECK_EQ(weft_pool_submit(pool, hold, NULL), 0);
    }
    char *text = dump_of(pool, 10);
    CHECK_EQ(lines_with(text, "fiber #"), 10);
    check_has(text, "and 20 more fibers");
    free(text);
    text = dump_of(pool, 30);
    CHECK_EQ(lines_with(text, "fiber #"), 30);
    CHECK(strstr(text, "more fibers") == NULL);
    free(text);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    text = dump_of(pool, 30);
    check_has(text, "active=0 idle=0 started=no stopping=no live=0");
    check_has(text, "worker 0: absent tid=0");
    free(text);
    weft_pool_destroy(pool);
}

static void *dump_from_inside(void *arg)
{
    char *text = dump_of(weft_pool_self(), 100), id[32], line[64];
    CHECK(weft_fiber_format(weft_self(), id, sizeof id) > 0);
    snprintf(line, sizeof line, "worker 0: running tid=%d current=%s", getpid(), id);
    check_has(text, line);
    snprintf(line, sizeof line, "fiber %s main running", id);
    check_has(text, line);
    free(text);
    return arg;
}

TEST(fiber_may_dump_its_own_pool)
{
    CHECK_EQ(weft_run(NULL, dump_from_inside, NULL,
                      &(struct weft_pool_opts){.workers = 1, .stack_bytes = 256 * 1024},
                      WEFT_FOREVER),
             0);
}

static void *churn(void *arg)
{
    atomic_bool *stop = arg;
    while (!atomic_load(stop)) {
        CHECK_EQ(weft_spawn(NULL, hold, NULL, &(struct weft_fiber_opts){.detached = true}), 0);
        weft_yield();
        struct weft_pool_stats stats;
        weft_pool_stats(weft_pool_self(), &stats);
        if (stats.live > 200) {
            return NULL;
        }
    }
    return NULL;
}

TEST(pool_may_be_dumped_while_running_and_stopping)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    atomic_bool stop = false;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, churn, &stop), 0);
    }
    for (long i = check_scale(100); i >= 0; i--) {
        free(dump_of(pool, 1000));
    }
    atomic_store(&stop, true);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}
