/* Copy from descriptor to descriptor inside the kernel, without passing the bytes through user
 * memory.
 *
 * File data that is not in the page cache is read from the disk on the worker's thread, which
 * blocks the other fibers of that worker: use weft/file.h for files that are rarely read. The
 * errors are those of weft/io.h and the ones named below.
 */
#ifndef WEFT_SENDFILE_H
#define WEFT_SENDFILE_H

#include <weft/io.h>

WEFT_BEGIN_DECLS

/* Send up to n bytes of a file, starting at `offset`, to a socket or pipe. The file position is
 * neither used nor changed. The socket is made non-blocking.
 *
 * Returns the number of bytes sent, from 1 up to 1 MiB per call; 0 if the file ends at `offset`;
 * -EINVAL for a negative offset, or if a descriptor does not support the call, such as a terminal,
 * or the read end of a pipe: use weft_splice.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_sendfile(int fd, int file, int64_t offset, size_t n, int64_t deadline);

/* Send exactly n bytes of a file, however many (also more than 2 GiB), yielding to other fibers in
 * between. *done, unless NULL, gets the number of bytes sent, also on an error.
 *
 * Returns 0; -ENODATA if the file ends first, because it is shorter than expected or was truncated
 * during the call; or an error as weft_sendfile.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_sendfile_all(int fd, int file, int64_t offset, size_t n, size_t *done,
                               int64_t deadline);

/* Move up to n bytes from one descriptor to another, one of which must be a pipe. in_at and out_at
 * are file positions, which the call advances; NULL for pipes and sockets, and to use the file's
 * own position. `more`: more data follows, so TCP may hold back a small segment. Sockets are made
 * non-blocking.
 *
 * Returns the number of bytes moved, at least 1 and as many as both sides allow; 0 at the end of
 * `in`; -EINVAL if neither descriptor is a pipe, or one is a terminal or another device that
 * blocks.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API ssize_t weft_splice(int in, int64_t *in_at, int out, int64_t *out_at, size_t n, bool more,
                             int64_t deadline);

WEFT_END_DECLS
#endif
