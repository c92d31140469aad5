/* The read buffer: one per connection, with the header being parsed and all bytes that arrived
 * after it.
 *
 *      0        start                     end           capacity
 *      |  used   |  head, body, next head  |   read here  |
 */
#include <errno.h>
#include <string.h>

#include <weft/io.h>

#include "http/conn.h"

/* Moves the unconsumed bytes to the front of this buffer, or of a larger one. */
static bool compact(struct weft__http_conn *conn, size_t total)
{
    size_t have = conn->end - conn->start;
    if (total <= weft__http_input_capacity(conn)) {
        memmove(conn->in->data, conn->in->data + conn->start, have);
    } else {
        weft_buf *larger = weft_buf_alloc(total, 0);
        if (!larger) {
            return false;
        }
        weft_buf_put(larger, weft_buf_tailroom(larger));
        memcpy(larger->data, conn->in->data + conn->start, have);
        weft_buf_free(conn->in);
        conn->in = larger;
    }
    conn->start = 0;
    conn->end = have;
    return true;
}

bool weft__http_input_reserve(struct weft__http_conn *conn, size_t space)
{
    return weft__http_input_capacity(conn) - conn->end >= space ||
           compact(conn, conn->end - conn->start + space);
}

bool weft__http_input_grow(struct weft__http_conn *conn)
{
    if (conn->end < weft__http_input_capacity(conn)) {
        return true;
    }
    size_t total =
        conn->start ? weft__http_input_capacity(conn) : 2 * weft__http_input_capacity(conn);
    if (total > conn->server->input_max) {
        total = conn->server->input_max;
    }
    return compact(conn, total) && conn->end < weft__http_input_capacity(conn);
}

ssize_t weft__http_input_read(struct weft__http_conn *conn, enum weft__phase phase, void *to,
                              size_t n)
{
    int err = weft__http_out_flush(conn);
    if (err) {
        return err;
    }
    weft__turn_enter(&conn->turn, phase);
    ssize_t got = weft_read(conn->turn.fd, to, n, conn->deadline);
    weft__turn_enter_busy(&conn->turn);
    if (got > 0) {
        weft__http_count(conn->shard, WEFT__HTTP_N_BYTES_IN, (uint64_t)got);
    }
    return got;
}
