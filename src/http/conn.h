/* A connection in a turn: its two buffers, its parser, and its current request. It lives on the
 * stack of the turn's fiber; what outlives the turn is in the session (server/session.h). */
#ifndef WEFT_HTTP_CONN_H
#define WEFT_HTTP_CONN_H

#include "http/server.h"
#include "server/session.h"

enum {
    WEFT__HTTP_INPUT_BYTES = 4096,   /* initial size of the read buffer */
    WEFT__HTTP_OUTPUT_BYTES = 16384, /* size of the write buffer */
    WEFT__HTTP_PATH_BYTES = 256,     /* longer paths are allocated */
    WEFT__HTTP_DISCARD_MAX =
        65536, /* largest unread body that is discarded before the next request */
    WEFT__HTTP_YIELD_BYTES = 1 << 20 /* bytes to write between two yields */
};

enum weft__http_response_stage {
    WEFT__HTTP_NOT_RESPONDED,
    WEFT__HTTP_FIELDS, /* begun; header fields may follow */
    WEFT__HTTP_CONTENT,
};

enum weft__http_framing {
    WEFT__HTTP_NO_CONTENT, /* written bytes are dropped */
    WEFT__HTTP_FIXED_LENGTH,
    WEFT__HTTP_CHUNKS,
    WEFT__HTTP_CLOSE_DELIMITED,
};

struct weft_http {
    struct weft__http_conn *conn;
    weft_http_head head;
    const char *data; /* the bytes that the spans of `head` refer to */
    const char *path;
    size_t path_len;
    weft_buf *path_buf; /* holds a long path */

    /* The request body. */
    uint64_t body_left; /* if it has a Content-Length */
    uint64_t body_seen, body_max;
    const char *piece; /* decoded bytes of a chunk that the handler has not read yet */
    size_t piece_len;
    size_t body_start; /* where the body began in the read buffer */
    int64_t waited_ns;
    int body_err; /* final */
    bool body_done, continue_pending;
    weft_http_chunked chunked;

    /* The response. */
    enum weft__http_response_stage stage;
    enum weft__http_framing framing;
    int status;
    bool length_set;
    bool partly_sent;      /* a part of the response was written to the socket */
    size_t response_start; /* where the response begins in the write buffer, if no part was sent */
    uint64_t length_left, sent;
    char path_inline[WEFT__HTTP_PATH_BYTES];
};

struct weft__http_conn {
    struct weft__turn turn;
    struct weft_http req;
    struct weft_http_server *server;
    struct weft__http_shard *shard;
    struct weft_addr peer;

    /* Bytes [start, end) of `in` are not consumed yet. */
    weft_buf *in;
    size_t start, end;
    weft_buf *out; /* NULL while there is nothing to write */

    int64_t now;                /* when the last bytes arrived */
    int64_t deadline;           /* of the handler's call; WEFT_FOREVER outside of these */
    uint64_t yield_at;          /* yield when `written` reaches this */
    uint32_t pending_responses; /* responses in the write buffer */
    uint32_t since_yield;       /* requests since the last yield */
    bool close;                 /* close after this response */
    bool unread;                /* the client may still send: linger */
    bool broken;                /* writing has failed */
    bool sent_503;              /* ... because there is no memory, and the client got a 503 */
    bool grace_expired;         /* closed because the grace period of a stop is over */
    bool rests;                 /* the turn is over: nothing is there to be done */

    struct weft_http_field *fields;
    struct weft_http_field fields_inline[WEFT_HTTP_FIELDS];
};

/* What src/server needs to know of HTTP. */
extern const struct weft__server_protocol weft__http_protocol;

/* --- request.c ------------------------------------------------------------------------------ */

static inline struct weft_http_text weft__http_text_of(const weft_http *req,
                                                       struct weft_http_span span)
{
    return (struct weft_http_text){req->data + span.at, span.len};
}
/* Decodes and normalises the path. Returns 0, or the status with which to reject the request. */
int weft__http_decode_path(struct weft_http *req);

/* --- request_serve.c ------------------------------------------------------------------------ */

/* Serves the request whose head was read. head_len: the head's length. */
void weft__http_serve_request(struct weft__http_conn *conn, size_t head_len);
/* There is no valid request, but an error response to send. err: as weft__http_input_head. */
void weft__http_reject_head(struct weft__http_conn *conn, ssize_t err);

/* --- input.c -------------------------------------------------------------------------------- */

static inline char *weft__http_input(const struct weft__http_conn *conn)
{
    return (char *)conn->in->data;
}
static inline size_t weft__http_input_capacity(const struct weft__http_conn *conn)
{
    return conn->in->len;
}
/* Makes space for more of a partial header. Returns false if there is no memory. */
bool weft__http_input_grow(struct weft__http_conn *conn);
/* Makes room for `room` more bytes after a header that must stay where it is. Returns false if
 * there is no memory. */
bool weft__http_input_reserve(struct weft__http_conn *conn, size_t room);
/* Flushes the write buffer, then reads with weft_read in the given phase. Returns as weft_read. */
ssize_t weft__http_input_read(struct weft__http_conn *conn, enum weft__phase phase, void *to,
                              size_t n);

/* --- request_read.c ------------------------------------------------------------------------- */

/* Reads the next request header. Returns its length; 0 if the connection is over, or rests (then
 * conn->rests is set); -EBADMSG if it was rejected (see head); -ETIMEDOUT if the client is too slow;
 * -ENOMEM. */
ssize_t weft__http_input_head(struct weft__http_conn *conn);

/* --- request_body.c ------------------------------------------------------------------------- */

void weft__http_body_begin(struct weft_http *req, uint64_t most);
/* Discards the unread part. */
void weft__http_body_finish(struct weft_http *req);

/* --- output.c ------------------------------------------------------------------------------- */

/* All of these return 0 or an error, after which the connection is broken. */
int weft__http_out_flush(struct weft__http_conn *conn);
/* If the write buffer is empty, records the duration of the responses that were in it. */
void weft__http_out_record_durations(struct weft__http_conn *conn);
int weft__http_out_append(struct weft__http_conn *conn, const void *bytes, size_t n);
/* Returns space for n contiguous bytes (up to WEFT__HTTP_OUTPUT_BYTES); NULL if the connection is
 * broken. Call commit afterwards. */
char *weft__http_out_reserve(struct weft__http_conn *conn, size_t n);
static inline void weft__http_out_commit(struct weft__http_conn *conn, size_t n)
{
    weft_buf_put(conn->out, n);
}
/* Writes the buffer, then the bytes of the file. Returns -ENODATA if the file is shorter. */
int weft__http_out_file(struct weft__http_conn *conn, int fd, uint64_t offset, uint64_t n);
/* Sends a 503 without allocating and without waiting. Returns the number of bytes sent; <= 0:
 * none. */
ssize_t weft__http_send_503(int fd);
/* The same on a connection, which is broken afterwards. */
void weft__http_out_reject(struct weft__http_conn *conn);
/* Removes the part of this response that was not sent from the buffer. */
void weft__http_out_rewind(struct weft_http *req);

/* --- response.c ----------------------------------------------------------------------------- */

/* Sends a prebuilt header (without its Date and Connection fields and the empty line), then a
 * body. */
int weft__http_respond_prebuilt(struct weft_http *req, int status, const char *head,
                                size_t head_len, const void *body, size_t n);
/* Sends an error response of the server itself, with a short text. */
int weft__http_respond_error(struct weft_http *req, int status, const char *why);
/* The handler has returned: completes the response, or sends an error response. */
void weft__http_response_finish(struct weft_http *req, int err);
const char *weft__http_reason(int status);

#endif
