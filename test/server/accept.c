/* How connections are distributed to workers, and what it costs to accept one. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "http/client.h"

enum { WORKERS = 3 };

static int say_worker(weft_http *req, void *arg)
{
    char text[16];
    (void)arg;
    return weft_http_respond(req, 200, NULL, text,
                             (size_t)snprintf(text, sizeof text, "%d", weft_worker_self()));
}

static void begin(struct served *s, enum weft_driver driver, enum weft_balance balance)
{
    served_make(s, driver, WORKERS,
                &(struct weft_http_server_opts){.balance = balance, .limits.requests = 1000000000});
    served_route(s, "GET", "/", say_worker);
    served_listen(s);
}

static int worker_of(struct client *c)
{
    struct reply *r = client_ask(c, get("/"));
    CHECK_EQ(r->status, 200);
    return atoi(r->body);
}

/* The number of these connections on each worker; each connection stays on its worker. */
static void spread_of(struct served *s, int n, int counts[WORKERS])
{
    static struct client c[60];
    memset(counts, 0, WORKERS * sizeof *counts);
    for (int i = 0; i < n; i++) {
        client_open(&c[i], s);
        int worker = worker_of(&c[i]);
        counts[worker]++;
        for (int j = 0; j < 5; j++) {
            CHECK_EQ(worker_of(&c[i]), worker);
        }
    }
    for (int i = 0; i < n; i++) {
        client_close(&c[i]);
    }
}

EACH_DRIVER(acceptor_balances_connections_by_policy)
{
    struct served s;
    int counts[WORKERS];
    begin(&s, driver, WEFT_BALANCE_ROUND_ROBIN);
    spread_of(&s, 30, counts);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(counts[i], 10);
    }
    served_end(&s);
    begin(&s, driver, WEFT_BALANCE_LEAST);
    spread_of(&s, 30, counts);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(counts[i], 10);
    }
    served_end(&s);
    begin(&s, driver, WEFT_BALANCE_HASH);
    spread_of(&s, 30, counts);
    CHECK(counts[0] == 30 || counts[1] == 30 || counts[2] == 30); /* one address, one worker */
    served_end(&s);
}

EACH_DRIVER(reuseport_gives_each_worker_its_own_listener)
{
    struct served s, second;
    int counts[WORKERS];
    begin(&s, driver, WEFT_BALANCE_REUSEPORT);
    spread_of(&s, 60, counts);
    printf("    %d %d %d\n", counts[0], counts[1], counts[2]);
    CHECK_EQ(counts[0] + counts[1] + counts[2], 60);
    CHECK(counts[0] && counts[1] && counts[2]); /* missed by chance once in 10^10 */
    /* The port is in use, though the kernel would let both sockets have it. */
    served_make(&second, driver, 1,
                &(struct weft_http_server_opts){.balance = WEFT_BALANCE_REUSEPORT});
    char address[WEFT_ADDR_STRLEN];
    weft_addr_format(&s.at, address, sizeof address);
    CHECK_EQ(weft_http_server_listen(second.server, NULL, address), -EADDRINUSE);
    served_end(&second);
    served_end(&s);
}

/* How many other threads, and how many acceptors, are woken for a connection. */
static void count_wakes(struct served *s, double *wakes, double *acceptors)
{
    enum { CONNECTIONS = 200 };
    struct weft_pool_stats before, after;
    uint64_t accept_wakes = served_stats(s).accept_wakes;
    weft_pool_stats(s->pool, &before);
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK_EQ(ask_once(s, get("/"))->status, 200);
    }
    weft_pool_stats(s->pool, &after);
    *wakes = (double)(after.total.wakes - before.total.wakes) / CONNECTIONS;
    *acceptors = (double)(served_stats(s).accept_wakes - accept_wakes) / CONNECTIONS;
}

/* One after another, so that all threads sleep before each connection: only the thread that has the
 * work is woken. On a busy machine a worker may be so late that others are woken to help it, so the
 * best of several attempts counts. */
EACH_DRIVER(accepted_connection_wakes_one_thread)
{
    enum { ATTEMPTS = 20 };
    static const char *const names[] = {"least", "round robin", "hash", "reuseport"};
    for (int balance = WEFT_BALANCE_LEAST; balance <= WEFT_BALANCE_REUSEPORT; balance++) {
        struct served s;
        double wakes = 2, acceptors = 2;
        static struct client other; /* so that no timeout starts or ends with the last connection */
        begin(&s, driver, (enum weft_balance)balance);
        client_open(&other, &s);
        CHECK(worker_of(&other) < WORKERS);
        for (int i = 0; i < ATTEMPTS && (wakes > 1.2 || acceptors > 1.2); i++) {
            count_wakes(&s, &wakes, &acceptors);
            printf("    %s: %.2f wake-ups by other threads, %.2f of acceptors\n", names[balance],
                   wakes, acceptors);
        }
        CHECK(wakes <= 1.2);
        CHECK(acceptors <= 1.2);
        client_close(&other);
        served_end(&s);
    }
}

EACH_DRIVER(server_listens_on_unix_and_several_addresses)
{
    struct served s;
    struct weft_addr second, local;
    struct client c;
    char path[64];
    snprintf(path, sizeof path, "unix:@weft-test-http-%d", (int)getpid());
    begin(&s, driver, WEFT_BALANCE_REUSEPORT);
    int err = weft_http_server_listen(s.server, &second, "[::1]:0");
    if (err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT) { /* no IPv6 here */
        err = weft_http_server_listen(s.server, &second, "127.0.0.2:0");
    }
    CHECK_EQ(err, 0);
    CHECK_EQ(weft_http_server_listen(s.server, &local, path), 0);
    CHECK_EQ(worker_of((client_open_to(&c, &second), &c)) < WORKERS, 1);
    client_close(&c);
    CHECK_EQ(worker_of((client_open_to(&c, &local), &c)) < WORKERS, 1);
    client_close(&c);
    CHECK_EQ(ask_once(&s, get("/"))->status, 200);
    served_end(&s);
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* What is at the path of a Unix socket when the server stops. */
enum at_the_path { ITS_OWN, NOTHING, A_FILE, A_SOCKET };

static void stop_with(enum weft_driver driver, enum at_the_path what)
{
    struct served s;
    struct weft_addr local;
    struct client c;
    char address[64], *path = address + 5;
    int fd = -1;
    snprintf(address, sizeof address, "unix:/tmp/weft-test-http-%d", (int)getpid());
    begin(&s, driver, WEFT_BALANCE_LEAST);
    CHECK_EQ(weft_http_server_listen(s.server, &local, address), 0);
    CHECK_EQ(worker_of((client_open_to(&c, &local), &c)) < WORKERS, 1);
    client_close(&c);
    CHECK_EQ(weft_http_server_listen(s.server, NULL, address), -EADDRINUSE);
    CHECK(is_there(path));
    if (what != ITS_OWN) {
        CHECK_EQ(unlink(path), 0);
    }
    if (what == A_FILE) {
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    } else if (what == A_SOCKET) {
        fd = weft_listen(address, NULL);
    }
    CHECK(what < A_FILE || fd >= 0);
    served_end(&s);
    CHECK_EQ(is_there(path), what >= A_FILE);
    if (fd >= 0) {
        CHECK_EQ(weft_close(fd), 0);
        CHECK_EQ(unlink(path), 0);
    }
}

EACH_DRIVER(stopped_server_removes_its_unix_socket_file)
{
    stop_with(driver, ITS_OWN);
    stop_with(driver, ITS_OWN); /* and the path is free */
    stop_with(driver, NOTHING);
}

EACH_DRIVER(stopped_server_keeps_foreign_file_at_socket_path)
{
    stop_with(driver, A_FILE);
    stop_with(driver, A_SOCKET);
}

/* --- descriptor exhaustion -------------------------------------------------------------------- */

/* All numbers below it are in use. */
static int lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    return fd;
}

static weft_event go_on;

static int wait_busily(weft_http *req, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_event_wait(&go_on, WEFT_FOREVER), 0);
    return weft_http_respond(req, 200, NULL, "", 0);
}

/* Descriptors run out and no connection is idle: the acceptor pauses without spinning, and
 * continues when descriptors are available again. */
EACH_DRIVER(acceptor_pauses_at_fd_limit_and_resumes)
{
    static struct client c[4];
    struct served s;
    struct rlimit old, few;
    weft_event_init(&go_on, NULL);
    served_make(&s, driver, WORKERS,
                &(struct weft_http_server_opts){.balance = WEFT_BALANCE_ROUND_ROBIN});
    served_route(&s, "GET", "/", say_worker);
    served_route(&s, "GET", "/wait", wait_busily);
    served_listen(&s);
    for (int i = 0; i < WORKERS; i++) { /* each opens its driver */
        CHECK_EQ(ask_once(&s, get("/"))->status, 200);
    }
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    uint64_t read_by_now = served_stats(&s).bytes_in;
    for (int i = 0; i < 2; i++) {
        client_open(&c[i], &s);
        client_send(&c[i], get("/wait"));
        read_by_now += strlen(get("/wait"));
    }
    /* They are in their requests, and the earlier ones have closed their descriptors. */
    while (served_stats(&s).open != 2 || served_stats(&s).bytes_in != read_by_now) {
        sched_yield();
    }
    int fds[2]; /* the clients' sockets, opened while that was possible */
    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fds[i] >= 0);
    }
    few.rlim_cur = (rlim_t)lowest_free();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    /* An accept that a ring has in flight uses the previous limit: one connection may get in. */
    for (int i = 0; i < 2; i++) {
        c[2 + i].fd = fds[i];
        c[2 + i].start = c[2 + i].end = 0;
        CHECK_EQ(connect(fds[i], (struct sockaddr *)&s.at.storage, s.at.len), 0);
        client_send(&c[2 + i], get("/"));
    }
    double used = 1, passed = 1;
    for (int i = 0; i < 20 && used >= 0.1 * passed + 0.02; i++) { /* a spinning acceptor spins every
                                                                   * time */
        struct timespec cpu_from, cpu_to;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_from);
        double from = check_seconds();
        CHECK_EQ(poll(&(struct pollfd){.fd = fds[1], .events = POLLIN}, 1, 300), 0);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_to);
        used = (double)(cpu_to.tv_sec - cpu_from.tv_sec) +
               (double)(cpu_to.tv_nsec - cpu_from.tv_nsec) / 1e9;
        passed = check_seconds() - from;
    }
    printf("    %.1f %% of a CPU while there are none\n", 100 * used / passed);
    CHECK(used < 0.1 * passed + 0.02);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    double from = check_seconds();
    CHECK_EQ(client_reply(&c[3])->status, 200);
    int status = client_reply(&c[2])->status; /* 503: it was accepted, and was one too many */
    CHECK(status == 200 || status == 503);
    CHECK(check_seconds() - from < 60);
    weft_event_set(&go_on);
    CHECK_EQ(client_reply(&c[0])->status, 200);
    CHECK_EQ(client_reply(&c[1])->status, 200);
    for (int i = 0; i < 4; i++) {
        client_close(&c[i]);
    }
    served_end(&s);
}

/* --- a burst of connections ------------------------------------------------------------------- */

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

static int say_accepted(weft_http *req, void *arg)
{
    struct weft_http_stats stats;
    char text[32];
    weft_http_server_stats(arg, &stats);
    return weft_http_respond(
        req, 200, NULL, text,
        (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)stats.accepted));
}

/* All connections, and a request, wait when the worker becomes free again. */
EACH_DRIVER(connection_storm_does_not_delay_pending_request)
{
    enum { STORM = 400 };
    struct served s;
    struct client holds, asks;
    int storm[STORM];
    served_make(&s, driver, 1, NULL);
    served_route(&s, "GET", "/hold", hold);
    CHECK_EQ(weft_http_server_route(s.server, "GET", "/accepted", say_accepted, s.server, NULL), 0);
    served_listen(&s);
    client_open(&holds, &s);
    client_open(&asks, &s);
    CHECK_EQ(atoi(client_ask(&asks, get("/accepted"))->body), 2);
    client_send(&holds, get("/hold"));
    while (!atomic_load(&held)) {
        sched_yield();
    }
    for (int i = 0; i < STORM; i++) {
        /* Where the system's backlog is shorter, the rest comes later. */
        storm[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(connect(storm[i], (struct sockaddr *)&s.at.storage, s.at.len) == 0 ||
              errno == EINPROGRESS);
    }
    client_send(&asks, get("/accepted"));
    atomic_store(&held, false);
    CHECK_EQ(client_reply(&holds)->status, 200);
    int accepted = atoi(client_reply(&asks)->body);
    printf("    after %d of %d\n", accepted, STORM);
    CHECK(accepted < STORM / 2);
    for (int i = 0; i < STORM; i++) {
        CHECK_EQ(close(storm[i]), 0);
    }
    client_close(&holds);
    client_close(&asks);
    served_end(&s);
}
