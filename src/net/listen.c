/* Listen and accept. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <weft/net.h>

#include "base/clock.h"
#include "base/error.h"
#include "fdio/call.h"
#include "fdio/fd_exhaustion.h"
#include "io/fd.h"
#include "net/socket.h"

#define BACKLOG 1024
#define EXHAUSTED_FIRST_NS 1000000
#define EXHAUSTED_LAST_NS 64000000

static const struct weft__wait_kind accept_kind = {.name = "accept", .descriptor = true};

/* --- listen ------------------------------------------------------------------------------ */

static int set_options(int fd, const struct weft_addr *addr, const struct weft_listen_opts *opts)
{
    int err = 0;
    int family = addr->storage.ss_family;
    if (family == AF_UNIX) {
        return 0;
    }
    if (!opts->no_reuseaddr) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    if (!err && opts->reuseport && !opts->reuseport_first) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (!err && family == AF_INET6) {
        err = weft__socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, opts->v6only);
    }
    if (!err && opts->defer_accept_seconds) {
        err = weft__socket_set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, opts->defer_accept_seconds);
    }
    return err;
}

/* The first of several listeners is bound without SO_REUSEPORT, which fails if another socket
 * listens there, and sets the option afterwards: so the address is never free in between. */
static int bind_to(int fd, const struct weft_addr *addr, const struct weft_listen_opts *opts)
{
    int64_t retry_ns = opts->retry_ns < 0    ? 0
                       : opts->retry_ns == 0 ? WEFT__SOCKET_RETRY_NS
                                             : opts->retry_ns;
    int err = weft__socket_bind(fd, SOCK_STREAM, addr, retry_ns);
    if (!err && opts->reuseport_first && addr->storage.ss_family != AF_UNIX) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    return err;
}

int weft__listen_addr(const struct weft_addr *addr, const struct weft_listen_opts *options)
{
    struct weft_listen_opts opts = {0};
    if (options) {
        opts = *options;
    }
    if (opts.backlog < 0 || opts.defer_accept_seconds < 0) {
        return weft__refuse(-EINVAL, "backlog, defer_accept_seconds: must not be negative");
    }
    int fd = weft__socket_open(addr->storage.ss_family, SOCK_STREAM);
    if (fd < 0) {
        return fd;
    }
    int err = set_options(fd, addr, &opts);
    err = err ? err : bind_to(fd, addr, &opts);
    if (!err && listen(fd, opts.backlog ? opts.backlog : BACKLOG) != 0) {
        err = -errno;
    }
    if (err) {
        weft_close(fd);
    }
    return err ? err : fd;
}

int weft_listen(const char *address, const struct weft_listen_opts *opts)
{
    struct weft_addr addr;
    int err = weft_addr_parse(&addr, address);
    return err ? err : weft__listen_addr(&addr, opts);
}

/* --- accept ------------------------------------------------------------------------------ */

/* Errors of the connection, not of the listener, as listed in accept(2). */
static bool is_connection_error(int64_t result)
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

static int64_t accept_next(int fd, struct weft_addr *peer, int64_t deadline)
{
    struct weft__call call;
    int64_t got;
    do {
        weft__op_init(&call.op, fd, WEFT__OP_ACCEPT, WEFT__SIDE_IN);
        call.op.addr = peer ? (struct sockaddr *)&peer->storage : NULL;
        call.op.addr_len = sizeof peer->storage;
        got = weft__call_run(&call, deadline, &accept_kind);
    } while (is_connection_error(got));
    if (got >= 0 && peer) {
        peer->len = call.op.addr_len;
    }
    return got;
}

/* Accept after the previous try ran out of descriptors: wait until some are freed. */
static int64_t accept_after_exhaustion(const struct weft__fd *record, uint32_t generation,
                                       struct weft_addr *peer, int64_t deadline)
{
    int64_t got = WEFT__CLOSED, pause = EXHAUSTED_FIRST_NS;
    weft__fd_exhaustion_enter();
    while (weft__fd_generation(record) == generation) {
        uint64_t closed = weft__fd_exhaustion_close_count();
        got = accept_next(record->number, peer, deadline);
        int64_t now = weft__clock_ns();
        if (!weft__is_fd_exhaustion(got) || deadline <= now) {
            break;
        }
        int err = weft__fd_exhaustion_wait(closed, deadline - now > pause ? now + pause : deadline);
        if (err && err != -ETIMEDOUT) {
            got = err;
            break;
        }
        got = WEFT__CLOSED;
        pause = err && 2 * pause <= EXHAUSTED_LAST_NS ? 2 * pause : pause;
    }
    weft__fd_exhaustion_leave();
    return got;
}

static int accept_from(int fd, struct weft_addr *peer, int64_t deadline, bool wait_if_exhausted)
{
    int err = 0;
    const struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    uint32_t generation = weft__fd_generation(record);
    /* An accepted socket is of the listener's kind. */
    unsigned flags = weft__fd_is(record, WEFT__FD_STREAM) ? WEFT__FD_STREAM : 0;
    int64_t got = accept_next(fd, peer, deadline);
    if (__builtin_expect(weft__is_fd_exhaustion(got), 0) && wait_if_exhausted) {
        got = accept_after_exhaustion(record, generation, peer, deadline);
    }
    return got < 0 ? (int)got : weft__socket_register((int)got, flags);
}

int weft_accept(int fd, struct weft_addr *peer, int64_t deadline)
{
    return accept_from(fd, peer, deadline, true);
}

int weft__accept_or_exhausted(int fd, struct weft_addr *peer, int64_t deadline)
{
    return accept_from(fd, peer, deadline, false);
}
