/* Accept without a free descriptor: it waits, does not spin, and continues by itself. */
/* serial */
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "io/drivers.h"
#include "io/waiting.h"

#define LIMIT 64
#define CLIENTS 1000
#define STILL 300000000 /* ns: observation time while it cannot accept */

static int listener;
static struct weft_addr addr;
static struct rlimit before;
static weft_event gate;
static atomic_int served;

static void limit(void)
{
    struct rlimit low;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = LIMIT;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void unlimit(void)
{
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static bool is_exhausted(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) {
        close(fd);
    }
    return fd < 0 && errno == EMFILE;
}

/* --- the clients: another process, without Weft ----------------------------------------------- */

/* Each client connects, sends a byte and waits for its echo. Exits with 0 if all were served. */
static void clients(void)
{
    static struct pollfd asks[CLIENTS];
    struct rlimit high = {CLIENTS + 100, CLIENTS + 100};
    CHECK(setrlimit(RLIMIT_NOFILE, &high) == 0 || before.rlim_cur > CLIENTS + 100);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = socket(addr.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        CHECK(connect(fd, (struct sockaddr *)&addr.storage, addr.len) == 0);
        CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
        asks[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    for (int left = CLIENTS; left > 0;) {
        CHECK(poll(asks, CLIENTS, -1) > 0);
        for (int i = 0; i < CLIENTS; i++) {
            char byte = 0;
            if (asks[i].fd >= 0 && asks[i].revents) {
                CHECK(recv(asks[i].fd, &byte, 1, 0) == 1 && byte == 'x');
                close(asks[i].fd);
                asks[i].fd = -1;
                left--;
            }
        }
    }
}

static pid_t start_clients(void)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(listener);
        clients();
        _exit(0);
    }
    return pid;
}

/* --- the server ------------------------------------------------------------------------------- */

static void *serves(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char byte;
    CHECK_EQ(weft_event_wait(&gate, WEFT_FOREVER), 0);
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_close(fd), 0);
    atomic_fetch_add(&served, 1);
    return NULL;
}

static void *accepts(void *arg)
{
    int fd;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        CHECK_EQ(weft_spawn(NULL, serves, (void *)(intptr_t)fd, NULL), 0);
    }
    CHECK(fd == -EBADFD || fd == -EBADF); /* closed during the wait, or just before */
    return arg;
}

static double cpu_seconds(void)
{
    struct rusage use;
    CHECK_EQ(getrusage(RUSAGE_SELF, &use), 0);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void *server(void *arg)
{
    weft_fiber acceptors[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_spawn(&acceptors[i], accepts, NULL, NULL), 0);
    }
    /* Several times in a row: an accept that finds no connection uses the last number for a
     * moment. */
    for (int found = 0; found < 10; found = is_exhausted() ? found + 1 : 0) {
        weft_sleep(weft_after(1000000));
    }
    double used = 1, passed = 1;
    for (int i = 0; i < 20 && used >= 0.3 * passed; i++) { /* a spinning accept spins every time */
        double from = check_seconds(), began = cpu_seconds();
        CHECK_EQ(weft_sleep(weft_after(STILL)), 0);
        used = cpu_seconds() - began, passed = check_seconds() - from;
    }
    CHECK_EQ(atomic_load(&served), 0);
    printf("    %.1f %% of a CPU while exhausted\n", used * 100 / passed);
    CHECK(used < 0.3 * passed);
    weft_event_set(&gate);
    while (atomic_load(&served) < CLIENTS) {
        weft_sleep(weft_after(1000000));
    }
    CHECK_EQ(weft_close(listener), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(acceptors[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

static void serve_all(enum weft_driver driver, unsigned workers, const char *address)
{
    int status;
    weft_event_init(&gate, NULL);
    atomic_store(&served, 0);
    listener = weft_listen(address, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (geteuid() != 0 && before.rlim_max < CLIENTS + 100) {
        check_skip("too few descriptors for so many clients");
    }
    pid_t pid = start_clients();
    limit();
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_run(NULL, server, NULL, &opts, WEFT_FOREVER), 0);
    unlimit();
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

EACH_DRIVER(accept_serves_1000_tcp_clients_with_64_descriptors)
{
    serve_all(driver, 2, "127.0.0.1:0");
}

/* Here clients also wait in connect, because the backlog has only 1024 entries. */
EACH_DRIVER(accept_serves_1000_unix_clients_with_64_descriptors)
{
    serve_all(driver, 1, "unix:@");
}

/* --- every way to end such a wait ------------------------------------------------------------- */

static int fill[LIMIT], filled;

static void exhaust(void)
{
    int fd;
    while ((fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0) {
        fill[filled++] = fd;
    }
    CHECK_EQ(errno, EMFILE);
}

static void relieve(void)
{
    while (filled > 0) {
        close(fill[--filled]);
    }
}

static void *accepts_one(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_accept(listener, NULL, WEFT_FOREVER);
}

static void *ends(void *arg)
{
    listener = weft_listen("127.0.0.1:0", NULL);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    int client = weft_connect(&addr, WEFT_FOREVER);
    CHECK(client >= 0);
    limit();
    exhaust();
    CHECK_EQ(weft_accept(listener, NULL, 0), -EMFILE);
    int64_t began = weft_now();
    CHECK_EQ(weft_accept(listener, NULL, weft_after(20000000)), -EMFILE);
    CHECK(weft_now() - began >= 20000000);
    weft_fiber fiber = started(accepts_one, NULL);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(joined(fiber), -ECANCELED);
    fiber = started(accepts_one, NULL);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(joined(fiber), -EINTR);
    fiber = started(accepts_one, NULL);
    CHECK_EQ(weft_close(fill[--filled]), 0); /* one descriptor is free */
    int64_t fd = joined(fiber);
    CHECK(fd >= 0);
    fiber = started(accepts_one, NULL);
    CHECK_EQ(weft_close(listener), 0);
    CHECK_EQ(joined(fiber), -EBADFD);
    relieve();
    unlimit();
    CHECK_EQ(weft_close((int)fd), 0);
    CHECK_EQ(weft_close(client), 0);
    return arg;
}

EACH_DRIVER(fd_exhaustion_wait_ends_like_any_other_wait)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, ends, NULL, &opts, WEFT_FOREVER), 0);
}
