/* Socket addresses and their text form.
 *
 * A struct weft_addr is a plain value: copy it freely, nothing has to be released. All calls here
 * may be made by any thread and do not wait. */
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

#define WEFT_ADDR_STRLEN                                                                           \
    160 /* enough for the text of any address, including the terminating zero */

/* Parse an address. The accepted forms are
 *   127.0.0.1:80   [::1]:80   [fe80::1%eth0]:80   *:80   :80 (any address, both IPv6 and IPv4)
 *   unix:/run/x.sock   unix:@abstract   unix:@ (for bind: the kernel chooses an abstract name)
 * Host names are not resolved here (weft/resolve.h).
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

WEFT_END_DECLS
#endif
