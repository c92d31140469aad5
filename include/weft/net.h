/* Stream sockets: listen, accept, connect. Reading and writing is in weft/io.h, addresses in
 * weft/addr.h, options in weft/option.h, datagrams in weft/datagram.h, messages with descriptors in
 * weft/message.h.
 *
 * Sockets made here are closed by exec and do not block a thread. All calls that can wait are
 * *cancellable*.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/addr.h>
#include <weft/io.h>
#include <weft/option.h>

WEFT_BEGIN_DECLS

struct weft_listen_opts {
    int backlog; /* default 1024, as far as the system allows */
    /* How long an address that is in use is tried again; default 1 s; < 0: not at all. A server
     * that was killed may leave its address in use for some milliseconds (the kernel tears down a
     * ring after its process). If another process that lives is seen to have it, the answer comes
     * after 0.1 s, if it is this process itself, at once. */
    int64_t retry_ns;
    /* The rest is for TCP; a Unix socket takes no notice of it. */
    bool reuseport;       /* several listeners on one address share what comes (SO_REUSEPORT) */
    bool reuseport_first; /* the first of such: -EADDRINUSE if anybody listens there already */
    bool no_reuseaddr;
    bool v6only;              /* an IPv6 address does not take IPv4 */
    int defer_accept_seconds; /* TCP: a connection is accepted once it has sent something
                                 (TCP_DEFER_ACCEPT); 0: no */
};

/* A listening stream socket. The descriptor, or -EINVAL: no such address, or a negative option;
 * -EADDRINUSE (after opts->retry_ns at most, which is the only wait here; a callback on a worker
 * does not wait), -EADDRNOTAVAIL, -EACCES, -EMFILE ...; -ECANCELED, -EINTR. A line on standard
 * error tells if the address came free meanwhile. Options that are set on it (weft/option.h) pass
 * to the connections of TCP. A path of a Unix socket that nobody listens on any more is used again:
 * what a server has left that was killed is no obstacle. -EEXIST: a file of another kind is there,
 * or a link, and stays. A close does not remove the socket's own file: that is for the caller to
 * do, while the socket is open, so that it is nobody else's. (weft_http_server_stop does.) */
WEFT_API int weft_listen(const char *address, const struct weft_listen_opts *opts);
WEFT_API int weft_listen_addr(const struct weft_addr *addr, const struct weft_listen_opts *opts);

/* The next connection. One that was gone before it was accepted is not seen. When descriptors or
 * the kernel's memory run out (-EMFILE, -ENFILE, -ENOBUFS, -ENOMEM), it waits: until weft_close
 * closes one, or for a while that grows from 1 ms to 64 ms, since others close too; then it tries
 * again. So a loop around it needs no rule for that, and does not spin. That error is the answer
 * only if the deadline comes first. A listener from elsewhere is made non-blocking. */
WEFT_API int weft_accept(int fd, int64_t deadline);
WEFT_API int weft_accept_from(int fd, struct weft_addr *peer, int64_t deadline);

/* A connected stream socket. The address is numeric or a Unix path. -ECONNREFUSED, -ENETUNREACH
 * ...; nothing is left behind. While the backlog of a Unix listener is full it waits, and tries
 * again after pauses of up to 64 ms: the kernel tells nobody when there is room. */
WEFT_API int weft_connect(const char *address, int64_t deadline);
WEFT_API int weft_connect_addr(const struct weft_addr *addr, int64_t deadline);

/* Two Unix sockets that are connected with each other: SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
 * 0; -EINVAL, -EMFILE ... */
WEFT_API int weft_socketpair(int type, int out[2]);

/* SHUT_RD, SHUT_WR or SHUT_RDWR. A half-closed connection can still be read. */
WEFT_API int weft_shutdown(int fd, int how);

WEFT_END_DECLS
#endif
