/* A turn of a connection: receives bytes, handles messages, writes output, until there is nothing to
 * do and the connection rests, or until it ends.
 *
 *     requests     from elsewhere: close, resume, goodbye
 *     messages     all that are whole in the read buffer
 *     output       of handlers, then from elsewhere
 *     wait         for the client, or to be called
 *
 * A connection gets its id before `open`. Nothing finds it by its id after its last output.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/fiber.h>

#include "base/nonnull.h"
#include "conn/conn.h"

static bool is_over(const weft_conn *conn)
{
    return conn->closing || conn->broken || conn->ended || conn->failed || conn->grace_expired ||
           weft__stop_stage(conn->turn.server) >= WEFT__STOP_ABORT;
}

static void check_result(weft_conn *conn, int err)
{
    conn->failed |= err != 0;
}

/* --- requests from elsewhere ------------------------------------------------------------------ */

void weft__conn_take_requests(weft_conn *conn)
{
    struct weft__conn_session *session = conn->session;
    session->base.called = false;
    weft__lock(&conn->shard->lock);
    conn->closing |= session->close_asked;
    session->paused &= !session->resume_asked;
    session->resume_asked = session->goodbye_asked = false;
    weft__unlock(&conn->shard->lock);
}

static void say_goodbye_if_due(weft_conn *conn)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    if (protocol->goodbye && !conn->session->said_goodbye && weft__is_stopping(conn->turn.server)) {
        conn->session->said_goodbye = true;
        check_result(conn, protocol->goodbye(conn, conn->listener->arg));
    }
}

/* --- messages --------------------------------------------------------------------------------- */

static void handle_messages(weft_conn *conn)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    struct weft_framed message;
    ssize_t used;
    while (!is_over(conn) && !conn->session->paused &&
           (used = weft__framing_next(conn, &message)) != 0) {
        if (used < 0) {
            conn->failed = true;
            return;
        }
        conn->partial = false;
        weft__shard_count(&conn->shard->messages, 1);
        conn->since_yield++;
        check_result(conn, protocol->handle(conn, (const char *)message.bytes, message.len,
                                            conn->listener->arg));
        conn->start += (size_t)used;
    }
}

/* Calls `serve` as long as it consumes bytes. */
static void serve_stream(weft_conn *conn)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    while (!is_over(conn) && !conn->session->paused && conn->end > conn->start) {
        size_t before = conn->end - conn->start;
        conn->partial = false;
        weft__shard_count(&conn->shard->messages, 1);
        conn->since_yield++;
        check_result(conn, protocol->serve(conn, conn->listener->arg));
        if (conn->end - conn->start == before && !is_over(conn)) {
            conn->failed =
                before >= weft__message_max(protocol) || !weft__conn_reserve(conn, before + 1);
            return;
        }
    }
}

static void serve_messages(weft_conn *conn)
{
    while (!is_over(conn)) {
        weft__conn_take_requests(conn);
        say_goodbye_if_due(conn);
        if (weft__conn_protocol(conn)->framing == WEFT_FRAMING_STREAM) {
            serve_stream(conn);
        } else {
            handle_messages(conn);
        }
        if (weft__conn_flush(conn) != 0 || is_over(conn)) {
            return;
        }
        if (conn->session->paused) {
            weft__conn_wait_paused(conn);
        } else if (weft__conn_receive(conn) == WEFT__INPUT_OVER) {
            return;
        }
    }
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void init(weft_conn *conn, struct weft__session *session)
{
    memset(conn, 0, sizeof *conn);
    weft__turn_init(&conn->turn, session);
    conn->session = (struct weft__conn_session *)(void *)session;
    conn->server = (struct weft_server *)(void *)session->server;
    conn->shard = &conn->server->shards[session->worker];
    conn->listener = session->listener;
    conn->deadline = WEFT_FOREVER;
    conn->yield_at = WEFT__CONN_YIELD_BYTES;
    weft__session_get_peer(session, &conn->peer);
    weft__framing_init(conn);
}

/* Returns false if there is no memory. */
static bool begin(weft_conn *conn)
{
    conn->in = weft_buf_alloc(WEFT__CONN_INPUT_BYTES, 0);
    if (!conn->in) {
        return false;
    }
    weft_buf_put(conn->in, weft_buf_tailroom(conn->in));
    return conn->session->id || weft__conn_id_take(conn->shard, conn->session) == 0;
}

static void open_connection(weft_conn *conn)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    int err = protocol->open ? protocol->open(conn, conn->listener->arg) : 0;
    check_result(conn, err);
    conn->session->opened = !err;
}

static enum weft_conn_end reason(const weft_conn *conn)
{
    const struct weft__session *session = &conn->session->base;
    if (atomic_load_explicit(&session->timed_out, memory_order_relaxed)) {
        return WEFT_CONN_END_TIMEOUT;
    }
    weft__lock(&weft__session_shard(session)->lock);
    bool evicted = session->shed, aborted = session->aborted;
    weft__unlock(&weft__session_shard(session)->lock);
    weft__lock(&conn->shard->lock);
    bool closed = conn->session->close_asked || conn->closing;
    weft__unlock(&conn->shard->lock);
    return evicted                          ? WEFT_CONN_END_EVICTED
           : aborted || conn->grace_expired ? WEFT_CONN_END_STOPPED
           : closed                         ? WEFT_CONN_END_CLOSED
           : conn->failed || conn->broken   ? WEFT_CONN_END_ERROR
           : conn->ended                    ? WEFT_CONN_END_PEER
                                            : WEFT_CONN_END_STOPPED;
}

static void close_connection(weft_conn *conn, enum weft_conn_end why)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    conn->broken = true;
    if (conn->session->opened && protocol->close) {
        protocol->close(conn, why, conn->listener->arg);
    }
}

/* What handlers have sent before an error or a close is still written. */
static void end_connection(weft_conn *conn)
{
    if (!conn->broken) {
        weft__conn_flush(conn);
    }
    if (conn->grace_expired) {
        atomic_fetch_add_explicit(&conn->turn.server->stop_idle, 1, memory_order_relaxed);
    }
    if (weft__stop_stage(conn->turn.server) >= WEFT__STOP_ABORT &&
        (conn->session->paused || conn->end > conn->start)) {
        weft__session_count_cut(&conn->session->base);
    }
    enum weft_conn_end why = reason(conn);
    weft__conn_id_drop(conn->shard, conn->session);
    if (!conn->broken && (!conn->ended || weft__turn_may_read_slowly(&conn->turn))) {
        weft__turn_linger(&conn->turn, conn->in->data, conn->in->len, conn->grace_expired);
    }
    close_connection(conn, why);
}

static void free_turn(weft_conn *conn)
{
    weft__turn_leave(&conn->turn);
    weft_bufs_free(&conn->out);
    if (conn->in) {
        weft_buf_free(conn->in);
    }
}

static bool take_turn(struct weft__session *session)
{
    weft_conn conn;
    init(&conn, session);
    if (begin(&conn)) {
        if (!conn.session->opened) {
            open_connection(&conn);
        }
        serve_messages(&conn);
        if (!conn.rests) {
            end_connection(&conn);
        }
    } else {
        atomic_fetch_add_explicit(&weft__session_shard(session)->refused, 1, memory_order_relaxed);
        if (conn.session->id) {
            weft__conn_id_drop(conn.shard, conn.session);
        }
        close_connection(&conn, WEFT_CONN_END_ERROR);
    }
    free_turn(&conn);
    return conn.rests;
}

/* There is no common word for it. */
static void refuse(int fd)
{
    (void)fd;
}

static void ask_for_goodbyes(struct weft__server *base)
{
    struct weft_server *server = (struct weft_server *)(void *)base;
    for (unsigned i = 0; i < base->workers; i++) {
        struct weft__conn_shard *shard = &server->shards[i];
        weft__lock(&shard->lock);
        for (uint32_t k = 0; k < shard->entry_count; k++) {
            struct weft__conn_session *session = shard->entries[k].session;
            const struct weft__listener *listener = session ? session->base.listener : NULL;
            if (listener && listener->protocol->goodbye) {
                session->goodbye_asked = true;
                weft__sender_queue_locked(shard, session); /* or it learns when it is woken */
            }
        }
        weft__unlock(&shard->lock);
    }
}

static const char *fiber_name(const struct weft__session *session)
{
    const struct weft__listener *listener = session->listener;
    return listener->protocol->name;
}

const struct weft__server_protocol weft__conn_server_protocol = {
    .turn = take_turn, .refuse = refuse, .name = fiber_name, .draining = ask_for_goodbyes};

/* --- for the functions of a protocol --------------------------------------------------------- */

weft_conn_id weft_conn_get_id(const weft_conn *conn)
{
    WEFT__NONNULL(conn);
    return conn->session->id;
}

const struct weft_addr *weft_conn_peer(const weft_conn *conn)
{
    WEFT__NONNULL(conn);
    return &conn->peer;
}

void weft_conn_set_data(weft_conn *conn, void *data)
{
    WEFT__NONNULL(conn);
    conn->session->data = data;
}

void *weft_conn_data(const weft_conn *conn)
{
    WEFT__NONNULL(conn);
    return conn->session->data;
}

void weft_conn_close(weft_conn *conn)
{
    WEFT__NONNULL(conn);
    conn->closing = true;
}

void weft_conn_pause(weft_conn *conn)
{
    WEFT__NONNULL(conn);
    conn->session->paused = true;
}
