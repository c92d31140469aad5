/* Connections that rest between two requests: without a fiber until the next byte. What ends a rest,
 * and what keeps a connection from it. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http/client.h"

#define AT_ONCE 1 /* below 1 ms */

static int hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", "hello", 5);
}

static void serve(struct served *s, enum weft_driver driver, unsigned workers,
                  struct weft_http_server_limits limits)
{
    limits.requests = UINT32_MAX;
    served_make(s, driver, workers, &(struct weft_http_server_opts){.limits = limits});
    served_route(s, "GET", "/", hello);
}

static void await_rests(struct served *s, uint64_t n)
{
    int64_t until = weft_after(S(60));
    while (served_stats(s).at_rest != n) {
        CHECK(weft_now() < until);
        sched_yield();
    }
}

static void await_open(struct served *s, uint64_t n)
{
    int64_t until = weft_after(S(60));
    while (served_stats(s).open != n) {
        CHECK(weft_now() < until);
        sched_yield();
    }
}

static void await_fibers(struct served *s, uint64_t n)
{
    struct weft_pool_stats stats;
    int64_t until = weft_after(S(60));
    do {
        CHECK(weft_now() < until);
        sched_yield();
        weft_pool_stats(s->pool, &stats);
    } while (stats.live != n);
}

EACH_DRIVER(silent_connection_rests_until_next_request)
{
    static struct client c;
    struct served s;
    serve(&s, driver, 2, (struct weft_http_server_limits){.rest_ns = MS(20)});
    served_listen(&s);
    client_open(&c, &s);
    await_rests(&s, 1); /* also before its first request */
    CHECK_EQ(served_stats(&s).wakes, 0);
    for (unsigned i = 1; i <= 3; i++) {
        CHECK_STR(client_ask(&c, get("/"))->body, "hello");
        await_rests(&s, 1);
        CHECK_EQ(served_stats(&s).wakes, i);
    }
    CHECK_EQ(served_stats(&s).requests, 3);
    CHECK_EQ(served_stats(&s).open, 1);
    client_close(&c);
    await_open(&s, 0); /* the hang-up ends the rest */
    CHECK_EQ(served_stats(&s).at_rest, 0);
    served_end(&s);
}

EACH_DRIVER(connection_can_rest_after_every_request)
{
    static struct client c;
    struct served s;
    const unsigned n = (unsigned)check_scale(2000);
    serve(&s, driver, 1, (struct weft_http_server_limits){.rest_ns = AT_ONCE});
    served_listen(&s);
    client_open(&c, &s);
    for (unsigned i = 0; i < n; i++) {
        await_rests(&s, 1);
        CHECK_EQ(client_ask(&c, get("/"))->status, 200);
    }
    await_rests(&s, 1);
    CHECK(served_stats(&s).wakes >= n);
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(many_connections_rest_and_wake)
{
    enum { N = 200 };
    static struct client c[N];
    struct served s;
    serve(&s, driver, 2, (struct weft_http_server_limits){.rest_ns = MS(1)});
    served_listen(&s);
    for (int i = 0; i < N; i++) {
        client_open(&c[i], &s);
    }
    for (int round = 0; round < 3; round++) {
        await_rests(&s, N);
        for (int i = 0; i < N; i++) {
            CHECK(client_send(&c[i], get("/")));
        }
        for (int i = 0; i < N; i++) {
            CHECK_EQ(client_reply(&c[i])->status, 200);
        }
    }
    CHECK_EQ(served_stats(&s).requests, 3 * N);
    for (int i = 0; i < N; i++) {
        client_close(&c[i]);
    }
    await_open(&s, 0);
    served_end(&s);
}

/* --- what keeps a connection from resting ----------------------------------------------------- */

static weft_event release_handler;
static _Atomic(int) handlers;

static int hold(weft_http *req, void *arg)
{
    (void)arg;
    handlers++;
    CHECK_EQ(weft_event_wait(&release_handler, WEFT_FOREVER), 0);
    return weft_http_respond(req, 200, "text/plain", "held", 4);
}

/* Several periods of rest_ns go by. */
static void pause_for_rests(void)
{
    usleep(100000);
}

EACH_DRIVER(handler_that_waits_and_partial_head_do_not_rest)
{
    static struct client polling, partial;
    struct served s;
    weft_event_init(&release_handler, NULL);
    handlers = 0;
    serve(&s, driver, 2, (struct weft_http_server_limits){.rest_ns = MS(1)});
    served_route(&s, "GET", "/hold", hold);
    served_listen(&s);
    client_open(&polling, &s);
    client_open(&partial, &s);
    client_send(&polling, get("/hold"));
    client_send(&partial, "GET / HTTP/1.1\r\nHo");
    while (!handlers) {
        sched_yield();
    }
    pause_for_rests();
    uint64_t rests = served_stats(&s).at_rest, wakes = served_stats(&s).wakes;
    CHECK_EQ(rests, 0);
    pause_for_rests();
    CHECK_EQ(served_stats(&s).at_rest, 0);
    CHECK_EQ(served_stats(&s).wakes, wakes);
    weft_event_set(&release_handler);
    CHECK_STR(client_reply(&polling)->body, "held");
    client_send(&partial, "st: t\r\n\r\n");
    CHECK_STR(client_reply(&partial)->body, "hello");
    await_rests(&s, 2);
    client_close(&polling);
    client_close(&partial);
    served_end(&s);
    weft_event_deinit(&release_handler);
}

static char block[1 << 17];

static int send_block(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", block, sizeof block);
}

/* The kernel has taken the whole response, but the client has not: the turn knows how long the
 * client may take. */
EACH_DRIVER(connection_with_unread_response_does_not_rest)
{
    static struct client c;
    struct served s;
    int small = 4096;
    serve(&s, driver, 1, (struct weft_http_server_limits){.rest_ns = MS(5)});
    served_route(&s, "GET", "/block", send_block);
    served_listen(&s);
    c.start = c.end = 0;
    c.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    CHECK_EQ(connect(c.fd, (struct sockaddr *)&s.at.storage, s.at.len), 0);
    client_send(&c, get("/block"));
    while (served_stats(&s).requests == 0) {
        sched_yield();
    }
    pause_for_rests();
    CHECK_EQ(served_stats(&s).at_rest, 0);
    CHECK_EQ(client_reply(&c)->len, sizeof block - 1); /* all that the client's buffer keeps */
    await_rests(&s, 1);
    client_close(&c);
    served_end(&s);
}

EACH_DRIVER(connection_never_rests_if_idle_timeout_is_shorter)
{
    static struct client c;
    struct served s;
    serve(&s, driver, 1,
          (struct weft_http_server_limits){.rest_ns = WEFT_FOREVER, .idle_ns = MS(100)});
    served_listen(&s);
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, get("/"))->status, 200);
    CHECK(client_is_closed_gently(&c));
    CHECK_EQ(served_stats(&s).wakes, 0);
    CHECK_EQ(served_stats(&s).idle_timeouts, 1);
    client_close(&c);
    served_end(&s);
}

/* --- what ends a rest ------------------------------------------------------------------------- */

EACH_DRIVER(idle_timeout_counts_from_last_byte)
{
    static struct client c;
    struct served s;
    serve(&s, driver, 1, (struct weft_http_server_limits){.rest_ns = MS(50), .idle_ns = MS(1200)});
    served_listen(&s);
    client_open(&c, &s);
    for (int i = 0; i < 3; i++) {
        await_rests(&s, 1);
        CHECK_EQ(client_ask(&c, get("/"))->status, 200);
    }
    int64_t answered = weft_now();
    CHECK(client_is_closed_gently(&c));
    int64_t took = weft_now() - answered;
    printf("    closed after %lld ms\n", (long long)(took / 1000000));
    CHECK(took >= MS(1199)); /* the last byte arrived before the response */
    CHECK_EQ(served_stats(&s).idle_timeouts, 1);
    client_close(&c);
    await_open(&s, 0);
    served_end(&s);
}

EACH_DRIVER(connection_at_rest_is_evicted_for_new_one)
{
    static struct client old, young, new;
    struct served s;
    serve(&s, driver, 2, (struct weft_http_server_limits){.rest_ns = MS(1), .connections = 2});
    served_listen(&s);
    client_open(&old, &s);
    await_rests(&s, 1);
    client_open(&young, &s);
    await_rests(&s, 2);
    client_open(&new, &s);
    CHECK_EQ(client_ask(&new, get("/"))->status, 200);
    CHECK(client_is_closed_gently(&old));
    CHECK_EQ(served_stats(&s).idle_shed, 1);
    CHECK_EQ(client_ask(&young, get("/"))->status, 200);
    client_close(&old);
    client_close(&young);
    client_close(&new);
    served_end(&s);
}

static void *stop_in_thread(void *arg)
{
    struct served *s = arg;
    CHECK_EQ(weft_http_server_stop(s->server, weft_after(S(120))), 0);
    return NULL;
}

/* A request within the grace period is answered; the connection that stays silent is closed. */
EACH_DRIVER(stop_serves_and_closes_connections_at_rest)
{
    static struct client asking, silent;
    struct served s;
    pthread_t stopper;
    serve(&s, driver, 2,
          (struct weft_http_server_limits){
              .rest_ns = MS(1), .grace_ns = MS(500), .linger_ns = S(10)});
    served_listen(&s);
    client_open(&asking, &s);
    client_open(&silent, &s);
    await_rests(&s, 2);
    CHECK_EQ(pthread_create(&stopper, NULL, stop_in_thread, &s), 0);
    while (!weft_http_server_is_stopping(s.server)) {
        sched_yield();
    }
    const struct reply *r = client_ask(&asking, get("/"));
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed_gently(&asking));
    client_close(&asking);
    CHECK(client_is_closed_gently(&silent));
    client_close(&silent);
    CHECK_EQ(pthread_join(stopper, NULL), 0);
    CHECK_EQ(served_stats(&s).stop_idle, 1);
    CHECK_EQ(served_stats(&s).stop_lost, 0);
    CHECK_EQ(served_stats(&s).stop_aborted, 0);
    CHECK_EQ(served_stats(&s).at_rest, 0);
    served_end(&s);
}

EACH_DRIVER(stop_at_once_aborts_connections_at_rest)
{
    enum { N = 50 };
    static struct client c[N];
    struct served s;
    serve(&s, driver, 2, (struct weft_http_server_limits){.rest_ns = MS(1)});
    served_listen(&s);
    for (int i = 0; i < N; i++) {
        client_open(&c[i], &s);
    }
    await_rests(&s, N);
    CHECK_EQ(weft_http_server_stop(s.server, 0), 0);
    CHECK_EQ(served_stats(&s).at_rest, 0);
    CHECK_EQ(served_stats(&s).stop_idle, N);
    for (int i = 0; i < N; i++) {
        CHECK(client_is_closed(&c[i]));
        client_close(&c[i]);
    }
    served_end(&s);
}

/* --- the session ------------------------------------------------------------------------------ */

static int tell_peer(weft_http *req, void *arg)
{
    char text[128];
    (void)arg;
    int n = weft_addr_format(weft_http_peer(req), text, sizeof text);
    return weft_http_respond(req, 200, "text/plain", text, (size_t)n);
}

/* A client with a name that is too long for the session's record. */
static void open_named(struct client *c, const struct served *s, const char *name)
{
    struct sockaddr_un from = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(from.sun_path + 1, name, len); /* abstract: leaves no file */
    c->start = c->end = 0;
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(c->fd, (struct sockaddr *)&from,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)),
             0);
    CHECK_EQ(connect(c->fd, (const struct sockaddr *)&s->at.storage, s->at.len), 0);
}

EACH_DRIVER(peer_and_limits_survive_rest)
{
    static struct client c;
    struct served s;
    char name[100], path[100], before[128];
    snprintf(name, sizeof name, "weft-%d-a-client-with-a-name-of-more-than-28-bytes", getpid());
    snprintf(path, sizeof path, "unix:/tmp/weft-rest-%d", getpid());
    for (int local = 0; local < 2; local++) {
        served_make(&s, driver, 1,
                    &(struct weft_http_server_opts){
                        .limits = {.rest_ns = AT_ONCE, .requests = 3, .linger_ns = S(10)}});
        served_route(&s, "GET", "/peer", tell_peer);
        CHECK_EQ(weft_http_server_listen(s.server, &s.at, local ? path : "127.0.0.1:0"), 0);
        if (local) {
            open_named(&c, &s, name);
        } else {
            client_open(&c, &s);
        }
        for (int i = 0; i < 3; i++) {
            await_rests(&s, 1);
            const struct reply *r = client_ask(&c, get("/peer"));
            CHECK_EQ(r->status, 200);
            CHECK(i == 0 || strcmp(before, r->body) == 0);
            CHECK_EQ(reply_field(r, "Connection") != NULL, i == 2); /* of three requests */
            snprintf(before, sizeof before, "%.127s", r->body);
        }
        CHECK(strstr(before, local ? name : "127.0.0.1:") != NULL);
        client_close(&c);
        served_end(&s);
    }
}

/* No memory for the rest or for the fiber that ends it: the client waits or gets a 503; nothing is
 * lost. */
EACH_DRIVER(connection_rests_and_wakes_without_memory)
{
    static struct client c;
    struct served s;
    serve(&s, driver, 1, (struct weft_http_server_limits){.rest_ns = MS(1)});
    served_listen(&s);
    for (int n = 1; n <= 40; n++) {
        client_open(&c, &s);
        CHECK_EQ(client_ask(&c, get("/"))->status, 200);
        weft__alloc_fail_after(n, true);
        usleep(3000); /* it rests, or cannot */
        client_send(&c, get("/"));
        usleep(1000);
        weft__alloc_fail_after(0, false);
        int status = client_reply(&c)->status;
        CHECK(status == 200 || status == 503);
        client_close(&c);
        await_open(&s, 0);
    }
    CHECK(served_stats(&s).wakes > 0);
    served_end(&s);
}

static void *wait_for_release(void *arg)
{
    CHECK_EQ(weft_event_wait(&release_handler, WEFT_FOREVER), 0);
    return arg;
}

/* Also the places of fibers that exist for a moment only, such as one that checks timeouts. */
static void fill(weft_pool *pool)
{
    int err;
    do {
        err = weft_pool_spawn(pool, NULL, wait_for_release, NULL, NULL);
    } while (!err);
    CHECK_EQ(err, -EAGAIN);
}

/* A connection gives its one place on, from fiber to task and back. */
EACH_DRIVER(connection_rests_and_wakes_in_full_pool)
{
    static struct client c;
    struct served s;
    weft_event_init(&release_handler, NULL);
    CHECK_EQ(
        weft_pool_create(
            &s.pool, &(struct weft_pool_opts){.workers = 1, .driver = driver, .max_fibers = 16}),
        0);
    CHECK_EQ(weft_pool_start(s.pool), 0);
    CHECK_EQ(weft_http_server_create(
                 &s.server, &(struct weft_http_server_opts){.pool = s.pool, .limits.rest_ns = 1}),
             0);
    served_route(&s, "GET", "/", hello);
    served_listen(&s);
    client_open(&c, &s);
    await_rests(&s, 1);
    for (unsigned i = 0; i < 10; i++) {
        fill(s.pool);
        CHECK_STR(client_ask(&c, get("/"))->body, "hello");
        await_rests(&s, 1);
    }
    weft_event_set(&release_handler);
    client_close(&c);
    await_open(&s, 0);
    served_end(&s);
    weft_event_deinit(&release_handler);
}

EACH_DRIVER(connection_at_rest_has_no_fiber_and_is_in_the_dump)
{
    static struct client c;
    struct served s;
    bool shown = false;
    serve(&s, driver, 1, (struct weft_http_server_limits){.rest_ns = MS(1)});
    served_listen(&s);
    client_open(&c, &s);
    await_rests(&s, 1);
    for (int64_t until = weft_after(S(60)); !shown;) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        CHECK_EQ(weft_dump(out, NULL), 0);
        fclose(out);
        shown = strstr(text, "rest") != NULL;
        CHECK(shown || weft_now() < until);
        free(text);
    }
    await_fibers(&s, 2); /* the acceptor and the task of the connection */
    client_close(&c);
    served_end(&s);
}
