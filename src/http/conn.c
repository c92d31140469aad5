#include "http/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/io.h>
#include <weft/net.h>
#include <weft/uri.h>

#include "base/alloc.h"
#include "base/need.h"

/* --- the request, for the handler
 * ----------------------------------------------------------------- */

enum weft_http_method weft_http_method(const weft_http *x)
{
    WEFT__NEED(x);
    return x->head.method;
}

const char *weft_http_path(const weft_http *x)
{
    WEFT__NEED(x);
    return x->path;
}

static struct weft_http_text text_of(const weft_http *x, struct weft_http_span span)
{
    return (struct weft_http_text){x->data + span.at, span.len};
}

struct weft_http_text weft_http_query(const weft_http *x)
{
    WEFT__NEED(x);
    return x->head.query.at ? text_of(x, x->head.query) : (struct weft_http_text){NULL, 0};
}

struct weft_http_text weft_http_get(const weft_http *x, const char *name)
{
    WEFT__NEED(x);
    const struct weft_http_field *field = weft_http_head_find(&x->head, x->data, name, NULL);
    return field ? text_of(x, field->value) : (struct weft_http_text){NULL, 0};
}

const weft_http_head *weft_http_parsed(const weft_http *x, const char **data)
{
    WEFT__NEED(x);
    *data = x->data;
    return &x->head;
}

const struct weft_addr *weft_http_peer(const weft_http *x)
{
    WEFT__NEED(x);
    return &x->conn->peer;
}

weft_http_server *weft_http_server_of(const weft_http *x)
{
    WEFT__NEED(x);
    return x->conn->server;
}

/* --- one request and its response
 * ----------------------------------------------------------------- */

/* Decodes and normalises the path. Returns 0, or the status with which to reject the request. */
static int take_path(struct weft_http *x)
{
    char *to = x->path_room;
    size_t room = sizeof x->path_room, len = x->head.path.len;
    if (x->head.form == WEFT_HTTP_AUTHORITY) {
        return 501;
    }
    if (x->head.form == WEFT_HTTP_ASTERISK || (len == 0 && x->head.method == WEFT_HTTP_OPTIONS)) {
        x->path = "*";
        x->path_len = 1;
        return 0;
    }
    if (len + 2 > room) {
        x->path_buf = weft_buf_alloc(len + 2, 0);
        if (!x->path_buf) {
            return 503;
        }
        to = (char *)x->path_buf->data;
        room = len + 2;
    }
    ssize_t n = weft_uri_path(to, room, x->data + x->head.path.at, len);
    if (n < 0) {
        return 400;
    }
    x->path = to;
    x->path_len = (size_t)n;
    return 0;
}

static int refuse(struct weft_http *x, int status, const char *why)
{
    x->conn->close = x->conn->unread = true;
    return weft__http_answer_error(x, status, why);
}

static int no_route(struct weft_http *x, bool other)
{
    char allow[256];
    const struct weft__http_routes *routes = &x->conn->server->routes;
    if (!other && strcmp(x->path, "*") == 0) {
        return weft_http_answer(x, 204, NULL, NULL, 0);
    }
    if (!other) {
        return weft__http_answer_error(x, 404, NULL);
    }
    weft__http_route_allow(routes, x->path, x->path_len, allow, sizeof allow);
    int err = weft_http_begin(x, 405);
    err = err ? err : weft_http_set(x, "Allow", allow);
    return err;
}

static int handle(struct weft_http *x)
{
    struct weft_http_server *server = x->conn->server;
    bool other;
    int status = take_path(x);
    if (status) {
        return refuse(x, status, status == 400 ? "bad path" : NULL);
    }
    const struct weft__http_route *route =
        weft__http_route_find(&server->routes, x->head.method, text_of(x, x->head.method_name),
                              x->path, x->path_len, &other);
    uint64_t most = route && route->body_bytes ? route->body_bytes : server->opts.limits.body_bytes;
    if (x->head.body == WEFT_HTTP_LENGTH && (uint64_t)x->head.content_length > most) {
        return refuse(x, 413, NULL);
    }
    x->body_most = most;
    return route ? route->fn(x, route->arg) : no_route(x, other);
}

static void tell(struct weft_http *x, int64_t took_ns)
{
    const struct weft_http_server_opts *opts = &x->conn->server->opts;
    struct weft_http_text referer = weft_http_get(x, "Referer");
    struct weft_http_text agent = weft_http_get(x, "User-Agent");
    struct weft_http_record record = {
        .method = x->data + x->head.method_name.at,
        .method_len = (int)x->head.method_name.len,
        .target = x->data + x->head.target.at,
        .target_len = (int)x->head.target.len,
        .minor = x->head.minor,
        .status = x->status,
        .sent = x->sent,
        .took_ns = took_ns,
        .peer = &x->conn->peer,
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
static void tell_refused(struct weft_http *x)
{
    const struct weft_http_server_opts *opts = &x->conn->server->opts;
    struct weft_http_record record = {
        .method = "-",
        .method_len = 1,
        .target = "-",
        .target_len = 1,
        .minor = 1,
        .status = x->status,
        .sent = x->sent,
        .peer = &x->conn->peer,
    };
    x->data = weft__http_input(x->conn) + x->conn->start;
    if (has_request_line(x->conn, &x->head, x->data)) {
        tell(x, 0);
    } else {
        opts->on_request(&record, opts->arg);
    }
}

static void count_answer(struct weft__http_conn *conn, int status)
{
    weft__http_count(conn->shard, WEFT__HTTP_N_REQUESTS, 1);
    weft__http_count(conn->shard, WEFT__HTTP_N_CLASS + status / 100, 1);
    conn->gathered++;
    conn->unyielded++;
}

static void exchange_begin(struct weft__http_conn *conn, size_t head_len)
{
    struct weft_http *x = &conn->x;
    x->data = weft__http_input(conn) + conn->start;
    conn->start += head_len;
    x->stage = WEFT__HTTP_UNANSWERED;
    x->status = 0;
    x->sent = 0;
    x->path = "";
    x->path_len = 0;
    x->path_buf = NULL;
    conn->served++;
    conn->close = !x->head.keep_alive || conn->served >= conn->server->opts.limits.requests;
    weft__http_body_begin(x, 0);
}

static void serve(struct weft__http_conn *conn, size_t head_len)
{
    struct weft_http *x = &conn->x;
    int64_t began = conn->server->opts.on_request ? weft_now() : 0;
    exchange_begin(conn, head_len);
    int err = handle(x);
    weft__http_answer_finish(x, err);
    weft__http_body_finish(x);
    count_answer(conn, x->status);
    if (conn->server->opts.on_request) {
        tell(x, weft_now() - began);
    }
    if (x->path_buf) {
        weft_buf_free(x->path_buf);
    }
    x->stage = WEFT__HTTP_UNANSWERED;
    if (conn->gathered >= conn->server->opts.limits.pipelined) {
        weft__http_out_flush(conn);
    }
    weft__http_out_settle(conn); /* a file was sent already */
}

/* There is no valid request, but an error response to send. */
static void refuse_head(struct weft__http_conn *conn, ssize_t err)
{
    struct weft_http *x = &conn->x;
    x->stage = WEFT__HTTP_UNANSWERED;
    x->continue_due = false;
    x->head.method = WEFT_HTTP_OTHER;
    if (err == -EBADMSG) {
        weft__http_count(conn->shard, WEFT__HTTP_N_BAD, 1);
        refuse(x, x->head.refused, x->head.why);
    } else {
        refuse(x, err == -ENOMEM ? 503 : 408, NULL);
    }
    count_answer(conn, x->status);
    if (conn->server->opts.on_request) {
        tell_refused(x);
    }
}

/* --- the connection
 * ------------------------------------------------------------------------------- */

/* Closing a socket with unread bytes makes the client's TCP stack discard our response. Unread
 * bytes may be there, or on their way, if we did not read everything we have; if the server ends
 * the connection and the client wanted to send more requests; and after a body, where old clients
 * send an empty line. */
static bool may_come_more(const struct weft__http_conn *conn)
{
    return conn->unread || conn->grace_over ||
           (conn->close && (conn->end > conn->start || conn->x.head.keep_alive ||
                            conn->x.head.body != WEFT_HTTP_NO_BODY));
}

/* The kernel gives up a closed connection whose client has had no buffer space for a few minutes.
 * So a connection with a slow reader stays open until the client has everything. A small response
 * is not waited for: it fits into any receive buffer. */
static bool may_take_slowly(const struct weft__http_conn *conn)
{
    return weft__http_written(conn) >= WEFT__HTTP_LITTLE && weft__http_pace_untaken(conn) > 0;
}

static bool still_takes(struct weft__http_conn *conn)
{
    return !weft__http_stopping(conn->server) && weft__http_pace_untaken(conn) > 0 &&
           weft__http_pace_spares(conn, weft_now());
}

/* A client sees the response only when it reads, and by then it has sent what its socket buffer
 * holds: many times more than one read. */
static void linger(struct weft__http_conn *conn)
{
    void *to = conn->in ? conn->in->data : (void *)conn->fields_room; /* reuses existing memory */
    size_t room = conn->in ? conn->in->len : sizeof conn->fields_room;
    size_t dropped = 0, turn_at = WEFT__HTTP_DROPPED;
    int64_t deadline = weft_after(conn->server->opts.limits.linger_ns);
    if (weft_shutdown(conn->fd, SHUT_WR) != 0) {
        return;
    }
    atomic_store_explicit(&conn->since, weft_now(), memory_order_relaxed);
    atomic_store_explicit(&conn->phase, WEFT__HTTP_LINGERING, memory_order_relaxed);
    while (dropped < WEFT__HTTP_LINGER) {
        ssize_t n = weft_read(conn->fd, to, room, deadline);
        if (n == -ETIMEDOUT && still_takes(conn)) {
            deadline = weft_after(conn->server->opts.limits.linger_ns);
            continue;
        }
        if (n <= 0) {
            return;
        }
        if (conn->grace_over && !dropped) {
            atomic_fetch_add_explicit(&conn->server->stop_crossed, 1, memory_order_relaxed);
        }
        dropped += (size_t)n;
        if (dropped >= turn_at) {
            turn_at = dropped + WEFT__HTTP_DROPPED;
            weft_yield();
        }
    }
}

static void enter(struct weft__http_conn *conn)
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

static void leave(struct weft__http_conn *conn)
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

static void converse(struct weft__http_conn *conn)
{
    /* A stop past its deadline may not have seen this connection. */
    while (!conn->close && weft__http_stop_stage(conn->server) < WEFT__HTTP_STOP_CUT) {
        ssize_t n = weft__http_input_head(conn);
        if (n == 0) {
            break;
        }
        if (n < 0) {
            refuse_head(conn, n);
            break;
        }
        /* Chunks are read into the buffer after their header, which must not move from here on. */
        if (conn->x.head.body == WEFT_HTTP_CHUNKED && !weft__http_input_room(conn, 2048)) {
            refuse_head(conn, -ENOMEM);
            break;
        }
        serve(conn, (size_t)n);
    }
    weft__http_out_flush(conn);
    if (conn->grace_over) {
        atomic_fetch_add_explicit(&conn->server->stop_idle, 1, memory_order_relaxed);
    }
    if ((!conn->broken || conn->turned_away) && (may_come_more(conn) || may_take_slowly(conn))) {
        linger(conn);
    }
}

static bool prepare(struct weft__http_conn *conn)
{
    uint32_t most = conn->server->opts.limits.fields;
    conn->in = weft_buf_alloc(WEFT__HTTP_INPUT, 0);
    conn->fields = conn->fields_room;
    if (most > WEFT_HTTP_FIELDS) {
        conn->fields = weft__alloc_dirty(most * sizeof *conn->fields);
    }
    if (conn->in) {
        weft_buf_put(conn->in, weft_buf_tailroom(conn->in));
    }
    return conn->in && conn->fields;
}

static void dispose(struct weft__http_conn *conn)
{
    if (conn->in) {
        weft_buf_free(conn->in);
    }
    if (conn->out) {
        weft_buf_free(conn->out);
    }
    if (conn->fields != conn->fields_room) {
        weft__free(conn->fields);
    }
}

static void init(struct weft__http_conn *conn, const struct weft__http_arrival *arrival)
{
    memset(conn, 0, offsetof(struct weft__http_conn, fields_room));
    conn->x.conn = conn;
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
    if (prepare(&conn)) {
        enter(&conn);
        converse(&conn);
        leave(&conn);
        weft__http_phase_leave(&conn);
    } else {
        atomic_fetch_add_explicit(&conn.shard->refused, 1, memory_order_relaxed);
        weft__http_out_turn_away(&conn);
        linger(&conn);
    }
    dispose(&conn);
    weft_close(conn.fd);
    if (!conn.shed) {
        weft__http_room_give_back(server, conn.address);
    }
    atomic_fetch_sub_explicit(&conn.shard->open, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&server->open, 1, memory_order_relaxed);
    weft_waitgroup_done(&server->live); /* the last access */
    return NULL;
}
