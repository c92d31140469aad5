/* The write buffer: collects responses and writes them together. It is allocated only while it
 * holds data, so that an idle connection has none. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/io.h>

#include "http/conn.h"

#define FILE_MAX (1 << 30) /* bytes in one call */

static int fail(struct weft__http_conn *conn, int err)
{
    conn->broken = conn->close = true;
    if (weft__turn_timed_out(&conn->turn, WEFT__PHASE_WRITE)) {
        /* Otherwise the kernel would keep the unread bytes for minutes. */
        setsockopt(conn->turn.fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                   sizeof(struct linger));
        return -ETIMEDOUT;
    }
    return err;
}

/* Bytes that were sent cannot be taken back. */
static void release_buffer(struct weft__http_conn *conn)
{
    if (conn->req.stage != WEFT__HTTP_NOT_RESPONDED) {
        conn->req.partly_sent = true;
    }
    weft_buf_free(conn->out);
    conn->out = NULL;
}

static void advance(struct iovec *iov, int *count, size_t n)
{
    int gone = 0;
    while (gone < *count && n >= iov[gone].iov_len) {
        n -= iov[gone++].iov_len;
    }
    *count -= gone;
    if (*count) {
        memmove(iov, iov + gone, (size_t)*count * sizeof *iov);
        iov->iov_base = (char *)iov->iov_base + n;
        iov->iov_len -= n;
    }
}

/* Returns false if the client is too slow. A client that reads as fast as this writes never makes
 * the fiber wait, so the fiber yields explicitly to let others on this worker run. */
static inline bool count_written(struct weft__http_conn *conn, size_t n)
{
    weft__http_count(conn->shard, WEFT__HTTP_N_BYTES_OUT, n);
    bool good = weft__write_end(&conn->turn, n);
    if (weft__turn_written(&conn->turn) >= conn->yield_at) {
        conn->yield_at = weft__turn_written(&conn->turn) + WEFT__HTTP_YIELD_BYTES;
        weft_yield();
    }
    return good;
}

static inline ssize_t write_once(const struct weft__http_conn *conn, const struct iovec *iov,
                                 int count, int64_t deadline)
{
    return count == 1 ? weft_write(conn->turn.fd, iov->iov_base, iov->iov_len, deadline)
                      : weft_writev(conn->turn.fd, iov, count, deadline);
}

/* A completion-based driver takes time even if there is buffer space: that time must not count
 * against the client. */
static __attribute__((noinline)) ssize_t try_write_first(const struct weft__http_conn *conn,
                                                         const struct iovec *iov, int count)
{
    ssize_t n = write_once(conn, iov, count, 0);
    return n == -ETIMEDOUT ? write_once(conn, iov, count, conn->deadline) : n;
}

static int write_all(struct weft__http_conn *conn, struct iovec *iov, int count)
{
    while (count) {
        ssize_t n = weft__write_begin(&conn->turn) ? try_write_first(conn, iov, count)
                                                   : write_once(conn, iov, count, conn->deadline);
        weft__turn_enter_busy(&conn->turn);
        if (n < 0 || !count_written(conn, (size_t)n)) {
            return fail(conn, n < 0 ? (int)n : -ETIMEDOUT);
        }
        advance(iov, &count, (size_t)n);
    }
    return 0;
}

/* Writes the buffer and `n` more bytes. */
static int write_buffered_and(struct weft__http_conn *conn, const void *bytes, size_t n)
{
    struct iovec iov[2];
    int count = 0;
    if (conn->broken) {
        return -EPIPE;
    }
    if (conn->out) {
        iov[count++] = (struct iovec){conn->out->data, conn->out->len};
    }
    if (n) {
        iov[count++] = (struct iovec){(void *)(uintptr_t)bytes, n};
    }
    int err = write_all(conn, iov, count);
    weft__http_count(conn->shard, WEFT__HTTP_N_FLUSHES, 1);
    release_buffer(conn);
    weft__http_out_record_durations(conn);
    return err;
}

void weft__http_out_record_durations(struct weft__http_conn *conn)
{
    if (conn->pending_responses && !conn->out) {
        weft__http_shard_add_duration(conn->shard, weft_now() - conn->now, conn->pending_responses);
        conn->pending_responses = 0;
    }
}

int weft__http_out_flush(struct weft__http_conn *conn)
{
    return conn->out ? write_buffered_and(conn, NULL, 0) : conn->broken ? -EPIPE : 0;
}

ssize_t weft__http_send_503(int fd)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                                 "Retry-After: 1\r\nConnection: close\r\n\r\n";
    return send(fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void weft__http_out_reject(struct weft__http_conn *conn)
{
    ssize_t n = weft__http_send_503(conn->turn.fd);
    conn->broken = conn->close = conn->unread = true;
    conn->sent_503 = n > 0;
    if (n > 0) {
        weft__http_count(conn->shard, WEFT__HTTP_N_BYTES_OUT, (uint64_t)n);
    }
}

char *weft__http_out_reserve(struct weft__http_conn *conn, size_t n)
{
    if (conn->out && weft_buf_tailroom(conn->out) < n && weft__http_out_flush(conn) != 0) {
        return NULL;
    }
    if (!conn->out) {
        conn->out = conn->broken ? NULL : weft_buf_alloc(WEFT__HTTP_OUTPUT_BYTES, 0);
        if (!conn->out) {
            if (!conn->broken && conn->req.stage == WEFT__HTTP_NOT_RESPONDED) {
                weft__http_out_reject(conn);
            }
            conn->broken = conn->close = true;
            return NULL;
        }
        conn->req.response_start = 0;
    }
    return (char *)conn->out->data + conn->out->len;
}

int weft__http_out_append(struct weft__http_conn *conn, const void *bytes, size_t n)
{
    if (n > WEFT__HTTP_OUTPUT_BYTES / 2) {
        return write_buffered_and(conn, bytes, n);
    }
    char *to = weft__http_out_reserve(conn, n);
    if (!to) {
        return -EPIPE;
    }
    memcpy(to, bytes, n);
    weft__http_out_commit(conn, n);
    return 0;
}

void weft__http_out_rewind(struct weft_http *req)
{
    weft_buf *out = req->conn->out;
    if (out && out->len > req->response_start) {
        weft_buf_trim(out, out->len - req->response_start);
    }
    req->stage = WEFT__HTTP_NOT_RESPONDED;
    req->status = 0;
    req->sent = 0;
}

/* The header is sent together with the first bytes of the file, if the socket has space for it. */
static int send_buffered(struct weft__http_conn *conn)
{
    if (!conn->out || conn->broken) {
        return weft__http_out_flush(conn);
    }
    size_t n = conn->out->len;
    ssize_t sent = send(conn->turn.fd, conn->out->data, n, MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) {
        return weft__http_out_flush(conn);
    }
    weft__http_count(conn->shard, WEFT__HTTP_N_BYTES_OUT, (uint64_t)sent);
    weft__turn_add_written(&conn->turn, (size_t)sent);
    weft_buf_pull(conn->out, (size_t)sent);
    if (conn->out->len) {
        return weft__http_out_flush(conn);
    }
    weft__http_count(conn->shard, WEFT__HTTP_N_FLUSHES, 1);
    release_buffer(conn);
    return 0;
}

int weft__http_out_file(struct weft__http_conn *conn, int fd, uint64_t offset, uint64_t n)
{
    int64_t at = (int64_t)offset;
    int err = send_buffered(conn);
    while (!err && n) {
        weft__write_begin(&conn->turn);
        ssize_t sent = weft_sendfile(conn->turn.fd, fd, at, n < FILE_MAX ? (size_t)n : FILE_MAX,
                                     conn->deadline);
        weft__turn_enter_busy(&conn->turn);
        if (sent > 0) {
            at += sent;
            n -= (uint64_t)sent;
            err = count_written(conn, (size_t)sent) ? 0 : fail(conn, -ETIMEDOUT);
        } else {
            err = sent == 0 ? -ENODATA : fail(conn, (int)sent);
        }
    }
    conn->req.sent -= n; /* everything was counted before; this part was not sent */
    return err;
}
