/* connect and accept. */
/* alike without hooks */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "hook/hooked.h"

static int bound(struct sockaddr_in *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof *addr;
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(bind(fd, (struct sockaddr *)addr, sizeof *addr), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)addr, &len), 0);
    return fd;
}

static int listener(struct sockaddr_in *addr, int backlog)
{
    int fd = bound(addr);
    CHECK_EQ(listen(fd, backlog), 0);
    return fd;
}

static int tcp(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}

static void call(void *arg)
{
    int fd = tcp();
    CHECK_EQ(connect(fd, arg, sizeof(struct sockaddr_in)), 0);
    CHECK_EQ(send(fd, "hi", 2, 0), 2);
    CHECK_EQ(close(fd), 0);
}

IN_FIBER(hooked_accept_waits_and_hides_nonblocking_mode)
{
    struct sockaddr_in addr, peer_addr;
    char buf[4];
    struct hooked_peer peer;
    int fd = listener(&addr, 5), on = 1, off = 0;
    socklen_t len = sizeof peer_addr;
    hooked_peer_start(&peer, call, &addr);
    int got = accept(fd, (struct sockaddr *)&peer_addr, &len);
    CHECK(got >= 0);
    CHECK_EQ(peer_addr.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    CHECK_EQ(fcntl(got, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(recv(got, buf, 4, 0), 2);
    CHECK_EQ(recv(got, buf, 4, 0), 0);
    hooked_peer_join(&peer);
    close(got);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    hooked_peer_start(&peer, call, &addr);
    got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(got >= 0);
    CHECK_EQ(fcntl(got, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ(fcntl(got, F_GETFD), FD_CLOEXEC);
    hooked_peer_join(&peer);
    close(got);
    /* The user's non-blocking mode, set in both ways, and seen through a duplicate. */
    CHECK_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    CHECK_FAILS(accept(fd, NULL, NULL), EAGAIN);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ(ioctl(fd, FIONBIO, &off), 0);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(ioctl(fd, FIONBIO, &on), 0);
    CHECK_FAILS(accept(fd, NULL, NULL), EAGAIN);
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    CHECK_EQ(fcntl(copy, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_FAILS(accept(copy, NULL, NULL), EAGAIN);
    close(copy);
    CHECK_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
    hooked_peer_start(&peer, call, &addr);
    got = accept(fd, NULL, NULL);
    CHECK(got >= 0);
    hooked_peer_join(&peer);
    close(got);
    close(fd);
    CHECK_FAILS(accept(fd, NULL, NULL), EBADF);
    fd = tcp();
    CHECK_FAILS(accept(fd, NULL, NULL), EINVAL);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    close(fd);
}

struct accepting {
    int fd, got, limit_ms;
};

static void accept_one(void *arg)
{
    struct accepting *a = arg;
    a->got = HOOKED_AGAIN(accept(a->fd, NULL, NULL));
    if (a->got < 0) {
        a->got = -errno;
    }
}

/* The hooks made the listener non-blocking; a plain thread that accepts on it must not notice. */
IN_FIBER(thread_accept_on_listener_used_by_fiber_waits)
{
    struct sockaddr_in addr;
    struct hooked_peer peer, caller;
    int fd = listener(&addr, 5);
    struct timeval time = {.tv_usec = 30000};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
    int64_t start = weft_now();
    CHECK_FAILS(accept(fd, NULL, NULL), EAGAIN); /* the socket's timeout */
    CHECK(hooked_since(start) >= 0.029);
    struct accepting a = {.fd = fd};
    hooked_peer_start(&peer, accept_one, &a);
    hooked_peer_join(&peer);
    CHECK_EQ(a.got, -EAGAIN);
    time.tv_usec = 0;
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
    hooked_peer_start(&peer, accept_one, &a);
    hooked_peer_start(&caller, call, &addr);
    hooked_peer_join(&caller);
    hooked_peer_join(&peer);
    CHECK(a.got >= 0);
    close(a.got);
    close(fd);
}

/* Where no fiber has used the socket, the call is the plain one: its timeout passes once. */
TEST(thread_accept_timeout_elapses_once)
{
    struct sockaddr_in addr;
    int fd = listener(&addr, 5);
    double least = 60;
    struct timeval time = {.tv_usec = 200000};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
    for (int i = 0; i < 50 && least >= 0.39; i++) { /* a busy machine may delay one of them */
        int64_t start = weft_now();
        if (accept(fd, NULL, NULL) < 0 && errno == EINTR) {
            continue; /* because of a ring that this thread had */
        }
        CHECK_EQ(errno, EAGAIN);
        least = hooked_since(start) < least ? hooked_since(start) : least;
    }
    CHECK(least >= 0.199 && least < 0.39);
    close(fd);
}

IN_FIBER(hooked_connect_succeeds_or_fails_with_errno)
{
    struct sockaddr_in addr;
    int fd = listener(&addr, 5), client = tcp();
    CHECK_EQ(connect(client, (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK_EQ(fcntl(client, F_GETFL) & O_NONBLOCK, 0);
    CHECK_FAILS(connect(client, (struct sockaddr *)&addr, sizeof addr), EISCONN);
    close(client);
    close(fd);
    client = tcp();
    fd = bound(&addr); /* bound, and does not listen; a closed port could belong to another
                        * process */
    CHECK_FAILS(connect(client, (struct sockaddr *)&addr, sizeof addr), ECONNREFUSED);
    close(client);
    close(fd);
    CHECK_FAILS(connect(client, (struct sockaddr *)&addr, sizeof addr), EBADF);
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    CHECK_FAILS(connect(pipes[0], (struct sockaddr *)&addr, sizeof addr), ENOTSOCK);
    CHECK_EQ(fcntl(pipes[0], F_GETFL) & O_NONBLOCK, 0);
    close(pipes[0]);
    close(pipes[1]);
}

/* A listener with a full backlog does not answer: connections to it hang. */
static int fill(const struct sockaddr_in *addr, int fds[8])
{
    int n = 0;
    for (; n < 8; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        int err = connect(fds[n], (const struct sockaddr *)addr, sizeof *addr);
        CHECK(err == 0 || errno == EINPROGRESS);
    }
    return n;
}

IN_FIBER(hooked_connect_honours_timeouts)
{
    struct sockaddr_in addr;
    int fds[8], fd = listener(&addr, 0);
    int n = fill(&addr, fds);
    int client = tcp();
    struct timeval time = {.tv_usec = 50000};
    CHECK_EQ(setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), 0);
    int64_t start = weft_now();
    CHECK_FAILS(connect(client, (struct sockaddr *)&addr, sizeof addr), EINPROGRESS);
    CHECK(hooked_since(start) >= 0.049 && hooked_since(start) < 30);
    close(client);
    if (weft_hook_is_active()) {
        client = tcp();
        CHECK_EQ(weft_hook_connect_timeout(50000000), 0);
        start = weft_now();
        CHECK_FAILS(connect(client, (struct sockaddr *)&addr, sizeof addr), ETIMEDOUT);
        CHECK(hooked_since(start) >= 0.05 && hooked_since(start) < 30);
        CHECK_EQ(weft_hook_connect_timeout(-1), 50000000);
        CHECK_EQ(weft_hook_connect_timeout(0), 50000000);
        close(client);
    }
    while (n > 0) {
        close(fds[--n]);
    }
    close(fd);
}

static void accept_two(void *arg)
{
    for (int i = 0; i < 2; i++) {
        int got = accept(*(int *)arg, NULL, NULL);
        CHECK(got >= 0);
        close(got);
    }
}

IN_FIBER(hooked_unix_connect_waits_for_backlog)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t);
    struct hooked_peer peer;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&addr, len), 0); /* a name that the kernel chooses */
    len = sizeof addr;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    CHECK_EQ(listen(fd, 0), 0);
    int first = socket(AF_UNIX, SOCK_STREAM, 0), second = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(connect(first, (struct sockaddr *)&addr, len), 0);
    struct timeval time = {.tv_usec = 30000};
    CHECK_EQ(setsockopt(second, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), 0);
    CHECK_FAILS(connect(second, (struct sockaddr *)&addr, len), EAGAIN);
    time.tv_usec = 0;
    CHECK_EQ(setsockopt(second, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), 0);
    hooked_peer_start(&peer, accept_two, &fd);
    CHECK_EQ(connect(second, (struct sockaddr *)&addr, len), 0);
    hooked_peer_join(&peer);
    close(first);
    close(second);
    close(fd);
}
