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

#include "server/session.h"

#define NS_PER_S 1000000000
#define HARDLY_ANY 16 /* the fraction of write_ns that counts as hardly any */
#define UNSET INT64_MIN
#define LONG_NS (INT64_MAX / 4) /* sums of these do not overflow */

/* Returns the time that the minimum rate allows for `bytes`. */
static int64_t time_for(const struct weft__server *server, uint64_t bytes)
{
    double ns = (double)bytes * ((double)NS_PER_S / server->opts.write_rate);
    return ns < (double)LONG_NS ? (int64_t)ns : LONG_NS;
}

static int64_t write_ns(const struct weft__server *server)
{
    int64_t ns = server->opts.write_ns;
    return ns < LONG_NS ? ns : LONG_NS;
}

void weft__min_rate_init(struct weft__server *server)
{
    const struct weft__server_opts *limits = &server->opts;
    server->slow_wait_ns = limits->write_rate < NS_PER_S ? NS_PER_S / limits->write_rate : 1;
    server->credit_max_ns = write_ns(server) + time_for(server, limits->write_burst);
}

static int64_t credit(const struct weft__turn *turn)
{
    return atomic_load_explicit(&turn->credit_ns, memory_order_relaxed);
}

static void set_credit(struct weft__turn *turn, int64_t ns)
{
    atomic_store_explicit(&turn->credit_ns, ns, memory_order_relaxed);
}

static void open_window(struct weft__turn *turn)
{
    turn->waited_ns = turn->unsettled_ns = 0;
    turn->window_start = weft__turn_written(turn);
}

bool weft__min_rate_begin(struct weft__turn *turn)
{
    bool watched = turn->joined[WEFT__PHASE_WRITE];
    weft__turn_enter(turn, WEFT__PHASE_WRITE);
    if (watched) {
        atomic_store_explicit(&turn->session->since, weft_now(), memory_order_relaxed);
    } else {
        turn->slow_wait_ns = turn->server->slow_wait_ns;
        set_credit(turn, UNSET);
    }
    return watched;
}

uint64_t weft__unacked_bytes(int fd)
{
    int queued = 0;
    return ioctl(fd, SIOCOUTQ, &queued) == 0 && queued > 0 ? (uint64_t)queued : 0;
}

static bool is_unix(const struct weft__session *session)
{
    return session->address == 0; /* of no address: server/address_limit.h */
}

static uint64_t acked(const struct weft__turn *turn)
{
    uint64_t written = weft__turn_written(turn), unacked = weft__unacked_bytes(turn->fd);
    if (is_unix(turn->session)) {
        uint64_t ahead = turn->server->opts.write_burst;
        unacked = unacked > ahead ? unacked - ahead : 0;
    }
    /* More is queued than written if a part of an operation in progress is queued already. */
    return written > unacked ? written - unacked : 0;
}

/* Adds the time for the bytes accepted since the last call, subtracts the time waited, and returns
 * the credit. */
static int64_t settle(struct weft__turn *turn, int64_t waited_ns)
{
    const struct weft__server *server = turn->server;
    int64_t ns = credit(turn), most = server->credit_max_ns;
    uint64_t now = acked(turn);
    uint64_t before = atomic_load_explicit(&turn->acked_at, memory_order_relaxed);
    if (ns == UNSET) {
        ns = write_ns(server);
        before = 0;
    }
    if (now > before) {
        ns += time_for(server, now - before);
    }
    ns -= waited_ns < LONG_NS ? waited_ns : LONG_NS;
    ns = ns < most ? ns : most;
    atomic_store_explicit(&turn->acked_at, now > before ? now : before, memory_order_relaxed);
    set_credit(turn, ns);
    return ns;
}

static bool is_window_over(const struct weft__turn *turn)
{
    const struct weft__server *server = turn->server;
    return time_for(server, weft__turn_written(turn) - turn->window_start) >= write_ns(server);
}

bool weft__min_rate_check(struct weft__turn *turn, int64_t waited_ns)
{
    const struct weft__server *server = turn->server;
    if (turn->slow_wait_ns) {
        turn->slow_wait_ns = 0;
        settle(turn, 0);
        open_window(turn);
        return false;
    }
    waited_ns = waited_ns > 0 ? waited_ns : 0; /* the cached clock may lag */
    turn->waited_ns += waited_ns < LONG_NS ? waited_ns : LONG_NS;
    turn->unsettled_ns += waited_ns < LONG_NS ? waited_ns : LONG_NS;
    bool passed = is_window_over(turn);
    if (!passed && turn->unsettled_ns < server->slow_wait_ns) {
        return false;
    }
    int64_t ns = settle(turn, turn->unsettled_ns);
    turn->unsettled_ns = 0;
    if (ns < 0) {
        /* As if the write phase had timed out. pairs: weft__turn_timed_out */
        atomic_store_explicit(&turn->session->timed_out, 1 + WEFT__PHASE_WRITE,
                              memory_order_release);
        return true;
    }
    if (passed) {
        if (ns == server->credit_max_ns && turn->waited_ns < write_ns(server) / HARDLY_ANY) {
            turn->slow_wait_ns = server->slow_wait_ns;
            set_credit(turn, UNSET);
        }
        open_window(turn);
    }
    return false;
}

bool weft__min_rate_settle(struct weft__turn *turn, int64_t now)
{
    int64_t since = atomic_load_explicit(&turn->session->since, memory_order_relaxed);
    if (settle(turn, now > since ? now - since : 0) < 0) {
        return false;
    }
    atomic_store_explicit(&turn->session->since, now, memory_order_relaxed);
    return true;
}
