/* The request body, as the handler reads it. */
#include <errno.h>
#include <string.h>

#include "base/need.h"
#include "http/conn.h"

#define NS_PER_S 1000000000

void weft__http_body_begin(struct weft_http *x, uint64_t most)
{
    const weft_http_head *head = &x->head;
    x->body_over = head->body == WEFT_HTTP_NO_BODY;
    x->body_left = head->body == WEFT_HTTP_LENGTH ? (uint64_t)head->content_length : 0;
    x->body_most = most;
    x->body_seen = 0;
    x->piece_len = 0;
    x->waited_ns = 0;
    x->body_err = 0;
    x->body_at = x->conn->start;
    /* A client that has sent body bytes already does not wait for "100 Continue". */
    x->continue_due = head->expect_continue && !x->body_over && x->conn->start == x->conn->end;
    if (head->body == WEFT_HTTP_CHUNKED) {
        weft_http_chunked_init(&x->chunked, &x->conn->server->parse);
    }
}

static int fail(struct weft_http *x, int err)
{
    x->body_err = err;
    x->conn->close = x->conn->unread = true;
    return err;
}

static int say_continue(struct weft_http *x)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    x->continue_due = false;
    /* A response that has begun replaces the "100 Continue". */
    return x->stage == WEFT__HTTP_UNANSWERED ? weft__http_out_put(x->conn, line, sizeof line - 1)
                                             : 0;
}

/* Slow for a while is allowed; below the minimum rate after body_ns of waiting is not. */
static bool is_too_slow(const struct weft_http *x)
{
    const struct weft_http_server_limits *limits = &x->conn->server->opts.limits;
    return x->waited_ns > limits->body_ns &&
           (double)x->body_seen < (double)limits->body_rate * ((double)x->waited_ns / NS_PER_S);
}

/* Receives at least one byte from the client. */
static ssize_t receive(struct weft_http *x, void *to, size_t n)
{
    struct weft__http_conn *conn = x->conn;
    int64_t before = weft_now();
    if (x->continue_due) {
        int err = say_continue(x);
        if (err) {
            return err;
        }
    }
    if (++conn->unyielded >= 64) {
        conn->unyielded = 0;
        weft_yield();
        before = weft_now();
    }
    ssize_t got = weft__http_input_read(conn, WEFT__HTTP_BODY, to, n);
    x->waited_ns += weft_now() - before;
    if (got == 0) {
        return weft__http_phase_ended(conn, WEFT__HTTP_BODY) ? -ETIMEDOUT : -ECONNRESET;
    }
    return got > 0 && is_too_slow(x) ? -ETIMEDOUT : got;
}

static ssize_t read_counted(struct weft_http *x, void *buf, size_t n)
{
    struct weft__http_conn *conn = x->conn;
    size_t there = conn->end - conn->start;
    n = n < x->body_left ? n : (size_t)x->body_left;
    ssize_t got;
    if (there) {
        got = (ssize_t)(n < there ? n : there);
        memcpy(buf, weft__http_input(conn) + conn->start, (size_t)got);
        conn->start += (size_t)got;
    } else {
        got = receive(x, buf, n);
    }
    if (got > 0) {
        x->body_left -= (uint64_t)got;
        x->body_over = x->body_left == 0;
    }
    return got;
}

/* Decodes the next piece of the body, or its end. Returns 0 or an error. */
static int next_piece(struct weft_http *x)
{
    struct weft__http_conn *conn = x->conn;
    if (conn->start == conn->end) {
        conn->start = conn->end = x->body_at;
        ssize_t got = receive(x, weft__http_input(conn) + conn->end, conn->in->len - conn->end);
        if (got < 0) {
            return (int)got;
        }
        conn->end += (size_t)got;
    }
    const void *piece;
    ssize_t used = weft_http_chunked_next(&x->chunked, weft__http_input(conn) + conn->start,
                                          conn->end - conn->start, &piece, &x->piece_len);
    if (used < 0) {
        return x->chunked.refused == 413 ? -EMSGSIZE : -EBADMSG;
    }
    conn->start += (size_t)used;
    x->piece = piece;
    x->body_over = x->chunked.done;
    /* A chunk that is too large is rejected when its size is announced: its bytes may never
     * arrive. */
    return x->chunked.left > x->body_most || x->chunked.total > x->body_most - x->chunked.left
               ? -EMSGSIZE
               : 0;
}

static ssize_t read_chunked(struct weft_http *x, void *buf, size_t n)
{
    while (!x->piece_len && !x->body_over) {
        int err = next_piece(x);
        if (err) {
            return err;
        }
    }
    n = n < x->piece_len ? n : x->piece_len;
    memcpy(buf, x->piece, n);
    x->piece += n;
    x->piece_len -= n;
    return (ssize_t)n;
}

ssize_t weft_http_read(weft_http *x, void *buf, size_t n)
{
    WEFT__NEED(x);
    if (x->body_err) {
        return x->body_err;
    }
    if (n == 0 || (x->body_over && !x->piece_len)) {
        return 0;
    }
    ssize_t got =
        x->head.body == WEFT_HTTP_CHUNKED ? read_chunked(x, buf, n) : read_counted(x, buf, n);
    if (got < 0) {
        return got == -EINTR || got == -ECANCELED ? got : fail(x, (int)got);
    }
    x->body_seen += (uint64_t)got;
    return got;
}

/* A client that is told to close may still have much to send, so the close lingers. */
void weft__http_body_finish(struct weft_http *x)
{
    char scrap[1024];
    uint64_t dropped = 0;
    if (x->body_over && !x->body_err) {
        x->piece_len = 0;
        return;
    }
    if (x->continue_due || x->body_err || x->conn->close || x->body_left > WEFT__HTTP_DROPPED) {
        x->conn->close = x->conn->unread = true;
        return;
    }
    while (!x->body_over && dropped < WEFT__HTTP_DROPPED) {
        ssize_t got = weft_http_read(x, scrap, sizeof scrap);
        if (got <= 0) {
            break;
        }
        dropped += (uint64_t)got;
    }
    x->piece_len = 0;
    if (!x->body_over) {
        x->conn->close = x->conn->unread = true;
    }
}
