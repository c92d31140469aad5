/* Stops: connections that are already established are served, requests in progress finish, idle
 * connections may send one more request, and whatever takes too long is disconnected. */
#include <pthread.h>
#include <stdatomic.h>

#include "http/client.h"

static weft_event entered, go_on;
static int ended_with;

static int slow(weft_http *req, void *arg)
{
    (void)arg;
    weft_event_set(&entered);
    ended_with = weft_event_wait(&go_on, WEFT_FOREVER);
    return ended_with ? ended_with : weft_http_respond(req, 200, NULL, "done", 4);
}

static int hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, NULL, "hello", 5);
}

static void begin_with(struct served *s, enum weft_driver driver, int64_t linger_ns,
                       int64_t grace_ns)
{
    weft_event_reset(&entered);
    weft_event_reset(&go_on);
    served_make(s, driver, 2,
                &(struct weft_http_server_opts){.limits.linger_ns = linger_ns,
                                                .limits.grace_ns = grace_ns});
    served_route(s, "GET", "/slow", slow);
    served_route(s, NULL, "/hello", hello);
    served_listen(s);
}

static void begin(struct served *s, enum weft_driver driver)
{
    begin_with(s, driver, MS(100), S(100));
}

static void *stop_gently(void *arg)
{
    struct served *s = arg;
    return (void *)(intptr_t)weft_http_server_stop(s->server, weft_after(S(120)));
}

static pthread_t begin_stop(struct served *s)
{
    pthread_t stopper;
    CHECK_EQ(pthread_create(&stopper, NULL, stop_gently, s), 0);
    while (!weft_http_server_is_stopping(s->server)) {
        sched_yield();
    }
    return stopper;
}

static void end_stop(pthread_t stopper)
{
    void *result;
    CHECK_EQ(pthread_join(stopper, &result), 0);
    CHECK_EQ((intptr_t)result, 0);
}

/* A connect that gets no answer is abandoned soon: the kernel would retry after a second. */
static bool refuses(const struct served *s)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err = connect(fd, (const struct sockaddr *)&s->at.storage, s->at.len) == 0 ? 0 : errno;
    socklen_t len = sizeof err;
    if (err == EINPROGRESS && poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 20) == 1) {
        CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
    }
    close(fd);
    return err == ECONNREFUSED;
}

EACH_DRIVER(server_stop_finishes_requests_in_progress)
{
    struct served s;
    static struct client idle, busy, half;
    begin(&s, driver);
    client_open(&idle, &s);
    client_open(&busy, &s);
    client_open(&half, &s);
    CHECK_EQ(client_ask(&idle, get("/hello"))->status, 200);
    uint64_t read_by_now = served_stats(&s).bytes_in;
    client_send(&busy, get("/slow"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    read_by_now += strlen(get("/slow"));
    client_send(&half, "GET /hello HTTP/1.1\r\nHo");
    while (served_stats(&s).bytes_in <= read_by_now) { /* the server has seen the first half */
        sched_yield();
    }
    pthread_t stopper = begin_stop(&s);
    while (!refuses(&s)) { /* there is no listener any more */
        sched_yield();
    }
    client_send(&half, "st: t\r\n\r\n"); /* a request that had begun counts */
    struct reply *r = client_reply(&half);
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "Connection"), "close");
    r = client_ask(&idle, get("/hello")); /* no response had said "close" */
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed_gently(&idle));
    client_send(&busy, get("/hello")); /* too late, but no reason to lose the response in
                                        * progress */
    weft_event_set(&go_on);
    r = client_reply(&busy);
    CHECK_STR(r->body, "done");
    CHECK_STR(reply_field(r, "Connection"), "close"); /* though it was requested before */
    CHECK(client_is_closed_gently(&busy));
    end_stop(stopper);
    CHECK_EQ(served_stats(&s).stop_idle, 0);
    CHECK_EQ(served_stats(&s).stop_aborted, 0);
    CHECK_EQ(weft_http_server_listen(s.server, NULL, "127.0.0.1:0"), -ESHUTDOWN);
    client_close(&idle);
    client_close(&busy);
    client_close(&half);
    served_end(&s);
}

EACH_DRIVER(server_stop_deadline_cuts_remaining_requests)
{
    struct served s;
    static struct client busy, half;
    begin(&s, driver);
    client_open(&busy, &s);
    client_open(&half, &s);
    client_send(&half, "GET /hello HTTP/1.1\r\nHo");
    while (served_stats(&s).bytes_in == 0) {
        sched_yield();
    }
    client_send(&busy, get("/slow"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    CHECK_EQ(weft_http_server_stop(s.server, weft_after(MS(50))), 0);
    CHECK_EQ(served_stats(&s).stop_aborted, 2);
    CHECK_EQ(served_stats(&s).stop_idle, 0);
    CHECK_EQ(ended_with, -ECANCELED);
    CHECK_EQ(client_reply(&busy)->status, 0);
    CHECK_EQ(client_reply(&half)->status, 0);
    client_close(&busy);
    client_close(&half);
    served_end(&s);
}

/* A second stop with less time also ends the first one. */
EACH_DRIVER(second_server_stop_with_earlier_deadline_wins)
{
    struct served s;
    static struct client busy;
    begin(&s, driver);
    client_open(&busy, &s);
    client_send(&busy, get("/slow"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    pthread_t stopper = begin_stop(&s);
    CHECK_EQ(weft_http_server_stop(s.server, 0), 0);
    end_stop(stopper);
    client_close(&busy);
    served_end(&s);
}

static void *stop_cancelled(void *arg)
{
    struct served *s = arg;
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_http_server_stop(s->server, weft_after(S(120))), -ECANCELED);
    weft_fiber_shield_enter();
    CHECK_EQ(weft_http_server_stop(s->server, weft_after(S(120))), 0);
    weft_fiber_shield_leave();
    return NULL;
}

/* The fiber runs on the only worker, so that no acceptor can have ended before its wait. */
EACH_DRIVER(server_stop_in_cancelled_fiber_fails_while_acceptors_run)
{
    struct served s;
    weft_fiber stopper;
    served_make(&s, driver, 1, &(struct weft_http_server_opts){0});
    served_listen(&s);
    CHECK_EQ(weft_pool_spawn(s.pool, &stopper, stop_cancelled, &s, NULL), 0);
    CHECK_EQ(weft_join(stopper, NULL, WEFT_FOREVER), 0);
    served_end(&s);
}

static void *stop_at_once_cancelled(void *arg)
{
    struct served *s = arg;
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_http_server_stop(s->server, 0), -ECANCELED);
    CHECK_EQ(served_stats(s).stop_aborted, 1);
    return NULL;
}

EACH_DRIVER(server_stop_at_once_in_cancelled_fiber_aborts_connections)
{
    struct served s;
    static struct client busy;
    weft_fiber stopper;
    begin(&s, driver);
    client_open(&busy, &s);
    client_send(&busy, get("/slow"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_spawn(s.pool, &stopper, stop_at_once_cancelled, &s, NULL), 0);
    CHECK_EQ(weft_join(stopper, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(client_reply(&busy)->status, 0);
    client_close(&busy);
    served_end(&s);
}

/* Stops while connections come and go. */
EACH_DRIVER(server_stop_during_arrivals_answers_every_request)
{
    for (int round = 0; round < 20; round++) {
        static struct client c[8];
        struct served s;
        begin_with(&s, driver, MS(1), MS(1));
        for (int i = 0; i < 8; i++) {
            client_open(&c[i], &s);
            client_send(&c[i], get("/hello"));
        }
        CHECK_EQ(weft_http_server_stop(s.server, weft_after(S(120))), 0);
        for (int i = 0; i < 8; i++) { /* all of them were connected */
            struct reply *r = client_reply(&c[i]);
            CHECK_EQ(r->status, 200);
            CHECK(r->whole);
            client_close(&c[i]);
        }
        served_end(&s);
    }
}

/* --- no connection is lost -------------------------------------------------------------------- */

EACH_DRIVER(server_stop_answers_all_pipelined_requests)
{
    struct served s;
    static struct client c;
    char both[256];
    begin(&s, driver);
    client_open(&c, &s);
    size_t n = (size_t)snprintf(both, sizeof both, "%s", get("/slow"));
    snprintf(both + n, sizeof both - n, "%s", get("/hello"));
    client_send(&c, both);
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    pthread_t stopper = begin_stop(&s);
    weft_event_set(&go_on);
    struct reply *r = client_reply(&c);
    CHECK_STR(r->body, "done");
    CHECK(!reply_field(r, "Connection"));
    r = client_reply(&c);
    CHECK_STR(r->body, "hello");
    CHECK_STR(reply_field(r, "Connection"), "close");
    CHECK(client_is_closed_gently(&c));
    client_close(&c);
    end_stop(stopper);
    served_end(&s);
}

static atomic_bool held;

/* Occupies the worker until it is released. */
static int hold(weft_http *req, void *arg)
{
    (void)arg;
    atomic_store(&held, true);
    while (atomic_load(&held)) {
        sched_yield();
    }
    return weft_http_respond(req, 200, NULL, "", 0);
}

/* The only worker is busy while they connect, so none of them is accepted when the stop begins. */
static void stop_with_a_backlog(enum weft_driver driver, enum weft_balance balance,
                                const char *address)
{
    enum { BACKLOG = 40 };
    static struct client c[BACKLOG], holder;
    struct served s;
    served_make(&s, driver, 1, &(struct weft_http_server_opts){.balance = balance});
    served_route(&s, "GET", "/hold", hold);
    served_route(&s, NULL, "/hello", hello);
    CHECK_EQ(weft_http_server_listen(s.server, &s.at, address), 0);
    client_open(&holder, &s);
    client_send(&holder, get("/hold"));
    while (!atomic_load(&held)) {
        sched_yield();
    }
    for (int i = 0; i < BACKLOG; i++) {
        client_open(&c[i], &s);
        if (i % 2) { /* the others send after the stop has begun */
            client_send(&c[i], get("/hello"));
        }
    }
    pthread_t stopper = begin_stop(&s);
    atomic_store(&held, false);
    for (int i = 0; i < BACKLOG; i++) {
        struct reply *r = i % 2 ? client_reply(&c[i]) : client_ask(&c[i], get("/hello"));
        CHECK_EQ(r->status, 200);
        CHECK_STR(reply_field(r, "Connection"), "close");
        client_close(&c[i]);
    }
    CHECK_EQ(client_reply(&holder)->status, 200);
    client_close(&holder);
    end_stop(stopper);
    served_end(&s);
}

EACH_DRIVER(server_stop_serves_backlog_before_closing_listener)
{
    stop_with_a_backlog(driver, WEFT_BALANCE_LEAST, "127.0.0.1:0");
    stop_with_a_backlog(driver, WEFT_BALANCE_REUSEPORT, "127.0.0.1:0");
    stop_with_a_backlog(driver, WEFT_BALANCE_LEAST, "unix:@");
}

/* --- the end of the grace period -------------------------------------------------------------- */

EACH_DRIVER(server_stop_closes_idle_connections_after_grace)
{
    struct served s;
    static struct client used, unused, crosses;
    begin_with(&s, driver, S(100), MS(50));
    client_open(&used, &s);
    client_open(&unused, &s);
    client_open(&crosses, &s);
    CHECK_EQ(client_ask(&used, get("/hello"))->status, 200);
    CHECK_EQ(client_ask(&crosses, get("/hello"))->status, 200);
    pthread_t stopper = begin_stop(&s);
    CHECK(client_is_closed_gently(&used));
    CHECK(client_is_closed_gently(&unused));
    CHECK(client_is_closed_gently(&crosses));
    CHECK(client_send(&crosses, get("/hello"))); /* it had not seen the end of stream */
    while (served_stats(&s).stop_lost == 0) {
        sched_yield();
    }
    CHECK(client_is_closed_gently(&crosses)); /* and gets no reset */
    client_close(&used);
    client_close(&unused);
    client_close(&crosses);
    end_stop(stopper);
    CHECK_EQ(served_stats(&s).stop_idle, 3);
    CHECK_EQ(served_stats(&s).stop_lost, 1);
    CHECK_EQ(served_stats(&s).stop_aborted, 0);
    served_end(&s);
}

static int wait_a_little(weft_http *req, void *arg)
{
    (void)arg;
    int err = weft_sleep(weft_after(MS(1)));
    return err ? err : weft_http_respond(req, 200, NULL, "", 0);
}

/* The event that ends the wait of an idle connection must not end a wait of its next handler. */
EACH_DRIVER(end_of_stop_grace_does_not_disturb_handlers)
{
    for (int round = 0; round < 20; round++) {
        struct served s;
        static struct client c[16];
        served_make(&s, driver, 2,
                    &(struct weft_http_server_opts){.limits.linger_ns = S(100),
                                                    .limits.grace_ns = 1 + round % 4 * MS(1) / 4});
        served_route(&s, "GET", "/wait", wait_a_little);
        served_listen(&s);
        for (int i = 0; i < 16; i++) {
            client_open(&c[i], &s);
            CHECK_EQ(client_ask(&c[i], get("/wait"))->status, 200);
        }
        pthread_t stopper;
        CHECK_EQ(pthread_create(&stopper, NULL, stop_gently, &s), 0);
        for (int i = 0; i < 16; i++) {
            client_send(&c[i], get("/wait"));
        }
        for (int i = 0; i < 16; i++) { /* 0: it crossed with the close */
            int status = client_reply(&c[i])->status;
            CHECK(status == 200 || status == 0);
            client_close(&c[i]);
        }
        end_stop(stopper);
        CHECK_EQ(served_stats(&s).by_class[5], 0);
        CHECK_EQ(served_stats(&s).stop_aborted, 0);
        served_end(&s);
    }
}
