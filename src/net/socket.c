#include "net/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <weft/net.h>

#include "io/fd.h"

int weft__socket_known(int fd, unsigned flags)
{
    int err = weft__fd_open(fd, WEFT__FD_SOCKET | WEFT__FD_NONBLOCK | flags);
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

int weft__socket_make(int family, int type)
{
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : weft__socket_known(fd, type == SOCK_STREAM ? WEFT__FD_STREAM : 0);
}

/* The file of a socket that nobody has open: left behind by a process that is gone. */
static bool is_abandoned(const struct weft_addr *addr, int type)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&addr->storage;
    struct stat st;
    if (un->sun_family != AF_UNIX || !un->sun_path[0] || stat(un->sun_path, &st) != 0 ||
        !S_ISSOCK(st.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 &&
                   connect(fd, (const struct sockaddr *)&addr->storage, addr->len) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return refused && unlink(un->sun_path) == 0;
}

int weft__socket_bind(int fd, int type, const struct weft_addr *addr)
{
    const struct sockaddr *name = (const struct sockaddr *)&addr->storage;
    if (bind(fd, name, addr->len) == 0) {
        return 0;
    }
    int err = -errno;
    if (err == -EADDRINUSE && is_abandoned(addr, type) && bind(fd, name, addr->len) == 0) {
        err = 0;
    }
    return err;
}

int weft_socketpair(int type, int out[2])
{
    int ends[2];
    if (type != SOCK_STREAM && type != SOCK_DGRAM && type != SOCK_SEQPACKET) {
        return -EINVAL;
    }
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -errno;
    }
    unsigned flags = type == SOCK_STREAM ? WEFT__FD_STREAM : 0;
    int first = weft__socket_known(ends[0], flags);
    if (first < 0) {
        close(ends[1]);
        return first;
    }
    int second = weft__socket_known(ends[1], flags);
    if (second < 0) {
        weft_close(first);
        return second;
    }
    memcpy(out, ends, sizeof ends);
    return 0;
}

int weft_shutdown(int fd, int how)
{
    return shutdown(fd, how) == 0 ? 0 : -errno;
}
