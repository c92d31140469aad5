/* A server stop under load loses no request: some clients keep their connections, others use one
 * connection per request, and none ever sends a request twice. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "http/client.h"

enum { KEEPING = 12, CONNECTING = 6 };

static struct {
    struct weft_addr at;
    atomic_bool over; /* the stop has returned */
    atomic_ulong answered, lost;
} load;

/* Returns -1 if the connection is refused, or the server has already stopped. A handshake that the
 * server holds off is not waited for: nothing was sent. */
static int connect_to_server(void)
{
    int fd = socket(load.at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err, left;
    socklen_t len = sizeof err;
    CHECK(fd >= 0);
    err = connect(fd, (struct sockaddr *)&load.at.storage, load.at.len) == 0 ? 0 : errno;
    struct pollfd done = {.fd = fd, .events = POLLOUT};
    while (err == EINPROGRESS && !atomic_load(&load.over)) {
        left = poll(&done, 1, 5);
        if (left == 1) {
            CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
        }
    }
    if (err) { /* EAGAIN: the backlog of a Unix socket is full */
        close(fd);
        return err == EAGAIN ? -2 : -1;
    }
    CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
    return fd;
}

static struct reply_end {
    bool answered, last;
} exchange(int fd, const char *request)
{
    char text[1024];
    size_t have = 0;
    const char *end;
    struct reply_end result = {false, true};
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) {
        return result;
    }
    do {
        ssize_t n = recv(fd, text + have, sizeof text - 1 - have, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return result;
        }
        have += (size_t)n;
        text[have] = '\0';
    } while (!(end = strstr(text, "\r\n\r\n")) || strlen(end + 4) < 2);
    CHECK(strncmp(text, "HTTP/1.1 200 ", 13) == 0);
    CHECK_STR(end + 4, "10"); /* the bytes of this request that the handler has read */
    return (struct reply_end){true, strstr(text, "Connection: close") != NULL};
}

static void count(bool answered)
{
    atomic_fetch_add(answered ? &load.answered : &load.lost, 1);
}

static void *keep(void *arg)
{
    static const char request[] =
        "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n0123456789";
    unsigned seed = (unsigned)(uintptr_t)arg;
    int fd;
    while ((fd = connect_to_server()) != -1) {
        struct reply_end end = {true, fd < 0};
        while (!end.last) {
            end = exchange(fd, request);
            count(end.answered);
            if (rand_r(&seed) % 4 == 0) { /* pauses */
                poll(NULL, 0, rand_r(&seed) % 3);
            }
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    return NULL;
}

static void *reconnect(void *arg)
{
    static const char request[] =
        "POST / HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789";
    int fd;
    while ((fd = connect_to_server()) != -1) {
        if (fd >= 0) {
            count(exchange(fd, request).answered);
            close(fd);
        }
    }
    return arg;
}

/* The default, so that none rests; at once; and about as long as the pauses. */
static const int64_t rests[] = {0, 1, MS(1)};

static void one_stop(enum weft_driver driver, enum weft_balance balance, const char *address,
                     unsigned seed)
{
    struct served s;
    pthread_t threads[KEEPING + CONNECTING];
    served_make(&s, driver, 2,
                &(struct weft_http_server_opts){.balance = balance,
                                                .limits.requests = UINT32_MAX,
                                                .limits.rest_ns = rests[seed % 3],
                                                .limits.grace_ns = S(100),
                                                .limits.linger_ns = S(100)});
    served_route(&s, "POST", "/", measure);
    CHECK_EQ(weft_http_server_listen(s.server, &s.at, address), 0);
    load.at = s.at;
    atomic_store(&load.over, false);
    for (unsigned i = 0; i < KEEPING + CONNECTING; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, i < KEEPING ? keep : reconnect,
                                (void *)(uintptr_t)(seed + i)),
                 0);
    }
    unsigned long begun = atomic_load(&load.answered);
    while (atomic_load(&load.answered) < begun + seed % 1000) {
        sched_yield();
    }
    CHECK_EQ(weft_http_server_stop(s.server, weft_after(S(100))), 0);
    atomic_store(&load.over, true);
    for (int i = 0; i < KEEPING + CONNECTING; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(served_stats(&s).stop_idle, 0);
    CHECK_EQ(served_stats(&s).stop_aborted, 0);
    served_end(&s);
}

/* The address of the i-th stop's listener. */
static const char *address_of(long i)
{
    int fd = i % 4 == 3 ? weft_listen("[::1]:0", NULL) : -1; /* IPv6 may not be available here */
    if (fd >= 0) {
        weft_close(fd);
        return "[::1]:0";
    }
    return i % 4 == 2 ? "unix:@" : "127.0.0.1:0";
}

EACH_DRIVER(http_server_stop_under_load_loses_no_request)
{
    long stops = check_scale(24);
    unsigned seed = (unsigned)check_seed();
    atomic_store(&load.answered, 0);
    atomic_store(&load.lost, 0);
    for (long i = 0; i < stops; i++) {
        seed = seed * 1103515245 + 12345;
        one_stop(driver, i % 4 == 1 ? WEFT_BALANCE_REUSEPORT : WEFT_BALANCE_LEAST, address_of(i),
                 seed >> 8);
    }
    printf("    %ld stops, %lu requests answered, %lu lost\n", stops, atomic_load(&load.answered),
           atomic_load(&load.lost));
    CHECK_EQ(atomic_load(&load.lost), 0);
}

/* The way new connections are held off depends on the privileges of the process: the test runs
 * again as an unprivileged user. */
TEST(unprivileged_http_server_stop_loses_no_request)
{
    enum { NOBODY = 65534 };
    static char name[] = "stops", one[] = "http_server_stop_under_load_loses_no_request";
    char *const args[] = {name, one, NULL};
    int status, self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (geteuid() != 0) {
        return;
    }
    CHECK(self >= 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0) {
            fexecve(self, args, environ);
        }
        _exit(CHECK_SKIPPED);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CHECK_SKIPPED);
    CHECK_EQ(close(self), 0);
}
