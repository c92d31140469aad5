/* Datagram sockets: UDP and Unix. weft_read and weft_write (weft/io.h) work on a connected one.
 *
 * A datagram is sent and received as a whole. The part that does not fit the receive buffer is
 * lost: weft_recv with MSG_TRUNC returns the full length, weft_recvmsg sets MSG_TRUNC in msg_flags.
 * A length of 0 is an empty datagram, not end of file. The calls that wait are cancellation points.
 */
#ifndef WEFT_DATAGRAM_H
#define WEFT_DATAGRAM_H

#include <weft/addr.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

struct weft_datagram_opts {
    /* These options apply to UDP only; a Unix socket ignores them. */
    bool reuseport; /* several sockets share the datagrams sent to one address (SO_REUSEPORT) */
    bool v6only;    /* an IPv6 address does not accept IPv4 */
    bool broadcast; /* sending to broadcast addresses is allowed (SO_BROADCAST) */
};

/* Open a datagram socket bound to an address. For "0.0.0.0:0", "[::]:0" and "unix:@" the kernel
 * chooses the address. The stale path of a Unix socket that no process has open is reused.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns an owned descriptor; -EINVAL for a bad address; -EADDRINUSE (after retrying for up to 1
 * s) and -EEXIST, both as for weft_listen; -EMFILE ...; -ECANCELED, -EINTR during the retries.
 * Context: any thread; waits only while it retries an address in use; cancellation point then. A
 * callback on a worker does not retry. */
WEFT_API int weft_datagram_open(const char *address, const struct weft_datagram_opts *opts);
WEFT_API int weft_datagram_open_addr(const struct weft_addr *addr,
                                     const struct weft_datagram_opts *opts);
/* Open a datagram socket that sends to this address and receives from no other. The kernel chooses
 * its local address. On UDP, an error reported by the network (-ECONNREFUSED: no socket at the
 * peer's port) is returned by a later call.
 *
 * Returns an owned descriptor; -EINVAL for a bad address; -ENETUNREACH, -EMFILE ...
 * Context: any thread; does not wait. */
WEFT_API int weft_datagram_connect(const char *address);
WEFT_API int weft_datagram_connect_addr(const struct weft_addr *addr);
/* Set or change the peer of a socket; NULL disconnects it.
 *
 * Returns 0 or the errno of connect(2).
 * Context: any thread; does not wait. */
WEFT_API int weft_datagram_set_peer(int fd, const struct weft_addr *peer);

/* Receive one datagram. *from, unless NULL, gets the sender's address; from->len is 0 if the sender
 * has none.
 *
 * Returns the number of bytes stored; or an error as in weft/io.h.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_recvfrom(int fd, void *buf, size_t n, struct weft_addr *from,
                               int64_t deadline);
/* Send one datagram. `to` NULL sends to the socket's peer. A Unix socket waits while the receiver's
 * queue is full. The kernel reports free space only to a connected sender, so an unconnected one
 * retries after pauses of up to 64 ms.
 *
 * Returns n; -EMSGSIZE if n is too long for one datagram; or an error as in weft/io.h.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_sendto(int fd, const void *buf, size_t n, const struct weft_addr *to,
                             int64_t deadline);

WEFT_END_DECLS
#endif
