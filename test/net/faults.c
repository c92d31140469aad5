/* Echo of random sizes through a misbehaving proxy: the bytes are the same, on every driver; a
 * connection that was reset has delivered a correct prefix. */
#include <pthread.h>

#include "io/drivers.h"
#include "net/proxy.h"

#define CLIENTS 8

static struct proxy proxy;
static weft_waitgroup group;
static bool resets;

static unsigned char byte_at(unsigned client, size_t i)
{
    return (unsigned char)((i * 2654435761u + client * 40503u) >> 13);
}

/* --- the server ------------------------------------------------------------------------------- */

static void *echoes(void *arg)
{
    int fd = (int)(intptr_t)arg;
    static __thread unsigned sizes;
    char buf[4096];
    ssize_t n;
    int err = 0;
    /* Alternates between the two calls, with many sizes. */
    while ((n = weft_read(fd, buf, 1 + sizes++ * 37 % sizeof buf, WEFT_FOREVER)) > 0 && !err) {
        struct iovec iov[2] = {{buf, (size_t)n / 2}, {buf + n / 2, (size_t)(n - n / 2)}};
        ssize_t first = sizes % 2 ? 0 : weft_writev(fd, iov, 2, WEFT_FOREVER);
        err = first < 0 ? (int)first
                        : weft_write_all(fd, buf + first, (size_t)(n - first), NULL, WEFT_FOREVER);
    }
    CHECK(resets || (n == 0 && !err));
    CHECK(n == 0 || n == -ECONNRESET || n == -EPIPE || err == -ECONNRESET || err == -EPIPE);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *accepts(void *arg)
{
    int listener = (int)(intptr_t)arg, fd;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        CHECK_EQ(weft_spawn(NULL, echoes, (void *)(intptr_t)fd, NULL), 0);
    }
    CHECK(fd == -EBADFD || fd == -EBADF); /* closed during the wait, or just before */
    return NULL;
}

/* --- the clients ------------------------------------------------------------------------------ */

struct client {
    unsigned number;
    int fd;
    size_t bytes;
};

static void *writes(void *arg)
{
    const struct client *c = arg;
    char buf[5000];
    int err = 0;
    for (size_t at = 0; at < c->bytes && !err;) {
        size_t n = 1 + (at * 7 + c->number * 131) % sizeof buf;
        n = n < c->bytes - at ? n : c->bytes - at;
        for (size_t i = 0; i < n; i++) {
            buf[i] = (char)byte_at(c->number, at + i);
        }
        err = weft_write_all(c->fd, buf, n, NULL, WEFT_FOREVER);
        at += n;
    }
    CHECK(!err || (resets && (err == -EPIPE || err == -ECONNRESET)));
    if (!err) {
        err = weft_shutdown(c->fd, SHUT_WR);
        CHECK(!err || (resets && err == -ENOTCONN));
    }
    return NULL;
}

static void *talks(void *arg)
{
    struct client *c = arg;
    weft_fiber writer;
    unsigned char buf[3000];
    size_t got = 0;
    ssize_t n;
    c->fd = weft_connect(&proxy.address, WEFT_FOREVER);
    CHECK(c->fd >= 0);
    CHECK_EQ(weft_spawn(&writer, writes, c, NULL), 0);
    while ((n = weft_read(c->fd, buf, 1 + got % sizeof buf, WEFT_FOREVER)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            CHECK_EQ(buf[i], byte_at(c->number, got + (size_t)i));
        }
        got += (size_t)n;
    }
    CHECK(resets ? n == 0 || n == -ECONNRESET : n == 0);
    CHECK(resets ? got <= c->bytes : got == c->bytes);
    CHECK_EQ(weft_join(writer, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(c->fd), 0);
    weft_waitgroup_done(&group);
    return NULL;
}

static const struct proxy_opts *opts;
static size_t most;

static void *run(void *arg)
{
    struct weft_addr addr;
    struct client clients[CLIENTS];
    weft_fiber acceptor;
    uint64_t random = check_seed();
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    CHECK_EQ(weft_spawn(&acceptor, accepts, (void *)(intptr_t)listener, NULL), 0);
    proxy_start(&proxy, &addr, opts);
    weft_waitgroup_add(&group, CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        clients[i] = (struct client){.number = i, .bytes = (random >> 33) % most};
        CHECK_EQ(weft_spawn(NULL, talks, &clients[i], NULL), 0);
    }
    CHECK_EQ(weft_waitgroup_wait(&group, WEFT_FOREVER), 0);
    proxy_stop(&proxy);
    CHECK_EQ(weft_close(listener), 0);
    CHECK_EQ(weft_join(acceptor, NULL, WEFT_FOREVER), 0);
    return arg;
}

static void through(enum weft_driver driver, const struct proxy_opts *with, size_t bytes)
{
    opts = with;
    most = bytes;
    resets = with->reset_after != 0;
    for (unsigned workers = 1; workers <= 2; workers++) {
        const struct weft_pool_opts pool = {.workers = workers, .driver = driver};
        CHECK_EQ(weft_run(NULL, run, NULL, &pool, WEFT_FOREVER), 0);
    }
}

EACH_DRIVER(echo_through_one_byte_segments_is_intact)
{
    through(driver, &(struct proxy_opts){.seed = check_seed(), .segment = 1}, 1500);
}

EACH_DRIVER(echo_through_random_segments_is_intact)
{
    through(driver, &(struct proxy_opts){.seed = check_seed(), .segment = 3000}, 200000);
}

EACH_DRIVER(echo_through_closing_windows_is_intact)
{
    through(driver, &(struct proxy_opts){.seed = check_seed(), .stall_ms = 10, .recv_bytes = 2048},
            60000);
}

EACH_DRIVER(echo_through_resets_is_intact_up_to_reset)
{
    for (unsigned i = 0; i < 5; i++) {
        through(
            driver,
            &(struct proxy_opts){.seed = check_seed() + i, .segment = 500, .reset_after = 20000},
            40000);
    }
}
