/* Each limit: just below it, at it, and above it. */
#include "http/client.h"

static void begin(struct served *s, enum weft_driver driver,
                  const struct weft_http_server_limits *limits)
{
    struct weft_http_server_opts opts = {0};
    if (limits) {
        opts.limits = *limits;
    }
    served_make(s, driver, 1, &opts);
    served_route(s, NULL, "/", measure);
    CHECK_EQ(weft_http_server_route(s->server, "PUT", "/large", measure, NULL,
                                    &(struct weft_http_route_opts){.body_bytes = 3 << 20}),
             0);
    served_listen(s);
}

/* A request whose line has this many bytes. */
static const char *with_line(size_t n)
{
    static char text[20100], path[20000];
    memset(path, 'p', n);
    path[0] = '/';
    path[n - strlen("GET  HTTP/1.1")] = '\0';
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
    return text;
}

/* A request whose fields, with the empty line, have this many bytes. */
static const char *with_header(size_t n)
{
    static char text[40100], value[40000];
    memset(value, 'v', n);
    value[n - strlen("Host: t\r\nX: \r\n\r\n")] = '\0';
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: t\r\nX: %s\r\n\r\n", value);
    return text;
}

static const char *with_fields(int n)
{
    static char text[20000];
    size_t used = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: t\r\n");
    for (int i = 1; i < n; i++) {
        used += (size_t)sprintf(text + used, "X-%d: v\r\n", i);
    }
    strcpy(text + used, "\r\n");
    return text;
}

EACH_DRIVER(request_line_and_header_limits_are_exact)
{
    struct served s;
    begin(&s, driver, NULL);
    CHECK_EQ(ask_once(&s, with_line(8191))->status, 200);
    CHECK_EQ(ask_once(&s, with_line(8192))->status, 200);
    CHECK_EQ(ask_once(&s, with_line(8193))->status, 414);
    CHECK_EQ(ask_once(&s, with_header(16383))->status, 200);
    CHECK_EQ(ask_once(&s, with_header(16384))->status, 200);
    CHECK_EQ(ask_once(&s, with_header(16385))->status, 431);
    CHECK_EQ(ask_once(&s, with_fields(99))->status, 200);
    CHECK_EQ(ask_once(&s, with_fields(100))->status, 200);
    CHECK_EQ(ask_once(&s, with_fields(101))->status, 431);
    served_end(&s);
    begin(&s, driver,
          &(struct weft_http_server_limits){.line_bytes = 100, .header_bytes = 200, .fields = 5});
    CHECK_EQ(ask_once(&s, with_line(100))->status, 200);
    CHECK_EQ(ask_once(&s, with_line(101))->status, 414);
    CHECK_EQ(ask_once(&s, with_header(200))->status, 200);
    CHECK_EQ(ask_once(&s, with_header(201))->status, 431);
    CHECK_EQ(ask_once(&s, with_fields(5))->status, 200);
    CHECK_EQ(ask_once(&s, with_fields(6))->status, 431);
    served_end(&s);
    begin(&s, driver,
          &(struct weft_http_server_limits){
              .line_bytes = 9000, .header_bytes = 32000, .fields = 300});
    CHECK_EQ(ask_once(&s, with_line(9000))->status, 200);
    CHECK_EQ(ask_once(&s, with_header(32000))->status, 200);
    CHECK_EQ(ask_once(&s, with_fields(300))->status, 200);
    CHECK_EQ(ask_once(&s, with_fields(301))->status, 431);
    served_end(&s);
}

static int send_body(struct served *s, const char *method_path, size_t n, bool chunked)
{
    static struct client c;
    static char block[65536];
    char head[256];
    client_open(&c, s);
    snprintf(head, sizeof head, "%s HTTP/1.1\r\nHost: t\r\n", method_path);
    client_send(&c, head);
    snprintf(head, sizeof head,
             chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: %zu\r\n\r\n", n);
    client_send(&c, head);
    for (size_t left = n, part; left; left -= part) {
        part = left < sizeof block ? left : sizeof block;
        snprintf(head, sizeof head, "%zx\r\n", part);
        if ((chunked && !client_send(&c, head)) || !client_send_bytes(&c, block, part) ||
            (chunked && !client_send(&c, "\r\n"))) {
            break;
        }
    }
    if (chunked) {
        client_send(&c, "0\r\n\r\n");
    }
    struct reply *r = client_reply(&c);
    CHECK(r->status != 200 || strtoul(r->body, NULL, 10) == n);
    client_close(&c);
    return r->status;
}

EACH_DRIVER(request_body_limit_is_exact)
{
    struct served s;
    const size_t most = 1 << 20;
    begin(&s, driver, NULL);
    for (int chunked = 0; chunked < 2; chunked++) {
        CHECK_EQ(send_body(&s, "POST /", most - 1, chunked), 200);
        CHECK_EQ(send_body(&s, "POST /", most, chunked), 200);
        CHECK_EQ(send_body(&s, "POST /", most + 1, chunked), 413);
        CHECK_EQ(send_body(&s, "PUT /large", 3 * most, chunked),
                 200); /* a route may have its own limit */
        CHECK_EQ(send_body(&s, "PUT /large", 3 * most + 1, chunked), 413);
    }
    /* The largest numbers. */
    CHECK_EQ(
        ask_once(&s, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9223372036854775807\r\n\r\n")
            ->status,
        413);
    CHECK_EQ(
        ask_once(&s, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 18446744073709551616\r\n\r\n")
            ->status,
        400);
    served_end(&s);
}

/* The bytes of the chunk never come: the response must not wait for them. */
EACH_DRIVER(chunk_beyond_limit_is_refused_when_announced)
{
    static const char *const sizes[] = {
        "100001\r\n",           /* 1 MiB + 1 */
        "100001",               /* ... and more digits can only make it larger */
        "7fffffffffffffff\r\n", /* 2^63 - 1 */
        "8000000000000000\r\n", /* 2^63 */
        "ffffffffffffffff\r\n", /* 2^64 - 1 */
        "1\r\na\r\n100000\r\n", /* 1 MiB in all, and 1 */
    };
    static struct client c;
    struct served s;
    begin(&s, driver, &(struct weft_http_server_limits){.body_ns = S(3600)});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        client_open(&c, &s);
        client_send(&c, "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
        CHECK_EQ(client_ask(&c, sizes[i])->status, 413);
        client_close(&c);
    }
    served_end(&s);
}

EACH_DRIVER(requests_per_connection_limit_closes_connection)
{
    struct served s;
    struct client c;
    begin(&s, driver, &(struct weft_http_server_limits){.requests = 5});
    client_open(&c, &s);
    for (int i = 1; i <= 5; i++) {
        struct reply *r = client_ask(&c, get("/"));
        CHECK_EQ(r->status, 200);
        CHECK_EQ(reply_field(r, "Connection") != NULL, i == 5);
    }
    CHECK(client_is_closed(&c));
    client_close(&c);
    /* Requests pipelined after the last one are not answered. */
    client_open(&c, &s);
    for (int i = 0; i < 8; i++) {
        client_send(&c, get("/"));
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(client_reply(&c)->status, 200);
    }
    CHECK(client_is_closed(&c));
    client_close(&c);
    served_end(&s);
}

static weft_event entered, go_on;

static int dawdle(weft_http *req, void *arg)
{
    (void)arg;
    weft_event_set(&entered);
    int err = weft_event_wait(&go_on, WEFT_FOREVER);
    return err ? err : weft_http_respond(req, 200, NULL, "done", 4);
}

/* A client that was about to send more: the server reads what was sent, so that a reset does not
 * discard the last response. */
EACH_DRIVER(request_sent_after_last_allowed_one_causes_no_reset)
{
    struct served s;
    struct client c;
    weft_event_reset(&entered);
    weft_event_reset(&go_on);
    served_make(&s, driver, 1, &(struct weft_http_server_opts){.limits.requests = 1});
    served_route(&s, "GET", "/", dawdle);
    served_listen(&s);
    client_open(&c, &s);
    client_send(&c, get("/"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    client_send(&c, get("/"));
    weft_event_set(&go_on);
    CHECK_STR(client_reply(&c)->body, "done");
    CHECK(client_is_closed_gently(&c));
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(pipelining_limit_bounds_gathered_responses)
{
    struct served s;
    struct client c;
    begin(&s, driver, &(struct weft_http_server_limits){.pipelined = 4});
    client_open(&c, &s);
    uint64_t before = served_stats(&s).flushes;
    for (int i = 0; i < 40; i++) {
        client_send(&c, get("/"));
    }
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(client_reply(&c)->status, 200);
    }
    double from = check_seconds(); /* the last may be counted after its response was read */
    while (served_stats(&s).flushes - before < 10) {
        CHECK(check_seconds() - from < 120);
    }
    client_close(&c);
    served_end(&s);
}

static weft_event go_on;

static int busy(weft_http *req, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_event_wait(&go_on, WEFT_FOREVER), 0);
    return weft_http_respond(req, 200, NULL, "", 0);
}

/* No existing connection waits for its client, so none is evicted. */
EACH_DRIVER(connection_limits_total_and_per_address_refuse_excess)
{
    static struct client c[5];
    weft_event_init(&go_on, NULL);
    for (int kind = 0; kind < 2; kind++) {
        struct served s;
        struct weft_http_server_limits limits = {0};
        *(kind ? &limits.per_address : &limits.connections) = 3;
        served_make(&s, driver, 1, &(struct weft_http_server_opts){.limits = limits});
        served_route(&s, NULL, "/", measure);
        served_route(&s, NULL, "/busy", busy);
        served_listen(&s);
        weft_event_reset(&go_on);
        for (int i = 0; i < 3; i++) {
            client_open(&c[i], &s);
            client_send(&c[i], get("/busy"));
            while (served_stats(&s).bytes_in < (uint64_t)(i + 1) * strlen(get("/busy"))) {
                sched_yield();
            }
        }
        client_open(&c[3], &s); /* a connection is refused whether it sends a request or not */
        CHECK_EQ(client_reply(&c[3])->status, 503);
        CHECK(client_is_closed(&c[3]));
        client_close(&c[3]);
        CHECK_EQ(served_stats(&s).refused, 1);
        CHECK_EQ(served_stats(&s).idle_shed, 0);
        CHECK_EQ(served_stats(&s).open, 3);
        weft_event_set(&go_on);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(client_reply(&c[i])->status, 200);
        }
        client_close(&c[0]); /* a connection that closes frees its slot */
        while (served_stats(&s).open == 3) {
            sched_yield();
        }
        client_open(&c[0], &s);
        CHECK_EQ(client_ask(&c[0], get("/"))->status, 200);
        CHECK_EQ(served_stats(&s).idle_shed, 0);
        for (int i = 0; i < 3; i++) {
            client_close(&c[i]);
        }
        served_end(&s);
    }
}

/* At the limit, the connection that has been idle longest is evicted. */
EACH_DRIVER(connection_at_limit_evicts_longest_idle_one)
{
    static struct client c[5];
    for (int kind = 0; kind < 2; kind++) {
        struct served s;
        struct weft_http_server_limits limits = {0};
        *(kind ? &limits.per_address : &limits.connections) = 3;
        begin(&s, driver, &limits);
        for (int i = 0; i < 3; i++) {
            client_open(&c[i], &s);
            CHECK_EQ(client_ask(&c[i], get("/"))->status, 200);
            CHECK_EQ(poll(NULL, 0, 2), 0); /* so that the clock has advanced */
        }
        CHECK_EQ(client_ask(&c[0], get("/"))->status, 200); /* now connection 1 is idle longest */
        for (int i = 3; i < 5; i++) {
            CHECK_EQ(poll(NULL, 0, 2), 0);
            client_open(&c[i], &s);
            CHECK_EQ(client_ask(&c[i], get("/"))->status, 200);
            CHECK(client_is_closed(&c[i - 2]));
        }
        CHECK_EQ(client_ask(&c[0], get("/"))->status, 200);
        CHECK_EQ(served_stats(&s).idle_shed, 2);
        CHECK_EQ(served_stats(&s).refused, 0);
        for (int i = 0; i < 5; i++) {
            client_close(&c[i]);
        }
        served_end(&s);
    }
}

/* A connection that has sent only one byte can be evicted after a second. Until then a new
 * connection is refused. */
EACH_DRIVER(partial_request_head_is_evictable_after_one_second)
{
    static struct client c[3], late;
    struct served s;
    begin(&s, driver, &(struct weft_http_server_limits){.connections = 3, .header_ns = S(3600)});
    for (int i = 0; i < 3; i++) {
        client_open(&c[i], &s);
        client_send(&c[i], "G");
    }
    int status;
    do {
        client_open(&late, &s);
        status = client_ask(&late, get("/"))->status;
        client_close(&late);
        CHECK(status == 200 || status == 503 || status == 0); /* 0: refused before it had sent */
    } while (status != 200);
    CHECK_EQ(served_stats(&s).idle_shed, 1);
    for (int i = 0; i < 3; i++) {
        client_close(&c[i]);
    }
    served_end(&s);
}
