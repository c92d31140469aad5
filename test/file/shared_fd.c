/* Blocking descriptors that are shared with other processes: Weft waits for them without a change
 * that the other processes would see. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sys/resource.h>

#include "io/drivers.h"
#include "io/waiting.h"

#define MS INT64_C(1000000)

static int ends[2]; /* input, output */

/* This many polls are interrupted by a signal. Replaces the C library's poll, whose only caller
 * here is Weft. */
static int interrupts;

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    const struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                                     .tv_nsec = timeout_ms % 1000 * 1000000L};
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    return ppoll(fds, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}

static void blocking_pipe(void)
{
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
}

static bool terminal(void)
{
    struct termios raw;
    if (openpty(&ends[1], &ends[0], NULL, NULL, NULL) != 0) {
        printf("  no terminals here\n");
        return false;
    }
    CHECK_EQ(tcgetattr(ends[0], &raw), 0);
    cfmakeraw(&raw);
    CHECK_EQ(tcsetattr(ends[0], TCSANOW, &raw), 0);
    return true;
}

static void blocks_still(void)
{
    CHECK_EQ(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
}

static void *reads(void *arg)
{
    char byte;
    return (void *)(intptr_t)weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER);
}

static void *fills(void *arg)
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

/* Every outcome of a wait, for any kind of descriptor. */
static void *all_ends(void *arg)
{
    char text[8];
    CHECK_EQ(weft_read(ends[0], text, sizeof text, 0), -ETIMEDOUT);
    CHECK_EQ(weft_read(ends[0], text, sizeof text, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK_EQ(weft_write(ends[1], "abc", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_read(ends[0], text, sizeof text, WEFT_FOREVER), 3);
    CHECK_EQ(memcmp(text, "abc", 3), 0);
    weft_fiber fiber = started(reads, &ends[0]);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(joined(fiber), 1);
    fiber = started(reads, &ends[0]);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(joined(fiber), -ECANCELED);
    blocks_still();
    if (!arg) {
        /* A full pipe that is then drained. */
        fiber = started(fills, &ends[1]);
        static char much[65536];
        CHECK(weft_read(ends[0], much, sizeof much, WEFT_FOREVER) > 0);
        CHECK(joined(fiber) > 0);
        while (weft_read(ends[0], much, sizeof much, 0) > 0) {
        }
    }
    fiber = started(reads, &ends[0]);
    int other = dup(ends[0]);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(joined(fiber), -EBADFD);
    CHECK_EQ(fcntl(other, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(close(other), 0);
    if (!arg) {
        CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), -EPIPE); /* and no SIGPIPE */
    }
    CHECK_EQ(weft_close(ends[1]), 0);
    return NULL;
}

static int count_fds(void)
{
    int n = 0;
    for (int i = 0; i < 256; i++) {
        n += fcntl(i, F_GETFD) >= 0;
    }
    return n;
}

EACH_DRIVER(blocking_pipe_is_waited_on_without_changing_mode)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    int before = count_fds();
    blocking_pipe();
    CHECK_EQ(weft_run(NULL, all_ends, NULL, &opts, WEFT_FOREVER), 0);
    CHECK_EQ(count_fds(), before);
}

EACH_DRIVER(blocking_terminal_is_waited_on_without_changing_mode)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    int before = count_fds();
    if (terminal()) {
        CHECK_EQ(weft_run(NULL, all_ends, ends, &opts, WEFT_FOREVER), 0);
    }
    CHECK_EQ(count_fds(), before);
}

/* Without a spare descriptor the file cannot be reopened: then Weft polls it first, and reads a
 * little at a time. */
static void *few(void *arg)
{
    struct rlimit limit, none;
    char text[1000], back[1000];
    size_t have = 0;
    (void)arg;
    memset(text, 'x', sizeof text);
    CHECK_EQ(weft_fd_wait(ends[1], WEFT_WRITABLE, WEFT_FOREVER),
             WEFT_WRITABLE); /* opens the driver */
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    weft_fiber fiber = started(reads, &ends[0]);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(joined(fiber), 1);
    CHECK_EQ(weft_write_all(ends[1], text, sizeof text, NULL, WEFT_FOREVER), 0);
    while (have < sizeof back) {
        ssize_t n = weft_read(ends[0], back + have, sizeof back - have, WEFT_FOREVER);
        CHECK(n > 0);
        have += (size_t)n;
    }
    CHECK_EQ(memcmp(text, back, sizeof back), 0);
    CHECK_EQ(weft_read(ends[0], back, 1, weft_after(MS)), -ETIMEDOUT);
    interrupts = 1; /* then it is unknown whether the read would block */
    CHECK_EQ(weft_read(ends[0], back, 1, 0), -ETIMEDOUT);
    CHECK_EQ(interrupts, 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    blocks_still();
    CHECK_EQ(weft_close(ends[0]) | weft_close(ends[1]), 0);
    return NULL;
}

TEST(terminal_that_cannot_be_reopened_is_polled_before_io)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = WEFT_DRIVER_EPOLL};
    if (terminal()) {
        int byte = 0;
        CHECK_EQ(weft_write(ends[1], &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1); /* it was reopened; release it */
        CHECK_EQ(weft_fd_release(ends[0]) | weft_fd_release(ends[1]), 0);
        CHECK_EQ(weft_run(NULL, few, NULL, &opts, WEFT_FOREVER), 0);
    }
}

TEST(plain_thread_honours_deadline_on_blocking_fd)
{
    char byte;
    blocking_pipe();
    CHECK_EQ(weft_read(ends[0], &byte, 1, 0), -ETIMEDOUT);
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    blocks_still();
    CHECK_EQ(weft_close(ends[0]) | weft_close(ends[1]), 0);
}

/* --- sendfile and splice ---------------------------------------------------------------------- */

#define FILE_BYTES 200000

static void *drains(void *arg)
{
    static char block[4096];
    size_t have = 0;
    ssize_t n;
    while (have < FILE_BYTES && (n = weft_read(ends[0], block, sizeof block, WEFT_FOREVER)) > 0) {
        have += (size_t)n;
    }
    CHECK_EQ(have, FILE_BYTES);
    return arg;
}

/* More than a pipe holds. */
static void *sends_files(void *arg)
{
    char byte, name[] = "/tmp/weft-shared-XXXXXX";
    weft_fiber fiber;
    int file = mkstemp(name);
    CHECK(file >= 0);
    CHECK_EQ(unlink(name), 0);
    CHECK_EQ(ftruncate(file, FILE_BYTES), 0);
    blocking_pipe();
    CHECK_EQ(weft_spawn(&fiber, drains, NULL, NULL), 0);
    CHECK_EQ(weft_sendfile_all(ends[1], file, 0, FILE_BYTES, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_sendfile(ends[1], file, FILE_BYTES, 1, WEFT_FOREVER), 0); /* end of file */
    while (weft_sendfile(ends[1], file, 0, FILE_BYTES, 0) > 0) {
    }
    CHECK_EQ(weft_sendfile(ends[1], file, 0, 1, weft_after(MS)), -ETIMEDOUT);
    blocks_still();
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_sendfile(ends[1], file, 0, 1, WEFT_FOREVER), -EPIPE); /* and no SIGPIPE */
    CHECK_EQ(weft_close(ends[1]), 0);
    int in, out;
    CHECK_EQ(weft_pipe(&in, &out), 0);
    if (terminal()) {
        CHECK_EQ(weft_sendfile(ends[0], file, 0, 1, WEFT_FOREVER), -EINVAL);
        CHECK_EQ(weft_splice(ends[0], NULL, out, NULL, 1, false, 0), -EINVAL);
        CHECK_EQ(weft_splice(in, NULL, ends[0], NULL, 1, false, 0), -EINVAL);
        blocks_still();
        CHECK_EQ(weft_close(ends[0]) | weft_close(ends[1]), 0);
    }
    CHECK_EQ(weft_read(in, &byte, 1, 0), -ETIMEDOUT);
    CHECK_EQ(weft_close(in) | weft_close(out) | weft_close(file), 0);
    return arg;
}

EACH_DRIVER(sendfile_does_not_change_mode_of_shared_fd)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, sends_files, NULL, &opts, WEFT_FOREVER), 0);
}

/* --- private pipes --------------------------------------------------------------------------- */

static void *own_pipe(void *arg)
{
    int in, out;
    char text[8];
    CHECK_EQ(weft_pipe(&in, &out), 0);
    CHECK_EQ(fcntl(in, F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(out, F_GETFL) & O_NONBLOCK);
    CHECK_EQ(weft_read(in, text, sizeof text, 0), -ETIMEDOUT);
    weft_fiber fiber = started(reads, &in);
    CHECK_EQ(weft_write(out, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(joined(fiber), 1);
    fiber = started(reads, &in);
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(joined(fiber), 0);
    CHECK_EQ(weft_close(in), 0);
    return arg;
}

EACH_DRIVER(weft_pipe_is_nonblocking_and_waited_on)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, own_pipe, NULL, &opts, WEFT_FOREVER), 0);
}
