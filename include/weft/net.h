/* Sockets: addresses, stream sockets, socket options, name resolution, datagrams. */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/base.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

/* --- addresses ------------------------------------------------------------------------------ */

/* Socket addresses and their text form.
 *
 * A struct weft_addr is a plain value: copy it freely, nothing has to be released. All calls here
 * may be made by any thread and do not wait. */

struct weft_addr {
    socklen_t len;
    struct sockaddr_storage storage;
};

#define WEFT_ADDR_STRLEN                                                                           \
    160 /* enough for the text of any address, including the terminating zero */

/* Parse an address. The accepted forms are
 *   127.0.0.1:80   [::1]:80   [fe80::1%eth0]:80   *:80   :80 (any address, both IPv6 and IPv4)
 *   unix:/run/x.sock   unix:@abstract   unix:@ (for bind: the kernel chooses an abstract name)
 * Host names are not resolved here.
 *
 * Returns 0 and the address in *out; -EINVAL if the text has none of these forms.
 * Context: any thread; does not wait. */
WEFT_API int weft_addr_parse(struct weft_addr *out, const char *text);
/* Format an address into `out`, in the form that weft_addr_parse reads. The text is truncated to
 * `size`, including its terminating zero.
 *
 * Returns the length of the untruncated text, without the zero, as snprintf does.
 * Context: any thread; does not wait. */
WEFT_API int weft_addr_format(const struct weft_addr *addr, char *out, size_t size);

/* Get the local address of a socket, or the address of its peer.
 *
 * Returns 0 and the address in *out; -EBADF, -ENOTSOCK; weft_addr_peer: -ENOTCONN if the socket is
 * not connected.
 * Context: any thread; does not wait. */
WEFT_API int weft_addr_local(int fd, struct weft_addr *out);
WEFT_API int weft_addr_peer(int fd, struct weft_addr *out);

/* Get or set the port of an IPv4 or IPv6 address.
 *
 * Returns the port (weft_addr_port) or 0 (weft_addr_set_port); -EINVAL for any other family, or for
 * a port above 65535.
 * Context: any thread; does not wait. */
WEFT_API int weft_addr_port(const struct weft_addr *addr);
WEFT_API int weft_addr_set_port(struct weft_addr *addr, unsigned port);

/* --- stream sockets ------------------------------------------------------------------------- */

/* Stream sockets: listen, accept, connect. Reading and writing, and messages with descriptors, are
 * in weft/io.h.
 *
 * Sockets created here are close-on-exec and non-blocking. Every call that can wait is a
 * cancellation point.
 */

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

/* Open a listening stream socket. Options set on it are inherited by TCP
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

/* Accept the next connection. A connection that was reset before it could be accepted is skipped.
 * When descriptors or kernel memory run out (-EMFILE, -ENFILE, -ENOBUFS, -ENOMEM), the call waits
 * until a weft_close frees a descriptor, or for a pause that grows from 1 ms to 64 ms because
 * descriptors may also be closed by other means; then it tries again. So an accept loop needs no
 * special case for exhaustion and does not spin. A listener that Weft did not create is made
 * non-blocking.
 *
 * peer: NULL, or gets the peer's address.
 *
 * Returns an owned descriptor; -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM if the shortage lasts until
 * the deadline; or an error as in weft/io.h.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_accept(int fd, struct weft_addr *peer, int64_t deadline);

/* Open a stream socket and connect it to this address. weft_dial connects by name or text. While
 * the backlog of a Unix listener is full, the call retries after pauses of up to 64 ms, because the
 * kernel does not report when there is space.
 *
 * Returns an owned descriptor; -EINVAL for a bad address; -ECONNREFUSED, -ENETUNREACH ...; or an
 * error as in weft/io.h. On an error nothing stays open.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_connect(const struct weft_addr *addr, int64_t deadline);

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

/* --- socket options ------------------------------------------------------------------------- */

/* Socket options. Unless noted, each call returns 0, or
 *   -EINVAL       the value is negative where that has no meaning, or outside the kernel's range
 *   -EOPNOTSUPP   the socket is not of the kind that has the option
 *   -ENOTSOCK, -EBADF
 * A TCP connection inherits the options that its listener had when the connection arrived.
 * reuseport and defer-accept are options of weft_listen and weft_datagram_open.
 */

/* Enable or disable TCP_NODELAY: small writes are sent immediately.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_nodelay(int fd, bool on);
/* Enable or disable TCP_CORK: while it is on only full segments are sent; turning it off sends the
 * rest.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_cork(int fd, bool on);

/* The times of TCP keepalive: after `idle` seconds without data from the peer a probe is sent every
 * `interval` seconds; after `count` unanswered probes the connection fails with -ETIMEDOUT. A field
 * that is 0 keeps the system's value. */
struct weft_keepalive {
    int idle, interval, count; /* up to 32767, 32767 and 127 */
};
/* Enable TCP keepalive with these times; NULL disables it.
 *
 * keepalive: borrowed for the call.
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_keepalive(int fd, const struct weft_keepalive *keepalive);

/* Set TCP_USER_TIMEOUT: the connection fails with -ETIMEDOUT if written data stays unacknowledged
 * for this time; 0: the system's rule.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_user_timeout(int fd, int ms);

/* Set the sizes of the kernel's socket buffers; 0 leaves a size unchanged. The kernel doubles the
 * given size for its own bookkeeping and silently limits it to net.core.rmem_max and wmem_max.
 * Setting a size disables TCP's buffer auto-tuning.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_buffers(int fd, int recv_bytes, int send_bytes);

/* Set what close does with unsent data. WEFT_LINGER_DEFAULT: the kernel keeps sending it. 0: the
 * data is discarded, and a TCP peer gets a reset. Any other number of seconds would block the
 * closing thread: -EINVAL.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
enum { WEFT_LINGER_DEFAULT = -1 };
WEFT_API int weft_set_linger(int fd, int seconds);

/* Let reads of the socket busy-poll the device for up to this many microseconds (SO_BUSY_POLL); 0:
 * off. A value above the system's needs CAP_NET_ADMIN: -EPERM.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_busy_poll(int fd, int us);

/* --- resolver ------------------------------------------------------------------------------- */

/* Resolve host names, and connect to them.
 *
 * The resolver reads the hosts file and queries the system's name servers, using c-ares. Only the
 * calling fiber waits; no worker is blocked. The calls use up to 20 KiB of the caller's stack.
 */

struct weft_resolve_opts {
    const char *servers; /* "127.0.0.1:5353,[::1]:53": used in place of the system's name servers */
    int family;          /* AF_INET or AF_INET6; default both */
    int64_t try_timeout_ns; /* timeout of the first query to a server; default 2 s */
    int tries;              /* queries per server, each with twice the timeout of the one before;
                            default 3, at most 30 */
};

/* Resolve a host name into up to `max` addresses, the best one first (RFC 6724), each with this
 * port. A numeric address resolves to itself.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns the number of addresses in `out`; or
 *   -ENOENT     the name does not exist, or has no address
 *   -EREMOTEIO  the name servers fail, or do not answer
 *   -EINVAL     an empty name, `max` 0, a bad port, or a bad option such as `servers`
 *   -ETIMEDOUT, -ECANCELED, -EINTR, -ENOMEM, -EMFILE; -ENOSYS: built without c-ares
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_resolve(struct weft_addr *out, size_t max, const char *host, unsigned port,
                          const struct weft_resolve_opts *opts, int64_t deadline);

struct weft_dial_opts {
    struct weft_resolve_opts resolve;
    int64_t attempt_delay_ns; /* connection attempt delay (RFC 8305): the next address is tried in
                        parallel when the previous attempts have not succeeded for this long;
                        default 250 ms */
};

/* Connect to "host:port", or to a numeric address or a Unix path, as weft_addr_parse reads it. The
 * addresses of a host are
 * tried in order, alternating IPv6 and IPv4; a further attempt starts whenever one fails or is slow
 * (RFC 8305, "Happy Eyeballs"). The first attempt that succeeds is returned, the others are closed.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns an owned descriptor; -EINVAL for a bad address; the errors of weft_resolve; or, if no
 * attempt succeeds, the error of the last one; -ETIMEDOUT, -ECANCELED, -EINTR.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_dial(const char *address, const struct weft_dial_opts *opts, int64_t deadline);
/* Connect to one of several known addresses, as weft_dial does for the addresses of a host. At most
 * 16 addresses are tried. attempt_delay_ns: as in weft_dial_opts; 0: the default.
 *
 * Returns an owned descriptor; -EINVAL if n is 0 or attempt_delay_ns negative; else as weft_dial.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_dial_addrs(const struct weft_addr *addrs, size_t n, int64_t attempt_delay_ns,
                             int64_t deadline);

/* --- datagrams ------------------------------------------------------------------------------ */

/* Datagram sockets: UDP and Unix. weft_read and weft_write (weft/io.h) work on a connected one.
 *
 * A datagram is sent and received as a whole. The part that does not fit the receive buffer is
 * lost: weft_recv with MSG_TRUNC returns the full length, weft_recvmsg sets MSG_TRUNC in msg_flags.
 * A length of 0 is an empty datagram, not end of file. The calls that wait are cancellation points.
 */

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
/* Open a datagram socket that sends to this address and receives from no other. The kernel chooses
 * its local address. On UDP, an error reported by the network (-ECONNREFUSED: no socket at the
 * peer's port) is returned by a later call.
 *
 * Returns an owned descriptor; -EINVAL for a bad address; -ENETUNREACH, -EMFILE ...
 * Context: any thread; does not wait. */
WEFT_API int weft_datagram_connect(const struct weft_addr *addr);
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
