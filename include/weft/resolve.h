/* Resolve host names, and connect to them.
 *
 * The resolver reads the hosts file and queries the system's name servers, using c-ares. Only the
 * calling fiber waits; no worker is blocked. The calls use up to 20 KiB of the caller's stack.
 */
#ifndef WEFT_RESOLVE_H
#define WEFT_RESOLVE_H

#include <weft/addr.h>
#include <weft/net.h>

WEFT_BEGIN_DECLS

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
WEFT_API int weft_resolve(const char *host, unsigned port, struct weft_addr *out, size_t max,
                          const struct weft_resolve_opts *opts, int64_t deadline);

struct weft_dial_opts {
    struct weft_resolve_opts resolve;
    int64_t attempt_delay_ns; /* connection attempt delay (RFC 8305): the next address is tried in
                        parallel when the previous attempts have not succeeded for this long;
                        default 250 ms */
};

/* Connect to "host:port", or to an address as accepted by weft_connect. The addresses of a host are
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

WEFT_END_DECLS
#endif
