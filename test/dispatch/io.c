/* I/O inside a dispatcher, on every driver. */
#include <sys/socket.h>
#include <unistd.h>

#include <weft/net.h>

#include "dispatch/fixture.h"
#include "io/drivers.h"

#define CLIENTS 20
#define MESSAGES 50

struct pair {
    int fds[2];
    int done;
};

static void *echoes(void *arg)
{
    struct pair *p = arg;
    char buf[64];
    ssize_t n;
    while ((n = weft_read(p->fds[0], buf, sizeof buf, WEFT_FOREVER)) > 0) {
        CHECK_EQ(weft_write(p->fds[0], buf, (size_t)n, WEFT_FOREVER), n);
    }
    CHECK_EQ(n, 0);
    return NULL;
}

static void *asks(void *arg)
{
    struct pair *p = arg;
    for (int i = 0; i < MESSAGES; i++) {
        char sent[8], got[8] = "";
        int n = snprintf(sent, sizeof sent, "%d", i);
        CHECK_EQ(weft_write(p->fds[1], sent, (size_t)n, WEFT_FOREVER), n);
        CHECK_EQ(weft_read(p->fds[1], got, sizeof got, WEFT_FOREVER), n);
        CHECK_STR(got, sent);
        if (i % 10 == 0) {
            CHECK_EQ(weft_sleep(weft_after(1000)), 0);
        }
    }
    CHECK_EQ(weft_read(p->fds[1], &(char){0}, 1, weft_after(MS / 10)), -ETIMEDOUT);
    shutdown(p->fds[1], SHUT_WR);
    p->done = 1;
    return NULL;
}

static void run(weft_dispatcher *d)
{
    static struct pair pairs[CLIENTS];
    weft_group *servers = make_group(d, "servers"), *clients = make_group(d, "clients");
    for (int i = 0; i < CLIENTS; i++) {
        pairs[i].done = 0;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i].fds), 0);
        CHECK_EQ(weft_group_spawn(servers, NULL, echoes, &pairs[i], NULL), 0);
        CHECK_EQ(weft_group_spawn(clients, NULL, asks, &pairs[i], NULL), 0);
    }
    stop_dispatcher(d);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pairs[i].done, 1);
        close(pairs[i].fds[0]);
        close(pairs[i].fds[1]);
    }
}

EACH_DRIVER(fibers_of_two_groups_talk_over_sockets)
{
    run(start_dispatcher(&(struct weft_dispatcher_opts){.driver = driver}));
}

EACH_DRIVER(group_fibers_talk_over_sockets_on_caller_thread)
{
    weft_dispatcher *d;
    struct weft_dispatcher_opts opts = {.driver = driver, .caller = true};
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    run(d);
}

/* A fiber that never stops yielding does not keep the driver from being polled. */
struct busy {
    struct pair pair;
    bool over;
};

static void *yields(void *arg)
{
    struct busy *b = arg;
    while (!b->over) {
        weft_yield();
    }
    return NULL;
}

static void *asks_busy(void *arg)
{
    struct busy *b = arg;
    asks(&b->pair);
    b->over = true;
    return NULL;
}

EACH_DRIVER(group_io_proceeds_while_fibers_keep_yielding)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.driver = driver});
    weft_group *group = make_group(d, "g");
    struct busy b = {.over = false};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, b.pair.fds), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, yields, &b, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, echoes, &b.pair, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, asks_busy, &b, NULL), 0);
    stop_dispatcher(d);
    CHECK_EQ(b.pair.done, 1);
    close(b.pair.fds[0]);
    close(b.pair.fds[1]);
}
