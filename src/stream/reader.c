/* A reader: a chain of buffers that reads fill at the end and the caller consumes at the front.
 * Bytes are copied only if they must be contiguous and are not. */
#include <errno.h>
#include <string.h>

#include <weft/stream.h>

#include "base/assert.h"
#include "base/need.h"

#define LIMIT 65536u
#define CHUNK 8192u
#define MOST ((size_t)1 << 30)
#define DELIMITER 16 /* maximum length */
#define VECTORS 4

void weft_reader_init(weft_reader *reader, int fd, const struct weft_reader_opts *opts)
{
    WEFT__NEED(reader);
    memset(reader, 0, sizeof *reader);
    if (opts) {
        reader->weft_opts = *opts;
    }
    struct weft_reader_opts *o = &reader->weft_opts;
    o->limit = o->limit ? o->limit : LIMIT;
    o->chunk = o->chunk ? o->chunk : CHUNK;
    WEFT__REQUIRE(o->limit <= MOST && o->chunk <= MOST,
                  "a reader with a limit of %zu and chunks of %zu", o->limit, o->chunk);
    reader->weft_fd = fd;
}

void weft_reader_deinit(weft_reader *reader)
{
    weft_bufs_free(&reader->weft_have);
}

/* --- buffered bytes ---------------------------------------------------------------------- */

static void drop(weft_reader *reader, size_t n)
{
    if (n) { /* consuming 0 bytes would drop an empty buffer that waits to be filled */
        weft_bufs_consume(&reader->weft_have, n);
    }
}

/* The bytes returned by the last call are no longer needed. */
static void begin(weft_reader *reader)
{
    drop(reader, reader->weft_spent);
    reader->weft_spent = 0;
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

static int make_room(weft_reader *reader, struct iovec *iov)
{
    int count = weft_bufs_room(&reader->weft_have, iov, VECTORS);
    size_t room = 0;
    for (int i = 0; i < count; i++) {
        room += iov[i].iov_len;
    }
    if (room < (reader->weft_opts.chunk + 1) / 2 || count == 0) {
        weft_buf *fresh = weft_buf_alloc(reader->weft_opts.chunk, 0);
        if (!fresh) {
            return -ENOMEM;
        }
        weft_bufs_append(&reader->weft_have, fresh);
        count = weft_bufs_room(&reader->weft_have, iov, VECTORS);
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
    if (reader->weft_opts.lean && reader->weft_have.bytes == 0 && !reader->weft_opts.readv) {
        weft_bufs_free(&reader->weft_have);
        int err = weft_fd_wait(reader->weft_fd, WEFT_READABLE, deadline);
        if (err < 0) {
            return err;
        }
    }
    int count = make_room(reader, iov);
    ssize_t n = count < 0 ? count : call(reader, iov, count, deadline);
    if (n > 0) {
        weft_bufs_fill(&reader->weft_have, (size_t)n);
    } else if (reader->weft_have.bytes == 0) {
        weft_bufs_free(&reader->weft_have);
    }
    return n;
}

/* Read up to a total of n buffered bytes. 0; -ENODATA: the stream ended before. */
static int fill_to(weft_reader *reader, size_t n, int64_t deadline)
{
    ssize_t got = 1;
    while (reader->weft_have.bytes < n && (got = fill(reader, deadline)) > 0) {
    }
    return reader->weft_have.bytes >= n ? 0 : got == 0 ? -ENODATA : (int)got;
}

/* Make the first n bytes contiguous. */
static int in_a_row(weft_reader *reader, size_t n, const unsigned char **out)
{
    int err = weft_bufs_linearise(&reader->weft_have, n);
    const weft_buf *first = reader->weft_have.first;
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
    WEFT__NEED(reader);
    return reader->weft_have.bytes - reader->weft_spent;
}

/* --- bytes ---------------------------------------------------------------------------------- */

static size_t first_row(const weft_reader *reader)
{
    const weft_buf *first = reader->weft_have.first;
    while (first && first->len == 0) {
        first = weft_bufs_next(first);
    }
    return first ? first->len : 0;
}

ssize_t weft_reader_peek(weft_reader *reader, size_t n, const unsigned char **out, int64_t deadline)
{
    WEFT__NEED(reader);
    begin(reader);
    if (n > reader->weft_opts.limit) {
        return -EMSGSIZE;
    }
    int err = fill_to(reader, n, deadline);
    if (err == -ENODATA) {
        n = reader->weft_have.bytes;
        err = 0;
    }
    err = err ? err : in_a_row(reader, n, out);
    return err ? err : (ssize_t)first_row(reader);
}

void weft_reader_consume(weft_reader *reader, size_t n)
{
    WEFT__NEED(reader);
    begin(reader);
    WEFT__REQUIRE(n <= reader->weft_have.bytes, "weft_reader_consume of %zu of %zu bytes", n,
                  reader->weft_have.bytes);
    drop(reader, n);
}

ssize_t weft_reader_read(weft_reader *reader, void *buf, size_t n, int64_t deadline)
{
    WEFT__NEED(reader);
    begin(reader);
    if (n == 0) {
        return 0;
    }
    if (reader->weft_have.bytes == 0) {
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
    n = weft_bufs_copy(&reader->weft_have, 0, buf, n);
    drop(reader, n);
    return (ssize_t)n;
}

int weft_reader_read_full(weft_reader *reader, void *buf, size_t n, size_t *done, int64_t deadline)
{
    WEFT__NEED(reader);
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

int weft_reader_take(weft_reader *reader, size_t n, weft_bufs *out, int64_t deadline)
{
    WEFT__NEED(reader);
    begin(reader);
    if (n > reader->weft_opts.limit) {
        return -EMSGSIZE;
    }
    weft_bufs rest = {0};
    int err = fill_to(reader, n, deadline);
    err = err ? err : weft_bufs_split(&reader->weft_have, n, &rest);
    if (err) {
        return err;
    }
    weft_bufs_join(out, &reader->weft_have);
    reader->weft_have = rest;
    return 0;
}

/* --- delimiters ------------------------------------------------------------------------------ */

/* Whether the delimiter ends with byte number `last`. */
static bool ends_here(const weft_bufs *have, size_t last, const unsigned char *delimiter,
                      size_t len)
{
    unsigned char bytes[DELIMITER];
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
static ssize_t await(weft_reader *reader, const unsigned char *delimiter, size_t len,
                     int64_t deadline)
{
    size_t limit = reader->weft_opts.limit, scanned = 0, end;
    while (!(end = find(&reader->weft_have, scanned, delimiter, len))) {
        scanned = reader->weft_have.bytes;
        if (reader->weft_have.bytes >= limit) {
            return -EMSGSIZE;
        }
        ssize_t got = fill(reader, deadline);
        if (got <= 0) {
            return got == 0 ? -ENODATA : got;
        }
    }
    return end <= limit ? (ssize_t)end : -EMSGSIZE;
}

static ssize_t until(weft_reader *reader, const unsigned char *delimiter, size_t len,
                     const unsigned char **out, int64_t deadline)
{
    begin(reader);
    ssize_t end = await(reader, delimiter, len, deadline);
    if (end < 0) {
        return end;
    }
    int err = in_a_row(reader, (size_t)end, out);
    if (err) {
        return err;
    }
    reader->weft_spent = (size_t)end;
    return end - (ssize_t)len;
}

ssize_t weft_reader_until(weft_reader *reader, const void *delimiter, size_t len,
                          const unsigned char **out, int64_t deadline)
{
    WEFT__NEED(reader);
    WEFT__REQUIRE(len >= 1 && len <= DELIMITER, "a delimiter of %zu bytes", len);
    return until(reader, delimiter, len, out, deadline);
}

ssize_t weft_reader_line(weft_reader *reader, const char **out, int64_t deadline)
{
    WEFT__NEED(reader);
    const unsigned char *line = NULL;
    ssize_t n = until(reader, (const unsigned char *)"\n", 1, &line, deadline);
    if (n == -ENODATA && reader->weft_have.bytes > 0) {
        n = (ssize_t)reader->weft_have.bytes; /* the last line */
        int err = in_a_row(reader, (size_t)n, &line);
        if (err) {
            return err;
        }
        reader->weft_spent = (size_t)n;
    } else if (n > 0 && line && line[n - 1] == '\r') {
        n--;
    }
    if (n >= 0) {
        *out = (const char *)line;
    }
    return n;
}
