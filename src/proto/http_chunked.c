/* Decoder for chunked bodies: a state machine that runs over the available bytes.
 *
 *   SIZE -> EXTENSION* -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *                         SIZE_LF -> LINE -> NAME -> VALUE -> VALUE_LF -> LINE ...
 *                                    LINE -> LAST_LF -> done
 *
 * Chunk extensions must follow their grammar (;name, ;name=token, ;name="string") and have no white
 * space: an LF, or anything that another reader may take for the end of the line, cannot hide in
 * them.
 */
#include <weft/http_parse.h>

#include <errno.h>

#include "proto/octet.h"

enum {
    SIZE,
    EXTENSION, /* after ';' */
    EXTENSION_NAME,
    EXTENSION_VALUE, /* after '=' */
    EXTENSION_TOKEN,
    EXTENSION_STRING,
    EXTENSION_ESCAPED,
    EXTENSION_CLOSED, /* after the closing quote */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LINE, /* start of a trailer line */
    NAME,
    VALUE,
    VALUE_LF,
    LAST_LF,
    DONE,
    REFUSED
};

enum { DIGITS_MAX = 16 }; /* as many as fit into `left` */

void weft_http_chunked_init(weft_http_chunked *chunked, const struct weft_http_limits *limits)
{
    memset(chunked, 0, sizeof *chunked);
    chunked->weft_extension_left =
        limits && limits->extension_bytes ? limits->extension_bytes : 4 << 10;
    chunked->weft_trailer_left = limits && limits->trailer_bytes ? limits->trailer_bytes : 4 << 10;
}

/* Returns the state REFUSED. */
static int refuse(weft_http_chunked *chunked, int status, const char *why)
{
    chunked->refused = status;
    chunked->why = why;
    return REFUSED;
}

static int size_byte(weft_http_chunked *chunked, unsigned char c)
{
    int digit = weft__hex_digit(c);
    if (digit >= 0) {
        uint64_t most = (uint64_t)INT64_MAX - chunked->total;
        if (chunked->weft_digits == DIGITS_MAX) {
            return refuse(chunked, 400, "a chunk size with too many digits");
        }
        if ((chunked->left << 4 | (unsigned)digit) > most) {
            return refuse(chunked, 413, "a chunk that is too large");
        }
        chunked->weft_digits++;
        chunked->left = chunked->left << 4 | (unsigned)digit;
        return SIZE;
    }
    if (chunked->weft_digits && (c == '\r' || c == ';')) {
        chunked->weft_digits = 0;
        return c == '\r' ? SIZE_LF : EXTENSION;
    }
    return refuse(chunked, 400, "bad chunk size");
}

/* After a name or a value, where the extension may end. */
static int extension_end(weft_http_chunked *chunked, unsigned char c)
{
    switch (c) {
    case ';':
        return EXTENSION;
    case '\r':
        return SIZE_LF;
    default:
        return refuse(chunked, 400, "bad chunk extension");
    }
}

static int extension_byte(weft_http_chunked *chunked, int state, unsigned char c)
{
    bool token = weft__octet_is(c, WEFT__OCTET_TOKEN);
    if (c != '\r' && chunked->weft_extension_left-- == 0) {
        return refuse(chunked, 400, "chunk extensions are too long");
    }
    switch (state) {
    case EXTENSION:
        return token ? EXTENSION_NAME : refuse(chunked, 400, "bad chunk extension");
    case EXTENSION_NAME:
        return token ? EXTENSION_NAME : c == '=' ? EXTENSION_VALUE : extension_end(chunked, c);
    case EXTENSION_VALUE:
        if (token || c == '"') {
            return token ? EXTENSION_TOKEN : EXTENSION_STRING;
        }
        return refuse(chunked, 400, "bad chunk extension");
    case EXTENSION_TOKEN:
        return token ? EXTENSION_TOKEN : extension_end(chunked, c);
    case EXTENSION_STRING:
        if (!weft__is_text(c)) {
            return refuse(chunked, 400, "a control byte in a chunk extension");
        }
        return c == '"' ? EXTENSION_CLOSED : c == '\\' ? EXTENSION_ESCAPED : EXTENSION_STRING;
    case EXTENSION_ESCAPED:
        return weft__is_text(c) ? EXTENSION_STRING
                                : refuse(chunked, 400, "a control byte in a chunk extension");
    default:
        return extension_end(chunked, c);
    }
}

static int trailer_byte(weft_http_chunked *chunked, int state, unsigned char c)
{
    if (chunked->weft_trailer_left-- == 0) {
        return refuse(chunked, 431, "the trailer is too long");
    }
    switch (state) {
    case LINE:
        if (c == '\r') {
            return LAST_LF;
        }
        return weft__octet_is(c, WEFT__OCTET_TOKEN) ? NAME
                                                    : refuse(chunked, 400, "bad trailer field");
    case NAME:
        if (c == ':') {
            return VALUE;
        }
        return weft__octet_is(c, WEFT__OCTET_TOKEN) ? NAME
                                                    : refuse(chunked, 400, "bad trailer field");
    case VALUE:
        if (c == '\r') {
            return VALUE_LF;
        }
        return weft__is_text(c) ? VALUE : refuse(chunked, 400, "a control byte in the trailer");
    default:
        if (c != '\n') {
            return refuse(chunked, 400, "a CR without LF");
        }
        return state == LAST_LF ? DONE : LINE;
    }
}

static int expect_byte(weft_http_chunked *chunked, unsigned char c, char expected, int then,
                       const char *why)
{
    return c == (unsigned char)expected ? then : refuse(chunked, 400, why);
}

static int step(weft_http_chunked *chunked, int state, unsigned char c)
{
    switch (state) {
    case SIZE:
        state = size_byte(chunked, c);
        if (state == EXTENSION && chunked->weft_extension_left-- == 0) {
            return refuse(chunked, 400, "chunk extensions are too long");
        }
        return state;
    case SIZE_LF:
        return expect_byte(chunked, c, '\n', chunked->left ? DATA : LINE, "a CR without LF");
    case DATA_CR:
        return expect_byte(chunked, c, '\r', DATA_LF, "a chunk is longer than its size");
    case DATA_LF:
        return expect_byte(chunked, c, '\n', SIZE, "a CR without LF");
    default:
        return state < SIZE_LF ? extension_byte(chunked, state, c)
                               : trailer_byte(chunked, state, c);
    }
}

ssize_t weft_http_chunked_next(weft_http_chunked *chunked, const void **body, size_t *body_len,
                               const void *data, size_t len)
{
    const unsigned char *p = data;
    size_t at = 0;
    int state = chunked->weft_state;
    *body = p;
    *body_len = 0;
    while (at < len && state < DONE) {
        if (state == DATA) {
            size_t n = len - at < chunked->left ? len - at : (size_t)chunked->left;
            *body = p + at;
            *body_len = n;
            at += n;
            chunked->left -= n;
            chunked->total += n;
            state = chunked->left ? DATA : DATA_CR;
            break; /* one piece per call; its CRLF is consumed by the next */
        }
        state = step(chunked, state, p[at++]);
    }
    chunked->weft_state = (uint8_t)state;
    chunked->done = state == DONE;
    return state == REFUSED ? -EBADMSG : (ssize_t)at;
}
