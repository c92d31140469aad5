/* Very many connections to one HTTP server, from one thread: most are idle from the start, or after
 * one request; some send requests at a steady rate, and some only a little more often than the
 * server's idle timeout demands. Logs when each response came and when the server closed each idle
 * connection; test/soak/idle starts the program and evaluates the log.
 *
 * usage: clients PORT PATH LOG -c CONNECTIONS -t TALKERS -w WHISPERERS -r REQUESTS_PER_SECOND
 *                -s IDLE_SECONDS -a FIRST_ADDRESS -o OPENED_PER_SECOND
 *
 * CONNECTIONS is the total. They come from 127.0.0.FIRST_ADDRESS and the following addresses,
 * 10,000 from each. "open" is printed when all are open. The program ends when every idle
 * connection was closed, or should have been closed seconds ago; then it sends one more request on
 * every active connection. Status 1, with a line: an active connection was closed, or got no
 * response, or a response other than "200". Status 77: a connection was closed because this program
 * was too late to send on it.
 *
 * Lines of LOG, in microseconds of the monotonic clock:
 *   silent BEGUN KNOWN CLOSED    its last activity began and was seen to be over; 0: never closed
 *   answer DUE AFTER             the response to a request due at that time came so much later
 *   missed DUE                   no request was sent: the one before had no response yet
 *   cpu RAN WAITED               how long this program ran, and waited for a CPU */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PER_ADDRESS = 10000,
    WINDOW = 32, /* new connections that wait for their response: no backlog of the server
                  * overflows */
    AT_ONCE = 16,
};
#define NS_PER_S INT64_C(1000000000)
#define GRACE_NS (60 * NS_PER_S) /* for events that are overdue */
#define WHISPER_SHARE 0.8        /* of the idle timeout */

enum kind { MUTE, ONCE, SPEAKER };

struct connection {
    int fd; /* -1: closed */
    enum kind kind;
    bool waits;         /* for a response */
    bool scheduled;     /* ... that counts */
    size_t got;         /* of it */
    int64_t due;        /* of the request */
    int64_t begun, end; /* the last activity */
    int64_t gap;        /* since the one before, and more than the time that the server saw
                         * nothing */
    int64_t closed;
};

/* Active connections that take turns: request n is due at start + n * gap. */
struct cadence {
    struct connection **members;
    long count, open;
    double gap_ns;
    int64_t start;
    long turn;
};

static struct {
    uint16_t port;
    const char *path;
    long connections, talkers, whisperers;
    double rate, idle_s, open_rate;
    int address;
} options;

static struct connection *all;
static struct cadence talk, whisper;
static int speakers, poller; /* the first is also in the second, with the idle ones */
static FILE *record;
static char request[512], begin[] = "HTTP/1.1 200 ";
static size_t request_bytes, reply_bytes;
static long opened, unanswered_new, silent_open, waiting;
static int64_t last_silence; /* of the one that became idle last */

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "clients: %s\n", what);
    exit(1);
}

__attribute__((noreturn)) static void fail_by_errno(const char *what)
{
    fprintf(stderr, "clients: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static long long us(int64_t ns)
{
    return ns / 1000;
}

static void ended(struct connection *c);

/* --- one exchange --------------------------------------------------------------------------- */

static void ask(struct connection *c, int64_t due, bool scheduled)
{
    int64_t before = c->begun;
    c->begun = clock_ns();
    c->due = due;
    c->scheduled = scheduled;
    c->waits = true;
    c->got = 0;
    waiting++;
    ssize_t sent = send(c->fd, request, request_bytes, MSG_NOSIGNAL);
    c->gap = clock_ns() - before;
    if (sent != (ssize_t)request_bytes) {
        ended(c);
    }
}

/* All replies have one length, that of the first. */
static void learn(const char *reply, size_t n)
{
    char text[4096] = "";
    memcpy(text, reply, n < sizeof text - 1 ? n : sizeof text - 1);
    const char *blank = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\ncontent-length:");
    if (!blank || !length || length > blank) {
        fail("the first reply has no whole head with a Content-Length");
    }
    reply_bytes = (size_t)(blank + 4 - text) + strtoul(length + 17, NULL, 10);
}

static void answered(struct connection *c)
{
    c->waits = false;
    c->end = clock_ns();
    waiting--;
    if (c->scheduled) {
        fprintf(record, "answer %lld %lld\n", us(c->due), us(c->end - c->due));
    } else if (unanswered_new > 0) {
        unanswered_new--;
    }
    if (c->kind == ONCE) {
        last_silence = c->end;
    }
}

static void take_reply(struct connection *c, const char *bytes, size_t n)
{
    if (!c->waits) {
        fail("bytes that nobody asked for");
    }
    if (c->got == 0 && (n < sizeof begin - 1 || memcmp(bytes, begin, sizeof begin - 1) != 0)) {
        fail("an answer that is no 200");
    }
    if (!reply_bytes) {
        learn(bytes, n);
    }
    c->got += n;
    if (c->got > reply_bytes) {
        fail("an answer of another length");
    }
    if (c->got == reply_bytes) {
        answered(c);
    }
}

__attribute__((noreturn)) static void speaker_ended(const struct connection *c)
{
    int64_t now = clock_ns(), gap = c->waits ? c->gap : now - c->begun;
    bool late = (double)gap >= options.idle_s * 1e9;
    fprintf(stderr, "clients: a speaker was closed, %.3f s after its last request%s\n",
            (double)(now - c->begun) / 1e9,
            late ? ", which came late: this machine is too busy" : "");
    exit(late ? 77 : 1);
}

static void ended(struct connection *c)
{
    if (c->kind == SPEAKER || c->waits) { /* or one that waits for its only response */
        speaker_ended(c);
    }
    c->closed = clock_ns();
    close(c->fd);
    c->fd = -1;
    silent_open--;
}

static void on_readable(struct connection *c)
{
    char buffer[8192];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) {
        take_reply(c, buffer, (size_t)n);
    } else if (n == 0) {
        ended(c);
    } else if (errno == ECONNRESET && (c->kind == SPEAKER || c->waits)) {
        ended(c);
    } else if (errno != EAGAIN && errno != EINTR) {
        fail_by_errno("a silent connection");
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

static int connect_from(int address)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7f000000U + (uint32_t)address)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(options.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger cut = {.l_onoff = 1}; /* no TIME_WAIT state where this program closes
                                               * first */
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_by_errno("socket");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &cut, sizeof cut);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0) {
        fail_by_errno("bind");
    }
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        fail_by_errno("connect");
    }
    return fd;
}

static void open_next(void)
{
    long i = opened++, n = options.connections, speaking = options.talkers + options.whisperers;
    struct connection *c = &all[i];
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = c};
    bool speaker = i * speaking / n != (i + 1) * speaking / n;
    c->begun = c->end = clock_ns();
    c->fd = connect_from(options.address + (int)(i / PER_ADDRESS));
    c->kind = speaker ? SPEAKER : i % 2 ? MUTE : ONCE;
    if (epoll_ctl(speaker ? speakers : poller, EPOLL_CTL_ADD, c->fd, &interest) != 0) {
        fail_by_errno("epoll_ctl");
    }
    if (speaker) {
        struct cadence *of = talk.open < talk.count ? &talk : &whisper;
        of->members[of->open++] = c;
    } else {
        silent_open++;
    }
    if (c->kind == MUTE) {
        last_silence = c->end = clock_ns();
    } else {
        unanswered_new++;
        ask(c, c->begun, false);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

/* Each of them sends once in that time. */
static void prepare(struct cadence *of, long count, double each_ns)
{
    of->members = calloc((size_t)(count ? count : 1), sizeof(struct connection *));
    of->count = count;
    of->gap_ns = each_ns / (double)(count ? count : 1);
    of->start = clock_ns();
    if (!of->members) {
        fail("no memory");
    }
}

static int64_t due(const struct cadence *of)
{
    return of->count ? of->start + (int64_t)((double)of->turn * of->gap_ns) : INT64_MAX;
}

/* A connection that is not open yet misses its turn. */
static void speak(struct cadence *of, int64_t now)
{
    for (; due(of) <= now; of->turn++) {
        long member = of->turn % of->count;
        if (member >= of->open) {
            continue;
        }
        struct connection *c = of->members[member];
        if (!c->waits) {
            ask(c, due(of), true);
        } else if (c->scheduled) {
            fprintf(record, "missed %lld\n", us(due(of)));
        }
    }
}

/* --- the whole run ---------------------------------------------------------------------------- */

static void look(int at, int64_t wait_ns)
{
    struct epoll_event events[AT_ONCE];
    struct timespec timeout = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
    int n = epoll_pwait2(at, events, AT_ONCE, &timeout, NULL);
    if (n < 0 && errno != EINTR) {
        fail_by_errno("epoll_pwait2");
    }
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr) {
            on_readable(events[i].data.ptr);
        }
    }
}

/* Responses are read at once, however many other connections are being closed. */
static void turn(int64_t until)
{
    int64_t now = clock_ns();
    look(poller, until > now ? until - now : 0);
    look(speakers, 0);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When the next connection is opened; never if all are open, or too many wait for their first
 * response. */
static int64_t next_opening(int64_t start)
{
    return opened < options.connections && unanswered_new < WINDOW
               ? start + (int64_t)((double)opened * 1e9 / options.open_rate)
               : INT64_MAX;
}

static void converse(void)
{
    bool told = false;
    int64_t start = last_silence = clock_ns();
    for (;;) {
        int64_t over = last_silence + (int64_t)(options.idle_s * 1e9) + GRACE_NS;
        int64_t now = clock_ns(), opening = next_opening(start);
        if (opened == options.connections && !unanswered_new) {
            if (!told) {
                puts("open");
                fflush(stdout);
                told = true;
            }
            if (silent_open == 0 || now > over) {
                return;
            }
        }
        speak(&talk, now);
        speak(&whisper, now);
        turn(sooner(sooner(opening, over), sooner(due(&talk), due(&whisper))));
        if (opening <= now) {
            open_next();
        }
    }
}

/* All are open, and all are served. */
static void ask_all(void)
{
    int64_t until = clock_ns() + GRACE_NS;
    while (waiting > 0 && clock_ns() < until) {
        turn(until);
    }
    if (waiting > 0) {
        fail("a request was not answered");
    }
    for (long i = 0; i < options.connections; i++) {
        if (all[i].kind == SPEAKER) {
            ask(&all[i], clock_ns(), false);
            turn(0);
        }
    }
    while (waiting > 0 && clock_ns() < until) {
        turn(until);
    }
    if (waiting > 0) {
        fail("a speaker was not answered at the end");
    }
}

static void write_record(void)
{
    unsigned long long ran, waited;
    FILE *schedstat = fopen("/proc/self/schedstat", "re");
    if (schedstat && fscanf(schedstat, "%llu %llu", &ran, &waited) == 2) {
        fprintf(record, "cpu %llu %llu\n", ran / 1000, waited / 1000);
    }
    if (schedstat) {
        fclose(schedstat);
    }
    for (long i = 0; i < options.connections; i++) {
        const struct connection *c = &all[i];
        if (c->kind != SPEAKER) {
            fprintf(record, "silent %lld %lld %lld\n", us(c->begun), us(c->end), us(c->closed));
        }
    }
    if (fclose(record) != 0) {
        fail_by_errno("the log");
    }
}

static void read_options(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "c:t:w:r:s:a:o:")) >= 0) {
        switch (option) {
        case 'c':
            options.connections = atol(optarg);
            break;
        case 't':
            options.talkers = atol(optarg);
            break;
        case 'w':
            options.whisperers = atol(optarg);
            break;
        case 'r':
            options.rate = atof(optarg);
            break;
        case 's':
            options.idle_s = atof(optarg);
            break;
        case 'o':
            options.open_rate = atof(optarg);
            break;
        case 'a':
            options.address = atoi(optarg);
            break;
        default:
            exit(2);
        }
    }
    if (argc - optind != 3 || options.connections <= 0 || options.talkers <= 0 ||
        options.whisperers < 0 || options.talkers + options.whisperers > options.connections ||
        options.rate <= 0 || options.open_rate <= 0 || options.idle_s <= 0 ||
        options.address <= 0) {
        fail("usage: see the head of clients.c");
    }
    options.port = (uint16_t)atoi(argv[optind]);
    options.path = argv[optind + 1];
    record = fopen(argv[optind + 2], "we");
    if (!record) {
        fail_by_errno(argv[optind + 2]);
    }
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    read_options(argc, argv);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    request_bytes =
        (size_t)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
                         options.path, options.port);
    all = calloc((size_t)options.connections, sizeof *all);
    poller = epoll_create1(EPOLL_CLOEXEC);
    speakers = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event interest = {.events = EPOLLIN};
    if (!all || request_bytes >= sizeof request ||
        epoll_ctl(poller, EPOLL_CTL_ADD, speakers, &interest) != 0) {
        fail("cannot start");
    }
    prepare(&talk, options.talkers, 1e9 * (double)options.talkers / options.rate);
    prepare(&whisper, options.whisperers, 1e9 * options.idle_s * WHISPER_SHARE);
    converse();
    ask_all();
    write_record();
    return 0;
}
