/* How fast a client must take what it is sent.
 *
 * One that takes a little now and then never makes a single wait long, and would keep its
 * connection, a fiber and full buffers for ever. So the time that a connection waits for room is
 * summed up in windows. One is passed as soon as as many bytes were written in it as the least rate
 * asks for in write_ns; once the waits are longer than that together it must have been as many as
 * the rate asks for in their time, or the client is too slow. What it took faster than it had to
 * does not help it later.
 *
 * Nearly every write finds room. All that it pays is a look at the clock that its worker has at
 * hand, which stands still unless the fiber was away. A wait below the time that one byte may take
 * is not noticed: it has brought a byte at least. The first one that is noticed is not counted
 * either, since it may have been the handler who held up the clock. From then on the connection is
 * watched: its waits are timed by the true clock, and on a driver that completes operations a write
 * is tried before it is handed over, so that only the lack of room is waited for. That lasts until
 * a window is passed with hardly any waiting.
 */
#include "http/conn.h"

#define NS_PER_S 1000000000
#define HARDLY 16 /* of write_ns, the part of it */

void weft__http_pace_init(struct weft_http_server *server)
{
    const struct weft_http_server_limits *limits = &server->opts.limits;
    server->notice_ns = limits->write_rate < NS_PER_S ? NS_PER_S / limits->write_rate : 1;
}

static void open_window(struct weft__http_conn *conn)
{
    conn->waited_ns = 0;
    conn->window_at = conn->written;
}

bool weft__http_pace_begin(struct weft__http_conn *conn)
{
    bool watched = conn->joined[WEFT__HTTP_WRITE];
    weft__http_phase_begin(conn, WEFT__HTTP_WRITE);
    if (watched) {
        atomic_store_explicit(&conn->since, weft_now(), memory_order_relaxed);
    } else {
        conn->notice_ns = conn->server->notice_ns;
        conn->turn_at = WEFT__HTTP_TURN;
    }
    return watched;
}

static bool is_passed(const struct weft__http_conn *conn)
{
    const struct weft_http_server_limits *limits = &conn->server->opts.limits;
    int64_t ns = conn->waited_ns > limits->write_ns ? conn->waited_ns : limits->write_ns;
    return (double)(conn->written - conn->window_at) >=
           (double)limits->write_rate * ((double)ns / NS_PER_S);
}

bool weft__http_pace_judge(struct weft__http_conn *conn, int64_t waited_ns)
{
    const struct weft_http_server *server = conn->server;
    if (conn->notice_ns) {
        conn->notice_ns = 0;
        open_window(conn);
        return false;
    }
    conn->waited_ns += waited_ns;
    if (is_passed(conn)) {
        if (conn->waited_ns < server->opts.limits.write_ns / HARDLY) {
            conn->notice_ns = server->notice_ns;
        }
        open_window(conn);
        return false;
    }
    if (conn->waited_ns <= server->opts.limits.write_ns) {
        return false;
    }
    /* As if its time for one write were over. pairs: weft__http_phase_ended */
    atomic_store_explicit(&conn->ended, 1 + WEFT__HTTP_WRITE, memory_order_release);
    return true;
}
