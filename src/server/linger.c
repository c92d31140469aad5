/* The end of a connection whose client may still send or has yet to read.
 *
 * Closing a socket with unread bytes makes the client's TCP stack discard our last response. So the
 * server shuts down the write side only, and reads until the client closes. A client sees the
 * response only when it reads, and by then it has sent what its socket buffer holds: many times more
 * than one read.
 */
#include <errno.h>
#include <sys/socket.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "server/session.h"

enum {
    LINGER_MAX = 4 << 20,      /* most bytes read */
    YIELD_BYTES = 65536,       /* bytes read between two yields */
    PEER_BUFFER_BYTES = 65536, /* what a client's TCP stack accepts before the program reads */
};

/* The kernel gives up a closed connection whose client has had no buffer space for a few minutes.
 * So a connection with a slow reader stays open until the client has everything. A small response
 * is not waited for: it fits into any receive buffer. */
bool weft__turn_may_read_slowly(const struct weft__turn *turn)
{
    return weft__turn_written(turn) >= PEER_BUFFER_BYTES && weft__unacked_bytes(turn->fd) > 0;
}

static bool still_reads(struct weft__turn *turn)
{
    return !weft__is_stopping(turn->server) && weft__unacked_bytes(turn->fd) > 0 &&
           weft__min_rate_settle(turn, weft_now());
}

void weft__turn_linger(struct weft__turn *turn, void *buf, size_t space, bool after_grace)
{
    struct weft__server *server = turn->server;
    size_t dropped = 0, yield_at = YIELD_BYTES;
    int64_t deadline = weft_after(server->opts.linger_ns);
    if (weft_shutdown(turn->fd, SHUT_WR) != 0) {
        return;
    }
    weft__session_enter(turn->session, WEFT__PHASE_LINGERING, weft_now());
    while (dropped < LINGER_MAX) {
        ssize_t n = weft_read(turn->fd, buf, space, deadline);
        if (n == -ETIMEDOUT && still_reads(turn)) {
            deadline = weft_after(server->opts.linger_ns);
            continue;
        }
        if (n <= 0) {
            return;
        }
        if (after_grace && !dropped) {
            atomic_fetch_add_explicit(&server->stop_lost, 1, memory_order_relaxed);
        }
        dropped += (size_t)n;
        if (dropped >= yield_at) {
            yield_at = dropped + YIELD_BYTES;
            weft_yield();
        }
    }
}
