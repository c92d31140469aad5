/* Where io_uring is not available, `auto` selects epoll, and the dump says why. A seccomp filter
 * simulates such a machine. */
/* not under: qemu valgrind */
#include <errno.h>
#include <sys/socket.h>

#include "io/drivers.h"
#include "io/syscall_filter.h"

static long denied; /* the system call that fails */

static void forbid(int err)
{
    deny(denied, err);
}

static void *uses(void *arg)
{
    char byte;
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    weft_pool_dump(weft_pool_self(), stderr, 0);
    return arg;
}

static void falls_back(void *arg)
{
    weft_pool *pool;
    weft_loop *loop;
    int err = *(int *)arg;
    unsetenv("WEFT_DRIVER");
    forbid(err);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.driver = WEFT_DRIVER_URING}),
             -EOPNOTSUPP);
    CHECK(!weft_driver_unavailable(WEFT_DRIVER_AUTO));
    CHECK(!weft_driver_unavailable(WEFT_DRIVER_EPOLL));
    CHECK(weft_driver_unavailable(WEFT_DRIVER_URING));
    fprintf(stderr, "%s\n", weft_driver_unavailable(WEFT_DRIVER_URING));
    CHECK_EQ(setenv("WEFT_DRIVER", "uring", 1), 0);
    CHECK(weft_driver_unavailable(WEFT_DRIVER_AUTO));
    unsetenv("WEFT_DRIVER");
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = WEFT_DRIVER_URING}),
             -EOPNOTSUPP);
    CHECK_EQ(weft_loop_create(&loop, NULL), 0);
    CHECK_STR(weft_loop_driver(loop), "epoll");
    weft_loop_destroy(loop);
    CHECK_EQ(weft_run(NULL, uses, NULL, NULL, WEFT_FOREVER), 0);
}

static void check_reason(void (*fn)(void *), int err, const char *reason)
{
    static char text[65536];
    int status = check_child(fn, &err, text, sizeof text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIPPED) {
        printf("  system calls cannot be filtered here\n");
        return;
    }
    if (status != 0) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK_EQ(status, 0);
    CHECK(strstr(text, "epoll"));
    CHECK(strstr(text, reason));
}

/* In a child, like every test here: a process probes only once. */
static void has_ring(void *arg)
{
    (void)arg;
    if (!drivers_have(WEFT_DRIVER_URING)) {
        _exit(CHECK_SKIPPED);
    }
}

static void need_ring(void)
{
    char text[256];
    if (check_child(has_ring, NULL, text, sizeof text) != 0) {
        check_skip("there is no io_uring to do without");
    }
}

TEST(auto_driver_falls_back_to_epoll_without_io_uring)
{
    need_ring();
    denied = SYS_io_uring_setup;
    check_reason(falls_back, EPERM, "io_uring is not permitted (EPERM)");
    check_reason(falls_back, EACCES, "io_uring is not permitted (EPERM)");
    check_reason(falls_back, ENOSYS, "the kernel has no io_uring (ENOSYS)");
    check_reason(falls_back, ENOMEM, "not enough memory for io_uring (ENOMEM)");
    check_reason(falls_back, EINVAL, "the kernel's io_uring is too old");
    check_reason(falls_back, EMFILE, "io_uring could not be set up");
}

/* A ring can be created, but not used. */
TEST(auto_driver_falls_back_when_ring_cannot_be_entered)
{
    need_ring();
    denied = SYS_io_uring_enter;
    check_reason(falls_back, EPERM, "io_uring_enter is not permitted (EPERM)");
    check_reason(falls_back, EACCES, "io_uring_enter is not permitted (EPERM)");
    check_reason(falls_back, ENOSYS, "io_uring_enter is not available (ENOSYS)");
}

/* --- denied after the start ------------------------------------------------------------------- */

/* A server that installs a filter after its start: existing rings keep working, new drivers are
 * epoll. */
static int across[2];

static void *reads_across(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(across[0], &byte, 1, WEFT_FOREVER), 1);
    return arg;
}

static void *locks_itself_in(void *arg)
{
    int err = *(int *)arg;
    weft_fiber fiber;
    weft_loop *loop;
    weft_pool *second;
    CHECK_EQ(weft_socketpair(SOCK_STREAM, across), 0);
    CHECK_EQ(weft_spawn(&fiber, reads_across, NULL, NULL), 0);
    weft_yield();
    struct weft_pool_stats stats;
    weft_pool_stats(weft_pool_self(), &stats);
    CHECK_STR(stats.driver, "uring");
    forbid(err); /* before there is another thread, which the filter would not bind */
    CHECK_EQ(weft_loop_create(&loop, NULL), 0);
    CHECK_STR(weft_loop_driver(loop), "epoll");
    weft_loop_destroy(loop);
    CHECK_EQ(weft_pool_create(&second, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(second), 0);
    weft_fiber other;
    CHECK_EQ(weft_pool_spawn(second, &other, uses, NULL, NULL), 0);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_write(across[1], "x", 1, WEFT_FOREVER), 1); /* the fiber that waits in the ring */
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(second, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(second);
    return arg;
}

static void locks_in(void *arg)
{
    const struct weft_pool_opts opts = {.workers = 1};
    unsetenv("WEFT_DRIVER");
    CHECK_EQ(weft_run(NULL, locks_itself_in, arg, &opts, WEFT_FOREVER), 0);
}

TEST(auto_driver_falls_back_when_io_uring_is_forbidden_later)
{
    need_ring();
    denied = SYS_io_uring_setup;
    check_reason(locks_in, EPERM, "io_uring was forbidden after it was probed");
    check_reason(locks_in, ENOSYS, "io_uring was forbidden after it was probed");
}
