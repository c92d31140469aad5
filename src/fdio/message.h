/* Send and receive one socket message, with addresses and control data. */
#ifndef WEFT_FDIO_MESSAGE_H
#define WEFT_FDIO_MESSAGE_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The flags that weft_recv and weft_send accept. */
#define WEFT__RECV_FLAGS (MSG_PEEK | MSG_TRUNC)
#define WEFT__SEND_FLAGS (MSG_MORE | MSG_EOR)

/* The caller has checked the flags; the descriptor need not be a socket (-ENOTSOCK). */
ssize_t weft__message_recv(int fd, struct msghdr *msg, int flags, int64_t deadline);
ssize_t weft__message_send(int fd, const struct msghdr *msg, int flags, int64_t deadline);

#endif
