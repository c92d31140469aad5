/* The read buffer, and the wait for the client.
 *
 *      0        start                     end           capacity
 *      |  used   |  messages, the last partial  |   read here  |
 *
 * There are two waits, each with its own timeout, which starts once. Before the first byte of a
 * message the connection is idle: it may rest or be evicted, and a stop ends the wait. From the first
 * byte on, the timeout covers the whole message. Both waits end when the connection is called
 * (weft__session_call), by an interrupt on this thread.
 */
#include <errno.h>
#include <string.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/timer.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "conn/conn.h"

bool weft__conn_reserve(weft_conn *conn, size_t bytes)
{
    size_t have = conn->end - conn->start, capacity = conn->in->len;
    if (capacity - conn->start >= bytes && conn->end < capacity) {
        return true;
    }
    if (bytes <= capacity && conn->start > 0) {
        memmove(conn->in->data, conn->in->data + conn->start, have);
    } else {
        size_t total = 2 * capacity > bytes ? 2 * capacity : bytes;
        weft_buf *larger = weft_buf_alloc(total, 0);
        if (!larger) {
            return false;
        }
        weft_buf_put(larger, weft_buf_tailroom(larger));
        memcpy(larger->data, conn->in->data + conn->start, have);
        weft_buf_free(conn->in);
        conn->in = larger;
    }
    conn->start = 0;
    conn->end = have;
    return true;
}

static void yield_if_due(weft_conn *conn)
{
    if (conn->since_yield >= 64) {
        conn->since_yield = 0;
        weft_yield();
    }
}

/* An interrupt that came too late must not end a wait of a handler. */
static ssize_t end_wait(weft_conn *conn, char *to, size_t space, ssize_t got)
{
    weft_fiber_clear_interrupt();
    return got == -EINTR ? weft_read(conn->turn.fd, to, space, 0) : got;
}

static enum weft__input over(weft_conn *conn, ssize_t got)
{
    enum weft__phase phase = conn->partial ? WEFT__PHASE_HEADER : WEFT__PHASE_IDLE;
    weft__turn_timed_out(&conn->turn, phase); /* counts it */
    conn->ended = got == 0;
    conn->broken |= got < 0;
    return WEFT__INPUT_OVER;
}

/* A timeout does not restart with each byte of a message. */
static void enter_wait(weft_conn *conn, bool partial)
{
    struct weft__session *session = &conn->session->base;
    if (partial && conn->partial) {
        weft__session_enter(session, WEFT__PHASE_HEADER, conn->partial_since);
    } else {
        weft__turn_enter(&conn->turn, partial ? WEFT__PHASE_HEADER : WEFT__PHASE_IDLE);
        conn->partial_since = atomic_load_explicit(&session->since, memory_order_relaxed);
    }
    conn->partial = partial;
}

enum weft__input weft__conn_receive(weft_conn *conn)
{
    struct weft__session *session = &conn->session->base;
    bool partial = conn->end > conn->start;
    if (!partial) {
        conn->start = conn->end = 0;
    }
    yield_if_due(conn);
    enter_wait(conn, partial);
    bool stops = !partial && weft__stop_stage(conn->turn.server) >= WEFT__STOP_IDLE;
    bool rests = !partial && session->may_rest && conn->turn.server->opts.rest_ns == 0;
    char *to = (char *)conn->in->data + conn->end;
    size_t space = conn->in->len - conn->end;
    bool tries = stops || rests || session->called;
    ssize_t got = weft_read(conn->turn.fd, to, space, tries ? 0 : WEFT_FOREVER);
    bool called = session->called;
    if (session->woken || session->rest_due || called) {
        got = end_wait(conn, to, space, got);
        rests |= session->rest_due;
        stops |= session->woken && !partial;
        session->woken = session->rest_due = false;
    }
    weft__turn_enter_busy(&conn->turn);
    if (got > 0) {
        conn->end += (size_t)got;
        weft__shard_count(&conn->shard->bytes_in, (uint64_t)got);
        return WEFT__INPUT_BYTES;
    }
    if (got != -ETIMEDOUT) {
        return over(conn, got);
    }
    if (called) {
        return WEFT__INPUT_CALLED;
    }
    conn->grace_expired = stops;
    conn->rests = rests && !stops;
    return stops || rests ? WEFT__INPUT_OVER : WEFT__INPUT_CALLED;
}

/* The application has paused it and will resume it: it is busy, not idle. */
void weft__conn_wait_paused(weft_conn *conn)
{
    struct weft__session *session = &conn->session->base;
    weft__session_begin_pause(session);
    weft__lock(&conn->shard->lock); /* a close at once sees the phase, or is seen here */
    bool closes = conn->session->close_asked;
    weft__unlock(&conn->shard->lock);
    if (!session->called && !closes) {
        conn->broken |= weft_sleep(WEFT_FOREVER) == -ECANCELED;
    }
    weft__session_end_pause(session);
    weft_fiber_clear_interrupt();
}

/* --- a stream, read by its protocol ------------------------------------------------------------ */

static ssize_t read_buffered(weft_conn *conn, void *buf, size_t n)
{
    size_t there = conn->end - conn->start;
    n = n < there ? n : there;
    memcpy(buf, conn->in->data + conn->start, n);
    conn->start += n;
    return (ssize_t)n;
}

/* The wait of an idle connection, but in a fiber that is in use: it does not rest. */
static ssize_t wait_for_stream(weft_conn *conn, void *buf, size_t n, int64_t deadline)
{
    struct weft__session *session = &conn->session->base;
    bool may_rest = session->may_rest;
    session->may_rest = false;
    weft__turn_enter(&conn->turn, WEFT__PHASE_IDLE);
    ssize_t got = weft_read(conn->turn.fd, buf, n, deadline);
    weft__turn_enter_busy(&conn->turn);
    session->may_rest = may_rest;
    return got;
}

/* *again: the connection was called, or a stop's grace period ended, during the wait. */
static ssize_t read_stream(weft_conn *conn, void *buf, size_t n, int64_t deadline, bool *again)
{
    struct weft__session *session = &conn->session->base;
    bool stops = weft__stop_stage(conn->turn.server) >= WEFT__STOP_IDLE;
    weft__conn_take_requests(conn);
    if (conn->closing) {
        return -ESHUTDOWN;
    }
    ssize_t got = wait_for_stream(conn, buf, n, stops ? 0 : deadline);
    if (session->woken || session->called) {
        session->woken = false;
        weft_fiber_clear_interrupt();
        *again = got == -EINTR;
    }
    conn->grace_expired = stops && got == -ETIMEDOUT;
    return conn->grace_expired ? -ESHUTDOWN : got;
}

ssize_t weft_conn_read(weft_conn *conn, void *buf, size_t n, int64_t deadline)
{
    WEFT__NONNULL(conn);
    WEFT__REQUIRE(weft__conn_protocol(conn)->framing == WEFT_FRAMING_STREAM,
                  "weft_conn_read: the protocol's framing is not WEFT_FRAMING_STREAM");
    if (conn->end > conn->start || n == 0) {
        return read_buffered(conn, buf, n);
    }
    ssize_t got;
    bool again;
    do {
        again = false;
        int err = weft__conn_flush(conn);
        got = err ? err : read_stream(conn, buf, n, deadline, &again);
    } while (again);
    if (got > 0) {
        weft__shard_count(&conn->shard->bytes_in, (uint64_t)got);
    }
    conn->ended |= got == 0;
    bool late = got == 0 && weft__turn_timed_out(&conn->turn, WEFT__PHASE_IDLE);
    return late ? -ETIMEDOUT : got;
}
