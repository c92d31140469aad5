/* Responses: header, framing, and the error responses of the server itself. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/need.h"
#include "http/conn.h"

/* Enough for the status line and all fields that the server adds itself. */
enum { HEAD_ROOM = 256, NUMBER = 20 };

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
static char *put_last_fields(struct weft_http *x, char *to)
{
    struct weft__http_conn *conn = x->conn;
    to = put(to, weft__http_shard_date(conn->shard, weft_now_cached()), WEFT__HTTP_DATE_LINE);
    /* It is unknown whether a body whose "100 Continue" was never sent will arrive; and a stop may
     * have begun while the handler ran. Requests that arrived after this one are served before the
     * close. */
    bool has_next = x->body_over && conn->end > conn->start;
    conn->close |= x->continue_due || (weft__http_stopping(conn->server) && !has_next);
    if (conn->close) {
        to = put(to, LITERAL("Connection: close\r\n"));
    } else if (x->head.minor == 0) {
        to = put(to, LITERAL("Connection: keep-alive\r\n"));
    }
    return put(to, LITERAL("\r\n"));
}

static bool has_content(const struct weft_http *x, int status)
{
    return x->head.method != WEFT_HTTP_HEAD && status != 204 && status != 304;
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
static char *start(struct weft_http *x, int status, size_t room)
{
    WEFT__REQUIRE(x->stage == WEFT__HTTP_UNANSWERED, "a second answer to an HTTP request");
    WEFT__REQUIRE(status >= 200 && status <= 599, "an HTTP answer with the status %d", status);
    WEFT__REQUIRE(weft_worker_self() == x->conn->worker &&
                      weft_pool_self() == x->conn->server->pool,
                  "an HTTP answer from another worker than that of its connection");
    char *to = weft__http_out_room(x->conn, room);
    if (to) {
        x->mark = x->conn->out->len;
        x->begun_on_wire = false;
    }
    x->stage = WEFT__HTTP_FIELDS;
    x->status = x->conn->turned_away ? 503 : status;
    x->sent = 0;
    return to;
}

/* The handler only responds: the part of the body that it leaves unread may be too large to read
 * and discard (weft__http_body_finish). */
static void give_up_body(struct weft_http *x)
{
    x->conn->close |= x->body_left > WEFT__HTTP_DROPPED;
}

/* --- complete responses ----------------------------------------------------------------------- */

static int body_behind(struct weft_http *x, char *to, const void *body, size_t n, size_t room)
{
    struct weft__http_conn *conn = x->conn;
    char *from = (char *)conn->out->data + conn->out->len;
    bool content = has_content(x, x->status);
    if (content && n && (size_t)(to - from) + n <= room) {
        to = put(to, body, n);
        weft__http_out_used(conn, (size_t)(to - from));
        x->sent = n;
        return 0;
    }
    weft__http_out_used(conn, (size_t)(to - from));
    if (!content || !n) {
        return 0;
    }
    x->sent = n;
    return weft__http_out_put(conn, body, n);
}

int weft__http_answer_made(struct weft_http *x, int status, const char *head, size_t head_len,
                           const void *body, size_t n)
{
    size_t room = HEAD_ROOM + head_len + (n <= WEFT__HTTP_OUTPUT / 2 ? n : 0);
    char *to = start(x, status, room);
    x->framing = WEFT__HTTP_NO_CONTENT;
    x->stage = WEFT__HTTP_CONTENT;
    if (!to) {
        return -EPIPE;
    }
    to = put(to, head, head_len);
    give_up_body(x);
    return body_behind(x, put_last_fields(x, to), body, n, room);
}

int weft_http_answer(weft_http *x, int status, const char *type, const void *body, size_t n)
{
    WEFT__NEED(x);
    size_t type_len = type ? strlen(type) : 0;
    WEFT__REQUIRE(type_len < WEFT__HTTP_OUTPUT / 4, "a content type of %zu bytes", type_len);
    if (type && !is_value(type)) {
        return -EINVAL;
    }
    size_t room = HEAD_ROOM + type_len + (n <= WEFT__HTTP_OUTPUT / 2 ? n : 0);
    char *to = start(x, status, room);
    x->framing = WEFT__HTTP_NO_CONTENT;
    x->stage = WEFT__HTTP_CONTENT;
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
    give_up_body(x);
    return body_behind(x, put_last_fields(x, to), body, n, room);
}

int weft__http_answer_error(struct weft_http *x, int status, const char *why)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%d %s%s%s\n", status, weft__http_reason(status),
                     why ? ": " : "", why ? why : "");
    n = n < (int)sizeof text ? n : (int)sizeof text - 1;
    return weft_http_answer(x, status, "text/plain", text, (size_t)n);
}

/* --- responses in parts ----------------------------------------------------------------------- */

int weft_http_begin(weft_http *x, int status)
{
    WEFT__NEED(x);
    char *to = start(x, status, HEAD_ROOM);
    x->length_set = false;
    if (!to) {
        return -EPIPE;
    }
    char *end = put_status(to, status);
    weft__http_out_used(x->conn, (size_t)(end - to));
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
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"Connection", "Content-Length", "Date", "Transfer-Encoding"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strcasecmp(name, ours[i]) == 0) {
            return true;
        }
    }
    return false;
}

int weft_http_set(weft_http *x, const char *name, const char *value)
{
    WEFT__NEED(x);
    WEFT__REQUIRE(x->stage == WEFT__HTTP_FIELDS,
                  "a field is set before the answer begins, or behind its head");
    size_t name_len = strlen(name), value_len = strlen(value);
    if (!is_token(name) || is_ours(name) || !is_value(value) ||
        name_len + value_len > WEFT__HTTP_OUTPUT / 2) {
        return -EINVAL;
    }
    char *to = weft__http_out_room(x->conn, name_len + value_len + 4);
    if (!to) {
        return -EPIPE;
    }
    char *at = put(to, name, name_len);
    at = put(at, ": ", 2);
    at = put(at, value, value_len);
    at = put(at, "\r\n", 2);
    weft__http_out_used(x->conn, (size_t)(at - to));
    return 0;
}

int weft_http_set_length(weft_http *x, uint64_t n)
{
    WEFT__NEED(x);
    WEFT__REQUIRE(x->stage == WEFT__HTTP_FIELDS && !x->length_set,
                  "the length is set once, between begin and body");
    x->length_set = true;
    x->length_left = n;
    return 0;
}

static int end_head(struct weft_http *x)
{
    char *to = weft__http_out_room(x->conn, HEAD_ROOM);
    x->stage = WEFT__HTTP_CONTENT;
    x->framing = WEFT__HTTP_NO_CONTENT;
    if (!to) {
        return -EPIPE;
    }
    char *at = to;
    if (x->status == 204 || x->status == 304) {
        /* no framing at all */
    } else if (x->length_set) {
        x->framing = WEFT__HTTP_COUNTED;
        at = put(at, LITERAL("Content-Length: "));
        at = put_number(at, x->length_left);
        at = put(at, LITERAL("\r\n"));
    } else if (x->head.minor > 0) {
        x->framing = WEFT__HTTP_CHUNKS;
        at = put(at, LITERAL("Transfer-Encoding: chunked\r\n"));
    } else {
        x->framing = WEFT__HTTP_TO_THE_END;
        x->conn->close = true;
    }
    if (!has_content(x, x->status)) {
        x->framing = WEFT__HTTP_NO_CONTENT;
    }
    at = put_last_fields(x, at);
    weft__http_out_used(x->conn, (size_t)(at - to));
    return 0;
}

static int put_chunk(struct weft_http *x, const void *buf, size_t n)
{
    char line[24];
    int len = snprintf(line, sizeof line, "%zx\r\n", n);
    int err = weft__http_out_put(x->conn, line, (size_t)len);
    err = err ? err : weft__http_out_put(x->conn, buf, n);
    return err ? err : weft__http_out_put(x->conn, "\r\n", 2);
}

static void count_down(struct weft_http *x, uint64_t n)
{
    WEFT__REQUIRE(x->framing != WEFT__HTTP_COUNTED || n <= x->length_left,
                  "more bytes in an HTTP answer than its length says");
    x->length_left -= x->framing == WEFT__HTTP_COUNTED ? n : 0;
    x->sent += n;
}

int weft_http_write(weft_http *x, const void *buf, size_t n)
{
    WEFT__NEED(x);
    WEFT__REQUIRE(x->stage != WEFT__HTTP_UNANSWERED,
                  "an HTTP answer is written before it has begun");
    if (x->stage == WEFT__HTTP_FIELDS) {
        int err = end_head(x);
        if (err) {
            return err;
        }
    }
    if (x->framing == WEFT__HTTP_NO_CONTENT || n == 0) {
        return x->conn->broken ? -EPIPE : 0;
    }
    count_down(x, n);
    return x->framing == WEFT__HTTP_CHUNKS ? put_chunk(x, buf, n)
                                           : weft__http_out_put(x->conn, buf, n);
}

int weft_http_flush(weft_http *x)
{
    WEFT__NEED(x);
    int err = x->stage == WEFT__HTTP_FIELDS ? end_head(x) : 0;
    return err ? err : weft__http_out_flush(x->conn);
}

int weft_http_send_file(weft_http *x, int fd, uint64_t offset, uint64_t n)
{
    WEFT__NEED(x);
    WEFT__REQUIRE(x->stage != WEFT__HTTP_UNANSWERED,
                  "an HTTP answer is written before it has begun");
    int err = x->stage == WEFT__HTTP_FIELDS ? end_head(x) : 0;
    if (err || x->framing == WEFT__HTTP_NO_CONTENT || n == 0) {
        return err;
    }
    WEFT__REQUIRE(x->framing == WEFT__HTTP_COUNTED, "a file is sent without a length");
    count_down(x, n);
    err = weft__http_out_file(x->conn, fd, offset, n);
    if (err) {
        x->conn->broken = x->conn->close = true;
    }
    return err;
}

bool weft_http_begun(const weft_http *x)
{
    WEFT__NEED(x);
    return x->stage != WEFT__HTTP_UNANSWERED;
}

/* --- the end of a response -------------------------------------------------------------------- */

static int status_of(int err)
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
static void cut(struct weft_http *x)
{
    weft__http_out_flush(x->conn);
    x->conn->broken = x->conn->close = true;
    if (x->stage == WEFT__HTTP_CONTENT && x->framing == WEFT__HTTP_TO_THE_END) {
        struct linger reset = {.l_onoff = 1};
        setsockopt(x->conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
}

static void finish_content(struct weft_http *x)
{
    if (x->framing == WEFT__HTTP_CHUNKS) {
        weft__http_out_put(x->conn, LITERAL("0\r\n\r\n"));
    } else if (x->framing == WEFT__HTTP_COUNTED && x->length_left) {
        cut(x);
    }
}

void weft__http_answer_finish(struct weft_http *x, int err)
{
    if (err < 0 && x->stage != WEFT__HTTP_UNANSWERED && !x->begun_on_wire && !x->conn->broken) {
        weft__http_out_rewind(x);
    }
    if (x->stage == WEFT__HTTP_UNANSWERED) {
        if (x->body_err == -ECONNRESET) { /* no client is left to read it */
            cut(x);
            return;
        }
        int status = status_of(err);
        x->conn->close |= status == 408 || status == 413 || status == 400;
        weft__http_answer_error(x, status, NULL);
        return;
    }
    if (err < 0) {
        cut(x);
        return;
    }
    if (x->stage == WEFT__HTTP_FIELDS) {
        if (!x->length_set && x->status != 204 && x->status != 304) {
            weft_http_set_length(x, 0);
        }
        give_up_body(x);
        end_head(x);
    }
    finish_content(x);
}
