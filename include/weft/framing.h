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
WEFT_API ssize_t weft_line_next(weft_line *line, const void *data, size_t len,
                                struct weft_framed *out);

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
WEFT_API ssize_t weft_length_prefix_next(weft_length_prefix *length, const void *data, size_t len,
                                         struct weft_framed *out);
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
WEFT_API ssize_t weft_resp_next(weft_resp *resp, const void *data, size_t len,
                                struct weft_resp_item *out);

WEFT_END_DECLS
#endif
