/* What the files that make sockets share. */
#ifndef WEFT_NET_SOCKET_H
#define WEFT_NET_SOCKET_H

#include <weft/addr.h>

/* setsockopt of a number; -EOPNOTSUPP: the socket has no such option. */
int weft__socket_set(int fd, int level, int option, int value);

/* A descriptor that a call of ours has just got, non-blocking: known from here on. On an error it is closed. The
 * descriptor or -ENOMEM. `flags`: WEFT__FD_STREAM or 0. */
int weft__socket_known(int fd, unsigned flags);
/* A new socket, known; or an errno. */
int weft__socket_make(int family, int type);

/* Binds; the path of a Unix socket of this type that nobody has any more is taken over. */
int weft__socket_bind(int fd, int type, const struct weft_addr *addr);

#endif
