/* Decoder for RESP. Each call returns one item and continues in the state that the last call left.
 *
 *   ITEM     a line that begins with a type; no line end in its first weft_seen bytes
 *   BULK     the line of a bulk string was read (weft_seen bytes); weft_bulk bytes and CRLF follow
 *   FAILED   permanent error
 *
 * Open aggregates are a stack of counters: the elements that are still missing, outermost first. An
 * attribute is an aggregate that is not an element of the enclosing one: its bit in weft_attributes
 * is set.
 */
#include <weft/stream.h>

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "proto/octet.h"

enum { ITEM, BULK, FAILED };
enum { NO_RESP3 = 1, INLINE = 2 };

void weft_resp_init(weft_resp *resp, const struct weft_resp_opts *opts)
{
    static const struct weft_resp_opts none;
    opts = opts ? opts : &none;
    WEFT__REQUIRE(opts->depth_max <= WEFT_RESP_DEPTH, "RESP depth_max %u: at most %d is possible",
                  opts->depth_max, WEFT_RESP_DEPTH);
    memset(resp, 0, sizeof *resp);
    resp->need = 1;
    resp->weft_depth_max = (uint8_t)(opts->depth_max ? opts->depth_max : 8);
    resp->weft_count_max = opts->count_max ? opts->count_max : 1 << 20;
    resp->weft_line_max = opts->line_max ? opts->line_max : 64 << 10;
    resp->weft_bulk_max = opts->bulk_max ? opts->bulk_max : 16 << 20;
    resp->weft_value_max = opts->value_max ? opts->value_max : 64 << 20;
    resp->weft_flags =
        (uint8_t)((opts->no_resp3 ? NO_RESP3 : 0) | (opts->inline_commands ? INLINE : 0));
    WEFT__REQUIRE(resp->weft_line_max < SIZE_MAX / 4 && resp->weft_bulk_max < SIZE_MAX / 4 &&
                      resp->weft_value_max < SIZE_MAX / 4,
                  "limits of RESP are too large");
}

static ssize_t fail(weft_resp *resp, int error)
{
    resp->weft_state = FAILED;
    resp->weft_failed = error;
    return -error;
}

/* --- content of a line ------------------------------------------------------------------ */

static bool read_integer(const unsigned char *text, size_t len, int64_t *out)
{
    size_t at = len && (*text == '-' || *text == '+');
    bool negative = at && *text == '-';
    int64_t value = 0;
    if (at == len) {
        return false;
    }
    for (; at < len; at++) {
        int digit = text[at] - '0';
        if (!weft__is_digit(text[at]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

static bool is_big_number(const unsigned char *text, size_t len)
{
    size_t at = len && (*text == '-' || *text == '+');
    size_t first = at;
    while (at < len && weft__is_digit(text[at])) {
        at++;
    }
    return at == len && at > first;
}

static size_t skip_digits(const unsigned char *text, size_t at, size_t len)
{
    while (at < len && weft__is_digit(text[at])) {
        at++;
    }
    return at;
}

/* [+-]digits[.digits][e[+-]digits], inf, -inf, nan. */
static bool is_double(const unsigned char *text, size_t len)
{
    size_t at = len && (*text == '-' || *text == '+'), start = at;
    if (len - at == 3 && (memcmp(text + at, "inf", 3) == 0 || memcmp(text + at, "nan", 3) == 0)) {
        return true;
    }
    at = skip_digits(text, at, len);
    if (at == start) {
        return false;
    }
    if (at < len && text[at] == '.') {
        start = ++at;
        at = skip_digits(text, at, len);
        if (at == start) {
            return false;
        }
    }
    if (at < len && (text[at] | 0x20) == 'e') {
        at++;
        at += at < len && (text[at] == '-' || text[at] == '+');
        start = at;
        at = skip_digits(text, at, len);
        if (at == start) {
            return false;
        }
    }
    return at == len;
}

static bool is_aggregate(unsigned char type)
{
    switch (type) {
    case WEFT_RESP_ARRAY:
    case WEFT_RESP_SET:
    case WEFT_RESP_MAP:
    case WEFT_RESP_PUSH:
    case WEFT_RESP_ATTRIBUTE:
        return true;
    default:
        return false;
    }
}

static bool is_bulk(unsigned char type)
{
    return type == WEFT_RESP_BULK_STRING || type == WEFT_RESP_BULK_ERROR ||
           type == WEFT_RESP_VERBATIM;
}

static bool is_type(const weft_resp *resp, unsigned char type)
{
    switch (type) {
    case WEFT_RESP_SIMPLE_STRING:
    case WEFT_RESP_SIMPLE_ERROR:
    case WEFT_RESP_INTEGER:
    case WEFT_RESP_BULK_STRING:
    case WEFT_RESP_ARRAY:
        return true;
    case WEFT_RESP_NULL:
    case WEFT_RESP_BOOLEAN:
    case WEFT_RESP_DOUBLE:
    case WEFT_RESP_BIG_NUMBER:
        return !(resp->weft_flags & NO_RESP3);
    default:
        return (is_bulk(type) || is_aggregate(type)) && !(resp->weft_flags & NO_RESP3);
    }
}

/* --- items -------------------------------------------------------------------------------- */

/* Counts a complete value in its aggregate, and the aggregates that it completes. Returns true if
 * the outermost value is complete. */
static bool end_value(weft_resp *resp)
{
    while (resp->weft_depth) {
        unsigned top = resp->weft_depth - 1u;
        if (--resp->weft_left[top]) {
            return false;
        }
        resp->weft_depth--;
        if (resp->weft_attributes >> top & 1) {
            resp->weft_attributes &= ~(1u << top);
            return false; /* the value that the attribute describes follows */
        }
    }
    return true;
}

/* Returns the item, which takes `used` bytes, and resets the state for the next one. */
static ssize_t hand_out(weft_resp *resp, size_t used, bool complete, struct weft_resp_item *out)
{
    resp->weft_seen = 0;
    resp->weft_bulk = 0;
    resp->weft_state = ITEM;
    resp->need = 1;
    resp->weft_used += used;
    out->last = complete && end_value(resp);
    if (out->last) {
        resp->weft_used = 0;
    }
    return (ssize_t)used;
}

static ssize_t open_aggregate(weft_resp *resp, size_t used, struct weft_resp_item *out)
{
    bool pairs = out->type == WEFT_RESP_MAP || out->type == WEFT_RESP_ATTRIBUTE;
    bool attribute = out->type == WEFT_RESP_ATTRIBUTE;
    if (out->number == -1 && out->type == WEFT_RESP_ARRAY) {
        out->null = true;
        out->number = 0;
        return hand_out(resp, used, true, out);
    }
    if (out->number < 0) {
        return fail(resp, EBADMSG);
    }
    if (out->number > resp->weft_count_max >> pairs) {
        return fail(resp, EMSGSIZE);
    }
    out->number <<= pairs;
    if (resp->weft_depth == resp->weft_depth_max) {
        return fail(resp, EMSGSIZE);
    }
    if (out->number == 0) {
        return hand_out(resp, used, !attribute, out);
    }
    resp->weft_left[resp->weft_depth] = (uint32_t)out->number;
    resp->weft_attributes |= (uint32_t)attribute << resp->weft_depth;
    resp->weft_depth++;
    return hand_out(resp, used, false, out);
}

static ssize_t at_bulk(weft_resp *resp, const unsigned char *bytes, size_t len,
                       struct weft_resp_item *out)
{
    const unsigned char *body = bytes + resp->weft_seen;
    size_t end = resp->weft_seen + resp->weft_bulk;
    /* The CR is checked as soon as it has arrived, so that a wrong length is found early. */
    if ((len > end && bytes[end] != '\r') || (len > end + 1 && bytes[end + 1] != '\n')) {
        return fail(resp, EBADMSG);
    }
    if (len < end + 2) {
        return 0;
    }
    *out = (struct weft_resp_item){.type = (enum weft_resp_type)bytes[0],
                                   .depth = resp->weft_depth,
                                   .bytes = body,
                                   .len = resp->weft_bulk};
    if (out->type == WEFT_RESP_VERBATIM && (out->len < 4 || body[3] != ':')) {
        return fail(resp, EBADMSG);
    }
    return hand_out(resp, end + 2, true, out);
}

static ssize_t begin_bulk(weft_resp *resp, const unsigned char *bytes, size_t len, size_t used,
                          struct weft_resp_item *out)
{
    if (out->number == -1 && out->type == WEFT_RESP_BULK_STRING) {
        out->null = true;
        out->number = 0;
        return hand_out(resp, used, true, out);
    }
    if (out->number < 0) {
        return fail(resp, EBADMSG);
    }
    if ((uint64_t)out->number > resp->weft_bulk_max ||
        (size_t)out->number + used + 2 > resp->weft_value_max - resp->weft_used) {
        return fail(resp, EMSGSIZE);
    }
    resp->weft_seen = used;
    resp->weft_bulk = (size_t)out->number;
    resp->need = used + resp->weft_bulk + 2;
    resp->weft_state = BULK;
    return at_bulk(resp, bytes, len, out);
}

/* The line bytes[0 .. end) is complete and has a type; `used` bytes including its end. */
static ssize_t take_line(weft_resp *resp, const unsigned char *bytes, size_t len, size_t end,
                         size_t used, struct weft_resp_item *out)
{
    const unsigned char *text = bytes + 1;
    size_t n = end - 1;
    bool right = true;
    out->type = (enum weft_resp_type)bytes[0];
    if (is_bulk(bytes[0]) || is_aggregate(bytes[0])) {
        if (!read_integer(text, n, &out->number) || *text == '+') {
            return fail(resp, EBADMSG);
        }
        return is_bulk(bytes[0]) ? begin_bulk(resp, bytes, len, used, out)
                                 : open_aggregate(resp, used, out);
    }
    out->bytes = text;
    out->len = n;
    switch (out->type) {
    case WEFT_RESP_INTEGER:
        right = read_integer(text, n, &out->number);
        break;
    case WEFT_RESP_NULL:
        right = n == 0;
        out->null = true;
        break;
    case WEFT_RESP_BOOLEAN:
        right = n == 1 && (*text == 't' || *text == 'f');
        out->number = right && *text == 't';
        break;
    case WEFT_RESP_DOUBLE:
        right = is_double(text, n);
        break;
    case WEFT_RESP_BIG_NUMBER:
        right = is_big_number(text, n);
        break;
    default:
        break;
    }
    return right ? hand_out(resp, used, true, out) : fail(resp, EBADMSG);
}

/* A line without a type, typed by a person. LF alone is accepted. */
static ssize_t take_inline(weft_resp *resp, const unsigned char *bytes, size_t lf,
                           struct weft_resp_item *out)
{
    out->type = WEFT_RESP_INLINE;
    out->bytes = bytes;
    out->len = lf > 0 && bytes[lf - 1] == '\r' ? lf - 1 : lf;
    return hand_out(resp, lf + 1, true, out);
}

static ssize_t at_item(weft_resp *resp, const unsigned char *bytes, size_t len,
                       struct weft_resp_item *out)
{
    if (len == 0) {
        return 0;
    }
    bool typed = is_type(resp, bytes[0]);
    if (!typed && (!(resp->weft_flags & INLINE) || resp->weft_depth)) {
        return fail(resp, EBADMSG);
    }
    /* The line is limited by its own limit and by the rest of the value's limit, including CRLF. */
    size_t left = resp->weft_value_max - resp->weft_used;
    size_t most = resp->weft_line_max + 2 < left ? resp->weft_line_max + 2 : left;
    size_t end = len < most ? len : most;
    const unsigned char *lf =
        resp->weft_seen < end ? memchr(bytes + resp->weft_seen, '\n', end - resp->weft_seen) : NULL;
    if (!lf) {
        resp->weft_seen = end;
        resp->need = end + 1;
        return end == most ? fail(resp, EMSGSIZE) : 0;
    }
    size_t at = (size_t)(lf - bytes);
    *out = (struct weft_resp_item){.depth = resp->weft_depth};
    if (!typed) {
        return take_inline(resp, bytes, at, out);
    }
    if (at < 2 || bytes[at - 1] != '\r' || memchr(bytes, '\r', at - 1)) {
        return fail(resp, EBADMSG);
    }
    return take_line(resp, bytes, len, at - 1, at + 1, out);
}

ssize_t weft_resp_next(weft_resp *resp, struct weft_resp_item *out, const void *data, size_t len)
{
    switch (resp->weft_state) {
    case ITEM:
        return at_item(resp, data, len, out);
    case BULK:
        return at_bulk(resp, data, len, out);
    default:
        return -resp->weft_failed;
    }
}
