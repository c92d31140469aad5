/* Stream sockets: listen, accept, connect. Reading and writing is in weft/io.h, addresses are in
 * weft/addr.h, options in weft/option.h, datagrams in weft/datagram.h, messages with descriptors in
 * weft/message.h.
 *
 * Sockets created here are close-on-exec and non-blocking. Every call that can wait is a
 * cancellation point.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/addr.h>
#include <weft/io.h>
#include <weft/option.h>

WEFT_BEGIN_DECLS

struct weft_listen_opts {
    int backlog; /* default 1024; the system may lower it (net.core.somaxconn) */
    /* How long bind is retried while the address is in use; default 1 s; negative: no retry. A
     * server that was killed may leave its address in use for some milliseconds, because the kernel
     * tears down an io_uring only after its process. If another live process is found to own the
     * address, the call fails after 0.1 s; if this process owns it, the call fails immediately. */
    int64_t retry_ns;
    /* The remaining options apply to TCP only; a Unix socket ignores them. */
    bool reuseport;       /* several listeners share the connections to one address
                             (SO_REUSEPORT) */
    bool reuseport_first; /* the first of these listeners: -EADDRINUSE if there is any other */
    bool no_reuseaddr;
    bool v6only;              /* an IPv6 address does not accept IPv4 */
    int defer_accept_seconds; /* accept a connection only after it has sent data
                                 (TCP_DEFER_ACCEPT); 0: accept at once */
};

/* Open a listening stream socket. Options set on it (weft/option.h) are inherited by TCP
 * connections. If the address becomes free during the retries, a line on standard error says so.
 * The stale path of a Unix socket that no process listens on, left by a server that was killed, is
 * reused. Closing the socket does not remove its file: the caller does that while the socket is
 * still open, because only then the file is certain to be its own. (weft_http_server_stop does so.)
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns an owned descriptor; -EINVAL for a bad address or a negative option; -EADDRINUSE after
 * opts->retry_ns at most; -EEXIST if a Unix path names a file of another kind or a symbolic link,
 * which is left in place; -EADDRNOTAVAIL, -EACCES, -EMFILE ...; -ECANCELED, -EINTR during the
 * retries.
 * Context: any thread; waits only while it retries an address in use; cancellation point then. A
 * callback on a worker does not retry. */
WEFT_API int weft_listen(const char *address, const struct weft_listen_opts *opts);
WEFT_API int weft_listen_addr(const struct weft_addr *addr, const struct weft_listen_opts *opts);

/* Accept the next connection. A connection that was reset before it could be accepted is skipped.
 * When descriptors or kernel memory run out (-EMFILE, -ENFILE, -ENOBUFS, -ENOMEM), the call waits
 * until a weft_close frees a descriptor, or for a pause that grows from 1 ms to 64 ms because
 * descriptors may also be closed by other means; then it tries again. So an accept loop needs no
 * special case for exhaustion and does not spin. A listener that Weft did not create is made
 * non-blocking. weft_accept_from stores the peer's address in *peer, unless NULL.
 *
 * Returns an owned descriptor; -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM if the shortage lasts until
 * the deadline; or an error as in weft/io.h.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_accept(int fd, int64_t deadline);
WEFT_API int weft_accept_from(int fd, struct weft_addr *peer, int64_t deadline);

/* Open a stream socket and connect it. `address` is numeric or a Unix path (weft/addr.h). While the
 * backlog of a Unix listener is full, the call retries after pauses of up to 64 ms, because the
 * kernel does not report when there is space.
 *
 * Returns an owned descriptor; -EINVAL for a bad address; -ECONNREFUSED, -ENETUNREACH ...; or an
 * error as in weft/io.h. On an error nothing stays open.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_connect(const char *address, int64_t deadline);
WEFT_API int weft_connect_addr(const struct weft_addr *addr, int64_t deadline);

/* Create a pair of connected Unix sockets. type: SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
 *
 * Returns 0 and two owned descriptors; -EINVAL for another type; -EMFILE, -ENFILE, -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_socketpair(int type, int out[2]);

/* Shut down one or both directions of a connection: SHUT_RD, SHUT_WR or SHUT_RDWR. A connection
 * whose write side is shut down can still be read.
 *
 * Returns 0 or the errno of shutdown(2).
 * Context: any thread; does not wait. */
WEFT_API int weft_shutdown(int fd, int how);

WEFT_END_DECLS
#endif
