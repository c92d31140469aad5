/* Find out which process has an address that could not be bound. */
#ifndef WEFT_NET_HOLDER_H
#define WEFT_NET_HOLDER_H

#include <weft/addr.h>

enum weft__holder {
    /* No visible process: either a process that has ended while the kernel still holds its sockets
     * (an io_uring is torn down after its process), or one that this process may not inspect. */
    WEFT__HOLDER_UNKNOWN,
    WEFT__HOLDER_SELF,
    WEFT__HOLDER_OTHER, /* another live process */
};

/* For a socket of this type. Reads /proc, and blocks the thread in the meantime. */
enum weft__holder weft__holder_of(const struct weft_addr *addr, int type);

#endif
