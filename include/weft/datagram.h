/* Datagrams: UDP and Unix. weft_read and weft_write (weft/io.h) work on a connected one.
 *
 * A datagram is sent and received whole. What does not fit the reader's buffer is lost: weft_recv
 * with MSG_TRUNC tells the length, weft_recvmsg the flag. 0 is an empty datagram, not an end. All
 * calls are *cancellable*.
 */
#ifndef WEFT_DATAGRAM_H
#define WEFT_DATAGRAM_H

#include <weft/addr.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

struct weft_datagram_opts {
    /* UDP's; a Unix socket takes no notice of them. */
    bool reuseport; /* several sockets on one address share what comes (SO_REUSEPORT) */
    bool v6only;    /* an IPv6 address does not take IPv4 */
    bool broadcast; /* may send to broadcast addresses */
};

/* A socket bound to this address; "0.0.0.0:0", "[::]:0" and "unix:@" get one of the system's. A
 * path of a Unix socket that nobody has any more is used again. The descriptor; -EINVAL: no such
 * address; -EADDRINUSE (tried again for up to 1 s), -EEXIST (both as weft_listen), -EMFILE ... */
WEFT_API int weft_datagram_open(const char *address, const struct weft_datagram_opts *opts);
WEFT_API int weft_datagram_open_addr(const struct weft_addr *addr,
                                     const struct weft_datagram_opts *opts);
/* A socket with an address of the system's that sends to this one and hears nobody else. Of UDP, an
 * error that comes back (-ECONNREFUSED: nobody is there) is the answer to a later call. */
WEFT_API int weft_datagram_connect(const char *address);
WEFT_API int weft_datagram_connect_addr(const struct weft_addr *addr);
/* Fixes, changes or (NULL) takes back the peer of a socket. */
WEFT_API int weft_datagram_set_peer(int fd, const struct weft_addr *peer);

/* The length, and in *from, unless NULL, whose it is; from->len is 0 if it has no address. */
WEFT_API ssize_t weft_recvfrom(int fd, void *buf, size_t n, struct weft_addr *from,
                               int64_t deadline);
/* n. -EMSGSIZE: too long for one. A Unix socket waits while the receiver's queue is full; the
 * kernel tells only a connected sender when there is room, so that others try again after pauses of
 * up to 64 ms. */
WEFT_API ssize_t weft_sendto(int fd, const void *buf, size_t n, const struct weft_addr *to,
                             int64_t deadline);

WEFT_END_DECLS
#endif
