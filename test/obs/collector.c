/* The built-in collector: its sums, and the accuracy of its percentiles. */
#include <weft/perf.h>

#include "base/alloc.h"
#include "pool/fixture.h"

static weft_collector *collector_open(const struct weft_collector_opts *opts)
{
    weft_collector *collector;
    CHECK_EQ(weft_collector_create(&collector, opts), 0);
    CHECK_EQ(weft_collector_start(collector), 0);
    return collector;
}

static unsigned user_type(const char *name)
{
    int type = weft_perf_register(name);
    CHECK(type >= 0);
    return (unsigned)type;
}

TEST(collector_sums_events)
{
    unsigned type = user_type("encode");
    struct weft_perf_stats s;
    weft_collector *collector = collector_open(NULL);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.calls, 0);
    CHECK_EQ(s.p999_ns, 0);
    weft_perf_event(type, 100, 2, 1000);
    weft_perf_event(type, 300, 3, 500);
    weft_perf_event(type, -5, 0, 0); /* a faulty clock */
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.calls, 3);
    CHECK_EQ(s.total_ns, 400);
    CHECK_EQ(s.mean_ns, 133);
    CHECK_EQ(s.max_ns, 300);
    CHECK_EQ(s.count, 5);
    CHECK_EQ(s.sum, 1500);
    weft_collector_stop(collector);
    weft_collector_stop(collector);
    weft_perf_event(type, 1, 1, 1);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.calls, 3); /* unchanged */
    CHECK_EQ(weft_collector_start(collector), 0);
    weft_perf_event(type, 1, 1, 1);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.calls, 4); /* and continues */
    weft_collector_reset(collector);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.calls + s.count + s.sum, 0);
    CHECK_EQ(s.max_ns + s.p50_ns, 0);
    weft_collector_destroy(collector);
}

static void check_near(int64_t value, int64_t truth)
{
    CHECK(value >= truth);
    CHECK(value <= truth + truth / 8);
}

TEST(collector_percentiles_are_at_most_one_eighth_high)
{
    unsigned type = user_type("encode");
    struct weft_perf_stats s;
    weft_collector *collector = collector_open(NULL);
    for (int64_t scale = 1; scale <= 1000000; scale *= 10) {
        weft_collector_reset(collector);
        for (int64_t i = 1; i <= 10000; i++) {
            weft_perf_event(type, i * scale, 1, 0);
        }
        CHECK_EQ(weft_collector_read(collector, &s, type), 0);
        check_near(s.p50_ns, 5000 * scale);
        check_near(s.p90_ns, 9000 * scale);
        check_near(s.p99_ns, 9900 * scale);
        check_near(s.p999_ns, 9990 * scale);
        CHECK(s.p999_ns <= s.max_ns);
        CHECK_EQ(s.max_ns, 10000 * scale);
    }
    weft_collector_reset(collector);
    weft_perf_event(type, INT64_MAX, 1, 0);
    weft_perf_event(type, 3, 1, 0);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.max_ns, INT64_MAX);
    CHECK_EQ(s.total_ns, INT64_MAX); /* saturated */
    CHECK_EQ(s.p50_ns, 3);
    CHECK_EQ(s.p999_ns, INT64_MAX);
    weft_collector_destroy(collector);
}

static void *tell_a_thousand(void *arg)
{
    unsigned type = user_type("encode");
    for (int i = 0; i < 1000; i++) {
        weft_perf_event(type, i, 1, 2);
        if (i % 100 == 0) {
            weft_yield();
        }
    }
    return arg;
}

TEST(collector_merges_all_threads)
{
    struct weft_perf_stats s;
    weft_collector *collector =
        collector_open(&(struct weft_collector_opts){.types = UINT64_C(1) << user_type("encode")});
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, tell_a_thousand, NULL, NULL), 0);
    }
    tell_a_thousand(NULL);
    pool_close(pool);
    CHECK_EQ(weft_collector_read(collector, &s, user_type("encode")), 0);
    CHECK_EQ(s.calls, 8000);
    CHECK_EQ(s.count, 8000);
    CHECK_EQ(s.sum, 16000);
    CHECK_EQ(s.max_ns, 999);
    CHECK_EQ(weft_collector_read(collector, &s, WEFT_PERF_WORK), -ENOENT); /* not accepted */
    CHECK_EQ(weft_collector_read(collector, &s, 1000), -ENOENT);
    weft_collector_destroy(collector);
}

TEST(collector_dump_prints_line_per_type_with_events)
{
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    unsigned type = user_type("encode");
    weft_collector *collector = collector_open(
        &(struct weft_collector_opts){.prefix = "app", .types = UINT64_C(1) << type | 15});
    weft_perf_event(type, 2000, 4, 5);
    weft_collector_dump(collector, out);
    fclose(out);
    CHECK_STR(text,
              "app encode calls=1 total_us=2.0 mean_us=2.00 max_us=2.00 p50_us=2.00 p90_us=2.00 "
              "p99_us=2.00 p999_us=2.00 count=4 mean_count=4.00 max_count=4 sum=5 mean_sum=5.00 "
              "max_sum=5\n");
    weft_collector_destroy(collector);
    static const char any[] = "a prefix may have any length and is printed whole";
    CHECK_EQ(weft_collector_create(&collector, &(struct weft_collector_opts){.prefix = any}), 0);
    CHECK_EQ(weft_collector_start(collector), 0);
    weft_perf_event((unsigned)type, 2000, 4, 5);
    weft_collector_stop(collector);
    out = fmemopen(text, sizeof text, "w");
    weft_collector_dump(collector, out);
    fclose(out);
    CHECK(strncmp(text, any, strlen(any)) == 0);
    weft_collector_destroy(collector);
    weft_collector_destroy(NULL);
}

TEST(collector_keeps_largest_and_mean_counts_and_sums)
{
    struct weft_perf_stats s;
    unsigned type = user_type("encode");
    weft_collector *collector = collector_open(NULL);
    weft_perf_event(type, 1, 2, 1000);
    weft_perf_event(type, 1, 7, 500);
    weft_perf_event(type, 1, 3, 0);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.count, 12);
    CHECK_EQ(s.sum, 1500);
    CHECK(s.mean_count == 4 && s.mean_sum == 500);
    CHECK_EQ(s.max_count, 7);
    CHECK_EQ(s.max_sum, 1000);
    weft_collector_reset(collector);
    weft_perf_event(type, 1, 1, 1);
    CHECK_EQ(weft_collector_read(collector, &s, type), 0);
    CHECK_EQ(s.max_count, 1);
    CHECK_EQ(s.max_sum, 1);
    weft_collector_destroy(collector);
}

TEST(several_collectors_run_at_once_each_for_its_pool)
{
    struct weft_perf_stats s;
    unsigned type = user_type("encode");
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_collector *a = collector_open(NULL);
    weft_collector *b = collector_open(&(struct weft_collector_opts){.pool = pool});
    CHECK_EQ(weft_collector_start(a), -EBUSY);
    CHECK_EQ(weft_pool_call(pool, NULL, 0, tell_a_thousand, NULL, WEFT_FOREVER), 0);
    weft_perf_event(type, 1, 1, 1);
    CHECK_EQ(weft_collector_read(a, &s, type), 0);
    CHECK_EQ(s.calls, 1001);
    CHECK_EQ(weft_collector_read(b, &s, type), 0);
    CHECK_EQ(s.calls, 1000);
    weft_collector_destroy(a);
    weft_collector_destroy(b);
    pool_close(pool);
}

TEST(collector_start_without_memory_returns_enomem)
{
    weft_collector *collector;
    user_type("encode");
    for (long k = 1;; k++) {
        weft__alloc_fail_after(k, k % 2);
        int err = weft_collector_create(&collector, NULL);
        if (!err) {
            err = weft_collector_start(collector);
            weft__alloc_fail_after(0, false);
            CHECK(err == 0 || err == -ENOMEM);
            if (err) {
                CHECK_EQ(weft_collector_start(collector), 0); /* now memory is available */
            }
            weft_collector_destroy(collector);
        }
        weft__alloc_fail_after(0, false);
        CHECK(err == 0 || err == -ENOMEM);
        if (!err) {
            CHECK(k > 4);
            break;
        }
    }
}
