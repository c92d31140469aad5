/* A reader: a chain of buffers that reads fill at the end and the caller consumes at the front.
 * Bytes are copied only if they must be contiguous and are not. */
#include <errno.h>
#include <string.h>

#include <weft/stream.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "buf/bufs.h"

#define LIMIT 65536u
#define CHUNK 8192u
#define MAX_BYTES ((size_t)1 << 30)
#define MAX_DELIMITER 16 /* maximum length */
#define VECTORS 4

void weft_reader_init(weft_reader *reader, int fd, const struct weft_reader_opts *opts)
{
    WEFT__NONNULL(reader);
    memset(reader, 0, sizeof *reader);
    if (opts) {
        reader->weft_opts = *opts;
    }
    struct weft_reader_opts *o = &reader->weft_opts;
    o->limit = o->limit ? o->limit : LIMIT;
    o->chunk = o->chunk ? o->chunk : CHUNK;
    WEFT__REQUIRE(o->limit <= MAX_BYTES && o->chunk <= MAX_BYTES,
                  "weft_reader_init: limit %zu or chunk %zu is above 1 GiB", o->limit, o->chunk);
    reader->weft_fd = fd;
}

void weft_reader_deinit(weft_reader *reader)
{
    weft_bufs_free(&reader->weft_buffered);
}

/* --- buffered bytes ---------------------------------------------------------------------- */

static void drop(weft_reader *reader, size_t n)
{
    if (n) { /* consuming 0 bytes would drop an empty buffer that waits to be filled */
        weft_bufs_consume(&reader->weft_buffered, n);
    }
}

/* The bytes returned by the last call are no longer needed. */
static void drop_returned(weft_reader *reader)
{
    drop(reader, reader->weft_returned);
    reader->weft_returned = 0;
}

static ssize_t call(weft_reader *reader, const struct iovec *iov, int count, int64_t deadline)
{
    const struct weft_reader_opts *opts = &reader->weft_opts;
    ssize_t n = opts->readv  ? opts->readv(opts->arg, iov, count, deadline)
                : count == 1 ? weft_read(reader->weft_fd, iov->iov_base, iov->iov_len, deadline)
                             : weft_readv(reader->weft_fd, iov, count, deadline);
    reader->weft_ended = reader->weft_ended || n == 0;
    return n;
}

static int reserve_space(weft_reader *reader, struct iovec *iov)
{
    int count = weft__bufs_tailroom_iovec(&reader->weft_buffered, iov, VECTORS);
    size_t space = 0;
    for (int i = 0; i < count; i++) {
        space += iov[i].iov_len;
    }
    if (space < (reader->weft_opts.chunk + 1) / 2 || count == 0) {
        weft_buf *added = weft_buf_alloc(reader->weft_opts.chunk, 0);
        if (!added) {
            return -ENOMEM;
        }
        weft_bufs_append(&reader->weft_buffered, added);
        count = weft__bufs_tailroom_iovec(&reader->weft_buffered, iov, VECTORS);
    }
    return count;
}

/* Read once more. Returns the number of bytes; 0: the end of the stream, permanently. */
static ssize_t fill(weft_reader *reader, int64_t deadline)
{
    struct iovec iov[VECTORS];
    if (reader->weft_ended) {
        return 0;
    }
    if (reader->weft_opts.free_when_idle && reader->weft_buffered.bytes == 0 &&
        !reader->weft_opts.readv) {
        weft_bufs_free(&reader->weft_buffered);
        int err = weft_fd_wait(reader->weft_fd, WEFT_READABLE, deadline);
        if (err < 0) {
            return err;
        }
    }
    int count = reserve_space(reader, iov);
    ssize_t n = count < 0 ? count : call(reader, iov, count, deadline);
    if (n > 0) {
        weft__bufs_commit(&reader->weft_buffered, (size_t)n);
    } else if (reader->weft_buffered.bytes == 0) {
        weft_bufs_free(&reader->weft_buffered);
    }
    return n;
}

/* Read up to a total of n buffered bytes. 0; -ENODATA: the stream ended before. */
static int fill_to(weft_reader *reader, size_t n, int64_t deadline)
{
    ssize_t got = 1;
    while (reader->weft_buffered.bytes < n && (got = fill(reader, deadline)) > 0) {
    }
    return reader->weft_buffered.bytes >= n ? 0 : got == 0 ? -ENODATA : (int)got;
}

/* Make the first n bytes contiguous. */
static int make_contiguous(weft_reader *reader, size_t n, const unsigned char **out)
{
    int err = weft_bufs_linearise(&reader->weft_buffered, n);
    const weft_buf *first = reader->weft_buffered.first;
    while (!err && first && first->len == 0) {
        first = weft_bufs_next(first);
    }
    if (!err) {
        *out = first ? first->data : (const unsigned char *)"";
    }
    return err;
}

size_t weft_reader_buffered(const weft_reader *reader)
{
    WEFT__NONNULL(reader);
    return reader->weft_buffered.bytes - reader->weft_returned;
}

/* --- bytes ---------------------------------------------------------------------------------- */

static size_t contiguous_bytes(const weft_reader *reader)
{
    const weft_buf *first = reader->weft_buffered.first;
    while (first && first->len == 0) {
        first = weft_bufs_next(first);
    }
    return first ? first->len : 0;
}

ssize_t weft_reader_peek(weft_reader *reader, const unsigned char **out, size_t n, int64_t deadline)
{
    WEFT__NONNULL(reader);
    drop_returned(reader);
    if (n > reader->weft_opts.limit) {
        return -EMSGSIZE;
    }
    int err = fill_to(reader, n, deadline);
    if (err == -ENODATA) {
        n = reader->weft_buffered.bytes;
        err = 0;
    }
    err = err ? err : make_contiguous(reader, n, out);
    return err ? err : (ssize_t)contiguous_bytes(reader);
}

void weft_reader_consume(weft_reader *reader, size_t n)
{
    WEFT__NONNULL(reader);
    drop_returned(reader);
    WEFT__REQUIRE(n <= reader->weft_buffered.bytes,
                  "weft_reader_consume of %zu bytes, but only %zu are buffered", n,
                  reader->weft_buffered.bytes);
    drop(reader, n);
}

ssize_t weft_reader_read(weft_reader *reader, void *buf, size_t n, int64_t deadline)
{
    WEFT__NONNULL(reader);
    drop_returned(reader);
    if (n == 0) {
        return 0;
    }
    if (reader->weft_buffered.bytes == 0) {
        if (reader->weft_ended) {
            return 0;
        }
        if (n >= reader->weft_opts.chunk) {
            struct iovec iov = {.iov_base = buf, .iov_len = n};
            return call(reader, &iov, 1, deadline);
        }
        ssize_t got = fill(reader, deadline);
        if (got <= 0) {
            return got;
        }
    }
    n = weft_bufs_copy(&reader->weft_buffered, 0, buf, n);
    drop(reader, n);
    return (ssize_t)n;
}

int weft_reader_read_full(weft_reader *reader, void *buf, size_t n, size_t *done, int64_t deadline)
{
    WEFT__NONNULL(reader);
    size_t have = 0;
    ssize_t got = 1;
    while (have < n &&
           (got = weft_reader_read(reader, (char *)buf + have, n - have, deadline)) > 0) {
        have += (size_t)got;
    }
    if (done) {
        *done = have;
    }
    return have == n ? 0 : got == 0 ? -ENODATA : (int)got;
}

int weft_reader_read_bufs(weft_reader *reader, weft_bufs *out, size_t n, int64_t deadline)
{
    WEFT__NONNULL(reader);
    drop_returned(reader);
    if (n > reader->weft_opts.limit) {
        return -EMSGSIZE;
    }
    weft_bufs rest = {0};
    int err = fill_to(reader, n, deadline);
    err = err ? err : weft__bufs_split(&reader->weft_buffered, n, &rest);
    if (err) {
        return err;
    }
    weft_bufs_join(out, &reader->weft_buffered);
    reader->weft_buffered = rest;
    return 0;
}

/* --- delimiters ------------------------------------------------------------------------------ */

/* Whether the delimiter ends with byte number `last`. */
static bool ends_here(const weft_bufs *have, size_t last, const unsigned char *delimiter,
                      size_t len)
{
    unsigned char bytes[MAX_DELIMITER];
    return last + 1 >= len && weft_bufs_copy(have, last + 1 - len, bytes, len) == len &&
           memcmp(bytes, delimiter, len) == 0;
}

/* The position after the first delimiter that ends at or after `from`; 0: there is none. */
static size_t find(const weft_bufs *have, size_t from, const unsigned char *delimiter, size_t len)
{
    size_t before = 0; /* bytes of earlier buffers */
    for (const weft_buf *buf = have->first; buf; buf = weft_bufs_next(buf)) {
        size_t at = from > before ? from - before : 0;
        while (at < buf->len) {
            const unsigned char *hit = memchr(buf->data + at, delimiter[len - 1], buf->len - at);
            if (!hit) {
                break;
            }
            at = (size_t)(hit - buf->data);
            if (len == 1 || ends_here(have, before + at, delimiter, len)) {
                return before + at + 1;
            }
            at++;
        }
        before += buf->len;
    }
    return 0;
}

/* Read up to the delimiter. Returns the number of bytes up to and including the delimiter, which
 * lies within the limit; -ENODATA, -EMSGSIZE or the error of a read. */
static ssize_t fill_to_delimiter(weft_reader *reader, const unsigned char *delimiter, size_t len,
                                 int64_t deadline)
{
    size_t limit = reader->weft_opts.limit, scanned = 0, end;
    while (!(end = find(&reader->weft_buffered, scanned, delimiter, len))) {
        scanned = reader->weft_buffered.bytes;
        if (reader->weft_buffered.bytes >= limit) {
            return -EMSGSIZE;
        }
        ssize_t got = fill(reader, deadline);
        if (got <= 0) {
            return got == 0 ? -ENODATA : got;
        }
    }
    return end <= limit ? (ssize_t)end : -EMSGSIZE;
}

static ssize_t read_until(weft_reader *reader, const unsigned char *delimiter, size_t len,
                          const unsigned char **out, int64_t deadline)
{
    drop_returned(reader);
    ssize_t end = fill_to_delimiter(reader, delimiter, len, deadline);
    if (end < 0) {
        return end;
    }
    int err = make_contiguous(reader, (size_t)end, out);
    if (err) {
        return err;
    }
    reader->weft_returned = (size_t)end;
    return end - (ssize_t)len;
}

ssize_t weft_reader_read_until(weft_reader *reader, const unsigned char **out,
                               const void *delimiter, size_t len, int64_t deadline)
{
    WEFT__NONNULL(reader);
    WEFT__REQUIRE(len >= 1 && len <= MAX_DELIMITER, "a delimiter of %zu bytes; allowed are 1 to 16",
                  len);
    return read_until(reader, delimiter, len, out, deadline);
}

ssize_t weft_reader_read_line(weft_reader *reader, const char **out, int64_t deadline)
{
    WEFT__NONNULL(reader);
    const unsigned char *line = NULL;
    ssize_t n = read_until(reader, (const unsigned char *)"\n", 1, &line, deadline);
    if (n == -ENODATA && reader->weft_buffered.bytes > 0) {
        n = (ssize_t)reader->weft_buffered.bytes; /* the last line */
        int err = make_contiguous(reader, (size_t)n, &line);
        if (err) {
            return err;
        }
        reader->weft_returned = (size_t)n;
    } else if (n > 0 && line && line[n - 1] == '\r') {
        n--;
    }
    if (n >= 0) {
        *out = (const char *)line;
    }
    return n;
}
