/* Files, and watches on paths. */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <weft/io.h>

WEFT_BEGIN_DECLS

/* --- files ---------------------------------------------------------------------------------- */

/* File and path operations (open, read, write, sync, stat ...) that do not block the worker.
 *
 * Every call here, and weft_read, weft_write and the related calls on a file (weft/io.h), is
 * *uninterruptible*: once the operation has begun, the call waits for it and returns its result,
 * even after the deadline. Therefore
 *   -ETIMEDOUT, -ECANCELED, -EINTR
 *              the operation had not begun, has done nothing, and never will. A cancel or an
 *              interrupt that arrives after the operation has begun stays pending for the next
 *              wait. With a deadline in the past nothing is begun, but cached data is read;
 *   -EBADFD    likewise nothing was done: another fiber or thread has closed the descriptor.
 *              weft_close waits for operations that have begun;
 *   -EAGAIN    no thread is free for the operation and none could be created.
 * Other errors are those of the system call. A driver with io_uring runs the operations on its
 * ring; with the other drivers, and in compute pools, threads of weft_blocking_default() run them.
 * In both cases data and path entries that the kernel has cached are read and opened without that
 * detour.
 *
 * Paths are borrowed. `dir` is the descriptor of a directory or AT_FDCWD; it is ignored for a path
 * that begins with '/'.
 *
 * Plain threads may make these calls too; they block, also past the deadline.
 */

struct statx; /* <sys/stat.h>, with _GNU_SOURCE */

/* Open a file. flags: as for open(2), O_CLOEXEC is always added; mode: for a file that is created.
 * A FIFO, a terminal or a device is opened without waiting for its other end (-ENXIO: opened for
 * writing, and there is no reader). `resolve` (RESOLVE_BENEATH ... of <linux/openat2.h>) restricts
 * how the path is resolved; 0: no restriction.
 *
 * In this and the following calls `dir` is the directory that a relative path begins at; AT_FDCWD:
 * the working directory.
 * Returns an owned descriptor, to be closed with weft_close; -EXDEV, -ELOOP if the path violates
 * `resolve`; -ENOSYS if `resolve` is not 0 and the kernel has no openat2; or the errno of open(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_open_at(int dir, const char *path, int flags, mode_t mode, uint64_t resolve,
                          int64_t deadline);

/* Read up to n bytes at an offset. The file position is neither used nor changed.
 *
 * Returns the number of bytes read; fewer than n: the end of the file, or an error that the next
 * call will return. -EINVAL for a negative offset, or a count that is negative or above 1024.
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API ssize_t weft_pread(int fd, void *buf, size_t n, int64_t offset, int64_t deadline);
WEFT_API ssize_t weft_preadv(int fd, const struct iovec *iov, int count, int64_t offset,
                             int64_t deadline);
/* Write up to n bytes at an offset. The file position is neither used nor changed.
 *
 * Returns the number of bytes written; fewer than n: an error such as a full disk, which the next
 * call will return. -EINVAL as for weft_pread.
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API ssize_t weft_pwrite(int fd, const void *buf, size_t n, int64_t offset, int64_t deadline);
WEFT_API ssize_t weft_pwritev(int fd, const struct iovec *iov, int count, int64_t offset,
                              int64_t deadline);

/* Flush a file to the disk. data_only: only the data and what is needed to read it back, as
 * fdatasync(2).
 *
 * Returns 0 or the errno of the system call.
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_fsync(int fd, bool data_only, int64_t deadline);
/* Set the length of a file.
 *
 * Returns 0 or the errno of ftruncate(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_ftruncate(int fd, int64_t length, int64_t deadline);

/* Get the status of an open descriptor, as statx(2) does with STATX_BASIC_STATS.
 *
 * Returns 0 and the status in *out; -EBADF; or the errno of statx(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_fstat(int fd, struct statx *out, int64_t deadline);
/* Get the status of a path, with any flags and mask of statx(2). With an empty path, AT_EMPTY_PATH
 * and AT_STATX_DONT_SYNC the call never waits; for a local file the result is just as current.
 *
 * Returns 0 and the status in *out; or the errno of statx(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_stat_at(int dir, struct statx *out, const char *path, int flags, unsigned mask,
                          int64_t deadline);

/* Rename a file; a file at `to` is replaced. flags: RENAME_NOREPLACE, RENAME_EXCHANGE or 0.
 * `to_dir` must stay open during the call.
 *
 * Returns 0 or the errno of renameat2(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_rename_at(int dir, const char *from, int to_dir, const char *to, unsigned flags,
                            int64_t deadline);

/* Remove a file. flags: AT_REMOVEDIR for a directory, or 0.
 *
 * Returns 0 or the errno of unlinkat(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_unlink_at(int dir, const char *path, int flags, int64_t deadline);
/* Create a directory.
 *
 * Returns 0 or the errno of mkdirat(2).
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_mkdir_at(int dir, const char *path, mode_t mode, int64_t deadline);

/* --- path watches --------------------------------------------------------------------------- */

/* Watch files and directories for changes (inotify), and wait for the changes like for any other
 * I/O.
 *
 * A pathwatch watches any number of paths. The kernel queues the events in order until
 * weft_pathwatch_next reads them; each event is returned to one caller. Any fiber or thread may use
 * a pathwatch. Subdirectories are not watched: add them separately. Changes made by other machines
 * on a network file system are not seen.
 *
 *     weft_pathwatch_open(&watch);
 *     id = weft_pathwatch_add(watch, "/etc/app", IN_CLOSE_WRITE | IN_MOVED_TO, WEFT_FOREVER);
 *     while ((err = weft_pathwatch_next(watch, &event, WEFT_FOREVER)) == 0)
 *         if (event.id == id) reload(event.name);
 */

typedef struct weft_pathwatch weft_pathwatch;

struct weft_pathwatch_event {
    int id;          /* the watched path, as returned by weft_pathwatch_add */
    uint32_t mask;   /* IN_CREATE, IN_MODIFY ...; IN_IGNORED: the path is no longer watched and
                       its id is free */
    uint32_t cookie; /* the inotify cookie: equal in the IN_MOVED_FROM and IN_MOVED_TO of one
                       rename; else 0 */
    char name[256];  /* the entry's name if the path is a directory; else "" */
};

/* Open a pathwatch that watches no path yet.
 *
 * Returns 0 and an owned pathwatch in *out; -EMFILE if this user has too many; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_pathwatch_open(weft_pathwatch **out);

/* Watch a path. mask: IN_... flags of inotify(7). If the path is watched already, the new mask
 * replaces the old one.
 *
 * Returns the id of the path, >= 0 (the same id for a path that is watched already); -ENOENT,
 * -EACCES; -ENOSPC if this user watches too many paths; -ETIMEDOUT, -ECANCELED, -EINTR, -EAGAIN as
 * in the rest of this file.
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_pathwatch_add(weft_pathwatch *watch, const char *path, uint32_t mask,
                                int64_t deadline);
/* Stop watching a path. Events queued before are still returned, followed by one with IN_IGNORED.
 *
 * Returns 0; -EINVAL if there is no such id.
 * Context: any thread; does not wait. */
WEFT_API int weft_pathwatch_remove(weft_pathwatch *watch, int id);

/* Wait for the next event.
 *
 * Returns 0 and the event in *out; -ETIMEDOUT, -ECANCELED, -EINTR; -EBADFD if the pathwatch was
 * closed during the call; -EOVERFLOW if the kernel dropped events: rescan all paths; the next call
 * continues after the gap.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_pathwatch_next(weft_pathwatch *watch, struct weft_pathwatch_event *out,
                                 int64_t deadline);

/* Close a pathwatch. Calls waiting in weft_pathwatch_next return -EBADFD. NULL is allowed.
 *
 * Context: a fiber or a plain thread; may wait, as weft_close. */
WEFT_API void weft_pathwatch_close(weft_pathwatch *watch);

WEFT_END_DECLS
#endif
