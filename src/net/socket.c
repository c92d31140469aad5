/* Sockets: made, listening, accepted, connected. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <weft/net.h>

#include "io/fd.h"
#include "net/call.h"

#define BACKLOG 1024

static const struct weft__wait_kind accept_kind = {.name = "accept", .label = weft__call_label};
static const struct weft__wait_kind connect_kind = {.name = "connect", .label = weft__call_label};

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : -errno;
}

/* A new descriptor of ours; on an error it is closed. */
static int known(int fd, unsigned flags)
{
    int err = weft__fd_open(fd, WEFT__FD_SOCKET | flags);
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

/* --- listen ------------------------------------------------------------------------------ */

static int set_listen_options(int fd, const struct weft_addr *addr,
                              const struct weft_listen_opts *opts)
{
    int err = 0;
    int family = addr->storage.ss_family;
    if (family == AF_UNIX) {
        return 0;
    }
    if (!opts->no_reuseaddr) {
        err = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    if (!err && opts->reuseport) {
        err = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (!err && family == AF_INET6) {
        err = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, opts->v6only);
    }
    if (!err && opts->defer_accept_seconds) {
        err = set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, opts->defer_accept_seconds);
    }
    return err;
}

/* The file of a socket that nobody listens on: left behind by a process that is gone. */
static bool is_abandoned(const struct weft_addr *addr)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&addr->storage;
    struct stat st;
    if (un->sun_family != AF_UNIX || !un->sun_path[0] || stat(un->sun_path, &st) != 0 ||
        !S_ISSOCK(st.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 &&
                   connect(fd, (const struct sockaddr *)&addr->storage, addr->len) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return refused && unlink(un->sun_path) == 0;
}

static int bind_to(int fd, const struct weft_addr *addr)
{
    const struct sockaddr *name = (const struct sockaddr *)&addr->storage;
    if (bind(fd, name, addr->len) == 0) {
        return 0;
    }
    int err = -errno;
    if (err == -EADDRINUSE && is_abandoned(addr) && bind(fd, name, addr->len) == 0) {
        err = 0;
    }
    return err;
}

int weft_listen_addr(const struct weft_addr *addr, const struct weft_listen_opts *options)
{
    struct weft_listen_opts opts = {0};
    if (options) {
        opts = *options;
    }
    int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int err = set_listen_options(fd, addr, &opts);
    err = err ? err : bind_to(fd, addr);
    if (!err && listen(fd, opts.backlog ? opts.backlog : BACKLOG) != 0) {
        err = -errno;
    }
    if (err) {
        close(fd);
        return err;
    }
    return known(fd, 0);
}

int weft_listen(const char *address, const struct weft_listen_opts *opts)
{
    struct weft_addr addr;
    int err = weft_addr_parse(&addr, address);
    return err ? err : weft_listen_addr(&addr, opts);
}

/* --- accept ------------------------------------------------------------------------------ */

/* Errors of the connection, not of the listener: accept(2) says which. */
static bool is_peers(int64_t result)
{
    switch (-result) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

int weft_accept_from(int fd, struct weft_addr *peer, int64_t deadline)
{
    struct weft__call call;
    int64_t got;
    do {
        weft__op_init(&call.op, fd, WEFT__OP_ACCEPT, WEFT__SIDE_IN);
        call.op.addr = peer ? (struct sockaddr *)&peer->storage : NULL;
        call.op.addr_len = sizeof peer->storage;
        got = weft__call_run(&call, deadline, &accept_kind);
    } while (is_peers(got));
    if (got < 0) {
        return (int)got;
    }
    if (peer) {
        peer->len = call.op.addr_len;
    }
    return known((int)got, WEFT__FD_STREAM);
}

int weft_accept(int fd, int64_t deadline)
{
    return weft_accept_from(fd, NULL, deadline);
}

/* --- connect ----------------------------------------------------------------------------- */

int weft_connect_addr(const struct weft_addr *addr, int64_t deadline)
{
    int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    fd = known(fd, WEFT__FD_STREAM);
    if (fd < 0) {
        return fd;
    }
    struct weft__call call;
    weft__op_init(&call.op, fd, WEFT__OP_CONNECT, WEFT__SIDE_OUT);
    call.op.addr = (struct sockaddr *)(uintptr_t)&addr->storage;
    call.op.addr_len = addr->len;
    int64_t err = weft__call_run(&call, deadline, &connect_kind);
    if (err < 0) {
        weft_close(fd);
    }
    return err < 0 ? (int)err : fd;
}

int weft_connect(const char *address, int64_t deadline)
{
    struct weft_addr addr;
    int err = weft_addr_parse(&addr, address);
    return err ? err : weft_connect_addr(&addr, deadline);
}

int weft_shutdown(int fd, int how)
{
    return shutdown(fd, how) == 0 ? 0 : -errno;
}

int weft_set_nodelay(int fd, bool on)
{
    return set(fd, IPPROTO_TCP, TCP_NODELAY, on);
}
