/* recv, send and related calls: bytes, messages, timeouts, and non-blocking sockets. */
/* not under: qemu */
/* alike without hooks */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "hook/hooked.h"

static void send_hello(void *arg)
{
    CHECK_EQ(send(*(int *)arg, "hello", 5, 0), 5);
}

static void pair(int ends[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void close_pair(int ends[2])
{
    CHECK_EQ(close(ends[0]), 0);
    CHECK_EQ(close(ends[1]), 0);
}

static int bound(struct sockaddr_in *addr, int type)
{
    socklen_t len = sizeof *addr;
    int fd = socket(AF_INET, type, 0);
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(bind(fd, (struct sockaddr *)addr, len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)addr, &len), 0);
    return fd;
}

static int tcp_listener(struct sockaddr_in *addr)
{
    int fd = bound(addr, SOCK_STREAM);
    CHECK_EQ(listen(fd, 5), 0);
    return fd;
}

IN_FIBER(every_hooked_receive_call_waits)
{
    int ends[2];
    char buf[16];
    struct hooked_peer peer;
    struct iovec iov = {buf, sizeof buf};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    pair(ends);
    for (int way = 0; way < 5; way++) {
        ssize_t n = -1;
        memset(buf, 0, sizeof buf);
        hooked_peer_start(&peer, send_hello, &ends[1]);
        switch (way) {
        case 0:
            n = recv(ends[0], buf, sizeof buf, 0);
            break;
        case 1:
            n = recvfrom(ends[0], buf, sizeof buf, 0, NULL, NULL);
            break;
        case 2:
            n = recvmsg(ends[0], &msg, 0);
            break;
        case 3:
            n = read(ends[0], buf, sizeof buf);
            break;
        case 4:
            n = readv(ends[0], &iov, 1);
            break;
        }
        CHECK_EQ(n, 5);
        CHECK(memcmp(buf, "hello", 5) == 0);
        hooked_peer_join(&peer);
    }
    close_pair(ends);
}

static void shut(void *arg)
{
    CHECK_EQ(shutdown(*(int *)arg, SHUT_WR), 0);
}

IN_FIBER(hooked_recv_returns_end_of_file)
{
    int ends[2];
    char buf[4];
    struct hooked_peer peer;
    pair(ends);
    hooked_peer_start(&peer, shut, &ends[1]);
    CHECK_EQ(recv(ends[0], buf, sizeof buf, 0), 0);
    hooked_peer_join(&peer);
    CHECK_EQ(recv(ends[0], buf, sizeof buf, MSG_WAITALL), 0);
    CHECK_EQ(read(ends[0], buf, 0), 0);
    close_pair(ends);
    signal(SIGPIPE, SIG_IGN);
    pair(ends);
    close(ends[1]);
    CHECK_FAILS(send(ends[0], buf, 1, 0), EPIPE);
    CHECK_FAILS(write(ends[0], buf, 1), EPIPE);
    close(ends[0]);
    CHECK_FAILS(recv(ends[0], buf, 1, 0), EBADF);
    CHECK_FAILS(recv(0x7ffffff, buf, 1, 0), EBADF);
    CHECK_FAILS(recv(-1, buf, 1, 0), EBADF);
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    CHECK_FAILS(recv(pipes[0], buf, 1, 0), ENOTSOCK);
    CHECK_FAILS(send(pipes[1], buf, 1, 0), ENOTSOCK);
    close_pair(pipes);
}

struct part {
    int fd;
    size_t n;
};

static void send_in_parts(void *arg)
{
    const struct part *part = arg;
    for (size_t i = 0; i < part->n; i++) {
        char c = (char)('a' + i);
        CHECK_EQ(send(part->fd, &c, 1, 0), 1);
        struct timespec time = {.tv_nsec = 3000000};
        nanosleep(&time, NULL);
    }
}

IN_FIBER(hooked_recv_waitall_waits_for_all_bytes)
{
    int ends[2];
    char buf[8], more[8];
    struct hooked_peer peer;
    pair(ends);
    struct part part = {ends[1], 6};
    hooked_peer_start(&peer, send_in_parts, &part);
    CHECK_EQ(recv(ends[0], buf, 6, MSG_WAITALL), 6);
    CHECK(memcmp(buf, "abcdef", 6) == 0);
    hooked_peer_join(&peer);
    hooked_peer_start(&peer, send_in_parts, &part);
    struct iovec iov[] = {{buf, 2}, {more, 4}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    CHECK_EQ(recvmsg(ends[0], &msg, MSG_WAITALL), 6);
    CHECK(memcmp(buf, "ab", 2) == 0 && memcmp(more, "cdef", 4) == 0);
    hooked_peer_join(&peer);
    hooked_peer_start(&peer, send_hello, &ends[1]);
    CHECK_EQ(recv(ends[0], buf, 1, MSG_PEEK), 1);
    CHECK_EQ(recv(ends[0], buf, 8, 0), 5);
    hooked_peer_join(&peer);
    close_pair(ends);
}

static void tcp_pair(int ends[2])
{
    struct sockaddr_in addr;
    int fd = tcp_listener(&addr);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(ends[0], (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK((ends[1] = accept(fd, NULL, NULL)) >= 0);
    CHECK_EQ(close(fd), 0);
}

/* Pending data stays, and the call ends where a plain call would: at once, or at the socket's
 * timeout. */
IN_FIBER(hooked_recv_peek_waitall_ends_as_plain_call)
{
    int ends[2], on = 1;
    char buf[8];
    struct timeval time = {.tv_usec = 30000};
    pair(ends);
    CHECK_EQ(send(ends[1], "ab", 2, 0), 2);
    CHECK_EQ(recv(ends[0], buf, 5, MSG_PEEK | MSG_WAITALL), 2); /* a Unix socket does not wait */
    close_pair(ends);
    tcp_pair(ends);
    CHECK_EQ(send(ends[1], "ab", 2, 0), 2);
    CHECK_EQ(recv(ends[0], buf, 2, MSG_PEEK | MSG_WAITALL), 2);
    CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
    int64_t start = weft_now();
    CHECK_EQ(recv(ends[0], buf, 5, MSG_PEEK | MSG_WAITALL), 2);
    CHECK(hooked_since(start) >= 0.029);
    CHECK_EQ(ioctl(ends[0], FIONBIO, &on), 0);
    CHECK_EQ(recv(ends[0], buf, 5, MSG_PEEK | MSG_WAITALL), 2);
    CHECK_EQ(recv(ends[0], buf, 5, MSG_WAITALL), 2);
    close_pair(ends);
}

struct sink {
    int fd;
    size_t got;
};

static void receive_all(void *arg)
{
    struct sink *sink = arg;
    char buf[4096];
    ssize_t n;
    while ((n = recv(sink->fd, buf, sizeof buf, 0)) > 0) {
        sink->got += (size_t)n;
    }
    CHECK_EQ(n, 0);
}

IN_FIBER(every_hooked_send_call_sends_all_bytes)
{
    enum { N = 900000 };
    int ends[2];
    char *all = calloc(1, N);
    struct hooked_peer peer;
    pair(ends);
    struct sink sink = {.fd = ends[0]};
    struct iovec iov[] = {{all, 7}, {all, N - 7}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    struct mmsghdr many[3] = {{.msg_hdr = msg}, {.msg_hdr = msg}, {.msg_hdr = msg}};
    hooked_peer_start(&peer, receive_all, &sink);
    CHECK_EQ(send(ends[1], all, N, 0), N);
    CHECK_EQ(write(ends[1], all, N), N);
    CHECK_EQ(sendto(ends[1], all, N, 0, NULL, 0), N);
    CHECK_EQ(sendmsg(ends[1], &msg, 0), N);
    CHECK_EQ(writev(ends[1], iov, 2), N);
    CHECK_EQ(sendmmsg(ends[1], many, 3, 0), 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(many[i].msg_len, N);
    }
    CHECK_EQ(shutdown(ends[1], SHUT_WR), 0);
    hooked_peer_join(&peer);
    CHECK_EQ(sink.got, 8 * (size_t)N);
    close_pair(ends);
    free(all);
}

struct post {
    int fd, count;
    struct sockaddr_in to;
};

static void post(void *arg)
{
    const struct post *p = arg;
    for (int i = 0; i < p->count; i++) {
        CHECK_EQ(sendto(p->fd, "abcdefgh", (size_t)i + 1, 0, (const struct sockaddr *)&p->to,
                        sizeof p->to),
                 i + 1);
    }
}

IN_FIBER(hooked_datagrams_arrive_singly_and_in_batches)
{
    struct sockaddr_in here, there, from;
    char buf[4][16];
    struct hooked_peer peer;
    struct iovec iov[4];
    struct mmsghdr many[4] = {0};
    int fd = bound(&here, SOCK_DGRAM), other = bound(&there, SOCK_DGRAM);
    struct post p = {.fd = other, .count = 3, .to = here};
    socklen_t len = sizeof from;
    hooked_peer_start(&peer, post, &p);
    CHECK_EQ(recvfrom(fd, buf[0], 16, 0, (struct sockaddr *)&from, &len), 1);
    CHECK_EQ(from.sin_port, there.sin_port);
    CHECK_EQ(recv(fd, buf[0], 1, MSG_WAITALL), 1); /* a datagram is truncated, not waited for */
    CHECK_EQ(recv(fd, buf[0], 16, 0), 3);
    hooked_peer_join(&peer);
    for (int i = 0; i < 4; i++) {
        iov[i] = (struct iovec){buf[i], 16};
        many[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    hooked_peer_start(&peer, post, &p);
    CHECK_EQ(recvmmsg(fd, many, 3, 0, NULL), 3);
    CHECK(many[0].msg_len == 1 && many[1].msg_len == 2 && many[2].msg_len == 3);
    hooked_peer_join(&peer);
    p.count = 2;
    hooked_peer_start(&peer, post, &p);
    int got = recvmmsg(fd, many, 4, MSG_WAITFORONE, NULL);
    CHECK(got == 1 || got == 2);
    hooked_peer_join(&peer);
    if (got == 1) {
        CHECK_EQ(recv(fd, buf[0], 16, 0), 2);
    }
    CHECK_FAILS(recvmmsg(fd, many, 4, MSG_DONTWAIT, NULL), EAGAIN);
#ifdef __aarch64__
    bool timed = weft_hook_is_active(); /* qemu's own call ignores the timeout */
#else
    bool timed = true;
#endif
    if (timed) { /* the timeout is checked when a message has arrived */
        struct timespec none = {0};
        hooked_peer_start(&peer, post, &p);
        got = recvmmsg(fd, many, 4, 0, &none);
        CHECK(got == 1 || got == 2);
        hooked_peer_join(&peer);
        struct timespec wide = {.tv_nsec = 1000000000}, much = {.tv_sec = 1000};
        CHECK_FAILS(recvmmsg(fd, many, 1, 0, &wide), EINVAL);
        post(&p);
        CHECK_EQ(recvmmsg(fd, many, 1, 0, &much), 1);
        CHECK(much.tv_sec < 1000); /* the remaining time */
    }
    close(fd);
    close(other);
}

/* A send that also connects. The first one has to request a cookie, so it waits. */
IN_FIBER(hooked_fast_open_send_connects)
{
    enum { N = 300000 };
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    struct hooked_peer peer;
    int listener = tcp_listener(&addr);
    char *all = calloc(1, N);
    for (int way = 0; way < 2; way++) {
        struct iovec iov[] = {{all, 1}, {all, N - 1}};
        struct msghdr msg = {
            .msg_name = &addr, .msg_namelen = len, .msg_iov = iov, .msg_iovlen = 2};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        ssize_t put = way ? sendmsg(fd, &msg, MSG_FASTOPEN)
                          : sendto(fd, all, 5, MSG_FASTOPEN, (struct sockaddr *)&addr, len);
        if (put < 0 && errno == EOPNOTSUPP) { /* disabled on this machine */
            CHECK_EQ(close(fd), 0);
            break;
        }
        CHECK(put == 5 || (way && put > 0));
        struct sink sink = {.fd = accept(listener, NULL, NULL)};
        CHECK(sink.fd >= 0);
        hooked_peer_start(&peer, receive_all, &sink);
        size_t more = (size_t)(way ? N : 5) - (size_t)put;
        CHECK_EQ(send(fd, all, more, 0), more);
        CHECK_EQ(close(fd), 0);
        hooked_peer_join(&peer);
        CHECK_EQ(sink.got, way ? N : 5);
        CHECK_EQ(close(sink.fd), 0);
    }
    CHECK_EQ(close(listener), 0);
    int silent =
        bound(&addr, SOCK_STREAM); /* bound, and does not listen; a closed port could belong to
                                    * another process */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ssize_t put = sendto(fd, all, 5, MSG_FASTOPEN, (struct sockaddr *)&addr, len);
    CHECK(put < 0 && (errno == EINPROGRESS || errno == EOPNOTSUPP));
    CHECK_EQ(close(fd), 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    put = sendto(fd, all, 5, MSG_FASTOPEN, (struct sockaddr *)&addr, len);
    CHECK(put < 0 && (errno == ECONNREFUSED || errno == EOPNOTSUPP));
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(close(silent), 0);
    free(all);
}

IN_FIBER(hooked_sendmsg_passes_descriptors)
{
    int ends[2], pipes[2], got;
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    pair(ends);
    CHECK_EQ(pipe(pipes), 0);
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(c), &pipes[1], sizeof(int));
    CHECK_EQ(sendmsg(ends[0], &msg, 0), 1);
    memset(room, 0, sizeof room);
    msg.msg_controllen = sizeof room;
    CHECK_EQ(recvmsg(ends[1], &msg, 0), 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof got);
    CHECK_EQ(write(got, "y", 1), 1);
    CHECK_EQ(read(pipes[0], &byte, 1), 1);
    CHECK_EQ(byte, 'y');
    close(got);
    close_pair(pipes);
    close_pair(ends);
}

/* --- non-blocking on request ------------------------------------------------------------------ */

static void does_not_block(int fd, bool is)
{
    char c;
    int peek = fcntl(fd, F_GETFL);
    CHECK_EQ(!!(peek & O_NONBLOCK), is);
    if (is) {
        CHECK_FAILS(recv(fd, &c, 1, 0), EAGAIN);
        CHECK_FAILS(read(fd, &c, 1), EAGAIN);
    }
}

IN_FIBER(nonblocking_mode_set_by_user_is_respected)
{
    int ends[2], on = 1, off = 0;
    char c;
    struct hooked_peer peer;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    does_not_block(ends[0], true);
    CHECK_EQ(fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) & ~O_NONBLOCK), 0);
    does_not_block(ends[0], false);
    hooked_peer_start(&peer, send_hello, &ends[1]);
    CHECK_EQ(recv(ends[0], &c, 1, 0), 1);
    hooked_peer_join(&peer);
    char rest[8];
    CHECK_EQ(recv(ends[0], rest, 8, 0), 4);
    CHECK_EQ(ioctl(ends[0], FIONBIO, &on), 0);
    does_not_block(ends[0], true);
    int copy = dup(ends[0]); /* duplicates share one mode */
    does_not_block(copy, true);
    CHECK_EQ(ioctl(copy, FIONBIO, &off), 0);
    does_not_block(ends[0], false);
    CHECK_FAILS(recv(ends[0], &c, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    does_not_block(copy, true);
    close(copy);
    close_pair(ends);
}

/* --- timeouts --------------------------------------------------------------------------------- */

static void limit(int fd, int option, long us)
{
    struct timeval time = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}, back;
    socklen_t len = sizeof back;
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, option, &time, sizeof time), 0);
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, option, &back, &len), 0);
    CHECK(back.tv_sec == time.tv_sec && back.tv_usec >= time.tv_usec);
}

IN_FIBER(hooked_receive_timeout_returns_eagain)
{
    int ends[2];
    char buf[8];
    struct hooked_peer peer;
    pair(ends);
    limit(ends[0], SO_RCVTIMEO, 40000);
    int64_t start = weft_now();
    CHECK_FAILS(recv(ends[0], buf, sizeof buf, 0), EAGAIN);
    CHECK(hooked_since(start) >= 0.039 && hooked_since(start) < 30);
    CHECK_FAILS(read(ends[0], buf, sizeof buf), EAGAIN);
    hooked_peer_start(&peer, send_hello, &ends[1]);
    hooked_peer_join(&peer);
    CHECK_EQ(recv(ends[0], buf, 8, MSG_WAITALL), 5); /* the data that arrived by then */
    limit(ends[0], SO_RCVTIMEO, 0);                  /* none */
    hooked_peer_start(&peer, send_hello, &ends[1]);
    CHECK_EQ(recv(ends[0], buf, sizeof buf, 0), 5);
    hooked_peer_join(&peer);
    close_pair(ends);
}

IN_FIBER(hooked_send_timeout_returns_bytes_sent)
{
    enum { N = 4 << 20 };
    int ends[2];
    char *all = calloc(1, N);
    pair(ends);
    limit(ends[0], SO_SNDTIMEO, 40000);
    ssize_t n = send(ends[0], all, N, 0);
    CHECK(n > 0 && n < N);
    int64_t start = weft_now();
    CHECK_FAILS(send(ends[0], all, N, 0), EAGAIN);
    CHECK(hooked_since(start) >= 0.039);
    close_pair(ends);
    free(all);
}

/* --- a signal --------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
}

static void signal_then_send(void *arg)
{
    /* A hooked call is restarted although the handler was installed without SA_RESTART. */
    struct sigaction act = {.sa_handler = on_signal,
                            .sa_flags = weft_hook_is_loaded() ? 0 : SA_RESTART};
    sigaction(SIGUSR1, &act, NULL);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR1);
        struct timespec time = {.tv_nsec = 500000};
        nanosleep(&time, NULL);
    }
    send_hello(arg);
}

IN_FIBER(signal_does_not_end_hooked_wait)
{
    int ends[2];
    char buf[8];
    struct hooked_peer peer;
    pair(ends);
    hooked_peer_start(&peer, signal_then_send, &ends[1]);
    CHECK_EQ(recv(ends[0], buf, sizeof buf, 0), 5);
    hooked_peer_join(&peer);
    close_pair(ends);
}
