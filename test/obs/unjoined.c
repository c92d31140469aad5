/* Forgotten joins are reported when the pool is destroyed; joined fibers are not. */
/* labels: valgrind */
#include <weft/dispatcher.h>

#include "obs/reports.h"

static void *end(void *arg)
{
    return arg;
}

/* The fiber has ended and was not joined. */
static weft_fiber spawn_ended(weft_pool *pool, const char *name)
{
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, end, NULL, &(struct weft_fiber_opts){.name = name}), 0);
    await_state(fiber, WEFT_FIBER_DONE);
    return fiber;
}

TEST(unjoined_fibers_are_counted_and_first_is_named)
{
    char line[200], text[40];
    reports_begin();
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "shop"});
    CHECK_EQ(weft_join(spawn_ended(pool, "joined"), NULL, WEFT_FOREVER), 0);
    weft_fiber first = spawn_ended(pool, "first");
    CHECK_EQ(weft_fiber_detach(spawn_ended(pool, "detached")), 0);
    weft_fiber second = spawn_ended(pool, NULL), third = spawn_ended(pool, "third");
    CHECK_EQ(weft_fiber_share(third), 0);
    CHECK_EQ(weft_join(third, NULL, WEFT_FOREVER), 0); /* one of its two join rights */
    fiber_text(first, text, sizeof text);
    pool_close(pool);
    CHECK_EQ(reports_of(WEFT_REPORT_UNJOINED), 1);
    snprintf(line, sizeof line,
             "weft: unjoined: pool shop ended without a join or detach of 3 of its fibers, "
             "the first %s: call weft_join or weft_fiber_detach",
             text);
    CHECK(strstr(reports_text[WEFT_REPORT_UNJOINED], line));
    /* A reported fiber can still be joined. */
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(third, NULL, WEFT_FOREVER), 0);
}

static void *forget_one(void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, end, NULL, &(struct weft_fiber_opts){.name = "alone"}), 0);
    return arg;
}

TEST(run_reports_unjoined_fibers_at_end)
{
    reports_begin();
    run_in_fiber(1, forget_one, NULL);
    CHECK_EQ(reports_of(WEFT_REPORT_UNJOINED), 1);
    CHECK(strstr(reports_text[WEFT_REPORT_UNJOINED], "without a join or detach of 1 of its "
                                                     "fibers, which is #"));
    CHECK(strstr(reports_text[WEFT_REPORT_UNJOINED], " alone: call weft_join"));
}

static void *forget_nothing(void *arg)
{
    weft_fiber joined, given_up;
    CHECK_EQ(weft_spawn(&joined, end, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(&given_up, end, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, end, NULL, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_join(joined, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_detach(given_up), 0);
    return arg;
}

TEST(no_unjoined_report_if_all_fibers_were_joined)
{
    reports_begin();
    run_in_fiber(1, forget_nothing, NULL);
    run_in_fiber(2, forget_nothing, NULL);
    /* Fibers of another pool are not reported for this one. */
    weft_pool *other = pool_open(NULL);
    weft_fiber kept = spawn_ended(other, "kept");
    run_in_fiber(2, forget_nothing, NULL);
    CHECK_EQ(weft_join(kept, NULL, WEFT_FOREVER), 0);
    pool_close(other);
    CHECK_EQ(reports_of(WEFT_REPORT_UNJOINED), 0);
}
