/* Every way a wait for I/O can end: data, end of stream, deadline, cancel, interrupt, a close by
 * another fiber. */
/* labels: valgrind */
#include <limits.h>
#include <pthread.h>
#include <sys/socket.h>

#include "io/drivers.h"
#include "io/waiting.h"

#define SOON 20000000 /* ns: a deadline that is meant to pass */

static int ends[2];

static void pair(void)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void unpair(void)
{
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
}

static void on(enum weft_driver driver, unsigned workers, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

/* The result of a waiting read. */
static void *reads(void *arg)
{
    char byte;
    return (void *)(intptr_t)weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER);
}

/* Fills the buffers of a peer that does not read, then waits. */
static void *writes(void *arg)
{
    static char block[65536];
    int fd = *(int *)arg;
    ssize_t n;
    do {
        n = weft_write(fd, block, sizeof block, 0);
    } while (n > 0);
    CHECK_EQ(n, -ETIMEDOUT);
    return (void *)(intptr_t)weft_write(fd, block, sizeof block, WEFT_FOREVER);
}

static void *deadline_passes(void *arg)
{
    char byte;
    pair();
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(SOON)), -ETIMEDOUT);
    CHECK_EQ(weft_read(ends[0], &byte, 1, 0), -ETIMEDOUT);
    CHECK_EQ(weft_write(ends[1], "x", 1, 0), 1);
    CHECK_EQ(weft_read(ends[0], &byte, 1, 0), 1); /* after its deadline, but data is there */
    unpair();
    return arg;
}

EACH_DRIVER(read_times_out_at_deadline)
{
    on(driver, 1, deadline_passes);
}

static void *cancels(void *arg)
{
    pair();
    weft_fiber fiber = started(reads, &ends[0]);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(joined(fiber), -ECANCELED);
    fiber = started(writes, &ends[0]);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(joined(fiber), -ECANCELED);
    unpair();
    return arg;
}

EACH_DRIVER(cancel_ends_reads_and_writes)
{
    on(driver, 1, cancels);
    on(driver, 3, cancels);
}

static weft_event interrupted;

static void *interrupted_once(void *arg)
{
    char byte;
    int fd = *(int *)arg;
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), -EINTR);
    weft_event_set(&interrupted);
    return (void *)(intptr_t)weft_read(fd, &byte, 1, WEFT_FOREVER);
}

static void *interrupts(void *arg)
{
    pair();
    weft_fiber fiber = started(interrupted_once, &ends[0]);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(weft_event_wait(&interrupted, WEFT_FOREVER), 0);
    weft_event_reset(&interrupted);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(joined(fiber), 1);
    unpair();
    return arg;
}

EACH_DRIVER(interrupt_ends_one_read)
{
    on(driver, 1, interrupts);
    on(driver, 3, interrupts);
}

static void *closes(void *arg)
{
    pair();
    weft_fiber reader = started(reads, &ends[0]), writer = started(writes, &ends[0]),
               second = started(reads, &ends[0]);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(joined(reader), -EBADFD);
    CHECK_EQ(joined(second), -EBADFD);
    CHECK_EQ(joined(writer), -EBADFD);
    CHECK_EQ(weft_read(ends[0], NULL, 0, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_close(ends[0]), -EBADF);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(close_ends_all_waits_on_fd)
{
    on(driver, 1, closes);
    on(driver, 3, closes);
}

static void *close_from_thread(void *arg)
{
    CHECK_EQ(weft_close(ends[0]), 0);
    return arg;
}

static void *thread_closes(void *arg)
{
    pthread_t thread;
    pair();
    weft_fiber reader = started(reads, &ends[0]);
    CHECK_EQ(pthread_create(&thread, NULL, close_from_thread, NULL), 0);
    CHECK_EQ(joined(reader), -EBADFD);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(close_from_plain_thread_ends_waits)
{
    on(driver, 2, thread_closes);
}

static void *peer_ends(void *arg)
{
    char byte;
    pair();
    weft_fiber reader = started(reads, &ends[0]);
    CHECK_EQ(weft_shutdown(ends[1], SHUT_WR), 0); /* half-closed: the other direction still works */
    CHECK_EQ(joined(reader), 0);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[1], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_write(ends[0], "x", 1, WEFT_FOREVER), -EPIPE); /* and no SIGPIPE */
    CHECK_EQ(weft_close(ends[0]), 0);
    return arg;
}

EACH_DRIVER(peer_close_is_read_as_end_of_file)
{
    on(driver, 1, peer_ends);
}

/* Data and the end of stream together: the short read must not be taken for "no event will
 * come". */
static void *data_then_end(void *arg)
{
    char buf[64];
    struct weft_addr addr;
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    for (int i = 0; i < 100; i++) {
        ends[1] = weft_connect(&addr, WEFT_FOREVER);
        ends[0] = weft_accept(listener, NULL, WEFT_FOREVER);
        CHECK(ends[0] >= 0 && ends[1] >= 0);
        if (i % 2) { /* the driver watches it already */
            CHECK_EQ(weft_read(ends[0], buf, 1, weft_after(100000)), -ETIMEDOUT);
        }
        CHECK_EQ(weft_write(ends[1], "abc", 3, WEFT_FOREVER), 3);
        CHECK_EQ(weft_close(ends[1]), 0);
        CHECK_EQ(weft_read(ends[0], buf, sizeof buf, WEFT_FOREVER), 3);
        CHECK_EQ(weft_read(ends[0], buf, sizeof buf, weft_after(60000000000)), 0);
        CHECK_EQ(weft_close(ends[0]), 0);
    }
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(end_of_file_right_after_data_is_seen)
{
    on(driver, 1, data_then_end);
}

static void *computes(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), -EOPNOTSUPP);
    return arg;
}

TEST(io_wait_on_compute_pool_is_refused)
{
    pair();
    const struct weft_pool_opts opts = {.workers = 1, .compute = true};
    CHECK_EQ(weft_run(NULL, computes, NULL, &opts, WEFT_FOREVER), 0);
    unpair();
}

TEST(plain_thread_reads_and_writes)
{
    char byte;
    pair();
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(SOON)), -ETIMEDOUT);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_WRITABLE, WEFT_FOREVER), WEFT_WRITABLE);
    unpair();
}

TEST(bad_descriptors_are_ebadf)
{
    char byte;
    CHECK_EQ(weft_read(-1, &byte, 1, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_write(1000000, &byte, 1, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_read(INT_MAX, &byte, 1, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_recv(INT_MIN, &byte, 1, 0, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_fd_wait(INT_MAX, WEFT_READABLE, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_accept(INT_MAX, NULL, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_close(INT_MAX), -EBADF);
    CHECK_EQ(weft_fd_release(INT_MAX), -EBADF);
    CHECK_EQ(weft_close(-1), -EBADF);
    CHECK_EQ(weft_fd_release(1000), -EBADF);
    CHECK_EQ(weft_dial("nonsense", NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_listen("127.0.0.1", NULL), -EINVAL);
}
