/* A slow close: SO_LINGER waits for a peer that does not read. The kernel frees the descriptor
 * number before the close returns; a new descriptor with that number must not be delayed by the
 * close. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/drivers.h"

#define LINGER_S 60
#define PATIENCE_S                                                                                 \
    40 /* less than that: a signal may end the close earlier, and stopping the process is a
        * signal */

static int victim, peer;
static atomic_bool closed;

static void connect_both(void)
{
    struct weft_addr at;
    char address[WEFT_ADDR_STRLEN];
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &at), 0);
    weft_addr_format(&at, address, sizeof address);
    peer = weft_dial(address, NULL, WEFT_FOREVER);
    CHECK(peer >= 0);
    victim = weft_accept(listener, NULL, WEFT_FOREVER);
    CHECK(victim >= 0);
    CHECK_EQ(weft_close(listener), 0);
}

/* Writes more than the peer buffers without reading. */
static void fill(void)
{
    static char block[1 << 16];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    while (weft_write(victim, block, sizeof block, 0) > 0) {
    }
    CHECK_EQ(setsockopt(victim, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
}

static void *close_it(void *arg)
{
    CHECK_EQ(weft_close(victim), 0);
    atomic_store(&closed, true);
    return arg;
}

/* Opens a socket pair, as soon as one of the two gets the number. It becomes the first. */
static void take_number(int (*make)(int out[2]), int ends[2])
{
    double from = check_seconds();
    for (;;) {
        CHECK_EQ(make(ends), 0);
        CHECK(check_seconds() - from < PATIENCE_S);
        if (ends[0] == victim) {
            return;
        }
        if (ends[1] == victim) {
            ends[1] = ends[0];
            ends[0] = victim;
            return;
        }
        CHECK_EQ(weft_close(ends[0]) | weft_close(ends[1]), 0);
        weft_yield();
    }
}

static int ours(int out[2])
{
    return weft_socketpair(SOCK_STREAM, out);
}

static void *answer(void *arg)
{
    char byte;
    int fd = *(int *)arg;
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
    return NULL;
}

/* The pair works, with waits on both sides. */
static void talk(int ends[2])
{
    weft_fiber other;
    char byte = 'x';
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&other, answer, &ends[1], NULL), 0);
    CHECK_EQ(weft_write(ends[0], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
}

static void begin(weft_fiber *closer)
{
    connect_both();
    fill();
    atomic_store(&closed, false);
    CHECK_EQ(
        weft_spawn(closer, close_it, NULL, &(struct weft_fiber_opts){.worker = 1, .bound = true}),
        0);
}

static void *number_comes_to_us(void *arg)
{
    int ends[2];
    weft_fiber closer;
    begin(&closer);
    take_number(ours, ends);
    talk(ends);
    CHECK_EQ(weft_close(peer), 0); /* a reset, which ends the linger */
    CHECK_EQ(weft_join(closer, NULL, WEFT_FOREVER), 0);
    talk(ends); /* the end of that close did not affect this descriptor */
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

/* And it is closed before the first close returns. */
static void *number_comes_and_goes(void *arg)
{
    int ends[2];
    weft_fiber closer;
    begin(&closer);
    for (int i = 0; i < 3; i++) {
        take_number(ours, ends);
        talk(ends);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_close(ends[1]), 0);
    }
    CHECK_EQ(weft_close(peer), 0);
    CHECK_EQ(weft_join(closer, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_write(victim, "x", 1, WEFT_FOREVER), -EBADF);
    return arg;
}

static int others(int out[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out);
}

/* The child closes nothing. */
static void write_in_a_child(int fd)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        _exit(weft_write(fd, "y", 1, WEFT_FOREVER) == 1 ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

static void *write_on_a_thread(void *arg)
{
    int *ends = arg;
    write_in_a_child(ends[0]);
    atomic_store(&closed, true); /* from here on it may end */
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    return NULL;
}

/* The number is reused without Weft: until the close returns, Weft cannot tell whether the number
 * still names the closing socket; afterwards it can. */
static void *number_comes_to_others(void *arg)
{
    int ends[2];
    char bytes[2];
    pthread_t thread;
    weft_fiber closer;
    begin(&closer);
    take_number(others, ends);
    CHECK_EQ(pthread_create(&thread, NULL, write_on_a_thread, ends), 0);
    while (!atomic_load(&closed)) {
        weft_yield();
    }
    CHECK_EQ(weft_close(peer), 0);
    CHECK_EQ(weft_join(closer, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_read_full(ends[1], bytes, 2, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(memcmp(bytes, "yx", 2), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    talk(ends);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

static void on(enum weft_driver driver, void *(*fn)(void *))
{
    /* The kernel blocks the closing fiber's worker; the other workers keep running. */
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver, .hog_ns = -1};
    weft_pool *pool;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, fn, NULL,
                             &(struct weft_fiber_opts){.worker = 0, .bound = true}),
             0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

EACH_DRIVER(fd_reused_during_lingering_close_does_not_wait)
{
    on(driver, number_comes_to_us);
}

EACH_DRIVER(fd_reused_during_lingering_close_can_be_closed)
{
    on(driver, number_comes_and_goes);
}

EACH_DRIVER(foreign_fd_reused_during_lingering_close_is_recognised)
{
    on(driver, number_comes_to_others);
}
