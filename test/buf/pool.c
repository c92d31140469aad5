/* Buffer pools: what is cached, where freed buffers go, and which caller bugs are detected. */
#include <weft/buf.h>

#include "base/assert.h"
#include "buf/block.h"
#include "buf/bufs.h"
#include "buf/worker_cache.h"
#include "pool/fixture.h"

static struct weft_buf_stats stats(void)
{
    struct weft_buf_stats s;
    weft_buf_stats(&s);
    return s;
}

/* Empties all caches, except those of other workers. */
static void fresh(void)
{
    weft_buf_set_limits(NULL);
    weft__buf_trim_pools();
}

static void *reuse(void *arg)
{
    const void *first = NULL;
    struct weft_buf_stats before = stats();
    for (int i = 0; i < 100; i++) {
        weft_buf *buf = weft_buf_alloc(500, 0);
        CHECK(!first || buf->data == first);
        first = buf->data;
        weft_buf_free(buf);
    }
    struct weft_buf_stats after = stats();
    CHECK_EQ(after.hits - before.hits, 99);
    CHECK_EQ(after.misses - before.misses, 1);
    CHECK_EQ(after.classes[4].hits - before.classes[4].hits, 99);
    CHECK_EQ(after.classes[4].bytes, 512);
    CHECK_EQ(after.live, before.live);
    CHECK_EQ(after.kept, before.kept + 1);
    CHECK_EQ(after.kept_bytes, before.kept_bytes + 512 + 128);
    CHECK_EQ(after.foreign, before.foreign);
    return arg;
}

TEST(freed_buffer_is_next_to_be_allocated)
{
    fresh();
    reuse(NULL); /* a plain thread */
    run_in_fiber(1, reuse, NULL);
}

TEST(large_buffers_are_shared_and_largest_are_not_cached)
{
    fresh();
    struct weft_buf_stats before = stats();
    weft_buf *large = weft_buf_alloc(100000, 0), *larger = weft_buf_alloc(5 << 20, 0);
    struct weft_buf_stats during = stats();
    CHECK_EQ(during.live - before.live, 2);
    CHECK(during.live_bytes - before.live_bytes >= (5 << 20) + 131072);
    CHECK_EQ(during.classes[12].bytes, 131072);
    CHECK_EQ(during.classes[12].live, before.classes[12].live + 1);
    CHECK_EQ(during.classes[18].live, 1);
    weft_buf_free(large);
    weft_buf_free(larger);
    struct weft_buf_stats after = stats();
    CHECK_EQ(after.live_bytes, before.live_bytes);
    CHECK_EQ(after.classes[12].kept, 1);
    CHECK_EQ(after.classes[18].kept, 0);
    CHECK(weft__buf_trim_pools() >= 131072);
    CHECK_EQ(stats().classes[12].kept, 0);
}

TEST(shared_buffer_pool_stays_within_limits)
{
    weft_buf *bufs[20];
    fresh();
    weft_buf_set_limits(&(struct weft_buf_limits){.shared_class = 200000, .shared = 300000});
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) {
            bufs[i] = weft_buf_alloc(i < 10 ? 65536 : 32768, 0);
        }
        for (int i = 0; i < 20; i++) {
            weft_buf_free(bufs[i]);
        }
        struct weft_buf_stats s = stats();
        CHECK_EQ(s.classes[11].kept, 3); /* 65664 bytes each */
        CHECK_EQ(s.classes[10].kept, 3);
        CHECK(s.kept_bytes <= 300000);
    }
    fresh();
}

#define MANY 100

static void *keep_many(void *arg)
{
    weft_buf *bufs[MANY];
    for (int i = 0; i < MANY; i++) {
        bufs[i] = weft_buf_alloc(1024, 0);
    }
    for (int i = 0; i < MANY; i++) {
        weft_buf_free(bufs[i]);
    }
    struct weft_buf_stats s = stats();
    /* Twice the limit, and the buffer that exceeded it. */
    CHECK(s.classes[5].kept * 1152 <= 2 * 23040 + 1152);
    CHECK(s.classes[5].kept >= 40);
    return arg;
}

TEST(worker_cache_holds_twice_limit_busy_and_limit_when_asleep)
{
    fresh();
    weft_buf_set_limits(&(struct weft_buf_limits){.worker_class = 23040});
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_call(pool, NULL, 0, keep_many, NULL, WEFT_FOREVER), 0);
    await_idle(pool);
    CHECK(stats().classes[5].kept <= 20);
    CHECK(stats().classes[5].kept > 0);
    pool_close(pool);
    CHECK_EQ(stats().classes[5].kept, 0); /* its worker cache is closed */
    weft_buf_set_limits(NULL);
}

static void *nothing(void *arg)
{
    return arg;
}

TEST(trim_reaches_other_workers_before_their_next_sleep)
{
    fresh();
    /* Its worker is this thread, in poll, and certainly sleeps in between. */
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .caller = true});
    CHECK_EQ(weft_pool_submit(pool, reuse, NULL), 0);
    CHECK(weft_pool_poll(pool) > 0);
    weft__buf_trim_pools();
    CHECK(stats().kept > 0); /* the worker sleeps: no other thread may use its cache */
    CHECK_EQ(weft_pool_submit(pool, nothing, NULL), 0);
    CHECK(weft_pool_poll(pool) > 0);
    CHECK_EQ(stats().kept, 0);
    pool_close(pool);
}

/* --- frees on other threads ----------------------------------------------------------- */

static weft_buf *passed[MANY];

static void *take_many(void *arg)
{
    for (int i = 0; i < MANY; i++) {
        passed[i] = weft_buf_alloc(200, 0);
        CHECK(passed[i]);
    }
    return arg;
}

static void *free_many(void *arg)
{
    for (int i = 0; i < MANY; i++) {
        weft_buf_free(passed[i]);
    }
    return arg;
}

static void *take_again(void *arg)
{
    struct weft_buf_stats before = stats();
    take_many(NULL);
    struct weft_buf_stats after = stats();
    CHECK_EQ(after.hits - before.hits, MANY);
    CHECK_EQ(after.misses, before.misses);
    free_many(NULL);
    return arg;
}

TEST(remotely_freed_buffer_returns_to_its_worker)
{
    fresh();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "b"});
    struct weft_buf_stats before = stats();
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(weft_pool_call(a, NULL, 0, take_many, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(stats().live, before.live + MANY);
        if (round) {
            free_many(NULL); /* a plain thread */
        } else {
            CHECK_EQ(weft_pool_call(b, NULL, 0, free_many, NULL, WEFT_FOREVER), 0);
        }
        struct weft_buf_stats after = stats();
        CHECK_EQ(after.foreign - before.foreign, (uint64_t)MANY * (uint64_t)(round + 1));
        CHECK_EQ(after.live, before.live);
        CHECK_EQ(after.kept, before.kept + MANY); /* also while on the remote-free list */
        CHECK_EQ(weft_pool_call(a, NULL, 0, take_again, NULL, WEFT_FOREVER), 0);
    }
    pool_close(a);
    pool_close(b);
}

TEST(remote_frees_to_inactive_worker_cache_are_bounded)
{
    fresh();
    weft_buf_set_limits(&(struct weft_buf_limits){.worker_class = 3840});
    /* Its worker is this thread, and only in run: a separate thread might wake up and collect some
     * of the buffers. */
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a", .caller = true});
    CHECK_EQ(weft_pool_run(a, NULL, take_many, NULL, WEFT_FOREVER), 0);
    free_many(NULL);
    CHECK_EQ(stats().live, 0);
    CHECK(stats().kept <= 11);
    CHECK(stats().kept >= 10);
    pool_close(a);
    CHECK_EQ(stats().kept, 0);
    weft_buf_set_limits(NULL);
}

static void *keep_all(void *arg)
{
    take_many(NULL);
    free_many(NULL);
    CHECK_EQ(stats().kept, MANY);
    return take_many(arg);
}

TEST(maximum_limit_means_unlimited)
{
    const size_t limits[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4 + 1};
    for (int i = 0; i < 4; i++) {
        size_t most = limits[i];
        fresh();
        weft_buf_set_limits(&(struct weft_buf_limits){
            .worker_class = most, .worker = most, .shared_class = most, .shared = most});
        weft_pool *a =
            pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a", .caller = true});
        CHECK_EQ(weft_pool_run(a, NULL, keep_all, NULL, WEFT_FOREVER), 0);
        free_many(NULL); /* on the remote-free list */
        CHECK_EQ(stats().live, 0);
        CHECK_EQ(stats().kept, MANY);
        pool_close(a);
    }
    weft_buf_set_limits(NULL);
}

TEST(buffers_outlive_their_pool)
{
    fresh();
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    CHECK_EQ(weft_pool_call(a, NULL, 0, take_many, NULL, WEFT_FOREVER), 0);
    pool_close(a);
    for (int i = 0; i < MANY; i++) {
        memset(weft_buf_put(passed[i], 200), i, 200);
    }
    weft_buf *kept = weft_buf_slice(passed[MANY - 1], 10, 20);
    free_many(NULL);
    CHECK_EQ(stats().live, 2); /* a slice and its storage */
    CHECK_EQ(kept->data[19], MANY - 1);
    /* A later worker reuses the cache of the earlier one. */
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "b"});
    weft_buf_free(kept);
    CHECK_EQ(stats().live, 0);
    CHECK_EQ(weft_pool_call(b, NULL, 0, nothing, NULL, WEFT_FOREVER), 0);
    pool_close(b);
    weft__buf_trim_pools();
    CHECK_EQ(stats().kept, 0);
}

TEST(dump_includes_buffer_stats)
{
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool_dump(pool, out, 0);
    fclose(out);
    CHECK(strstr(text, "buffers: live=0 "));
    pool_close(pool);
}

/* --- caller bugs ------------------------------------------------------------------------ */

static void free_twice(void *arg)
{
    weft_buf *buf = weft_buf_alloc(300, 0);
    if (arg) {
        weft_buf_share(buf);
    }
    weft_buf_free(buf);
    weft_buf_free(buf);
}

static void *free_twice_in_fiber(void *arg)
{
    free_twice(arg);
    return NULL;
}

static void free_twice_in_pool(void *arg)
{
    run_in_fiber(1, free_twice_in_fiber, arg);
}

TEST(double_free_of_buffer_aborts)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(free_twice, NULL, err, sizeof err)));
    CHECK(strstr(err, "a buffer (class: 512 bytes) was freed twice"));
    CHECK(WIFSIGNALED(check_child(free_twice, err, err, sizeof err)));
    CHECK(strstr(err, "was freed twice"));
    CHECK(WIFSIGNALED(check_child(free_twice_in_pool, NULL, err, sizeof err)));
    CHECK(strstr(err, "was freed twice"));
#if WEFT_DEBUG
    CHECK(strstr(err, "it was freed by fiber #"));
#endif
}

#if WEFT_DEBUG
static void write_after_free(void *arg)
{
    weft_buf *buf = weft_buf_alloc(300, 0);
    unsigned char *data = buf->data;
    weft_buf_free(buf);
    data[100] = 1;
    weft_buf_alloc(300, 0);
    (void)arg;
}

static void use_after_free(void *arg)
{
    weft_buf *buf = weft_buf_alloc(300, 0);
    weft_buf_free(buf);
    weft__buf_headroom(buf);
    (void)arg;
}

TEST(debug_build_detects_buffer_use_after_free)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(use_after_free, NULL, err, sizeof err)));
    CHECK(strstr(err,
                 "a buffer (class: 512 bytes) was used after it had been freed; it was freed by "
                 "a plain thread at 0x"));
    int status = check_child(write_after_free, NULL, err, sizeof err);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) != 0); /* ASan detects it first, and exits */
    CHECK(strstr(err, "a buffer (class: 512 bytes) was written to after it had been freed") ||
          strstr(err, "AddressSanitizer: use-after-poison"));
}
#endif
