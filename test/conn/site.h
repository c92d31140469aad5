/* A server of weft/server.h for tests, and plain clients. */
#ifndef WEFT_TEST_CONN_SITE_H
#define WEFT_TEST_CONN_SITE_H

#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/drivers.h"

#define MS(n) ((n)*INT64_C(1000000))
#define S(n) ((n)*INT64_C(1000000000))

struct site {
    weft_pool *pool;
    weft_server *server;
    struct weft_addr at;
};

__attribute__((unused)) static void make(struct site *s, enum weft_driver driver,
                                         struct weft_server_limits limits)
{
    limits.linger_ns = limits.linger_ns ? limits.linger_ns : S(60);
    CHECK_EQ(weft_pool_create(&s->pool, &(struct weft_pool_opts){.workers = 2, .driver = driver}),
             0);
    CHECK_EQ(weft_pool_start(s->pool), 0);
    CHECK_EQ(weft_server_create(&s->server,
                                &(struct weft_server_opts){.pool = s->pool, .limits = limits}),
             0);
}

__attribute__((unused)) static void serve(struct site *s, const struct weft_protocol *protocol)
{
    CHECK_EQ(weft_server_listen(s->server, &s->at, "127.0.0.1:0", protocol, s), 0);
}

__attribute__((unused)) static struct weft_server_stats stats_of(struct site *s)
{
    struct weft_server_stats stats;
    weft_server_stats(s->server, &stats);
    return stats;
}

__attribute__((unused)) static void end(struct site *s)
{
    CHECK_EQ(weft_server_stop(s->server, weft_after(S(120))), 0);
    CHECK_EQ(stats_of(s).open, 0);
    CHECK_EQ(stats_of(s).output_bytes, 0);
    weft_server_destroy(s->server);
    CHECK_EQ(weft_pool_stop(s->pool, WEFT_STOP_DRAIN, weft_after(S(120))), 0);
    weft_pool_destroy(s->pool);
}

__attribute__((unused)) static int dial(const struct site *s)
{
    struct timeval limit = {.tv_sec = 120};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err;
    do {
        err = connect(fd, (const struct sockaddr *)&s->at.storage, s->at.len);
    } while (err && errno == EINTR);
    CHECK(err == 0 || errno == EISCONN);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

__attribute__((unused)) static void put(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* A ring that this thread has closed may interrupt it. */
__attribute__((unused)) static ssize_t take(int fd, void *buf, size_t n)
{
    ssize_t got;
    do {
        got = recv(fd, buf, n, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* Reads exactly this text. */
__attribute__((unused)) static void expect(int fd, const char *text)
{
    char got[4096];
    size_t n = strlen(text), have = 0;
    CHECK(n < sizeof got);
    while (have < n) {
        ssize_t more = take(fd, got + have, n - have);
        if (more <= 0) {
            break;
        }
        have += (size_t)more;
    }
    got[have] = '\0';
    CHECK_STR(got, text);
}

__attribute__((unused)) static void expect_end(int fd)
{
    char byte;
    CHECK_EQ(take(fd, &byte, 1), 0);
    close(fd);
}

#define AWAIT(condition)                                                                           \
    for (int64_t until = weft_after(S(60)); !(condition);) {                                       \
        CHECK(weft_now() < until);                                                                 \
        sched_yield();                                                                             \
    }

/* --- a protocol that obeys --------------------------------------------------------------------- */

__attribute__((unused)) static int echo(weft_conn *conn, const char *message, size_t n, void *arg)
{
    (void)arg;
    int err = weft_conn_send(conn, "<", 1, WEFT_FOREVER);
    err = err ? err : weft_conn_send(conn, message, n, WEFT_FOREVER);
    return err ? err : weft_conn_send(conn, ">", 1, WEFT_FOREVER);
}

__attribute__((unused)) static atomic_int opened, closed;
__attribute__((unused)) static _Atomic(enum weft_conn_end) closed_why;
__attribute__((unused)) static _Atomic(weft_conn_id) last_id;

__attribute__((unused)) static int note_open(weft_conn *conn, void *arg)
{
    (void)arg;
    weft_conn_set_data(conn, (void *)(uintptr_t)(100 + opened));
    last_id = weft_conn_get_id(conn);
    int err = weft_conn_send(conn, "hi", 2, WEFT_FOREVER);
    opened += !err; /* else it is not open, and is not closed */
    return err;
}

__attribute__((unused)) static void note_close(weft_conn *conn, enum weft_conn_end why, void *arg)
{
    (void)arg;
    CHECK(weft_conn_data(conn) != NULL);
    CHECK_EQ(weft_conn_send(conn, "x", 1, WEFT_FOREVER), -EPIPE);
    closed_why = why;
    closed++;
}

/* Commands of a line. */
__attribute__((unused)) static int obey(weft_conn *conn, const char *line, size_t n, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_conn_data(conn), (void *)(uintptr_t)(100 + opened - 1));
    CHECK(weft_conn_peer(conn)->len > 0);
    if (n == 5 && memcmp(line, "close", 5) == 0) {
        weft_conn_close(conn);
        return weft_conn_send(conn, "bye", 3, WEFT_FOREVER);
    }
    if (n == 5 && memcmp(line, "pause", 5) == 0) {
        weft_conn_pause(conn);
    }
    return n == 4 && memcmp(line, "fail", 4) == 0 ? -EPROTO : echo(conn, line, n, NULL);
}

__attribute__((unused)) static int say_goodbye(weft_conn *conn, void *arg)
{
    (void)arg;
    return weft_conn_send(conn, "goodbye", 7, WEFT_FOREVER);
}

__attribute__((unused)) static const struct weft_protocol obedient = {.framing = WEFT_FRAMING_LINE,
                                                                      .open = note_open,
                                                                      .handle = obey,
                                                                      .goodbye = say_goodbye,
                                                                      .close = note_close};

__attribute__((unused)) static void *stop_in_thread(void *arg)
{
    struct site *s = arg;
    CHECK_EQ(weft_server_stop(s->server, weft_after(S(120))), 0);
    return NULL;
}

__attribute__((unused)) static int send_text(struct site *s, weft_conn_id id, const char *text)
{
    weft_buf *buf = weft_buf_copy(text, strlen(text));
    int err = weft_server_send(s->server, id, buf);
    if (err) {
        weft_buf_free(buf);
    }
    return err;
}

#endif
