#include "server/address_limit.h"

#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct weft__address_entry {
    struct weft__address_entry *next;
    weft__address address;
    uint32_t count;
};

weft__address weft__address_of(const struct weft_addr *addr)
{
    if (addr->storage.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&addr->storage;
        return UINT64_C(1) << 32 | in->sin_addr.s_addr;
    }
    if (addr->storage.ss_family != AF_INET6) {
        return 0;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&addr->storage;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        uint32_t v4;
        memcpy(&v4, &in6->sin6_addr.s6_addr[12], sizeof v4);
        return UINT64_C(1) << 32 | v4;
    }
    uint64_t net;
    memcpy(&net, in6->sin6_addr.s6_addr, sizeof net);
    return net ? net : 1; /* the loopback address has an empty first half */
}

uint64_t weft__address_hash(weft__address address)
{
    uint64_t h = address * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static struct weft__address_entry **find(struct weft__address_table *peers, weft__address address)
{
    struct weft__address_entry **at =
        &peers->slots[weft__address_hash(address) % WEFT__ADDRESS_SLOTS];
    while (*at && (*at)->address != address) {
        at = &(*at)->next;
    }
    return at;
}

bool weft__address_acquire(struct weft__address_table *peers, weft__address address, uint32_t most)
{
    if (!address) {
        return true;
    }
    weft__lock(&peers->lock);
    struct weft__address_entry **at = find(peers, address);
    if (!*at) {
        *at = weft__alloc(sizeof **at);
        if (*at) {
            (*at)->address = address;
        }
    }
    bool in = *at && (*at)->count < most;
    if (in) {
        (*at)->count++;
    }
    weft__unlock(&peers->lock);
    return in;
}

void weft__address_release(struct weft__address_table *peers, weft__address address)
{
    struct weft__address_entry *gone = NULL;
    if (!address) {
        return;
    }
    weft__lock(&peers->lock);
    struct weft__address_entry **at = find(peers, address);
    WEFT__ASSERT(*at);
    if (--(*at)->count == 0) {
        gone = *at;
        *at = gone->next;
    }
    weft__unlock(&peers->lock);
    weft__free(gone);
}
