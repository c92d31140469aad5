/* Requests and responses: routes, methods, bodies in both directions, keep-alive, pipelining, and
 * mistakes of handlers. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "http/client.h"
#include "http/conn.h"

static int hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", "hello\n", 6);
}

/* "method path?query|value of X-Test" */
static int mirror(weft_http *req, void *arg)
{
    char text[512];
    struct weft_http_text query = weft_http_query(req), field = weft_http_get_header(req, "x-test");
    (void)arg;
    int n = snprintf(text, sizeof text, "%d %s?%.*s|%.*s", weft_http_method(req),
                     weft_http_path(req), (int)query.len, query.data ? query.data : "",
                     (int)field.len, field.data ? field.data : "");
    return weft_http_respond(req, 200, "text/plain", text, (size_t)n);
}

static int echo(weft_http *req, void *arg)
{
    char buf[700];
    ssize_t n;
    (void)arg;
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_header(req, "X-Kind", "echo");
    while (!err && (n = weft_http_read(req, buf, sizeof buf, WEFT_FOREVER)) != 0) {
        if (n < 0) {
            return (int)n;
        }
        err = weft_http_write(req, buf, (size_t)n, WEFT_FOREVER);
    }
    return err;
}

static int large(weft_http *req, void *arg)
{
    static char block[100000];
    (void)arg;
    return weft_http_respond(req, 200, NULL, block, sizeof block);
}

static int counted(weft_http *req, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_http_respond(req, 200, "text/plain\r\nX-Bad: a", "", 0), -EINVAL);
    CHECK_EQ(weft_http_begin_response(req, 201), 0);
    CHECK_EQ(weft_http_set_header(req, "bad name", "x"), -EINVAL);
    CHECK_EQ(weft_http_set_header(req, "X-Bad", "a\r\nb"), -EINVAL);
    CHECK_EQ(weft_http_set_header(req, "", "a"), -EINVAL);
    CHECK_EQ(weft_http_set_header(req, "Content-length", "7"),
             -EINVAL); /* these belong to the server */
    CHECK_EQ(weft_http_set_header(req, "transfer-encoding", "chunked"), -EINVAL);
    CHECK_EQ(weft_http_set_header(req, "Connection", "close"), -EINVAL);
    CHECK_EQ(weft_http_set_header(req, "Date", "now"), -EINVAL);
    CHECK_EQ(weft_http_set_header(req, "X-Good", "a b\tc"), 0);
    CHECK_EQ(weft_http_set_content_length(req, 6), 0);
    CHECK_EQ(weft_http_write(req, "abc", 3, WEFT_FOREVER), 0);
    CHECK_EQ(weft_http_flush(req, WEFT_FOREVER), 0);
    return weft_http_write(req, "def", 3, WEFT_FOREVER);
}

static atomic_int read_timeouts;

/* Reads the body with short deadlines, which are not the server's limits. */
static int read_patiently(weft_http *req, void *arg)
{
    char buf[64], text[32];
    ssize_t n;
    size_t total = 0;
    (void)arg;
    while ((n = weft_http_read(req, buf, sizeof buf, weft_after(MS(1)))) != 0) {
        CHECK(n > 0 || n == -ETIMEDOUT);
        total += n > 0 ? (size_t)n : 0;
        atomic_fetch_add(&read_timeouts, n < 0);
    }
    return weft_http_respond(req, 200, NULL, text,
                             (size_t)snprintf(text, sizeof text, "%zu", total));
}

/* The client reads nothing: a write with a deadline ends, and the connection with it. */
static int write_until_deadline(weft_http *req, void *arg)
{
    static char block[1 << 16];
    int err = weft_http_begin_response(req, 200);
    while (!err) {
        err = weft_http_write(req, block, sizeof block, weft_after(MS(2)));
    }
    *(_Atomic(int) *)arg = err;
    return err;
}

static int too_short(weft_http *req, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_http_begin_response(req, 200), 0);
    CHECK_EQ(weft_http_set_content_length(req, 100), 0);
    return weft_http_write(req, "abc", 3, WEFT_FOREVER);
}

static int fail_early(weft_http *req, void *arg)
{
    (void)req;
    (void)arg;
    return -EIO;
}

/* The response has begun, but nothing was sent: it can still be replaced. */
static int fail_late(weft_http *req, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_http_begin_response(req, 200), 0);
    CHECK_EQ(weft_http_write(req, "abc", 3, WEFT_FOREVER), 0);
    return -ENOMEM;
}

static int fail_too_late(weft_http *req, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_http_begin_response(req, 200), 0);
    CHECK_EQ(weft_http_write(req, "abc", 3, WEFT_FOREVER), 0);
    CHECK_EQ(weft_http_flush(req, WEFT_FOREVER), 0);
    return -EIO;
}

static int nothing(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 204, NULL, NULL, 0);
}

static int say_nothing(weft_http *req, void *arg)
{
    (void)req;
    (void)arg;
    return 0;
}

static _Atomic(time_t) answered_at;

/* Until the wall clock shows another second. */
static int outlast_the_second(weft_http *req, void *arg)
{
    struct timespec now;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    int err = weft_sleep(weft_after(S(1) - now.tv_nsec + MS(20)));
    clock_gettime(CLOCK_REALTIME, &now);
    answered_at = now.tv_sec;
    return err ? err : weft_http_respond(req, 200, NULL, "", 0);
}

static void begin(struct served *s, enum weft_driver driver)
{
    served_make(s, driver, 2, NULL);
    served_route(s, "GET", "/hello", hello);
    served_route(s, NULL, "/any/", mirror);
    served_route(s, "GET", "/any/special/", hello);
    served_route(s, "POST", "/echo", echo);
    served_route(s, "POST", "/measure", measure);
    served_route(s, "GET", "/large", large);
    served_route(s, "GET", "/counted", counted);
    served_route(s, "GET", "/short", too_short);
    served_route(s, "GET", "/fail", fail_early);
    served_route(s, "POST", "/fail", fail_early);
    served_route(s, "GET", "/fail-late", fail_late);
    served_route(s, "GET", "/fail-too-late", fail_too_late);
    served_route(s, "GET", "/nothing", nothing);
    served_route(s, "GET", "/say-nothing", say_nothing);
    served_route(s, "BREW", "/pot", hello);
    served_listen(s);
    CHECK_EQ(weft_http_server_route(s->server, "GET", "/late", hello, NULL, NULL), -EBUSY);
}

EACH_DRIVER(requests_are_routed_by_path_and_method)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, get("/hello"))->status, 200);
    CHECK_STR(client_ask(&c, get("/hello"))->body, "hello\n");
    CHECK_STR(reply_field(client_ask(&c, get("/hello")), "Content-Type"), "text/plain");
    CHECK_EQ(strlen(reply_field(client_ask(&c, get("/hello")), "Date")), 29);
    CHECK_EQ(client_ask(&c, get("/hello/"))->status, 404);
    CHECK_EQ(client_ask(&c, get("/nowhere"))->status, 404);
    CHECK_STR(client_ask(&c, get("/any/a%20b/./c?q=1&r"))->body, "1 /any/a b/c?q=1&r|");
    CHECK_STR(client_ask(&c, get("/any/special/x"))->body, "hello\n");
    CHECK_STR(client_ask(&c, "DELETE /any/y HTTP/1.1\r\nHost: t\r\nX-Test:  v w \r\n\r\n")->body,
              "5 /any/y?|v w");
    CHECK_STR(client_ask(&c, "GET http://t/any/abs HTTP/1.1\r\nHost: t\r\n\r\n")->body,
              "1 /any/abs?|");
    struct reply *r =
        client_ask(&c, "POST /hello HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n");
    CHECK_EQ(r->status, 405);
    CHECK_STR(reply_field(r, "Allow"), "GET, HEAD");
    CHECK_EQ(client_ask(&c, "BREW /pot HTTP/1.1\r\nHost: t\r\n\r\n")->status, 200);
    CHECK_EQ(client_ask(&c, "BREWS /pot HTTP/1.1\r\nHost: t\r\n\r\n")->status, 405);
    CHECK_EQ(client_ask(&c, "OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n")->status, 204);
    client_send(&c, "HEAD /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    r = client_reply_to(&c, true);
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "Content-Length"), "6");
    client_send(&c, "HEAD /counted HTTP/1.1\r\nHost: t\r\n\r\n");
    CHECK_STR(reply_field(client_reply_to(&c, true), "Content-Length"), "6");
    CHECK_EQ(client_ask(&c, get("/nothing"))->status, 204);
    CHECK_EQ(client_ask(&c, get("/hello"))->status, 200); /* still the same connection */
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(streamed_and_large_responses_are_sent_whole)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    struct reply *r = client_ask(&c, get("/counted"));
    CHECK_EQ(r->status, 201);
    CHECK_STR(r->body, "abcdef");
    CHECK_STR(reply_field(r, "X-Good"), "a b\tc");
    CHECK(!reply_field(r, "X-Bad"));
    r = client_ask(&c, get("/large"));
    CHECK_EQ(r->len, 100000);
    CHECK(!reply_field(r, "Content-Type"));
    CHECK_EQ(client_ask(&c, get("/hello"))->status, 200);
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(bodies_are_streamed_in_both_directions)
{
    struct served s;
    struct client c;
    char *body = malloc(60001);
    begin(&s, driver);
    client_open(&c, &s);
    for (int i = 0; i < 60000; i++) {
        body[i] = (char)('a' + i % 26);
    }
    body[60000] = '\0';
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n");
    client_send(&c, body);
    struct reply *r = client_reply(&c);
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "X-Kind"), "echo");
    CHECK_STR(reply_field(r, "Transfer-Encoding"), "chunked");
    CHECK(r->whole && strcmp(r->body, body) == 0);
    /* In chunks of 1, 2, 3 ... bytes; a piece is echoed before the next is sent: neither side waits
     * for the whole body. */
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 1, at = 0; at + i < 60000; at += i, i += 37) {
        char size[16];
        snprintf(size, sizeof size, "%x\r\n", i);
        client_send(&c, size);
        client_send_bytes(&c, body + at, (size_t)i);
        client_send(&c, "\r\n");
    }
    client_send(&c, "0\r\nX-Trailer: 1\r\n\r\n");
    r = client_reply(&c);
    CHECK(r->whole && r->len > 50000 && strncmp(r->body, body, r->len) == 0);
    /* The bytes after a chunked body are the next request. */
    client_send(&c, "POST /measure HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nabcde\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    CHECK_STR(client_reply(&c)->body, "5");
    CHECK_STR(client_reply(&c)->body, "hello\n");
    client_close(&c);
    free(body);
    served_end(&s);
}

EACH_DRIVER(unread_request_body_is_discarded)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    CHECK_EQ(
        client_ask(&c, "POST /any/x HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nabcde")->status,
        200);
    CHECK_EQ(client_ask(&c, "POST /any/x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\nabc\r\n0\r\n\r\n")
                 ->status,
             200);
    CHECK_EQ(client_ask(&c, get("/hello"))->status, 200);
    client_send(&c, "POST /any/x HTTP/1.1\r\nHost: t\r\nContent-Length: 900000\r\n\r\nabcde");
    struct reply *r = client_reply(&c);
    CHECK_EQ(r->status, 200); /* much is left: the connection is closed instead */
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed(&c));
    client_close(&c);
    client_open(&c, &s);
    client_send(&c, "POST /hello HTTP/1.1\r\nHost: t\r\nContent-Length: 900000\r\n\r\nabcde");
    r = client_reply(&c);
    CHECK_EQ(r->status, 405);
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed(&c));
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(expect_100_continue_is_answered_before_body)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, "POST /measure HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n"
                            "Expect: 100-continue\r\n\r\n")
                 ->status,
             100);
    client_send(&c, "abc");
    CHECK_STR(client_reply(&c)->body, "3");
    /* A body that has already arrived needs no "100 Continue". */
    CHECK_EQ(client_ask(&c, "POST /measure HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n"
                            "Expect: 100-continue\r\n\r\nabc")
                 ->status,
             200);
    /* A handler that reads none of the body: the final response is sent at once, and the connection
     * is not reused. */
    struct reply *r = client_ask(&c, "POST /any/x HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n"
                                     "Expect: 100-continue\r\n\r\n");
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed(&c));
    client_close(&c);
    client_open(&c, &s); /* 413 is sent before the body is sent */
    CHECK_EQ(client_ask(&c, "POST /measure HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\n"
                            "Expect: 100-continue\r\n\r\n")
                 ->status,
             413);
    CHECK(client_is_closed(&c));
    client_close(&c);
    CHECK_EQ(ask_once(&s, "GET /hello HTTP/1.1\r\nHost: t\r\nExpect: tea\r\n\r\n")->status, 417);
    served_end(&s);
}

EACH_DRIVER(connection_header_decides_keep_alive)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    struct reply *r = client_ask(&c, "GET /hello HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed(&c));
    client_close(&c);
    client_open(&c, &s);
    r = client_ask(&c, "GET /hello HTTP/1.0\r\n\r\n");
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed(&c));
    client_close(&c);
    client_open(&c, &s);
    r = client_ask(&c, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK_STR(reply_field(r, "Connection"), "keep-alive");
    CHECK_EQ(client_ask(&c, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")->status, 200);
    /* HTTP/1.0 has no chunks: the end of the connection is the end of the body. */
    client_send(&c,
                "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc");
    r = client_reply(&c);
    CHECK(!reply_field(r, "Transfer-Encoding"));
    CHECK_STR(r->body, "abc");
    CHECK(client_is_closed(&c));
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(pipelined_responses_are_ordered_and_batched)
{
    struct served s;
    struct client c;
    char *text = malloc(1 << 16);
    size_t used = 0;
    begin(&s, driver);
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, get("/hello"))->status, 200);
    uint64_t before = served_stats(&s).flushes;
    for (int i = 0; i < 48; i++) {
        used += (size_t)sprintf(text + used, "GET /any/%d HTTP/1.1\r\nHost: t\r\n\r\n", i);
    }
    client_send_bytes(&c, text, used);
    for (int i = 0; i < 48; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "1 /any/%d?|", i);
        CHECK_STR(client_reply(&c)->body, wanted);
    }
    /* Sent at once, it arrives in one piece or in a few. */
    CHECK(served_stats(&s).flushes - before <= 6);
    /* Byte by byte. */
    used = (size_t)sprintf(
        text, "GET /any/a HTTP/1.1\r\nHost: t\r\n\r\nGET /any/b HTTP/1.1\r\nHost: t\r\n\r\n");
    for (size_t i = 0; i < used; i++) {
        client_send_bytes(&c, text + i, 1);
    }
    CHECK_STR(client_reply(&c)->body, "1 /any/a?|");
    CHECK_STR(client_reply(&c)->body, "1 /any/b?|");
    client_close(&c);
    free(text);
    served_end(&s);
}

EACH_DRIVER(failing_handler_yields_error_status_or_reset)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, get("/fail"))->status, 500);
    CHECK_EQ(client_ask(&c, get("/fail-late"))->status, 503);
    CHECK_EQ(client_ask(&c, get("/say-nothing"))->status, 500);
    CHECK_EQ(client_ask(&c, get("/hello"))->status, 200);
    struct reply *r = client_ask(&c, get("/fail-too-late"));
    CHECK_EQ(r->status, 200);
    CHECK(!r->whole);
    client_close(&c);
    client_open(&c, &s);
    CHECK(!client_ask(&c, get("/short"))->whole);
    client_close(&c);
    /* A response that is buffered before a failed one is complete, and arrives. */
    client_open(&c, &s);
    client_send(&c, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\nGET /short HTTP/1.1\r\nHost: t\r\n\r\n");
    CHECK_STR(client_reply(&c)->body, "hello\n");
    CHECK(!client_reply(&c)->whole);
    client_close(&c);
    /* Where the end of the connection is the end of the body, a failure resets the connection. */
    client_open(&c, &s);
    client_send(&c, "GET /fail-too-late HTTP/1.0\r\n\r\n");
    char byte;
    ssize_t n;
    while ((n = recv(c.fd, &byte, 1, 0)) > 0 || (n < 0 && errno == EINTR)) {
    }
    CHECK(n < 0 && errno == ECONNRESET);
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(bad_request_gets_error_status_and_close)
{
    static const struct {
        const char *text;
        int status;
    } bad[] = {
        {"nonsense\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: t\r\n\r\n", 505},
        {"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /../x HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\n", 501},
        {"POST /measure HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
    };
    struct served s;
    struct client c;
    begin(&s, driver);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        client_open(&c, &s);
        /* The bytes sent after it must not be parsed as a request. */
        client_send(&c, bad[i].text);
        client_send(&c, get("/hello"));
        struct reply *r = client_reply(&c);
        CHECK_EQ(r->status, bad[i].status);
        CHECK_STR(reply_field(r, "Connection"), "close");
        CHECK(client_is_closed(&c));
        client_close(&c);
    }
    CHECK(served_stats(&s).bad >= 6);
    served_end(&s);
}

/* The client disconnects in the middle of everything: nothing leaks. */
EACH_DRIVER(client_disconnect_at_any_point_leaks_nothing)
{
    static const char *const starts[] = {
        "",
        "GET /hel",
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nabc",
        "POST /measure HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "GET /large HTTP/1.1\r\nHost: t\r\n\r\n",
    };
    struct served s;
    struct client c;
    begin(&s, driver);
    for (int i = 0; i < 50; i++) {
        client_open(&c, &s);
        client_send(&c, starts[i % 5]);
        if (i % 2) { /* by a reset */
            struct linger now = {.l_onoff = 1};
            setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        client_close(&c);
    }
    CHECK_EQ(ask_once(&s, get("/hello"))->status, 200);
    served_end(&s);
}

/* Old clients send an empty line after a body: this must not make a reset discard the response. */
/* The client may send for a long time before it reads. */
EACH_DRIVER(client_still_sending_after_error_sees_no_reset)
{
    static char block[1 << 20];
    const struct weft_http_server_limits limits = {.linger_ns = INT64_C(300000000000)};
    struct weft_http_stats stats;
    struct served s;
    struct client c;
    int err = 0;
    served_make(&s, driver, 1, &(struct weft_http_server_opts){.limits = limits});
    served_listen(&s);
    client_open(&c, &s);
    client_send(&c, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2000000\r\n\r\n");
    for (size_t sent = 0; sent < sizeof block;) {
        ssize_t n = send(c.fd, block, sizeof block - sent, MSG_NOSIGNAL);
        CHECK(n > 0 || errno == EINTR);
        sent += n > 0 ? (size_t)n : 0;
    }
    shutdown(c.fd, SHUT_WR);
    do { /* until the server has closed it */
        usleep(1000);
        weft_http_server_stats(s.server, &stats);
    } while (stats.accepted == 0 || stats.open > 0);
    CHECK_EQ(getsockopt(c.fd, SOL_SOCKET, SO_ERROR, &err, &(socklen_t){sizeof err}), 0);
    CHECK_EQ(err, 0);
    CHECK_EQ(client_reply(&c)->status, 413);
    CHECK(client_is_closed_gently(&c));
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(bytes_after_last_body_cause_no_reset)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, "POST /measure HTTP/1.1\r\nHost: t\r\nConnection: close\r\n"
                            "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
                 ->status,
             100);
    client_send(&c, "abc\r\n");
    CHECK_STR(client_reply(&c)->body, "3");
    CHECK(client_is_closed_gently(&c));
    client_close(&c);
    served_end(&s);
}

/* A half-closed client still gets its response. */
EACH_DRIVER(half_closed_client_gets_response)
{
    struct served s;
    struct client c;
    begin(&s, driver);
    client_open(&c, &s);
    client_send(&c, get("/hello"));
    shutdown(c.fd, SHUT_WR);
    CHECK_EQ(client_reply(&c)->status, 200);
    CHECK(client_is_closed(&c));
    client_close(&c);
    served_end(&s);
}

static void keep_last(const struct weft_http_record *record, void *arg)
{
    snprintf(arg, 256, "%.*s %.*s %d %d %llu %.*s", record->method_len, record->method,
             record->target_len, record->target, record->minor, record->status,
             (unsigned long long)record->sent, record->agent_len,
             record->agent ? record->agent : "");
}

EACH_DRIVER(on_request_is_called_for_each_request)
{
    struct served s;
    char last[256] = "";
    served_make(&s, driver, 1,
                &(struct weft_http_server_opts){.on_request = keep_last, .arg = last});
    served_route(&s, "GET", "/hello", hello);
    served_listen(&s);
    CHECK_EQ(ask_once(&s, "GET /hello?x HTTP/1.1\r\nHost: t\r\nUser-Agent: a/1\r\n\r\n")->status,
             200);
    served_end(&s);
    CHECK_STR(last, "GET /hello?x 1 200 6 a/1");
    served_make(&s, driver, 1,
                &(struct weft_http_server_opts){.on_request = keep_last, .arg = last});
    served_listen(&s);
    CHECK_EQ(ask_once(&s, "junk\r\n\r\n")->status, 400);
    served_end(&s);
    CHECK_EQ(strncmp(last, "- - 1 400 ", 10), 0);
}

/* A response with less than the announced length. */
static int short_file(weft_http *req, void *arg)
{
    (void)arg;
    int fd = memfd_create("short", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, 100), 0);
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_content_length(req, 1000);
    err = err ? err : weft_http_send_file(req, fd, 0, 1000, WEFT_FOREVER);
    close(fd);
    return err;
}

EACH_DRIVER(truncated_file_response_is_logged_with_bytes_sent)
{
    struct served s;
    struct client c;
    char last[256] = "";
    served_make(&s, driver, 1,
                &(struct weft_http_server_opts){.on_request = keep_last, .arg = last});
    served_route(&s, "GET", "/short", short_file);
    served_listen(&s);
    client_open(&c, &s);
    client_send(&c, get("/short"));
    while (client_fill(&c)) { /* until it is closed */
    }
    client_close(&c);
    served_end(&s);
    CHECK_STR(last, "GET /short 1 200 100 ");
}

/* Refused requests are what people search a log for. */
EACH_DRIVER(refused_request_is_logged_as_far_as_parsed)
{
    static const struct {
        const char *request, *told;
    } cases[] = {
        {"GET /a?b HTTP/1.1\r\nUser-Agent: a/1\r\n\r\n", "GET /a?b 1 400 "}, /* no Host */
        {"GET /a HTTP/1.0\r\nX : y\r\n\r\n", "GET /a 0 400 "},
        {"GET a HTTP/1.1\r\nHost: t\r\n\r\n", "GET a 1 400 "}, /* refused at the target */
        {"GET /a HTTP/1.1\r\n", "GET /a 1 408 "},
        {"GET /a HTTP/1.1", "- - 1 408 "}, /* no complete line */
        {"GET /a HTTP/1.2\r\nHost: t\r\n\r\n", "- - 1 505 "},
        {"GET /a\r\nHost: t\r\n\r\n", "- - 1 400 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct served s;
        char last[256] = "";
        served_make(&s, driver, 1,
                    &(struct weft_http_server_opts){
                        .on_request = keep_last,
                        .arg = last,
                        .limits.header_ns = 10000000,
                    });
        served_listen(&s);
        ask_once(&s, cases[i].request);
        served_end(&s);
        last[strlen(cases[i].told)] = '\0';
        CHECK_STR(last, cases[i].told);
    }
}

/* However long ago its request arrived. */
TEST(response_date_is_time_of_response)
{
    struct served s;
    served_make(&s, WEFT_DRIVER_AUTO, 1, NULL);
    served_route(&s, "GET", "/", outlast_the_second);
    served_route(&s, "GET", "/hello", hello);
    served_listen(&s);
    CHECK_EQ(ask_once(&s, get("/hello"))->status, 200); /* the worker has a cached date now */
    const char *date = reply_field(ask_once(&s, get("/")), "Date");
    int64_t seconds = 0;
    CHECK_EQ(weft_http_date_parse(&seconds, date, strlen(date), 0), 0);
    CHECK(seconds >= answered_at);
    served_end(&s);
}

static int turns, turns_in_flood;
static bool flooded;

static void *take_turns(void *arg)
{
    while (!flooded) {
        turns++;
        weft_yield();
    }
    return arg;
}

/* Streaming to a client that reads faster than the server can write; datagrams to a socket that
 * drops them stand in for the client. */
static int flood(weft_http *req, void *arg)
{
    static char block[32768];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof to;
    int deaf = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int pipe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)arg;
    CHECK_EQ(bind(deaf, (struct sockaddr *)&to, len), 0);
    CHECK_EQ(getsockname(deaf, (struct sockaddr *)&to, &len), 0);
    CHECK_EQ(connect(pipe, (struct sockaddr *)&to, len), 0);
    CHECK_EQ(weft_http_begin_response(req, 200), 0);
    CHECK_EQ(weft_spawn(NULL, take_turns, NULL, NULL), 0);
    weft_yield(); /* it has started */
    CHECK(dup3(pipe, req->conn->turn.fd, O_CLOEXEC) >= 0);
    close(pipe);
    int before = turns;
    for (int i = 0; i < 512; i++) { /* 16 MiB */
        CHECK_EQ(weft_http_write(req, block, sizeof block, WEFT_FOREVER), 0);
    }
    turns_in_flood = turns - before;
    flooded = true;
    close(deaf);
    return -EIO;
}

TEST(fast_reading_client_does_not_starve_worker)
{
    struct served s;
    served_make(&s, WEFT_DRIVER_EPOLL, 1, NULL);
    served_route(&s, "GET", "/", flood);
    served_listen(&s);
    CHECK_EQ(ask_once(&s, get("/"))->status, 0);
    served_end(&s);
    printf("    %d turns of others\n", turns_in_flood);
    /* Without the yields none. Usually 16; fewer if the machine takes the CPU away meanwhile. */
    CHECK(turns_in_flood >= 3);
}

TEST(http_server_bad_options_are_einval)
{
    weft_http_server *server;
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_http_server_create(&server, NULL), -EINVAL); /* no pool */
    CHECK_EQ(weft_http_server_create(
                 &server, &(struct weft_http_server_opts){.pool = pool, .limits.line_bytes = 10}),
             -EINVAL);
    CHECK_EQ(weft_http_server_create(
                 &server, &(struct weft_http_server_opts){.pool = pool, .limits.idle_ns = -1}),
             -EINVAL);
    CHECK_EQ(weft_http_server_create(&server, &(struct weft_http_server_opts){.pool = pool}), 0);
    CHECK_EQ(weft_http_server_route(server, "GET", "", hello, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_server_route(server, "GET", "x", hello, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_server_route(server, "GET", "/x", NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_server_listen(server, NULL, "nowhere"), -EINVAL);
    CHECK_EQ(weft_http_server_stop(server, 0), 0);
    weft_http_server_destroy(server);
    weft_http_server_destroy(NULL);
    weft_pool_destroy(pool);
}

/* Counted and chunked bodies: the handler may continue after its own deadline. */
EACH_DRIVER(body_read_after_handler_deadline_continues)
{
    static const char *const heads[] = {
        "POST /patient HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n",
        "POST /patient HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"};
    static const char *const parts[][2] = {{"abc", "def"},
                                           {"3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"}};
    struct served s;
    struct client c;
    served_make(&s, driver, 1, NULL);
    served_route(&s, "POST", "/patient", read_patiently);
    served_listen(&s);
    client_open(&c, &s);
    for (int i = 0; i < 2; i++) {
        atomic_store(&read_timeouts, 0);
        client_send(&c, heads[i]);
        client_send(&c, parts[i][0]);
        while (atomic_load(&read_timeouts) < 3) {
            sched_yield();
        }
        struct reply *reply = client_ask(&c, parts[i][1]);
        CHECK_EQ(reply->status, 200);
        CHECK_STR(reply->body, "6");
    }
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(body_write_ends_at_handler_deadline)
{
    struct served s;
    struct client c;
    _Atomic(int) err = 0;
    served_make(&s, driver, 1, NULL);
    CHECK_EQ(weft_http_server_route(s.server, "GET", "/endless", write_until_deadline, &err, NULL),
             0);
    served_listen(&s);
    client_open(&c, &s);
    client_send(&c, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
    while (!atomic_load(&err)) {
        sched_yield();
    }
    CHECK_EQ(atomic_load(&err), -ETIMEDOUT);
    client_close(&c);
    served_end(&s);
}
