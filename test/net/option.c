/* Socket options: they are set, and invalid ones are refused. */
/* labels: valgrind */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "io/drivers.h"
#include "net/socket.h"

static int get(int fd, int level, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    CHECK_EQ(getsockopt(fd, level, option, &value, &len), 0);
    return value;
}

static int tcp(void)
{
    int fd = weft_listen("127.0.0.1:0", NULL);
    CHECK(fd >= 0);
    return fd;
}

TEST(socket_options_are_set_and_reset)
{
    int fd = tcp();
    CHECK_EQ(weft_set_nodelay(fd, true), 0);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    CHECK_EQ(weft_set_nodelay(fd, false), 0);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    CHECK_EQ(weft_set_cork(fd, true), 0);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_CORK), 1);
    CHECK_EQ(weft_set_keepalive(fd, &(struct weft_keepalive){.idle = 7, .interval = 3, .count = 2}),
             0);
    CHECK_EQ(get(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_KEEPIDLE), 7);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_KEEPINTVL), 3);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_KEEPCNT), 2);
    CHECK_EQ(weft_set_keepalive(fd, NULL), 0);
    CHECK_EQ(get(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    CHECK_EQ(weft_set_user_timeout(fd, 1234), 0);
    CHECK_EQ(get(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 1234);
    CHECK_EQ(weft_set_buffers(fd, 20000, 30000), 0);
    CHECK_EQ(get(fd, SOL_SOCKET, SO_RCVBUF), 40000);
    CHECK_EQ(get(fd, SOL_SOCKET, SO_SNDBUF), 60000);
    CHECK_EQ(weft_set_buffers(fd, 0, 0), 0);
    CHECK_EQ(get(fd, SOL_SOCKET, SO_RCVBUF), 40000);
    CHECK_EQ(weft_set_linger(fd, 0), 0);
    CHECK_EQ(weft_set_linger(fd, WEFT_LINGER_DEFAULT), 0);
    int err = weft_set_busy_poll(fd, 0);
    CHECK(err == 0 || err == -EOPNOTSUPP); /* not available under qemu */
    CHECK_EQ(weft_close(fd), 0);
}

TEST(bad_socket_option_values_are_einval)
{
    int fd = tcp(), ends[2];
    CHECK_EQ(weft_set_keepalive(fd, &(struct weft_keepalive){.idle = -1}), -EINVAL);
    CHECK_EQ(weft_set_keepalive(fd, &(struct weft_keepalive){.idle = 32768}), -EINVAL);
    CHECK_EQ(weft_set_keepalive(fd, &(struct weft_keepalive){.interval = 32768}), -EINVAL);
    CHECK_EQ(weft_set_keepalive(fd, &(struct weft_keepalive){.count = 128}), -EINVAL);
    CHECK_EQ(get(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    CHECK_EQ(weft_set_user_timeout(fd, -1), -EINVAL);
    CHECK_EQ(weft_set_buffers(fd, -1, 0), -EINVAL);
    CHECK_EQ(weft_set_linger(fd, 5), -EINVAL);
    CHECK_EQ(weft_set_linger(fd, -2), -EINVAL);
    CHECK_EQ(weft_set_busy_poll(fd, -1), -EINVAL);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    CHECK_EQ(weft_set_nodelay(ends[0], true), -EOPNOTSUPP);
    CHECK_EQ(weft_set_cork(ends[0], true), -EOPNOTSUPP);
    CHECK_EQ(weft_set_keepalive(ends[0], NULL), -EOPNOTSUPP);
    CHECK_EQ(weft_set_user_timeout(ends[0], 5), -EOPNOTSUPP);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(weft_set_nodelay(file, true), -ENOTSOCK);
    CHECK_EQ(weft_set_linger(file, 0), -ENOTSOCK);
    CHECK_EQ(weft_set_buffers(file, 5000, 5000), -ENOTSOCK);
    CHECK_EQ(weft_shutdown(file, SHUT_WR), -ENOTSOCK);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_set_nodelay(-1, true), -EBADF);
    CHECK_EQ(weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.backlog = -1}), -EINVAL);
    CHECK_EQ(weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.defer_accept_seconds = -1}),
             -EINVAL);
}

TEST(accepted_connection_inherits_listener_options)
{
    struct weft_addr addr;
    int fd = tcp();
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    CHECK_EQ(weft_set_nodelay(fd, true), 0);
    CHECK_EQ(weft_set_keepalive(fd, &(struct weft_keepalive){.idle = 9}), 0);
    int client = weft_connect(&addr, WEFT_FOREVER);
    int server = weft_accept(fd, NULL, WEFT_FOREVER);
    CHECK(client >= 0 && server >= 0);
    CHECK_EQ(get(server, IPPROTO_TCP, TCP_NODELAY), 1);
    CHECK_EQ(get(server, SOL_SOCKET, SO_KEEPALIVE), 1);
    CHECK_EQ(get(server, IPPROTO_TCP, TCP_KEEPIDLE), 9);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(server), 0);
    CHECK_EQ(weft_close(fd), 0);
}

TEST(listeners_share_address_only_if_both_set_reuseport)
{
    struct weft_addr addr;
    const struct weft_listen_opts opts = {.reuseport = true};
    int fd = weft_listen("127.0.0.1:0", &opts);
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    CHECK_EQ(weft__listen_addr(&addr, NULL), -EADDRINUSE);
    int second = weft__listen_addr(&addr, &opts);
    CHECK(second >= 0);
    CHECK_EQ(weft_close(second), 0);
    CHECK_EQ(weft_close(fd), 0);
}

TEST(reuseport_first_fails_if_address_is_in_use)
{
    struct weft_addr addr;
    const struct weft_listen_opts opts = {.reuseport = true}, first = {.reuseport_first = true};
    int fd = weft_listen("127.0.0.1:0", &first);
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    CHECK_EQ(weft__listen_addr(&addr, NULL), -EADDRINUSE);
    CHECK_EQ(weft__listen_addr(&addr, &first), -EADDRINUSE);
    int second = weft__listen_addr(&addr, &opts);
    CHECK(second >= 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft__listen_addr(&addr, &first), -EADDRINUSE);
    CHECK_EQ(weft_close(second), 0);
}

/* The connection is established, but not accepted before it has sent data. */
static void *defers(void *arg)
{
    struct weft_addr addr;
    char byte;
    int fd = weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.defer_accept_seconds = 30});
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    int client = weft_connect(&addr, WEFT_FOREVER);
    CHECK(client >= 0);
    CHECK_EQ(weft_accept(fd, NULL, weft_after(20000000)), -ETIMEDOUT);
    CHECK_EQ(weft_write(client, "x", 1, WEFT_FOREVER), 1);
    int server = weft_accept(fd, NULL, weft_after(60000000000));
    CHECK(server >= 0);
    CHECK_EQ(weft_read(server, &byte, 1, 0), 1);
    CHECK_EQ(weft_close(server), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(fd), 0);
    return arg;
}

EACH_DRIVER(deferred_accept_waits_for_data)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, defers, NULL, &opts, WEFT_FOREVER), 0);
}

/* Writes a part, corked or with MSG_MORE, and then the rest. Returns true if the part was not sent
 * before the rest was written. */
static bool holds(int client, int server, bool cork)
{
    char buf[8];
    int64_t began = weft_now();
    if (cork) {
        CHECK_EQ(weft_set_cork(client, true), 0);
    }
    CHECK_EQ(weft_send(client, "ab", 2, cork ? 0 : MSG_MORE, WEFT_FOREVER), 2);
    ssize_t early = weft_read(server, buf, sizeof buf, weft_after(10000000));
    size_t got = early > 0 ? (size_t)early : 0;
    CHECK_EQ(weft_send(client, "cd", 2, 0, WEFT_FOREVER), 2);
    if (cork) {
        CHECK_EQ(weft_set_cork(client, false), 0);
    }
    CHECK_EQ(weft_read_full(server, buf + got, 4 - got, NULL, WEFT_FOREVER), 0);
    CHECK(memcmp(buf, "abcd", 4) == 0);
    /* The kernel itself sends the part after 200 ms, by a clock that may be coarser. */
    CHECK(early == -ETIMEDOUT || (early == 2 && weft_now() - began >= 150000000));
    return early == -ETIMEDOUT;
}

static void *corks(void *arg)
{
    struct weft_addr addr;
    int fd = tcp();
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    int client = weft_connect(&addr, WEFT_FOREVER), server = weft_accept(fd, NULL, WEFT_FOREVER);
    while (!holds(client, server, true)) {
    }
    while (!holds(client, server, false)) {
    }
    CHECK_EQ(weft_close(server), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(fd), 0);
    return arg;
}

EACH_DRIVER(cork_combines_small_writes)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, corks, NULL, &opts, WEFT_FOREVER), 0);
}

/* A linger time of zero resets the connection: the peer learns at once. */
static void *resets(void *arg)
{
    struct weft_addr addr;
    char byte = 0;
    int fd = tcp();
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    int client = weft_connect(&addr, WEFT_FOREVER), server = weft_accept(fd, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_set_linger(client, 0), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_read(server, &byte, 1, weft_after(60000000000)), -ECONNRESET);
    CHECK_EQ(weft_write(server, &byte, 1, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_close(server), 0);
    CHECK_EQ(weft_close(fd), 0);
    return arg;
}

EACH_DRIVER(zero_linger_close_resets_connection)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, resets, NULL, &opts, WEFT_FOREVER), 0);
}
