#include "io/statx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static struct statx_timestamp time_of(const struct timespec *time)
{
    return (struct statx_timestamp){.tv_sec = time->tv_sec, .tv_nsec = (uint32_t)time->tv_nsec};
}

static void fill(struct statx *out, const struct stat *st)
{
    memset(out, 0, sizeof *out);
    out->stx_mask = STATX_BASIC_STATS;
    out->stx_blksize = (uint32_t)st->st_blksize;
    out->stx_nlink = (uint32_t)st->st_nlink;
    out->stx_uid = st->st_uid;
    out->stx_gid = st->st_gid;
    out->stx_mode = (uint16_t)st->st_mode;
    out->stx_ino = st->st_ino;
    out->stx_size = (uint64_t)st->st_size;
    out->stx_blocks = (uint64_t)st->st_blocks;
    out->stx_atime = time_of(&st->st_atim);
    out->stx_mtime = time_of(&st->st_mtim);
    out->stx_ctime = time_of(&st->st_ctim);
    out->stx_rdev_major = major(st->st_rdev);
    out->stx_rdev_minor = minor(st->st_rdev);
    out->stx_dev_major = major(st->st_dev);
    out->stx_dev_minor = minor(st->st_dev);
}

int weft__statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
    /* Not the C library's wrapper, which emulates statx on ENOSYS and then rejects
     * AT_STATX_DONT_SYNC. */
    int rc = (int)syscall(SYS_statx, dir, path, flags, mask, out);
    if (__builtin_expect(rc == 0 || (errno != EPERM && errno != ENOSYS), 1)) {
        return rc;
    }
    struct stat st;
    int kept = flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
    rc = path[0] ? fstatat(dir, path, &st, kept) : fstat(dir, &st);
    if (rc == 0) {
        fill(out, &st);
    }
    return rc;
}
