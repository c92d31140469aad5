/* Decoder for lines. Each call continues in the state that the last call left, inspects the new
 * bytes, and returns.
 *
 *   SCAN                  no line end was found in the first weft_seen bytes
 *   TOO_LONG, MALFORMED   permanent errors
 */
#include <weft/stream.h>

#include <errno.h>
#include <string.h>

#include "base/assert.h"

enum { SCAN, TOO_LONG, MALFORMED };

void weft_line_init(weft_line *line, const struct weft_line_opts *opts)
{
    static const struct weft_line_opts none;
    opts = opts ? opts : &none;
    WEFT__REQUIRE(opts->max < SIZE_MAX / 2, "line limit of %zu bytes is too large", opts->max);
    *line =
        (weft_line){.need = 1, .weft_max = opts->max ? opts->max : 8 << 10, .weft_end = opts->end};
}

static ssize_t fail(weft_line *line, int state)
{
    line->weft_state = state;
    return state == TOO_LONG ? -EMSGSIZE : -EBADMSG;
}

/* Returns how many bytes may be inspected before a line must have ended. */
static size_t scan_limit(const weft_line *line)
{
    return line->weft_max + (line->weft_end == WEFT_LINE_LF ? 1 : 2);
}

/* Reports whether a CR is followed by a byte other than LF. The byte after the last one may still
 * arrive. */
static bool is_cr_alone(const unsigned char *bytes, size_t from, size_t to)
{
    const unsigned char *cr = from < to ? memchr(bytes + from, '\r', to - from) : NULL;
    return cr && cr + 1 < bytes + to && cr[1] != '\n';
}

static ssize_t found(weft_line *line, const unsigned char *bytes, size_t lf,
                     struct weft_framed *out)
{
    bool cr = lf > 0 && bytes[lf - 1] == '\r' && line->weft_end != WEFT_LINE_LF;
    size_t len = lf - cr;
    if (line->weft_end == WEFT_LINE_CRLF && !cr) {
        return fail(line, MALFORMED);
    }
    if (len > line->weft_max) {
        return fail(line, TOO_LONG);
    }
    *out = (struct weft_framed){bytes, len};
    line->weft_seen = 0;
    line->need = 1;
    return (ssize_t)lf + 1;
}

static ssize_t scan(weft_line *line, const unsigned char *bytes, size_t len,
                    struct weft_framed *out)
{
    size_t most = scan_limit(line), end = len < most ? len : most;
    const unsigned char *lf =
        line->weft_seen < end ? memchr(bytes + line->weft_seen, '\n', end - line->weft_seen) : NULL;
    size_t to = lf ? (size_t)(lf - bytes) + 1 : end;
    if (line->weft_end == WEFT_LINE_CRLF) {
        /* The preceding byte may be a CR that waits for its LF. */
        size_t from = line->weft_seen ? line->weft_seen - 1 : 0;
        if (is_cr_alone(bytes, from, to)) {
            return fail(line, MALFORMED);
        }
    }
    if (lf) {
        return found(line, bytes, to - 1, out);
    }
    if (end == most) {
        return fail(line, TOO_LONG);
    }
    line->weft_seen = end;
    line->need = end + 1;
    return 0;
}

ssize_t weft_line_next(weft_line *line, struct weft_framed *out, const void *data, size_t len)
{
    switch (line->weft_state) {
    case SCAN:
        return scan(line, data, len, out);
    default:
        return fail(line, line->weft_state);
    }
}
