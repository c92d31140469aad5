#include <weft/net.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/socket.h"

int weft__socket_set(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof value) == 0) {
        return 0;
    }
    /* A socket of another family returns either: this socket has no such option. */
    return errno == ENOPROTOOPT ? -EOPNOTSUPP : -errno;
}

static int set_tcp(int fd, int option, int value)
{
    return weft__socket_set(fd, IPPROTO_TCP, option, value);
}

int weft_set_nodelay(int fd, bool on)
{
    return set_tcp(fd, TCP_NODELAY, on);
}

int weft_set_cork(int fd, bool on)
{
    return set_tcp(fd, TCP_CORK, on);
}

/* The kernel accepts SO_KEEPALIVE on any socket, but only TCP implements it. */
static int is_tcp(int fd)
{
    int protocol;
    socklen_t len = sizeof protocol;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) != 0) {
        return -errno;
    }
    return protocol == IPPROTO_TCP ? 0 : -EOPNOTSUPP;
}

static int set_unless_zero(int fd, int option, int value)
{
    return value ? set_tcp(fd, option, value) : 0;
}

int weft_set_keepalive(int fd, const struct weft_keepalive *keepalive)
{
    int err = is_tcp(fd);
    if (!err && keepalive) {
        err = keepalive->idle < 0 || keepalive->interval < 0 || keepalive->count < 0 ? -EINVAL : 0;
        err = err ? err : set_unless_zero(fd, TCP_KEEPIDLE, keepalive->idle);
        err = err ? err : set_unless_zero(fd, TCP_KEEPINTVL, keepalive->interval);
        err = err ? err : set_unless_zero(fd, TCP_KEEPCNT, keepalive->count);
    }
    return err ? err : weft__socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, keepalive != NULL);
}

int weft_set_user_timeout(int fd, int ms)
{
    return ms < 0 ? -EINVAL : set_tcp(fd, TCP_USER_TIMEOUT, ms);
}

int weft_set_buffers(int fd, int recv_bytes, int send_bytes)
{
    int err = recv_bytes < 0 || send_bytes < 0 ? -EINVAL : 0;
    if (!err && recv_bytes) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_RCVBUF, recv_bytes);
    }
    if (!err && send_bytes) {
        err = weft__socket_set(fd, SOL_SOCKET, SO_SNDBUF, send_bytes);
    }
    return err;
}

int weft_set_linger(int fd, int seconds)
{
    const struct linger linger = {.l_onoff = seconds == 0};
    if (seconds != 0 && seconds != WEFT_LINGER_DEFAULT) {
        return -EINVAL;
    }
    return setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0 ? 0 : -errno;
}

int weft_set_busy_poll(int fd, int us)
{
    return us < 0 ? -EINVAL : weft__socket_set(fd, SOL_SOCKET, SO_BUSY_POLL, us);
}
