/* A killed server restarts immediately on the same address. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "io/drivers.h"
#include "io/waiting.h"
#include "net/socket.h"

#define HOUR INT64_C(3600000000000)

/* --- the server: another process -------------------------------------------------------------- */

struct start {
    const char *address;
    enum weft_driver driver;
    int tell; /* the address, when it listens */
};

static void *accept_one(void *arg)
{
    return (void *)(intptr_t)weft_accept((int)(intptr_t)arg, NULL, WEFT_FOREVER);
}

static void *serve(void *arg)
{
    const struct start *start = arg;
    struct weft_addr at;
    int fd = weft_listen(start->address, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(weft_addr_local(fd, &at), 0);
    started(accept_one, (void *)(intptr_t)fd); /* in flight, if the driver is a ring */
    CHECK_EQ(write(start->tell, &at, sizeof at), sizeof at);
    return weft_fiber_park(WEFT_FOREVER) ? arg : NULL;
}

/* Returns when the server listens. */
static pid_t start_server(const char *address, enum weft_driver driver, struct weft_addr *at)
{
    int ends[2];
    fflush(NULL);
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct start start = {address, driver, ends[1]};
        close(ends[0]);
        const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
        CHECK_EQ(weft_run(NULL, serve, &start, &opts, WEFT_FOREVER), 0);
        _exit(0);
    }
    close(ends[1]);
    CHECK_EQ(read(ends[0], at, sizeof *at), sizeof *at); /* otherwise it could not listen */
    close(ends[0]);
    return pid;
}

static void kill_server(pid_t pid)
{
    int status;
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
}

static void restart_often(enum weft_driver driver, const char *first)
{
    struct weft_addr at;
    char address[WEFT_ADDR_STRLEN];
    pid_t pid = start_server(first, driver, &at);
    weft_addr_format(&at, address, sizeof address);
    for (int i = 0; i < 15; i++) {
        kill_server(pid);
        pid = start_server(address, driver, &at);
    }
    kill_server(pid);
}

EACH_DRIVER(killed_server_restarts_at_once_on_same_address)
{
    char path[64];
    snprintf(path, sizeof path, "unix:/tmp/weft-test-restart-%d", (int)getpid());
    restart_often(driver, "127.0.0.1:0");
    restart_often(driver, path);
    snprintf(path, sizeof path, "unix:@weft-test-restart-%d", (int)getpid());
    restart_often(driver, path);
    snprintf(path, sizeof path, "/tmp/weft-test-restart-%d", (int)getpid());
    unlink(path);
}

/* --- an address that is really in use --------------------------------------------------------- */

/* If the runtime did not see who owns the address, this would take an hour. */
TEST(listen_on_address_of_live_process_fails_at_once)
{
    static const char *const addresses[] = {"127.0.0.1:0", "unix:@"};
    const struct weft_listen_opts patient = {.retry_ns = HOUR};
    for (int i = 0; i < 2; i++) {
        struct weft_addr at;
        pid_t pid = start_server(addresses[i], WEFT_DRIVER_EPOLL, &at); /* another process's */
        CHECK_EQ(weft__listen_addr(&at, &patient), -EADDRINUSE);
        CHECK_EQ(weft__listen_addr(&at, &(struct weft_listen_opts){.retry_ns = -1}), -EADDRINUSE);
        kill_server(pid);
        int fd = weft_listen(addresses[i], NULL); /* this process's */
        CHECK(fd >= 0);
        CHECK_EQ(weft_addr_local(fd, &at), 0);
        CHECK_EQ(weft__listen_addr(&at, &patient), -EADDRINUSE);
        CHECK_EQ(weft_close(fd), 0);
    }
}

/* A socket that is bound and does not listen: no kernel table lists it. */
static int block(struct weft_addr *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(weft_addr_parse(at, "127.0.0.1:0"), 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&at->storage, at->len), 0);
    CHECK_EQ(weft_addr_local(fd, at), 0);
    return fd;
}

static void *listen_patiently(void *arg)
{
    return (void *)(intptr_t)weft__listen_addr(arg, &(struct weft_listen_opts){.retry_ns = HOUR});
}

static void *wait_for_address(void *arg)
{
    struct weft_addr at;
    int blocker = block(&at);
    weft_fiber fiber = started(listen_patiently, &at);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(joined(fiber), -ECANCELED);
    fiber = started(listen_patiently, &at);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(joined(fiber), -EINTR);
    fiber = started(listen_patiently, &at);
    CHECK_EQ(close(blocker), 0);
    int64_t fd = joined(fiber);
    CHECK(fd >= 0);
    CHECK_EQ(weft_close((int)fd), 0);
    return arg;
}

EACH_DRIVER(listen_retry_in_fiber_waits_and_can_be_cancelled)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, wait_for_address, NULL, &opts, WEFT_FOREVER), 0);
}

TEST(listen_retry_in_plain_thread_times_out)
{
    struct weft_addr at;
    int blocker = block(&at);
    int64_t began = weft_now();
    CHECK_EQ(weft__listen_addr(&at, &(struct weft_listen_opts){.retry_ns = 50000000}), -EADDRINUSE);
    CHECK(weft_now() - began >= 50000000);
    CHECK_EQ(weft__listen_addr(&at, &(struct weft_listen_opts){.retry_ns = -1}), -EADDRINUSE);
    CHECK_EQ(close(blocker), 0);
    int fd = weft__listen_addr(&at, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(weft_close(fd), 0);
}
