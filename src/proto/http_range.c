#include <weft/http_parse.h>

#include <errno.h>

#include "proto/http_value.h"
#include "proto/octet.h"

/* Reads digits at *at and advances it. Numbers above 2^63 count as 2^63: they are beyond the end of
 * any representation. Returns false if there is no digit. */
static bool take_number(const char **at, const char *end, uint64_t *out)
{
    const uint64_t most = UINT64_C(1) << 63;
    const char *start = *at;
    uint64_t value = 0;
    for (; *at < end && weft__is_digit((unsigned char)**at); (*at)++) {
        value = value > (most - 9) / 10 ? most : value * 10 + (uint64_t)(**at - '0');
    }
    *out = value;
    return *at > start;
}

/* Parses one of "a-b", "a-" and "-n". Returns false for bad syntax. A length of 0 means that the
 * range cannot be satisfied. */
static bool take_range(const char *text, size_t len, uint64_t size, struct weft__http_range *out)
{
    const char *at = text, *end = text + len;
    uint64_t first = 0, last = 0;
    bool has_first = take_number(&at, end, &first);
    if (at == end || *at++ != '-') {
        return false;
    }
    bool has_last = take_number(&at, end, &last);
    if (at != end || (!has_first && !has_last) || (has_first && has_last && last < first)) {
        return false;
    }
    if (!has_first) {
        uint64_t n = last < size ? last : size;
        *out = (struct weft__http_range){size - n, n};
    } else if (first >= size) {
        *out = (struct weft__http_range){0, 0};
    } else {
        last = has_last && last < size ? last : size - 1;
        *out = (struct weft__http_range){first, last - first + 1};
    }
    return true;
}

int weft__http_range_parse(struct weft__http_range *out, int max, const char *text, size_t len,
                           uint64_t size)
{
    const char *item;
    size_t n;
    uint64_t sum = 0;
    int count = 0, seen = 0;
    weft__trim(&text, &len);
    if (len < 6 || !weft__equals_ignore_case(text, "bytes", 5) || text[5] != '=' ||
        size > INT64_MAX) {
        return 0;
    }
    text += 6;
    len -= 6;
    while (weft__list_next(&text, &len, &item, &n)) {
        struct weft__http_range range;
        if (++seen > max || !take_range(item, n, size, &range)) {
            return 0;
        }
        if (range.len) {
            out[count++] = range;
            sum += range.len;
        }
        if (sum > size) {
            return 0;
        }
    }
    if (!seen) {
        return 0;
    }
    return count ? count : -ERANGE;
}
