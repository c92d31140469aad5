/* Addresses of sockets, and their text. */
#ifndef WEFT_ADDR_H
#define WEFT_ADDR_H

#include <stddef.h>
#include <sys/socket.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

struct weft_addr {
    socklen_t len;
    struct sockaddr_storage storage;
};

#define WEFT_ADDR_TEXT 160 /* enough for the text of any address, and its zero */

/* Reads
 *   127.0.0.1:80   [::1]:80   [fe80::1%eth0]:80   *:80   :80 (any address, IPv6 and IPv4 both)
 *   unix:/run/x.sock   unix:@abstract   unix:@ (to bind to: the system finds a name)
 * -EINVAL: none of these. Names of hosts are not resolved here (weft/resolve.h). */
WEFT_API int weft_addr_parse(struct weft_addr *out, const char *text);
/* Writes the same form, cut to size; the length it would have. */
WEFT_API int weft_addr_text(const struct weft_addr *addr, char *out, size_t size);

/* Of a socket: its own, and its peer's. */
WEFT_API int weft_addr_local(int fd, struct weft_addr *out);
WEFT_API int weft_addr_peer(int fd, struct weft_addr *out);

/* Of an IPv4 or IPv6 address; else -EINVAL. */
WEFT_API int weft_addr_port(const struct weft_addr *addr);
WEFT_API int weft_addr_set_port(struct weft_addr *addr, unsigned port);

WEFT_END_DECLS
#endif
