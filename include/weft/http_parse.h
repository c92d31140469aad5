/* HTTP/1 messages as bytes: heads of requests and responses, and chunked bodies. No I/O and no
 * memory of its own.
 *
 * A head is parsed in one buffer of the caller's, which holds the message from its first byte on
 * and grows at its end:
 *
 *      data                       data + n          data + len
 *       |  head (n = result of parse)  |  body, next requests  |
 *
 * Each call gets the whole of it, old bytes and new; the parser goes on at the byte where it
 * stopped and looks at none twice. What it found is kept as spans, offsets from `data`: they stay
 * right when the buffer moves, as long as the bytes of the head are kept. Pipelined requests lie in
 * the same buffer: after a head of n bytes and its body comes the next one, for which the parser is
 * initialised again. However the bytes were cut into pieces, the result is the same.
 *
 * There is one mode, a strict one; docs/http.md lists what is refused. A message whose length two
 * readers could understand differently is always refused. After a refusal the connection cannot be
 * used any more: answer with the status in `refused` and close it.
 */
#ifndef WEFT_HTTP_PARSE_H
#define WEFT_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

/* Bytes data[at .. at + len) of the buffer in which the head was parsed. */
struct weft_http_span {
    uint32_t at, len;
};

struct weft_http_field {
    struct weft_http_span name, value; /* the value without white space around it */
};

/* A good size for the array of fields: the default limit. */
#define WEFT_HTTP_FIELDS 100

/* 0: the default. */
struct weft_http_limits {
    uint32_t line_bytes;   /* request or status line without its end; 8 KiB; 414. At least 64 */
    uint32_t header_bytes; /* all behind that line, up to the empty line and with it; 16 KiB; 431 */
    uint32_t extension_bytes; /* chunk extensions of one body, all together; 4 KiB; 400 */
    /* Behind the last chunk, up to the empty line and with it; 4 KiB; 431. */
    uint32_t trailer_bytes;
};

enum weft_http_method {
    WEFT_HTTP_OTHER, /* by its name: method_name. Names are case-sensitive */
    WEFT_HTTP_GET,
    WEFT_HTTP_HEAD,
    WEFT_HTTP_POST,
    WEFT_HTTP_PUT,
    WEFT_HTTP_DELETE,
    WEFT_HTTP_CONNECT,
    WEFT_HTTP_OPTIONS,
    WEFT_HTTP_TRACE,
    WEFT_HTTP_PATCH
};

enum weft_http_form {
    WEFT_HTTP_ORIGIN,    /* /path?query */
    WEFT_HTTP_ABSOLUTE,  /* http://host:port/path?query, also https */
    WEFT_HTTP_AUTHORITY, /* host:port, CONNECT only */
    WEFT_HTTP_ASTERISK   /* *, OPTIONS only */
};

enum weft_http_body {
    WEFT_HTTP_NO_BODY,
    WEFT_HTTP_LENGTH,     /* content_length bytes, more than 0 */
    WEFT_HTTP_CHUNKED,    /* to be read by a weft_http_chunked */
    WEFT_HTTP_UNTIL_CLOSE /* responses only */
};

/* Fields that the parser knows: each is found without a search by weft_http_head_known. */
enum weft_http_name {
    WEFT_HTTP_HOST,
    WEFT_HTTP_CONNECTION,
    WEFT_HTTP_CONTENT_LENGTH,
    WEFT_HTTP_TRANSFER_ENCODING,
    WEFT_HTTP_EXPECT,
    WEFT_HTTP_UPGRADE,
    WEFT_HTTP_RANGE,
    WEFT_HTTP_IF_RANGE,
    WEFT_HTTP_IF_MATCH,
    WEFT_HTTP_IF_NONE_MATCH,
    WEFT_HTTP_IF_MODIFIED_SINCE,
    WEFT_HTTP_IF_UNMODIFIED_SINCE,
    WEFT_HTTP_CONTENT_TYPE,
    WEFT_HTTP_ACCEPT_ENCODING,
    WEFT_HTTP_NAMES
};

typedef struct weft_http_head {
    /* Of a request; whole when parse has returned the length of the head. */
    enum weft_http_method method;
    enum weft_http_form form;
    struct weft_http_span method_name, target;
    struct weft_http_span path;  /* as sent, escaped; empty: "/" (or "*" for OPTIONS) */
    struct weft_http_span query; /* behind the '?'; at = 0: there is none */
    struct weft_http_span host;  /* of the target if that has one, else of Host; without the port */
    int port;                    /* -1: not given */
    bool expect_continue;        /* the client waits for a 100 before it sends the body */

    /* Of a response. */
    int status;
    struct weft_http_span reason;

    /* Of both. */
    int minor;       /* HTTP/1.minor: 0 or 1 */
    bool keep_alive; /* the connection may be used again, as far as this message says */
    bool upgrade;    /* Connection: upgrade, and there is an Upgrade field; HTTP/1.1 */
    enum weft_http_body body;
    int64_t content_length; /* as the field says, whatever `body` is; -1: no such field */
    uint32_t field_count;
    struct weft_http_field *fields; /* the caller's array */

    /* After a refusal: the status to answer with (400, 414, 417, 431, 501, 505; for a response 502)
     * and why. */
    int refused;
    const char *why;

    /* private */
    uint16_t weft_known[WEFT_HTTP_NAMES];
    uint32_t weft_field_max, weft_line_max, weft_header_max;
    uint32_t weft_at, weft_end, weft_mark, weft_name_len;
    uint8_t weft_state, weft_response, weft_request_method, weft_flags;
} weft_http_head;

/* For the next message. `fields` is borrowed until the head is no longer used; a message with more
 * than `max` fields (at most 65534) is refused, 431. `limits` is not kept; NULL: the defaults. */
WEFT_API void weft_http_request_init(weft_http_head *head, struct weft_http_field *fields,
                                     uint32_t max, const struct weft_http_limits *limits);
/* The same for an answer to a request with this method, which decides whether a body follows. 1xx
 * answers come first, and count as messages. */
WEFT_API void weft_http_response_init(weft_http_head *head, struct weft_http_field *fields,
                                      uint32_t max, const struct weft_http_limits *limits,
                                      enum weft_http_method method);

/* data[0 .. len) is the message so far. Returns the length of the head when it is whole, 0 if there
 * must be more bytes, -EBADMSG if it is refused, once and for all. Not to be called again after the
 * head was whole. */
WEFT_API ssize_t weft_http_head_parse(weft_http_head *head, const void *data, size_t len);

/* The first field of this name; NULL: none. */
static inline const struct weft_http_field *weft_http_head_known(const weft_http_head *head,
                                                                 enum weft_http_name name)
{
    uint32_t n = head->weft_known[name];
    return n ? &head->fields[n - 1] : NULL;
}
/* The first field of this name (case does not matter) behind `after`, or the first of all if
 * `after` is NULL; NULL: none. */
WEFT_API const struct weft_http_field *weft_http_head_find(const weft_http_head *head,
                                                           const void *data, const char *name,
                                                           const struct weft_http_field *after);

/* --- chunked bodies --------------------------------------------------------------- */

typedef struct weft_http_chunked {
    uint64_t total; /* bytes of body so far */
    /* Bytes of the chunk being read that were announced and have not come; at least so many, while
     * its size has not been read to the end. */
    uint64_t left;
    bool done; /* the last chunk and the trailer were read: what follows is the next message */
    /* After a refusal. */
    int refused;
    const char *why;
    /* private */
    uint32_t weft_extension_left, weft_trailer_left;
    uint8_t weft_state, weft_digits;
} weft_http_chunked;

/* NULL: the default limits. */
WEFT_API void weft_http_chunked_init(weft_http_chunked *chunked,
                                     const struct weft_http_limits *limits);
/* Reads on in `data`, which holds the bytes behind those that earlier calls have used. Returns how
 * many it has used; the bytes of the body among them, which lie in a row, are *body, *body_len
 * (maybe none). To be called until it has used all, or is done; it uses at least one byte, if there
 * is one. -EBADMSG: refused, once and for all. Extensions and trailer fields are checked and left
 * out. The limit on the whole body is the caller's: total + left is more as soon as a chunk that is
 * too large is announced. */
WEFT_API ssize_t weft_http_chunked_next(weft_http_chunked *chunked, const void *data, size_t len,
                                        const void **body, size_t *body_len);

WEFT_END_DECLS
#endif
