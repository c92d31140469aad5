/* Datagrams: UDP over both families, Unix by path, by abstract name and as a pair. */
/* labels: valgrind */
#include <sys/socket.h>
#include <sys/stat.h>

#include "io/drivers.h"

#define COUNT 200

static void on(enum weft_driver driver, unsigned workers, weft_fn fn, const char *arg)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, (void *)(uintptr_t)arg, &opts, WEFT_FOREVER), 0);
}

/* Returns each datagram to its sender, until an empty one arrives. */
static void *answers(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buf[256];
    struct weft_addr from;
    ssize_t n;
    while ((n = weft_recvfrom(fd, buf, sizeof buf, &from, WEFT_FOREVER)) > 0) {
        CHECK_EQ(weft_sendto(fd, buf, (size_t)n, &from, WEFT_FOREVER), n);
    }
    CHECK_EQ(n, 0);
    return NULL;
}

static void *talks(void *arg)
{
    struct weft_addr server;
    weft_fiber fiber;
    char out[200], in[256];
    int fd = weft_datagram_open(arg, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(weft_addr_local(fd, &server), 0);
    CHECK_EQ(weft_spawn(&fiber, answers, (void *)(intptr_t)fd, NULL), 0);
    int client = weft_datagram_connect(&server);
    CHECK(client >= 0);
    for (int i = 1; i <= COUNT; i++) {
        size_t n = (size_t)(i % 199) + 1;
        memset(out, i, sizeof out);
        CHECK_EQ(weft_write(client, out, n, WEFT_FOREVER), n);
        CHECK_EQ(weft_read(client, in, sizeof in, weft_after(60000000000)), n);
        CHECK(memcmp(in, out, n) == 0);
    }
    CHECK_EQ(weft_sendto(client, out, 0, NULL, WEFT_FOREVER), 0); /* an empty datagram counts too */
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static bool has_v6(void)
{
    int fd = weft_datagram_open("[::1]:0", NULL);
    CHECK(fd >= 0 || fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT);
    return fd >= 0 && weft_close(fd) == 0;
}

EACH_DRIVER(udp_datagrams_are_exchanged_over_ipv4_and_ipv6)
{
    on(driver, 1, talks, "127.0.0.1:0");
    on(driver, 3, talks, "127.0.0.1:0");
    if (has_v6()) {
        on(driver, 1, talks, "[::1]:0");
    }
}

EACH_DRIVER(unix_datagrams_by_abstract_name_are_exchanged)
{
    char name[64];
    snprintf(name, sizeof name, "unix:@weft-datagram-%d", (int)getpid());
    on(driver, 1, talks, name);
    on(driver, 3, talks, "unix:@");
}

/* The file stays, and the next socket takes it over; while a socket is bound to it, it is in
 * use. */
EACH_DRIVER(unix_datagram_path_is_taken_over_unless_in_use)
{
    char name[64];
    struct stat st;
    snprintf(name, sizeof name, "unix:/tmp/weft-datagram-%d", (int)getpid());
    on(driver, 1, talks, name);
    CHECK_EQ(stat(name + 5, &st), 0);
    int fd = weft_datagram_open(name, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(weft_datagram_open(name, NULL), -EADDRINUSE);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(unlink(name + 5), 0);
}

static void *pair_talks(void *arg)
{
    static const int types[] = {SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM};
    char buf[16];
    for (int i = 0; i < 3; i++) {
        int ends[2];
        CHECK_EQ(weft_socketpair(types[i], ends), 0);
        CHECK_EQ(weft_write(ends[0], "abc", 3, WEFT_FOREVER), 3);
        CHECK_EQ(weft_write(ends[0], "de", 2, WEFT_FOREVER), 2);
        CHECK_EQ(weft_read(ends[1], buf, sizeof buf, WEFT_FOREVER), i == 2 ? 5 : 3);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_close(ends[1]), 0);
    }
    CHECK_EQ(weft_socketpair(SOCK_RAW, NULL), -EINVAL);
    return arg;
}

EACH_DRIVER(socketpair_type_decides_message_boundaries)
{
    on(driver, 1, pair_talks, NULL);
}

/* Errors: bad length, no receiver, a sender that is not the connected peer. */
static void *errors(void *arg)
{
    struct weft_addr nobody;
    static char large[70000];
    struct weft_addr a, from;
    char buf[8];
    int fd = weft_datagram_open("127.0.0.1:0", NULL);
    CHECK_EQ(weft_addr_local(fd, &a), 0);
    CHECK_EQ(weft_sendto(fd, large, sizeof large, &a, WEFT_FOREVER), -EMSGSIZE);
    CHECK_EQ(weft_sendto(fd, large, 1, NULL, WEFT_FOREVER), -EDESTADDRREQ);
    /* Longer than the buffer: the rest is lost, and the full length is returned on request. */
    CHECK_EQ(weft_sendto(fd, "0123456789", 10, &a, WEFT_FOREVER), 10);
    CHECK_EQ(weft_recv(fd, buf, sizeof buf, MSG_PEEK | MSG_TRUNC, WEFT_FOREVER), 10);
    CHECK_EQ(weft_recvfrom(fd, buf, sizeof buf, &from, WEFT_FOREVER), 8);
    CHECK(from.len == a.len && memcmp(&from.storage, &a.storage, a.len) == 0);
    CHECK_EQ(weft_recvfrom(fd, buf, sizeof buf, NULL, 0), -ETIMEDOUT);
    int client = weft_datagram_connect(&a);
    /* No receiver: the receiver's socket now accepts datagrams only from itself. It is not closed,
     * because another process could take a closed port. */
    CHECK_EQ(weft_datagram_set_peer(fd, &a), 0);
    CHECK_EQ(weft_write(client, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(client, buf, 1, weft_after(60000000000)), -ECONNREFUSED);
    CHECK_EQ(weft_read(client, buf, 1, weft_after(1000000)), -ETIMEDOUT); /* reported once */
    CHECK_EQ(weft_datagram_set_peer(client, NULL), 0);
    CHECK_EQ(weft_write(client, "x", 1, WEFT_FOREVER), -EDESTADDRREQ);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_datagram_open("127.0.0.1", NULL), -EINVAL);
    CHECK_EQ(weft_addr_parse(&nobody, "unix:@weft-nobody-is-here"), 0);
    CHECK_EQ(weft_datagram_connect(&nobody), -ECONNREFUSED);
    CHECK_EQ(weft_recvfrom(-1, buf, 1, NULL, WEFT_FOREVER), -EBADF);
    return arg;
}

EACH_DRIVER(datagram_errors_are_returned)
{
    on(driver, 1, errors, NULL);
}

/* The kernel does not notify an unconnected sender when the receiver's queue has space again. */
static int full_sender, full_receiver;
static struct weft_addr full_addr;

static void *sends_many(void *arg)
{
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_sendto(full_sender, &i, sizeof i, &full_addr, WEFT_FOREVER), sizeof i);
    }
    return arg;
}

static void *slow_receiver(void *arg)
{
    weft_fiber fiber;
    enum weft_fiber_state state;
    full_receiver = weft_datagram_open("unix:@", NULL);
    full_sender = weft_datagram_open("unix:@", NULL);
    CHECK_EQ(weft_addr_local(full_receiver, &full_addr), 0);
    CHECK_EQ(weft_spawn(&fiber, sends_many, NULL, NULL), 0);
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    for (int i = 0, got; i < COUNT; i++) {
        CHECK_EQ(weft_read(full_receiver, &got, sizeof got, weft_after(60000000000)), sizeof got);
        CHECK_EQ(got, i);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(full_receiver), 0);
    CHECK_EQ(weft_close(full_sender), 0);
    return arg;
}

EACH_DRIVER(datagram_send_waits_for_full_receiver)
{
    on(driver, 1, slow_receiver, NULL);
}

static void *shares_a_port(void *arg)
{
    const struct weft_datagram_opts opts = {.reuseport = true, .broadcast = true};
    struct weft_addr a;
    char text[WEFT_ADDR_STRLEN];
    int first = weft_datagram_open("127.0.0.1:0", &opts);
    CHECK(first >= 0);
    CHECK_EQ(weft_addr_local(first, &a), 0);
    weft_addr_format(&a, text, sizeof text);
    CHECK_EQ(weft_datagram_open(text, NULL), -EADDRINUSE);
    int second = weft_datagram_open(text, &opts);
    CHECK(second >= 0);
    int on = 0;
    socklen_t len = sizeof on;
    CHECK_EQ(getsockopt(second, SOL_SOCKET, SO_BROADCAST, &on, &len), 0);
    CHECK_EQ(on, 1);
    CHECK_EQ(weft_close(first), 0);
    CHECK_EQ(weft_close(second), 0);
    return arg;
}

TEST(udp_port_is_shared_only_if_both_set_reuseport)
{
    shares_a_port(NULL);
}
