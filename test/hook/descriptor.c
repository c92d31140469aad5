/* dup, dup2, dup3, fcntl, close: the state that the hooks keep for a descriptor follows it. */
/* alike without hooks */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hook/hooked.h"

static void send_byte(void *arg)
{
    CHECK_EQ(write(*(int *)arg, "x", 1), 1);
}

static void receive_later(int fd, int *from)
{
    char c;
    struct hooked_peer peer;
    hooked_peer_start(&peer, send_byte, from);
    CHECK_EQ(read(fd, &c, 1), 1);
    hooked_peer_join(&peer);
}

static void pair(int ends[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

IN_FIBER(hooked_dup_shares_fd_state)
{
    int ends[2], pipes[2];
    pair(ends);
    CHECK_EQ(pipe(pipes), 0);
    int copy = dup(ends[0]), spare = dup(pipes[0]);
    receive_later(copy, &ends[1]);
    receive_later(spare, &pipes[1]);
    CHECK_EQ(dup2(ends[0], spare), spare); /* a pipe's number becomes a socket's */
    receive_later(spare, &ends[1]);
    CHECK_EQ(dup3(pipes[0], copy, O_CLOEXEC), copy);
    receive_later(copy, &pipes[1]);
    CHECK_EQ(dup2(copy, copy), copy);
    receive_later(copy, &pipes[1]);
    CHECK_FAILS(dup3(copy, copy, 0), EINVAL);
    int high = fcntl(ends[0], F_DUPFD, 200);
    CHECK(high >= 200);
    receive_later(high, &ends[1]);
    int closed = dup(0);
    close(closed);
    CHECK_FAILS(dup2(closed, high), EBADF);
    receive_later(high, &ends[1]); /* it is still there */
    CHECK_FAILS(dup(closed), EBADF);
    int all[] = {ends[0], ends[1], pipes[0], pipes[1], copy, spare, high};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK_EQ(close(all[i]), 0);
    }
}

/* A number that was closed without the hooks, as fclose does, and then reused. The kernel reuses
 * it at once, unless another thread opens a file in between. */
static void pair_with(int ends[2], int number)
{
    for (int tries = 0;; tries++) {
        CHECK_EQ(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends), 0);
        if (ends[0] == number || ends[1] == number) {
            return;
        }
        syscall(SYS_close, ends[0]);
        syscall(SYS_close, ends[1]);
        CHECK(tries < 10000);
        sched_yield();
    }
}

IN_FIBER(fd_reused_after_unhooked_close_is_reclassified)
{
    int ends[2], pipes[2];
    char buf[8];
    pair(ends);
    receive_later(ends[0], &ends[1]); /* the driver knows the number */
    int number = ends[0];
    CHECK_EQ(syscall(SYS_close, number), 0);
    close(ends[1]);
    int file = open("/proc/self/comm", O_RDONLY);
    if (file != number) {
        CHECK_EQ(syscall(SYS_dup3, file, number, 0), number);
        syscall(SYS_close, file);
    }
    CHECK(read(number, buf, sizeof buf) > 0);
    CHECK_EQ(syscall(SYS_close, number), 0);
    CHECK_EQ(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends), 0);
    if (ends[0] != number) {
        CHECK_EQ(syscall(SYS_dup3, ends[0], number, 0), number);
        syscall(SYS_close, ends[0]);
    }
    CHECK_EQ(write(number, "abc", 3), 3);
    receive_later(number, &ends[1]);
    for (int i = 0; i < 100; i++) {
        int other[2];
        CHECK_EQ(syscall(SYS_close, number), 0);
        syscall(SYS_close, ends[1]);
        pair_with(other, number);
        ends[1] = other[0] == number ? other[1] : other[0];
        if (i % 25 == 0) {
            receive_later(number, &ends[1]);
        }
    }
    close(number);
    close(ends[1]);
    FILE *stream;
    CHECK_EQ(pipe(pipes), 0);
    receive_later(pipes[0], &pipes[1]);
    CHECK((stream = fdopen(pipes[0], "r")) != NULL);
    CHECK_EQ(fclose(stream), 0);
    close(pipes[1]);
    CHECK_EQ(pipe(pipes), 0);
    receive_later(pipes[0], &pipes[1]);
    close(pipes[0]);
    close(pipes[1]);
}

static void *types(void *arg)
{
    CHECK_EQ(write(*(int *)arg, "x\n", 2), 2);
    return NULL;
}

/* A file's number that now names a terminal: other fibers run during the wait. */
IN_FIBER(terminal_with_reused_file_fd_does_not_block_worker)
{
    char buf[8];
    weft_fiber fiber;
    int master = posix_openpt(O_RDWR | O_NOCTTY), number = open("/proc/self/comm", O_RDONLY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    CHECK(read(number, buf, sizeof buf) > 0);
    CHECK_EQ(syscall(SYS_close, number), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave != number) {
        CHECK_EQ(syscall(SYS_dup3, slave, number, 0), number);
        syscall(SYS_close, slave);
    }
    if (weft_hook_is_active()) {
        CHECK_EQ(weft_spawn(&fiber, types, &master, NULL), 0);
    } else {
        types(&master);
    }
    CHECK_EQ(read(number, buf, sizeof buf), 2);
    if (weft_hook_is_active()) {
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    CHECK_FAILS(pread(number, buf, 1, 0), ESPIPE);
    close(number);
    close(master);
}

static void *reads(void *arg)
{
    char c;
    CHECK_FAILS(read(*(int *)arg, &c, 1), EBADF);
    return NULL;
}

/* Where a plain thread would wait on, a fiber gets an error. */
IN_FIBER(hooked_close_ends_waits)
{
    int ends[2];
    weft_fiber fiber;
    if (!weft_hook_is_active()) {
        return;
    }
    for (int by_copy = 0; by_copy < 2; by_copy++) {
        pair(ends);
        CHECK_EQ(weft_spawn(&fiber, reads, &ends[0], NULL), 0);
        weft_yield();
        CHECK_EQ(by_copy ? dup2(ends[1], ends[0]) >= 0 : close(ends[0]) == 0, 1);
        CHECK_EQ(weft_join(fiber, NULL, weft_after(INT64_C(60000000000))), 0);
        if (by_copy) {
            close(ends[0]);
        }
        close(ends[1]);
    }
}

/* Between vfork and exec a child shares the parent's memory, but has its own descriptors. */
__attribute__((noinline)) static pid_t vfork_and_close(int fd, int end)
{
    pid_t pid = vfork();
    if (pid == 0) {
        close(fd);
        dup2(end, fd);
        _exit(0);
    }
    return pid;
}

IN_FIBER(close_in_vfork_child_leaves_parent_state)
{
    int ends[2], status;
    pair(ends);
    receive_later(ends[0], &ends[1]);
    pid_t pid = vfork_and_close(ends[0], ends[1]);
    CHECK(pid > 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    receive_later(ends[0], &ends[1]);
    close(ends[0]);
    close(ends[1]);
}

/* Reads beyond the end of a file, which takes a second, real call. The exit status says whether
 * errno is still set: a vfork that a sanitizer or an emulator makes a fork shares no memory. */
__attribute__((noinline)) static pid_t vfork_and_read(int fd)
{
    pid_t pid = vfork();
    if (pid == 0) {
        char text[16];
        errno = EDOM;
        ssize_t n = read(fd, text, sizeof text);
        _exit(n == 5 && errno > 0 ? 0 : 1);
    }
    return pid;
}

IN_FIBER(read_in_vfork_child_does_not_clear_errno)
{
    char path[] = "/tmp/weft-hook-XXXXXX";
    int fd = mkstemp(path), status;
    CHECK(fd >= 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(pwrite(fd, "hello", 5, 0), 5);
    pid_t pid = vfork_and_read(fd);
    CHECK(pid > 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(fd);
}

/* A forked child has one plain thread. */
IN_FIBER(forked_child_makes_plain_calls)
{
    int ends[2], status;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pair(ends);
    receive_later(ends[0], &ends[1]);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        bool right = !weft_hook_is_active() && pthread_mutex_lock(&mutex) == 0 &&
                     pthread_mutex_unlock(&mutex) == 0 && read(ends[0], &c, 1) == 1 &&
                     usleep(1000) == 0 && close(ends[0]) == 0;
        _exit(right ? 0 : 1);
    }
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    receive_later(ends[0], &ends[1]);
    close(ends[0]);
    close(ends[1]);
}
