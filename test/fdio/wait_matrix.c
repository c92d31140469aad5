/* Every call that can wait, with every way a wait can end, on every driver. */
#include <fcntl.h>
#include <sys/socket.h>

#include "io/drivers.h"
#include "io/waiting.h"

#define SOON 5000000 /* ns: a deadline that is meant to pass */
#define BLOCK 65536

static int ends[2], extra[2], file = -1;
static char name[64];
static struct weft_addr addr;
static char block[BLOCK];

static void shut(int fd)
{
    if (fd >= 0) {
        int err = weft_close(fd);
        CHECK(err == 0 || err == -EBADF); /* the test may have closed it */
    }
}

static void clean(void)
{
    for (int i = 0; i < 2; i++) {
        shut(ends[i]);
        shut(extra[i]);
        ends[i] = extra[i] = -1;
    }
    shut(file);
    file = -1;
}

/* --- setups in which a call has to wait ----------------------------------------------------- */

static void empty_stream(void)
{
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
}

static void empty_datagram(void)
{
    CHECK_EQ(weft_socketpair(SOCK_DGRAM, ends), 0);
}

static void empty_udp(void)
{
    ends[0] = weft_datagram_open("127.0.0.1:0", NULL);
    CHECK(ends[0] >= 0);
}

static void empty_pipe(void)
{
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
}

static void fill(int fd)
{
    ssize_t n;
    do {
        n = weft_write(fd, block, sizeof block, 0);
    } while (n > 0);
    CHECK_EQ(n, -ETIMEDOUT);
    do { /* to the last byte */
        n = weft_write(fd, block, 1, 0);
    } while (n > 0);
    CHECK_EQ(n, -ETIMEDOUT);
}

static void full_stream(void)
{
    empty_stream();
    fill(ends[0]);
}

static void full_pipe(void)
{
    int pair[2];
    CHECK_EQ(pipe2(pair, O_CLOEXEC), 0);
    ends[0] = pair[1];
    ends[1] = pair[0];
    fill(ends[0]);
}

static void full_datagram(void)
{
    ssize_t n;
    empty_datagram();
    while ((n = weft_write(ends[0], block, 16, 0)) > 0) {
    }
    CHECK_EQ(n, -ETIMEDOUT);
}

/* A receiver with a full queue, and a sender that is not connected to it. */
static void full_receiver(void)
{
    ssize_t n;
    ends[1] = weft_datagram_open("unix:@", NULL);
    ends[0] = weft_datagram_open("unix:@", NULL);
    CHECK(ends[0] >= 0 && ends[1] >= 0);
    CHECK_EQ(weft_addr_local(ends[1], &addr), 0);
    while ((n = weft_sendto(ends[0], block, 16, &addr, 0)) > 0) {
        CHECK_EQ(n, 16);
    }
    CHECK_EQ(n, -ETIMEDOUT);
}

static void listens_tcp(void)
{
    ends[0] = weft_listen("127.0.0.1:0", NULL);
    CHECK(ends[0] >= 0);
}

/* A listener not opened by Weft, whose accept would block the thread. */
static void listens_blocking(void)
{
    listens_tcp();
    int mode = fcntl(ends[0], F_GETFL);
    CHECK_EQ(weft_fd_release(ends[0]), 0);
    CHECK_EQ(fcntl(ends[0], F_SETFL, mode & ~O_NONBLOCK), 0);
}

/* A Unix listener with a full backlog: the kernel accepts one more than the given limit. */
static void full_backlog(void)
{
    snprintf(name, sizeof name, "unix:@weft-waits-%d", (int)getpid());
    ends[1] = weft_listen(name, &(struct weft_listen_opts){.backlog = 1});
    CHECK(ends[1] >= 0);
    int fd, i = 0;
    while ((fd = weft_dial(name, NULL, 0)) >= 0) {
        CHECK(i < 2);
        extra[i++] = fd;
    }
    CHECK_EQ(fd, -ETIMEDOUT);
}

/* TCP drops connections to a full backlog, and the client retries in a second. */
static void full_backlog_tcp(void)
{
    ends[1] = weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.backlog = 1});
    CHECK(ends[1] >= 0);
    CHECK_EQ(weft_addr_local(ends[1], &addr), 0);
    weft_addr_format(&addr, name, sizeof name);
    for (int i = 0; i < 2; i++) { /* one more than the given limit, here too */
        extra[i] = weft_dial(name, NULL, WEFT_FOREVER);
        CHECK(extra[i] >= 0);
    }
}

static void full_with_file(void)
{
    full_stream();
    file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
}

/* ends[0] is the side that keeps a splice waiting. */
static void splice_without_input(void)
{
    empty_stream();
    CHECK_EQ(pipe2(extra, O_CLOEXEC), 0);
}

static void splice_without_room(void)
{
    full_stream();
    CHECK_EQ(pipe2(extra, O_CLOEXEC), 0);
    CHECK_EQ(write(extra[1], "abc", 3), 3);
}

/* --- the calls -------------------------------------------------------------------------------- */

static char in[64];

static int64_t do_read(int64_t deadline)
{
    return weft_read(ends[0], in, sizeof in, deadline);
}

static int64_t do_readv(int64_t deadline)
{
    struct iovec iov[2] = {{in, 8}, {in + 8, 8}};
    return weft_readv(ends[0], iov, 2, deadline);
}

static int64_t do_read_full(int64_t deadline)
{
    return weft_read_full(ends[0], in, sizeof in, NULL, deadline);
}

static int64_t do_recv(int64_t deadline)
{
    return weft_recv(ends[0], in, sizeof in, MSG_PEEK, deadline);
}

static int64_t do_recvfrom(int64_t deadline)
{
    struct weft_addr from;
    return weft_recvfrom(ends[0], in, sizeof in, &from, deadline);
}

static int64_t do_recvmsg(int64_t deadline)
{
    struct iovec iov = {in, sizeof in};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    return weft_recvmsg(ends[0], &msg, 0, deadline);
}

static int64_t do_recv_fds(int64_t deadline)
{
    int fds[2], count = 2;
    return weft_recv_fds(ends[0], in, sizeof in, fds, &count, deadline);
}

static int64_t do_write(int64_t deadline)
{
    return weft_write(ends[0], block, sizeof block, deadline);
}

static int64_t do_writev(int64_t deadline)
{
    struct iovec iov[2] = {{block, 8}, {block + 8, 8}};
    return weft_writev(ends[0], iov, 2, deadline);
}

static int64_t do_write_all(int64_t deadline)
{
    return weft_write_all(ends[0], block, sizeof block, NULL, deadline);
}

static int64_t do_send(int64_t deadline)
{
    return weft_send(ends[0], block, 16, MSG_MORE, deadline);
}

static int64_t do_sendto(int64_t deadline)
{
    return weft_sendto(ends[0], block, 16, &addr, deadline);
}

static int64_t do_send_datagram(int64_t deadline)
{
    return weft_sendto(ends[0], block, 16, NULL, deadline);
}

static int64_t do_sendmsg(int64_t deadline)
{
    struct iovec iov = {block, 16};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    return weft_sendmsg(ends[0], &msg, 0, deadline);
}

static int64_t do_send_fds(int64_t deadline)
{
    int fd = STDERR_FILENO;
    return weft_send_fds(ends[0], block, 16, &fd, 1, deadline);
}

static int64_t do_accept(int64_t deadline)
{
    return weft_accept(ends[0], NULL, deadline);
}

static int64_t do_connect(int64_t deadline)
{
    return weft_dial(name, NULL, deadline);
}

static int64_t do_sendfile(int64_t deadline)
{
    return weft_sendfile(ends[0], file, 0, 4096, deadline);
}

static int64_t do_sendfile_all(int64_t deadline)
{
    return weft_sendfile_all(ends[0], file, 0, 4096, NULL, deadline);
}

static int64_t do_splice_in(int64_t deadline)
{
    return weft_splice(ends[0], NULL, extra[1], NULL, 16, false, deadline);
}

static int64_t do_splice_out(int64_t deadline)
{
    return weft_splice(extra[0], NULL, ends[0], NULL, 16, false, deadline);
}

static int64_t do_wait_readable(int64_t deadline)
{
    return weft_fd_wait(ends[0], WEFT_READABLE, deadline);
}

static int64_t do_wait_writable(int64_t deadline)
{
    return weft_fd_wait(ends[0], WEFT_WRITABLE, deadline);
}

static const struct call {
    const char *name;
    void (*prepare)(void);
    int64_t (*call)(int64_t deadline);
    bool own; /* the call owns the descriptor: no other fiber closes it */
} calls[] = {
    {"read of a socket", empty_stream, do_read, false},
    {"read of a pipe", empty_pipe, do_read, false},
    {"readv of a socket", empty_stream, do_readv, false},
    {"readv of a pipe", empty_pipe, do_readv, false},
    {"read_full", empty_stream, do_read_full, false},
    {"recv", empty_stream, do_recv, false},
    {"recvfrom of UDP", empty_udp, do_recvfrom, false},
    {"recvfrom of a Unix socket", empty_datagram, do_recvfrom, false},
    {"recvmsg", empty_udp, do_recvmsg, false},
    {"recv_fds", empty_stream, do_recv_fds, false},
    {"write to a socket", full_stream, do_write, false},
    {"write to a pipe", full_pipe, do_write, false},
    {"writev to a socket", full_stream, do_writev, false},
    {"writev to a pipe", full_pipe, do_writev, false},
    {"write_all", full_pipe, do_write_all, false},
    {"send", full_stream, do_send, false},
    {"sendto without a peer", full_receiver, do_sendto, false},
    {"sendto to the peer", full_datagram, do_send_datagram, false},
    {"sendmsg", full_datagram, do_sendmsg, false},
    {"send_fds", full_stream, do_send_fds, false},
    {"accept", listens_tcp, do_accept, false},
    {"accept of a blocking listener", listens_blocking, do_accept, false},
    {"connect to a full Unix backlog", full_backlog, do_connect, true},
    {"connect to a full TCP backlog", full_backlog_tcp, do_connect, true},
    {"sendfile", full_with_file, do_sendfile, false},
    {"sendfile_all", full_with_file, do_sendfile_all, false},
    {"splice from", splice_without_input, do_splice_in, false},
    {"splice to", splice_without_room, do_splice_out, false},
    {"readable", empty_stream, do_wait_readable, false},
    {"writable", full_stream, do_wait_writable, false},
};
#define CALLS (int)(sizeof calls / sizeof *calls)

/* --- ways to end a wait ----------------------------------------------------------------------- */

static void *runs(void *arg)
{
    const struct call *call = arg;
    return (void *)(intptr_t)call->call(WEFT_FOREVER);
}

static void each(void (*with)(const struct call *call))
{
    for (int i = 0; i < CALLS; i++) {
        ends[0] = ends[1] = extra[0] = extra[1] = -1;
        calls[i].prepare();
        with(&calls[i]);
        clean();
    }
}

static void time_out(const struct call *call)
{
    int64_t began = weft_now(), got = call->call(weft_after(SOON));
    if (got != -ETIMEDOUT || weft_now() - began < SOON || call->call(0) != -ETIMEDOUT) {
        check_fail(__FILE__, __LINE__, "%s: %lld", call->name, (long long)got);
    }
}

static void cancel(const struct call *call)
{
    weft_fiber fiber = started(runs, (void *)(uintptr_t)call);
    CHECK_EQ(weft_cancel(fiber), 0);
    int64_t got = joined(fiber);
    if (got != -ECANCELED) {
        check_fail(__FILE__, __LINE__, "%s: %lld", call->name, (long long)got);
    }
}

static void interrupt(const struct call *call)
{
    weft_fiber fiber = started(runs, (void *)(uintptr_t)call);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    int64_t got = joined(fiber);
    if (got != -EINTR) {
        check_fail(__FILE__, __LINE__, "%s: %lld", call->name, (long long)got);
    }
}

static void close_it(const struct call *call)
{
    if (call->own) {
        return;
    }
    weft_fiber fiber = started(runs, (void *)(uintptr_t)call);
    CHECK_EQ(weft_close(ends[0]), 0);
    ends[0] = -1;
    int64_t got = joined(fiber);
    if (got != -EBADFD) {
        check_fail(__FILE__, __LINE__, "%s: %lld", call->name, (long long)got);
    }
}

static void *each_times_out(void *arg)
{
    each(time_out);
    return arg;
}

static void *each_is_cancelled(void *arg)
{
    each(cancel);
    return arg;
}

static void *each_is_interrupted(void *arg)
{
    each(interrupt);
    return arg;
}

static void *each_is_closed(void *arg)
{
    each(close_it);
    return arg;
}

static void on(enum weft_driver driver, unsigned workers, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

EACH_DRIVER(every_waiting_call_times_out_at_deadline)
{
    on(driver, 1, each_times_out);
}

EACH_DRIVER(every_waiting_call_ends_on_cancel)
{
    on(driver, 1, each_is_cancelled);
    on(driver, 3, each_is_cancelled);
}

EACH_DRIVER(every_waiting_call_ends_on_interrupt)
{
    on(driver, 1, each_is_interrupted);
    on(driver, 3, each_is_interrupted);
}

EACH_DRIVER(every_waiting_call_ends_on_close)
{
    on(driver, 1, each_is_closed);
    on(driver, 3, each_is_closed);
}

TEST(every_waiting_call_of_plain_thread_times_out)
{
    each(time_out);
}
