/* Number of connections of each client address. */
#ifndef WEFT_HTTP_PEERS_H
#define WEFT_HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/addr.h>

#include "base/lock.h"

#define WEFT__HTTP_PEER_SLOTS 1024

/* An IPv4 address, or the first half of an IPv6 address; 0: neither. */
typedef uint64_t weft__http_peer;

struct weft__http_peer_count;

struct weft__http_peers {
    struct weft__lock lock;
    struct weft__http_peer_count *slots[WEFT__HTTP_PEER_SLOTS];
};

weft__http_peer weft__http_peer_of(const struct weft_addr *addr);
uint64_t weft__http_peer_hash(weft__http_peer peer);
/* Counts one more connection. Returns false if the address has `most` already, or there is no
 * memory. */
bool weft__http_peers_enter(struct weft__http_peers *peers, weft__http_peer peer, uint32_t most);
void weft__http_peers_leave(struct weft__http_peers *peers, weft__http_peer peer);

#endif
