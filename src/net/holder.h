/* Who has an address that could not be bound to. */
#ifndef WEFT_NET_HOLDER_H
#define WEFT_NET_HOLDER_H

#include <weft/addr.h>

enum weft__holder {
    /* None that can be seen: a process that has ended, of whose sockets the kernel still has a hold
     * (a ring is torn down after its process), or one that this process may not look at. */
    WEFT__HOLDER_UNKNOWN,
    WEFT__HOLDER_SELF,
    WEFT__HOLDER_OTHER, /* another process that lives */
};

/* For a socket of this type. Reads /proc, and blocks its thread for as long as that takes. */
enum weft__holder weft__holder_of(const struct weft_addr *addr, int type);

#endif
