/* The minimum rate at which a client must read responses.
 *
 * A client that reads a little from time to time never makes a single wait long, and would keep its
 * connection, a fiber and full buffers forever. So a connection has a credit of time (credit_ns), a
 * token bucket. Waiting for buffer space consumes it; each byte that the client accepts adds the
 * time that the minimum rate allows for a byte. The credit starts with write_ns plus the time for
 * what the client has accepted before, never exceeds write_ns plus the time for `write_burst`
 * bytes, and when it is used up the client is too slow. What the client accepted long ago does not
 * help it later, beyond that maximum.
 *
 * "Accepted" means acknowledged by the client's TCP stack, not written: the kernel reports space in
 * a send buffer when a third of it has drained, which may be a megabyte. A client's TCP stack
 * acknowledges ahead of the reading program, and then nothing until a part of the receive buffer
 * was read, up to a half of it. So a slow reader appears to accept much in long intervals, and
 * until the second interval ends it cannot be distinguished from a client that does not read.
 * `write_burst` is how large such a part may be. A Unix socket has no receive buffer of its own:
 * what was written is at the client already, in pieces that leave the queue when all of a piece was
 * read.
 *
 * Nearly every write finds buffer space. Such a write costs only one read of the worker's cached
 * clock, which does not advance unless the fiber waited. A wait shorter than the time that one byte
 * may take is ignored: it has brought at least one byte. The first slow wait is not counted either,
 * since the handler may have delayed the clock. From then on the connection is watched: its waits
 * are measured by the real clock, and on a completion-based driver a write is tried before it is
 * submitted, so that only the lack of buffer space is waited for. Watching ends when the credit is
 * full and the client has accepted what write_ns requires with hardly any waiting.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "http/conn.h"

#define NS_PER_S 1000000000
#define HARDLY_ANY 16 /* the fraction of write_ns that counts as hardly any */
#define UNSET INT64_MIN
#define LONG_NS (INT64_MAX / 4) /* sums of these do not overflow */

/* Returns the time that the minimum rate allows for `bytes`. */
static int64_t time_for(const struct weft_http_server *server, uint64_t bytes)
{
    double ns = (double)bytes * ((double)NS_PER_S / server->opts.limits.write_rate);
    return ns < (double)LONG_NS ? (int64_t)ns : LONG_NS;
}

static int64_t write_ns(const struct weft_http_server *server)
{
    int64_t ns = server->opts.limits.write_ns;
    return ns < LONG_NS ? ns : LONG_NS;
}

void weft__http_min_rate_init(struct weft_http_server *server)
{
    const struct weft_http_server_limits *limits = &server->opts.limits;
    server->slow_wait_ns = limits->write_rate < NS_PER_S ? NS_PER_S / limits->write_rate : 1;
    server->credit_max_ns = write_ns(server) + time_for(server, limits->write_burst);
}

static int64_t credit(const struct weft__http_conn *conn)
{
    return atomic_load_explicit(&conn->credit_ns, memory_order_relaxed);
}

static void set_credit(struct weft__http_conn *conn, int64_t ns)
{
    atomic_store_explicit(&conn->credit_ns, ns, memory_order_relaxed);
}

static void open_window(struct weft__http_conn *conn)
{
    conn->waited_ns = conn->unsettled_ns = 0;
    conn->window_start = weft__http_written(conn);
}

bool weft__http_min_rate_begin(struct weft__http_conn *conn)
{
    bool watched = conn->joined[WEFT__HTTP_WRITE];
    weft__http_phase_begin(conn, WEFT__HTTP_WRITE);
    if (watched) {
        atomic_store_explicit(&conn->since, weft_now(), memory_order_relaxed);
    } else {
        conn->slow_wait_ns = conn->server->slow_wait_ns;
        conn->yield_at = WEFT__HTTP_YIELD_BYTES;
        set_credit(conn, UNSET);
    }
    return watched;
}

uint64_t weft__http_unacked_bytes(const struct weft__http_conn *conn)
{
    int queued = 0;
    return ioctl(conn->fd, SIOCOUTQ, &queued) == 0 && queued > 0 ? (uint64_t)queued : 0;
}

static uint64_t acked(const struct weft__http_conn *conn)
{
    uint64_t written = weft__http_written(conn), unacked = weft__http_unacked_bytes(conn);
    if (conn->peer.storage.ss_family == AF_UNIX) {
        uint64_t ahead = conn->server->opts.limits.write_burst;
        unacked = unacked > ahead ? unacked - ahead : 0;
    }
    /* More is queued than written if a part of an operation in progress is queued already. */
    return written > unacked ? written - unacked : 0;
}

/* Adds the time for the bytes accepted since the last call, subtracts the time waited, and returns
 * the credit. */
static int64_t settle(struct weft__http_conn *conn, int64_t waited_ns)
{
    const struct weft_http_server *server = conn->server;
    int64_t ns = credit(conn), most = server->credit_max_ns;
    uint64_t now = acked(conn);
    uint64_t before = atomic_load_explicit(&conn->acked_at, memory_order_relaxed);
    if (ns == UNSET) {
        ns = write_ns(server);
        before = 0;
    }
    if (now > before) {
        ns += time_for(server, now - before);
    }
    ns -= waited_ns < LONG_NS ? waited_ns : LONG_NS;
    ns = ns < most ? ns : most;
    atomic_store_explicit(&conn->acked_at, now > before ? now : before, memory_order_relaxed);
    set_credit(conn, ns);
    return ns;
}

static bool is_window_over(const struct weft__http_conn *conn)
{
    const struct weft_http_server *server = conn->server;
    return time_for(server, weft__http_written(conn) - conn->window_start) >= write_ns(server);
}

bool weft__http_min_rate_check(struct weft__http_conn *conn, int64_t waited_ns)
{
    const struct weft_http_server *server = conn->server;
    if (conn->slow_wait_ns) {
        conn->slow_wait_ns = 0;
        settle(conn, 0);
        open_window(conn);
        return false;
    }
    waited_ns = waited_ns > 0 ? waited_ns : 0; /* the cached clock may lag */
    conn->waited_ns += waited_ns < LONG_NS ? waited_ns : LONG_NS;
    conn->unsettled_ns += waited_ns < LONG_NS ? waited_ns : LONG_NS;
    bool passed = is_window_over(conn);
    if (!passed && conn->unsettled_ns < server->slow_wait_ns) {
        return false;
    }
    int64_t ns = settle(conn, conn->unsettled_ns);
    conn->unsettled_ns = 0;
    if (ns < 0) {
        /* As if the write phase had timed out. pairs: weft__http_phase_timed_out */
        atomic_store_explicit(&conn->timed_out, 1 + WEFT__HTTP_WRITE, memory_order_release);
        return true;
    }
    if (passed) {
        if (ns == server->credit_max_ns && conn->waited_ns < write_ns(server) / HARDLY_ANY) {
            conn->slow_wait_ns = server->slow_wait_ns;
            set_credit(conn, UNSET);
        }
        open_window(conn);
    }
    return false;
}

bool weft__http_min_rate_settle(struct weft__http_conn *conn, int64_t now)
{
    int64_t since = atomic_load_explicit(&conn->since, memory_order_relaxed);
    if (settle(conn, now > since ? now - since : 0) < 0) {
        return false;
    }
    atomic_store_explicit(&conn->since, now, memory_order_relaxed);
    return true;
}
