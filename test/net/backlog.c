/* Clients of a Unix listener whose backlog is full: the kernel does not report when the backlog has
 * space, and an unconnected socket looks writable. The clients wait, do not spin, and finally
 * connect. */
/* labels: valgrind */
#include <sys/resource.h>

#include "io/drivers.h"

#define CLIENTS 10
#define STILL 100000000 /* ns */

static char name[64];
static weft_waitgroup group;

static void *connects(void *arg)
{
    char byte;
    int fd = weft_dial(name, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    CHECK_EQ(weft_write(fd, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1); /* the peer really exists */
    CHECK_EQ(weft_close(fd), 0);
    weft_waitgroup_done(&group);
    return arg;
}

static double cpu_seconds(void)
{
    struct rusage use;
    CHECK_EQ(getrusage(RUSAGE_SELF, &use), 0);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void *run(void *arg)
{
    weft_fiber fibers[CLIENTS];
    char byte;
    int listener = weft_listen(name, &(struct weft_listen_opts){.backlog = 1});
    CHECK(listener >= 0);
    weft_waitgroup_add(&group, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], connects, NULL, NULL), 0);
    }
    double used = 1, passed = 1;
    for (int i = 0; i < 20 && used >= 0.5 * passed; i++) { /* a spinning client spins every time */
        double from = check_seconds(), began = cpu_seconds();
        CHECK_EQ(weft_sleep(weft_after(STILL)), 0);
        used = cpu_seconds() - began, passed = check_seconds() - from;
    }
    printf("    %.1f %% of a CPU while the backlog is full\n", used * 100 / passed);
    CHECK(used < 0.5 * passed);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = weft_accept(listener, NULL, weft_after(60000000000));
        CHECK(fd >= 0);
        CHECK_EQ(weft_read(fd, &byte, 1, weft_after(60000000000)), 1);
        CHECK_EQ(weft_write(fd, &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_close(fd), 0);
    }
    CHECK_EQ(weft_waitgroup_wait(&group, WEFT_FOREVER), 0);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(unix_connect_waits_while_backlog_is_full)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    snprintf(name, sizeof name, "unix:@weft-backlog-%d", (int)getpid());
    CHECK_EQ(weft_run(NULL, run, NULL, &opts, WEFT_FOREVER), 0);
}

/* A deadline in the past tries once: the backlog has space, or not. */
TEST(unix_connect_with_zero_deadline_tries_once)
{
    snprintf(name, sizeof name, "unix:@weft-backlog-%d", (int)getpid());
    int listener = weft_listen(name, &(struct weft_listen_opts){.backlog = 1});
    int first = weft_dial(name, NULL, 0), second = weft_dial(name, NULL, 0);
    CHECK(first >= 0 && second >= 0);
    CHECK_EQ(weft_dial(name, NULL, 0), -ETIMEDOUT);
    CHECK_EQ(weft_close(first), 0);
    CHECK_EQ(weft_close(second), 0);
    CHECK_EQ(weft_close(listener), 0);
    CHECK_EQ(weft_dial(name, NULL, 0), -ECONNREFUSED);
}
