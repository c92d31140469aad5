/* Creating, duplicating and closing descriptors: the recorded state of their numbers follows. fcntl
 * and ioctl show the user's setting where the hooks made a socket non-blocking (hook/record.h). All
 * of this also applies outside of fibers. */
#include <errno.h>
#include <stdarg.h>

#include <weft/io.h>

#include "hook/plain.h"
#include "hook/record.h"

static int fresh(int fd)
{
    if (fd >= 0) {
        int before = errno;
        weft__hook_forget(fd);
        errno = before;
    }
    return fd;
}

static int fresh_pair(int err, const int ends[2])
{
    if (err == 0) {
        fresh(ends[0]);
        fresh(ends[1]);
    }
    return err;
}

WEFT__HOOK int socket(int domain, int type, int protocol)
{
    return fresh(weft__plain()->socket(domain, type, protocol));
}

WEFT__HOOK int socketpair(int domain, int type, int protocol, int ends[2])
{
    return fresh_pair(weft__plain()->socketpair(domain, type, protocol, ends), ends);
}

WEFT__HOOK int pipe2(int ends[2], int flags)
{
    return fresh_pair(weft__plain()->pipe2(ends, flags), ends);
}

WEFT__HOOK int pipe(int ends[2])
{
    return pipe2(ends, 0);
}

WEFT__HOOK int epoll_create1(int flags)
{
    return fresh(weft__plain()->epoll_create1(flags));
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

static int copied(int from, int to)
{
    if (to >= 0) {
        int before = errno;
        weft__hook_copy(from, to);
        errno = before;
    }
    return to;
}

/* dup2 closes `to`, if `from` is open. Waiters for `to` are notified before that. */
static bool replaces(int from, int to)
{
    int before = errno;
    bool does = from != to && weft__plain()->fcntl(from, F_GETFD) >= 0;
    if (does) {
        weft__hook_forget(to);
    }
    errno = before;
    return does;
}

WEFT__HOOK int dup(int fd)
{
    return copied(fd, weft__plain()->dup(fd));
}

WEFT__HOOK int dup2(int from, int to)
{
    bool does = replaces(from, to);
    int fd = weft__plain()->dup2(from, to);
    return does ? copied(from, fd) : fd;
}

WEFT__HOOK int dup3(int from, int to, int flags)
{
    bool does = replaces(from, to);
    int fd = weft__plain()->dup3(from, to, flags);
    return does ? copied(from, fd) : fd;
}

/* --- blocking mode ---------------------------------------------------------------------------- */

static void wish(struct weft__hook_record *record, bool nonblocking)
{
    if (nonblocking) {
        atomic_fetch_or_explicit(&record->flags, WEFT__HOOK_USER, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&record->flags, ~(uint32_t)WEFT__HOOK_USER, memory_order_relaxed);
    }
}

static int control(int fd, int command, void *arg)
{
    struct weft__hook_record *record;
    int result;
    switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        return copied(fd, weft__plain()->fcntl(fd, command, arg));
    case F_GETFL:
        record = weft__hook_unblocked(fd);
        result = weft__plain()->fcntl(fd, command);
        return result >= 0 && record && !weft__hook_nonblocking(fd) ? result & ~O_NONBLOCK : result;
    case F_SETFL:
        record = weft__hook_unblocked(fd);
        if (record) {
            int flags = (int)(intptr_t)arg;
            wish(record, (flags & O_NONBLOCK) != 0);
            return weft__plain()->fcntl(fd, command, flags | O_NONBLOCK);
        }
        return weft__plain()->fcntl(fd, command, arg);
    default:
        return weft__plain()->fcntl(fd, command, arg);
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
    struct weft__hook_record *record = request == FIONBIO && arg ? weft__hook_unblocked(fd) : NULL;
    if (record) {
        wish(record, *(const int *)arg != 0);
        return 0;
    }
    return weft__plain()->ioctl(fd, request, arg);
}

/* --- close ------------------------------------------------------------------------------------ */

/* Waiters for the descriptor, in any fiber, get EBADF. */
WEFT__HOOK int close(int fd)
{
    struct weft__hook_record *record = weft__hook_record_if_any(fd);
    if (!weft__hook_at_home() ||
        !atomic_load_explicit(&weft__hook_attached, memory_order_relaxed)) {
        return weft__plain()->close(fd);
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
