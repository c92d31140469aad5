/* From descriptor to descriptor, without the bytes passing through the program.
 *
 * The waits are *cancellable*. Bytes of a file that are not in memory are read from the disk on the
 * worker's thread meanwhile, and other fibers of that worker wait: for files that are seldom read
 * use weft/file.h.
 */
#ifndef WEFT_SENDFILE_H
#define WEFT_SENDFILE_H

#include <weft/io.h>

WEFT_BEGIN_DECLS

/* Sends up to n bytes of a file, from `offset` on, to a socket or pipe; the file's own position is
 * neither used nor changed. At least one byte and at most 1 MiB at a time; 0: the file ends there.
 * The socket is made non-blocking. -EINVAL: a negative offset, or a descriptor that does not work
 * for this, as a terminal, or an end of a pipe to read from: weft_splice. */
WEFT_API ssize_t weft_sendfile(int fd, int file, int64_t offset, size_t n, int64_t deadline);

/* All n bytes, however many (beyond 2 GiB too), and lets others run between. 0; on an error *done,
 * unless NULL, says how many went before. -ENODATA: the file ended first, because it is shorter or
 * somebody has cut it meanwhile. */
WEFT_API int weft_sendfile_all(int fd, int file, int64_t offset, size_t n, size_t *done,
                               int64_t deadline);

/* Moves up to n bytes from one descriptor to another, one of which is a pipe. At least one byte, as
 * far as both sides allow; 0: the end of `in`. in_at and out_at are positions in files, which go
 * on, or NULL: pipes, sockets, and where the file is. `more`: more follows, a small segment may
 * wait for it. Sockets are made non-blocking. -EINVAL: neither is a pipe, or one is a terminal, or
 * another device that blocks. */
WEFT_API ssize_t weft_splice(int in, int64_t *in_at, int out, int64_t *out_at, size_t n, bool more,
                             int64_t deadline);

WEFT_END_DECLS
#endif
