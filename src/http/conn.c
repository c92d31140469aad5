#include "http/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/io.h>
#include <weft/net.h>
#include <weft/uri.h>

#include "base/alloc.h"
#include "base/nonnull.h"

/* --- the request, for the handler
 * ----------------------------------------------------------------- */

enum weft_http_method weft_http_method(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->head.method;
}

const char *weft_http_path(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->path;
}

static struct weft_http_text text_of(const weft_http *req, struct weft_http_span span)
{
    return (struct weft_http_text){req->data + span.at, span.len};
}

struct weft_http_text weft_http_query(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->head.query.at ? text_of(req, req->head.query) : (struct weft_http_text){NULL, 0};
}

struct weft_http_text weft_http_get_header(const weft_http *req, const char *name)
{
    WEFT__NONNULL(req);
    const struct weft_http_field *field = weft_http_head_find(&req->head, req->data, name, NULL);
    return field ? text_of(req, field->value) : (struct weft_http_text){NULL, 0};
}

const weft_http_head *weft_http_request_head(const weft_http *req, const char **data)
{
    WEFT__NONNULL(req);
    *data = req->data;
    return &req->head;
}

const struct weft_addr *weft_http_peer(const weft_http *req)
{
    WEFT__NONNULL(req);
    return &req->conn->peer;
}

weft_http_server *weft_http_server_of(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->conn->server;
}

/* --- one request and its response
 * ----------------------------------------------------------------- */

/* Decodes and normalises the path. Returns 0, or the status with which to reject the request. */
static int decode_path(struct weft_http *req)
{
    char *to = req->path_inline;
    size_t space = sizeof req->path_inline, len = req->head.path.len;
    if (req->head.form == WEFT_HTTP_AUTHORITY) {
        return 501;
    }
    if (req->head.form == WEFT_HTTP_ASTERISK ||
        (len == 0 && req->head.method == WEFT_HTTP_OPTIONS)) {
        req->path = "*";
        req->path_len = 1;
        return 0;
    }
    if (len + 2 > space) {
        req->path_buf = weft_buf_alloc(len + 2, 0);
        if (!req->path_buf) {
            return 503;
        }
        to = (char *)req->path_buf->data;
        space = len + 2;
    }
    ssize_t n = weft_uri_path_normalize(to, space, req->data + req->head.path.at, len);
    if (n < 0) {
        return 400;
    }
    req->path = to;
    req->path_len = (size_t)n;
    return 0;
}

static int reject(struct weft_http *req, int status, const char *why)
{
    req->conn->close = req->conn->unread = true;
    return weft__http_respond_error(req, status, why);
}

static int respond_no_route(struct weft_http *req, bool other)
{
    char allow[256];
    const struct weft__http_routes *routes = &req->conn->server->routes;
    if (!other && strcmp(req->path, "*") == 0) {
        return weft_http_respond(req, 204, NULL, NULL, 0);
    }
    if (!other) {
        return weft__http_respond_error(req, 404, NULL);
    }
    weft__http_route_allow(routes, req->path, req->path_len, allow, sizeof allow);
    int err = weft_http_begin_response(req, 405);
    err = err ? err : weft_http_set_header(req, "Allow", allow);
    return err;
}

static int handle(struct weft_http *req)
{
    struct weft_http_server *server = req->conn->server;
    bool other;
    int status = decode_path(req);
    if (status) {
        return reject(req, status, status == 400 ? "bad path" : NULL);
    }
    const struct weft__http_route *route = weft__http_route_find(
        &server->routes, req->head.method, text_of(req, req->head.method_name), req->path,
        req->path_len, &other);
    uint64_t most = route && route->body_bytes ? route->body_bytes : server->opts.limits.body_bytes;
    if (req->head.body == WEFT_HTTP_LENGTH && (uint64_t)req->head.content_length > most) {
        return reject(req, 413, NULL);
    }
    req->body_max = most;
    return route ? route->fn(req, route->arg) : respond_no_route(req, other);
}

static void report_request(struct weft_http *req, int64_t duration_ns)
{
    const struct weft_http_server_opts *opts = &req->conn->server->opts;
    struct weft_http_text referer = weft_http_get_header(req, "Referer");
    struct weft_http_text agent = weft_http_get_header(req, "User-Agent");
    struct weft_http_record record = {
        .method = req->data + req->head.method_name.at,
        .method_len = (int)req->head.method_name.len,
        .target = req->data + req->head.target.at,
        .target_len = (int)req->head.target.len,
        .minor = req->head.minor,
        .status = req->status,
        .sent = req->sent,
        .duration_ns = duration_ns,
        .peer = &req->conn->peer,
        .referer = referer.data,
        .referer_len = (int)referer.len,
        .agent = agent.data,
        .agent_len = (int)agent.len,
    };
    opts->on_request(&record, opts->arg);
}

/* The parser stops where it rejects, which for a bad target is before the version. */
static bool has_request_line(const struct weft__http_conn *conn, weft_http_head *head,
                             const char *data)
{
    static const char version[] = " HTTP/1.";
    size_t len = sizeof version - 1, at = (size_t)head->target.at + head->target.len;
    if (!head->target.len || conn->end - conn->start < at + len + 3 ||
        memcmp(data + at, version, len) != 0 || memcmp(data + at + len + 1, "\r\n", 2) != 0) {
        return false;
    }
    head->minor = data[at + len] - '0';
    return head->minor == 0 || head->minor == 1;
}

/* Reports a request that could not be parsed, or did not arrive in time, as far as it is known. */
static void report_rejected(struct weft_http *req)
{
    const struct weft_http_server_opts *opts = &req->conn->server->opts;
    struct weft_http_record record = {
        .method = "-",
        .method_len = 1,
        .target = "-",
        .target_len = 1,
        .minor = 1,
        .status = req->status,
        .sent = req->sent,
        .peer = &req->conn->peer,
    };
    req->data = weft__http_input(req->conn) + req->conn->start;
    if (has_request_line(req->conn, &req->head, req->data)) {
        report_request(req, 0);
    } else {
        opts->on_request(&record, opts->arg);
    }
}

static void count_response(struct weft__http_conn *conn, int status)
{
    weft__http_count(conn->shard, WEFT__HTTP_N_REQUESTS, 1);
    weft__http_count(conn->shard, WEFT__HTTP_N_CLASS + status / 100, 1);
    conn->pending_responses++;
    conn->since_yield++;
}

static void request_begin(struct weft__http_conn *conn, size_t head_len)
{
    struct weft_http *req = &conn->req;
    req->data = weft__http_input(conn) + conn->start;
    conn->start += head_len;
    req->stage = WEFT__HTTP_NOT_RESPONDED;
    req->status = 0;
    req->sent = 0;
    req->path = "";
    req->path_len = 0;
    req->path_buf = NULL;
    conn->served++;
    conn->close = !req->head.keep_alive || conn->served >= conn->server->opts.limits.requests;
    weft__http_body_begin(req, 0);
}

static void serve_request(struct weft__http_conn *conn, size_t head_len)
{
    struct weft_http *req = &conn->req;
    int64_t began = conn->server->opts.on_request ? weft_now() : 0;
    request_begin(conn, head_len);
    int err = handle(req);
    weft__http_response_finish(req, err);
    weft__http_body_finish(req);
    count_response(conn, req->status);
    if (conn->server->opts.on_request) {
        report_request(req, weft_now() - began);
    }
    if (req->path_buf) {
        weft_buf_free(req->path_buf);
    }
    req->stage = WEFT__HTTP_NOT_RESPONDED;
    if (conn->pending_responses >= conn->server->opts.limits.pipelined) {
        weft__http_out_flush(conn);
    }
    weft__http_out_record_durations(conn); /* a file was sent already */
}

/* There is no valid request, but an error response to send. */
static void reject_head(struct weft__http_conn *conn, ssize_t err)
{
    struct weft_http *req = &conn->req;
    req->stage = WEFT__HTTP_NOT_RESPONDED;
    req->continue_pending = false;
    req->head.method = WEFT_HTTP_OTHER;
    if (err == -EBADMSG) {
        weft__http_count(conn->shard, WEFT__HTTP_N_BAD_REQUESTS, 1);
        reject(req, req->head.refused, req->head.why);
    } else {
        reject(req, err == -ENOMEM ? 503 : 408, NULL);
    }
    count_response(conn, req->status);
    if (conn->server->opts.on_request) {
        report_rejected(req);
    }
}

/* --- the connection
 * ------------------------------------------------------------------------------- */

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
            reject_head(conn, n);
            break;
        }
        /* Chunks are read into the buffer after their header, which must not move from here on. */
        if (conn->req.head.body == WEFT_HTTP_CHUNKED && !weft__http_input_reserve(conn, 2048)) {
            reject_head(conn, -ENOMEM);
            break;
        }
        serve_request(conn, (size_t)n);
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
