/* Number of connections of each client address. */
#ifndef WEFT_HTTP_ADDRESS_LIMIT_H
#define WEFT_HTTP_ADDRESS_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/net.h>

#include "lock/lock.h"

#define WEFT__HTTP_ADDRESS_SLOTS 1024

/* An IPv4 address, or the first half of an IPv6 address; 0: neither. */
typedef uint64_t weft__http_address;

struct weft__http_address_entry;

struct weft__http_address_table {
    struct weft__lock lock;
    struct weft__http_address_entry *slots[WEFT__HTTP_ADDRESS_SLOTS];
};

weft__http_address weft__http_address_of(const struct weft_addr *addr);
uint64_t weft__http_address_hash(weft__http_address address);
/* Counts one more connection. Returns false if the address has `most` already, or there is no
 * memory. */
bool weft__http_address_acquire(struct weft__http_address_table *peers, weft__http_address address,
                                uint32_t most);
void weft__http_address_release(struct weft__http_address_table *peers, weft__http_address address);

#endif
