/* What handlers send: collected in a chain, and written when enough has come together, or when the
 * turn has nothing more to do. Output from elsewhere (sender.c) that a sender could not write is
 * written after it, by the turn, which may wait for the client. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/nonnull.h"
#include "conn/conn.h"

#define FILE_MAX (1 << 30) /* bytes in one call */
#define PARTS 64

static int fail(weft_conn *conn, int err)
{
    conn->broken = true;
    if (weft__turn_timed_out(&conn->turn, WEFT__PHASE_WRITE)) {
        /* Otherwise the kernel would keep the unread bytes for minutes. */
        setsockopt(conn->turn.fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                   sizeof(struct linger));
        return -ETIMEDOUT;
    }
    return err;
}

/* Returns false if the client is too slow. */
static bool count_written(weft_conn *conn, size_t n)
{
    weft__shard_count(&conn->shard->bytes_out, n);
    bool good = weft__write_end(&conn->turn, n);
    if (weft__turn_written(&conn->turn) >= conn->yield_at) {
        conn->yield_at = weft__turn_written(&conn->turn) + WEFT__CONN_YIELD_BYTES;
        weft_yield();
    }
    return good;
}

static ssize_t write_some(weft_conn *conn, const weft_bufs *chain)
{
    struct iovec iov[PARTS];
    int count = weft_bufs_iovec(chain, iov, PARTS);
    bool watched = weft__write_begin(&conn->turn);
    ssize_t n = weft_writev(conn->turn.fd, iov, count, watched ? 0 : conn->deadline);
    if (watched && n == -ETIMEDOUT) {
        n = weft_writev(conn->turn.fd, iov, count, conn->deadline);
    }
    weft__turn_enter_busy(&conn->turn);
    return n;
}

static int write_chain(weft_conn *conn, weft_bufs *chain)
{
    while (chain->bytes) {
        ssize_t n = write_some(conn, chain);
        if (n < 0 || !count_written(conn, (size_t)n)) {
            return fail(conn, n < 0 ? (int)n : -ETIMEDOUT);
        }
        weft_bufs_consume(chain, (size_t)n);
    }
    return 0;
}

/* Writes what is queued from elsewhere now; it counts for the budget until it is written. Returns 0,
 * an error, or 1 if something was written: then more may be queued. */
static int write_outbox(weft_conn *conn)
{
    struct weft__conn_session *session = conn->session;
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    weft__lock(&conn->shard->lock);
    weft_bufs taken = session->outbox;
    session->outbox = (weft_bufs){0};
    weft__unlock(&conn->shard->lock);
    size_t bytes = taken.bytes;
    session->outbox_begun = false;
    if (!bytes) {
        return 0;
    }
    int err = write_chain(conn, &taken);
    weft_bufs_free(&taken);
    weft__lock(&conn->shard->lock);
    bool below = weft__sender_settle_locked(conn->server, session, bytes);
    weft__unlock(&conn->shard->lock);
    if (below && protocol->pressure) {
        protocol->pressure(session->id, false, conn->listener->arg);
    }
    return err ? err : 1;
}

static int flush_outbox(weft_conn *conn)
{
    int err;
    do {
        err = write_outbox(conn);
    } while (err > 0);
    return err;
}

/* A sender may have written a part of a buffer: the rest comes before anything else. */
static int flush_own(weft_conn *conn)
{
    if (conn->broken) {
        return -EPIPE;
    }
    int err = conn->session->outbox_begun ? write_outbox(conn) : 0;
    return err < 0 ? err : write_chain(conn, &conn->out);
}

int weft__conn_flush(weft_conn *conn)
{
    int err = flush_own(conn);
    return err ? err : flush_outbox(conn);
}

/* --- the calls of a handler ------------------------------------------------------------------ */

static int flush_if_due(weft_conn *conn, int64_t deadline)
{
    if (conn->out.bytes < WEFT__CONN_OUTPUT_BYTES) {
        return 0;
    }
    conn->deadline = deadline;
    int err = flush_own(conn);
    conn->deadline = WEFT_FOREVER;
    return err;
}

/* Appends to the last buffer, or to a new one. */
static int append(weft_conn *conn, const void *bytes, size_t n)
{
    weft_buf *last = conn->out.first ? conn->out.weft_last : NULL;
    if (last && weft_buf_is_writable(last) && weft_buf_tailroom(last) >= n) {
        memcpy(weft_buf_put(last, n), bytes, n);
        conn->out.bytes += n;
        return 0;
    }
    size_t space = n < WEFT__CONN_INPUT_BYTES ? WEFT__CONN_INPUT_BYTES : n;
    weft_buf *buf = weft_buf_alloc(space, 0);
    if (!buf) {
        conn->broken = true;
        return -ENOMEM;
    }
    memcpy(weft_buf_put(buf, n), bytes, n);
    weft_bufs_append(&conn->out, buf);
    return 0;
}

int weft_conn_send(weft_conn *conn, const void *bytes, size_t n, int64_t deadline)
{
    WEFT__NONNULL(conn);
    if (conn->broken) {
        return -EPIPE;
    }
    int err = n ? append(conn, bytes, n) : 0;
    return err ? err : flush_if_due(conn, deadline);
}

int weft_conn_send_buf(weft_conn *conn, weft_buf *buf, int64_t deadline)
{
    WEFT__NONNULL(conn);
    WEFT__NONNULL(buf);
    if (conn->broken || buf->len == 0) {
        weft_buf_free(buf);
        return conn->broken ? -EPIPE : 0;
    }
    weft_bufs_append(&conn->out, buf);
    return flush_if_due(conn, deadline);
}

int weft_conn_flush(weft_conn *conn, int64_t deadline)
{
    WEFT__NONNULL(conn);
    conn->deadline = deadline;
    int err = weft__conn_flush(conn);
    conn->deadline = WEFT_FOREVER;
    return err;
}

static int send_file(weft_conn *conn, int fd, uint64_t offset, uint64_t n)
{
    int64_t at = (int64_t)offset;
    int err = flush_own(conn);
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
            err = fail(conn, sent == 0 ? -ENODATA : (int)sent);
        }
    }
    return err;
}

int weft_conn_send_file(weft_conn *conn, int fd, uint64_t offset, uint64_t n, int64_t deadline)
{
    WEFT__NONNULL(conn);
    conn->deadline = deadline;
    int err = send_file(conn, fd, offset, n);
    conn->deadline = WEFT_FOREVER;
    return err;
}
