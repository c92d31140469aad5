/* Streams: buffered reader and writer, outbox, and framings: lines, length prefixes, RESP. */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/base.h>
#include <weft/buf.h>
#include <weft/io.h>
#include <weft/sync.h>

WEFT_BEGIN_DECLS

/* --- reader, writer, outbox ----------------------------------------------------------------- */

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
WEFT_API ssize_t weft_reader_peek(weft_reader *reader, const unsigned char **out, size_t n,
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
WEFT_API int weft_reader_read_bufs(weft_reader *reader, weft_bufs *out, size_t n, int64_t deadline);

/* Read up to a delimiter of 1 to 16 bytes, which is consumed but not part of the result. *out is
 * not zero-terminated. Invalidates earlier pointers; *out is valid until the next call other than
 * buffered.
 *
 * Returns the length, which may be 0; -EMSGSIZE if the delimiter does not end within the limit,
 * with nothing consumed; -ENODATA if the stream ends without a delimiter: the remaining bytes can
 * be peeked at.
 * Context: the reader's user; waits; cancellation point. */
WEFT_API ssize_t weft_reader_read_until(weft_reader *reader, const unsigned char **out,
                                        const void *delimiter, size_t len, int64_t deadline);
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

/* --- framings ------------------------------------------------------------------------------- */

/* Message framing in byte streams: lines, length-prefixed frames, and the Redis protocol (RESP).
 *
 * All three decoders are used alike. The caller keeps the received bytes in one buffer and calls
 * next with the bytes that are not consumed yet, starting at the first byte of the message (RESP:
 * of the item). next returns
 *    > 0         number of bytes of the message. *out describes the message and points into the
 *                buffer; the next message begins after these bytes.
 *      0         more bytes are needed: call again with the same first byte and more bytes after
 *                it. The buffer may have moved. Bytes that were inspected are not inspected again.
 *    -EMSGSIZE   the message is larger than the limit
 *    -EBADMSG    the bytes do not follow the protocol
 * Errors are permanent. They are reported as early as they can be known, so that the bytes of a
 * message that is too large need not be stored. `need` is the least number of bytes that the buffer
 * must hold before another call can make progress. The messages do not depend on how the stream is
 * split into pieces. Nothing allocates.
 *
 * Context of all calls: any thread, one call at a time per decoder; none waits.
 */

struct weft_framed {
    const unsigned char *bytes; /* a line without its end; the body of a length-prefixed frame */
    size_t len;
};

/* --- lines ---------------------------------------------------------------------- */

enum weft_line_end {
    WEFT_LINE_ANY, /* LF; a CR before it is not part of the line */
    WEFT_LINE_LF,  /* LF; CR is an ordinary byte */
    WEFT_LINE_CRLF /* CR LF; either of them alone is -EBADMSG */
};

struct weft_line_opts {
    enum weft_line_end end;
    size_t max; /* bytes of a line without its end; default 8 KiB */
};

typedef struct weft_line {
    size_t need;
    /* private */
    size_t weft_max, weft_seen;
    int weft_state;
    enum weft_line_end weft_end;
} weft_line;

/* Initialise a line decoder. opts: NULL for defaults; copied. A max of SIZE_MAX / 2 or more is a
 * caller's bug and stops the program. Context: any thread; does not wait. */
WEFT_API void weft_line_init(weft_line *line, const struct weft_line_opts *opts);
/* Find the next line in data[0 .. len). Returns as described at the top. Context: one call at a
 * time per decoder; does not wait. */
WEFT_API ssize_t weft_line_next(weft_line *line, struct weft_framed *out, const void *data,
                                size_t len);

/* --- length-prefixed frames -------------------------------------------------------- */

struct weft_length_prefix_opts {
    unsigned bytes;     /* size of the length field: 1, 2, 4 or 8; default 4 */
    bool little_endian; /* default: big endian */
    size_t offset;      /* position of the length field in the frame */
    /* Where the body, the counted part, begins; default: after the length field. */
    size_t body_offset;
    /* The length counts the whole frame, and *out is the whole frame; excludes body_offset. */
    bool whole_frame;
    size_t max; /* bytes of a whole frame; default 1 MiB */
};

typedef struct weft_length_prefix {
    size_t need;
    /* private */
    size_t weft_offset, weft_body, weft_max;
    uint8_t weft_bytes, weft_little, weft_state, weft_failed;
} weft_length_prefix;

/* Initialise a decoder for length-prefixed frames. opts: NULL for defaults; copied.
 * Returns 0; -EINVAL for options that do not describe a frame.
 * Context: any thread; does not wait. */
WEFT_API int weft_length_prefix_init(weft_length_prefix *length,
                                     const struct weft_length_prefix_opts *opts);
/* Find the next frame in data[0 .. len). Returns as described at the top. Context: one call at a
 * time per decoder; does not wait. */
WEFT_API ssize_t weft_length_prefix_next(weft_length_prefix *length, struct weft_framed *out,
                                         const void *data, size_t len);
/* Write the length field for a body of body_len bytes at its position in `frame`. The other bytes
 * before the body are the caller's.
 * Returns the number of bytes before the body; -EMSGSIZE if the body is too large for the length
 * field or the limit.
 * Context: any thread; does not wait. */
WEFT_API ssize_t weft_length_prefix_write(const weft_length_prefix *length, void *frame,
                                          size_t body_len);

/* --- RESP -------------------------------------------------------------------------- */

/* The first byte of each type. The last group belongs to RESP3. */
enum weft_resp_type {
    WEFT_RESP_SIMPLE_STRING = '+',
    WEFT_RESP_SIMPLE_ERROR = '-',
    WEFT_RESP_INTEGER = ':',
    WEFT_RESP_BULK_STRING = '$',
    WEFT_RESP_ARRAY = '*',
    WEFT_RESP_INLINE = ' ', /* an inline command: a line without a type, if the options allow it */

    WEFT_RESP_NULL = '_',
    WEFT_RESP_BOOLEAN = '#',
    WEFT_RESP_DOUBLE = ',',
    WEFT_RESP_BIG_NUMBER = '(',
    WEFT_RESP_BULK_ERROR = '!',
    WEFT_RESP_VERBATIM = '=', /* its bytes begin with a format such as "txt:" */
    WEFT_RESP_SET = '~',
    WEFT_RESP_MAP = '%',
    WEFT_RESP_PUSH = '>',
    WEFT_RESP_ATTRIBUTE = '|' /* a map that precedes the value it describes */
};

#define WEFT_RESP_DEPTH 32

struct weft_resp_opts {
    unsigned depth_max;   /* nesting of aggregates; default 8, at most WEFT_RESP_DEPTH */
    uint32_t count_max;   /* elements of one aggregate (keys and values of a map); default 1 Mi */
    size_t line_max;      /* bytes of a line; default 64 KiB */
    size_t bulk_max;      /* bytes of a bulk string; default 16 MiB */
    size_t value_max;     /* bytes of a whole value including nested values; default 64 MiB */
    bool no_resp3;        /* RESP3 types are -EBADMSG */
    bool inline_commands; /* for servers: lines without a type are commands */
};

/* One item of a value: a scalar, or the start of an aggregate whose elements follow. */
struct weft_resp_item {
    enum weft_resp_type type;
    unsigned depth; /* number of enclosing aggregates */
    bool null;      /* $-1, *-1, or RESP3's null */
    bool last;      /* this item completes the value that began at depth 0 */
    /* Integers; booleans 0 or 1; number of elements of an aggregate (two per entry of a map). */
    int64_t number;
    /* Content of strings, errors, bulk strings, doubles, big numbers, inline commands. */
    const unsigned char *bytes;
    size_t len;
};

typedef struct weft_resp {
    size_t need;
    /* private */
    size_t weft_line_max, weft_bulk_max, weft_value_max, weft_seen, weft_bulk, weft_used;
    uint32_t weft_count_max, weft_left[WEFT_RESP_DEPTH];
    uint32_t weft_attributes; /* one bit per depth */
    uint8_t weft_depth, weft_depth_max, weft_state, weft_flags;
    int weft_failed;
} weft_resp;

/* Initialise a RESP decoder. opts: NULL for defaults; copied. A depth_max above WEFT_RESP_DEPTH is
 * a caller's bug and stops the program. Context: any thread; does not wait. */
WEFT_API void weft_resp_init(weft_resp *resp, const struct weft_resp_opts *opts);
/* Find the next item in data[0 .. len). Returns as described at the top. Context: one call at a
 * time per decoder; does not wait. */
WEFT_API ssize_t weft_resp_next(weft_resp *resp, struct weft_resp_item *out, const void *data,
                                size_t len);

WEFT_END_DECLS
#endif
