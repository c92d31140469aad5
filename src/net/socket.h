/* What the files that make sockets share. */
#ifndef WEFT_NET_SOCKET_H
#define WEFT_NET_SOCKET_H

#include <stdint.h>
#include <sys/types.h>

#include <weft/addr.h>

/* setsockopt of a number; -EOPNOTSUPP: the socket has no such option. */
int weft__socket_set(int fd, int level, int option, int value);

/* A descriptor that a call of ours has just got, non-blocking: known from here on. On an error it
 * is closed. The descriptor or -ENOMEM. `flags`: WEFT__FD_STREAM or 0, besides those. */
int weft__socket_known(int fd, unsigned flags);
/* A new socket, known; or an errno. */
int weft__socket_make(int family, int type);

/* As weft_accept_from, but when descriptors run out (weft__room_lacks) it says so at once. */
int weft__accept_or_lack(int fd, struct weft_addr *peer, int64_t deadline);

/* Binds; the path of a Unix socket of this type that nobody has any more is taken over. -EEXIST:
 * there is something else, which stays as it is. An address in use is tried again for up to
 * retry_ns (0: not), unless a process that lives is seen to have it; that waits, and may be ended
 * by -ECANCELED, -EINTR. */
#define WEFT__SOCKET_RETRY_NS INT64_C(1000000000)
int weft__socket_bind(int fd, int type, const struct weft_addr *addr, int64_t retry_ns);

/* The file of a Unix socket: which one it is, so that nobody else's is taken for it. */
struct weft__socket_file {
    dev_t device;
    ino_t number; /* 0: none; no other file has it while the socket is open */
};
/* Of a socket that has just been bound there. */
void weft__socket_file_note(struct weft__socket_file *file, const struct weft_addr *addr);
/* Removes it if it still is that one. Before the socket is closed. */
void weft__socket_file_remove(const struct weft__socket_file *file, const struct weft_addr *addr);

#endif
