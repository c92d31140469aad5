/* Creating, duplicating and closing descriptors: the recorded state of their numbers follows. fcntl
 * and ioctl show the user's setting where the hooks made a socket non-blocking (hook/fd_state.h).
 * All of this also applies outside of fibers. */
#include <errno.h>
#include <stdarg.h>

#include <weft/io.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"

static int new_fd(int fd)
{
    if (fd >= 0) {
        int before = errno;
        weft__hook_fd_forget(fd);
        errno = before;
    }
    return fd;
}

static int new_fd_pair(int err, const int ends[2])
{
    if (err == 0) {
        new_fd(ends[0]);
        new_fd(ends[1]);
    }
    return err;
}

WEFT__HOOK int socket(int domain, int type, int protocol)
{
    return new_fd(weft__real()->socket(domain, type, protocol));
}

WEFT__HOOK int socketpair(int domain, int type, int protocol, int ends[2])
{
    return new_fd_pair(weft__real()->socketpair(domain, type, protocol, ends), ends);
}

WEFT__HOOK int pipe2(int ends[2], int flags)
{
    return new_fd_pair(weft__real()->pipe2(ends, flags), ends);
}

WEFT__HOOK int pipe(int ends[2])
{
    return pipe2(ends, 0);
}

WEFT__HOOK int epoll_create1(int flags)
{
    return new_fd(weft__real()->epoll_create1(flags));
}

WEFT__HOOK int epoll_create(int size)
{
    if (size <= 0) {
        errno = EINVAL;
        return -1;
    }
    return epoll_create1(0);
}

/* --- duplicates ------------------------------------------------------------------------------- */

static int record_copy(int from, int to)
{
    if (to >= 0) {
        int before = errno;
        weft__hook_fd_copy(from, to);
        errno = before;
    }
    return to;
}

/* dup2 closes `to`, if `from` is open. Waiters for `to` are notified before that. */
static bool forget_replaced(int from, int to)
{
    int before = errno;
    bool is_replaced = from != to && weft__real()->fcntl(from, F_GETFD) >= 0;
    if (is_replaced) {
        weft__hook_fd_forget(to);
    }
    errno = before;
    return is_replaced;
}

WEFT__HOOK int dup(int fd)
{
    return record_copy(fd, weft__real()->dup(fd));
}

WEFT__HOOK int dup2(int from, int to)
{
    bool is_replaced = forget_replaced(from, to);
    int fd = weft__real()->dup2(from, to);
    return is_replaced ? record_copy(from, fd) : fd;
}

WEFT__HOOK int dup3(int from, int to, int flags)
{
    bool is_replaced = forget_replaced(from, to);
    int fd = weft__real()->dup3(from, to, flags);
    return is_replaced ? record_copy(from, fd) : fd;
}

/* --- blocking mode ---------------------------------------------------------------------------- */

static void set_user_mode(struct weft__hook_fd *record, bool nonblocking)
{
    if (nonblocking) {
        atomic_fetch_or_explicit(&record->flags, WEFT__HOOK_USER_NONBLOCK, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&record->flags, ~(uint32_t)WEFT__HOOK_USER_NONBLOCK,
                                  memory_order_relaxed);
    }
}

static int control(int fd, int command, void *arg)
{
    struct weft__hook_fd *record;
    int result;
    switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        return record_copy(fd, weft__real()->fcntl(fd, command, arg));
    case F_GETFL:
        record = weft__hook_fd_if_forced(fd);
        result = weft__real()->fcntl(fd, command);
        return result >= 0 && record && !weft__hook_fd_is_nonblocking(fd) ? result & ~O_NONBLOCK
                                                                          : result;
    case F_SETFL:
        record = weft__hook_fd_if_forced(fd);
        if (record) {
            int flags = (int)(intptr_t)arg;
            set_user_mode(record, (flags & O_NONBLOCK) != 0);
            return weft__real()->fcntl(fd, command, flags | O_NONBLOCK);
        }
        return weft__real()->fcntl(fd, command, arg);
    default:
        return weft__real()->fcntl(fd, command, arg);
    }
}

WEFT__HOOK int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return control(fd, command, arg);
}

WEFT__HOOK int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return control(fd, command, arg);
}

WEFT__HOOK int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    struct weft__hook_fd *record = request == FIONBIO && arg ? weft__hook_fd_if_forced(fd) : NULL;
    if (record) {
        set_user_mode(record, *(const int *)arg != 0);
        return 0;
    }
    return weft__real()->ioctl(fd, request, arg);
}

/* --- close ------------------------------------------------------------------------------------ */

/* Waiters for the descriptor, in any fiber, get EBADF. */
WEFT__HOOK int close(int fd)
{
    struct weft__hook_fd *record = weft__hook_fd_if_any(fd);
    if (!weft__hook_is_own_process() ||
        !atomic_load_explicit(&weft__hook_attached, memory_order_relaxed)) {
        return weft__real()->close(fd);
    }
    if (record) {
        atomic_store_explicit(&record->flags, 0, memory_order_relaxed);
    }
    int before = errno;
    int err = weft_close(fd);
    if (err) {
        return weft__hook_fail(err);
    }
    errno = before;
    return 0;
}
