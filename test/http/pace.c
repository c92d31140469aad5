/* Clients that read, but slowly: below the least rate they are cut, whatever the answer is made of;
 * above it they get all of it, and a handler's own time is not theirs. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "http/client.h"
#include "http/conn.h"

#define LIMIT MS(100)
#define PAUSE_MS 5
#define MUCH 100000000u /* bytes a second that no client here comes near to */
#define LITTLE 5000u    /* ... that each is far above */
#define PATIENCE 60     /* seconds */

static char block[1 << 16];
static _Atomic(size_t) answer_bytes; /* of the larger ones */

static int memory(weft_http *x, void *arg)
{
    (void)arg;
    char *body = calloc(1, answer_bytes);
    CHECK(body);
    int err = weft_http_answer(x, 200, NULL, body, answer_bytes);
    free(body);
    return err;
}

static int stream(weft_http *x, void *arg)
{
    (void)arg;
    int err = weft_http_begin(x, 200);
    for (size_t left = answer_bytes, n; left && !err; left -= n) {
        n = left < 5000 ? left : 5000;
        err = weft_http_write(x, block, n);
    }
    return err;
}

static int file(weft_http *x, void *arg)
{
    (void)arg;
    int fd = memfd_create("answer", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(fd, (off_t)answer_bytes), 0);
    int err = weft_http_begin(x, 200);
    err = err ? err : weft_http_set_length(x, answer_bytes);
    err = err ? err : weft_http_send_file(x, fd, 0, answer_bytes);
    CHECK_EQ(weft_close(fd), 0);
    return err;
}

static int kilobyte(weft_http *x, void *arg)
{
    (void)arg;
    return weft_http_answer(x, 200, NULL, block, 1000);
}

/* A byte now and then, each sent at once. */
static int hesitate(weft_http *x, void *arg)
{
    (void)arg;
    int err = weft_http_begin(x, 200);
    for (int i = 0; i < 50 && !err; i++) {
        weft_sleep(LIMIT / 25);
        err = weft_http_write(x, "x", 1);
        err = err ? err : weft_http_flush(x);
    }
    return err;
}

static void begin(struct served *s, enum weft_driver driver, struct weft_http_server_limits limits)
{
    limits.requests = 1000000000;
    served_make(s, driver, 1, &(struct weft_http_server_opts){.limits = limits});
    served_route(s, "GET", "/memory", memory);
    served_route(s, "GET", "/stream", stream);
    served_route(s, "GET", "/file", file);
    served_route(s, "GET", "/kilobyte", kilobyte);
    served_route(s, "GET", "/hesitate", hesitate);
    served_listen(s);
}

static bool same_name(const struct weft_addr *a, const struct weft_addr *b)
{
    return a->len == b->len && memcmp(&a->storage, &b->storage, a->len) == 0;
}

/* The server's end of it: a descriptor of this process too. */
static int other_end(const struct client *c)
{
    struct weft_addr mine = {0}, peer;
    mine.len = sizeof mine.storage;
    CHECK_EQ(getsockname(c->fd, (struct sockaddr *)&mine.storage, &mine.len), 0);
    for (int fd = 3; fd < 1024; fd++) {
        peer = (struct weft_addr){.len = sizeof peer.storage};
        if (getpeername(fd, (struct sockaddr *)&peer.storage, &peer.len) == 0 &&
            same_name(&peer, &mine)) {
            return fd;
        }
    }
    CHECK(!"the server has no such connection");
    return -1;
}

/* Little fits between the two, in segments as small as on a real line, so that the server has to
 * wait for the client soon and often. */
static void open_narrow(struct client *c, const struct served *s)
{
    static const int segment = 1400, room = 16384;
    c->start = c->end = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment), 0);
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    CHECK_EQ(connect(c->fd, (const struct sockaddr *)&s->at.storage, s->at.len), 0);
    CHECK_EQ(client_ask(c, get("/kilobyte"))->status, 200);
    CHECK_EQ(setsockopt(other_end(c), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
}

/* What is asked for, and how. */
static const struct kind {
    const char *path;
    int requests;       /* at once */
    uint32_t pipelined; /* answers in one write */
} kinds[] = {
    {"/memory", 1, 0}, {"/stream", 1, 0}, {"/file", 1, 0}, {"/kilobyte", 0, 1}, {"/kilobyte", 0, 8},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void ask(struct client *c, const struct kind *kind)
{
    int n = kind->requests ? kind->requests : (int)(answer_bytes / 1000);
    for (int i = 0; i < n; i++) {
        CHECK(client_send(c, get(kind->path)));
    }
}

/* Takes what is there, then pauses. Answers how much came until the end, or until `enough`;
 * *longest: its longest pause. */
static size_t read_slowly(struct client *c, size_t enough, double *longest)
{
    static char scrap[1 << 16];
    double from = check_seconds(), last = from;
    size_t total = 0;
    *longest = 0;
    while (total < enough) {
        ssize_t n = recv(c->fd, scrap, sizeof scrap, MSG_DONTWAIT);
        double now = check_seconds();
        CHECK(now - from < PATIENCE);
        *longest = now - last > *longest ? now - last : *longest;
        last = now;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            break;
        }
        total += n > 0 ? (size_t)n : 0;
        poll(NULL, 0, PAUSE_MS);
    }
    return total;
}

EACH_DRIVER(below_the_rate_it_is_cut)
{
    struct served s;
    struct client c;
    double longest;
    answer_bytes = 64000000; /* it would take minutes */
    for (int i = 0; i < KINDS; i++) {
        begin(&s, driver,
              (struct weft_http_server_limits){
                  .write_ns = LIMIT, .write_rate = MUCH, .pipelined = kinds[i].pipelined});
        open_narrow(&c, &s);
        if (!kinds[i].requests) {
            answer_bytes = 3000000; /* what it asks for must find room */
        }
        double from = check_seconds();
        ask(&c, &kinds[i]);
        read_slowly(&c, SIZE_MAX, &longest);
        double took = check_seconds() - from;
        printf("    %s: cut after %.0f ms\n", kinds[i].path, took * 1e3);
        CHECK(took >= (double)LIMIT / 1e9);
        client_close(&c);
        CHECK_EQ(served_stats(&s).write_ended, 1);
        served_end(&s);
    }
}

/* The waits of all of it are longer than the limit together. A machine that keeps this thread from
 * reading makes it a client that does not read: then the test says nothing. */
EACH_DRIVER(above_the_rate_it_gets_all)
{
    answer_bytes = 800000;
    for (int i = 0; i < KINDS; i++) {
        bool in_time = false;
        for (int tries = 0; !in_time && tries < 20; tries++) {
            struct served s;
            struct client c;
            double longest;
            begin(&s, driver,
                  (struct weft_http_server_limits){
                      .write_ns = LIMIT, .write_rate = LITTLE, .pipelined = kinds[i].pipelined});
            open_narrow(&c, &s);
            double from = check_seconds();
            ask(&c, &kinds[i]);
            size_t got = read_slowly(&c, answer_bytes, &longest);
            in_time = longest < (double)LIMIT / 2e9;
            double took = check_seconds() - from;
            printf("    %s: %.0f ms\n", kinds[i].path, took * 1e3);
            if (in_time) {
                CHECK(took >= 1.5 * (double)LIMIT / 1e9);
                CHECK(got >= answer_bytes);
                CHECK_EQ(served_stats(&s).write_ended, 0);
            }
            client_close(&c);
            served_end(&s);
        }
        if (!in_time) {
            printf("    never in time\n");
        }
    }
}

/* Another answer on the same connection, after much that was taken at once: it has earned nothing
 * by that. */
EACH_DRIVER(what_was_fast_does_not_help_what_is_slow)
{
    struct served s;
    struct client c;
    double longest;
    begin(&s, driver, (struct weft_http_server_limits){.write_ns = LIMIT, .write_rate = MUCH});
    client_open(&c, &s);
    answer_bytes = 64000000;
    client_send(&c, get("/memory"));
    struct reply *r = client_reply(&c);
    if (r->whole) { /* else this machine was too busy */
        printf("    the first came\n");
        CHECK_EQ(setsockopt(other_end(&c), SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int)), 0);
        client_send(&c, get("/memory"));
        size_t got = read_slowly(&c, SIZE_MAX, &longest);
        CHECK(got < answer_bytes);
    }
    client_close(&c);
    CHECK_EQ(served_stats(&s).write_ended, 1);
    served_end(&s);
}

EACH_DRIVER(a_handlers_time_is_not_the_clients)
{
    struct served s;
    struct client c;
    begin(&s, driver, (struct weft_http_server_limits){.write_ns = LIMIT, .write_rate = MUCH});
    client_open(&c, &s);
    for (int i = 0; i < 2; i++) {
        struct reply *r = client_ask(&c, get("/hesitate"));
        CHECK(r->whole);
        CHECK_EQ(r->len, 50);
    }
    client_close(&c);
    CHECK_EQ(served_stats(&s).write_ended, 0);
    served_end(&s);
}

/* --- to the byte and to the nanosecond -------------------------------------------------------- */

static struct weft_http_server server;
static struct weft__http_conn conn;

/* 30 s, 500 bytes a second: 15,000 bytes. It is watched. */
static void judged_begin(void)
{
    memset(&server, 0, sizeof server);
    memset(&conn, 0, sizeof conn);
    server.opts.limits = (struct weft_http_server_limits){.write_ns = S(30), .write_rate = 500};
    weft__http_pace_init(&server);
    CHECK_EQ(server.notice_ns, MS(2)); /* the time of a byte */
    conn.server = &server;
    conn.notice_ns = server.notice_ns;
    CHECK(!weft__http_pace_judge(&conn, S(29))); /* the first is not counted */
    CHECK_EQ(conn.notice_ns, 0);
}

static bool too_slow(uint64_t bytes, int64_t waited_ns)
{
    conn.written += bytes;
    return weft__http_pace_judge(&conn, waited_ns);
}

TEST(a_window_is_passed_by_its_last_byte)
{
    judged_begin();
    CHECK(!too_slow(14999, S(30)));
    CHECK(too_slow(0, 1));
    CHECK_EQ(conn.ended, 1 + WEFT__HTTP_WRITE);
    judged_begin();
    CHECK(!too_slow(14999, S(29)));
    CHECK(!too_slow(1, S(1)));
    CHECK_EQ(conn.ended, 0);
    judged_begin();
    CHECK(!too_slow(20000, S(40))); /* one that was late to be noticed */
    CHECK(too_slow(19999, S(40)));
}

TEST(each_window_counts_for_itself)
{
    judged_begin();
    CHECK(!too_slow(1000000000, S(10)));
    CHECK(!too_slow(14999, S(30)));
    CHECK(too_slow(0, 1));
    judged_begin();
    for (int i = 0; i < 1000; i++) {
        CHECK(!too_slow(500, S(1)));
    }
    judged_begin();
    for (int i = 0; i < 30; i++) {
        CHECK(!too_slow(499, S(1)));
    }
    CHECK(too_slow(499, S(1)));
}

TEST(it_is_watched_until_it_hardly_waits)
{
    judged_begin();
    CHECK(!too_slow(15000, S(30) / 16));
    CHECK_EQ(conn.notice_ns, 0);
    CHECK(!too_slow(15000, S(30) / 16 - 1));
    CHECK_EQ(conn.notice_ns, MS(2));
}

TEST(any_rate_will_do)
{
    static const uint32_t rates[] = {1, 999999999, 1000000000, UINT32_MAX};
    static const int64_t times[] = {1, S(30), INT64_MAX};
    for (int i = 0; i < 12; i++) {
        server.opts.limits =
            (struct weft_http_server_limits){.write_rate = rates[i % 4], .write_ns = times[i / 4]};
        weft__http_pace_init(&server);
        CHECK(server.notice_ns >= 1 && server.notice_ns <= S(1));
        memset(&conn, 0, sizeof conn);
        conn.server = &server;
        CHECK_EQ(too_slow(1, INT64_MAX), times[i / 4] != INT64_MAX);
    }
}
