/* Error texts: weft_strerror, and the name of the rejected option. */
/* labels: valgrind */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include <weft/weft.h>

#include "check.h"

TEST(strerror_text_fits_error)
{
    CHECK_STR(weft_strerror(-ENOENT), "Not found: no such name, file or entry");
    CHECK_STR(weft_strerror(-ESRCH), "No such fiber, actor or process: it has ended");
    CHECK_STR(weft_strerror(-ENODATA), "Ended before all data came");
    CHECK_STR(weft_strerror(-ECANCELED), "Cancelled");
    CHECK_STR(weft_strerror(-EDEADLK), "Would wait forever (deadlock)");
    CHECK_STR(weft_strerror(-EOWNERDEAD), "Ended before it answered");
    CHECK_STR(weft_strerror(0), "Success");
}

TEST(strerror_accepts_both_signs)
{
    for (int err = -200; err <= 200; err++) {
        const char *text = weft_strerror(err);
        CHECK(text && text[0]);
        CHECK(text == weft_strerror(-err));
        CHECK(!strchr(text, '\n'));
    }
}

/* Errors with a meaning of their own in the headers have Weft's text where errno's would
 * mislead. */
TEST(kernel_errors_keep_kernel_text)
{
    CHECK_STR(weft_strerror(-EADDRINUSE), "Address already in use");
    CHECK_STR(weft_strerror(-ENOMEM), "Cannot allocate memory");
    CHECK_STR(weft_strerror(-9999), "Unknown error");
    CHECK_STR(weft_strerror(INT_MIN), "Unknown error");
    CHECK_STR(weft_strerror(INT_MAX), "Unknown error");
}

static void refused(int err, const char *why)
{
    CHECK_EQ(err, -EINVAL);
    CHECK_STR(weft_last_error(), why);
}

static void *is_told_nothing(void *arg)
{
    CHECK_STR(weft_last_error(), "");
    return arg;
}

TEST(pool_create_names_rejected_option)
{
    weft_pool *pool;
#define POOL(...) weft_pool_create(&pool, &(struct weft_pool_opts){__VA_ARGS__})
    refused(POOL(.workers = 1025), "workers: must be at most 1024");
    refused(POOL(.ring_slots = 5), "ring_slots: must be a power of two from 4 to 65536");
    refused(POOL(.fresh_slots = 1), "fresh_slots: must be a power of two from 2 to 1048576");
    refused(POOL(.stack_bytes = SIZE_MAX), "stack_bytes: must be at most 64 MiB");
    refused(POOL(.timer_tick_ns = -1), "timer_tick_ns: must be from 0 to one second");
    refused(POOL(.fresh_order = (enum weft_fresh_order)7),
            "fresh_order: must be one of enum weft_fresh_order");
    refused(POOL(.driver = (enum weft_driver)77), "driver: must be one of enum weft_driver");
    refused(POOL(.cpu_count = 1), "cpus: must be given with cpu_count");
    refused(POOL(.cpus = (int[]){-1}, .cpu_count = 1),
            "cpus: has a CPU that this process may not use");
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, is_told_nothing, NULL), 0); /* another thread's */
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(every_create_names_rejected_option)
{
    weft_pool_set *pools;
    refused(weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = 1001}),
            "members: must be at most 1000");
    refused(weft_pool_set_create(
                &pools, &(struct weft_pool_set_opts){.members = 1, .stack_bytes = SIZE_MAX}),
            "stack_bytes: must be at most 64 MiB");
    weft_blocking_pool *blocking;
    refused(weft_blocking_create(&blocking, &(struct weft_blocking_opts){.max_threads = 100000}),
            "max_threads: must be at most 4096");
    refused(weft_blocking_create(&blocking,
                                 &(struct weft_blocking_opts){.min_threads = 3, .max_threads = 2}),
            "min_threads: must be at most max_threads");
    weft_dispatcher *dispatcher;
    refused(weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.max_poll_ns = -1}),
            "max_poll_ns: must not be negative");
    refused(weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.cpu = (int[]){-1}}),
            "cpus: has a CPU that this process may not use");
    weft_host *host;
    refused(weft_host_create(&host, &(struct weft_host_opts){.batch = 65}),
            "batch: must be at most 64");
    weft_http_server *server;
    refused(weft_http_server_create(&server, NULL), "pool: must be given outside of a fiber");
    weft_connpool *connections;
    refused(weft_connpool_create(&connections, "127.0.0.1:1", NULL),
            "pool: must be given outside of a fiber");
    refused(weft_connpool_create(&connections, "127.0.0.1:1",
                                 &(struct weft_connpool_opts){.min = 3, .max = 2}),
            "min: must be at most max");
    weft_loop *loop;
    refused(weft_loop_create(&loop, &(struct weft_loop_opts){.timer_tick_ns = -1}),
            "timer_tick_ns: must be from 0 to one second");
    weft_chan *chan;
    refused(weft_chan_create(&chan, 8, &(struct weft_chan_opts){.capacity = SIZE_MAX}),
            "capacity, max_capacity: the buffer would be too large");
    CHECK_EQ(weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.backlog = -1}), -EINVAL);
    CHECK_STR(weft_last_error(), "backlog, defer_accept_seconds: must not be negative");
}

static void *refuses_limits(void *arg)
{
    weft_http_server *server;
    refused(weft_http_server_create(&server,
                                    &(struct weft_http_server_opts){.limits = {.line_bytes = 1}}),
            "limits.line_bytes: must be from 64 bytes to 16 MiB");
    return arg;
}

TEST(http_server_names_rejected_limit)
{
    CHECK_EQ(
        weft_run(NULL, refuses_limits, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER),
        0);
}
