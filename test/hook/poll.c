/* poll, ppoll, select, pselect, epoll_wait. */
/* alike without hooks */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "hook/hooked.h"

static void write_byte(void *arg)
{
    CHECK_EQ(write(*(int *)arg, "x", 1), 1);
}

static void pair(int ends[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void close_pair(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static void take(int fd)
{
    char c;
    CHECK_EQ(read(fd, &c, 1), 1);
}

IN_FIBER(hooked_poll_of_one_fd_waits)
{
    int ends[2], pipes[2];
    struct hooked_peer peer;
    pair(ends);
    CHECK_EQ(pipe(pipes), 0);
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    int64_t start = weft_now();
    CHECK_EQ(poll(&one, 1, 30), 0);
    CHECK(hooked_since(start) >= 0.03);
    CHECK_EQ(poll(&one, 1, 0), 0);
    hooked_peer_start(&peer, write_byte, &ends[1]);
    CHECK_EQ(poll(&one, 1, -1), 1);
    CHECK_EQ(one.revents, POLLIN);
    hooked_peer_join(&peer);
    take(ends[0]);
    one = (struct pollfd){.fd = pipes[0], .events = POLLIN};
    hooked_peer_start(&peer, write_byte, &pipes[1]);
    CHECK_EQ(poll(&one, 1, 60000), 1);
    hooked_peer_join(&peer);
    take(pipes[0]);
    one = (struct pollfd){.fd = ends[0], .events = POLLIN | POLLOUT};
    CHECK_EQ(poll(&one, 1, -1), 1);
    CHECK_EQ(one.revents, POLLOUT);
    close_pair(pipes);
    one.fd = pipes[0];
    CHECK_EQ(poll(&one, 1, -1), 1);
    CHECK_EQ(one.revents, POLLNVAL);
    one.fd = -1;
    CHECK_EQ(poll(&one, 1, 5), 0);
    CHECK_EQ(poll(NULL, 0, 5), 0);
    close_pair(ends);
}

static void close_it(void *arg)
{
    CHECK_EQ(close(*(int *)arg), 0);
}

IN_FIBER(hooked_poll_of_many_fds_waits)
{
    int ends[3][2];
    struct hooked_peer peer;
    for (int i = 0; i < 3; i++) {
        pair(ends[i]);
    }
    struct pollfd fds[] = {{.fd = ends[0][0], .events = POLLIN},
                           {.fd = -1, .events = POLLIN},
                           {.fd = ends[1][0], .events = POLLIN},
                           {.fd = ends[1][0], .events = POLLPRI},
                           {.fd = ends[2][0], .events = 0}};
    CHECK_EQ(poll(fds, 5, 20), 0);
    hooked_peer_start(&peer, write_byte, &ends[1][1]);
    CHECK_EQ(poll(fds, 5, -1), 1);
    CHECK(fds[0].revents == 0 && fds[1].revents == 0 && fds[2].revents == POLLIN &&
          fds[3].revents == 0);
    hooked_peer_join(&peer);
    take(ends[1][0]);
    /* A hang-up is reported whether requested or not. */
    hooked_peer_start(&peer, close_it, &ends[2][1]);
    CHECK_EQ(poll(fds, 5, -1), 1);
    CHECK_EQ(fds[4].revents, POLLHUP);
    hooked_peer_join(&peer);
    close(ends[2][0]);
    close_pair(ends[0]);
    close_pair(ends[1]);
}

static void on_signal(int number)
{
    (void)number;
}

static void send_signal(void *arg)
{
    kill(getpid(), *(int *)arg);
}

IN_FIBER(hooked_ppoll_and_pselect_apply_signal_mask)
{
    int ends[2], number = SIGUSR2;
    struct hooked_peer peer;
    struct timespec time = {.tv_nsec = 20000000}, wide = {.tv_nsec = 1000000000};
    pair(ends);
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    CHECK_EQ(ppoll(&one, 1, &time, NULL), 0);
    CHECK_EQ(time.tv_nsec, 20000000);
    CHECK_FAILS(ppoll(&one, 1, &wide, NULL), EINVAL);
    hooked_peer_start(&peer, write_byte, &ends[1]);
    CHECK_EQ(ppoll(&one, 1, NULL, NULL), 1);
    hooked_peer_join(&peer);
    take(ends[0]);
    /* A signal that only the call's mask admits ends the wait. */
    struct sigaction act = {.sa_handler = on_signal};
    sigset_t blocked, before, open;
    sigaction(number, &act, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
    sigfillset(&open);
    sigdelset(&open, number);
    hooked_peer_start(&peer, send_signal, &number);
    CHECK_FAILS(ppoll(&one, 1, NULL, &open), EINTR);
    hooked_peer_join(&peer);
    hooked_peer_start(&peer, send_signal, &number);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    CHECK_FAILS(pselect(ends[0] + 1, &in, NULL, NULL, NULL, &open), EINTR);
    hooked_peer_join(&peer);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    close_pair(ends);
}

IN_FIBER(hooked_select_returns_ready_set_and_remaining_time)
{
    int ends[2], other[2];
    struct hooked_peer peer;
    fd_set in, out;
    pair(ends);
    CHECK_EQ(pipe(other), 0);
    int most = (ends[0] > other[0] ? ends[0] : other[0]) + 1;
    struct timeval time = {.tv_usec = 20000};
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    FD_SET(other[0], &in);
    CHECK_EQ(select(most, &in, NULL, NULL, &time), 0);
    CHECK(!FD_ISSET(ends[0], &in) && !FD_ISSET(other[0], &in));
    CHECK(time.tv_sec == 0 && time.tv_usec == 0);
    FD_SET(ends[0], &in);
    FD_SET(other[0], &in);
    time = (struct timeval){.tv_sec = 100};
    hooked_peer_start(&peer, write_byte, &other[1]);
    CHECK_EQ(select(most, &in, NULL, NULL, &time), 1);
    CHECK(!FD_ISSET(ends[0], &in) && FD_ISSET(other[0], &in));
    CHECK(time.tv_sec < 100 && time.tv_sec > 80);
    hooked_peer_join(&peer);
    FD_SET(ends[0], &in);
    FD_ZERO(&out);
    FD_SET(ends[0], &out);
    CHECK_EQ(select(most, &in, &out, NULL, NULL), 2);
    CHECK(FD_ISSET(other[0], &in) && FD_ISSET(ends[0], &out) && !FD_ISSET(ends[0], &in));
    take(other[0]);
    /* The longest representable timeout, and a little more: the C library treats both alike. */
    FD_ZERO(&in);
    FD_SET(other[0], &in);
    time = (struct timeval){.tv_sec = LONG_MAX, .tv_usec = 3000000};
    hooked_peer_start(&peer, write_byte, &other[1]);
    CHECK_EQ(select(most, &in, NULL, NULL, &time), 1);
    hooked_peer_join(&peer);
    take(other[0]);
    FD_SET(ends[0], &in);
    struct timespec soon = {.tv_nsec = 10000000};
    CHECK_EQ(pselect(most, &in, NULL, NULL, &soon, NULL), 0);
    CHECK_EQ(soon.tv_nsec, 10000000);
    time = (struct timeval){.tv_usec = 10000};
    CHECK_EQ(select(0, NULL, NULL, NULL, &time), 0); /* the portable sleep */
    close_pair(other);
    FD_SET(other[0], &in);
    CHECK_FAILS(select(most, &in, NULL, NULL, NULL), EBADF);
    CHECK_FAILS(select(-1, NULL, NULL, NULL, NULL), EINVAL);
    close_pair(ends);
}

/* Some programs pass the descriptor limit as nfds together with smaller sets: the call must not
 * touch the memory after a set. */
IN_FIBER(hooked_select_reads_no_set_beyond_fd_limit)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int ends[2];
    struct timeval time = {.tv_usec = 5000};
#ifdef __aarch64__
    if (!weft_hook_is_active()) {
        return; /* qemu's own call reads further */
    }
#endif
    char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at + page, page, PROT_NONE) == 0);
    fd_set *in = (fd_set *)(void *)(at + page - sizeof *in);
    pair(ends);
    FD_SET(ends[0], in);
    CHECK_EQ(select(1 << 20, in, NULL, NULL, &time), 0);
    CHECK(!FD_ISSET(ends[0], in));
    FD_SET(ends[0], in);
    write_byte(&ends[1]);
    CHECK_EQ(select(1 << 20, in, NULL, NULL, NULL), 1);
    CHECK(FD_ISSET(ends[0], in));
    close_pair(ends);
    CHECK_EQ(munmap(at, 2 * page), 0);
}

IN_FIBER(hooked_epoll_wait_waits)
{
    int ends[2], epoll = epoll_create1(0);
    struct hooked_peer peer;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7}, got[4];
    pair(ends);
    CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
    CHECK_EQ(epoll_wait(epoll, got, 4, 20), 0);
    CHECK_EQ(epoll_wait(epoll, got, 4, 0), 0);
    for (int i = 0; i < 3; i++) {
        hooked_peer_start(&peer, write_byte, &ends[1]);
        CHECK_EQ(epoll_wait(epoll, got, 4, -1), 1);
        CHECK_EQ(got[0].data.u32, 7);
        hooked_peer_join(&peer);
        take(ends[0]);
    }
    CHECK_FAILS(epoll_wait(epoll, got, 0, -1), EINVAL);
    CHECK_FAILS(epoll_wait(ends[0], got, 4, -1), EINVAL);
    close(epoll);
    CHECK_FAILS(epoll_wait(epoll, got, 4, -1), EBADF);
    CHECK_FAILS(epoll_create(0), EINVAL);
    epoll = epoll_create(1);
    CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
    hooked_peer_start(&peer, write_byte, &ends[1]);
    CHECK_EQ(epoll_pwait(epoll, got, 4, -1, NULL), 1);
    hooked_peer_join(&peer);
    take(ends[0]);
    struct timespec soon = {.tv_nsec = 3000000}, wide = {.tv_nsec = 1000000000};
    if (syscall(SYS_epoll_pwait2, epoll, got, 4, &soon, NULL, 8) == 0) { /* Linux 5.11 */
        CHECK_EQ(epoll_pwait2(epoll, got, 4, &soon, NULL), 0);
        CHECK_FAILS(epoll_pwait2(epoll, got, 4, &wide, NULL), EINVAL);
        sigset_t all;
        sigfillset(&all);
        CHECK_EQ(HOOKED_AGAIN(epoll_pwait2(epoll, got, 4, &soon, &all)), 0);
        CHECK_EQ(HOOKED_AGAIN(epoll_pwait(epoll, got, 4, 3, &all)), 0);
        hooked_peer_start(&peer, write_byte, &ends[1]);
        CHECK_EQ(epoll_pwait2(epoll, got, 4, NULL, NULL), 1);
        hooked_peer_join(&peer);
    }
    close(epoll);
    close_pair(ends);
}

/* No descriptor is left for what a wait on several descriptors needs. */
IN_FIBER(hooked_poll_works_at_fd_limit)
{
    int ends[2], other[2], last;
    struct hooked_peer peer;
    struct rlimit before, few;
    pair(ends);
    pair(other);
    getrlimit(RLIMIT_NOFILE, &before);
    last = dup(0);
    few = (struct rlimit){.rlim_cur = (rlim_t)last, .rlim_max = before.rlim_max};
    close(last);
    struct pollfd fds[] = {{.fd = ends[0], .events = POLLIN}, {.fd = other[0], .events = POLLIN}};
    CHECK_EQ(poll(fds, 2, 1), 0); /* the runtime has the descriptors that it needs */
    setrlimit(RLIMIT_NOFILE, &few);
    hooked_peer_start(&peer, write_byte, &ends[1]);
    CHECK_EQ(poll(fds, 2, -1), 1);
    CHECK_EQ(poll(fds + 1, 1, 10), 0);
    setrlimit(RLIMIT_NOFILE, &before);
    hooked_peer_join(&peer);
    close_pair(ends);
    close_pair(other);
}
