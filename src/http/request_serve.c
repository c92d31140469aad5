/* Serves one request whose head was read: finds its handler, runs the handler, completes the
 * response, then counts the request and reports it to the access log (on_request).
 *
 * Each request is counted once, by the class of its status, and reported once, also if it was
 * rejected before a handler ran or if its head could not be parsed. A rejected request also ends
 * its connection: its body is not read, or its end is not known. The buffer of a long path is freed
 * after the report. Used by the connection's fiber only.
 */
#include <errno.h>
#include <string.h>

#include "http/conn.h"

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
    int status = weft__http_decode_path(req);
    if (status) {
        return reject(req, status, status == 400 ? "bad path" : NULL);
    }
    const struct weft__http_route *route = weft__http_route_find(
        &server->routes, req->head.method, weft__http_text_of(req, req->head.method_name),
        req->path, req->path_len, &other);
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
    uint32_t served = ++conn->turn.session->served;
    conn->close = !req->head.keep_alive || served >= conn->server->opts.limits.requests;
    weft__http_body_begin(req, 0);
}

void weft__http_serve_request(struct weft__http_conn *conn, size_t head_len)
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

void weft__http_reject_head(struct weft__http_conn *conn, ssize_t err)
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
