/* Creating, binding and registering sockets. */
#ifndef WEFT_NET_SOCKET_H
#define WEFT_NET_SOCKET_H

#include <stdint.h>
#include <sys/types.h>

#include <weft/net.h>

/* setsockopt with an int value; -EOPNOTSUPP: the socket has no such option. */
int weft__socket_set(int fd, int level, int option, int value);

/* Register a non-blocking descriptor that a call of ours has just got from the kernel. On an error
 * the descriptor is closed. Returns the descriptor or -ENOMEM. `flags`: WEFT__FD_STREAM or 0, in
 * addition to those implied. */
int weft__socket_register(int fd, unsigned flags);
/* Create and register a socket. Returns the descriptor or an errno. */
int weft__socket_open(int family, int type);

/* As weft_listen, for an address in binary form. */
int weft__listen_addr(const struct weft_addr *addr, const struct weft_listen_opts *options);

/* As weft_accept, but returns the error at once when descriptors run out
 * (weft__is_fd_exhaustion). */
int weft__accept_or_exhausted(int fd, struct weft_addr *peer, int64_t deadline);

/* Bind a socket. The path of a Unix socket of this type that no process has open is reused.
 * -EEXIST: another file is there, which is left in place. An address in use is retried for up to
 * retry_ns (0: not), unless a live process is found to own it; this waits, and may end with
 * -ECANCELED, -EINTR. */
#define WEFT__SOCKET_RETRY_NS INT64_C(1000000000)
int weft__socket_bind(int fd, int type, const struct weft_addr *addr, int64_t retry_ns);

/* The identity of a Unix socket's file, so that no other file is removed in its place. */
struct weft__socket_file {
    dev_t device;
    ino_t number; /* 0: none; unique while the socket is open */
};
/* Record the file of a socket that has just been bound. */
void weft__socket_file_record(struct weft__socket_file *file, const struct weft_addr *addr);
/* Remove the file if it still is the recorded one. Call before closing the socket. */
void weft__socket_file_remove(const struct weft__socket_file *file, const struct weft_addr *addr);

#endif
