/* A pool inside a host's own loop: poll, the pool's descriptor and its next deadline. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "pool/fixture.h"

static weft_pool *host_pool(unsigned workers)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {.caller = true, .workers = workers};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    return pool;
}

static bool readable(weft_pool *pool)
{
    struct pollfd fd = {.fd = weft_pool_fd(pool), .events = POLLIN};
    CHECK(poll(&fd, 1, 0) >= 0);
    return fd.revents & POLLIN;
}

static void await_readable(weft_pool *pool)
{
    struct pollfd fd = {.fd = weft_pool_fd(pool), .events = POLLIN};
    int n;
    do { /* the watchdog may interrupt a thread to sample its stack */
        n = poll(&fd, 1, 300000);
    } while (n < 0 && errno == EINTR);
    CHECK_EQ(n, 1);
}

static const struct weft_fiber_opts on_worker_0 = {.bound = true, .worker = 0};

/* Runs fn in a fiber bound to worker 0, by polling once. */
static weft_fiber begin_on_host(weft_pool *pool, weft_fn fn, void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, fn, arg, &on_worker_0), 0);
    CHECK(weft_pool_poll(pool) > 0);
    return fiber;
}

static void *count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

static void *yield_twice(void *arg)
{
    weft_yield();
    weft_yield();
    return count_up(arg);
}

/* --- poll ------------------------------------------------------------------------ */

TEST(poll_runs_ready_fibers_and_returns_number_of_turns)
{
    weft_pool *pool = host_pool(1);
    atomic_int ran = 0;
    CHECK_EQ(weft_pool_poll(pool), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, yield_twice, &ran), 0);
    }
    CHECK_EQ(atomic_load(&ran), 0);
    CHECK_EQ(weft_pool_poll(pool), 9);
    CHECK_EQ(atomic_load(&ran), 3);
    CHECK_EQ(weft_pool_poll(pool), 0);
    pool_close(pool);
}

TEST(pool_fd_is_readable_only_while_work_is_pending)
{
    weft_pool *pool = host_pool(1);
    atomic_int ran = 0;
    CHECK(weft_pool_fd(pool) >= 0);
    for (int i = 1; i <= 50; i++) {
        CHECK_EQ(weft_pool_poll(pool), 0);
        CHECK(!readable(pool));
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
        CHECK(readable(pool));
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
        CHECK_EQ(weft_pool_poll(pool), 2);
        CHECK_EQ(atomic_load(&ran), 2 * i);
        CHECK(!readable(pool));
    }
    pool_close(pool);
}

static void *hold(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return count_up(arg);
}

static void *unpark_it(void *arg)
{
    CHECK_EQ(weft_fiber_unpark(*(weft_fiber *)arg), 0);
    return NULL;
}

TEST(wake_of_fiber_bound_to_host_makes_pool_fd_readable)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_pool *pool = host_pool(workers);
        for (int i = 0; i < 50; i++) {
            atomic_int ran = 0;
            weft_fiber fiber = begin_on_host(pool, hold, &ran);
            if (i % 2 && workers > 1) { /* alternately from inside the pool and from outside */
                CHECK_EQ(weft_pool_spawn(pool, NULL, unpark_it, &fiber,
                                         &(struct weft_fiber_opts){.bound = true, .worker = 1}),
                         0);
            } else {
                thread_close(thread_open(unpark_it, &fiber));
            }
            do { /* a worker that found work may have woken the host for more, in vain */
                await_readable(pool);
                CHECK(weft_pool_poll(pool) >= 0);
            } while (atomic_load(&ran) == 0);
            CHECK_EQ(weft_join(fiber, NULL, 0), 0);
        }
        pool_close(pool);
    }
}

/* --- deadlines ------------------------------------------------------------------- */

static void *nap(void *arg)
{
    int64_t deadline = weft_after(*(int64_t *)arg);
    CHECK_EQ(weft_fiber_park(deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    return NULL;
}

/* Waits as a host does: for the descriptor or until the deadline, and for nothing else. */
static void wait_as_host(weft_pool *pool)
{
    struct pollfd fd = {.fd = weft_pool_fd(pool), .events = POLLIN};
    int64_t deadline = weft_pool_next_deadline(pool);
    CHECK(deadline != WEFT_FOREVER || readable(pool)); /* otherwise nothing happens again */
    int64_t left = deadline - weft_now();
    left = left < 0 ? 0 : left;
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    int n = ppoll(&fd, 1, deadline == WEFT_FOREVER ? NULL : &timeout, NULL);
    CHECK(n >= 0 || errno == EINTR);
}

TEST(next_deadline_without_timers_is_never)
{
    weft_pool *pool = host_pool(1);
    CHECK_EQ(weft_pool_next_deadline(pool), WEFT_FOREVER);
    CHECK_EQ(weft_pool_poll(pool), 0);
    CHECK_EQ(weft_pool_next_deadline(pool), WEFT_FOREVER);
    pool_close(pool);
}

TEST(host_waiting_for_next_deadline_misses_none)
{
    weft_pool *pool = host_pool(1);
    int64_t ns = 70000;
    long rounds = check_scale(1000) + 70; /* more than one full count of turns */
    for (long i = 0; i < rounds; i++) {
        weft_fiber fiber = begin_on_host(pool, nap, &ns);
        int polls = 0;
        while (weft_join(fiber, NULL, 0) == -ETIMEDOUT) {
            wait_as_host(pool);
            CHECK(weft_pool_poll(pool) >= 0);
            CHECK(++polls <= 20); /* one, or a few if the nearest time was known only roughly */
        }
        CHECK_EQ(weft_pool_next_deadline(pool), WEFT_FOREVER);
    }
    pool_close(pool);
}

/* --- a plain epoll loop ------------------------------------------------------------ */

struct server {
    weft_pool *pool;
    atomic_int done;
    int host_events;
};

static void *serve_one(void *arg)
{
    struct server *server = arg;
    for (int i = 0; i < 3; i++) {
        weft_yield();
        int64_t deadline = weft_after(100000);
        CHECK_EQ(weft_fiber_park(deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
    }
    return count_up(&server->done);
}

static void *submit_from_outside(void *arg)
{
    struct server *server = arg;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_pool_submit(server->pool, serve_one, server), 0);
        sched_yield();
    }
    return NULL;
}

static void epoll_add(int loop, int fd, int tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = tag};
    CHECK_EQ(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event), 0);
}

/* The host's own descriptor fires in each iteration too: the pool is only a guest. */
static void host_loop(struct server *server, int fibers)
{
    int loop = epoll_create1(0), own = eventfd(1, EFD_SEMAPHORE | EFD_NONBLOCK);
    CHECK(loop >= 0 && own >= 0);
    epoll_add(loop, weft_pool_fd(server->pool), 1);
    epoll_add(loop, own, 2);
    while (atomic_load(&server->done) < fibers) {
        CHECK(weft_pool_poll(server->pool) >= 0);
        int64_t deadline = weft_pool_next_deadline(server->pool);
        int64_t left = (deadline - weft_now()) / 1000000 + 1;
        struct epoll_event events[2];
        int n = epoll_wait(loop, events, 2,
                           deadline == WEFT_FOREVER || atomic_load(&server->done) == fibers ? 100
                           : left < 0                                                       ? 0
                                      : (int)left);
        CHECK(n >= 0 || errno == EINTR); /* or the process was stopped and continued */
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.fd == 2 && read(own, &count, sizeof count) == sizeof count) {
                server->host_events++;
            }
        }
    }
    close(own);
    close(loop);
}

TEST(pool_runs_inside_plain_epoll_loop)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct server server = {.pool = host_pool(workers)};
        pthread_t outside = thread_open(submit_from_outside, &server);
        host_loop(&server, 50);
        thread_close(outside);
        CHECK_EQ(server.host_events, 1);
        pool_close(server.pool);
    }
}

/* --- between polls ------------------------------------------------------------------- */

static void *unbind_and_hold(void *arg)
{
    CHECK_EQ(weft_worker_self(), 0);
    CHECK_EQ(weft_fiber_migrate(arg, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return (void *)(intptr_t)weft_worker_self();
}

static void *unbind_and_nap(void *arg)
{
    CHECK_EQ(weft_fiber_migrate(arg, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_park(weft_after(1000000)), -ETIMEDOUT);
    return (void *)(intptr_t)weft_worker_self();
}

TEST(other_workers_run_unbound_fibers_between_polls)
{
    weft_pool *pool = host_pool(2);
    void *worker;
    for (int i = 0; i < 50; i++) {
        weft_fiber fiber = begin_on_host(pool, unbind_and_hold, pool);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        CHECK_EQ(weft_join(fiber, &worker, WEFT_FOREVER), 0); /* this thread does not poll */
        CHECK_EQ((intptr_t)worker, 1);
    }
    pool_close(pool);
}

TEST(other_workers_fire_timers_of_host_between_polls)
{
    weft_pool *pool = host_pool(2);
    void *worker;
    for (int i = 0; i < 20;) {
        weft_fiber fiber = begin_on_host(pool, unbind_and_nap, pool);
        if (weft_join(fiber, &worker, 0) == 0) {
            continue; /* a slow machine: the nap ended before the poll */
        }
        CHECK_EQ(weft_join(fiber, &worker, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)worker, 1);
        i++;
    }
    pool_close(pool);
}

TEST(host_worker_counts_as_parked_between_polls)
{
    weft_pool *pool = host_pool(1);
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(pool, &stats, 0), 0);
    CHECK_EQ(stats.state, WEFT_WORKER_ABSENT);
    CHECK_EQ(weft_pool_poll(pool), 0);
    CHECK_EQ(weft_worker_stats(pool, &stats, 0), 0);
    CHECK_EQ(stats.state, WEFT_WORKER_PARKED);
    pool_close(pool);
}

static void *nest(void *arg)
{
    atomic_int *ran = arg;
    CHECK_EQ(weft_spawn(NULL, yield_twice, ran, NULL), 0);
    return NULL;
}

TEST(run_and_poll_can_alternate)
{
    weft_pool *pool = host_pool(2);
    for (int i = 0; i < 100; i++) {
        atomic_int ran = 0;
        CHECK(weft_pool_poll(pool) >= 0);
        CHECK_EQ(weft_pool_run(pool, NULL, nest, &ran, WEFT_FOREVER), 0);
        CHECK(weft_pool_poll(pool) >= 0);
        await_count(&ran, 1); /* by the other worker, if not yet */
    }
    pool_close(pool);
}

/* --- stop ----------------------------------------------------------------------------- */

TEST(host_can_stop_pool_between_polls)
{
    for (int i = 0; i < 50; i++) {
        weft_pool *pool = host_pool(i % 2 + 1);
        atomic_int ran = 0;
        weft_fiber fiber = begin_on_host(pool, hold, &ran);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        CHECK_EQ(weft_fiber_detach(fiber), 0);
        pool_close(pool);
        CHECK_EQ(atomic_load(&ran), 1);
    }
}

struct stopping {
    weft_pool *pool;
    atomic_bool done;
};

static void *stop_elsewhere(void *arg)
{
    struct stopping *stopping = arg;
    CHECK_EQ(weft_pool_stop(stopping->pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    atomic_store(&stopping->done, true);
    return NULL;
}

TEST(stop_from_other_thread_completes_while_host_polls)
{
    long rounds = check_scale(300) + 10;
    for (long i = 0; i < rounds; i++) {
        struct stopping stopping = {.pool = host_pool(i % 2 + 1)};
        weft_pool *pool = stopping.pool;
        atomic_int ran = 0;
        CHECK_EQ(weft_pool_poll(pool), 0);
        for (int n = 0; n < 3; n++) {
            CHECK_EQ(weft_pool_spawn(pool, NULL, yield_twice, &ran, n ? &on_worker_0 : NULL), 0);
        }
        pthread_t stopper = thread_open(stop_elsewhere, &stopping);
        while (!atomic_load(&stopping.done)) {
            CHECK(weft_pool_poll(pool) >= 0);
        }
        thread_close(stopper);
        CHECK_EQ(atomic_load(&ran), 3);
        weft_pool_destroy(pool);
    }
}

TEST(stopped_pool_polls_nothing_until_restart)
{
    weft_pool *pool = host_pool(1);
    atomic_int ran = 0;
    for (int i = 1; i <= 20; i++) {
        CHECK_EQ(weft_pool_submit(pool, count_up, &ran), 0);
        CHECK_EQ(weft_pool_poll(pool), 1);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK_EQ(weft_pool_poll(pool), 0);
        CHECK_EQ(weft_pool_start(pool), 0);
        CHECK(!readable(pool));
    }
    pool_close(pool);
}
