/* Responses: header, framing, and the error responses of the server itself. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "http/conn.h"

/* Enough for the status line and all fields that the server adds itself. */
enum { HEAD_MAX = 256, NUMBER = 20 };

#define LITERAL(text) (text), sizeof(text) - 1

static char *put(char *to, const char *text, size_t n)
{
    memcpy(to, text, n);
    return to + n;
}

static char *put_number(char *to, uint64_t n)
{
    char digits[NUMBER];
    int at = NUMBER;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    return put(to, digits + at, (size_t)(NUMBER - at));
}

const char *weft__http_reason(int status)
{
    static const struct {
        short status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status) {
            return reasons[i].text;
        }
    }
    return "";
}

static char *put_status(char *to, int status)
{
    if (status == 200) {
        return put(to, LITERAL("HTTP/1.1 200 OK\r\n"));
    }
    const char *reason = weft__http_reason(status);
    to = put(to, LITERAL("HTTP/1.1 "));
    to = put_number(to, (uint64_t)status);
    *to++ = ' ';
    to = put(to, reason, strlen(reason));
    return put(to, LITERAL("\r\n"));
}

/* Date, Connection, and the empty line. */
static char *put_last_fields(struct weft_http *req, char *to)
{
    struct weft__http_conn *conn = req->conn;
    to = put(to, weft__http_shard_date(conn->shard, weft_now_cached()), WEFT__HTTP_DATE_LINE);
    /* It is unknown whether a body whose "100 Continue" was never sent will arrive; and a stop may
     * have begun while the handler ran. Requests that arrived after this one are served before the
     * close. */
    bool has_next = req->body_done && conn->end > conn->start;
    conn->close |= req->continue_pending || (weft__is_stopping(conn->turn.server) && !has_next);
    if (conn->close) {
        to = put(to, LITERAL("Connection: close\r\n"));
    } else if (req->head.minor == 0) {
        to = put(to, LITERAL("Connection: keep-alive\r\n"));
    }
    return put(to, LITERAL("\r\n"));
}

static bool has_content(const struct weft_http *req, int status)
{
    return req->head.method != WEFT_HTTP_HEAD && status != 204 && status != 304;
}

static bool is_value(const char *value)
{
    for (const char *at = value; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Returns where the header goes; NULL if the connection is broken. From here on the response has
 * begun. */
static char *start(struct weft_http *req, int status, size_t space)
{
    WEFT__REQUIRE(req->stage == WEFT__HTTP_NOT_RESPONDED, "second response to one HTTP request");
    WEFT__REQUIRE(status >= 200 && status <= 599,
                  "HTTP response with status %d: must be 200 .. 599", status);
    WEFT__REQUIRE(
        weft_worker_self() == req->conn->turn.session->worker &&
            weft_pool_self() == req->conn->turn.server->pool,
        "HTTP response on another worker than that of its connection: return to it first");
    char *to = weft__http_out_reserve(req->conn, space);
    if (to) {
        req->response_start = req->conn->out->len;
        req->partly_sent = false;
    }
    req->stage = WEFT__HTTP_FIELDS;
    req->status = req->conn->sent_503 ? 503 : status;
    req->sent = 0;
    return to;
}

/* The handler only responds: the part of the body that it leaves unread may be too large to read
 * and discard (weft__http_body_finish). */
static void close_if_body_large(struct weft_http *req)
{
    req->conn->close |= req->body_left > WEFT__HTTP_DISCARD_MAX;
}

/* --- complete responses ----------------------------------------------------------------------- */

static int append_body(struct weft_http *req, char *to, const void *body, size_t n, size_t space)
{
    struct weft__http_conn *conn = req->conn;
    char *from = (char *)conn->out->data + conn->out->len;
    bool content = has_content(req, req->status);
    if (content && n && (size_t)(to - from) + n <= space) {
        to = put(to, body, n);
        weft__http_out_commit(conn, (size_t)(to - from));
        req->sent = n;
        return 0;
    }
    weft__http_out_commit(conn, (size_t)(to - from));
    if (!content || !n) {
        return 0;
    }
    req->sent = n;
    return weft__http_out_append(conn, body, n);
}

int weft__http_respond_prebuilt(struct weft_http *req, int status, const char *head,
                                size_t head_len, const void *body, size_t n)
{
    size_t space = HEAD_MAX + head_len + (n <= WEFT__HTTP_OUTPUT_BYTES / 2 ? n : 0);
    char *to = start(req, status, space);
    req->framing = WEFT__HTTP_NO_CONTENT;
    req->stage = WEFT__HTTP_CONTENT;
    if (!to) {
        return -EPIPE;
    }
    to = put(to, head, head_len);
    close_if_body_large(req);
    return append_body(req, put_last_fields(req, to), body, n, space);
}

int weft_http_respond(weft_http *req, int status, const char *type, const void *body, size_t n)
{
    WEFT__NONNULL(req);
    size_t type_len = type ? strlen(type) : 0;
    WEFT__REQUIRE(type_len < WEFT__HTTP_OUTPUT_BYTES / 4, "content type of %zu bytes is too long",
                  type_len);
    if (type && !is_value(type)) {
        return -EINVAL;
    }
    size_t space = HEAD_MAX + type_len + (n <= WEFT__HTTP_OUTPUT_BYTES / 2 ? n : 0);
    char *to = start(req, status, space);
    req->framing = WEFT__HTTP_NO_CONTENT;
    req->stage = WEFT__HTTP_CONTENT;
    if (!to) {
        return -EPIPE;
    }
    to = put_status(to, status);
    if (type) {
        to = put(to, LITERAL("Content-Type: "));
        to = put(to, type, type_len);
        to = put(to, LITERAL("\r\n"));
    }
    if (status != 204 && status != 304) {
        to = put(to, LITERAL("Content-Length: "));
        to = put_number(to, n);
        to = put(to, LITERAL("\r\n"));
    }
    close_if_body_large(req);
    return append_body(req, put_last_fields(req, to), body, n, space);
}

int weft__http_respond_error(struct weft_http *req, int status, const char *why)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%d %s%s%s\n", status, weft__http_reason(status),
                     why ? ": " : "", why ? why : "");
    n = n < (int)sizeof text ? n : (int)sizeof text - 1;
    return weft_http_respond(req, status, "text/plain", text, (size_t)n);
}

/* --- responses in parts ----------------------------------------------------------------------- */

int weft_http_begin_response(weft_http *req, int status)
{
    WEFT__NONNULL(req);
    char *to = start(req, status, HEAD_MAX);
    req->length_set = false;
    if (!to) {
        return -EPIPE;
    }
    char *end = put_status(to, status);
    weft__http_out_commit(req->conn, (size_t)(end - to));
    return 0;
}

static bool is_token(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    const char *at = name;
    for (; *at; at++) {
        bool word =
            (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        if (!word && !strchr(others, *at)) {
            return false;
        }
    }
    return at > name;
}

/* Two of these in one header would let two readers disagree about where the response ends. */
static bool is_server_field(const char *name)
{
    static const char *const server_fields[] = {"Connection", "Content-Length", "Date",
                                                "Transfer-Encoding"};
    for (size_t i = 0; i < sizeof server_fields / sizeof *server_fields; i++) {
        if (strcasecmp(name, server_fields[i]) == 0) {
            return true;
        }
    }
    return false;
}

int weft_http_set_header(weft_http *req, const char *name, const char *value)
{
    WEFT__NONNULL(req);
    WEFT__REQUIRE(req->stage == WEFT__HTTP_FIELDS,
                  "header field set before the response begins or after its header");
    size_t name_len = strlen(name), value_len = strlen(value);
    if (!is_token(name) || is_server_field(name) || !is_value(value) ||
        name_len + value_len > WEFT__HTTP_OUTPUT_BYTES / 2) {
        return -EINVAL;
    }
    char *to = weft__http_out_reserve(req->conn, name_len + value_len + 4);
    if (!to) {
        return -EPIPE;
    }
    char *at = put(to, name, name_len);
    at = put(at, ": ", 2);
    at = put(at, value, value_len);
    at = put(at, "\r\n", 2);
    weft__http_out_commit(req->conn, (size_t)(at - to));
    return 0;
}

int weft_http_set_content_length(weft_http *req, uint64_t n)
{
    WEFT__NONNULL(req);
    WEFT__REQUIRE(req->stage == WEFT__HTTP_FIELDS && !req->length_set,
                  "the content length must be set once, between begin_response and the body");
    req->length_set = true;
    req->length_left = n;
    return 0;
}

static int end_head(struct weft_http *req)
{
    char *to = weft__http_out_reserve(req->conn, HEAD_MAX);
    req->stage = WEFT__HTTP_CONTENT;
    req->framing = WEFT__HTTP_NO_CONTENT;
    if (!to) {
        return -EPIPE;
    }
    char *at = to;
    if (req->status == 204 || req->status == 304) {
        /* no framing at all */
    } else if (req->length_set) {
        req->framing = WEFT__HTTP_FIXED_LENGTH;
        at = put(at, LITERAL("Content-Length: "));
        at = put_number(at, req->length_left);
        at = put(at, LITERAL("\r\n"));
    } else if (req->head.minor > 0) {
        req->framing = WEFT__HTTP_CHUNKS;
        at = put(at, LITERAL("Transfer-Encoding: chunked\r\n"));
    } else {
        req->framing = WEFT__HTTP_CLOSE_DELIMITED;
        req->conn->close = true;
    }
    if (!has_content(req, req->status)) {
        req->framing = WEFT__HTTP_NO_CONTENT;
    }
    at = put_last_fields(req, at);
    weft__http_out_commit(req->conn, (size_t)(at - to));
    return 0;
}

static int put_chunk(struct weft_http *req, const void *buf, size_t n)
{
    char line[24];
    int len = snprintf(line, sizeof line, "%zx\r\n", n);
    int err = weft__http_out_append(req->conn, line, (size_t)len);
    err = err ? err : weft__http_out_append(req->conn, buf, n);
    return err ? err : weft__http_out_append(req->conn, "\r\n", 2);
}

static void count_content(struct weft_http *req, uint64_t n)
{
    WEFT__REQUIRE(req->framing != WEFT__HTTP_FIXED_LENGTH || n <= req->length_left,
                  "HTTP response body is longer than its content length");
    req->length_left -= req->framing == WEFT__HTTP_FIXED_LENGTH ? n : 0;
    req->sent += n;
}

static int write_part(struct weft_http *req, const void *buf, size_t n)
{
    if (req->stage == WEFT__HTTP_FIELDS) {
        int err = end_head(req);
        if (err) {
            return err;
        }
    }
    if (req->framing == WEFT__HTTP_NO_CONTENT || n == 0) {
        return req->conn->broken ? -EPIPE : 0;
    }
    count_content(req, n);
    return req->framing == WEFT__HTTP_CHUNKS ? put_chunk(req, buf, n)
                                             : weft__http_out_append(req->conn, buf, n);
}

int weft_http_write(weft_http *req, const void *buf, size_t n, int64_t deadline)
{
    WEFT__NONNULL(req);
    WEFT__REQUIRE(req->stage != WEFT__HTTP_NOT_RESPONDED,
                  "HTTP response written before weft_http_begin_response");
    req->conn->deadline = deadline;
    int err = write_part(req, buf, n);
    req->conn->deadline = WEFT_FOREVER;
    return err;
}

int weft_http_flush(weft_http *req, int64_t deadline)
{
    WEFT__NONNULL(req);
    req->conn->deadline = deadline;
    int err = req->stage == WEFT__HTTP_FIELDS ? end_head(req) : 0;
    err = err ? err : weft__http_out_flush(req->conn);
    req->conn->deadline = WEFT_FOREVER;
    return err;
}

static int send_file(struct weft_http *req, int fd, uint64_t offset, uint64_t n)
{
    int err = req->stage == WEFT__HTTP_FIELDS ? end_head(req) : 0;
    if (err || req->framing == WEFT__HTTP_NO_CONTENT || n == 0) {
        return err;
    }
    WEFT__REQUIRE(req->framing == WEFT__HTTP_FIXED_LENGTH,
                  "weft_http_send_file without a content length");
    count_content(req, n);
    err = weft__http_out_file(req->conn, fd, offset, n);
    if (err) {
        req->conn->broken = req->conn->close = true;
    }
    return err;
}

int weft_http_send_file(weft_http *req, int fd, uint64_t offset, uint64_t n, int64_t deadline)
{
    WEFT__NONNULL(req);
    WEFT__REQUIRE(req->stage != WEFT__HTTP_NOT_RESPONDED,
                  "HTTP response written before weft_http_begin_response");
    req->conn->deadline = deadline;
    int err = send_file(req, fd, offset, n);
    req->conn->deadline = WEFT_FOREVER;
    return err;
}

/* --- the end of a response -------------------------------------------------------------------- */

static int status_for_error(int err)
{
    switch (-err) {
    case EMSGSIZE:
        return 413;
    case ETIMEDOUT:
        return 408;
    case EBADMSG:
        return 400;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return 503;
    default:
        return 500;
    }
}

/* Earlier responses in the buffer are complete and are still sent. If the body ends with the
 * connection, a reset tells the client that this response is incomplete. */
static void abort_connection(struct weft_http *req)
{
    weft__http_out_flush(req->conn);
    req->conn->broken = req->conn->close = true;
    if (req->stage == WEFT__HTTP_CONTENT && req->framing == WEFT__HTTP_CLOSE_DELIMITED) {
        struct linger reset = {.l_onoff = 1};
        setsockopt(req->conn->turn.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
}

static void finish_content(struct weft_http *req)
{
    if (req->framing == WEFT__HTTP_CHUNKS) {
        weft__http_out_append(req->conn, LITERAL("0\r\n\r\n"));
    } else if (req->framing == WEFT__HTTP_FIXED_LENGTH && req->length_left) {
        abort_connection(req);
    }
}

void weft__http_response_finish(struct weft_http *req, int err)
{
    if (err < 0 && req->stage != WEFT__HTTP_NOT_RESPONDED && !req->partly_sent &&
        !req->conn->broken) {
        weft__http_out_rewind(req);
    }
    if (req->stage == WEFT__HTTP_NOT_RESPONDED) {
        if (req->body_err == -ECONNRESET) { /* no client is left to read it */
            abort_connection(req);
            return;
        }
        int status = status_for_error(err);
        req->conn->close |= status == 408 || status == 413 || status == 400;
        weft__http_respond_error(req, status, NULL);
        return;
    }
    if (err < 0) {
        abort_connection(req);
        return;
    }
    if (req->stage == WEFT__HTTP_FIELDS) {
        if (!req->length_set && req->status != 204 && req->status != 304) {
            weft_http_set_content_length(req, 0);
        }
        close_if_body_large(req);
        end_head(req);
    }
    finish_content(req);
}
