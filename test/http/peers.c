/* How many connections each address has: who counts as one peer, and the counts. */
/* labels: valgrind */
#include "http/peers.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "check.h"

static weft__http_peer peer(const char *text)
{
    struct weft_addr addr = {.len = 0};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&addr.storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&addr.storage;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
    } else {
        CHECK_EQ(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
        in6->sin6_family = AF_INET6;
    }
    return weft__http_peer_of(&addr);
}

TEST(a_peer_is_an_ipv4_address_or_an_ipv6_net_of_64_bits)
{
    struct weft_addr local = {.storage.ss_family = AF_UNIX};
    CHECK(peer("127.0.0.1") != peer("127.0.0.2"));
    CHECK(peer("127.0.0.1") == peer("::ffff:127.0.0.1"));
    CHECK(peer("127.0.0.2") != peer("::ffff:127.0.0.1"));
    CHECK(peer("2001:db8::1") == peer("2001:db8::2:0:0:3"));
    CHECK(peer("2001:db8::1") != peer("2001:db8:0:1::1"));
    CHECK(peer("2001:db8::1") != peer("2001:db9::1"));
    CHECK(peer("::1") != 0 && peer("::1") != peer("2001:db8::1"));
    CHECK(peer("0.0.0.0") != 0);
    CHECK_EQ(weft__http_peer_of(&local), 0);
}

TEST(a_peer_enters_as_often_as_it_may_and_again_when_one_has_left)
{
    static struct weft__http_peers peers;
    for (int i = 0; i < 3; i++) {
        CHECK(weft__http_peers_enter(&peers, 7, 3));
    }
    CHECK(!weft__http_peers_enter(&peers, 7, 3));
    CHECK(weft__http_peers_enter(&peers, 7, 4));
    CHECK(weft__http_peers_enter(&peers, 8, 1)); /* another */
    CHECK(!weft__http_peers_enter(&peers, 8, 1));
    weft__http_peers_leave(&peers, 7);
    CHECK(!weft__http_peers_enter(&peers, 7, 3));
    weft__http_peers_leave(&peers, 7);
    CHECK(weft__http_peers_enter(&peers, 7, 3));
    for (int i = 0; i < 3; i++) {
        weft__http_peers_leave(&peers, 7);
    }
    weft__http_peers_leave(&peers, 8);
    for (int i = 0; i < 10; i++) { /* one without an address is not counted */
        CHECK(weft__http_peers_enter(&peers, 0, 1));
    }
    weft__http_peers_leave(&peers, 0);
}

/* Peers of one slot, found and forgotten one by one, whichever came first. */
TEST(peers_of_one_slot_are_counted_apart)
{
    static struct weft__http_peers peers;
    weft__http_peer same[4];
    int n = 0;
    for (weft__http_peer p = 1; n < 4; p++) {
        if (weft__http_peer_hash(p) % WEFT__HTTP_PEER_SLOTS == 5) {
            same[n++] = p;
        }
    }
    for (int first = 0; first < 4; first++) {
        for (int i = 0; i < 4; i++) {
            CHECK(weft__http_peers_enter(&peers, same[i], 1));
        }
        for (int i = 0; i < 4; i++) {
            weft__http_peers_leave(&peers, same[(first + i) % 4]);
            for (int other = 0; other < 4; other++) {
                bool is_in = (other - first + 4) % 4 > i;
                CHECK_EQ(weft__http_peers_enter(&peers, same[other], 1), !is_in);
                if (!is_in) {
                    weft__http_peers_leave(&peers, same[other]);
                }
            }
        }
    }
}

TEST(without_memory_for_a_new_peer_it_does_not_enter)
{
    static struct weft__http_peers peers;
    weft__alloc_fail_after(1, false);
    CHECK(!weft__http_peers_enter(&peers, 9, 1));
    CHECK(weft__http_peers_enter(&peers, 9, 1));
    weft__http_peers_leave(&peers, 9);
    weft__alloc_fail_after(0, false);
}
