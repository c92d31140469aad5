/* Reads the head of the next request: parses what is in the read buffer, and reads more until the
 * head is complete, is rejected, or the connection is over.
 *
 * There are two waits, each with its own timeout, which starts once. Before the first byte the
 * connection is idle (WEFT__HTTP_IDLE): it may be evicted, and a stop ends the wait. From the first
 * byte on it is in a head (WEFT__HTTP_HEADER): the timeout covers the whole head, so a client
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
    bool late = weft__http_phase_timed_out(conn, partial ? WEFT__HTTP_HEADER : WEFT__HTTP_IDLE);
    conn->broken |= got < 0;
    return partial && late && got == 0 ? -ETIMEDOUT : 0;
}

/* Waits for the next request. When the grace period of a stop is over, the wait is ended (stop.c)
 * and takes only what has arrived already. */
static ssize_t read_next(struct weft__http_conn *conn, char *to, size_t space)
{
    const struct weft_http_server *server = conn->server;
    bool over = weft__http_stop_stage(server) >= WEFT__HTTP_STOP_IDLE;
    ssize_t got = weft_read(conn->fd, to, space, over ? 0 : WEFT_FOREVER);
    if (conn->woken) { /* an interrupt that came too late must not end a wait of a handler */
        conn->woken = false;
        weft_fiber_clear_interrupt();
        over = true;
        got = got == -EINTR ? weft_read(conn->fd, to, space, 0) : got;
    }
    if (over && got == -ETIMEDOUT) {
        conn->grace_expired = true;
        return 0;
    }
    return got;
}

/* Returns 1 if more bytes were read. */
static ssize_t fill(struct weft__http_conn *conn, bool partial, bool first_wait)
{
    ssize_t got;
    if (!partial) {
        conn->start = conn->end = 0;
    } else if (!weft__http_input_grow(conn)) {
        weft__http_phase_end(conn);
        return -ENOMEM; /* the limits of a header are below input_max */
    }
    char *to = weft__http_input(conn) + conn->end;
    size_t space = weft__http_input_capacity(conn) - conn->end;
    if (weft__http_out_flush(conn) != 0) {
        return 0;
    }
    yield_if_due(conn);
    if (first_wait) { /* the timeout of a header does not restart with each of its bytes */
        weft__http_phase_begin(conn, partial ? WEFT__HTTP_HEADER : WEFT__HTTP_IDLE);
    }
    got = partial ? weft_read(conn->fd, to, space, WEFT_FOREVER) : read_next(conn, to, space);
    if (got <= 0) {
        weft__http_phase_end(conn);
        return over(conn, partial, got);
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
                weft__http_phase_end(conn);
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
