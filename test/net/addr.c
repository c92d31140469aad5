/* Addresses: every form, parsed and formatted, and invalid input. */
/* labels: valgrind */
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "io/drivers.h"

static void same(const char *text, const char *back)
{
    struct weft_addr addr;
    char out[WEFT_ADDR_STRLEN];
    CHECK_EQ(weft_addr_parse(&addr, text), 0);
    CHECK_EQ(weft_addr_format(&addr, out, sizeof out), strlen(back));
    CHECK_STR(out, back);
}

TEST(addresses_of_every_form_parse_and_format)
{
    char scope[IF_NAMESIZE], text[64];
    same("127.0.0.1:80", "127.0.0.1:80");
    same("0.0.0.0:0", "0.0.0.0:0");
    same("255.255.255.255:65535", "255.255.255.255:65535");
    same("[::1]:8080", "[::1]:8080");
    same("[2001:DB8:0:0:0:0:0:1]:1", "[2001:db8::1]:1");
    same("[::ffff:10.0.0.1]:5", "[::ffff:10.0.0.1]:5");
    same("*:80", "[::]:80");
    same(":80", "[::]:80");
    same("127.0.0.1:0080", "127.0.0.1:80");
    same("unix:/run/x.sock", "unix:/run/x.sock");
    same("unix:relative", "unix:relative");
    same("unix:/a:b", "unix:/a:b");
    same("unix:@name", "unix:@name");
    same("unix:@", "unix:");
    same("[fe80::1%1]:9", if_indextoname(1, scope)
                              ? (snprintf(text, sizeof text, "[fe80::1%%%s]:9", scope), text)
                              : "[fe80::1%1]:9");
    same("[fe80::1%60000]:9", "[fe80::1%60000]:9");
}

TEST(malformed_addresses_are_einval)
{
    static const char *const bad[] = {
        "",
        ":",
        "80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0:1",
        "256.0.0.1:1",
        "127.0.0.1:x",
        "127.0.0.1:-1",
        "127.0.0.1:65536",
        "1.2.3.4:+1",
        "1.2.3.4: 1",
        "1.2.3.4:1 ",
        "::1:80",
        "[::1]",
        "[::1:80",
        "::1]:80",
        "[]:80",
        "[::1]80",
        "[127.0.0.1]:80",
        "[::1%]:80",
        "[::1%nosuchdevice]:80",
        "[::g]:80",
        "localhost:80",
        "http://1.2.3.4:80",
        "unix:",
        "**:80",
        "1.2.3.4:99999999999999999999",
        "01.2.3.4.5:1",
    };
    struct weft_addr addr = {.len = 77};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (weft_addr_parse(&addr, bad[i]) != -EINVAL) {
            check_fail(__FILE__, __LINE__, "'%s' was read", bad[i]);
        }
    }
    CHECK_EQ(addr.len, 77); /* written only on success */
}

TEST(unix_address_length_is_limited)
{
    char text[300] = "unix:", out[WEFT_ADDR_STRLEN];
    struct weft_addr addr;
    size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path);
    memset(text + 5, 'p', sizeof text - 6);
    text[5 + most - 1] = 0; /* fits exactly, with its terminating zero */
    CHECK_EQ(weft_addr_parse(&addr, text), 0);
    weft_addr_format(&addr, out, sizeof out);
    CHECK_STR(out, text);
    text[5 + most - 1] = 'p';
    text[5 + most] = 0;
    CHECK_EQ(weft_addr_parse(&addr, text), -EINVAL);
    text[5] = '@'; /* a name needs no terminating zero */
    CHECK_EQ(weft_addr_parse(&addr, text), 0);
    weft_addr_format(&addr, out, sizeof out);
    CHECK_STR(out, text);
    text[5 + most] = 'p';
    text[5 + most + 1] = 0;
    CHECK_EQ(weft_addr_parse(&addr, text), -EINVAL);
}

TEST(address_text_is_truncated_to_buffer)
{
    struct weft_addr addr;
    char out[6];
    CHECK_EQ(weft_addr_parse(&addr, "127.0.0.1:80"), 0);
    CHECK_EQ(weft_addr_format(&addr, out, sizeof out), 12);
    CHECK_STR(out, "127.0");
    CHECK_EQ(weft_addr_format(&addr, NULL, 0), 12);
}

TEST(zero_bytes_in_abstract_unix_names_are_formatted)
{
    struct weft_addr addr = {0};
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&addr.storage;
    char out[WEFT_ADDR_STRLEN];
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, "\0a\0b", 4);
    addr.len = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 4;
    weft_addr_format(&addr, out, sizeof out);
    CHECK_STR(out, "unix:@a@b");
    addr.len = sizeof(sa_family_t);
    CHECK_EQ(weft_addr_format(&addr, out, sizeof out), 5);
    addr.storage.ss_family = AF_UNSPEC;
    weft_addr_format(&addr, out, sizeof out);
    CHECK_STR(out, "family 0");
}

TEST(address_port_is_read_and_set)
{
    struct weft_addr addr;
    CHECK_EQ(weft_addr_parse(&addr, "1.2.3.4:5"), 0);
    CHECK_EQ(weft_addr_port(&addr), 5);
    CHECK_EQ(weft_addr_set_port(&addr, 65535), 0);
    CHECK_EQ(weft_addr_port(&addr), 65535);
    CHECK_EQ(weft_addr_set_port(&addr, 65536), -EINVAL);
    CHECK_EQ(weft_addr_parse(&addr, "[::1]:6"), 0);
    CHECK_EQ(weft_addr_port(&addr), 6);
    CHECK_EQ(weft_addr_parse(&addr, "unix:@x"), 0);
    CHECK_EQ(weft_addr_port(&addr), -EINVAL);
    CHECK_EQ(weft_addr_set_port(&addr, 1), -EINVAL);
}

TEST(socket_local_and_peer_addresses_are_returned)
{
    struct weft_addr a, b, c;
    char text[WEFT_ADDR_STRLEN];
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &a), 0);
    CHECK(weft_addr_port(&a) > 0);
    weft_addr_format(&a, text, sizeof text);
    int fd = weft_dial(text, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    int peer = weft_accept(listener, &b, WEFT_FOREVER);
    CHECK(peer >= 0);
    CHECK_EQ(weft_addr_local(fd, &c), 0);
    CHECK(b.len == c.len && memcmp(&b.storage, &c.storage, b.len) == 0);
    CHECK_EQ(weft_addr_peer(fd, &c), 0);
    CHECK(a.len == c.len && memcmp(&a.storage, &c.storage, a.len) == 0);
    CHECK_EQ(weft_addr_peer(listener, &c), -ENOTCONN);
    CHECK_EQ(weft_addr_local(-1, &c), -EBADF);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_close(peer), 0);
    CHECK_EQ(weft_close(listener), 0);
}

/* ":0" accepts IPv6 and IPv4, where IPv6 is available. */
TEST(wildcard_listener_accepts_ipv4_and_ipv6)
{
    struct weft_addr a;
    char text[WEFT_ADDR_STRLEN];
    int listener = weft_listen(":0", NULL);
    if (listener == -EAFNOSUPPORT || listener == -EADDRNOTAVAIL) {
        check_skip("no IPv6 here");
    }
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &a), 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", weft_addr_port(&a));
    int fd = weft_dial(text, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_close(listener), 0);
    /* A socket that does not listen reserves the same IPv4 port, so that no other process can take
     * it. */
    int silent;
    do {
        listener = weft_listen("*:0", &(struct weft_listen_opts){.v6only = true});
        CHECK(listener >= 0);
        CHECK_EQ(weft_addr_local(listener, &a), 0);
        const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)weft_addr_port(&a)),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(silent, (const struct sockaddr *)&v4, sizeof v4) != 0) {
            CHECK_EQ(errno, EADDRINUSE);
            close(silent);
            silent = -1;
            CHECK_EQ(weft_close(listener), 0);
        }
    } while (silent < 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", weft_addr_port(&a));
    CHECK_EQ(weft_dial(text, NULL, WEFT_FOREVER), -ECONNREFUSED);
    CHECK_EQ(weft_close(listener), 0);
    close(silent);
}
