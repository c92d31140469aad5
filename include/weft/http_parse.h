/* HTTP/1 parsing without I/O: heads, chunked bodies, field values, paths. */
#ifndef WEFT_HTTP_PARSE_H
#define WEFT_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/* --- heads and chunked bodies --------------------------------------------------------------- */

/* Parser for HTTP/1 messages: headers of requests and responses, and chunked bodies. No I/O and no
 * memory of its own.
 *
 * The head (the start line and the header fields) is parsed in one buffer of the caller, which
 * holds the message from its first byte on and grows at its end:
 *
 *      data                       data + n          data + len
 *       |  head (n = result of parse)  |  body, next requests  |
 *
 * Each call gets the whole buffer, old bytes and new. The parser continues at the byte where it
 * stopped and reads no byte twice. Results are spans, offsets from `data`: they stay valid when the
 * buffer moves, as long as the bytes of the head are kept. Pipelined requests lie in the same
 * buffer: after a head of n bytes and its body comes the next head, for which the caller
 * initialises the parser again. The result does not depend on how the bytes were split into pieces.
 *
 * There is one mode, a strict one; docs/http.md lists what is rejected. A message whose length two
 * readers could understand differently is always rejected. After a rejection the connection cannot
 * be used any more: respond with the status in `refused` and close the connection.
 */

/* The bytes data[at .. at + len) of the buffer in which the head was parsed. */
struct weft_http_span {
    uint32_t at, len;
};

struct weft_http_field {
    struct weft_http_span name, value; /* value: without surrounding white space */
};

/* Default limit on the number of fields; a good size for the array of fields. */
#define WEFT_HTTP_FIELDS 100

/* Limits of the parser. 0 selects the default; exceeding a limit rejects with the given status. */
struct weft_http_limits {
    uint32_t line_bytes;      /* start line without its line end; 8 KiB; 414. At least 64 */
    uint32_t header_bytes;    /* all fields, including the empty line; 16 KiB; 431 */
    uint32_t extension_bytes; /* all chunk extensions of one body together; 4 KiB; 400 */
    /* Trailer after the last chunk, including the empty line; 4 KiB; 431. */
    uint32_t trailer_bytes;
};

enum weft_http_method {
    WEFT_HTTP_OTHER, /* any other: see method_name. Method names are case-sensitive */
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

enum weft_http_target_form {
    WEFT_HTTP_ORIGIN,    /* /path?query */
    WEFT_HTTP_ABSOLUTE,  /* http://host:port/path?query, also https */
    WEFT_HTTP_AUTHORITY, /* host:port, CONNECT only */
    WEFT_HTTP_ASTERISK   /* *, OPTIONS only */
};

enum weft_http_body {
    WEFT_HTTP_NO_BODY,
    WEFT_HTTP_LENGTH,     /* content_length bytes, more than 0 */
    WEFT_HTTP_CHUNKED,    /* read it with a weft_http_chunked */
    WEFT_HTTP_UNTIL_CLOSE /* responses only */
};

/* Fields that the parser knows: weft_http_head_field finds them without a search. */
enum weft_http_field_name {
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
    /* Requests only. Valid when parse has returned the length of the head. */
    enum weft_http_method method;
    enum weft_http_target_form form;
    struct weft_http_span method_name, target;
    struct weft_http_span path;  /* as sent, escaped; empty: "/" (or "*" for OPTIONS) */
    struct weft_http_span query; /* after the '?'; at = 0: no query */
    /* From the target if it has a host, else from Host; without the port. */
    struct weft_http_span host;
    int port;             /* -1: not given */
    bool expect_continue; /* the client waits for a 100 before it sends the body */

    /* Responses only. */
    int status;
    struct weft_http_span reason;

    /* Both. */
    int minor;       /* HTTP/1.minor: 0 or 1 */
    bool keep_alive; /* this message allows reusing the connection */
    bool upgrade;    /* "Connection: upgrade" with an Upgrade field; HTTP/1.1 only */
    enum weft_http_body body;
    int64_t content_length; /* as the field says, whatever `body` is; -1: no such field */
    uint32_t field_count;
    struct weft_http_field *fields; /* the caller's array */

    /* After a rejection: the status to respond with (400, 414, 417, 431, 501, 505; for a response
     * 502) and the reason. */
    int refused;
    const char *why;

    /* private */
    uint16_t weft_known[WEFT_HTTP_NAMES];
    uint32_t weft_field_max, weft_line_max, weft_header_max;
    uint32_t weft_at, weft_end, weft_mark, weft_name_len;
    uint8_t weft_state, weft_response, weft_request_method, weft_flags;
} weft_http_head;

/* Initialise the parser for a request.
 *
 * fields: an array of `max` elements, at most 65534; borrowed until the head is no longer used. A
 * message with more fields is rejected with 431. limits: NULL for defaults; copied. A limit above 1
 * GiB, or line_bytes between 1 and 63, is a caller's bug and stops the program.
 * Context: any thread; does not wait. */
WEFT_API void weft_http_request_init(weft_http_head *head, struct weft_http_field *fields,
                                     uint32_t max, const struct weft_http_limits *limits);
/* Initialise the parser for a response. As weft_http_request_init; method is the method of the
 * request, which decides whether a body follows. Each 1xx response is a message of its own.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_http_response_init(weft_http_head *head, struct weft_http_field *fields,
                                      uint32_t max, const struct weft_http_limits *limits,
                                      enum weft_http_method method);

/* Parse the head. data[0 .. len) is the message received so far.
 *
 * Returns the length of the head when it is complete (do not call again); 0 if more bytes are
 * needed; -EBADMSG if the message is rejected: head->refused and head->why say why, and every later
 * call returns the same.
 * Context: any thread, one call at a time per head; does not wait. */
WEFT_API ssize_t weft_http_head_parse(weft_http_head *head, const void *data, size_t len);

/* Return the first field with this known name; NULL if there is none. */
static inline const struct weft_http_field *weft_http_head_field(const weft_http_head *head,
                                                                 enum weft_http_field_name name)
{
    uint32_t n = head->weft_known[name];
    return n ? &head->fields[n - 1] : NULL;
}
/* Return the first field with this name (case-insensitive) after the field `after`, or the first of
 * all if `after` is NULL; NULL if there is none. data: the buffer of the message. Context: any
 * thread; does not wait. */
WEFT_API const struct weft_http_field *weft_http_head_find(const weft_http_head *head,
                                                           const void *data, const char *name,
                                                           const struct weft_http_field *after);

/* --- chunked bodies --------------------------------------------------------------- */

typedef struct weft_http_chunked {
    uint64_t total; /* body bytes decoded so far */
    /* Bytes of the current chunk that were announced and have not arrived yet; a lower bound while
     * the chunk size is still being read. */
    uint64_t left;
    bool done; /* the last chunk and the trailer were read: the next message follows */
    /* After a rejection: the status to respond with, and the reason. */
    int refused;
    const char *why;
    /* private */
    uint32_t weft_extension_left, weft_trailer_left;
    uint8_t weft_state, weft_digits;
} weft_http_chunked;

/* Initialise the decoder for one chunked body. limits: NULL for defaults; copied. Context: any
 * thread; does not wait. */
WEFT_API void weft_http_chunked_init(weft_http_chunked *chunked,
                                     const struct weft_http_limits *limits);
/* Decode the next bytes of a chunked body.
 *
 * data: the bytes after those that earlier calls consumed. *body, *body_len: the body bytes among
 * the consumed bytes, one contiguous piece in `data` (may be empty). Call until all bytes are
 * consumed or chunked->done is set; a call consumes at least one byte if there is one. Chunk
 * extensions and trailer fields are checked and dropped. The limit on the whole body is the
 * caller's task: total + left exceeds it as soon as a chunk that is too large is announced.
 * Returns the number of bytes consumed; -EBADMSG if the body is rejected: chunked->refused and
 * chunked->why say why, and every later call returns the same.
 * Context: any thread, one call at a time per decoder; does not wait. */
WEFT_API ssize_t weft_http_chunked_next(weft_http_chunked *chunked, const void **body,
                                        size_t *body_len, const void *data, size_t len);

/* --- field values --------------------------------------------------------------------------- */

/* Values of HTTP header fields: dates, ranges, entity tags, and the preconditions built from them.
 * Nothing allocates. All calls: any thread; none waits. */

/* --- dates ------------------------------------------------------------------------ */

#define WEFT_HTTP_DATE_BYTES 29 /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* Parse an HTTP date in any of the three forms: IMF-fixdate, RFC 850 and asctime.
 *
 * now: seconds since 1970; a two-digit year means the year that is at most 50 years after `now`.
 * Returns 0 and the seconds since 1970 in *out; -EINVAL for anything else, such as a wrong weekday.
 * Context: any thread; does not wait. */
WEFT_API int weft_http_date_parse(int64_t *out, const char *text, size_t len, int64_t now);
/* The range of dates that can be formatted: the years 1 to 9999, in seconds since 1970. */
#define WEFT_HTTP_DATE_FIRST (-INT64_C(62135596800))
#define WEFT_HTTP_DATE_LAST INT64_C(253402300799)
/* Format a date: writes WEFT_HTTP_DATE_BYTES bytes to `out`, without a terminating zero. A time
 * outside WEFT_HTTP_DATE_FIRST .. WEFT_HTTP_DATE_LAST is a caller's bug and stops the program.
 * Context: any thread; does not wait. */
WEFT_API void weft_http_date_format(char *out, int64_t seconds);

/* --- paths ---------------------------------------------------------------------------------- */

/* Percent-decoding, and normalising request paths so that they cannot leave their root. Nothing
 * allocates. */

/* Decode %XX, once, and nothing else ('+' stays '+').
 *
 * out: receives at most `size` bytes, which may be any bytes, zeros included; may be equal to
 * `text`.
 * Returns the decoded length; -EINVAL for a '%' without two hex digits; -ENAMETOOLONG if `size`
 * bytes are not enough.
 * Context: any thread; does not wait. */
WEFT_API ssize_t weft_uri_decode(char *out, size_t size, const char *text, size_t len);

/* Decode a path once and normalise it: remove "//", "." and "..".
 *
 * out: receives a zero-terminated path that begins with '/', and ends with '/' if the input named a
 * directory ("/a/", "/a/.", "/a/b/.."). An empty path becomes "/". May be equal to `text` if there
 * is space for the terminating zero.
 * Returns the length without the zero; -EINVAL if the path does not begin with '/', contains a bad
 * escape, a byte below 0x20 or 0x7f, a backslash or an escaped slash, or has more ".." than
 * preceding names; -ENAMETOOLONG if `size` bytes, the zero included, are not enough at any point of
 * the normalisation (len + 2 are always enough).
 * Context: any thread; does not wait. */
WEFT_API ssize_t weft_uri_path_normalize(char *out, size_t size, const char *text, size_t len);

WEFT_END_DECLS
#endif
