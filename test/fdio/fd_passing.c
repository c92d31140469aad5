/* Descriptors sent over Unix sockets: they arrive with close-on-exec set, and none leaks. */
/* not under: qemu */
/* (qemu loses the flag for truncated control data) */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "io/descriptors.h"
#include "io/drivers.h"
#include "io/fd.h"

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

static void *passes(void *arg)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        int ends[2], through[2], got[4], count = 4;
        char buf[8];
        CHECK_EQ(weft_socketpair(types[i], ends), 0);
        CHECK_EQ(weft_socketpair(SOCK_STREAM, through), 0);
        CHECK_EQ(weft_send_fds(ends[0], "hi", 2, through, 2, WEFT_FOREVER), 2);
        CHECK_EQ(weft_close(through[0]), 0); /* the copies in flight keep them open */
        CHECK_EQ(weft_close(through[1]), 0);
        CHECK_EQ(weft_recv_fds(ends[1], buf, sizeof buf, got, &count, WEFT_FOREVER), 2);
        CHECK_EQ(count, 2);
        CHECK(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
        CHECK(fcntl(got[1], F_GETFD) & FD_CLOEXEC);
        CHECK_EQ(weft_write(got[0], "x", 1, WEFT_FOREVER), 1); /* and they work as local
                                                                * descriptors */
        CHECK_EQ(weft_read(got[1], buf, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_read(got[1], buf, 1, weft_after(1000000)), -ETIMEDOUT);
        CHECK_EQ(weft_close(got[0]), 0);
        CHECK_EQ(weft_close(got[1]), 0);
        /* Bytes alone. */
        count = 4;
        CHECK_EQ(weft_send_fds(ends[0], "yo", 2, NULL, 0, WEFT_FOREVER), 2);
        CHECK_EQ(weft_recv_fds(ends[1], buf, sizeof buf, got, &count, WEFT_FOREVER), 2);
        CHECK_EQ(count, 0);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_close(ends[1]), 0);
    }
    return arg;
}

EACH_DRIVER(sent_descriptors_arrive_close_on_exec)
{
    on(driver, passes);
}

/* For every control buffer size from none to all: descriptors that do not fit are closed. */
static void *truncated(void *arg)
{
    int ends[2], fds[5], got[5];
    char buf[8];
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    for (int i = 0; i < 5; i++) {
        fds[i] = STDERR_FILENO;
    }
    CHECK_EQ(weft_read(ends[1], buf, 1, 0), -ETIMEDOUT); /* the driver has opened its own by now */
    int before = count_descriptors();
    for (int room = 0; room <= 5; room++) {
        int count = room;
        CHECK_EQ(weft_send_fds(ends[0], "hi", 2, fds, 5, WEFT_FOREVER), 2);
        memset(buf, 0, sizeof buf);
        ssize_t n = weft_recv_fds(ends[1], buf, sizeof buf, got, &count, WEFT_FOREVER);
        CHECK_EQ(n, room < 5 ? -EMSGSIZE : 2);
        CHECK_EQ(count, room < 5 ? 0 : 5);
        CHECK_STR(buf, "hi");
        for (int i = 0; i < count; i++) {
            CHECK_EQ(weft_close(got[i]), 0);
        }
        CHECK_EQ(count_descriptors(), before);
    }
    /* A plain read receives no descriptors. */
    CHECK_EQ(weft_send_fds(ends[0], "hi", 2, fds, 5, WEFT_FOREVER), 2);
    CHECK_EQ(weft_read(ends[1], buf, sizeof buf, WEFT_FOREVER), 2);
    CHECK_EQ(count_descriptors(), before);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(truncated_descriptors_are_not_leaked)
{
    on(driver, truncated);
}

/* The process has no free numbers for some of them. */
static void *exhausted(void *arg)
{
    struct rlimit limit, low;
    int ends[2], fds[5], got[5], count = 5, next;
    char buf[8];
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    for (int i = 0; i < 5; i++) {
        fds[i] = STDERR_FILENO;
    }
    CHECK_EQ(weft_send_fds(ends[0], "hi", 2, fds, 5, WEFT_FOREVER), 2);
    CHECK_EQ(weft_fd_wait(ends[1], WEFT_READABLE, WEFT_FOREVER), WEFT_READABLE);
    int before = count_descriptors();
    next = dup(STDERR_FILENO);
    CHECK_EQ(close(next), 0);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = (rlim_t)next + 2;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    ssize_t n = weft_recv_fds(ends[1], buf, sizeof buf, got, &count, WEFT_FOREVER);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(n, -EMFILE);
    CHECK_EQ(count, 0);
    CHECK_EQ(count_descriptors(), before);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(received_descriptors_do_not_leak_at_fd_limit)
{
    on(driver, exhausted);
}

/* A number that Weft knew as another file was closed without Weft, and is reused by a message. */
static void *renumbered(void *arg)
{
    int ends[2], pipes[2], old[2], got[1], count = 1;
    char buf[8];
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_EQ(weft_socketpair(SOCK_STREAM, old), 0);
    CHECK_EQ(weft_read(old[0], buf, 1, weft_after(1000000)), -ETIMEDOUT); /* known to be empty */
    CHECK_EQ(weft_send_fds(ends[0], "p", 1, &pipes[0], 1, WEFT_FOREVER), 1);
    CHECK_EQ(write(pipes[1], "abc", 3), 3);
    close(old[0]);
    CHECK_EQ(weft_recv_fds(ends[1], buf, sizeof buf, got, &count, WEFT_FOREVER), 1);
    CHECK_EQ(got[0], old[0]);
    CHECK_EQ(weft_read(got[0], buf, sizeof buf, weft_after(60000000000)), 3); /* as a pipe */
    CHECK_EQ(weft_close(got[0]), 0);
    CHECK_EQ(weft_close(old[1]), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(received_fd_with_reused_number_is_registered_anew)
{
    on(driver, renumbered);
}

/* Weft knows the number as a file, which was closed without Weft: the new descriptor with that
 * number is not read as a file. */
static void *writes_late(void *arg)
{
    weft_sleep(weft_after(60000000000)); /* so that the test fails instead of waiting for ever */
    (void)!write(*(int *)arg, "x", 1);
    return NULL;
}

static void *reads_what_was_a_file(void *arg)
{
    int ends[2];
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    weft_fiber writer;
    for (int i = 0; i < 2; i++) {
        int fd = memfd_create("file", MFD_CLOEXEC);
        CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 0);
        CHECK_EQ(close(fd), 0);
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        CHECK_EQ(ends[0], fd);
        CHECK_EQ(weft_spawn(&writer, writes_late, &ends[1], NULL), 0);
        int64_t soon = weft_after(1000000);
        CHECK_EQ(i ? weft_readv(fd, &iov, 1, soon) : weft_read(fd, &byte, 1, soon), -ETIMEDOUT);
        CHECK_EQ(weft_cancel(writer), 0);
        CHECK_EQ(weft_join(writer, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_close(ends[1]), 0);
    }
    return arg;
}

EACH_DRIVER(socket_with_reused_file_fd_honours_deadline)
{
    on(driver, reads_what_was_a_file);
}

/* The same while an operation on the old file is pending: that file is closed, and there is nothing
 * to read. */
static void *reads_what_is_in_use_as_a_file(void *arg)
{
    int ends[2], fd = memfd_create("file", MFD_CLOEXEC);
    char byte;
    struct weft__op op;
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 0);
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(ends[0], fd);
    struct weft__fd *record = weft__fd_record(fd);
    weft__op_init(&op, fd, WEFT__OP_READ, WEFT__SIDE_IN);
    op.on_thread = true;
    weft__latch_lock(&record->lock);
    weft__fd_push_locked(record, &op);
    weft__latch_unlock(&record->lock);
    CHECK_EQ(weft_read(fd, &byte, 1, weft_after(1000000)), -EBADFD);
    weft__latch_lock(&record->lock);
    weft__fd_remove_locked(record, &op);
    weft__latch_unlock(&record->lock);
    CHECK_EQ(weft_read(fd, &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(reused_fd_with_pending_file_op_returns_ebadfd)
{
    on(driver, reads_what_is_in_use_as_a_file);
}

/* The plain recvmsg: the user handles the control data. */
static void *by_message(void *arg)
{
    int ends[2], fd = STDERR_FILENO, got;
    char byte;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control};
    CHECK_EQ(weft_socketpair(SOCK_DGRAM, ends), 0);
    CHECK_EQ(weft_send_fds(ends[0], "abc", 3, &fd, 1, WEFT_FOREVER), 3);
    CHECK_EQ(weft_recvmsg(ends[1], &msg, 0, WEFT_FOREVER), 1);
    CHECK(msg.msg_flags & MSG_TRUNC);
    CHECK_EQ(control.align.cmsg_type, SCM_RIGHTS);
    memcpy(&got, CMSG_DATA(&control.align), sizeof got);
    CHECK(fcntl(got, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(weft_close(got), 0);
    CHECK_EQ(weft_recvmsg(ends[1], &msg, MSG_WAITALL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_sendmsg(ends[1], &msg, MSG_DONTWAIT, WEFT_FOREVER), -EINVAL);
    msg.msg_iovlen = 5000;
    CHECK_EQ(weft_recvmsg(ends[1], &msg, 0, WEFT_FOREVER), -EMSGSIZE);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(sendmsg_and_recvmsg_pass_control_messages)
{
    on(driver, by_message);
}

TEST(fd_passing_with_bad_arguments_is_refused)
{
    int ends[2], bad = 9999, count = WEFT_FDS_MAX + 1, fds[1];
    char byte = 0;
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    CHECK_EQ(weft_send_fds(ends[0], &byte, 1, &bad, 1, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_send_fds(ends[0], &byte, 1, &bad, -1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_send_fds(ends[0], &byte, 0, fds, 1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_send_fds(ends[0], &byte, 1, fds, WEFT_FDS_MAX + 1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_recv_fds(ends[0], &byte, 1, fds, &count, WEFT_FOREVER), -EINVAL);
    count = 1;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(weft_recv_fds(file, &byte, 1, fds, &count, WEFT_FOREVER), -ENOTSOCK);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
}
