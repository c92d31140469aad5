#include "obs/out.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#define MOST 1024 /* bytes of one call */

static void write_out(struct weft__out *out)
{
    size_t done = 0;
    if (out->file && !out->err && fwrite(out->buf, 1, out->used, out->file) != out->used) {
        out->err = -EIO;
    }
    while (!out->file && !out->err && done < out->used) {
        ssize_t n = write(out->fd, out->buf + done, out->used - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            out->err = n == 0 ? -EIO : -errno;
        }
    }
    out->used = 0;
}

void weft__out(struct weft__out *out, const char *format, ...)
{
    if (sizeof out->buf - out->used < MOST) {
        write_out(out);
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->buf + out->used, MOST, format, args);
    va_end(args);
    if (n > 0) {
        out->used += n < MOST ? (size_t)n : MOST - 1;
    }
}

void weft__out_json(struct weft__out *out, const char *text)
{
    weft__out(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            weft__out(out, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            weft__out(out, "\\u%04x", c);
        } else {
            weft__out(out, "%c", c);
        }
    }
    weft__out(out, "\"");
}

int weft__out_flush(struct weft__out *out)
{
    write_out(out);
    if (out->file && !out->err && fflush(out->file) != 0) {
        out->err = -EIO;
    }
    return out->err;
}
