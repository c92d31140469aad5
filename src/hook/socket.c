/* recv, send and their variants. Each is tried with MSG_DONTWAIT, whatever the mode of the socket,
 * and waits if it would have blocked: receiving available data costs no more than the real call. A
 * blocking call sends all of its bytes, and so does this; if it is ended before, it returns the
 * number of bytes sent. */
#include "hook/socket.h"

#include <errno.h>
#include <stdlib.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"
#include "hook/wait.h"

void __chk_fail(void) __attribute__((noreturn)); /* of the C library */

void weft__hook_check_size(size_t n, size_t size)
{
    if (n > size) {
        __chk_fail();
    }
}

size_t weft__hook_iov_length(const struct iovec *iov, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += iov[i].iov_len;
    }
    return n;
}

struct weft__hook_iov_position weft__hook_iov_position(const struct iovec *iov, size_t count,
                                                       size_t done)
{
    struct weft__hook_iov_position position = {.offset = done};
    while (position.index < count && position.offset >= iov[position.index].iov_len) {
        position.offset -= iov[position.index++].iov_len;
    }
    return position;
}

/* After a try: true if the call is to be tried again, with *flags. A send that connects
 * (MSG_FASTOPEN) connects once; the data is sent when the socket is connected. */
static bool must_retry(struct weft__hook_io *io, ssize_t n, int user_flags, int *flags)
{
    if (n >= 0) {
        return false;
    }
    if (errno == EINTR) {
        return true;
    }
    bool connects = errno == EINPROGRESS && io->events == POLLOUT;
    bool never = (user_flags & MSG_DONTWAIT) || /* error queue and OOB data never block */
                 (io->events == POLLIN && (user_flags & (MSG_ERRQUEUE | MSG_OOB)));
    if ((errno != EAGAIN && !connects) || never || !(*flags & MSG_DONTWAIT)) {
        return false;
    }
    switch (weft__hook_io_wait(io)) {
    case WEFT__HOOK_AGAIN:
        break;
    case WEFT__HOOK_USE_REAL:
        *flags = user_flags;
        break;
    case WEFT__HOOK_FAILED:
        errno = connects && errno == EAGAIN ? EINPROGRESS : errno;
        return false;
    }
    *flags &= connects ? ~MSG_FASTOPEN : ~0;
    return true;
}

/* --- receiving -------------------------------------------------------------------------------- */

static ssize_t recv_once(struct weft__hook_io *io, void *buf, size_t n, int flags,
                         struct sockaddr *addr, socklen_t *len)
{
    int use = flags | MSG_DONTWAIT;
    ssize_t got;
    do {
        got = weft__real()->recvfrom(io->fd, buf, n, use, addr, len);
    } while (must_retry(io, got, flags, &use));
    return got;
}

/* SO_TYPE or SO_DOMAIN; -1: not a socket. */
static int socket_option(int fd, int option)
{
    int what = -1;
    socklen_t len = sizeof what;
    return getsockopt(fd, SOL_SOCKET, option, &what, &len) == 0 ? what : -1;
}

static bool is_stream(int fd)
{
    return socket_option(fd, SO_TYPE) == SOCK_STREAM;
}

/* MSG_WAITALL with MSG_PEEK: readiness does not tell how much data is available. Unix sockets do
 * not wait for all of it. */
static ssize_t peek_all(struct weft__hook_io *io, void *buf, size_t n, int flags)
{
    ssize_t got = 0, before = -1;
    for (unsigned tries = 0;; tries++) {
        got = recv_once(io, buf, n, flags & ~MSG_WAITALL, NULL, NULL);
        if (got <= 0 || (size_t)got == n) {
            return got;
        }
        tries = got == before ? tries : 0;
        before = got;
        if (socket_option(io->fd, SO_DOMAIN) == AF_UNIX || !weft__hook_io_can_block(io) ||
            weft__hook_pause(tries, io->deadline) != 0 || weft_now() >= io->deadline) {
            return got;
        }
        struct pollfd pfd = {.fd = io->fd, .events = POLLRDHUP};
        if (weft__real()->poll(&pfd, 1, 0) > 0) {
            return recv_once(io, buf, n, flags & ~MSG_WAITALL, NULL, NULL);
        }
    }
}

ssize_t weft__hook_recv(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
                        socklen_t *len)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLIN};
    if (!(flags & MSG_WAITALL) || (flags & (MSG_DONTWAIT | MSG_ERRQUEUE)) || !is_stream(fd)) {
        return recv_once(&io, buf, n, flags, addr, len);
    }
    if (flags & MSG_PEEK) {
        return peek_all(&io, buf, n, flags);
    }
    size_t have = 0;
    ssize_t got = 0;
    do {
        got = recv_once(&io, (char *)buf + have, n - have, flags & ~MSG_WAITALL, addr, len);
        have += got > 0 ? (size_t)got : 0;
    } while (got > 0 && have < n);
    return have > 0 || got >= 0 ? weft__hook_io_finish(&io, have) : -1;
}

/* Receive the rest of a message that must be complete. */
static ssize_t recv_rest(struct weft__hook_io *io, const struct msghdr *msg, size_t done, int flags)
{
    size_t all = weft__hook_iov_length(msg->msg_iov, msg->msg_iovlen);
    while (done < all) {
        struct weft__hook_iov_position at =
            weft__hook_iov_position(msg->msg_iov, msg->msg_iovlen, done);
        const struct iovec *iov = &msg->msg_iov[at.index];
        ssize_t got = recv_once(io, (char *)iov->iov_base + at.offset, iov->iov_len - at.offset,
                                flags & ~MSG_WAITALL, NULL, NULL);
        if (got <= 0) {
            break;
        }
        done += (size_t)got;
    }
    return weft__hook_io_finish(io, done);
}

/* Descriptors that arrived with the message are new. */
static void forget_passed(const struct msghdr *msg)
{
    struct msghdr *m = (struct msghdr *)(uintptr_t)msg;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; i++) {
                int fd;
                __builtin_memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                weft__hook_fd_forget(fd);
            }
        }
    }
}

ssize_t weft__hook_recvmsg(int fd, struct msghdr *msg, int flags)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLIN};
    int use = (flags & ~MSG_WAITALL) | MSG_DONTWAIT;
    struct msghdr given = *msg; /* a failed try may have changed it */
    ssize_t got;
    do {
        *msg = given;
        got = weft__real()->recvmsg(fd, msg, use);
    } while (must_retry(&io, got, flags, &use));
    if (got >= 0 && msg->msg_controllen > 0) {
        forget_passed(msg);
    }
    if (got > 0 && (flags & MSG_WAITALL) && !(flags & (MSG_DONTWAIT | MSG_PEEK | MSG_ERRQUEUE)) &&
        msg->msg_controllen == 0 && is_stream(fd)) {
        return recv_rest(&io, msg, (size_t)got, flags);
    }
    return got;
}

/* --- sending ---------------------------------------------------------------------------------- */

static ssize_t send_all(struct weft__hook_io *io, const char *buf, size_t n, int flags,
                        const struct sockaddr *addr, socklen_t len)
{
    size_t done = 0;
    ssize_t put;
    do {
        int use = flags | MSG_DONTWAIT;
        do {
            put = weft__real()->sendto(io->fd, buf + done, n - done, use, addr, len);
        } while (must_retry(io, put, flags, &use));
        done += put > 0 ? (size_t)put : 0;
        flags &= ~MSG_FASTOPEN;
    } while (put > 0 && done < n && !(flags & MSG_DONTWAIT));
    return done > 0 || put >= 0 ? weft__hook_io_finish(io, done) : -1;
}

ssize_t weft__hook_send(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
                        socklen_t len)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLOUT};
    return send_all(&io, buf, n, flags, addr, len);
}

/* The ancillary data of a message has been sent with its first part. */
static ssize_t send_rest(struct weft__hook_io *io, const struct msghdr *msg, size_t done, int flags)
{
    size_t all = weft__hook_iov_length(msg->msg_iov, msg->msg_iovlen);
    flags &= ~MSG_FASTOPEN;
    while (done < all) {
        struct weft__hook_iov_position at =
            weft__hook_iov_position(msg->msg_iov, msg->msg_iovlen, done);
        const struct iovec *iov = &msg->msg_iov[at.index];
        size_t n = iov->iov_len - at.offset;
        ssize_t put = send_all(io, (const char *)iov->iov_base + at.offset, n, flags, NULL, 0);
        done += put > 0 ? (size_t)put : 0;
        if (put < 0 || (size_t)put < n) {
            break;
        }
    }
    return weft__hook_io_finish(io, done);
}

ssize_t weft__hook_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLOUT};
    int use = flags | MSG_DONTWAIT;
    ssize_t put;
    do {
        put = weft__real()->sendmsg(fd, msg, use);
    } while (must_retry(&io, put, flags, &use));
    return put <= 0 || (flags & MSG_DONTWAIT) ? put : send_rest(&io, msg, (size_t)put, flags);
}

/* --- the interposed functions ----------------------------------------------------------------- */

WEFT__HOOK ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    return weft__hook_begin() ? weft__hook_recv(fd, buf, n, flags, NULL, NULL)
                              : weft__real()->recvfrom(fd, buf, n, flags, NULL, NULL);
}

WEFT__HOOK ssize_t recvfrom(int fd, void *buf, size_t n, int flags, __SOCKADDR_ARG addr,
                            socklen_t *len)
{
    return weft__hook_begin() ? weft__hook_recv(fd, buf, n, flags, addr.__sockaddr__, len)
                              : weft__real()->recvfrom(fd, buf, n, flags, addr, len);
}

WEFT__HOOK ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    return weft__hook_begin() ? weft__hook_recvmsg(fd, msg, flags)
                              : weft__real()->recvmsg(fd, msg, flags);
}

WEFT__HOOK ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    return weft__hook_begin() ? weft__hook_send(fd, buf, n, flags, NULL, 0)
                              : weft__real()->sendto(fd, buf, n, flags, NULL, 0);
}

WEFT__HOOK ssize_t sendto(int fd, const void *buf, size_t n, int flags, __CONST_SOCKADDR_ARG addr,
                          socklen_t len)
{
    return weft__hook_begin() ? weft__hook_send(fd, buf, n, flags, addr.__sockaddr__, len)
                              : weft__real()->sendto(fd, buf, n, flags, addr, len);
}

WEFT__HOOK ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return weft__hook_begin() ? weft__hook_sendmsg(fd, msg, flags)
                              : weft__real()->sendmsg(fd, msg, flags);
}

/* The fortified variants, which headers use where they know the size of a buffer. */
WEFT__HOOK ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
    weft__hook_check_size(n, size);
    return recv(fd, buf, n, flags);
}

WEFT__HOOK ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags,
                                  __SOCKADDR_ARG addr, socklen_t *len);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, __SOCKADDR_ARG addr,
                       socklen_t *len)
{
    weft__hook_check_size(n, size);
    return recvfrom(fd, buf, n, flags, addr, len);
}

/* --- several messages ------------------------------------------------------------------------- */

/* As in the kernel: the timeout is checked after a message has arrived, and never ends a wait. */
static int recv_many(int fd, struct mmsghdr *messages, unsigned count, int flags, int64_t deadline)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLIN};
    unsigned done = 0;
    int use = (flags & ~MSG_WAITFORONE) | MSG_DONTWAIT, got;
    do {
        do {
            got = weft__real()->recvmmsg(fd, messages + done, count - done, use, NULL);
        } while ((done == 0 || !(flags & MSG_WAITFORONE)) && must_retry(&io, got, flags, &use));
        for (int i = 0; i < got; i++) {
            forget_passed(&messages[done + (unsigned)i].msg_hdr);
        }
        done += got > 0 ? (unsigned)got : 0;
    } while (got > 0 && done < count && !(flags & MSG_WAITFORONE) && weft_now() < deadline);
    return done > 0 || got >= 0 ? (int)done : -1;
}

WEFT__HOOK int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                        struct timespec *timeout)
{
    if (!weft__hook_begin() || (flags & MSG_DONTWAIT) ||
        (timeout && !weft__hook_is_valid_time(timeout))) {
        return weft__real()->recvmmsg(fd, messages, count, flags, timeout);
    }
    int64_t deadline = weft__hook_after(timeout);
    int done = recv_many(fd, messages, count, flags, deadline);
    if (timeout && done > 0) {
        *timeout = weft__hook_remaining(deadline); /* Linux writes the remaining time */
    }
    return done;
}

/* Only the last message that was sent can be incomplete, if the socket is a stream. */
static void complete_last(struct weft__hook_io *io, struct mmsghdr *last, int flags)
{
    ssize_t put = send_rest(io, &last->msg_hdr, last->msg_len, flags);
    last->msg_len = put > 0 ? (unsigned)put : last->msg_len;
}

WEFT__HOOK int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (!weft__hook_begin() || (flags & MSG_DONTWAIT)) {
        return weft__real()->sendmmsg(fd, messages, count, flags);
    }
    struct weft__hook_io io = {.fd = fd, .events = POLLOUT};
    unsigned done = 0;
    int use = flags | MSG_DONTWAIT, put;
    do {
        do {
            put = weft__real()->sendmmsg(fd, messages + done, count - done, use);
        } while (must_retry(&io, put, flags, &use));
        if (put > 0) {
            done += (unsigned)put;
            complete_last(&io, &messages[done - 1], flags);
        }
    } while (put > 0 && done < count);
    return done > 0 || put >= 0 ? (int)done : -1;
}
