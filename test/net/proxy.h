/* A misbehaving TCP proxy between a client and a server: it cuts the data into small segments,
 * stops reading so that the window closes, and resets connections. It uses one plain thread and
 * plain system calls, so that it does not depend on the code under test.
 *
 *     struct proxy proxy;
 *     proxy_start(&proxy, &server, &(struct proxy_opts){.seed = check_seed(), .segment = 1});
 *     int fd = weft_connect(&proxy.address, WEFT_FOREVER);
 *     ...
 *     proxy_stop(&proxy);
 *
 * A half-close is forwarded after all data before it. Connections that are open at the stop are
 * closed. */
#ifndef WEFT_TEST_NET_PROXY_H
#define WEFT_TEST_NET_PROXY_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <weft/net.h>

#include "check.h"

#define PROXY_MOST 64 /* connections at a time */
#define PROXY_BUFFER 16384
#define PROXY_SEGMENT                                                                              \
    1400 /* as on a real network: loopback segments are larger than a small window */

struct proxy_opts {
    uint64_t seed;
    int segment;     /* writes are of 1 to this many bytes; 0: all available */
    int stall_ms;    /* sometimes it stops reading for up to this long */
    int recv_bytes;  /* receive buffer size, which limits the window; 0: default */
    int reset_after; /* reset both ends after 1 to this many bytes; 0: never */
};

struct proxy_way {
    int from, to;
    char buf[PROXY_BUFFER];
    int used, sent;
    bool ended; /* end of stream at `from` */
    bool shut;  /* and forwarded to `to` */
    double stalled_until;
};

struct proxy_connection {
    struct proxy_way ways[2];
    long left; /* bytes before the reset; -1: no reset */
    bool open;
};

struct proxy {
    struct weft_addr address; /* where clients connect */
    /* private */
    struct weft_addr server;
    struct proxy_opts opts;
    uint64_t random;
    int listener, stop[2];
    pthread_t thread;
    struct proxy_connection connections[PROXY_MOST];
};

/* 1 .. most */
static int proxy_draw(struct proxy *p, int most)
{
    p->random = p->random * 6364136223846793005U + 1442695040888963407U;
    return (int)((p->random >> 33) % (uint64_t)most) + 1;
}

static void proxy_set_segment(int fd)
{
    int bytes = PROXY_SEGMENT;
    CHECK_EQ(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof bytes), 0);
}

static void proxy_tune(const struct proxy *p, int fd)
{
    int on = 1;
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (p->opts.recv_bytes) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &p->opts.recv_bytes, sizeof p->opts.recv_bytes);
    }
}

static void proxy_accept(struct proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) {
        return;
    }
    int server = socket(p->server.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(server >= 0);
    proxy_set_segment(server);
    CHECK_EQ(connect(server, (struct sockaddr *)&p->server.storage, p->server.len), 0);
    proxy_tune(p, client);
    proxy_tune(p, server);
    for (int i = 0; i < PROXY_MOST; i++) {
        struct proxy_connection *c = &p->connections[i];
        if (!c->open) {
            memset(c, 0, sizeof *c);
            c->open = true;
            c->ways[0].from = c->ways[1].to = client;
            c->ways[0].to = c->ways[1].from = server;
            c->left = p->opts.reset_after ? proxy_draw(p, p->opts.reset_after) : -1;
            return;
        }
    }
    CHECK(!"more connections than the proxy is made for");
}

static void proxy_close(struct proxy_connection *c, bool reset)
{
    const struct linger linger = {.l_onoff = 1};
    for (int i = 0; i < 2; i++) {
        if (reset) {
            setsockopt(c->ways[i].from, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        close(c->ways[i].from);
    }
    c->open = false;
}

/* Returns false if one end has broken the connection; the other end is then reset. */
static bool proxy_read(struct proxy *p, struct proxy_way *way)
{
    ssize_t n = recv(way->from, way->buf, sizeof way->buf, 0);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    way->ended = n == 0;
    way->used = (int)n;
    way->sent = 0;
    if (p->opts.stall_ms && proxy_draw(p, 8) == 1) {
        way->stalled_until = check_seconds() + proxy_draw(p, p->opts.stall_ms) / 1e3;
    }
    return true;
}

static bool proxy_write(struct proxy *p, struct proxy_connection *c, struct proxy_way *way)
{
    int most = way->used - way->sent;
    if (p->opts.segment) {
        int n = proxy_draw(p, p->opts.segment);
        most = n < most ? n : most;
    }
    if (c->left >= 0 && most > c->left) {
        most = (int)c->left;
    }
    ssize_t n = most ? send(way->to, way->buf + way->sent, (size_t)most, MSG_NOSIGNAL) : 0;
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    way->sent += (int)n;
    c->left -= c->left >= 0 ? n : 0;
    return c->left != 0;
}

static bool proxy_is_empty(const struct proxy_way *way)
{
    return way->sent == way->used;
}

static bool proxy_step(struct proxy *p, struct proxy_connection *c, struct proxy_way *way,
                       short from, short to)
{
    bool fine = true;
    if (proxy_is_empty(way) && !way->ended && from & (POLLIN | POLLHUP | POLLERR)) {
        fine = proxy_read(p, way);
    }
    if (fine && !proxy_is_empty(way) && to & (POLLOUT | POLLHUP | POLLERR)) {
        fine = proxy_write(p, c, way);
    }
    if (fine && way->ended && !way->shut) {
        way->shut = true;
        shutdown(way->to, SHUT_WR);
    }
    return fine;
}

/* The poll events of one direction at its two ends. */
static void proxy_want(const struct proxy_way *way, double now, short *from, short *to)
{
    if (!proxy_is_empty(way)) {
        *to |= POLLOUT;
    } else if (!way->ended && way->stalled_until <= now) {
        *from |= POLLIN;
    }
}

static void *proxy_run(void *arg)
{
    struct proxy *p = arg;
    struct pollfd asks[2 + 2 * PROXY_MOST];
    for (;;) {
        double now = check_seconds();
        asks[0] = (struct pollfd){.fd = p->stop[0], .events = POLLIN};
        asks[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (int i = 0; i < PROXY_MOST; i++) {
            struct proxy_connection *c = &p->connections[i];
            short client = 0, server = 0;
            if (c->open) {
                proxy_want(&c->ways[0], now, &client, &server);
                proxy_want(&c->ways[1], now, &server, &client);
            }
            asks[2 + 2 * i] = (struct pollfd){client ? c->ways[0].from : -1, client, 0};
            asks[3 + 2 * i] = (struct pollfd){server ? c->ways[1].from : -1, server, 0};
        }
        if (poll(asks, 2 + 2 * PROXY_MOST, p->opts.stall_ms ? 1 : -1) < 0) {
            CHECK_EQ(errno, EINTR);
            continue;
        }
        if (asks[0].revents) {
            return NULL;
        }
        for (int i = 0; i < PROXY_MOST; i++) {
            struct proxy_connection *c = &p->connections[i];
            short client = asks[2 + 2 * i].revents, server = asks[3 + 2 * i].revents;
            if (c->open && (!proxy_step(p, c, &c->ways[0], client, server) ||
                            !proxy_step(p, c, &c->ways[1], server, client))) {
                proxy_close(c, true);
            } else if (c->open && c->ways[0].shut && c->ways[1].shut) {
                proxy_close(c, false);
            }
        }
        if (asks[1].revents) {
            proxy_accept(p);
        }
    }
}

__attribute__((unused)) static void proxy_start(struct proxy *p, const struct weft_addr *server,
                                                const struct proxy_opts *opts)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    memset(p, 0, sizeof *p);
    p->server = *server;
    p->opts = *opts;
    p->random = opts->seed;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(p->listener >= 0);
    proxy_set_segment(p->listener);
    CHECK_EQ(bind(p->listener, (struct sockaddr *)&any, sizeof any), 0);
    CHECK_EQ(listen(p->listener, PROXY_MOST), 0);
    p->address.len = sizeof p->address.storage;
    CHECK_EQ(getsockname(p->listener, (struct sockaddr *)&p->address.storage, &p->address.len), 0);
    CHECK_EQ(pipe2(p->stop, O_CLOEXEC), 0);
    CHECK_EQ(pthread_create(&p->thread, NULL, proxy_run, p), 0);
}

__attribute__((unused)) static void proxy_stop(struct proxy *p)
{
    CHECK_EQ(close(p->stop[1]), 0);
    CHECK_EQ(pthread_join(p->thread, NULL), 0);
    for (int i = 0; i < PROXY_MOST; i++) {
        if (p->connections[i].open) {
            proxy_close(&p->connections[i], true);
        }
    }
    close(p->listener);
    close(p->stop[0]);
}

#endif
