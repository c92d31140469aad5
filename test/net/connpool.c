/* labels: valgrind */
#include "io/drivers.h"

#include <limits.h>

#include <weft/connpool.h>

static int listener;
static char address[WEFT_ADDR_STRLEN];
static weft_chan *accepted; /* int */

static void *accepts(void *arg)
{
    int fd;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        CHECK_EQ(weft_chan_send(accepted, &fd, WEFT_FOREVER), 0);
    }
    return arg;
}

static int next_accepted(void)
{
    int fd;
    CHECK_EQ(weft_chan_recv(accepted, &fd, WEFT_FOREVER), 0);
    return fd;
}

static weft_fiber acceptor;

static void start(void)
{
    struct weft_addr addr;
    listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    weft_addr_format(&addr, address, sizeof address);
    CHECK_EQ(weft_chan_create(&accepted, sizeof(int), &(struct weft_chan_opts){.capacity = 64}), 0);
    CHECK_EQ(weft_spawn(&acceptor, accepts, NULL, NULL), 0);
}

static void stop(void)
{
    CHECK_EQ(weft_close(listener), 0);
    CHECK_EQ(weft_join(acceptor, NULL, WEFT_FOREVER), 0);
    weft_chan_destroy(accepted);
}

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

static void *reuses(void *arg)
{
    weft_connpool *pool;
    struct weft_connpool_stats stats;
    start();
    CHECK_EQ(weft_connpool_create(&pool, address, NULL), 0);
    int fd = weft_connpool_acquire(pool, WEFT_FOREVER);
    CHECK(fd >= 0);
    int peer = next_accepted();
    weft_connpool_release(pool, fd, true);
    CHECK_EQ(weft_connpool_acquire(pool, WEFT_FOREVER), fd);
    weft_connpool_release(pool, fd, true);
    /* The peer closes the connection: the next take opens another. */
    CHECK_EQ(weft_close(peer), 0);
    CHECK_EQ(weft_fd_wait(fd, WEFT_READABLE, WEFT_FOREVER), WEFT_READABLE);
    fd = weft_connpool_acquire(pool, WEFT_FOREVER);
    CHECK(fd >= 0);
    peer = next_accepted();
    weft_connpool_release(pool, fd, false);
    weft_connpool_stats(pool, &stats);
    CHECK_EQ(stats.hits, 1);
    CHECK_EQ(stats.misses, 2);
    CHECK_EQ(stats.stale, 1);
    CHECK_EQ(stats.idle + stats.used, 0);
    CHECK_EQ(weft_close(peer), 0);
    weft_connpool_destroy(pool);
    stop();
    return arg;
}

EACH_DRIVER(connection_is_reused_unless_stale)
{
    on(driver, reuses);
}

static weft_connpool *shared;

static void *takes(void *arg)
{
    int fd = weft_connpool_acquire(shared, arg ? weft_after(*(int64_t *)arg) : WEFT_FOREVER);
    return (void *)(intptr_t)fd;
}

static void await_waits(uint64_t n)
{
    struct weft_connpool_stats stats;
    do {
        weft_yield();
        weft_connpool_stats(shared, &stats);
    } while (stats.waits < n);
}

static void *limits(void *arg)
{
    struct weft_connpool_stats stats;
    weft_fiber fiber;
    void *result;
    int64_t soon = 10000000;
    start();
    CHECK_EQ(weft_connpool_create(&shared, address, &(struct weft_connpool_opts){.max = 1}), 0);
    int fd = weft_connpool_acquire(shared, WEFT_FOREVER);
    int peer = next_accepted();
    CHECK_EQ((intptr_t)takes(&soon), -ETIMEDOUT);
    /* Handed over to a waiter. */
    CHECK_EQ(weft_spawn(&fiber, takes, NULL, NULL), 0);
    await_waits(2);
    weft_connpool_release(shared, fd, true);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, fd);
    /* Broken: the waiter opens another. */
    CHECK_EQ(weft_spawn(&fiber, takes, NULL, NULL), 0);
    await_waits(3);
    weft_connpool_release(shared, fd, false);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK((intptr_t)result >= 0);
    int second = next_accepted();
    weft_connpool_stats(shared, &stats);
    CHECK_EQ(stats.hits, 1);   /* handed over */
    CHECK_EQ(stats.misses, 2); /* the first, and the one that replaced it */
    weft_connpool_release(shared, (int)(intptr_t)result, true);
    CHECK_EQ(weft_close(peer), 0);
    CHECK_EQ(weft_close(second), 0);
    weft_connpool_destroy(shared);

    CHECK_EQ(weft_connpool_create(&shared, address,
                                  &(struct weft_connpool_opts){.max = 1, .refuse = true}),
             0);
    fd = weft_connpool_acquire(shared, WEFT_FOREVER);
    peer = next_accepted();
    CHECK_EQ(weft_connpool_acquire(shared, WEFT_FOREVER), -EAGAIN);
    weft_connpool_release(shared, fd, true);
    CHECK_EQ(weft_close(peer), 0);
    weft_connpool_destroy(shared);
    stop();
    return arg;
}

EACH_DRIVER(connection_limit_is_respected)
{
    on(driver, limits);
}

static void *retires(void *arg)
{
    weft_connpool *pool;
    struct weft_connpool_stats stats;
    int fd[3], peer[3];
    char byte;
    start();
    CHECK_EQ(weft_connpool_create(&pool, address,
                                  &(struct weft_connpool_opts){.min = 1, .idle_ns = 20000000}),
             0);
    for (int i = 0; i < 3; i++) {
        fd[i] = weft_connpool_acquire(pool, WEFT_FOREVER);
        CHECK(fd[i] >= 0);
        peer[i] = next_accepted();
    }
    for (int i = 0; i < 3; i++) {
        weft_connpool_release(pool, fd[i], true);
    }
    /* Two of them are closed; the third stays. */
    CHECK_EQ(weft_read(peer[0], &byte, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_read(peer[1], &byte, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_read(peer[2], &byte, 1, weft_after(50000000)), -ETIMEDOUT);
    weft_connpool_stats(pool, &stats);
    CHECK_EQ(stats.retired, 2);
    CHECK_EQ(stats.idle, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_close(peer[i]), 0);
    }
    weft_connpool_destroy(pool);
    stop();
    return arg;
}

EACH_DRIVER(idle_connections_are_retired_down_to_minimum)
{
    on(driver, retires);
}

static void *keeps(void *arg)
{
    const int64_t never[] = {-1, WEFT_FOREVER};
    start();
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        weft_connpool *pool;
        struct weft_connpool_stats stats;
        char byte;
        CHECK_EQ(
            weft_connpool_create(&pool, address, &(struct weft_connpool_opts){.idle_ns = never[i]}),
            0);
        int fd = weft_connpool_acquire(pool, WEFT_FOREVER);
        int peer = next_accepted();
        weft_connpool_release(pool, fd, true);
        CHECK_EQ(weft_read(peer, &byte, 1, weft_after(20000000)), -ETIMEDOUT);
        CHECK_EQ(weft_connpool_acquire(pool, WEFT_FOREVER), fd);
        weft_connpool_release(pool, fd, true);
        weft_connpool_stats(pool, &stats);
        CHECK_EQ(stats.retired, 0);
        CHECK_EQ(weft_close(peer), 0);
        weft_connpool_destroy(pool);
    }
    stop();
    return arg;
}

EACH_DRIVER(idle_connections_are_kept_without_idle_timeout)
{
    on(driver, keeps);
}

static void *fails(void *arg)
{
    weft_connpool *pool;
    CHECK_EQ(weft_connpool_create(&pool, "127.0.0.1:1", &(struct weft_connpool_opts){.max = 1}), 0);
    CHECK_EQ(weft_connpool_acquire(pool, WEFT_FOREVER), -ECONNREFUSED);
    CHECK_EQ(weft_connpool_acquire(pool, WEFT_FOREVER), -ECONNREFUSED); /* the slot is free again */
    weft_connpool_destroy(pool);
    CHECK_EQ(weft_connpool_create(&pool, "", NULL), -EINVAL);
    CHECK_EQ(weft_connpool_create(&pool, "x:1", &(struct weft_connpool_opts){.min = 2, .max = 1}),
             -EINVAL);
    CHECK_EQ(weft_connpool_create(&pool, "x:1", &(struct weft_connpool_opts){.max = UINT_MAX}),
             -EINVAL);
    CHECK_EQ(weft_connpool_create(&pool, "x:1", &(struct weft_connpool_opts){.min = UINT_MAX}),
             -EINVAL);
    /* A larger number of idle connections raises the limit of connections. */
    CHECK_EQ(weft_connpool_create(&pool, "x:1", &(struct weft_connpool_opts){.min = 1000}), 0);
    weft_connpool_destroy(pool);
    return arg;
}

EACH_DRIVER(failed_connect_leaves_connpool_unchanged)
{
    on(driver, fails);
}

static void *fills(void *arg)
{
    struct weft_connpool_stats stats;
    int peers[3];
    start();
    CHECK_EQ(weft_connpool_create(&shared, address, &(struct weft_connpool_opts){.min = 3}), 0);
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), 0);
    for (int i = 0; i < 3; i++) {
        peers[i] = next_accepted();
    }
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), 0); /* no connection is missing */
    int fd = weft_connpool_acquire(shared, WEFT_FOREVER);
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), 0); /* a connection in use is not missing */
    weft_connpool_stats(shared, &stats);
    CHECK_EQ(stats.filled, 3);
    CHECK_EQ(stats.hits, 1);
    CHECK_EQ(stats.misses, 0);
    CHECK_EQ(stats.idle, 2);
    CHECK_EQ(stats.used, 1);
    weft_connpool_release(shared, fd, false);
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), 0); /* now one is missing */
    int fourth = next_accepted();
    weft_connpool_stats(shared, &stats);
    CHECK_EQ(stats.filled, 4);
    CHECK_EQ(stats.idle, 3);
    weft_connpool_destroy(shared);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_close(peers[i]), 0);
    }
    CHECK_EQ(weft_close(fourth), 0);
    stop();
    return arg;
}

EACH_DRIVER(fill_connects_up_to_minimum)
{
    on(driver, fills);
}

enum { FILL_MIN = 8, FILLERS = 4 };

static void *fills_shared(void *arg)
{
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), 0);
    return arg;
}

static void *fills_at_once(void *arg)
{
    struct weft_connpool_stats stats;
    weft_fiber fibers[FILLERS];
    start();
    CHECK_EQ(weft_connpool_create(&shared, address, &(struct weft_connpool_opts){.min = FILL_MIN}),
             0);
    for (int i = 0; i < FILLERS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], fills_shared, NULL, NULL), 0);
    }
    for (int i = 0; i < FILLERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    weft_connpool_stats(shared, &stats);
    CHECK_EQ(stats.filled, FILL_MIN);
    CHECK_EQ(stats.idle, FILL_MIN);
    weft_connpool_destroy(shared);
    for (int i = 0; i < FILL_MIN; i++) {
        CHECK_EQ(weft_close(next_accepted()), 0);
    }
    stop();
    return arg;
}

EACH_DRIVER(concurrent_fills_connect_minimum_once)
{
    on(driver, fills_at_once);
}

/* A server that accepts two logins and is gone at the third. */
static int connects_twice(void *arg, const char *to, int64_t deadline)
{
    int *left = arg;
    return (*left)-- > 0 ? weft_dial(to, NULL, deadline) : -ECONNREFUSED;
}

static void *fills_in_part(void *arg)
{
    struct weft_connpool_stats stats;
    int left = 2;
    start();
    CHECK_EQ(weft_connpool_create(&shared, address,
                                  &(struct weft_connpool_opts){
                                      .min = 3, .max = 3, .connect = connects_twice, .arg = &left}),
             0);
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), -ECONNREFUSED);
    weft_connpool_stats(shared, &stats);
    CHECK_EQ(stats.idle, 2);
    CHECK_EQ(stats.used, 0);
    left = 1; /* the slot of the failed connection is free again */
    CHECK_EQ(weft_connpool_fill(shared, WEFT_FOREVER), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_close(next_accepted()), 0);
    }
    weft_connpool_destroy(shared);
    stop();
    return arg;
}

EACH_DRIVER(failed_fill_keeps_connections_made)
{
    on(driver, fills_in_part);
}

static int connects_never(void *arg, const char *to, int64_t deadline)
{
    (void)to;
    return weft_event_wait(arg, deadline);
}

static void *fill_result(void *arg)
{
    int64_t *deadline = arg;
    return (void *)(intptr_t)weft_connpool_fill(shared, *deadline);
}

static void *ends_fills(void *arg)
{
    weft_event never = WEFT_EVENT_INIT;
    int64_t deadline = WEFT_FOREVER;
    struct weft_connpool_stats stats;
    weft_fiber fiber;
    void *result;
    CHECK_EQ(
        weft_connpool_create(&shared, "127.0.0.1:1",
                             &(struct weft_connpool_opts){
                                 .min = 2, .max = 2, .connect = connects_never, .arg = &never}),
        0);
    CHECK_EQ(weft_connpool_fill(shared, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&fiber, fill_result, &deadline, NULL), 0);
    weft_cancel(fiber);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    CHECK_EQ(weft_spawn(&fiber, fill_result, &deadline, NULL), 0);
    weft_fiber_interrupt(fiber);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -EINTR);
    weft_connpool_stats(shared, &stats);
    CHECK_EQ(stats.idle + stats.used, 0);
    weft_connpool_destroy(shared);
    return arg;
}

EACH_DRIVER(fill_ends_on_deadline_cancel_and_interrupt)
{
    on(driver, ends_fills);
}
