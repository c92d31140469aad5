/* Slow clients: each is disconnected by its own timeout, not early and not much later, while others
 * are served. */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "http/client.h"

#define LIMIT MS(200)
#define WAIT_LIMIT 60 /* seconds */

static int flood(weft_http *req, void *arg)
{
    static char block[65536];
    (void)arg;
    int err = weft_http_begin_response(req, 200);
    for (int i = 0; i < 1000 && !err; i++) {
        err = weft_http_write(req, block, sizeof block, WEFT_FOREVER);
    }
    return err;
}

/* Longer than all limits: a handler's own time does not count. */
static int doze(weft_http *req, void *arg)
{
    (void)arg;
    weft_sleep(weft_after(2 * LIMIT));
    return weft_http_respond(req, 200, NULL, "awake", 5);
}

static void begin(struct served *s, enum weft_driver driver, struct weft_http_server_limits limits)
{
    served_make(s, driver, 2, &(struct weft_http_server_opts){.limits = limits});
    served_route(s, NULL, "/", measure);
    served_route(s, "GET", "/flood", flood);
    served_route(s, "GET", "/doze", doze);
    served_listen(s);
}

static void await_close(struct client *c)
{
    while (client_fill(c)) {
        c->start = c->end;
    }
}

/* Not early; late by the precision (a sixteenth), and by what a busy machine adds. `from`: a time
 * before the server could start to count. */
static void check_time(double from)
{
    double took = check_seconds() - from;
    printf("    ended after %.0f ms\n", took * 1e3);
    CHECK(took >= (double)LIMIT / 1e9 - 0.001);
    CHECK(took < WAIT_LIMIT);
}

/* A client that is never idle for long, unless this thread is delayed: then its connection was
 * rightly closed, and it opens another. */
struct talker {
    struct client c;
    double last, longest; /* when it sent last, and its longest idle time */
    int lost;             /* connections */
};

static void talker_open(struct talker *t, struct served *s)
{
    t->last = check_seconds();
    t->longest = 0;
    t->lost = 0;
    client_open(&t->c, s);
}

/* It has not been idle so long that its connection might have been closed unnoticed. */
static bool talker_is_heard(const struct talker *t, int64_t limit)
{
    return check_seconds() - t->last < (double)limit / 1e9;
}

static void talker_ask(struct talker *t, struct served *s, const char *path)
{
    for (;;) {
        double last = t->last, before = check_seconds();
        struct reply *r = client_ask(&t->c, get(path));
        t->last = before;
        t->longest = check_seconds() - last > t->longest ? check_seconds() - last : t->longest;
        bool again = r->status == 200 && !reply_field(r, "Connection");
        if (!again) {
            client_close(&t->c);
            client_open(&t->c, s);
        }
        if (r->status == 200) {
            return;
        }
        CHECK_EQ(r->status, 0);
        CHECK(t->longest >= (double)LIMIT / 1e9);
        t->lost++;
    }
}

EACH_DRIVER(idle_connection_between_requests_is_closed)
{
    struct served s;
    struct client c;
    static struct talker once, busy;
    begin(&s, driver, (struct weft_http_server_limits){.idle_ns = LIMIT, .requests = 1000000000});
    double from = check_seconds();
    client_open(&c, &s);
    await_close(&c); /* nothing was ever sent */
    check_time(from);
    client_close(&c);
    talker_open(&once, &s);
    talker_open(&busy, &s);
    talker_ask(&once, &s, "/");
    from = check_seconds();
    do { /* an active connection stays, for many times the timeout */
        talker_ask(&busy, &s, "/");
    } while (check_seconds() - from < 4 * (double)LIMIT / 1e9);
    CHECK(client_is_closed(&once.c));
    uint64_t ended = served_stats(&s).idle_timeouts;
    bool others = once.lost || busy.lost || !talker_is_heard(&busy, LIMIT);
    CHECK(others ? ended >= 2 : ended == 2);
    client_close(&once.c);
    talker_ask(&busy, &s, "/doze");
    from = check_seconds();
    talker_ask(&busy, &s, "/");
    await_close(&busy.c);
    check_time(from);
    client_close(&busy.c);
    served_end(&s);
}

/* More than are closed in one batch; some of them close by themselves at that moment. */
EACH_DRIVER(many_connections_going_idle_at_once_are_closed)
{
    enum { CROWD = 200 };
    static struct client crowd[CROWD];
    struct served s;
    static struct talker busy;
    begin(&s, driver, (struct weft_http_server_limits){.idle_ns = LIMIT, .requests = 1000000000});
    talker_open(&busy, &s);
    for (int i = 0; i < CROWD; i++) {
        client_open(&crowd[i], &s);
    }
    double from = check_seconds();
    do {
        talker_ask(&busy, &s, "/");
    } while (check_seconds() - from < (double)LIMIT / 1e9);
    for (int i = 0; i < CROWD; i += 5) {
        client_close(&crowd[i]);
        talker_ask(&busy, &s, "/");
    }
    while (served_stats(&s).open > 1) {
        talker_ask(&busy, &s, "/");
        CHECK(check_seconds() - from < WAIT_LIMIT);
    }
    for (int i = 0; i < CROWD; i++) {
        if (i % 5) {
            CHECK(client_is_closed(&crowd[i]));
            client_close(&crowd[i]);
        }
    }
    CHECK(served_stats(&s).idle_timeouts >= CROWD - CROWD / 5);
    client_close(&busy.c);
    served_end(&s);
}

/* Occupies the worker for longer than the timeout. */
static int hog(weft_http *req, void *arg)
{
    (void)arg;
    double from = check_seconds();
    while (check_seconds() - from < 2 * (double)LIMIT / 1e9) {
    }
    return weft_http_respond(req, 200, NULL, "done", 4);
}

/* False: on a very busy machine this client has been idle for too long. */
static bool wait_for_busy_worker(struct served *s)
{
    static struct talker other;
    static struct client c;
    talker_open(&other, s);
    double from = check_seconds();
    client_open(&c, s);
    double spoke = check_seconds();
    bool heard = client_ask(&c, get("/"))->status == 200;
    CHECK(heard || check_seconds() - from >= (double)LIMIT / 1e9);
    do { /* the server knows since when it is idle */
        talker_ask(&other, s, "/");
    } while (check_seconds() - spoke < (double)LIMIT / 4e9);
    client_send(&other.c, get("/hog"));
    client_send(&c, get("/"));
    bool in_time = talker_is_heard(&other, LIMIT) && check_seconds() - spoke < (double)LIMIT / 1e9;
    bool served = client_reply(&other.c)->status == 200;
    served = client_reply(&c)->status == 200 && served;
    CHECK(served || !heard || !in_time);
    client_close(&c);
    client_close(&other.c);
    return heard && in_time;
}

/* A client that has sent in time is not idle because the server reads late. */
EACH_DRIVER(request_waiting_for_busy_worker_is_not_idle)
{
    struct served s;
    served_make(
        &s, driver, 1,
        &(struct weft_http_server_opts){.limits = {.idle_ns = LIMIT, .requests = 1000000000}});
    served_route(&s, NULL, "/", measure);
    served_route(&s, "GET", "/hog", hog);
    served_listen(&s);
    for (int i = 0; i < 100 && !wait_for_busy_worker(&s); i++) {
    }
    served_end(&s);
}

/* A byte from time to time does not help: the timeout covers the whole head. */
EACH_DRIVER(slow_request_head_times_out)
{
    struct served s;
    struct client c;
    begin(&s, driver, (struct weft_http_server_limits){.header_ns = LIMIT, .linger_ns = MS(1)});
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, get("/"))->status, 200);
    double from = check_seconds();
    const char *text = "GET / HTTP/1.1\r\nHost: t\r\nX: ";
    client_send(&c, text);
    struct pollfd readable = {.fd = c.fd, .events = POLLIN};
    while (poll(&readable, 1, 5) == 0) {
        client_send(&c, "x");
        CHECK(check_seconds() - from < WAIT_LIMIT);
    }
    struct reply *r = client_reply(&c);
    CHECK_EQ(r->status, 408);
    CHECK_STR(reply_field(r, "Connection"), "close");
    check_time(from);
    client_close(&c);
    /* The second of two pipelined requests, of which a part came with the first. */
    client_open(&c, &s);
    client_send(&c, "GET / HTTP/1.1\r\nHost: t\r\n\r\nGET / HT");
    CHECK_EQ(client_reply(&c)->status, 200);
    CHECK_EQ(client_reply(&c)->status, 408);
    client_close(&c);
    CHECK_EQ(served_stats(&s).header_timeouts, 2);
    served_end(&s);
}

EACH_DRIVER(missing_request_body_times_out)
{
    struct served s;
    struct client c;
    begin(&s, driver, (struct weft_http_server_limits){.body_ns = LIMIT, .linger_ns = MS(1)});
    for (int chunked = 0; chunked < 2; chunked++) {
        client_open(&c, &s);
        double from = check_seconds();
        client_send(
            &c, chunked ? "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"
                        : "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
        CHECK_EQ(client_reply(&c)->status, 408);
        check_time(from);
        client_close(&c);
    }
    CHECK_EQ(served_stats(&s).body_timeouts, 2);
    served_end(&s);
}

/* The body arrives without long pauses, but too slowly. */
EACH_DRIVER(request_body_below_min_rate_times_out)
{
    struct served s;
    struct client c;
    begin(&s, driver,
          (struct weft_http_server_limits){
              .body_ns = LIMIT, .body_rate = 100000, .linger_ns = MS(1)});
    client_open(&c, &s);
    double from = check_seconds();
    client_send(&c, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
    struct pollfd readable = {.fd = c.fd, .events = POLLIN};
    while (poll(&readable, 1, 5) == 0) {
        client_send(&c, "x");
        CHECK(check_seconds() - from < WAIT_LIMIT);
    }
    CHECK_EQ(client_reply(&c)->status, 408);
    check_time(from);
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(client_that_does_not_read_is_disconnected)
{
    struct served s;
    struct client c, other;
    begin(&s, driver,
          (struct weft_http_server_limits){
              .write_ns = LIMIT, .write_burst = 1, .requests = 1000000000});
    client_open(&c, &s);
    client_open(&other, &s);
    double from = check_seconds();
    client_send(&c, get("/flood"));
    while (served_stats(&s).write_timeouts == 0) {
        CHECK_EQ(client_ask(&other, get("/"))->status, 200); /* others are served meanwhile */
        CHECK(check_seconds() - from < WAIT_LIMIT);
    }
    check_time(from);
    CHECK(!client_reply(&c)->whole); /* and the client sees that the response is incomplete */
    client_close(&c);
    client_close(&other);
    served_end(&s);
}

/* Many at once, of all kinds; the server responds, and all resources are released. */
EACH_DRIVER(many_slow_clients_are_disconnected_while_others_are_served)
{
    enum { CROWD = 200 };
    static struct client c[CROWD];
    static const char *const starts[] = {
        "",
        "GET / HTTP/1.1\r\nHost: t\r\nX-Slow: ",
        "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\nabc",
        "GET /flood HTTP/1.1\r\nHost: t\r\n\r\n",
    };
    static struct talker good;
    struct served s;
    bool in_time = true; /* each has sent its part before it could count as idle */
    bool heard;          /* and the good client is none of those that were closed */
    begin(&s, driver,
          (struct weft_http_server_limits){.idle_ns = 2 * LIMIT,
                                           .header_ns = LIMIT,
                                           .body_ns = LIMIT,
                                           .write_ns = LIMIT,
                                           .write_burst = 1,
                                           .linger_ns = MS(1)});
    for (int i = 0; i < CROWD; i++) {
        double before = check_seconds();
        client_open(&c[i], &s);
        client_send(&c[i], starts[i % 4]);
        in_time = in_time && check_seconds() - before < 2 * (double)LIMIT / 1e9;
    }
    double from = check_seconds();
    talker_open(&good, &s);
    /* Not .open, which is also low while they still wait to be accepted. */
    struct weft_http_stats stats;
    while (stats = served_stats(&s), heard = talker_is_heard(&good, 2 * LIMIT),
           stats.idle_timeouts + stats.header_timeouts + stats.body_timeouts +
                   stats.write_timeouts <
               CROWD + (uint64_t)good.lost) {
        talker_ask(&good, &s, "/");
        CHECK(check_seconds() - from < WAIT_LIMIT);
    }
    for (int i = 0; i < CROWD; i++) {
        client_close(&c[i]);
    }
    if (in_time && heard && good.lost == 0) {
        CHECK_EQ(stats.idle_timeouts, CROWD / 4);
        CHECK_EQ(stats.header_timeouts, CROWD / 4);
        CHECK_EQ(stats.body_timeouts, CROWD / 4);
        CHECK_EQ(stats.write_timeouts, CROWD / 4);
    }
    client_close(&good.c);
    served_end(&s);
}

/* The shortest and the longest timeouts, and those at which the precision changes. */
TEST(http_timeouts_accept_any_duration)
{
    static const int64_t times[] = {1, 15, 16, S(16), S(65536), S(86400), S(100000000), INT64_MAX};
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        weft_http_server *server;
        struct weft_http_server_opts opts = {.pool = pool,
                                             .limits = {.idle_ns = times[i],
                                                        .header_ns = times[i],
                                                        .body_ns = times[i],
                                                        .write_ns = times[i]}};
        CHECK_EQ(weft_http_server_create(&server, &opts), 0);
        weft_http_server_destroy(server);
    }
    weft_pool_destroy(pool);
}
