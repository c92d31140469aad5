/* Transferring data through sockets, for all interposed functions. */
#ifndef WEFT_HOOK_SOCKET_H
#define WEFT_HOOK_SOCKET_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

ssize_t weft__hook_recv(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
                        socklen_t *len);
ssize_t weft__hook_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t weft__hook_send(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
                        socklen_t len);
ssize_t weft__hook_sendmsg(int fd, const struct msghdr *msg, int flags);

/* A position in a vector: after `done` bytes the rest begins in iov[index], at `offset`. */
struct weft__hook_iov_position {
    size_t index, offset;
};
struct weft__hook_iov_position weft__hook_iov_position(const struct iovec *iov, size_t count,
                                                       size_t done);
size_t weft__hook_iov_length(const struct iovec *iov, size_t count);

/* For fortified callers: stops the program if n bytes do not fit into a buffer of `size`. */
void weft__hook_check_size(size_t n, size_t size);

#endif
