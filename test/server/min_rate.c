/* Slow readers: clients below the minimum rate are disconnected, whatever the response consists of;
 * clients above it get the whole response, and the handler's own time does not count against
 * them. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "http/client.h"
#include "server/session.h"

#define LIMIT MS(100)
#define PAUSE_MS 5
#define MUCH 100000000u /* bytes per second that no client here reaches */
#define LITTLE 5000u    /* ... that every client exceeds by far */
#define WAIT_LIMIT 60   /* seconds */

static char block[1 << 16];
static _Atomic(size_t) answer_bytes; /* of the larger files */

static int memory(weft_http *req, void *arg)
{
    (void)arg;
    static char body[64000000];
    CHECK(answer_bytes <= sizeof body);
    return weft_http_respond(req, 200, NULL, body, answer_bytes);
}

static int stream(weft_http *req, void *arg)
{
    (void)arg;
    int err = weft_http_begin_response(req, 200);
    for (size_t left = answer_bytes, n; left && !err; left -= n) {
        n = left < 5000 ? left : 5000;
        err = weft_http_write(req, block, n, WEFT_FOREVER);
    }
    return err;
}

static int file(weft_http *req, void *arg)
{
    (void)arg;
    int fd = memfd_create("answer", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(fd, (off_t)answer_bytes), 0);
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_content_length(req, answer_bytes);
    err = err ? err : weft_http_send_file(req, fd, 0, answer_bytes, WEFT_FOREVER);
    CHECK_EQ(weft_close(fd), 0);
    return err;
}

static int kilobyte(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, NULL, block, 1000);
}

/* A byte from time to time, each sent at once. */
static int hesitate(weft_http *req, void *arg)
{
    (void)arg;
    int err = weft_http_begin_response(req, 200);
    for (int i = 0; i < 50 && !err; i++) {
        weft_sleep(weft_after(LIMIT / 25));
        err = weft_http_write(req, "x", 1, WEFT_FOREVER);
        err = err ? err : weft_http_flush(req, WEFT_FOREVER);
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

/* The server's end of the connection: also a descriptor of this process. */
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

/* Small buffers between the two, in segments as small as on a real line, so that the server has to
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

/* The kinds of request and response. */
static const struct kind {
    const char *path;
    int requests;       /* at once */
    uint32_t pipelined; /* responds in one write */
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

/* Reads what is available, then pauses. Returns how much arrived until the end of stream, or until
 * `enough`; *longest: the longest pause. */
static size_t read_slowly(struct client *c, size_t enough, double *longest)
{
    static char scrap[1 << 16];
    double from = check_seconds(), last = from;
    size_t total = 0;
    *longest = 0;
    while (total < enough) {
        ssize_t n = recv(c->fd, scrap, sizeof scrap, MSG_DONTWAIT);
        double now = check_seconds();
        CHECK(now - from < WAIT_LIMIT);
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

EACH_DRIVER(reader_below_min_rate_is_disconnected)
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
            answer_bytes = 3000000; /* the request must fit into the buffers */
        }
        double from = check_seconds();
        ask(&c, &kinds[i]);
        read_slowly(&c, SIZE_MAX, &longest);
        double took = check_seconds() - from;
        printf("    %s: cut after %.0f ms\n", kinds[i].path, took * 1e3);
        CHECK(took >= (double)LIMIT / 1e9);
        client_close(&c);
        CHECK_EQ(served_stats(&s).write_timeouts, 1);
        served_end(&s);
    }
}

/* All waits together are longer than the limit. If the machine keeps this thread from reading, the
 * client does not read: then the test proves nothing. */
EACH_DRIVER(reader_above_min_rate_gets_whole_response)
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
                CHECK_EQ(served_stats(&s).write_timeouts, 0);
            }
            client_close(&c);
            served_end(&s);
        }
        if (!in_time) {
            printf("    never in time\n");
        }
    }
}

/* Another response on the same connection, after much that was read at once: that gives the client
 * no credit. */
EACH_DRIVER(fast_response_earns_no_credit_for_slow_one)
{
    struct served s;
    struct client c;
    double longest;
    begin(&s, driver, (struct weft_http_server_limits){.write_ns = LIMIT, .write_rate = MUCH});
    client_open(&c, &s);
    answer_bytes = 64000000;
    client_send(&c, get("/memory"));
    struct reply *r = client_reply(&c);
    if (r->whole) { /* otherwise this machine was too busy */
        printf("    the first came\n");
        CHECK_EQ(setsockopt(other_end(&c), SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int)), 0);
        client_send(&c, get("/memory"));
        size_t got = read_slowly(&c, SIZE_MAX, &longest);
        CHECK(got < answer_bytes);
    }
    client_close(&c);
    CHECK_EQ(served_stats(&s).write_timeouts, 1);
    served_end(&s);
}

EACH_DRIVER(handler_time_does_not_count_against_min_rate)
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
    CHECK_EQ(served_stats(&s).write_timeouts, 0);
    served_end(&s);
}

/* --- slow readers above the minimum ----------------------------------------------------------- */

/* All times are a hundredth of the defaults and all rates a hundredfold, so that the same bytes are
 * in the same buffers: 500 B/s to 200 kB/s. */
enum { SCALE = 100, FLOOR = 500 * SCALE, SLOW_BYTES = 20000000, NARROW = 16384, LAST = -1 };
#define SLOW_SECONDS 2.0

struct slow {
    int fd;
    double rate;
    size_t got;
    bool over;
};

static void slow_open(struct slow *r, const struct weft_addr *at, double rate, const char *path,
                      int room)
{
    char request[100];
    *r = (struct slow){.rate = rate};
    r->fd = socket(at->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(r->fd >= 0);
    if (room > 0) {
        CHECK_EQ(setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    }
    if (room == NARROW) { /* otherwise the kernel's own timers, which do not scale, are the slow
                           * part */
        CHECK_EQ(setsockopt(r->fd, IPPROTO_TCP, TCP_MAXSEG, &(int){1400}, sizeof(int)), 0);
    }
    CHECK_EQ(connect(r->fd, (const struct sockaddr *)&at->storage, at->len), 0);
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: t\r\n%s\r\n", path,
                     room == LAST ? "Connection: close\r\n" : "");
    CHECK_EQ(send(r->fd, request, (size_t)n, 0), n);
}

/* Reads what its rate allows by now. */
static void slow_read(struct slow *r, double elapsed)
{
    static char scrap[1 << 16];
    size_t due = (size_t)(elapsed * r->rate);
    while (!r->over && r->got < due) {
        size_t most = due - r->got < sizeof scrap ? due - r->got : sizeof scrap;
        ssize_t n = recv(r->fd, scrap, most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        r->over = n <= 0;
        r->got += n > 0 ? (size_t)n : 0;
    }
}

/* For this long, or until all have ended; returns their longest pause. */
static double read_all(struct slow *readers, int count, double seconds)
{
    double from = check_seconds(), now = 0, last = 0, longest = 0;
    bool over = false;
    while (!over && (now = check_seconds() - from) < seconds) {
        longest = now - last > longest ? now - last : longest;
        last = now;
        over = true;
        for (int i = 0; i < count; i++) {
            slow_read(&readers[i], now);
            over = over && readers[i].over;
        }
        poll(NULL, 0, 5);
    }
    return longest;
}

/* A third above the minimum, and faster; with small, default and large receive buffers. */
static const double slow_rates[] = {1.33 * FLOOR, 2 * FLOOR, 20 * FLOOR, 120 * FLOOR, 400 * FLOOR};
static const int rooms[] = {NARROW, 0, 400000};
static const char *const paths[] = {"/memory", "/stream", "/file"};
enum { RATES = 5, ROOMS = 3, PATHS = 3, TCP = RATES * ROOMS * PATHS, SLOW = TCP + PATHS };

static void slow_open_all(struct slow *readers, struct served *s)
{
    struct weft_addr local;
    char name[100];
    snprintf(name, sizeof name, "unix:/tmp/weft-test-pace-%d", (int)getpid());
    CHECK_EQ(weft_http_server_listen(s->server, &local, name), 0);
    for (int i = 0; i < TCP; i++) {
        slow_open(&readers[i], &s->at, slow_rates[i % RATES], paths[i / RATES % PATHS],
                  rooms[i / RATES / PATHS]);
    }
    for (int i = 0; i < PATHS; i++) {
        slow_open(&readers[TCP + i], &local, slow_rates[0], paths[i], 0);
    }
}

/* False: this thread was kept from reading. */
static bool slow_are_kept(enum weft_driver driver)
{
    struct slow readers[SLOW];
    struct served s;
    answer_bytes = SLOW_BYTES;
    begin(&s, driver,
          (struct weft_http_server_limits){.write_ns = S(30) / SCALE, .write_rate = FLOOR});
    slow_open_all(readers, &s);
    double longest = read_all(readers, SLOW, SLOW_SECONDS);
    bool in_time = longest < 0.1;
    printf("    longest pause %.0f ms\n", longest * 1e3);
    CHECK(!in_time || served_stats(&s).write_timeouts == 0);
    for (int i = 0; i < SLOW; i++) {
        CHECK(!in_time || !readers[i].over || readers[i].got > SLOW_BYTES);
        close(readers[i].fd);
    }
    served_end(&s);
    return in_time;
}

EACH_DRIVER(slow_readers_above_min_rate_are_kept)
{
    for (int tries = 0; tries < 5 && !slow_are_kept(driver); tries++) {
    }
}

/* The response is completely in the server's send buffer, and the server has no more work to do for
 * it. Neither the keep-alive timeout nor the close may discard it, as the kernel does with a closed
 * connection whose client has no buffer space for some minutes. */
EACH_DRIVER(slow_reader_keeps_connection_until_last_byte)
{
    enum { READERS = 4 };
    struct slow readers[READERS];
    struct served s;
    answer_bytes = 700000;
    begin(&s, driver,
          (struct weft_http_server_limits){.write_ns = S(30) / SCALE,
                                           .write_rate = FLOOR,
                                           .idle_ns = MS(100),
                                           .linger_ns = MS(100)});
    for (int i = 0; i < READERS; i++) {
        slow_open(&readers[i], &s.at, 14 * FLOOR, i % 2 ? "/file" : "/stream", i / 2 ? LAST : 0);
    }
    read_all(readers, READERS, 0.5); /* half of it */
    CHECK_EQ(served_stats(&s).open, READERS);
    read_all(readers, READERS, WAIT_LIMIT);
    for (int i = 0; i < READERS; i++) {
        CHECK(readers[i].over);
        CHECK(readers[i].got > answer_bytes);
        close(readers[i].fd);
    }
    served_end(&s);
}

/* The data that the client's kernel has buffered ahead allows the client some time, and no more. */
EACH_DRIVER(stopped_reader_is_disconnected)
{
    enum { RATE = 1000000, AHEAD = 200000 };
    struct slow reader;
    struct served s;
    answer_bytes = SLOW_BYTES;
    begin(&s, driver,
          (struct weft_http_server_limits){
              .write_ns = LIMIT, .write_rate = RATE, .write_burst = AHEAD});
    slow_open(&reader, &s.at, 1e9, "/file", 400000);
    while (reader.got < 5000000) {
        slow_read(&reader, 0.005); /* no more than that */
    }
    double from = check_seconds();
    while (served_stats(&s).write_timeouts == 0) {
        CHECK(check_seconds() - from < WAIT_LIMIT);
        sched_yield();
    }
    double took = check_seconds() - from;
    printf("    cut after %.0f ms\n", took * 1e3);
    CHECK(took >= (double)LIMIT / 1e9);
    /* The client learns at once, and the kernel does not keep the unread data. */
    CHECK_EQ(poll(&(struct pollfd){.fd = reader.fd}, 1, WAIT_LIMIT * 1000), 1);
    close(reader.fd);
    served_end(&s);
}

/* --- exact bytes and times -------------------------------------------------------------------- */

static struct weft__server server;
static struct weft__session session;
static struct weft__turn turn;

static void turn_begin(void)
{
    memset(&session, 0, sizeof session);
    session.server = &server;
    session.fd = -1;
    session.address = 1; /* not of a Unix socket */
    weft__turn_init(&turn, &session);
    turn.credit_ns = INT64_MIN;
}

/* 30 s at 500 bytes per second: 15,000 bytes; 5,000 bytes ahead: 10 s. The connection is watched.
 * There is no socket: everything written counts as read. */
static void judged_begin(uint64_t taken)
{
    memset(&server, 0, sizeof server);
    server.opts =
        (struct weft__server_opts){.write_ns = S(30), .write_rate = 500, .write_burst = 5000};
    weft__min_rate_init(&server);
    CHECK_EQ(server.slow_wait_ns, MS(2)); /* the time of a byte */
    turn_begin();
    turn.slow_wait_ns = server.slow_wait_ns;
    turn.written = taken;
    CHECK(!weft__min_rate_check(&turn, S(29))); /* the first is not counted */
    CHECK_EQ(turn.slow_wait_ns, 0);
}

static bool too_slow(uint64_t bytes, int64_t waited_ns)
{
    weft__turn_add_written(&turn, bytes);
    return weft__min_rate_check(&turn, waited_ns);
}

TEST(min_rate_grants_time_per_byte)
{
    judged_begin(0);
    CHECK(!too_slow(14999, S(60) - MS(2)));
    CHECK(too_slow(0, MS(2)));
    CHECK_EQ(session.timed_out, 1 + WEFT__PHASE_WRITE);
    judged_begin(0);
    CHECK(!too_slow(0, S(30)));
    CHECK(!too_slow(1, MS(2)));
    CHECK(too_slow(0, MS(2)));
    judged_begin(0);
    for (int i = 0; i < 1000; i++) {
        CHECK(!too_slow(500, S(1)));
    }
    judged_begin(0);
    for (int i = 0; i < 15000; i++) {
        CHECK(!too_slow(499, S(1)));
    }
    CHECK(too_slow(499, S(1)));
}

TEST(min_rate_credit_for_bytes_ahead_is_bounded)
{
    judged_begin(2500);
    CHECK(!too_slow(0, S(35)));
    CHECK(too_slow(0, MS(2)));
    judged_begin(1000000000);
    CHECK(!too_slow(0, S(40)));
    CHECK(too_slow(0, MS(2)));
    judged_begin(0);
    CHECK(!too_slow(1000000000, S(10)));
    CHECK(!too_slow(0, S(40)));
    CHECK(too_slow(0, MS(2)));
}

TEST(min_rate_sums_short_waits)
{
    judged_begin(0);
    for (int64_t ns = 0; ns < S(30); ns += MS(1)) {
        CHECK(!too_slow(0, MS(1)));
    }
    CHECK(!too_slow(0, MS(1)));
    CHECK(too_slow(0, MS(1)));
}

TEST(min_rate_is_checked_until_waits_are_short)
{
    judged_begin(5000);
    CHECK(!too_slow(15000, S(30) / 16));
    CHECK_EQ(turn.slow_wait_ns, 0);
    CHECK(!too_slow(15000, S(30) / 16 - 1));
    CHECK_EQ(turn.slow_wait_ns, MS(2));
    judged_begin(5000);
    CHECK(!too_slow(0, S(35)));
    CHECK(!too_slow(15000, 1)); /* has not caught up yet */
    CHECK_EQ(turn.slow_wait_ns, 0);
    CHECK(!too_slow(15000, 1));
    CHECK_EQ(turn.slow_wait_ns, MS(2));
}

TEST(min_rate_accounts_single_wait_at_each_check)
{
    judged_begin(0);
    session.since = S(100);
    CHECK(weft__min_rate_settle(&turn, S(130)));
    CHECK_EQ(session.since, S(130));
    weft__turn_add_written(&turn, 1000);
    CHECK(weft__min_rate_settle(&turn, S(132)));
    CHECK(!weft__min_rate_settle(&turn, S(132) + 1));
    CHECK_EQ(session.since, S(132));
}

TEST(min_rate_accepts_any_rate)
{
    static const uint32_t rates[] = {1, 999999999, 1000000000, UINT32_MAX};
    static const int64_t times[] = {1, S(30), INT64_MAX};
    static const uint32_t aheads[] = {1, UINT32_MAX};
    for (int i = 0; i < 24; i++) {
        server.opts = (struct weft__server_opts){.write_rate = rates[i % 4],
                                                 .write_ns = times[i / 4 % 3],
                                                 .write_burst = aheads[i / 12]};
        weft__min_rate_init(&server);
        CHECK(server.slow_wait_ns >= 1 && server.slow_wait_ns <= S(1));
        turn_begin();
        CHECK_EQ(too_slow(1, INT64_MAX), times[i / 4 % 3] != INT64_MAX);
    }
}
