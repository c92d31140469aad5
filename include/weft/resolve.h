/* Names of hosts to addresses, and connections to names.
 *
 * Asks the hosts file and the name servers of the system (by c-ares); the waits are those of the
 * calling fiber, so nothing blocks a worker. All calls are *cancellable*. They use up to 20 KiB of
 * the caller's stack.
 */
#ifndef WEFT_RESOLVE_H
#define WEFT_RESOLVE_H

#include <weft/addr.h>
#include <weft/net.h>

WEFT_BEGIN_DECLS

struct weft_resolve_opts {
    const char *servers; /* "127.0.0.1:5353,[::1]:53": instead of the system's */
    int family;          /* AF_INET or AF_INET6; default both */
    int64_t try_ns;      /* how long a server has for an answer at first; default 2 s */
    int tries;           /* of each server, each with twice the time; default 3, more than 30: 30 */
};

/* Up to `max` addresses of a host, the best first (RFC 6724), each with this port; how many. A
 * numeric address is itself.
 *  -ENOENT     there is no such name, or it has no address
 *  -EREMOTEIO  the name servers fail, or do not answer
 *  -EINVAL     no name at all, or bad servers
 *  -ETIMEDOUT, -ECANCELED, -EINTR, -ENOMEM, -EMFILE; -ENOSYS: built without c-ares */
WEFT_API int weft_resolve(const char *host, unsigned port, struct weft_addr *out, size_t max,
                          const struct weft_resolve_opts *opts, int64_t deadline);

struct weft_dial_opts {
    struct weft_resolve_opts resolve;
    int64_t next_ns; /* the next address is tried beside those that have not answered for so long;
                        default 250 ms */
};

/* A stream connected to "host:port", or to an address as weft_connect takes it. The addresses of a
 * host are tried in turn, IPv6 and IPv4 alternating, a further one whenever one fails or is slow
 * (RFC 8305); the first that answers is taken, the others are closed. The last error if none
 * does. */
WEFT_API int weft_dial(const char *address, const struct weft_dial_opts *opts, int64_t deadline);
/* The same over addresses that are known. */
WEFT_API int weft_dial_addrs(const struct weft_addr *addrs, size_t n, int64_t next_ns,
                             int64_t deadline);

WEFT_END_DECLS
#endif
