/* The request body, as the handler reads it. */
#include <errno.h>
#include <string.h>

#include "base/nonnull.h"
#include "http/conn.h"

#define NS_PER_S 1000000000

void weft__http_body_begin(struct weft_http *req, uint64_t most)
{
    const weft_http_head *head = &req->head;
    req->body_done = head->body == WEFT_HTTP_NO_BODY;
    req->body_left = head->body == WEFT_HTTP_LENGTH ? (uint64_t)head->content_length : 0;
    req->body_max = most;
    req->body_seen = 0;
    req->piece_len = 0;
    req->waited_ns = 0;
    req->body_err = 0;
    req->body_start = req->conn->start;
    /* A client that has sent body bytes already does not wait for "100 Continue". */
    req->continue_pending =
        head->expect_continue && !req->body_done && req->conn->start == req->conn->end;
    if (head->body == WEFT_HTTP_CHUNKED) {
        weft_http_chunked_init(&req->chunked, &req->conn->server->parse);
    }
}

static int fail(struct weft_http *req, int err)
{
    req->body_err = err;
    req->conn->close = req->conn->unread = true;
    return err;
}

static int send_continue(struct weft_http *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    req->continue_pending = false;
    /* A response that has begun replaces the "100 Continue". */
    return req->stage == WEFT__HTTP_NOT_RESPONDED
               ? weft__http_out_append(req->conn, line, sizeof line - 1)
               : 0;
}

/* Slow for a while is allowed; below the minimum rate after body_ns of waiting is not. */
static bool is_too_slow(const struct weft_http *req)
{
    const struct weft_http_server_limits *limits = &req->conn->server->opts.limits;
    return req->waited_ns > limits->body_ns &&
           (double)req->body_seen < (double)limits->body_rate * ((double)req->waited_ns / NS_PER_S);
}

/* Receives at least one byte from the client. -EAGAIN: not before the deadline of the handler's
 * call. */
static ssize_t receive(struct weft_http *req, void *to, size_t n)
{
    struct weft__http_conn *conn = req->conn;
    int64_t before = weft_now();
    if (req->continue_pending) {
        int err = send_continue(req);
        if (err) {
            return err;
        }
    }
    if (++conn->since_yield >= 64) {
        conn->since_yield = 0;
        weft_yield();
        before = weft_now();
    }
    ssize_t got = weft__http_input_read(conn, WEFT__PHASE_BODY, to, n);
    req->waited_ns += weft_now() - before;
    if (got == 0) {
        return weft__turn_timed_out(&conn->turn, WEFT__PHASE_BODY) ? -ETIMEDOUT : -ECONNRESET;
    }
    if (got == -ETIMEDOUT && !conn->broken) {
        got = -EAGAIN; /* the handler's deadline */
    }
    return (got > 0 || got == -EAGAIN) && is_too_slow(req) ? -ETIMEDOUT : got;
}

static ssize_t read_counted(struct weft_http *req, void *buf, size_t n)
{
    struct weft__http_conn *conn = req->conn;
    size_t there = conn->end - conn->start;
    n = n < req->body_left ? n : (size_t)req->body_left;
    ssize_t got;
    if (there) {
        got = (ssize_t)(n < there ? n : there);
        memcpy(buf, weft__http_input(conn) + conn->start, (size_t)got);
        conn->start += (size_t)got;
    } else {
        got = receive(req, buf, n);
    }
    if (got > 0) {
        req->body_left -= (uint64_t)got;
        req->body_done = req->body_left == 0;
    }
    return got;
}

/* Decodes the next piece of the body, or its end. Returns 0 or an error. */
static int next_piece(struct weft_http *req)
{
    struct weft__http_conn *conn = req->conn;
    if (conn->start == conn->end) {
        conn->start = conn->end = req->body_start;
        ssize_t got = receive(req, weft__http_input(conn) + conn->end, conn->in->len - conn->end);
        if (got < 0) {
            return (int)got;
        }
        conn->end += (size_t)got;
    }
    const void *piece;
    ssize_t used =
        weft_http_chunked_next(&req->chunked, &piece, &req->piece_len,
                               weft__http_input(conn) + conn->start, conn->end - conn->start);
    if (used < 0) {
        return req->chunked.refused == 413 ? -EMSGSIZE : -EBADMSG;
    }
    conn->start += (size_t)used;
    req->piece = piece;
    req->body_done = req->chunked.done;
    /* A chunk that is too large is rejected when its size is announced: its bytes may never
     * arrive. */
    return req->chunked.left > req->body_max ||
                   req->chunked.total > req->body_max - req->chunked.left
               ? -EMSGSIZE
               : 0;
}

static ssize_t read_chunked(struct weft_http *req, void *buf, size_t n)
{
    while (!req->piece_len && !req->body_done) {
        int err = next_piece(req);
        if (err) {
            return err;
        }
    }
    n = n < req->piece_len ? n : req->piece_len;
    memcpy(buf, req->piece, n);
    req->piece += n;
    req->piece_len -= n;
    return (ssize_t)n;
}

ssize_t weft_http_read(weft_http *req, void *buf, size_t n, int64_t deadline)
{
    WEFT__NONNULL(req);
    if (req->body_err) {
        return req->body_err;
    }
    if (n == 0 || (req->body_done && !req->piece_len)) {
        return 0;
    }
    req->conn->deadline = deadline;
    ssize_t got =
        req->head.body == WEFT_HTTP_CHUNKED ? read_chunked(req, buf, n) : read_counted(req, buf, n);
    req->conn->deadline = WEFT_FOREVER;
    if (got == -EAGAIN) {
        return -ETIMEDOUT;
    }
    if (got < 0) {
        return got == -EINTR || got == -ECANCELED ? got : fail(req, (int)got);
    }
    req->body_seen += (uint64_t)got;
    return got;
}

/* A client that is told to close may still have much to send, so the close lingers. */
void weft__http_body_finish(struct weft_http *req)
{
    char scrap[1024];
    uint64_t dropped = 0;
    if (req->body_done && !req->body_err) {
        req->piece_len = 0;
        return;
    }
    if (req->continue_pending || req->body_err || req->conn->close ||
        req->body_left > WEFT__HTTP_DISCARD_MAX) {
        req->conn->close = req->conn->unread = true;
        return;
    }
    while (!req->body_done && dropped < WEFT__HTTP_DISCARD_MAX) {
        ssize_t got = weft_http_read(req, scrap, sizeof scrap, WEFT_FOREVER);
        if (got <= 0) {
            break;
        }
        dropped += (uint64_t)got;
    }
    req->piece_len = 0;
    if (!req->body_done) {
        req->conn->close = req->conn->unread = true;
    }
}
