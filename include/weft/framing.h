/* Where messages end in a stream of bytes: lines, length-prefixed frames, and the protocol of Redis
 * (RESP).
 *
 * All three are used alike. The caller keeps the bytes that came in one buffer and calls next with
 * what is not yet used, beginning with the first byte of the message (RESP: of the item). The
 * result is
 *    > 0         bytes that the message takes up; it is in *out, which points into the buffer. The
 *                next one begins behind
 *      0         there must be more bytes: call again with the same first byte and more behind it.
 *                The buffer may have moved. Bytes that were looked at are not looked at again
 *    -EMSGSIZE   larger than the limit
 *    -EBADMSG    not this protocol
 * Errors are for good; so that the bytes of a message that is too large need not be kept, they come
 * as early as they can be known. `need` says how many bytes the buffer must hold at least before
 * another call makes sense. However the stream is cut into pieces, the messages are the same.
 * Nothing allocates; no call waits.
 */
#ifndef WEFT_FRAMING_H
#define WEFT_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

struct weft_framed {
    const unsigned char *bytes; /* a line without its end; the body of a length-prefixed frame */
    size_t len;
};

/* --- lines ---------------------------------------------------------------------- */

enum weft_line_end {
    WEFT_LINE_ANY, /* LF; a CR before it is not part of the line */
    WEFT_LINE_LF,  /* LF; CR is a byte like others */
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

/* NULL: the defaults. */
WEFT_API void weft_line_init(weft_line *line, const struct weft_line_opts *opts);
WEFT_API ssize_t weft_line_next(weft_line *line, const void *data, size_t len,
                                struct weft_framed *out);

/* --- length-prefixed frames -------------------------------------------------------- */

struct weft_length_opts {
    unsigned bytes;     /* of the number: 1, 2, 4 or 8; default 4 */
    bool little_endian; /* default: the most significant byte first */
    size_t offset;      /* where the number stands in the frame */
    /* Where the counted part, the body, begins; default behind the number. */
    size_t body_offset;
    bool whole_frame; /* the number counts the whole frame, which is handed out: no body_offset */
    size_t max;       /* bytes of a frame with everything; default 1 MiB */
};

typedef struct weft_length {
    size_t need;
    /* private */
    size_t weft_offset, weft_body, weft_max;
    uint8_t weft_bytes, weft_little, weft_state, weft_failed;
} weft_length;

/* -EINVAL: options that fit no frame. NULL: the defaults. */
WEFT_API int weft_length_init(weft_length *length, const struct weft_length_opts *opts);
WEFT_API ssize_t weft_length_next(weft_length *length, const void *data, size_t len,
                                  struct weft_framed *out);
/* Writes the number for a body of this many bytes where it stands in `frame`; the other bytes
 * before the body are the caller's. Returns how many bytes come before the body. -EMSGSIZE: too
 * large for the number or the limit. */
WEFT_API ssize_t weft_length_write(const weft_length *length, void *frame, size_t body_len);

/* --- RESP -------------------------------------------------------------------------- */

/* The first byte of each. The last group is of RESP3. */
enum weft_resp_type {
    WEFT_RESP_TEXT = '+',
    WEFT_RESP_ERROR = '-',
    WEFT_RESP_INTEGER = ':',
    WEFT_RESP_BULK = '$',
    WEFT_RESP_ARRAY = '*',
    WEFT_RESP_INLINE =
        ' ', /* a line that begins with none of these: a command, if the options allow it */

    WEFT_RESP_NULL = '_',
    WEFT_RESP_BOOLEAN = '#',
    WEFT_RESP_DOUBLE = ',',
    WEFT_RESP_BIG = '(',
    WEFT_RESP_BULK_ERROR = '!',
    WEFT_RESP_VERBATIM = '=', /* its bytes begin with "txt:" or the like */
    WEFT_RESP_SET = '~',
    WEFT_RESP_MAP = '%',
    WEFT_RESP_PUSH = '>',
    WEFT_RESP_ATTRIBUTE = '|' /* a map that stands before the value it belongs to */
};

#define WEFT_RESP_DEPTH 32

struct weft_resp_opts {
    unsigned depth_max;   /* aggregates in one another; default 8, at most WEFT_RESP_DEPTH */
    uint32_t count_max;   /* elements of one aggregate (a map's keys and values); default 1 Mi */
    size_t line_max;      /* bytes of a line; default 64 KiB */
    size_t bulk_max;      /* bytes of a bulk string; default 16 MiB */
    size_t value_max;     /* bytes of a whole value, with all that is in it; default 64 MiB */
    bool no_resp3;        /* types of RESP3 are -EBADMSG */
    bool inline_commands; /* a server's side: lines without a type are commands */
};

/* One item of a value: a scalar, or the beginning of an aggregate whose elements come next. */
struct weft_resp_item {
    enum weft_resp_type type;
    unsigned depth; /* how many aggregates it is in */
    bool null;      /* $-1, *-1, or RESP3's null */
    bool last;      /* with it the value that began at depth 0 is complete */
    int64_t number; /* integers; booleans 0 or 1; elements of an aggregate (two for each entry of a
                       map) */
    const unsigned char *bytes; /* of text, errors, bulks, doubles, big numbers, inline commands */
    size_t len;
};

typedef struct weft_resp {
    size_t need;
    /* private */
    size_t weft_line_max, weft_bulk_max, weft_value_max, weft_seen, weft_bulk, weft_used;
    uint32_t weft_count_max, weft_left[WEFT_RESP_DEPTH];
    uint32_t weft_attributes; /* a bit for each depth */
    uint8_t weft_depth, weft_depth_max, weft_state, weft_flags;
    int weft_failed;
} weft_resp;

/* NULL: the defaults. */
WEFT_API void weft_resp_init(weft_resp *resp, const struct weft_resp_opts *opts);
WEFT_API ssize_t weft_resp_next(weft_resp *resp, const void *data, size_t len,
                                struct weft_resp_item *out);

WEFT_END_DECLS
#endif
