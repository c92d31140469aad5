#include "obs/writer.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#define MAX_CALL_BYTES 1024 /* bytes of one call */

static void flush_buffer(struct weft__writer *out)
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

void weft__writer_printf(struct weft__writer *out, const char *format, ...)
{
    if (sizeof out->buf - out->used < MAX_CALL_BYTES) {
        flush_buffer(out);
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->buf + out->used, MAX_CALL_BYTES, format, args);
    va_end(args);
    if (n > 0) {
        out->used += n < MAX_CALL_BYTES ? (size_t)n : MAX_CALL_BYTES - 1;
    }
}

void weft__writer_json(struct weft__writer *out, const char *text)
{
    weft__writer_printf(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            weft__writer_printf(out, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            weft__writer_printf(out, "\\u%04x", c);
        } else {
            weft__writer_printf(out, "%c", c);
        }
    }
    weft__writer_printf(out, "\"");
}

int weft__writer_flush(struct weft__writer *out)
{
    flush_buffer(out);
    if (out->file && !out->err && fflush(out->file) != 0) {
        out->err = -EIO;
    }
    return out->err;
}
