/* An echo server and its clients, as fibers of one pool. */
/* labels: valgrind */
#include "io/drivers.h"

#define CLIENTS 20
#define ROUNDS 50

static weft_waitgroup clients;

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buf[256];
    ssize_t n;
    while ((n = weft_read(fd, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        CHECK_EQ(weft_write_all(fd, buf, (size_t)n, NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(n, 0);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *accepts(void *arg)
{
    int listener = (int)(intptr_t)arg, fd;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        CHECK_EQ(weft_spawn(NULL, serve, (void *)(intptr_t)fd, NULL), 0);
    }
    CHECK(fd == -EBADFD ||
          fd == -EBADF); /* main has closed the listener, during this wait or before it */
    return NULL;
}

static void *client(void *arg)
{
    char out[64], in[64];
    int fd = weft_dial(arg, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        memset(out, i, sizeof out);
        CHECK_EQ(weft_write_all(fd, out, sizeof out, NULL, weft_after(60000000000)), 0);
        CHECK_EQ(weft_read_full(fd, in, sizeof in, NULL, weft_after(60000000000)), 0);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    weft_waitgroup_done(&clients);
    return NULL;
}

static void *run(void *arg)
{
    struct weft_addr addr;
    char text[WEFT_ADDR_STRLEN];
    int listener = weft_listen(arg, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    weft_addr_format(&addr, text, sizeof text);
    weft_fiber acceptor;
    CHECK_EQ(weft_spawn(&acceptor, accepts, (void *)(intptr_t)listener, NULL), 0);
    weft_waitgroup_add(&clients, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_spawn(NULL, client, text, NULL), 0);
    }
    CHECK_EQ(weft_waitgroup_wait(&clients, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(listener), 0);
    CHECK_EQ(weft_join(acceptor, NULL, WEFT_FOREVER), 0);
    return NULL;
}

static void on(enum weft_driver driver, unsigned workers, const char *address)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_run(NULL, run, (void *)(uintptr_t)address, &opts, WEFT_FOREVER), 0);
}

EACH_DRIVER(tcp_echo_on_one_worker_returns_all_bytes)
{
    on(driver, 1, "127.0.0.1:0");
}

EACH_DRIVER(tcp_echo_on_four_workers_returns_all_bytes)
{
    on(driver, 4, "127.0.0.1:0");
}

EACH_DRIVER(unix_socket_echo_returns_all_bytes)
{
    char name[64];
    snprintf(name, sizeof name, "unix:@weft-echo-%d", (int)getpid());
    on(driver, 2, name);
}
