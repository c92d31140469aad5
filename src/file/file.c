/* File and path calls: each is one operation of fdio/file_op.h. */
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <weft/file.h>

#include "fdio/file_op.h"
#include "io/fd.h"

static const struct weft__wait_kind open_kind = {.name = "open"};
static const struct weft__wait_kind stat_kind = {.name = "stat"};
static const struct weft__wait_kind path_kind = {.name = "path"};
static const struct weft__wait_kind pread_kind = {.name = "pread", .descriptor = true};
static const struct weft__wait_kind pwrite_kind = {.name = "pwrite", .descriptor = true};
static const struct weft__wait_kind sync_kind = {.name = "fsync", .descriptor = true};

/* Run an operation on an open descriptor, or on a path relative to one. */
static int64_t run(struct weft__call *call, int64_t deadline, const struct weft__wait_kind *kind)
{
    int err = 0;
    struct weft__fd *record = NULL;
    if (call->op.fd != AT_FDCWD) {
        record = weft__fd_use(call->op.fd, &err);
        if (!record) {
            return err;
        }
    }
    return weft__file_op_run(record, call, deadline, kind);
}

static void path_init(struct weft__call *call, enum weft__op_code code, int dir, const char *path)
{
    /* The directory does not matter if the path is absolute. */
    weft__op_init(&call->op, path[0] == '/' ? AT_FDCWD : dir, code, WEFT__SIDE_IN);
    call->op.path = path;
    call->op.to_fd = AT_FDCWD;
    call->op.mask = 0;
}

/* --- open ------------------------------------------------------------------------------ */

/* A regular file needs no O_NONBLOCK, and the flag might disturb another program that inherits the
 * open file. */
static int register_opened(int fd, bool nonblocking)
{
    unsigned flags;
    int err = weft__fd_inspect(fd, &flags);
    if (!err && (flags & WEFT__FD_FILE) && !nonblocking) {
        int mode = fcntl(fd, F_GETFL);
        err = mode < 0 || fcntl(fd, F_SETFL, mode & ~O_NONBLOCK) != 0 ? -errno : 0;
    }
    err = err ? err : weft__fd_open(fd, flags);
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

int weft_open_at(int dir, const char *path, int flags, mode_t mode, uint64_t resolve,
                 int64_t deadline)
{
    struct weft__call call;
    bool path_only = (flags & O_PATH) != 0;
    bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC | (path_only ? 0 : O_NONBLOCK),
                           .mode = makes ? mode & 07777 : 0,
                           .resolve = resolve};
    path_init(&call, WEFT__OP_OPEN, dir, path);
    if (resolve) {
        call.op.fd = dir; /* an absolute path may be refused */
    }
    call.op.how = &how;
    int64_t fd = run(&call, deadline, &open_kind);
    if (fd == -EAGAIN && !(flags & O_NONBLOCK)) {
        /* A file under a lease: wait until its holder gives it up. */
        how.flags &= ~(uint64_t)O_NONBLOCK;
        fd = run(&call, deadline, &open_kind);
    }
    return fd < 0 ? (int)fd : register_opened((int)fd, path_only || (flags & O_NONBLOCK));
}

/* --- read and write ---------------------------------------------------------------------- */

static ssize_t transfer(int fd, const struct iovec *iov, int count, int64_t offset,
                        enum weft__side side, int64_t deadline)
{
    struct weft__call call;
    if (count < 0 || count > IOV_MAX || offset < 0 || fd < 0) {
        return fd < 0 ? -EBADF : -EINVAL;
    }
    weft__op_init(&call.op, fd, side == WEFT__SIDE_IN ? WEFT__OP_READ : WEFT__OP_WRITE, side);
    call.op.iov = iov;
    call.op.iov_count = count;
    call.op.offset = offset;
    return run(&call, deadline, side == WEFT__SIDE_IN ? &pread_kind : &pwrite_kind);
}

ssize_t weft_preadv(int fd, const struct iovec *iov, int count, int64_t offset, int64_t deadline)
{
    return transfer(fd, iov, count, offset, WEFT__SIDE_IN, deadline);
}

ssize_t weft_pwritev(int fd, const struct iovec *iov, int count, int64_t offset, int64_t deadline)
{
    return transfer(fd, iov, count, offset, WEFT__SIDE_OUT, deadline);
}

ssize_t weft_pread(int fd, void *buf, size_t n, int64_t offset, int64_t deadline)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    return weft_preadv(fd, &iov, 1, offset, deadline);
}

ssize_t weft_pwrite(int fd, const void *buf, size_t n, int64_t offset, int64_t deadline)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    return weft_pwritev(fd, &iov, 1, offset, deadline);
}

/* --- open descriptors ---------------------------------------------------------------------- */

static int sync_file(int fd, int data_only, int64_t deadline)
{
    struct weft__call call;
    weft__op_init(&call.op, fd, WEFT__OP_SYNC, WEFT__SIDE_OUT);
    call.op.flags = data_only;
    return (int)run(&call, deadline, &sync_kind);
}

int weft_fsync(int fd, bool data_only, int64_t deadline)
{
    return sync_file(fd, data_only, deadline);
}

int weft_ftruncate(int fd, int64_t length, int64_t deadline)
{
    struct weft__call call;
    weft__op_init(&call.op, fd, WEFT__OP_TRUNCATE, WEFT__SIDE_OUT);
    call.op.offset = length;
    return (int)run(&call, deadline, &sync_kind);
}

/* --- paths ---------------------------------------------------------------------------------- */

int weft_stat_at(int dir, struct statx *out, const char *path, int flags, unsigned mask,
                 int64_t deadline)
{
    struct weft__call call;
    path_init(&call, WEFT__OP_STAT, dir, path);
    call.op.statx = out;
    call.op.mask = mask;
    call.op.flags = flags;
    if (!path[0] && (flags & AT_EMPTY_PATH) && (flags & AT_STATX_DONT_SYNC)) {
        return (int)weft__op_perform(&call.op);
    }
    return (int)run(&call, deadline, &stat_kind);
}

int weft_fstat(int fd, struct statx *out, int64_t deadline)
{
    return fd < 0 ? -EBADF : weft_stat_at(fd, out, "", AT_EMPTY_PATH, STATX_BASIC_STATS, deadline);
}

int weft_rename_at(int dir, const char *from, int to_dir, const char *to, unsigned flags,
                   int64_t deadline)
{
    struct weft__call call;
    path_init(&call, WEFT__OP_RENAME, dir, from);
    call.op.to = to;
    call.op.to_fd = to_dir;
    call.op.flags = (int)flags;
    return (int)run(&call, deadline, &path_kind);
}

int weft_unlink_at(int dir, const char *path, int flags, int64_t deadline)
{
    struct weft__call call;
    path_init(&call, WEFT__OP_UNLINK, dir, path);
    call.op.flags = flags;
    return (int)run(&call, deadline, &path_kind);
}

int weft_mkdir_at(int dir, const char *path, mode_t mode, int64_t deadline)
{
    struct weft__call call;
    path_init(&call, WEFT__OP_MKDIR, dir, path);
    call.op.mask = mode;
    return (int)run(&call, deadline, &path_kind);
}
