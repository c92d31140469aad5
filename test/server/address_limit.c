/* Connections per address: which addresses count as one peer, and the counts. */
/* labels: valgrind */
#include "server/address_limit.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "check.h"

static weft__address peer(const char *text)
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
    return weft__address_of(&addr);
}

TEST(peer_key_is_ipv4_address_or_ipv6_64_bit_prefix)
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
    CHECK_EQ(weft__address_of(&local), 0);
}

TEST(peer_is_admitted_up_to_limit_and_again_after_leave)
{
    static struct weft__address_table peers;
    for (int i = 0; i < 3; i++) {
        CHECK(weft__address_acquire(&peers, 7, 3));
    }
    CHECK(!weft__address_acquire(&peers, 7, 3));
    CHECK(weft__address_acquire(&peers, 7, 4));
    CHECK(weft__address_acquire(&peers, 8, 1)); /* another address */
    CHECK(!weft__address_acquire(&peers, 8, 1));
    weft__address_release(&peers, 7);
    CHECK(!weft__address_acquire(&peers, 7, 3));
    weft__address_release(&peers, 7);
    CHECK(weft__address_acquire(&peers, 7, 3));
    for (int i = 0; i < 3; i++) {
        weft__address_release(&peers, 7);
    }
    weft__address_release(&peers, 8);
    for (int i = 0; i < 10; i++) { /* a connection without an address is not counted */
        CHECK(weft__address_acquire(&peers, 0, 1));
    }
    weft__address_release(&peers, 0);
}

/* Peers of one slot, found and removed one by one, in any order. */
TEST(peers_in_same_hash_slot_are_counted_separately)
{
    static struct weft__address_table peers;
    weft__address same[4];
    int n = 0;
    for (weft__address p = 1; n < 4; p++) {
        if (weft__address_hash(p) % WEFT__ADDRESS_SLOTS == 5) {
            same[n++] = p;
        }
    }
    for (int first = 0; first < 4; first++) {
        for (int i = 0; i < 4; i++) {
            CHECK(weft__address_acquire(&peers, same[i], 1));
        }
        for (int i = 0; i < 4; i++) {
            weft__address_release(&peers, same[(first + i) % 4]);
            for (int other = 0; other < 4; other++) {
                bool is_in = (other - first + 4) % 4 > i;
                CHECK_EQ(weft__address_acquire(&peers, same[other], 1), !is_in);
                if (!is_in) {
                    weft__address_release(&peers, same[other]);
                }
            }
        }
    }
}

TEST(new_peer_without_memory_is_refused)
{
    static struct weft__address_table peers;
    weft__alloc_fail_after(1, false);
    CHECK(!weft__address_acquire(&peers, 9, 1));
    CHECK(weft__address_acquire(&peers, 9, 1));
    weft__address_release(&peers, 9);
    weft__alloc_fail_after(0, false);
}
