/* A writer: a chain of buffers. Small pieces are copied into the free space of the last buffer;
 * whole buffers are linked without copying. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weft/stream.h>

#include "base/nonnull.h"
#include "stream/drain.h"

#define HIGH_WATER 65536u
#define CHUNK 4096u

void weft_writer_init(weft_writer *writer, int fd, const struct weft_writer_opts *opts)
{
    WEFT__NONNULL(writer);
    memset(writer, 0, sizeof *writer);
    if (opts) {
        writer->weft_opts = *opts;
    }
    if (!writer->weft_opts.high_water) {
        writer->weft_opts.high_water = HIGH_WATER;
    }
    writer->weft_fd = fd;
}

void weft_writer_deinit(weft_writer *writer)
{
    WEFT__NONNULL(writer);
    weft_bufs_free(&writer->weft_buffered);
}

size_t weft_writer_pending(const weft_writer *writer)
{
    WEFT__NONNULL(writer);
    return writer->weft_buffered.bytes;
}

/* Write until fewer than this many bytes are left. */
static int write_below(weft_writer *writer, size_t mark, int64_t deadline)
{
    while (writer->weft_buffered.bytes >= mark && writer->weft_buffered.bytes > 0) {
        ssize_t n = weft__drain(&writer->weft_buffered, writer->weft_fd, writer->weft_opts.writev,
                                writer->weft_opts.arg, deadline);
        if (n < 0) {
            return (int)n;
        }
    }
    return 0;
}

int weft_writer_flush(weft_writer *writer, int64_t deadline)
{
    WEFT__NONNULL(writer);
    return write_below(writer, 0, deadline);
}

/* Append a new buffer with space for n bytes. NULL: no memory. */
static weft_buf *add_buffer(weft_writer *writer, size_t n)
{
    weft_buf *last = weft_buf_alloc(n > CHUNK ? n : CHUNK, 0);
    if (last) {
        weft_bufs_append(&writer->weft_buffered, last);
    }
    return last;
}

static void commit(weft_writer *writer, weft_buf *last, size_t n)
{
    weft_buf_put(last, n);
    writer->weft_buffered.bytes += n;
}

int weft_writer_append(weft_writer *writer, const void *bytes, size_t n, int64_t deadline)
{
    WEFT__NONNULL(writer);
    int err = write_below(writer, writer->weft_opts.high_water, deadline);
    if (err || n == 0) {
        return err;
    }
    /* Fill the last buffer, then put the rest into one new buffer: all or nothing. */
    weft_buf *last = writer->weft_buffered.weft_last;
    size_t part = last ? weft_buf_tailroom(last) : 0;
    part = part < n ? part : n;
    weft_buf *rest = part < n ? add_buffer(writer, n - part) : NULL;
    if (part < n && !rest) {
        return -ENOMEM;
    }
    if (part) {
        memcpy(last->data + last->len, bytes, part);
        commit(writer, last, part);
    }
    if (rest) {
        memcpy(rest->data + rest->len, (const char *)bytes + part, n - part);
        commit(writer, rest, n - part);
    }
    return 0;
}

int weft_writer_append_bufs(weft_writer *writer, weft_bufs *bufs, int64_t deadline)
{
    WEFT__NONNULL(writer);
    int err = write_below(writer, writer->weft_opts.high_water, deadline);
    if (!err) {
        weft_bufs_join(&writer->weft_buffered, bufs);
    }
    return err;
}

int weft_writer_append_buf(weft_writer *writer, weft_buf *buf, int64_t deadline)
{
    WEFT__NONNULL(writer);
    int err = write_below(writer, writer->weft_opts.high_water, deadline);
    if (!err) {
        weft_bufs_append(&writer->weft_buffered, buf);
    }
    return err;
}

/* --- formatted text ----------------------------------------------------------------------- */

/* Format into the free space. Returns the length of the whole text. */
static int format_into(weft_buf *last, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    size_t space = last ? weft_buf_tailroom(last) : 0;
    int n = vsnprintf(space ? (char *)last->data + last->len : NULL, space, format, again);
    va_end(again);
    return n < 0 ? -EILSEQ : n;
}

int weft_writer_printf(weft_writer *writer, int64_t deadline, const char *format, ...)
{
    WEFT__NONNULL(writer);
    int err = write_below(writer, writer->weft_opts.high_water, deadline);
    if (err) {
        return err;
    }
    va_list args;
    va_start(args, format);
    weft_buf *last = writer->weft_buffered.weft_last;
    int n = format_into(last, format, args);
    if (n > 0 &&
        (!last || (size_t)n >= weft_buf_tailroom(last))) { /* vsnprintf also writes a terminating
                                                              zero */
        last = add_buffer(writer, (size_t)n + 1);
        n = last ? format_into(last, format, args) : -ENOMEM;
    }
    va_end(args);
    if (n > 0) {
        commit(writer, last, (size_t)n);
    }
    return n < 0 ? n : 0;
}
