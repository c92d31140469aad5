/* Decoder for length-prefixed frames. State between calls:
 *
 *   HEADER   the bytes up to the end of the length field have not all arrived
 *   BODY     `need` is the length of the whole frame
 */
#include <weft/stream.h>

#include <errno.h>

#include "proto/octet.h"

enum { HEADER, BODY };

static size_t number_end(const weft_length_prefix *length)
{
    return length->weft_offset + length->weft_bytes;
}

int weft_length_prefix_init(weft_length_prefix *length, const struct weft_length_prefix_opts *opts)
{
    static const struct weft_length_prefix_opts none;
    opts = opts ? opts : &none;
    unsigned bytes = opts->bytes ? opts->bytes : 4;
    size_t max = opts->max ? opts->max : 1 << 20;
    if (bytes > 8 || (bytes & (bytes - 1)) || max > SIZE_MAX / 2 || opts->offset > max ||
        opts->offset + bytes > max || opts->body_offset > max ||
        (opts->whole_frame && opts->body_offset)) {
        return -EINVAL;
    }
    *length = (weft_length_prefix){.weft_offset = opts->offset,
                                   .weft_bytes = (uint8_t)bytes,
                                   .weft_little = opts->little_endian,
                                   .weft_max = max};
    length->weft_body = opts->whole_frame   ? 0
                        : opts->body_offset ? opts->body_offset
                                            : number_end(length);
    length->need = number_end(length);
    return 0;
}

static uint64_t read_number(const weft_length_prefix *length, const unsigned char *at)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < length->weft_bytes; i++) {
        unsigned char byte = length->weft_little ? at[length->weft_bytes - 1 - i] : at[i];
        value = value << 8 | byte;
    }
    return value;
}

static ssize_t at_body(weft_length_prefix *length, const unsigned char *bytes, size_t len,
                       struct weft_framed *out)
{
    size_t whole = length->need;
    if (len < whole) {
        return 0;
    }
    *out = (struct weft_framed){bytes + length->weft_body, whole - length->weft_body};
    length->weft_state = HEADER;
    length->need = number_end(length);
    return (ssize_t)whole;
}

static ssize_t fail(weft_length_prefix *length, int error)
{
    length->weft_failed = (uint8_t)error;
    return -error;
}

static ssize_t at_header(weft_length_prefix *length, const unsigned char *bytes, size_t len,
                         struct weft_framed *out)
{
    if (len < number_end(length)) {
        return 0;
    }
    uint64_t counted = read_number(length, bytes + length->weft_offset);
    if (counted > length->weft_max - length->weft_body) {
        return fail(length, EMSGSIZE);
    }
    size_t whole = length->weft_body + (size_t)counted;
    if (whole < number_end(length)) {
        return fail(length, EBADMSG); /* would end before its own length field */
    }
    length->need = whole;
    length->weft_state = BODY;
    return at_body(length, bytes, len, out);
}

ssize_t weft_length_prefix_next(weft_length_prefix *length, struct weft_framed *out,
                                const void *data, size_t len)
{
    if (length->weft_failed) {
        return -length->weft_failed;
    }
    switch (length->weft_state) {
    case HEADER:
        return at_header(length, data, len, out);
    default:
        return at_body(length, data, len, out);
    }
}

ssize_t weft_length_prefix_write(const weft_length_prefix *length, void *frame, size_t body_len)
{
    unsigned char *at = (unsigned char *)frame + length->weft_offset;
    size_t before = length->weft_body ? length->weft_body : number_end(length);
    uint64_t counted = length->weft_body ? body_len : before + (uint64_t)body_len;
    if (before > length->weft_max || body_len > length->weft_max - before ||
        before + body_len < number_end(length) ||
        (length->weft_bytes < 8 && counted >> (8 * length->weft_bytes))) {
        return -EMSGSIZE;
    }
    for (unsigned i = 0; i < length->weft_bytes; i++) {
        unsigned shift = 8 * (length->weft_little ? i : length->weft_bytes - 1 - i);
        at[i] = (unsigned char)(counted >> shift);
    }
    return (ssize_t)before;
}
