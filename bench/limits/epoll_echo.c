/* A server directly on the kernel: one thread, one level-triggered epoll, one read call and one
 * write call. `echo` sends the received bytes back. `http` does not parse: for each end of a head
 * in the received bytes it adds a fixed reply, and sends all replies in one write. usage:
 * limit-epoll echo|http PORT */
#include "tcp.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>

enum { EVENTS = 512, READ_BYTES = 16384 };

static const char reply[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nhello, world\n";
static char input[READ_BYTES];
static char output[READ_BYTES / 16 * (sizeof reply - 1)]; /* no request is shorter than 16 bytes */
static int poller;

static void accept_all(int listener)
{
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        struct epoll_event interest = {.events = EPOLLIN, .data.fd = fd};
        no_delay(fd);
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &interest))
            die("epoll_ctl");
    }
}

/* The load sends whole requests, so no head is split between two reads. */
static size_t replies_to(size_t bytes)
{
    size_t total = 0;
    const char *at = input, *end;
    while ((end = memmem(at, (size_t)(input + bytes - at), "\r\n\r\n", 4))) {
        memcpy(output + total, reply, sizeof reply - 1);
        total += sizeof reply - 1;
        at = end + 4;
    }
    return total;
}

static void serve(int fd, bool http)
{
    ssize_t got = recv(fd, input, sizeof input, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    size_t bytes = got <= 0 ? 0 : http ? replies_to((size_t)got) : (size_t)got;
    /* Small messages, one at a time on each connection: the socket's buffer has space for the whole
     * write. */
    if (!bytes || send(fd, http ? output : input, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool http = !strcmp(argv[1], "http");
    int listener = listen_on(argv[2], SOCK_NONBLOCK);
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = listener}, ready[EVENTS];
    poller = epoll_create1(0);
    if (epoll_ctl(poller, EPOLL_CTL_ADD, listener, &interest))
        die("epoll_ctl");
    for (;;) {
        int n = epoll_wait(poller, ready, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (ready[i].data.fd == listener)
                accept_all(listener);
            else
                serve(ready[i].data.fd, http);
        }
    }
}
