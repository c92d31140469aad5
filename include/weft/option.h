/* Options of sockets. Each answers 0, or
 *   -EINVAL       a value that cannot be: negative where no sense is given to it, or beyond what
 *                 the kernel takes
 *   -EOPNOTSUPP   the socket is not of the kind that has the option
 *   -ENOTSOCK, -EBADF
 * Of TCP, connections take over what their listener had when they came. reuseport and defer-accept
 * are options of weft_listen and weft_datagram_open.
 */
#ifndef WEFT_OPTION_H
#define WEFT_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

/* TCP: small writes go at once. */
WEFT_API int weft_set_nodelay(int fd, bool on);
/* TCP: nothing but full segments goes while it is on; turning it off sends the rest. */
WEFT_API int weft_set_cork(int fd, bool on);

/* TCP: a peer that is silent for `idle` seconds is asked every `interval` seconds, and after
 * `count` questions without an answer the connection ends with -ETIMEDOUT. A zero field: the
 * system's value. NULL: off. */
struct weft_keepalive {
    int idle, interval, count; /* up to 32767, 32767 and 127 */
};
WEFT_API int weft_set_keepalive(int fd, const struct weft_keepalive *keepalive);

/* TCP: what was written and is not acknowledged for so long ends the connection with -ETIMEDOUT; 0:
 * the system's rule. */
WEFT_API int weft_set_user_timeout(int fd, int ms);

/* Sizes of the kernel's buffers; 0: leave as it is. The kernel doubles what it is given for its own
 * use, and cuts it without a word to net.core.rmem_max and wmem_max: weft_get_buffers says what
 * came of it, as doubled. To set one takes TCP's own tuning away. */
WEFT_API int weft_set_buffers(int fd, int recv_bytes, int send_bytes);
WEFT_API int weft_get_buffers(int fd, int *recv_bytes, int *send_bytes);

/* What a close does with data that is not sent yet. WEFT_LINGER_DEFAULT: it goes on being sent. 0:
 * it is thrown away, and the peer of TCP gets a reset. More seconds would block the thread that
 * closes: -EINVAL. */
enum { WEFT_LINGER_DEFAULT = -1 };
WEFT_API int weft_set_linger(int fd, int seconds);

/* Reads of the socket may poll the device for so many microseconds before they give up
 * (SO_BUSY_POLL); 0: not. More than the system's value needs CAP_NET_ADMIN: -EPERM. */
WEFT_API int weft_set_busy_poll(int fd, int us);

/* The error that the socket keeps, which reading it clears: 0 or a negative errno. */
WEFT_API int weft_take_error(int fd);

WEFT_END_DECLS
#endif
