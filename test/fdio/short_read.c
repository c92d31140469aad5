/* Sockets whose reads return less than is available: a short read does not mean that the socket is
 * empty, and the next read must not wait for an event. */
/* labels: valgrind */
#include <sys/socket.h>
#include <sys/un.h>

#include "io/drivers.h"

/* A read tries once more at its deadline, so it must return much earlier. */
#define LONG_NS 60000000000

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

static void expect(int fd, const char *text)
{
    char buf[64];
    int64_t begin = weft_now();
    ssize_t n = weft_read(fd, buf, sizeof buf, weft_after(LONG_NS));
    CHECK_EQ(n, strlen(text));
    CHECK(memcmp(buf, text, strlen(text)) == 0);
    CHECK(weft_now() - begin < LONG_NS);
}

/* Makes the driver watch the descriptor; an edge-triggered driver does not report an event
 * twice. */
static void wait_in_vain(int fd)
{
    char byte;
    CHECK_EQ(weft_read(fd, &byte, 1, weft_after(1000000)), -ETIMEDOUT);
}

/* --- messages ------------------------------------------------------------------------------- */

static void *accepts_packets(void *arg)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX}, name;
    socklen_t len = sizeof name;
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&any, sizeof any.sun_family), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&name, &len), 0);
    int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&name, len), 0);
    int fd = weft_accept(listener, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    wait_in_vain(fd);
    CHECK_EQ(send(client, "one", 3, 0), 3);
    CHECK_EQ(send(client, "three", 5, 0), 5);
    expect(fd, "one");
    expect(fd, "three");
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(packets_after_short_read_are_received)
{
    on(driver, accepts_packets);
}

/* --- descriptors among bytes ------------------------------------------------------------------ */

/* A read stops at bytes that came with a descriptor. */
static void bytes_behind_a_descriptor(int from, int to)
{
    wait_in_vain(to);
    CHECK_EQ(weft_send_fds(from, "ab", 2, &from, 1, WEFT_FOREVER), 2);
    CHECK_EQ(weft_write(from, "cde", 3, WEFT_FOREVER), 3);
    expect(to, "ab");
    expect(to, "cde");
    CHECK_EQ(weft_close(from), 0);
    CHECK_EQ(weft_close(to), 0);
}

static void *reads_past_descriptors(void *arg)
{
    int ends[2];
    struct weft_addr addr;
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    bytes_behind_a_descriptor(ends[0], ends[1]);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); /* not opened by Weft */
    bytes_behind_a_descriptor(ends[0], ends[1]);
    int listener = weft_listen("unix:@", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    for (int i = 0; i < 3; i++) {
        int client =
            i < 2 ? weft_connect(&addr, WEFT_FOREVER) : weft_dial_addrs(&addr, 1, 0, WEFT_FOREVER);
        int fd = weft_accept(listener, NULL, WEFT_FOREVER);
        CHECK(client >= 0 && fd >= 0);
        bytes_behind_a_descriptor(i ? fd : client, i ? client : fd);
    }
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(bytes_after_untaken_descriptor_are_read)
{
    on(driver, reads_past_descriptors);
}

/* --- urgent bytes ----------------------------------------------------------------------------- */

/* A read stops at the position of a TCP urgent byte, which it skips. */
static void *reads_past_urgent_bytes(void *arg)
{
    struct weft_addr addr;
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    int client = weft_connect(&addr, WEFT_FOREVER), fd = weft_accept(listener, NULL, WEFT_FOREVER);
    CHECK(client >= 0 && fd >= 0);
    wait_in_vain(fd);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(send(client, "ab", 2, 0), 2);
        CHECK_EQ(send(client, "!", 1, MSG_OOB), 1);
        CHECK_EQ(send(client, "cde", 3, 0), 3);
        expect(fd, "ab");
        expect(fd, "cde");
        wait_in_vain(fd);
    }
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(bytes_after_urgent_byte_are_read)
{
    on(driver, reads_past_urgent_bytes);
}
