/* A ring in a host's loop whose submissions the kernel refuses for a while: the ring asks the host
 * to poll again, although no descriptor becomes readable. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "io/drivers.h"

#if WEFT_URING
#include <liburing.h>

static int refusals; /* this many more submissions fail */

/* Replaces the C library's function. */
int io_uring_submit(struct io_uring *ring)
{
    int (*real)(struct io_uring *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit");
    return refusals > 0 ? (refusals--, -EAGAIN) : real(ring);
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
    int (*real)(struct io_uring *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_get_events");
    return refusals > 0 ? (refusals--, -EAGAIN) : real(ring);
}

static void refuse(int times)
{
    refusals = times;
}
#else
static void refuse(int times)
{
    (void)times;
}
#endif

enum { TIMES = 20 };

/* The host's work between two polls. */
static void host_waits(int fd, int64_t until)
{
    int64_t now = weft_now();
    int ms = until == WEFT_FOREVER ? 60000 : until <= now ? 0 : (int)((until - now) / 1000000 + 1);
    struct pollfd ask = {.fd = fd, .events = POLLIN};
    int n = poll(&ask, 1, ms);
    CHECK(n == 1 || until != WEFT_FOREVER); /* otherwise nothing has notified the host */
}

static bool ended;

static void ends(weft_op *op, int64_t result, void *arg)
{
    (void)op, (void)arg;
    CHECK_EQ(result, 1);
    ended = true;
}

EACH_DRIVER(loop_with_refused_submit_asks_host_to_poll_again)
{
    char byte;
    int fds[2];
    weft_loop *loop;
    weft_op op;
    ended = false;
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    weft_op_init(&op, loop, ends, NULL);
    CHECK_EQ(weft_op_read(&op, fds[0], &byte, 1, -1, 0), 0);
    CHECK_EQ(write(fds[1], "x", 1), 1);
    refuse(TIMES);
    weft_loop_turn(loop, 0);
    while (!ended) {
        host_waits(weft_loop_fd(loop), weft_loop_next_deadline(loop));
        weft_loop_turn(loop, 0);
    }
    refuse(0);
    CHECK_EQ(weft_loop_next_deadline(loop), WEFT_FOREVER);
    CHECK_EQ(weft_loop_close(loop, fds[0]), 0);
    CHECK_EQ(weft_loop_close(loop, fds[1]), 0);
    weft_loop_destroy(loop);
}

static void *reads(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER), 1);
    ended = true;
    return NULL;
}

EACH_DRIVER(pool_with_refused_submit_asks_host_to_poll_again)
{
    int fds[2];
    weft_pool *pool;
    const struct weft_pool_opts opts = {.workers = 1, .caller = true, .driver = driver};
    ended = false;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, reads, &fds[0]), 0);
    CHECK_EQ(write(fds[1], "x", 1), 1);
    refuse(TIMES);
    CHECK(weft_pool_poll(pool) >= 0);
    while (!ended) {
        host_waits(weft_pool_fd(pool), weft_pool_next_deadline(pool));
        CHECK(weft_pool_poll(pool) >= 0);
    }
    refuse(0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    CHECK_EQ(close(fds[0]), 0);
    CHECK_EQ(close(fds[1]), 0);
}
