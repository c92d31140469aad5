/* Find out which process has an address that could not be bound. */
#ifndef WEFT_NET_ADDR_IN_USE_H
#define WEFT_NET_ADDR_IN_USE_H

#include <weft/net.h>

enum weft__addr_owner {
    /* No visible process: either a process that has ended while the kernel still holds its sockets
     * (an io_uring is torn down after its process), or one that this process may not inspect. */
    WEFT__ADDR_OWNER_UNKNOWN,
    WEFT__ADDR_OWNER_SELF,
    WEFT__ADDR_OWNER_OTHER, /* another live process */
};

/* For a socket of this type. Reads /proc, and blocks the thread in the meantime. */
enum weft__addr_owner weft__addr_find_owner(const struct weft_addr *addr, int type);

#endif
