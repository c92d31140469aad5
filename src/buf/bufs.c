/* Chains of buffers. A chain owns its views; a buffer that spans a cut gets a second view of its
 * storage. */
#include <weft/buf.h>

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "buf/block.h"
#include "buf/bufs.h"

void weft_bufs_append(weft_bufs *chain, weft_buf *buf)
{
    WEFT__NONNULL(chain);
    WEFT__NONNULL(buf);
    weft__block_check(buf);
    buf->weft_next = NULL;
    *(chain->weft_last ? &chain->weft_last->weft_next : &chain->first) = buf;
    chain->weft_last = buf;
    chain->bytes += buf->len;
    chain->count++;
}

void weft_bufs_prepend(weft_bufs *chain, weft_buf *buf)
{
    WEFT__NONNULL(chain);
    WEFT__NONNULL(buf);
    weft__block_check(buf);
    buf->weft_next = chain->first;
    chain->first = buf;
    if (!chain->weft_last) {
        chain->weft_last = buf;
    }
    chain->bytes += buf->len;
    chain->count++;
}

void weft_bufs_join(weft_bufs *chain, weft_bufs *from)
{
    WEFT__NONNULL(chain);
    WEFT__NONNULL(from);
    WEFT__REQUIRE(chain != from, "weft_bufs_join of a chain with itself");
    if (from->first) {
        *(chain->weft_last ? &chain->weft_last->weft_next : &chain->first) = from->first;
        chain->weft_last = from->weft_last;
        chain->bytes += from->bytes;
        chain->count += from->count;
    }
    memset(from, 0, sizeof *from);
}

weft_buf *weft_bufs_shift(weft_bufs *chain)
{
    WEFT__NONNULL(chain);
    weft_buf *buf = chain->first;
    if (buf) {
        chain->first = buf->weft_next;
        if (!chain->first) {
            chain->weft_last = NULL;
        }
        chain->bytes -= buf->len;
        chain->count--;
        buf->weft_next = NULL;
    }
    return buf;
}

void weft_bufs_free(weft_bufs *chain)
{
    weft_buf *buf;
    while ((buf = weft_bufs_shift(chain))) {
        weft_buf_free(buf);
    }
}

/* Moves the buffers that lie completely within the first *at bytes from `chain` to `head`; *at is
 * the remainder. */
static void move_whole(weft_bufs *head, weft_bufs *chain, size_t *at)
{
    while (chain->first && chain->first->len <= *at) {
        *at -= chain->first->len;
        weft_bufs_append(head, weft_bufs_shift(chain));
    }
}

int weft__bufs_split(weft_bufs *chain, size_t at, weft_bufs *tail)
{
    WEFT__NONNULL(chain);
    WEFT__REQUIRE(at <= chain->bytes && chain != tail, "weft__bufs_split at %zu of %zu bytes", at,
                  chain->bytes);
    weft_bufs head = {0};
    move_whole(&head, chain, &at);
    int err = 0;
    if (at) {
        weft_buf *across = weft_buf_slice(chain->first, 0, at);
        if (across) {
            weft_bufs_append(&head, across);
            weft_buf_pull(chain->first, at);
            chain->bytes -= at;
        } else {
            err = -ENOMEM;
        }
    }
    if (err) {
        weft_bufs_join(&head, chain); /* undo: join the parts */
    } else {
        weft_bufs_join(tail, chain);
    }
    *chain = head;
    return err;
}

void weft_bufs_consume(weft_bufs *chain, size_t n)
{
    WEFT__NONNULL(chain);
    WEFT__REQUIRE(n <= chain->bytes, "weft_bufs_consume of %zu from %zu bytes", n, chain->bytes);
    while (chain->first && chain->first->len <= n) {
        n -= chain->first->len;
        weft_buf_free(weft_bufs_shift(chain));
    }
    if (n) {
        weft_buf_pull(chain->first, n);
        chain->bytes -= n;
    }
}

int weft_bufs_linearise(weft_bufs *chain, size_t n)
{
    WEFT__NONNULL(chain);
    WEFT__REQUIRE(n <= chain->bytes, "weft_bufs_linearise of %zu of %zu bytes", n, chain->bytes);
    const weft_buf *first = chain->first;
    while (first && first->len == 0) {
        first = first->weft_next;
    }
    if (n == 0 || !first) {
        return 0;
    }
    if (first->len >= n) {
        while (chain->first != first) {
            weft_buf_free(weft_bufs_shift(chain)); /* empty buffers before it */
        }
        return 0;
    }
    weft_buf *one = weft_buf_alloc(n, 0);
    if (!one) {
        return -ENOMEM;
    }
    weft_bufs_copy(chain, 0, weft_buf_put(one, n), n);
    weft_bufs_consume(chain, n);
    weft_bufs_prepend(chain, one);
    return 0;
}

size_t weft_bufs_copy(const weft_bufs *chain, size_t from, void *to, size_t n)
{
    WEFT__NONNULL(chain);
    size_t done = 0;
    for (const weft_buf *buf = chain->first; buf && done < n; buf = buf->weft_next) {
        if (from >= buf->len) {
            from -= buf->len;
            continue;
        }
        size_t part = buf->len - from < n - done ? buf->len - from : n - done;
        memcpy((unsigned char *)to + done, buf->data + from, part);
        done += part;
        from = 0;
    }
    return done;
}

int weft_bufs_iovec(const weft_bufs *chain, struct iovec *iov, int max)
{
    WEFT__NONNULL(chain);
    int n = 0;
    for (const weft_buf *buf = chain->first; buf && n < max; buf = buf->weft_next) {
        if (buf->len) {
            iov[n++] = (struct iovec){.iov_base = buf->data, .iov_len = buf->len};
        }
    }
    return n;
}

/* The buffer where bytes can be added after all others: the last non-empty buffer, or the first of
 * all. */
static weft_buf *first_with_tailroom(const weft_bufs *chain)
{
    weft_buf *last = chain->first;
    for (weft_buf *buf = last; buf; buf = buf->weft_next) {
        last = buf->len ? buf : last;
    }
    return last;
}

int weft__bufs_tailroom_iovec(const weft_bufs *chain, struct iovec *iov, int max)
{
    WEFT__NONNULL(chain);
    int n = 0;
    for (const weft_buf *buf = first_with_tailroom(chain); buf && n < max; buf = buf->weft_next) {
        size_t room = weft_buf_tailroom(buf);
        if (room) {
            iov[n++] = (struct iovec){.iov_base = buf->data + buf->len, .iov_len = room};
        }
    }
    return n;
}

void weft__bufs_commit(weft_bufs *chain, size_t n)
{
    WEFT__NONNULL(chain);
    chain->bytes += n;
    for (weft_buf *buf = first_with_tailroom(chain); buf && n; buf = buf->weft_next) {
        size_t room = weft_buf_tailroom(buf);
        size_t part = room < n ? room : n;
        weft_buf_put(buf, part);
        n -= part;
    }
    WEFT__REQUIRE(n == 0, "weft__bufs_commit of %zu bytes more than there is room for", n);
}
