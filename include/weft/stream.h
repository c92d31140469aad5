/* Buffered reading and writing over buffers (weft/buf.h): lines, frames, and one frame for many
 * connections.
 *
 *   weft_reader   what has come and was not consumed yet. One fiber at a time.
 *   weft_writer   what was appended and not written yet: small pieces go out together. One fiber at
 *                 a time.
 *   weft_outbox   what others have to say to a connection: any fiber or thread posts buffers and
 *                 never waits, one fiber writes them. A frame that is posted to ten thousand
 *                 outboxes is in memory once.
 *
 * They borrow the descriptor: who opened it closes it, after deinit. Or they read and write by
 * functions of the caller, for what is no descriptor. Errors are those of weft_read and weft_write
 * (weft/io.h), and after one nothing is lost: what was read stays in the reader, what was not
 * written stays in the writer, and the call may be made again.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft/buf.h>
#include <weft/event.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

/* As weft_readv and weft_writev. */
typedef ssize_t (*weft_stream_fn)(void *arg, const struct iovec *iov, int count, int64_t deadline);

/* --- reader ----------------------------------------------------------------------------- */

struct weft_reader_opts {
    size_t limit; /* most that is kept to find a line or to peek; default 64 KiB */
    size_t chunk; /* bytes that one read asks for at most; default 8 KiB */
    bool lean; /* no buffer is held while it waits with nothing left; costs a system call or two */
    weft_stream_fn readv; /* instead of the descriptor, which is then not used */
    void *arg;
};

typedef struct weft_reader {
    /* private */
    weft_bufs weft_have;
    struct weft_reader_opts weft_opts;
    size_t weft_spent; /* given to the caller by the last call, to be dropped by the next */
    int weft_fd;
    bool weft_ended;
} weft_reader;

/* Needs no memory yet. A limit or a chunk of more than 1 GiB is a caller's bug. */
WEFT_API void weft_reader_init(weft_reader *reader, int fd, const struct weft_reader_opts *opts);
/* Drops what was not consumed, and with it every pointer that a call below gave. */
WEFT_API void weft_reader_deinit(weft_reader *reader);

/* All calls below may answer -ENOMEM, and the errors of a read.
 *
 * Lifetimes: peek, until and line give pointers into the reader's buffers. Such a pointer is valid
 * until the next peek, read, read_full, take, until, line or deinit of this reader, whether that
 * succeeds or fails (-ETIMEDOUT too): each of them may free or move the bytes. Only buffered leaves
 * all of them valid, and consume those to bytes that it does not drop. Copy what is needed for
 * longer, or use take, which gives buffers of the caller's own. */

/* At least n bytes in a row, without consuming them: how many lie at *out, n or more, or fewer than
 * n (or 0) because the stream has ended. -EMSGSIZE: n is more than the limit. Ends the validity of
 * earlier pointers; *out is valid until the next call but buffered, and consume as stated there. */
WEFT_API ssize_t weft_reader_peek(weft_reader *reader, size_t n, const unsigned char **out,
                                  int64_t deadline);
/* Drops n bytes that peek has shown. More than there are is a caller's bug. Ends the validity of
 * pointers to these bytes, and of those that until and line gave; the bytes after them that peek
 * has shown stay where they are. */
WEFT_API void weft_reader_consume(weft_reader *reader, size_t n);
/* Bytes that are there without waiting. Leaves all pointers valid. */
WEFT_API size_t weft_reader_buffered(const weft_reader *reader);

/* Up to n bytes, at least one; 0: the end. Large ones do not go through the buffer. Ends the
 * validity of earlier pointers. */
WEFT_API ssize_t weft_reader_read(weft_reader *reader, void *buf, size_t n, int64_t deadline);
/* n bytes. 0; on an error *done, unless NULL, says how many are in `buf`; -ENODATA: the end came
 * before. Ends the validity of earlier pointers. */
WEFT_API int weft_reader_read_full(weft_reader *reader, void *buf, size_t n, size_t *done,
                                   int64_t deadline);
/* n bytes as buffers, behind what is in `out`: shared where they lie, not copied. 0, or an error
 * and nothing was consumed; -ENODATA: the end came before; -EMSGSIZE: n is more than the limit.
 * Ends the validity of earlier pointers; the buffers in `out` are the caller's and outlive the
 * reader. */
WEFT_API int weft_reader_take(weft_reader *reader, size_t n, weft_bufs *out, int64_t deadline);

/* Everything up to the delimiter (1 to 16 bytes), which is consumed and not given. The length,
 * which may be 0. *out is not ended by a zero. -EMSGSIZE: it does not come within the limit, the
 * delimiter counted; nothing is consumed. -ENODATA: the stream has ended, without a delimiter; what
 * is left can be peeked at. Ends the validity of earlier pointers; *out is valid until the next
 * call but buffered. */
WEFT_API ssize_t weft_reader_until(weft_reader *reader, const void *delimiter, size_t len,
                                   const unsigned char **out, int64_t deadline);
/* A line without its "\n" or "\r\n". What lies between the last one and the end is a line too;
 * after that -ENODATA. Ends the validity of earlier pointers, those of the line before too; *out is
 * valid until the next call but buffered. */
WEFT_API ssize_t weft_reader_line(weft_reader *reader, const char **out, int64_t deadline);

/* --- writer ------------------------------------------------------------------------------ */

struct weft_writer_opts {
    size_t high_water;     /* bytes from which an append writes before it adds; default 64 KiB */
    weft_stream_fn writev; /* instead of the descriptor, which is then not used */
    void *arg;
};

typedef struct weft_writer {
    /* private */
    weft_bufs weft_have;
    struct weft_writer_opts weft_opts;
    int weft_fd;
} weft_writer;

/* Needs no memory yet. */
WEFT_API void weft_writer_init(weft_writer *writer, int fd, const struct weft_writer_opts *opts);
/* Drops what was not written: flush before. */
WEFT_API void weft_writer_deinit(weft_writer *writer);

/* Appends. It waits only if the mark is reached before: then it writes until it is not. 0, or an
 * error and nothing was appended: -ENOMEM, or that of a write. A deadline in the past: -ETIMEDOUT
 * if the peer is that far behind. */
WEFT_API int weft_writer_append(weft_writer *writer, const void *bytes, size_t n, int64_t deadline);
/* As printf. A text that cannot be formatted is -EILSEQ. */
WEFT_API int weft_writer_printf(weft_writer *writer, int64_t deadline, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the buffer; on an error it is still the caller's. Not copied; weft_buf_share it to write it
 * elsewhere too. */
WEFT_API int weft_writer_append_buf(weft_writer *writer, weft_buf *buf, int64_t deadline);
/* Takes all of the chain; on an error it is still the caller's. */
WEFT_API int weft_writer_append_bufs(weft_writer *writer, weft_bufs *bufs, int64_t deadline);
/* Writes everything, as few writes as it takes. After an error the rest is still there. */
WEFT_API int weft_writer_flush(weft_writer *writer, int64_t deadline);
/* Bytes that are not written yet. */
WEFT_API size_t weft_writer_pending(const weft_writer *writer);

/* --- outbox -------------------------------------------------------------------------------- */

struct weft_outbox_opts {
    size_t high_water;     /* with so many bytes not written, posts are refused; default 1 MiB */
    weft_stream_fn writev; /* instead of the descriptor, which is then not used */
    void *arg;
    /* A peer that takes nothing for so long, while there is something to write, has failed. What
     * counts is what its system acknowledged, so a slow reader is none; since systems acknowledge
     * in jumps, 30 s or more is a good value for peers elsewhere. Default 0: no limit. */
    int64_t stall_ns;
};

typedef struct weft_outbox {
    /* private */
    weft_event weft_some;
    weft_bufs weft_have;
    struct weft_outbox_opts weft_opts;
    size_t weft_pending;
    struct weft__outbox_lock {
        uint32_t weft_word;
    } weft_lock;
    int weft_fd;
    bool weft_closed;
} weft_outbox;

WEFT_API void weft_outbox_init(weft_outbox *outbox, int fd, const struct weft_outbox_opts *opts);
/* Nobody may post or run any more. Drops what was not written. */
WEFT_API void weft_outbox_deinit(weft_outbox *outbox);

/* Any fiber or thread; never waits. 0: it takes the buffer. Else it is still the caller's: -EAGAIN:
 * the mark is reached, the peer does not keep up; -EPIPE: closed, or a write has failed. */
WEFT_API int weft_outbox_post(weft_outbox *outbox, weft_buf *buf);
/* Borrows the frame and posts a share of it to each. How many took it; the others, if `refused` is
 * not NULL, are marked there with true, those that took it with false. */
WEFT_API size_t weft_outbox_post_all(weft_outbox *const *outboxes, size_t n, const weft_buf *frame,
                                     bool *refused);

/* The connection's one fiber: writes what is posted, many buffers at once, until the outbox is
 * closed and empty: then 0. Else the error of a write, or -ECANCELED, -EINTR; after a failed write
 * posts are refused. -ETIME: the peer took nothing for stall_ns, which is such a failure. The
 * deadline is for all of it: -ETIMEDOUT, and it may be run again. */
WEFT_API int weft_outbox_run(weft_outbox *outbox, int64_t deadline);
/* From now on posts are refused; what is there is still written. Any fiber or thread. */
WEFT_API void weft_outbox_close(weft_outbox *outbox);
/* Bytes that were posted and are not written. */
WEFT_API size_t weft_outbox_pending(weft_outbox *outbox);

WEFT_END_DECLS
#endif
