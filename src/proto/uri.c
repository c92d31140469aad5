/* A path is decoded first and normalised second, segment by segment in one pass, so that "%2e%2e"
 * means "..". An escaped slash is rejected: it would become a separator here, and is none for the
 * sender. */
#include <weft/http_parse.h>

#include <errno.h>

#include "proto/octet.h"

/* Returns the decoded byte at text[*at] and advances *at; -1 for a bad escape. */
static int take_byte(const char *text, size_t len, size_t *at)
{
    unsigned char c = (unsigned char)text[(*at)++];
    if (c != '%') {
        return c;
    }
    if (len - *at < 2) {
        return -1;
    }
    int high = weft__hex_digit((unsigned char)text[*at]);
    int low = weft__hex_digit((unsigned char)text[*at + 1]);
    *at += 2;
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

ssize_t weft_uri_decode(char *out, size_t size, const char *text, size_t len)
{
    size_t n = 0, at = 0;
    while (at < len) {
        int c = take_byte(text, len, &at);
        if (c < 0) {
            return -EINVAL;
        }
        if (n == size) {
            return -ENAMETOOLONG;
        }
        out[n++] = (char)c;
    }
    return (ssize_t)n;
}

/* Ends the segment out[start .. n). Returns where the next segment begins, which is after a slash;
 * 0 if the path would leave its root. */
static size_t end_segment(const char *out, size_t start, size_t n)
{
    size_t len = n - start;
    if (len == 0 || (len == 1 && out[start] == '.')) {
        return start;
    }
    if (len == 2 && out[start] == '.' && out[start + 1] == '.') {
        size_t back = start - 1; /* the slash before this segment */
        while (back > 0 && out[back - 1] != '/') {
            back--;
        }
        return back;
    }
    return n + 1;
}

ssize_t weft_uri_path_normalize(char *out, size_t size, const char *text, size_t len)
{
    /* out[0 .. start) are complete segments, each with its trailing slash; out[start .. n) is being
     * read. */
    size_t start = 1, n = 1, at = 1;
    if (size < 2) {
        return -ENAMETOOLONG;
    }
    if (len && *text != '/') {
        return -EINVAL;
    }
    out[0] = '/';
    while (at < len) {
        bool escaped = text[at] == '%';
        int c = take_byte(text, len, &at);
        if (c < 0x20 || c == 0x7f || c == '\\' || (escaped && c == '/')) {
            return -EINVAL;
        }
        if (c == '/') {
            start = end_segment(out, start, n);
            if (!start) {
                return -EINVAL;
            }
            n = start;
            out[n - 1] = '/';
        } else {
            out[n++] = (char)c;
        }
        if (n + 1 > size) {
            return -ENAMETOOLONG;
        }
    }
    size_t next = end_segment(out, start, n);
    if (!next) {
        return -EINVAL;
    }
    n = next == n + 1 ? n : next; /* a name gets no trailing slash */
    out[n] = '\0';
    return (ssize_t)n;
}
