/* Number of connections of each client address. */
#ifndef WEFT_SERVER_ADDRESS_LIMIT_H
#define WEFT_SERVER_ADDRESS_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/net.h>

#include "lock/lock.h"

#define WEFT__ADDRESS_SLOTS 1024

/* An IPv4 address, or the first half of an IPv6 address; 0: neither. */
typedef uint64_t weft__address;

struct weft__address_entry;

struct weft__address_table {
    struct weft__lock lock;
    struct weft__address_entry *slots[WEFT__ADDRESS_SLOTS];
};

weft__address weft__address_of(const struct weft_addr *addr);
uint64_t weft__address_hash(weft__address address);
/* Counts one more connection. Returns false if the address has `most` already, or there is no
 * memory. */
bool weft__address_acquire(struct weft__address_table *peers, weft__address address, uint32_t most);
void weft__address_release(struct weft__address_table *peers, weft__address address);

#endif
