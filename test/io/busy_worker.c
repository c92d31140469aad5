/* A worker does not sleep if the next message is already there when it has handled the last one. A
 * worker without input sleeps at once. The duration of a wait tells whether it was a sleep. */
/* not under: asan tsan valgrind qemu */
#include <poll.h>
#include <sys/socket.h>

#include "io/drivers.h"

enum { ROUNDS = 2000, ATTEMPTS = 20 };
#define SLOW_NS 4000 /* a longer system call cannot be told from a sleep */

static void *answer(void *arg)
{
    int fd = *(int *)arg;
    char byte;
    while (weft_read(fd, &byte, 1, WEFT_FOREVER) == 1) {
        CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
    }
    return NULL;
}

static void ask(int fd)
{
    char byte = 'x';
    CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1);
}

static struct weft_worker_stats here(void)
{
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(weft_pool_self(), &stats, 0), 0);
    return stats;
}

static bool is_slow(int fd)
{
    int64_t from = weft_now();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1), 1);
    }
    return (weft_now() - from) / ROUNDS > SLOW_NS;
}

/* A busy machine takes the CPU away, and has wake-ups of its own, but not in every attempt. */
static bool stays_awake_and_sleeps(int fd)
{
    struct weft_worker_stats before = here();
    for (int i = 0; i < ROUNDS; i++) {
        ask(fd);
    }
    struct weft_worker_stats busy = here();
    CHECK(busy.io_polls - before.io_polls >= ROUNDS);
    bool awake = busy.parks - before.parks < ROUNDS / 4;
    CHECK_EQ(weft_sleep(weft_after(20000000)), 0);
    return awake && here().io_polls - busy.io_polls < 10;
}

static void *play(void *arg)
{
    int fds[2];
    weft_fiber other;
    bool right = false;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(weft_spawn(&other, answer, &fds[1], NULL), 0);
    ask(fds[0]);
    for (int i = 0; i < ATTEMPTS && !right; i++) {
        right = stays_awake_and_sleeps(fds[0]) || is_slow(fds[0]);
    }
    CHECK(right);
    CHECK_EQ(weft_close(fds[0]), 0);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(fds[1]), 0);
    return arg;
}

EACH_DRIVER(busy_worker_polls_without_sleeping)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, play, NULL, &opts, WEFT_FOREVER), 0);
}
