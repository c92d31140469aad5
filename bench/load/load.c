/* The load for the servers of bench/compare: a closed loop on one thread, and the server's cost.
 *
 * Each connection sends a batch (64 bytes, or -d GETs of -p PATH in one write), reads the whole
 * reply, and sends the next batch. All replies of a server have one length, learnt from the first
 * reply: so nothing is parsed, and the load costs less than the servers. The load checks that each
 * reply begins as expected.
 *
 * usage: load PEER ROW PORT SERVER_PID [-c CONNECTIONS] [-p PATH] [-d DEPTH] [-f cpu|mib|rate]
 *                                      [-s SECONDS] [-i IDLE_CONNECTIONS]
 *        load PEER ROW PORT 0 -n REQUESTS ...        send that many requests, print no figures
 *
 * ROW is the server's CPU time per request (-f mib: per MiB; -f rate: ROW is requests per second
 * and ROW_cpu the CPU time). Also printed: ROW_user, the part outside the kernel, ROW_rate, ROW_p50
 * and ROW_p99. With -i, ROW is measured while that many more connections are open and nearly idle,
 * and PEER-alone (for weft: limit-alone) before and after them.
 */
#include "cpu.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    ECHO_BYTES = 64,
    BEGIN_BYTES = 12, /* "HTTP/1.1 200", or as many bytes of the echo */
    BUCKET_NS = 250,
    BUCKETS = 400000,
    STALL_MS = 3000,
    WHISPER_NS = 10000000, /* one idle connection sends each time */
};
static const double WARM_S = 0.5, SAMPLE_S = 1;

struct connection {
    int fd;
    bool idle;
    size_t got; /* bytes of the current reply */
    uint64_t sent_at;
};

static struct {
    const char *peer, *row, *path, *figure;
    uint16_t port;
    pid_t server;
    int connections, depth, idle;
    long requests;
    double seconds;
} options = {.figure = "cpu", .connections = 50, .depth = 1, .seconds = 2};

static char *request; /* a batch */
static size_t request_bytes, reply_bytes;
static char reply_begin[BEGIN_BYTES];
static char buffer[64 * 1024];
static struct connection *hot, *idle;
static int poller;
static long to_send; /* batches, if their number is given */
static int under_way;
static long answered; /* batches of active connections */
static uint32_t histogram[BUCKETS];

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void fail_by_errno(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- connections ---- */

static int connect_to_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(options.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    struct linger abort_on_close = {
        .l_onoff = 1}; /* no TIME_WAIT: ten thousand would obstruct the next run */
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        fail_by_errno("load: connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_on_close, sizeof abort_on_close);
    return fd;
}

static void send_batch(struct connection *connection, uint64_t now)
{
    connection->sent_at = now;
    if (send(connection->fd, request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes)
        fail_by_errno("load: send");
}

static void watch(struct connection *connection)
{
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, connection->fd, &interest))
        fail_by_errno("load: epoll_ctl");
}

static void open_hot(void)
{
    hot = calloc((size_t)options.connections, sizeof *hot);
    for (int i = 0; i < options.connections; i++) {
        hot[i].fd = connect_to_server();
        watch(&hot[i]);
    }
}

/* Each connection gets one reply before the next connects: no queue of the server overflows, and
 * the server has seen all of them. */
static void open_idle(void)
{
    idle = calloc((size_t)options.idle, sizeof *idle);
    for (int i = 0; i < options.idle; i++) {
        idle[i].fd = connect_to_server();
        idle[i].idle = true;
        send_batch(&idle[i], 0);
        for (size_t got = 0; got < reply_bytes;) {
            ssize_t n = recv(idle[i].fd, buffer, sizeof buffer, 0);
            if (n <= 0)
                fail("load: an idle connection was not answered");
            got += (size_t)n;
        }
        watch(&idle[i]);
    }
}

static void close_idle(void)
{
    for (int i = 0; i < options.idle; i++)
        close(idle[i].fd);
    free(idle);
    idle = NULL;
}

/* ---- requests and replies ---- */

static void make_request(void)
{
    char get[512];
    size_t bytes = ECHO_BYTES;
    memset(get, 'w', sizeof get);
    if (options.path)
        bytes = (size_t)snprintf(get, sizeof get, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
                                 options.path, options.port);
    if (bytes >= sizeof get)
        fail("load: PATH is too long");
    request_bytes = bytes * (size_t)options.depth;
    request = malloc(request_bytes);
    for (int i = 0; i < options.depth; i++)
        memcpy(request + bytes * (size_t)i, get, bytes);
    memcpy(reply_begin, options.path ? "HTTP/1.1 200" : get, sizeof reply_begin);
}

/* One initial request determines the length of a reply. */
static void learn_reply(void)
{
    reply_bytes = request_bytes;
    if (!options.path)
        return;
    char head[4096];
    size_t got = 0, body = 0;
    char *end = NULL, *length;
    int fd = connect_to_server();
    if (send(fd, request, request_bytes / (size_t)options.depth, MSG_NOSIGNAL) < 0)
        fail_by_errno("load: send");
    while (!end) {
        ssize_t n = recv(fd, head + got, sizeof head - 1 - got, 0);
        if (n <= 0)
            fail("load: no reply with a head of less than 4 KiB");
        got += (size_t)n;
        head[got] = 0;
        end = strstr(head, "\r\n\r\n");
    }
    if (memcmp(head, reply_begin, sizeof reply_begin)) {
        *strchr(head, '\r') = 0;
        fprintf(stderr, "load: the reply to GET %s is %s\n", options.path, head);
        exit(1);
    }
    length = strcasestr(head, "\r\ncontent-length:");
    if (!length || sscanf(length + strlen("\r\ncontent-length:"), "%zu", &body) != 1)
        fail("load: a reply without Content-Length");
    reply_bytes = ((size_t)(end + 4 - head) + body) * (size_t)options.depth;
    close(fd);
}

/* ---- the loop ---- */

static void count(uint64_t ns)
{
    uint64_t bucket = ns / BUCKET_NS;
    histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    answered++;
}

static double percentile_us(double share)
{
    double wanted = (double)answered * share, seen = 0;
    for (int i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen >= wanted)
            return (i + 0.5) * BUCKET_NS / 1e3;
    }
    return 0;
}

static void on_reply(struct connection *connection)
{
    uint64_t now = now_ns();
    connection->got = 0;
    if (connection->idle)
        return;
    count(now - connection->sent_at);
    if (options.requests && to_send-- <= 0)
        under_way--;
    else
        send_batch(connection, now);
}

static void on_readable(struct connection *connection)
{
    ssize_t n = recv(connection->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        fail("load: the server closed a connection");
    if (!connection->got && n >= BEGIN_BYTES && memcmp(buffer, reply_begin, BEGIN_BYTES))
        fail("load: a reply does not begin as the first did");
    connection->got += (size_t)n;
    if (connection->got > reply_bytes)
        fail("load: a reply is longer than the first was");
    if (connection->got == reply_bytes)
        on_reply(connection);
}

static void turn(void)
{
    struct epoll_event ready[512];
    int n = epoll_wait(poller, ready, 512, STALL_MS);
    if (n == 0)
        fail("load: no reply for 3 s");
    for (int i = 0; i < n; i++)
        on_readable(ready[i].data.ptr);
}

static void whisper(uint64_t now)
{
    static uint64_t last;
    static int next;
    if (!idle || now - last < WHISPER_NS)
        return;
    last = now;
    struct connection *connection = &idle[next++ % options.idle];
    if (!connection->got)
        send_batch(connection, now);
}

struct stretch {
    double requests, seconds, cpu_ns;
};

/* Runs the loop for this long, including the batches in flight. The histogram is that of the last
 * run. */
static struct stretch drive(double seconds)
{
    memset(histogram, 0, sizeof histogram);
    answered = 0;
    uint64_t start = now_ns(), now = start, end = start + (uint64_t)(seconds * 1e9);
    double cpu = cpu_ns(options.server);
    for (; now < end; now = now_ns()) {
        turn();
        whisper(now);
    }
    return (struct stretch){.requests = (double)(answered * options.depth),
                            .seconds = (double)(now - start) / 1e9,
                            .cpu_ns = cpu_ns(options.server) - cpu};
}

static void start_all(void)
{
    under_way = options.connections;
    to_send = options.requests / options.depth - options.connections;
    for (int i = 0; i < options.connections; i++)
        send_batch(&hot[i], now_ns());
}

static void drive_requests(void)
{
    while (under_way)
        turn();
}

/* ---- figures ---- */

static void report_cpu(const char *peer, const char *suffix, const struct stretch *stretch,
                       double share)
{
    double us = stretch->cpu_ns / 1e3 * share;
    if (!strcmp(options.figure, "mib"))
        report(peer, options.row, suffix,
               us / (stretch->requests / options.depth * (double)reply_bytes / (1 << 20)),
               "us/MiB");
    else
        report(peer, options.row, suffix, us / stretch->requests, "us/req");
}

/* Measures while the load runs. */
static void report_user(const struct stretch *stretch)
{
    struct sampler sampler;
    int error = sampler_open(&sampler, options.server);
    if (error) {
        fprintf(stderr, "load: no part outside the kernel: perf_event_open: %s\n",
                strerror(-error));
        return;
    }
    drive(SAMPLE_S);
    double share = sampler_user_share(&sampler);
    if (share >= 0)
        report_cpu(options.peer, "_user", stretch, share);
}

static void report_stretch(const struct stretch *stretch)
{
    bool by_rate = !strcmp(options.figure, "rate");
    report_cpu(options.peer, by_rate ? "_cpu" : "", stretch, 1);
    report(options.peer, options.row, by_rate ? "" : "_rate", stretch->requests / stretch->seconds,
           "req/s");
    report(options.peer, options.row, "_p50", percentile_us(0.5), "us");
    report(options.peer, options.row, "_p99", percentile_us(0.99), "us");
}

static void measure(void)
{
    drive(WARM_S);
    struct stretch stretch = drive(options.seconds);
    report_stretch(&stretch);
    report_user(&stretch);
}

/* The active connections alone are measured before and after, so that drift in between does not
 * count. */
static void measure_with_idle(void)
{
    char alone[64];
    drive(WARM_S);
    struct stretch before = drive(options.seconds);
    open_idle();
    measure();
    close_idle();
    drive(WARM_S);
    struct stretch after = drive(options.seconds);
    before.requests += after.requests;
    before.cpu_ns += after.cpu_ns;
    snprintf(alone, sizeof alone, "%s-alone",
             strcmp(options.peer, "weft") ? options.peer : "limit");
    report_cpu(alone, "", &before, 1);
}

static void parse(int argc, char **argv)
{
    static const char usage[] =
        "usage: load PEER ROW PORT SERVER_PID [-c CONNECTIONS] [-p PATH] [-d DEPTH] [-f cpu|mib|rate]\n"
        "            [-s SECONDS] [-i IDLE_CONNECTIONS] [-n REQUESTS]";
    if (argc < 5)
        fail(usage);
    options.peer = argv[1];
    options.row = argv[2];
    options.port = (uint16_t)atoi(argv[3]);
    options.server = atoi(argv[4]);
    optind = 5;
    for (int option; (option = getopt(argc, argv, "c:p:d:f:s:i:n:")) != -1;) {
        switch (option) {
        case 'c':
            options.connections = atoi(optarg);
            break;
        case 'p':
            options.path = optarg;
            break;
        case 'd':
            options.depth = atoi(optarg);
            break;
        case 'f':
            options.figure = optarg;
            break;
        case 's':
            options.seconds = atof(optarg);
            break;
        case 'i':
            options.idle = atoi(optarg);
            break;
        case 'n':
            options.requests = atol(optarg);
            break;
        default:
            fail(usage);
        }
    }
    if (options.connections < 1 || options.depth < 1 || options.idle < 0 || optind < argc ||
        !(options.server || options.requests))
        fail(usage);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    poller = epoll_create1(0);
    make_request();
    learn_reply();
    open_hot();
    start_all();
    if (options.requests)
        drive_requests();
    else if (options.idle)
        measure_with_idle();
    else
        measure();
}
