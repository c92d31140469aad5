#include "http/peers.h"

#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct weft__http_peer_count {
    struct weft__http_peer_count *next;
    weft__http_peer peer;
    uint32_t count;
};

weft__http_peer weft__http_peer_of(const struct weft_addr *addr)
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

uint64_t weft__http_peer_hash(weft__http_peer peer)
{
    uint64_t h = peer * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static struct weft__http_peer_count **find(struct weft__http_peers *peers, weft__http_peer peer)
{
    struct weft__http_peer_count **at =
        &peers->slots[weft__http_peer_hash(peer) % WEFT__HTTP_PEER_SLOTS];
    while (*at && (*at)->peer != peer) {
        at = &(*at)->next;
    }
    return at;
}

bool weft__http_peers_enter(struct weft__http_peers *peers, weft__http_peer peer, uint32_t most)
{
    if (!peer) {
        return true;
    }
    weft__lock(&peers->lock);
    struct weft__http_peer_count **at = find(peers, peer);
    if (!*at) {
        *at = weft__alloc(sizeof **at);
        if (*at) {
            (*at)->peer = peer;
        }
    }
    bool in = *at && (*at)->count < most;
    if (in) {
        (*at)->count++;
    }
    weft__unlock(&peers->lock);
    return in;
}

void weft__http_peers_leave(struct weft__http_peers *peers, weft__http_peer peer)
{
    struct weft__http_peer_count *gone = NULL;
    if (!peer) {
        return;
    }
    weft__lock(&peers->lock);
    struct weft__http_peer_count **at = find(peers, peer);
    WEFT__ASSERT(*at);
    if (--(*at)->count == 0) {
        gone = *at;
        *at = gone->next;
    }
    weft__unlock(&peers->lock);
    weft__free(gone);
}
