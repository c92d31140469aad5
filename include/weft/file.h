/* Files and paths: open, read, write, sync, stat and what else asks a disk, without stopping the
 * worker.
 *
 * All calls here, and weft_read, weft_write and their kin on a file (weft/io.h), are *late*: an
 * operation that has begun is waited for, and its result comes back however late that is. So
 *   -ETIMEDOUT, -ECANCELED, -EINTR
 *              it had not begun, has done nothing, and never will. A cancel or an interrupt that
 *              came too late is kept for the next wait. A deadline in the past begins nothing, but
 *              reads what is cached;
 *   -EBADFD    the same: another fiber or thread has closed the descriptor. weft_close waits for
 *              what has begun;
 *   -EAGAIN    there is no thread for it and none could be made.
 * Else the errno of the system call. A driver that has a ring does them there; on the others, and
 * in compute pools, they are done by threads of weft_blocking_default(). What the system has in
 * memory is read and opened at once either way.
 *
 * Paths are borrowed. `dir` is a directory's descriptor or AT_FDCWD; a path that begins with '/'
 * does not use it.
 *
 * A plain thread may call them too, and blocks, also past its deadline.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <fcntl.h>
#include <sys/stat.h>

#include <weft/io.h>

WEFT_BEGIN_DECLS

struct statx;

/* A descriptor, closed by exec; flags as of open(2), mode for what is made. A pipe with a name, a
 * terminal or a device is opened without waiting for its other end (-ENXIO: to write, and nobody
 * reads). Close it with weft_close. */
WEFT_API int weft_open(const char *path, int flags, mode_t mode, int64_t deadline);
/* The same below a directory; `resolve` (RESOLVE_BENEATH ... of <linux/openat2.h>) says where the
 * path may not lead: -EXDEV, -ELOOP. -ENOSYS: it is not 0, and the kernel has no such rules. */
WEFT_API int weft_open_at(int dir, const char *path, int flags, mode_t mode, uint64_t resolve,
                          int64_t deadline);

/* At an offset; the file's position neither matters nor moves. Up to n bytes: less is the end of
 * the file, or an error that the next call will tell. */
WEFT_API ssize_t weft_pread(int fd, void *buf, size_t n, int64_t offset, int64_t deadline);
WEFT_API ssize_t weft_preadv(int fd, const struct iovec *iov, int count, int64_t offset,
                             int64_t deadline);
/* Up to n bytes: less means that the disk is full, say. */
WEFT_API ssize_t weft_pwrite(int fd, const void *buf, size_t n, int64_t offset, int64_t deadline);
WEFT_API ssize_t weft_pwritev(int fd, const struct iovec *iov, int count, int64_t offset,
                              int64_t deadline);

/* On the disk when it returns; fdatasync: what is needed to read the data again. */
WEFT_API int weft_fsync(int fd, int64_t deadline);
WEFT_API int weft_fdatasync(int fd, int64_t deadline);
WEFT_API int weft_ftruncate(int fd, int64_t length, int64_t deadline);

/* As statx(2) with STATX_BASIC_STATS. */
WEFT_API int weft_stat(const char *path, struct statx *out, int64_t deadline);
/* Of an open descriptor. */
WEFT_API int weft_fstat(int fd, struct statx *out, int64_t deadline);
/* Any form of it. With an empty path, AT_EMPTY_PATH and AT_STATX_DONT_SYNC it never waits: for a
 * file of this machine that is no less true. */
WEFT_API int weft_stat_at(int dir, const char *path, int flags, unsigned mask, struct statx *out,
                          int64_t deadline);

WEFT_API int weft_rename(const char *from, const char *to, int64_t deadline);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE; 0. `to_dir` must stay open. */
WEFT_API int weft_rename_at(int dir, const char *from, int to_dir, const char *to, unsigned flags,
                            int64_t deadline);
WEFT_API int weft_unlink(const char *path, int64_t deadline);
/* flags: AT_REMOVEDIR for a directory; 0. */
WEFT_API int weft_unlink_at(int dir, const char *path, int flags, int64_t deadline);
WEFT_API int weft_mkdir(const char *path, mode_t mode, int64_t deadline);
WEFT_API int weft_mkdir_at(int dir, const char *path, mode_t mode, int64_t deadline);

WEFT_END_DECLS
#endif
