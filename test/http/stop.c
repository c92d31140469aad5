/* Stops: what is under way is finished, what is idle ends, what takes too long is cut. */
#include <pthread.h>

#include "http/client.h"

static weft_event entered, go_on;
static int ended_with;

static int slow(weft_http *x, void *arg)
{
    (void)arg;
    weft_event_set(&entered);
    ended_with = weft_event_wait(&go_on, WEFT_FOREVER);
    return ended_with ? ended_with : weft_http_answer(x, 200, NULL, "done", 4);
}

static int hello(weft_http *x, void *arg)
{
    (void)arg;
    return weft_http_answer(x, 200, NULL, "hello", 5);
}

static void begin(struct served *s, enum weft_driver driver)
{
    weft_event_reset(&entered);
    weft_event_reset(&go_on);
    served_make(s, driver, 2, &(struct weft_http_server_opts){.limits.linger_ns = MS(100)});
    served_route(s, "GET", "/slow", slow);
    served_route(s, NULL, "/hello", hello);
    served_listen(s);
}

static void *stop_gently(void *arg)
{
    struct served *s = arg;
    return (void *)(intptr_t)weft_http_server_stop(s->server, weft_after(S(120)));
}

static bool refuses(const struct served *s)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = connect(fd, (const struct sockaddr *)&s->at.storage, s->at.len);
    close(fd);
    return err != 0;
}

EACH_DRIVER(a_drain_finishes_what_is_under_way)
{
    struct served s;
    static struct client idle, busy, half;
    pthread_t stopper;
    void *result;
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
    while (served_stats(&s).bytes_in <= read_by_now) { /* the half has been seen */
        sched_yield();
    }
    CHECK_EQ(pthread_create(&stopper, NULL, stop_gently, &s), 0);
    CHECK(client_is_closed(&idle)); /* at once */
    CHECK(weft_http_server_stopping(s.server));
    while (!refuses(&s)) { /* nobody listens any more */
        sched_yield();
    }
    client_send(&half, "st: t\r\n\r\n"); /* a request that had begun counts */
    struct reply *r = client_reply(&half);
    CHECK_EQ(r->status, 200);
    CHECK_STR(reply_field(r, "Connection"), "close");
    client_send(&busy, get("/hello")); /* too late, but no reason to lose the answer under way */
    weft_event_set(&go_on);
    r = client_reply(&busy);
    CHECK_STR(r->body, "done");
    CHECK_STR(reply_field(r, "Connection"), "close"); /* though it was asked before */
    CHECK(client_is_closed_gently(&busy));
    CHECK_EQ(pthread_join(stopper, &result), 0);
    CHECK_EQ((intptr_t)result, 0);
    CHECK_EQ(weft_http_server_listen(s.server, "127.0.0.1:0", NULL), -ESHUTDOWN);
    client_close(&idle);
    client_close(&busy);
    client_close(&half);
    served_end(&s);
}

EACH_DRIVER(a_deadline_cuts_what_is_left)
{
    struct served s;
    static struct client busy, half;
    begin(&s, driver);
    client_open(&busy, &s);
    client_open(&half, &s);
    client_send(&half, "GET /hello HTTP/1.1\r\nHo");
    client_send(&busy, get("/slow"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    CHECK_EQ(weft_http_server_stop(s.server, weft_after(MS(50))), 0);
    CHECK_EQ(ended_with, -ECANCELED);
    CHECK_EQ(client_reply(&busy)->status, 0);
    CHECK_EQ(client_reply(&half)->status, 0);
    client_close(&busy);
    client_close(&half);
    served_end(&s);
}

/* A second stop that has less time ends the first one too. */
EACH_DRIVER(the_nearest_deadline_holds)
{
    struct served s;
    static struct client busy;
    pthread_t stopper;
    void *result;
    begin(&s, driver);
    client_open(&busy, &s);
    client_send(&busy, get("/slow"));
    CHECK_EQ(weft_event_wait(&entered, WEFT_FOREVER), 0);
    CHECK_EQ(pthread_create(&stopper, NULL, stop_gently, &s), 0);
    while (!weft_http_server_stopping(s.server)) {
        sched_yield();
    }
    CHECK_EQ(weft_http_server_stop(s.server, 0), 0);
    CHECK_EQ(pthread_join(stopper, &result), 0);
    CHECK_EQ((intptr_t)result, 0);
    client_close(&busy);
    served_end(&s);
}

/* Stops while connections come and go. */
EACH_DRIVER(a_stop_in_the_middle_of_arrivals)
{
    for (int round = 0; round < 20; round++) {
        static struct client c[8];
        struct served s;
        begin(&s, driver);
        for (int i = 0; i < 8; i++) {
            client_open(&c[i], &s);
            client_send(&c[i], get("/hello"));
        }
        CHECK_EQ(weft_http_server_stop(s.server, weft_after(S(120))), 0);
        for (int i = 0; i < 8; i++) { /* answered, or not accepted any more; nothing in between */
            struct reply *r = client_reply(&c[i]);
            CHECK(r->status == 0 || (r->status == 200 && r->whole));
            client_close(&c[i]);
        }
        served_end(&s);
    }
}
