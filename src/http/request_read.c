/* Reads the head of the next request: parses what is in the read buffer, and reads more until the
 * head is complete, is rejected, or the connection is over.
 *
 * There are two waits, each with its own timeout, which starts once. Before the first byte the
 * connection is idle (WEFT__PHASE_IDLE): it may rest or be evicted, and a stop ends the wait. From the first
 * byte on it is in a head (WEFT__PHASE_HEADER): the timeout covers the whole head, so a client
 * cannot prolong it by sending one byte at a time. Pending responses are flushed before each
 * wait. Used by the connection's fiber only.
 */
#include <errno.h>

#include <weft/io.h>

#include "http/conn.h"

/* A client that sends a lot does not keep the worker longer than others. */
static void yield_if_due(struct weft__http_conn *conn)
{
    if (conn->since_yield >= 64) {
        conn->since_yield = 0;
        weft_yield();
    }
}

static ssize_t over(struct weft__http_conn *conn, bool partial, ssize_t got)
{
    bool late = weft__turn_timed_out(&conn->turn, partial ? WEFT__PHASE_HEADER : WEFT__PHASE_IDLE);
    conn->broken |= got < 0;
    return partial && late && got == 0 ? -ETIMEDOUT : 0;
}

/* A connection that rests as soon as there is nothing to do. */
static bool rests_at_once(const struct weft__http_conn *conn)
{
    return conn->turn.session->may_rest && conn->turn.server->opts.rest_ns == 0;
}

/* Ends the wait because the connection has been silent for long enough, or because the grace period
 * of a stop is over: takes what has arrived already. An interrupt that came too late must not end a
 * wait of a handler. */
static ssize_t end_wait(struct weft__http_conn *conn, char *to, size_t space, ssize_t got)
{
    weft_fiber_clear_interrupt();
    return got == -EINTR ? weft_read(conn->turn.fd, to, space, 0) : got;
}

/* Waits for the next request. The wait is ended from outside by an interrupt, on this thread
 * (server/timeout.c, server/stop.c). */
static ssize_t read_next(struct weft__http_conn *conn, char *to, size_t space)
{
    struct weft__session *session = conn->turn.session;
    bool over = weft__stop_stage(conn->turn.server) >= WEFT__STOP_IDLE;
    bool rests = rests_at_once(conn);
    ssize_t got = weft_read(conn->turn.fd, to, space, over || rests ? 0 : WEFT_FOREVER);
    if (session->woken || session->rest_due) {
        got = end_wait(conn, to, space, got);
        rests |= session->rest_due;
        over |= session->woken;
        session->woken = session->rest_due = false;
    }
    if (got != -ETIMEDOUT) {
        return got;
    }
    if (over) {
        conn->grace_expired = true;
    } else if (rests) {
        conn->rests = true;
    }
    return over || rests ? 0 : got;
}

/* Returns 1 if more bytes were read. */
static ssize_t fill(struct weft__http_conn *conn, bool partial, bool first_wait)
{
    ssize_t got;
    if (!partial) {
        conn->start = conn->end = 0;
    } else if (!weft__http_input_grow(conn)) {
        weft__turn_enter_busy(&conn->turn);
        return -ENOMEM; /* the limits of a header are below input_max */
    }
    char *to = weft__http_input(conn) + conn->end;
    size_t space = weft__http_input_capacity(conn) - conn->end;
    if (weft__http_out_flush(conn) != 0) {
        return 0;
    }
    yield_if_due(conn);
    if (first_wait) { /* the timeout of a header does not restart with each of its bytes */
        weft__turn_enter(&conn->turn, partial ? WEFT__PHASE_HEADER : WEFT__PHASE_IDLE);
    }
    got = partial ? weft_read(conn->turn.fd, to, space, WEFT_FOREVER) : read_next(conn, to, space);
    if (got <= 0) {
        weft__turn_enter_busy(&conn->turn);
        return conn->rests ? 0 : over(conn, partial, got);
    }
    conn->now = weft_now();
    conn->end += (size_t)got;
    weft__http_count(conn->shard, WEFT__HTTP_N_BYTES_IN, (uint64_t)got);
    return 1;
}

ssize_t weft__http_input_head(struct weft__http_conn *conn)
{
    const struct weft_http_server *server = conn->server;
    weft_http_head *head = &conn->req.head;
    bool waited_idle = false, waited_partial = false;
    weft_http_request_init(head, conn->fields, server->opts.limits.fields, &server->parse);
    for (;;) {
        bool partial = conn->end > conn->start;
        if (partial) {
            ssize_t n = weft_http_head_parse(head, weft__http_input(conn) + conn->start,
                                             conn->end - conn->start);
            if (n) {
                weft__turn_enter_busy(&conn->turn);
                return n;
            }
        }
        bool first = partial ? !waited_partial : !waited_idle;
        waited_partial |= partial;
        waited_idle = true;
        ssize_t more = fill(conn, partial, first);
        if (more <= 0) {
            return more;
        }
    }
}
