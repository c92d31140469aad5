#include <weft/net.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "fdio/call.h"
#include "fdio/message.h"
#include "io/fd.h"
#include "net/socket.h"

/* --- opening ----------------------------------------------------------------------------- */

static int set_options(int fd, int family, const struct weft_datagram_opts *opts)
{
    int err = 0;
    if (family == AF_UNIX || !opts) {
        return 0;
    }
    if (opts->reuseport) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (!err && family == AF_INET6) {
        err = weft__socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, opts->v6only);
    }
    if (!err && opts->broadcast) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_BROADCAST, 1);
    }
    return err;
}

static int open_bound(const struct weft_addr *addr, const struct weft_datagram_opts *opts)
{
    int family = addr->storage.ss_family;
    int fd = weft__socket_open(family, SOCK_DGRAM);
    if (fd < 0) {
        return fd;
    }
    int err = set_options(fd, family, opts);
    err = err ? err : weft__socket_bind(fd, SOCK_DGRAM, addr, WEFT__SOCKET_RETRY_NS);
    if (err) {
        weft_close(fd);
    }
    return err ? err : fd;
}

int weft_datagram_open(const char *address, const struct weft_datagram_opts *opts)
{
    struct weft_addr addr;
    int err = weft_addr_parse(&addr, address);
    return err ? err : open_bound(&addr, opts);
}

int weft_datagram_set_peer(int fd, const struct weft_addr *peer)
{
    const struct weft_addr none = {.len = sizeof(sa_family_t), .storage.ss_family = AF_UNSPEC};
    peer = peer ? peer : &none;
    int n;
    do {
        n = connect(fd, (const struct sockaddr *)&peer->storage, peer->len);
    } while (n != 0 && errno == EINTR);
    return n == 0 ? 0 : -errno;
}

/* A Unix socket without a name of its own could not receive replies. */
static int bind_any(int fd, int family)
{
    const struct weft_addr any = {.len = sizeof(sa_family_t), .storage.ss_family = AF_UNIX};
    return family == AF_UNIX ? weft__socket_bind(fd, SOCK_DGRAM, &any, 0) : 0;
}

int weft_datagram_connect(const struct weft_addr *addr)
{
    int family = addr->storage.ss_family;
    int fd = weft__socket_open(family, SOCK_DGRAM);
    if (fd < 0) {
        return fd;
    }
    int err = bind_any(fd, family);
    err = err ? err : weft_datagram_set_peer(fd, addr);
    if (err) {
        weft_close(fd);
    }
    return err ? err : fd;
}

/* --- sending and receiving ----------------------------------------------------------------- */

ssize_t weft_recvfrom(int fd, void *buf, size_t n, struct weft_addr *from, int64_t deadline)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (from) {
        msg.msg_name = &from->storage;
        msg.msg_namelen = sizeof from->storage;
    }
    ssize_t got = weft__message_recv(fd, &msg, 0, deadline);
    if (from && got >= 0) {
        from->len = msg.msg_namelen;
    }
    return got;
}

ssize_t weft_sendto(int fd, const void *buf, size_t n, const struct weft_addr *to, int64_t deadline)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (to) {
        msg.msg_name = (void *)(uintptr_t)&to->storage;
        msg.msg_namelen = to->len;
    }
    return weft__message_send(fd, &msg, 0, deadline);
}
