#include "net/socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/net.h>

#include "base/clock.h"
#include "io/fd.h"
#include "net/addr_in_use.h"
#include "worker/worker.h"

#define RETRY_PAUSE_NS 2000000
#define ALIVE_NS 100000000 /* a process that has the address for this long is not about to end */

int weft__socket_register(int fd, unsigned flags)
{
    int err = weft__fd_open(fd, WEFT__FD_SOCKET | WEFT__FD_NONBLOCK | flags);
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

int weft__socket_open(int family, int type)
{
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : weft__socket_register(fd, weft__fd_socket_flags(family, type));
}

/* --- files of Unix sockets ------------------------------------------------------------------- */

/* NULL: the address has no path. */
static const char *path_of(const struct weft_addr *addr)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&addr->storage;
    bool named = addr->len > offsetof(struct sockaddr_un, sun_path);
    return un->sun_family == AF_UNIX && named && un->sun_path[0] ? un->sun_path : NULL;
}

/* Inode numbers are reused; the change time distinguishes two files. */
static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool is_refused(const struct weft_addr *addr, int type)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 &&
                   connect(fd, (const struct sockaddr *)&addr->storage, addr->len) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return refused;
}

/* A file exists at the path. Returns 0 if it was the socket of a process that is gone, and removes
 * it, unless another process has just done that and owns the path now. */
static int remove_stale(const char *path, const struct weft_addr *addr, int type)
{
    struct stat before, after;
    if (lstat(path, &before) != 0) {
        return -errno;
    }
    if (!S_ISSOCK(before.st_mode)) {
        return -EEXIST;
    }
    bool dead = is_refused(addr, type) && lstat(path, &after) == 0 && is_same(&before, &after);
    return !dead ? -EADDRINUSE : unlink(path) == 0 ? 0 : -errno;
}

/* Not inlined: bind_with_retries sleeps between two calls, and the cached address of errno must not
 * live across that. */
static __attribute__((noinline)) int bind_once(int fd, int type, const struct weft_addr *addr)
{
    const struct sockaddr *name = (const struct sockaddr *)&addr->storage;
    const char *path = path_of(addr);
    int err = bind(fd, name, addr->len) == 0 ? 0 : -errno;
    if (err == -EADDRINUSE && path) {
        err = remove_stale(path, addr, type);
        if (err == 0 || err == -ENOENT) { /* -ENOENT: the file is gone already */
            err = bind(fd, name, addr->len) == 0 ? 0 : -errno;
        }
    }
    return err;
}

/* --- an address that is in use -------------------------------------------------------------- */

/* A callback on a worker, or the step of a frame, cannot wait. */
static bool may_wait(void)
{
    const struct weft__worker *w = weft__worker_self();
    return !w || weft__current(w);
}

static void log_retry(const struct weft_addr *addr, int64_t ns)
{
    char text[WEFT_ADDR_STRLEN];
    weft_addr_format(addr, text, sizeof text);
    fprintf(stderr, "weft: %s was in use; bound after %lld ms\n", text, (long long)(ns / 1000000));
}

/* The kernel tears down an io_uring, with the sockets that its operations use, some time after the
 * process has ended. During the first pauses the owner is not checked again: a process that was
 * just killed may still be listed. */
static int bind_with_retries(int fd, int type, const struct weft_addr *addr, int64_t retry_ns)
{
    int64_t began = weft__clock_ns(), until = weft__clock_add(began, retry_ns), now = began;
    enum weft__addr_owner holder = weft__addr_find_owner(addr, type);
    int err = -EADDRINUSE;
    while (err == -EADDRINUSE && holder != WEFT__ADDR_OWNER_SELF && now < until) {
        if (holder == WEFT__ADDR_OWNER_OTHER && now - began >= ALIVE_NS) {
            holder = weft__addr_find_owner(addr, type);
            if (holder != WEFT__ADDR_OWNER_UNKNOWN) {
                break;
            }
        }
        int ended = weft_sleep(weft_after(RETRY_PAUSE_NS));
        if (ended) {
            return ended;
        }
        err = bind_once(fd, type, addr);
        now = weft__clock_ns();
    }
    if (!err) {
        log_retry(addr, now - began);
    }
    return err;
}

int weft__socket_bind(int fd, int type, const struct weft_addr *addr, int64_t retry_ns)
{
    int err = bind_once(fd, type, addr);
    return err == -EADDRINUSE && retry_ns > 0 && may_wait()
               ? bind_with_retries(fd, type, addr, retry_ns)
               : err;
}

/* --- identity of a Unix socket's file --------------------------------------------------------- */

void weft__socket_file_record(struct weft__socket_file *file, const struct weft_addr *addr)
{
    struct stat st;
    const char *path = path_of(addr);
    bool there = path && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
    *file =
        there ? (struct weft__socket_file){st.st_dev, st.st_ino} : (struct weft__socket_file){0, 0};
}

void weft__socket_file_remove(const struct weft__socket_file *file, const struct weft_addr *addr)
{
    struct stat st;
    if (file->number && lstat(path_of(addr), &st) == 0 && S_ISSOCK(st.st_mode) &&
        st.st_dev == file->device && st.st_ino == file->number) {
        unlink(path_of(addr));
    }
}

/* --- socket pairs, shutdown ------------------------------------------------------------------- */

int weft_socketpair(int type, int out[2])
{
    int ends[2];
    if (type != SOCK_STREAM && type != SOCK_DGRAM && type != SOCK_SEQPACKET) {
        return -EINVAL;
    }
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -errno;
    }
    unsigned flags = weft__fd_socket_flags(AF_UNIX, type);
    int first = weft__socket_register(ends[0], flags);
    if (first < 0) {
        close(ends[1]);
        return first;
    }
    int second = weft__socket_register(ends[1], flags);
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
