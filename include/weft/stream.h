/* Buffered reading and writing over buffer chains (weft/buf.h): lines, frames, and broadcast of one
 * frame to many connections.
 *
 *   weft_reader   buffers received bytes that were not consumed yet. Used by one fiber at a time.
 *   weft_writer   buffers appended bytes and writes small pieces together. Used by one fiber at a
 *                 time.
 *   weft_outbox   a queue of outgoing buffers: any fiber or thread posts without waiting, one fiber
 *                 writes. A frame posted to ten thousand outboxes is in memory once.
 *
 * All three borrow the descriptor: its owner closes it after deinit. Alternatively the caller
 * supplies the read or write function, for streams that are not descriptors. Errors are those of
 * weft_read and weft_write (weft/io.h). An error loses nothing: bytes that were read stay in the
 * reader, bytes that were not written stay in the writer, and the call may be repeated.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft/buf.h>
#include <weft/event.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

/* Reads or writes like weft_readv and weft_writev, in place of the descriptor. */
typedef ssize_t (*weft_stream_fn)(void *arg, const struct iovec *iov, int count, int64_t deadline);

/* --- reader ----------------------------------------------------------------------------- */

struct weft_reader_opts {
    size_t limit; /* most bytes that are buffered to find a line or to peek; default 64 KiB */
    size_t chunk; /* most bytes that one read requests; default 8 KiB */
    bool free_when_idle;  /* hold no buffer during a wait; costs one or two extra system calls */
    weft_stream_fn readv; /* used in place of the descriptor, unless NULL */
    void *arg;
};

typedef struct weft_reader {
    /* private */
    weft_bufs weft_buffered;
    struct weft_reader_opts weft_opts;
    size_t weft_returned; /* returned to the caller by the last call; the next call drops these
                          bytes */
    int weft_fd;
    bool weft_ended;
} weft_reader;

/* Initialise a reader. It allocates no memory yet. A limit or a chunk of more than 1 GiB is a bug
 * of the program.
 *
 * fd: borrowed until deinit. opts: NULL for defaults; borrowed for the call.
 * Context: any thread; does not wait. */
WEFT_API void weft_reader_init(weft_reader *reader, int fd, const struct weft_reader_opts *opts);
/* Drop the bytes that were not consumed, which invalidates every pointer returned by the calls
 * below.
 *
 * Context: the reader's user; does not wait. */
WEFT_API void weft_reader_deinit(weft_reader *reader);

/* All calls below may also return -ENOMEM and the errors of a read.
 *
 * Lifetimes: peek, read_until and read_line return pointers into the reader's buffers. Such a
 * pointer is valid until the next peek, read, read_full, read_bufs, read_until, read_line or deinit
 * of this reader, whether that call succeeds or fails (also with -ETIMEDOUT): each of them may free
 * or move the bytes. Only buffered keeps all pointers valid, and consume keeps those to bytes that
 * it does not drop. Copy bytes that are needed for longer, or use read_bufs, which returns buffers
 * that the caller owns. */

/* Buffer at least n contiguous bytes, without consuming them. Invalidates earlier pointers; *out is
 * valid until the next call other than buffered, and after consume as described there.
 *
 * Returns the number of contiguous bytes at *out: n or more; fewer than n (or 0) if the stream has
 * ended; -EMSGSIZE if n is more than the limit.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API ssize_t weft_reader_peek(weft_reader *reader, size_t n, const unsigned char **out,
                                  int64_t deadline);
/* Drop n bytes that peek has returned. More bytes than are buffered is a bug of the program.
 * Invalidates pointers to these bytes and those returned by read_until and read_line; the following
 * bytes that peek has returned stay in place.
 *
 * Context: the reader's user; does not wait. */
WEFT_API void weft_reader_consume(weft_reader *reader, size_t n);
/* Get the size of the buffered data. Keeps all pointers valid.
 *
 * Returns the number of bytes that can be read without waiting.
 * Context: the reader's user; does not wait. */
WEFT_API size_t weft_reader_buffered(const weft_reader *reader);

/* Read up to n bytes, at least one. A large read bypasses the buffer. Invalidates earlier pointers.
 *
 * Returns the number of bytes; 0 at the end of the stream.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API ssize_t weft_reader_read(weft_reader *reader, void *buf, size_t n, int64_t deadline);
/* Read exactly n bytes. *done, unless NULL, gets the number of bytes stored in `buf`, also on an
 * error. Invalidates earlier pointers.
 *
 * Returns 0; -ENODATA if the stream ends before n bytes.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API int weft_reader_read_full(weft_reader *reader, void *buf, size_t n, size_t *done,
                                   int64_t deadline);
/* Read exactly n bytes as buffers and append them to `out`, sharing the memory without copying.
 * Invalidates earlier pointers; the caller owns the buffers in `out`, which outlive the reader.
 *
 * Returns 0; or an error, with nothing consumed: -ENODATA if the stream ends before n bytes,
 * -EMSGSIZE if n is more than the limit.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API int weft_reader_read_bufs(weft_reader *reader, size_t n, weft_bufs *out, int64_t deadline);

/* Read up to a delimiter of 1 to 16 bytes, which is consumed but not part of the result. *out is
 * not zero-terminated. Invalidates earlier pointers; *out is valid until the next call other than
 * buffered.
 *
 * Returns the length, which may be 0; -EMSGSIZE if the delimiter does not end within the limit,
 * with nothing consumed; -ENODATA if the stream ends without a delimiter: the remaining bytes can
 * be peeked at.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API ssize_t weft_reader_read_until(weft_reader *reader, const void *delimiter, size_t len,
                                        const unsigned char **out, int64_t deadline);
/* Read a line, without its "\n" or "\r\n". Bytes after the last line feed form a last line.
 * Invalidates earlier pointers, including that of the previous line; *out is valid until the next
 * call other than buffered.
 *
 * Returns the length, which may be 0; -ENODATA at the end of the stream; -EMSGSIZE if the line
 * exceeds the limit.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API ssize_t weft_reader_read_line(weft_reader *reader, const char **out, int64_t deadline);

/* --- writer ------------------------------------------------------------------------------ */

struct weft_writer_opts {
    size_t high_water;     /* number of buffered bytes from which an append first writes; default
                              64 KiB */
    weft_stream_fn writev; /* used in place of the descriptor, unless NULL */
    void *arg;
};

typedef struct weft_writer {
    /* private */
    weft_bufs weft_buffered;
    struct weft_writer_opts weft_opts;
    int weft_fd;
} weft_writer;

/* Initialise a writer. It allocates no memory yet.
 *
 * fd: borrowed until deinit. opts: NULL for defaults; borrowed for the call.
 * Context: any thread; does not wait. */
WEFT_API void weft_writer_init(weft_writer *writer, int fd, const struct weft_writer_opts *opts);
/* Drop the bytes that were not written: flush first.
 *
 * Context: the writer's user; does not wait. */
WEFT_API void weft_writer_deinit(weft_writer *writer);

/* Append a copy of n bytes. If high_water bytes are buffered already, the call first writes until
 * fewer are left; only then does it wait.
 *
 * Returns 0; or an error, with nothing appended: -ENOMEM, or that of a write. With a deadline in
 * the past: -ETIMEDOUT if the peer is that far behind.
 * Context: the writer's user; may wait; cancellation point. */
WEFT_API int weft_writer_append(weft_writer *writer, const void *bytes, size_t n, int64_t deadline);
/* Append formatted text, as printf does.
 *
 * Returns as weft_writer_append; -EILSEQ if the text cannot be formatted.
 * Context: the writer's user; may wait; cancellation point. */
WEFT_API int weft_writer_printf(weft_writer *writer, int64_t deadline, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Append a buffer without copying. Takes the buffer; on an error the caller still owns it. Use
 * weft_buf_share to write the same buffer elsewhere too.
 *
 * Returns as weft_writer_append.
 * Context: the writer's user; may wait; cancellation point. */
WEFT_API int weft_writer_append_buf(weft_writer *writer, weft_buf *buf, int64_t deadline);
/* Append a chain of buffers without copying. Takes all of the chain; on an error the caller still
 * owns it.
 *
 * Returns as weft_writer_append.
 * Context: the writer's user; may wait; cancellation point. */
WEFT_API int weft_writer_append_bufs(weft_writer *writer, weft_bufs *bufs, int64_t deadline);
/* Write everything, with as few system calls as possible.
 *
 * Returns 0, or the error of a write; the rest stays buffered.
 * Context: the writer's user; waits; cancellation point. */
WEFT_API int weft_writer_flush(weft_writer *writer, int64_t deadline);
/* Get the size of the unwritten data.
 *
 * Returns the number of bytes that were appended and are not written yet.
 * Context: the writer's user; does not wait. */
WEFT_API size_t weft_writer_pending(const weft_writer *writer);

/* --- outbox -------------------------------------------------------------------------------- */

struct weft_outbox_opts {
    size_t high_water;     /* number of unwritten bytes from which posts are refused; default 1
                              MiB */
    weft_stream_fn writev; /* used in place of the descriptor, unless NULL */
    void *arg;
    /* Stall timeout: a peer that acknowledges nothing for this long, while there is something to
     * write, has failed. Bytes acknowledged by the peer's kernel count as progress, so a slow
     * reader does not fail; because kernels acknowledge in large steps, 30 s or more is a good
     * value for remote peers. Default 0: no limit. */
    int64_t stall_ns;
};

typedef struct weft_outbox {
    /* private */
    weft_event weft_nonempty;
    weft_bufs weft_buffered;
    struct weft_outbox_opts weft_opts;
    size_t weft_pending;
    struct weft__outbox_lock {
        uint32_t weft_word;
    } weft_lock;
    int weft_fd;
    bool weft_closed;
} weft_outbox;

/* Initialise an outbox.
 *
 * fd: borrowed until deinit. opts: NULL for defaults; borrowed for the call.
 * Context: any thread; does not wait. */
WEFT_API void weft_outbox_init(weft_outbox *outbox, int fd, const struct weft_outbox_opts *opts);
/* Drop the buffers that were not written. No other call on the outbox may be running.
 *
 * Context: the outbox's owner; does not wait. */
WEFT_API void weft_outbox_deinit(weft_outbox *outbox);

/* Post a buffer. On success the outbox takes it; on an error the caller still owns it.
 *
 * Returns 0; -EAGAIN if high_water is reached: the peer does not keep up; -EPIPE if the outbox is
 * closed or a write has failed.
 * Context: any thread; does not wait. */
WEFT_API int weft_outbox_post(weft_outbox *outbox, weft_buf *buf);
/* Post a frame to n outboxes. Borrows the frame and posts a shared reference to each. refused,
 * unless NULL: refused[i] is set to true if outbox i refused the frame, else to false.
 *
 * Returns the number of outboxes that took the frame.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_outbox_post_all(weft_outbox *const *outboxes, size_t n, const weft_buf *frame,
                                     bool *refused);

/* Write posted buffers, many at a time, until the outbox is closed and empty. One fiber per
 * connection calls this.
 *
 * Returns 0 when the outbox is closed and empty; the error of a write, after which posts are
 * refused; -ETIME if the peer acknowledged nothing for stall_ns, which counts as such an error;
 * -ETIMEDOUT at the deadline, which covers the whole call, -ECANCELED or -EINTR: the call may then
 * be repeated.
 * Context: a fiber or a plain thread, one at a time; waits; cancellation point. */
WEFT_API int weft_outbox_run(weft_outbox *outbox, int64_t deadline);
/* Close the outbox: later posts are refused; buffers posted before are still written.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_outbox_close(weft_outbox *outbox);
/* Get the size of the unwritten data.
 *
 * Returns the number of bytes that were posted and are not written yet.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_outbox_pending(weft_outbox *outbox);

WEFT_END_DECLS
#endif
