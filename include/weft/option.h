/* Socket options. Unless noted, each call returns 0, or
 *   -EINVAL       the value is negative where that has no meaning, or outside the kernel's range
 *   -EOPNOTSUPP   the socket is not of the kind that has the option
 *   -ENOTSOCK, -EBADF
 * A TCP connection inherits the options that its listener had when the connection arrived.
 * reuseport and defer-accept are options of weft_listen and weft_datagram_open.
 */
#ifndef WEFT_OPTION_H
#define WEFT_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

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

/* Set or get the sizes of the kernel's socket buffers; 0 leaves a size unchanged. The kernel
 * doubles the given size for its own bookkeeping and silently limits it to net.core.rmem_max and
 * wmem_max: weft_get_buffers returns the resulting, doubled sizes. Setting a size disables TCP's
 * buffer auto-tuning.
 *
 * Returns as above.
 * Context: any thread; does not wait. */
WEFT_API int weft_set_buffers(int fd, int recv_bytes, int send_bytes);
WEFT_API int weft_get_buffers(int fd, int *recv_bytes, int *send_bytes);

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

/* Get and clear the socket's pending error (SO_ERROR).
 *
 * Returns 0 if there is none, or the error as a negative errno; -EBADF, -ENOTSOCK.
 * Context: any thread; does not wait. */
WEFT_API int weft_take_error(int fd);

WEFT_END_DECLS
#endif
