/* Sockets: listen, accept, connect. Reading and writing is in weft/io.h, addresses in weft/addr.h.
 *
 * Sockets made here are closed by exec and do not block a thread. All calls that can wait are *cancellable*.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/addr.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

struct weft_listen_opts {
    int backlog;    /* default 1024, as far as the system allows */
    bool reuseport; /* several listeners on one address share what comes (SO_REUSEPORT) */
    bool no_reuseaddr;
    bool v6only; /* an IPv6 address does not take IPv4 */
    int defer_accept_seconds; /* TCP: a connection is accepted once it has sent something (TCP_DEFER_ACCEPT); 0: no */
};

/* A listening stream socket. The descriptor, or -EINVAL: no such address; -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE ...
 * A path of a Unix socket that nobody listens on any more is used again. */
WEFT_API int weft_listen(const char *address, const struct weft_listen_opts *opts);
WEFT_API int weft_listen_addr(const struct weft_addr *addr, const struct weft_listen_opts *opts);

/* The next connection. When descriptors or memory run out (-EMFILE, -ENFILE, -ENOMEM ...) it answers so at once.
 * A connection that was gone before it was accepted is not seen. */
WEFT_API int weft_accept(int fd, int64_t deadline);
WEFT_API int weft_accept_from(int fd, struct weft_addr *peer, int64_t deadline);

/* A connected stream socket. The address is numeric or a Unix path. -ECONNREFUSED, -ENETUNREACH ...; nothing is left
 * behind. */
WEFT_API int weft_connect(const char *address, int64_t deadline);
WEFT_API int weft_connect_addr(const struct weft_addr *addr, int64_t deadline);

/* SHUT_RD, SHUT_WR or SHUT_RDWR. A half-closed connection can still be read. */
WEFT_API int weft_shutdown(int fd, int how);

/* TCP: small writes go at once. */
WEFT_API int weft_set_nodelay(int fd, bool on);

WEFT_END_DECLS
#endif
