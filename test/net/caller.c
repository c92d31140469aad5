/* I/O of a pool whose worker 0 is a thread that enters and leaves, or that runs a host's loop. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define READERS 16

static int ends[READERS][2];

static void open_ends(void)
{
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
    }
}

/* Echoes until the end of stream. */
static void *echoes(void *arg)
{
    char byte;
    ssize_t n;
    int fd = ends[(intptr_t)arg][0];
    while ((n = weft_read(fd, &byte, 1, WEFT_FOREVER)) == 1) {
        CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
    }
    CHECK_EQ(n, 0);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void ask(int i, char byte)
{
    CHECK_EQ(write(ends[i][1], &byte, 1), 1);
}

static void hear(int i, char byte)
{
    char back;
    struct timeval patience = {.tv_sec = 120};
    CHECK_EQ(setsockopt(ends[i][1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    ssize_t n;
    do { /* work that the kernel does for a ring interrupts a call with a timeout, on the ring's
            thread */
        n = read(ends[i][1], &back, 1);
    } while (n < 0 && errno == EINTR);
    CHECK_EQ(n, 1);
    CHECK_EQ(back, byte);
}

static void *nothing(void *arg)
{
    return arg;
}

/* --- in a host's loop ---------------------------------------------------------------------- */

static weft_pool *pool;
static _Atomic(int) heard;

static void *from_outside(void *arg)
{
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < READERS; i++) {
            ask(i, 'x');
            hear(i, 'x');
        }
    }
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(close(ends[i][1]), 0);
    }
    atomic_store(&heard, 1);
    CHECK_EQ(weft_pool_submit(pool, nothing, NULL), 0);
    return arg;
}

static void host(enum weft_driver driver, unsigned workers)
{
    pthread_t thread;
    const struct weft_pool_opts opts = {.workers = workers, .caller = true, .driver = driver};
    open_ends();
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (intptr_t i = 0; i < READERS; i++) {
        CHECK_EQ(weft_pool_submit(pool, echoes, (void *)i), 0);
    }
    atomic_store(&heard, 0);
    CHECK(weft_pool_poll(pool) >= 0);
    CHECK_EQ(pthread_create(&thread, NULL, from_outside, NULL), 0);
    while (!atomic_load(&heard)) {
        struct pollfd ask_host = {.fd = weft_pool_fd(pool), .events = POLLIN};
        int told = poll(&ask_host, 1, 120000); /* the host has no timers: something must wake it */
        CHECK(told == 1 || (told < 0 && errno == EINTR));
        CHECK(weft_pool_poll(pool) >= 0);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

EACH_DRIVER(host_loop_sees_io_events_of_pool)
{
    host(driver, 1);
}

/* --- a caller thread that leaves -------------------------------------------------------------- */

static _Atomic(int) waiting;

static void *starts_readers(void *arg)
{
    char byte;
    (void)arg;
    for (intptr_t i = 0; i < READERS; i++) {
        /* The first waiter decides which driver watches the descriptor: this thread's. */
        CHECK_EQ(weft_read(ends[i][0], &byte, 1, weft_after(1000)), -ETIMEDOUT);
        CHECK_EQ(weft_spawn(NULL, echoes, (void *)i, NULL), 0);
        weft_yield();
    }
    for (int i = 0; i < READERS; i++) { /* by now each fiber is in its read, or about to be */
        CHECK_EQ(weft_write(ends[i][1], "a", 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(ends[i][1], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_fd_release(ends[i][1]), 0);
    }
    return NULL;
}

static void leave(enum weft_driver driver)
{
    const struct weft_pool_opts opts = {.workers = 2, .caller = true, .driver = driver};
    open_ends();
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, starts_readers, NULL, WEFT_FOREVER), 0);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < READERS; i++) { /* this thread is no worker now */
            ask(i, (char)('b' + round));
        }
        for (int i = 0; i < READERS; i++) {
            hear(i, (char)('b' + round));
        }
        CHECK_EQ(weft_pool_run(pool, NULL, nothing, NULL, WEFT_FOREVER),
                 0); /* enters again, and leaves */
    }
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(close(ends[i][1]), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

EACH_DRIVER(other_workers_serve_io_of_absent_caller)
{
    leave(driver);
}

/* A pending connect continues on another driver when its driver's thread leaves. */
static int full, connected;

static void *connects(void *arg)
{
    struct weft_addr *addr = arg;
    connected = weft_connect(addr, weft_after(60000000000));
    atomic_store(&waiting, 0);
    return NULL;
}

static void *starts_connect(void *arg)
{
    atomic_store(&waiting, 1);
    CHECK_EQ(weft_spawn(NULL, connects, arg, NULL), 0);
    for (int i = 0; i < 10; i++) {
        weft_yield();
    }
    return NULL;
}

/* A listener whose backlog is full does not answer until a connection is accepted. */
static void fill(const struct weft_addr *addr, int *clients, int n)
{
    for (int i = 0; i < n; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK(clients[i] >= 0);
        struct weft_addr to = *addr;
        CHECK(connect(clients[i], (struct sockaddr *)&to.storage, to.len) == 0 ||
              errno == EINPROGRESS);
    }
}

EACH_DRIVER(connect_started_by_caller_completes_on_other_worker)
{
    struct weft_addr addr;
    int clients[4];
    const struct weft_pool_opts opts = {.workers = 2, .caller = true, .driver = driver};
    full = weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.backlog = 1});
    CHECK(full >= 0);
    CHECK_EQ(weft_addr_local(full, &addr), 0);
    fill(&addr, clients, 4);
    connected = -1;
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_run(pool, NULL, starts_connect, &addr, WEFT_FOREVER), 0);
    while (atomic_load(&waiting)) { /* frees a backlog entry */
        struct pollfd ready = {.fd = full, .events = POLLIN};
        int fd = poll(&ready, 1, 10) == 1 ? accept(full, NULL, NULL) : -1;
        if (fd >= 0) {
            close(fd);
        }
    }
    CHECK(connected >= 0);
    CHECK_EQ(weft_close(connected), 0);
    for (int i = 0; i < 4; i++) {
        close(clients[i]);
    }
    CHECK_EQ(weft_close(full), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

/* --- a blocked worker ------------------------------------------------------------------------- */

static _Atomic(int) hogging, released;

static void *hogs(void *arg)
{
    atomic_fetch_add(&hogging, 1);
    while (!atomic_load(&released)) {
    }
    return arg;
}

/* On the worker that will be blocked: its driver watches the descriptor. */
static void *prepares(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(ends[0][0], &byte, 1, weft_after(1000)), -ETIMEDOUT);
    return arg;
}

static void spawn_on(weft_fn fn, int worker, weft_fiber *out)
{
    const struct weft_fiber_opts opts = {.bound = true, .worker = worker};
    CHECK_EQ(weft_pool_spawn(pool, out, fn, NULL, &opts), 0);
}

static void held_up(enum weft_driver driver)
{
    weft_fiber fiber, reader;
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    open_ends();
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    spawn_on(prepares, 0, &fiber);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    atomic_store(&hogging, 0);
    atomic_store(&released, 0);
    spawn_on(hogs, 0, &fiber);
    while (!atomic_load(&hogging)) {
    }
    spawn_on(echoes, 1, &reader); /* has started, and waits for an event that worker 0 would see */
    ask(0, 'h');
    hear(0, 'h');
    ask(0, 'i');
    hear(0, 'i');
    atomic_store(&released, 1);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(close(ends[i][1]), 0);
    }
    CHECK_EQ(weft_join(reader, NULL, WEFT_FOREVER), 0);
    for (int i = 1; i < READERS; i++) {
        CHECK_EQ(close(ends[i][0]), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

EACH_DRIVER(other_workers_serve_io_of_hogged_worker)
{
    held_up(driver);
}
