/* For tests of the HTTP server: a server on a driver, and a client on a plain thread that sends
 * exactly the given bytes. */
#ifndef WEFT_TEST_HTTP_CLIENT_H
#define WEFT_TEST_HTTP_CLIENT_H

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <strings.h>
#include <sys/socket.h>

#include <weft/weft.h>

#include "io/drivers.h"

#define S(n) ((n)*INT64_C(1000000000))
#define MS(n) ((n)*INT64_C(1000000))

/* --- a server --------------------------------------------------------------------------------- */

struct served {
    weft_pool *pool;
    weft_http_server *server;
    struct weft_addr at;
};

/* Created without a route or listener. opts->pool is filled in. */
__attribute__((unused)) static void served_make(struct served *s, enum weft_driver driver,
                                                unsigned workers,
                                                const struct weft_http_server_opts *opts)
{
    struct weft_http_server_opts with = {0};
    if (opts) {
        with = *opts;
    }
    CHECK_EQ(
        weft_pool_create(&s->pool, &(struct weft_pool_opts){.workers = workers, .driver = driver}),
        0);
    CHECK_EQ(weft_pool_start(s->pool), 0);
    with.pool = s->pool;
    CHECK_EQ(weft_http_server_create(&s->server, &with), 0);
}

__attribute__((unused)) static void served_route(struct served *s, const char *method,
                                                 const char *path, weft_http_fn fn)
{
    CHECK_EQ(weft_http_server_route(s->server, method, path, fn, NULL, NULL), 0);
}

/* A handler: reads the whole body, then responds with its length. */
__attribute__((unused)) static int measure(weft_http *req, void *arg)
{
    char buf[1000], text[32];
    ssize_t n;
    unsigned long total = 0;
    (void)arg;
    while ((n = weft_http_read(req, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        total += (unsigned long)n;
    }
    if (n < 0) {
        return (int)n;
    }
    return weft_http_respond(req, 200, "text/plain", text,
                             (size_t)snprintf(text, sizeof text, "%lu", total));
}

__attribute__((unused)) static void served_listen(struct served *s)
{
    CHECK_EQ(weft_http_server_listen(s->server, &s->at, "127.0.0.1:0"), 0);
}

__attribute__((unused)) static struct weft_http_stats served_stats(struct served *s)
{
    struct weft_http_stats stats;
    weft_http_server_stats(s->server, &stats);
    return stats;
}

__attribute__((unused)) static void served_end(struct served *s)
{
    CHECK_EQ(weft_http_server_stop(s->server, weft_after(S(120))), 0);
    CHECK_EQ(served_stats(s).open, 0);
    weft_http_server_destroy(s->server);
    CHECK_EQ(weft_pool_stop(s->pool, WEFT_STOP_DRAIN, weft_after(S(120))), 0);
    weft_pool_destroy(s->pool);
}

/* --- a client --------------------------------------------------------------------------------- */

struct client {
    int fd;
    size_t start, end;
    char buf[1 << 16];
};

struct reply {
    int status; /* 0: the connection ended before there was one */
    char head[8192];
    size_t len; /* of the body */
    char body[1 << 17];
    bool whole; /* the body ended as its framing says */
};

__attribute__((unused)) static void client_open_to(struct client *c, const struct weft_addr *at)
{
    struct timeval patience = {.tv_sec = 120};
    c->start = c->end = 0;
    c->fd = socket(at->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(c->fd >= 0);
    int err = connect(c->fd, (const struct sockaddr *)&at->storage, at->len);
    if (err && errno == EINTR) {
        struct pollfd done = {.fd = c->fd, .events = POLLOUT};
        while (poll(&done, 1, -1) < 0) {
        }
        err = 0;
    }
    CHECK_EQ(err, 0);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

__attribute__((unused)) static void client_open(struct client *c, const struct served *s)
{
    client_open_to(c, &s->at);
}

__attribute__((unused)) static void client_close(struct client *c)
{
    close(c->fd);
}

/* The server may be gone: then nothing more is sent. */
__attribute__((unused)) static bool client_send_bytes(struct client *c, const void *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t put = send(c->fd, (const char *)bytes + done, n - done, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        done += (size_t)put;
    }
    return true;
}

__attribute__((unused)) static bool client_send(struct client *c, const char *text)
{
    return client_send_bytes(c, text, strlen(text));
}

/* Reads more bytes into the buffer. Returns false at the end of stream or a reset. Two minutes
 * without data are a failure. */
__attribute__((unused)) static bool client_fill(struct client *c)
{
    if (c->start == c->end) {
        c->start = c->end = 0;
    } else if (c->end == sizeof c->buf) {
        memmove(c->buf, c->buf + c->start, c->end - c->start);
        c->end -= c->start;
        c->start = 0;
    }
    CHECK(c->end < sizeof c->buf);
    ssize_t n;
    do { /* a ring that this thread has closed may interrupt it */
        n = recv(c->fd, c->buf + c->end, sizeof c->buf - c->end, 0);
    } while (n < 0 && errno == EINTR);
    CHECK(!(n < 0 && errno == EAGAIN));
    if (n <= 0) {
        return false;
    }
    c->end += (size_t)n;
    return true;
}

/* A line without its terminator; NULL if none came. */
__attribute__((unused)) static char *client_line(struct client *c)
{
    for (;;) {
        char *from = c->buf + c->start;
        char *lf = memchr(from, '\n', c->end - c->start);
        if (lf) {
            CHECK(lf > from && lf[-1] == '\r');
            lf[-1] = '\0';
            c->start = (size_t)(lf + 1 - c->buf);
            return from;
        }
        if (!client_fill(c)) {
            return NULL;
        }
    }
}

__attribute__((unused)) static bool client_body_bytes(struct client *c, struct reply *r, size_t n)
{
    while (n) {
        if (c->start == c->end && !client_fill(c)) {
            return false;
        }
        size_t part = c->end - c->start < n ? c->end - c->start : n;
        size_t room = sizeof r->body - 1 - r->len;
        memcpy(r->body + r->len, c->buf + c->start, part < room ? part : room);
        r->len += part < room ? part : room;
        c->start += part;
        n -= part;
    }
    return true;
}

__attribute__((unused)) static bool client_chunks(struct client *c, struct reply *r)
{
    for (;;) {
        const char *line = client_line(c);
        if (!line) {
            return false;
        }
        size_t n = strtoul(line, NULL, 16);
        if (n && !client_body_bytes(c, r, n)) {
            return false;
        }
        line = client_line(c);
        if (!line) {
            return false;
        }
        CHECK_STR(line, "");
        if (!n) {
            return true;
        }
    }
}

/* The value of a field of the reply, in a buffer that the next call reuses; NULL if there is
 * none. */
__attribute__((unused)) static const char *reply_field(const struct reply *r, const char *name)
{
    static char value[1024];
    size_t len = strlen(name);
    for (const char *at = r->head; *at; at += strcspn(at, "\n") + 1) {
        if (strncasecmp(at, name, len) == 0 && at[len] == ':') {
            at += len + 1 + strspn(at + len + 1, " ");
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\n"), at);
            return value;
        }
        if (!at[strcspn(at, "\n")]) {
            break;
        }
    }
    return NULL;
}

/* Reads one reply; `head`: a reply to HEAD, without a body. */
__attribute__((unused)) static struct reply *client_reply_to(struct client *c, bool head)
{
    static struct reply r;
    const char *line;
    size_t used = 0;
    r.status = 0;
    r.len = 0;
    r.whole = false;
    r.head[0] = '\0';
    while ((line = client_line(c)) && *line) {
        if (!r.status) {
            CHECK_EQ(sscanf(line, "HTTP/1.1 %d ", &r.status), 1);
        }
        used += (size_t)snprintf(r.head + used, sizeof r.head - used, "%s\n", line);
    }
    const char *length = reply_field(&r, "Content-Length");
    if (!line) {
        CHECK_EQ(r.status, 0); /* a head is never sent in part */
    } else if (head || r.status == 204 || r.status == 304 || r.status < 200) {
        r.whole = true;
    } else if (length) {
        r.whole = client_body_bytes(c, &r, strtoul(length, NULL, 10));
    } else if (reply_field(&r, "Transfer-Encoding")) {
        r.whole = client_chunks(c, &r);
    } else {
        while (client_body_bytes(c, &r, 1)) {
        }
        r.whole = true;
    }
    r.body[r.len] = '\0';
    return &r;
}

__attribute__((unused)) static struct reply *client_reply(struct client *c)
{
    return client_reply_to(c, false);
}

__attribute__((unused)) static struct reply *client_ask(struct client *c, const char *request)
{
    client_send(c, request);
    return client_reply(c);
}

/* Nothing more arrives, and the connection is closed. */
__attribute__((unused)) static bool client_is_closed(struct client *c)
{
    return c->start == c->end && !client_fill(c);
}

/* The same, by the end of stream: a reset could have discarded a response that was not read yet. */
__attribute__((unused)) static bool client_is_closed_gently(struct client *c)
{
    char byte;
    ssize_t n;
    CHECK_EQ(c->start, c->end);
    do {
        n = recv(c->fd, &byte, 1, 0);
    } while (n < 0 && errno == EINTR);
    return n == 0;
}

/* A whole conversation on its own connection: returns the status of the first reply. */
__attribute__((unused)) static struct reply *ask_once(const struct served *s, const char *request)
{
    static struct client c;
    client_open(&c, s);
    struct reply *r = client_ask(&c, request);
    client_close(&c);
    return r;
}

/* "GET path", Host, and the end of the head. */
__attribute__((unused)) static const char *get(const char *path)
{
    static char text[1 << 16];
    CHECK(snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path) <
          (int)sizeof text);
    return text;
}

#endif
