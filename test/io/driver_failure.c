/* A driver that stops working: the program reports why, and ends; no worker spins. Also system
 * calls that old seccomp filters deny, for which Weft falls back to older calls. */
/* not under: qemu valgrind */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io/drivers.h"
#include "io/syscall_filter.h"

/* --- permanent failure ---------------------------------------------------------------------- */

static int ends[2];

/* From here on the driver is open. */
static void *opens_driver(void *arg)
{
    char byte;
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    return arg;
}

static void *loses_descriptors(void *arg)
{
    opens_driver(arg);
    CHECK_EQ(syscall(SYS_close_range, 3u, ~0u, 0u), 0);
    while (weft_sleep(weft_after(1000000)) == 0) { /* its worker has nothing else to do */
    }
    return NULL;
}

static void run_without_descriptors(void *arg)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = *(enum weft_driver *)arg};
    weft_run(NULL, loses_descriptors, NULL, &opts, WEFT_FOREVER);
}

static void check_broken(void (*fn)(void *), enum weft_driver driver, const char *what,
                         const char *why)
{
    char text[CHECK_ERR];
    int status = check_child(fn, &driver, text, sizeof text);
    if (denied_is_skipped(status)) {
        return;
    }
    if (!WIFSIGNALED(status) || !strstr(text, what) || !strstr(text, why)) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, what));
    CHECK(strstr(text, why));
}

EACH_DRIVER(closed_driver_fd_aborts_with_message)
{
    char name[64];
    snprintf(name, sizeof name, "the I/O driver %s has failed: ", drivers_names[driver]);
    check_broken(run_without_descriptors, driver, name, "the program has closed this descriptor");
}

/* Another thread finds the failure first: it cannot wake a worker that sleeps in its driver. */
static atomic_bool opened;

static void *lets_worker_sleep(void *arg)
{
    opens_driver(arg);
    atomic_store(&opened, true);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return NULL;
}

static void wake_without_descriptors(void *arg)
{
    const struct weft_pool_opts opts = {
        .workers = 1, .driver = *(enum weft_driver *)arg, .deadlock_off = true};
    weft_pool *pool;
    weft_fiber fiber;
    struct weft_pool_stats stats;
    enum weft_fiber_state state;
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, lets_worker_sleep, NULL, NULL), 0);
    do {
        weft_pool_stats(pool, &stats);
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (!atomic_load(&opened) || stats.idle != 1 || state != WEFT_FIBER_WAITING);
    CHECK_EQ(syscall(SYS_close_range, 3u, ~0u, 0u), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    weft_join(fiber, NULL, WEFT_FOREVER);
}

EACH_DRIVER(closed_wake_fd_aborts_with_message)
{
    check_broken(wake_without_descriptors, driver, "descriptor",
                 "the program has closed this descriptor");
}

static long later; /* the call that is denied while it runs */

static void *locks_itself_in(void *arg)
{
    opens_driver(arg);
    deny(later, EPERM);
    deny(SYS_epoll_pwait2, EPERM); /* the call that is tried before the other, where both exist */
    while (weft_sleep(weft_after(1000000)) == 0) {
    }
    return NULL;
}

static void run_locked_in(void *arg)
{
    const struct weft_pool_opts opts = {
        .workers = 1, .caller = true, .driver = *(enum weft_driver *)arg};
    weft_run(NULL, locks_itself_in, NULL, &opts, WEFT_FOREVER);
}

static void check_locked_in(enum weft_driver driver, long call, const char *name)
{
    char what[64];
    if (call >= 0 && drivers_have(driver)) {
        later = call;
        snprintf(what, sizeof what, "the I/O driver %s has failed: %s on", drivers_names[driver],
                 name);
        check_broken(run_locked_in, driver, what, "EPERM: a seccomp filter");
    }
}

/* The C library's epoll_wait calls epoll_pwait where the kernel has no epoll_wait. */
#ifdef SYS_epoll_wait
#define PLAIN_WAIT SYS_epoll_wait
#else
#define PLAIN_WAIT SYS_epoll_pwait
#endif

TEST(syscall_forbidden_after_start_aborts_with_message)
{
    check_locked_in(WEFT_DRIVER_URING, SYS_io_uring_enter, "io_uring_enter");
    check_locked_in(WEFT_DRIVER_EPOLL, PLAIN_WAIT, "epoll_wait");
    check_locked_in(WEFT_DRIVER_POLL, SYS_ppoll, "poll");
}

/* The thread that watches signals and children has an epoll of its own. */
static void close_epolls(void)
{
    for (int fd = 3; fd < 100; fd++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "eventpoll")) {
            syscall(SYS_close, fd); /* not close: TSan would rightly report a race */
        }
    }
}

static void watch_without_epoll(void *arg)
{
    const int signals[] = {SIGUSR1};
    weft_signal_set *set;
    (void)arg;
    CHECK_EQ(weft_signal_open(&set, signals, 1, NULL), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(weft_signal_wait(set, NULL, WEFT_FOREVER), 0);
    close_epolls(); /* it sleeps there, or is about to */
    for (;;) {
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        usleep(1000);
    }
}

TEST(closed_signal_watch_fd_aborts_with_message)
{
    check_broken(watch_without_epoll, WEFT_DRIVER_AUTO, "cannot watch signals and child processes",
                 "the program has closed this descriptor");
}

/* --- calls that old filters deny -------------------------------------------------------------- */

struct denial {
    enum weft_driver driver;
    long call;
    int err;
};

static void check_works(void (*fn)(void *), struct denial denial)
{
    char text[CHECK_ERR];
    int status = check_child(fn, &denial, text, sizeof text);
    if (denied_is_skipped(status)) {
        return;
    }
    if (status != 0) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK_EQ(status, 0);
}

/* Descriptors of every kind that were not opened by Weft; and paths of files. */
static void *uses_foreign(void *arg)
{
    char byte, path[] = "/tmp/weft-broken-XXXXXX";
    int pipes[2], sockets[2], file = mkstemp(path);
    struct statx st;
    CHECK(file >= 0);
    CHECK_EQ(pipe(pipes), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    CHECK_EQ(weft_write(file, "abc", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_pread(file, &byte, 1, 2, WEFT_FOREVER), 1);
    CHECK_EQ(byte, 'c');
    CHECK_EQ(weft_write(pipes[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(pipes[0], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(sockets[0], &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_write(sockets[1], "y", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(sockets[0], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_fstat(file, &st, WEFT_FOREVER), 0);
    CHECK(S_ISREG(st.stx_mode) && st.stx_size == 3 && (st.stx_mask & STATX_SIZE));
    CHECK_EQ(weft_stat_at(AT_FDCWD, &st, path, 0, STATX_BASIC_STATS, WEFT_FOREVER), 0);
    CHECK(st.stx_size == 3 && st.stx_nlink == 1 && st.stx_uid == geteuid());
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(weft_stat_at(AT_FDCWD, &st, path, 0, STATX_BASIC_STATS, WEFT_FOREVER), -ENOENT);
    CHECK_EQ(weft_read(1000, &byte, 1, WEFT_FOREVER), -EBADF);
    const int all[] = {file, pipes[0], pipes[1], sockets[0], sockets[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK_EQ(weft_close(all[i]), 0);
    }
    return arg;
}

static void run_denied(void *arg)
{
    const struct denial *denial = arg;
    const struct weft_pool_opts opts = {.workers = 1, .driver = denial->driver};
    deny(denial->call, denial->err);
    CHECK_EQ(weft_run(NULL, uses_foreign, NULL, &opts, WEFT_FOREVER), 0);
}

EACH_DRIVER(descriptors_and_files_work_without_statx)
{
    check_works(run_denied, (struct denial){driver, SYS_statx, EPERM});
    check_works(run_denied, (struct denial){driver, SYS_statx, ENOSYS});
}

EACH_DRIVER(deadlines_work_without_epoll_pwait2)
{
    check_works(run_denied, (struct denial){driver, SYS_epoll_pwait2, EPERM});
    check_works(run_denied, (struct denial){driver, SYS_epoll_pwait2, ENOSYS});
}
