/* A turn of a connection: its fiber reads, serves and answers one request after the other.
 *
 *     allocate    the read buffer and the header fields; without memory the client gets a 503
 *     serve       head, request, response, until one side ends the connection, a stop aborts it, or
 *                 there is nothing to do and the connection rests
 *     linger      before a close, while the client may still send or has yet to read: shut down the
 *                 write side, and discard what arrives
 *     release     buffers; the session (server/session.h) keeps the descriptor, or closes it
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

static void linger(struct weft__http_conn *conn)
{
    void *to = conn->in ? conn->in->data : (void *)conn->fields_inline; /* reuses existing memory */
    size_t space = conn->in ? conn->in->len : sizeof conn->fields_inline;
    weft__turn_linger(&conn->turn, to, space, conn->grace_expired);
}

static void serve_connection(struct weft__http_conn *conn)
{
    /* A stop past its deadline may not have seen this connection. */
    while (!conn->close && weft__stop_stage(conn->turn.server) < WEFT__STOP_ABORT) {
        ssize_t n = weft__http_input_head(conn);
        if (conn->rests) {
            return;
        }
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
        atomic_fetch_add_explicit(&conn->turn.server->stop_idle, 1, memory_order_relaxed);
    }
    if ((!conn->broken || conn->sent_503) &&
        (may_receive_more(conn) || weft__turn_may_read_slowly(&conn->turn))) {
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

static void init(struct weft__http_conn *conn, struct weft__session *session)
{
    memset(conn, 0, offsetof(struct weft__http_conn, fields_inline));
    weft__turn_init(&conn->turn, session);
    conn->req.conn = conn;
    conn->server = (struct weft_http_server *)(void *)session->server;
    conn->shard = &conn->server->shards[session->worker];
    conn->deadline = WEFT_FOREVER;
    conn->yield_at = WEFT__HTTP_YIELD_BYTES;
    conn->now = weft_now_cached();
    weft__session_get_peer(session, &conn->peer);
}

static bool take_turn(struct weft__session *session)
{
    struct weft__http_conn conn;
    init(&conn, session);
    if (allocate(&conn)) {
        serve_connection(&conn);
    } else {
        atomic_fetch_add_explicit(&weft__session_shard(session)->refused, 1, memory_order_relaxed);
        weft__http_out_reject(&conn);
        linger(&conn);
    }
    weft__turn_leave(&conn.turn);
    release(&conn);
    return conn.rests;
}

static void refuse(int fd)
{
    char scrap[4096];
    if (weft__http_send_503(fd) > 0) {
        weft_shutdown(fd, SHUT_WR);
        while (recv(fd, scrap, sizeof scrap, MSG_DONTWAIT) == sizeof scrap) {
        }
    }
}

const struct weft__server_protocol weft__http_protocol = {.turn = take_turn, .refuse = refuse};
