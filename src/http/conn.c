/* A connection's life: its fiber reads, serves and answers one request after the other, then closes
 * the socket.
 *
 *     allocate    the read buffer and the header fields; without memory the client gets a 503
 *     serve       head, request, response, until one side ends the connection or a stop aborts it
 *     linger      before a close, while the client may still send or has yet to read: shut down the
 *                 write side, and discard what arrives
 *     release     buffers, descriptor, the place among the limits
 *
 * From allocate to the end of linger the connection is in its shard's list, and from its first wait
 * on in idle groups; other threads reach it only there. The count of the server's waitgroup is its
 * last access to the server, which may be freed after that.
 */
#include "http/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/io.h>
#include <weft/net.h>

#include "base/alloc.h"

/* Closing a socket with unread bytes makes the client's TCP stack discard our response. Unread
 * bytes may be there, or on their way, if we did not read everything we have; if the server ends
 * the connection and the client wanted to send more requests; and after a body, where old clients
 * send an empty line. */
static bool may_receive_more(const struct weft__http_conn *conn)
{
    return conn->unread || conn->grace_expired ||
           (conn->close && (conn->end > conn->start || conn->req.head.keep_alive ||
                            conn->req.head.body != WEFT_HTTP_NO_BODY));
}

/* The kernel gives up a closed connection whose client has had no buffer space for a few minutes.
 * So a connection with a slow reader stays open until the client has everything. A small response
 * is not waited for: it fits into any receive buffer. */
static bool may_read_slowly(const struct weft__http_conn *conn)
{
    return weft__http_written(conn) >= WEFT__HTTP_PEER_BUFFER_BYTES &&
           weft__http_unacked_bytes(conn) > 0;
}

static bool still_reads(struct weft__http_conn *conn)
{
    return !weft__http_is_stopping(conn->server) && weft__http_unacked_bytes(conn) > 0 &&
           weft__http_min_rate_settle(conn, weft_now());
}

/* A client sees the response only when it reads, and by then it has sent what its socket buffer
 * holds: many times more than one read. */
static void linger(struct weft__http_conn *conn)
{
    void *to = conn->in ? conn->in->data : (void *)conn->fields_inline; /* reuses existing memory */
    size_t space = conn->in ? conn->in->len : sizeof conn->fields_inline;
    size_t dropped = 0, yield_at = WEFT__HTTP_DISCARD_MAX;
    int64_t deadline = weft_after(conn->server->opts.limits.linger_ns);
    if (weft_shutdown(conn->fd, SHUT_WR) != 0) {
        return;
    }
    atomic_store_explicit(&conn->since, weft_now(), memory_order_relaxed);
    atomic_store_explicit(&conn->phase, WEFT__HTTP_LINGERING, memory_order_relaxed);
    while (dropped < WEFT__HTTP_LINGER_MAX) {
        ssize_t n = weft_read(conn->fd, to, space, deadline);
        if (n == -ETIMEDOUT && still_reads(conn)) {
            deadline = weft_after(conn->server->opts.limits.linger_ns);
            continue;
        }
        if (n <= 0) {
            return;
        }
        if (conn->grace_expired && !dropped) {
            atomic_fetch_add_explicit(&conn->server->stop_lost, 1, memory_order_relaxed);
        }
        dropped += (size_t)n;
        if (dropped >= yield_at) {
            yield_at = dropped + WEFT__HTTP_DISCARD_MAX;
            weft_yield();
        }
    }
}

static void shard_add(struct weft__http_conn *conn)
{
    struct weft__http_shard *shard = conn->shard;
    weft__lock(&shard->lock);
    conn->next = shard->first;
    if (conn->next) {
        conn->next->prev = conn;
    }
    shard->first = conn;
    weft__unlock(&shard->lock);
}

static void shard_remove(struct weft__http_conn *conn)
{
    struct weft__http_shard *shard = conn->shard;
    weft__lock(&shard->lock);
    if (conn->prev) {
        conn->prev->next = conn->next;
    } else {
        shard->first = conn->next;
    }
    if (conn->next) {
        conn->next->prev = conn->prev;
    }
    weft__unlock(&shard->lock);
}

static void serve_connection(struct weft__http_conn *conn)
{
    /* A stop past its deadline may not have seen this connection. */
    while (!conn->close && weft__http_stop_stage(conn->server) < WEFT__HTTP_STOP_ABORT) {
        ssize_t n = weft__http_input_head(conn);
        if (n == 0) {
            break;
        }
        if (n < 0) {
            weft__http_reject_head(conn, n);
            break;
        }
        /* Chunks are read into the buffer after their header, which must not move from here on. */
        if (conn->req.head.body == WEFT_HTTP_CHUNKED && !weft__http_input_reserve(conn, 2048)) {
            weft__http_reject_head(conn, -ENOMEM);
            break;
        }
        weft__http_serve_request(conn, (size_t)n);
    }
    weft__http_out_flush(conn);
    if (conn->grace_expired) {
        atomic_fetch_add_explicit(&conn->server->stop_idle, 1, memory_order_relaxed);
    }
    if ((!conn->broken || conn->sent_503) && (may_receive_more(conn) || may_read_slowly(conn))) {
        linger(conn);
    }
}

static bool allocate(struct weft__http_conn *conn)
{
    uint32_t most = conn->server->opts.limits.fields;
    conn->in = weft_buf_alloc(WEFT__HTTP_INPUT_BYTES, 0);
    conn->fields = conn->fields_inline;
    if (most > WEFT_HTTP_FIELDS) {
        conn->fields = weft__alloc_dirty(most * sizeof *conn->fields);
    }
    if (conn->in) {
        weft_buf_put(conn->in, weft_buf_tailroom(conn->in));
    }
    return conn->in && conn->fields;
}

static void release(struct weft__http_conn *conn)
{
    if (conn->in) {
        weft_buf_free(conn->in);
    }
    if (conn->out) {
        weft_buf_free(conn->out);
    }
    if (conn->fields != conn->fields_inline) {
        weft__free(conn->fields);
    }
}

static void init(struct weft__http_conn *conn, const struct weft__http_arrival *arrival)
{
    memset(conn, 0, offsetof(struct weft__http_conn, fields_inline));
    conn->req.conn = conn;
    conn->server = arrival->server;
    conn->fd = arrival->fd;
    conn->worker = arrival->worker;
    conn->shard = &conn->server->shards[arrival->worker];
    conn->deadline = WEFT_FOREVER;
    conn->peer = arrival->peer;
    conn->address = arrival->address;
    conn->fiber = weft_self();
    conn->now = weft_now_cached();
    atomic_store_explicit(&conn->phase, WEFT__HTTP_BUSY, memory_order_relaxed);
}

void *weft__http_conn_run(void *arg)
{
    struct weft__http_conn conn;
    init(&conn, arg);
    weft__free(arg);
    struct weft_http_server *server = conn.server;
    atomic_fetch_sub_explicit(&server->arriving, 1, memory_order_relaxed);
    if (allocate(&conn)) {
        shard_add(&conn);
        serve_connection(&conn);
        shard_remove(&conn);
        weft__http_timeout_leave(&conn);
    } else {
        atomic_fetch_add_explicit(&conn.shard->refused, 1, memory_order_relaxed);
        weft__http_out_reject(&conn);
        linger(&conn);
    }
    release(&conn);
    weft_close(conn.fd);
    if (!conn.shed) {
        weft__http_capacity_release(server, conn.address);
    }
    atomic_fetch_sub_explicit(&conn.shard->open, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&server->open, 1, memory_order_relaxed);
    weft_waitgroup_done(&server->live); /* the last access */
    return NULL;
}
