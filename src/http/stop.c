/* A stop, in stages (enum weft__http_shutdown_stage):
 *
 *   DRAIN   The acceptors accept what is established and close their listeners. Each response says
 *           "Connection: close". Idle connections get no FIN, because a request may be on its way:
 *           it is served.
 *   IDLE    The grace period is over: idle connections are closed.
 *   ABORT   The deadline is over: sockets are shut down, fibers are cancelled.
 *
 * Waking an idle connection: a fiber on its own worker interrupts it. Both run on one thread, so
 * the connection is either in its wait, and the interrupt ends that, or has bytes already, and
 * finds the flag `woken` before its handler runs. Rejected: SHUT_WR by the stopping thread (with
 * io_uring the request may be in the buffer already while its fiber still waits, and its response
 * would be lost); SHUT_RD (later bytes then get a reset).
 */
#include <errno.h>
#include <sys/socket.h>

#include <weft/net.h>

#include "base/nonnull.h"
#include "http/conn.h"

#define CANCEL_WAIT_NS INT64_C(5000000000) /* time for cancelled handlers to return */

static void set_stage(struct weft_http_server *server, uint32_t to)
{
    uint32_t is = weft__http_stop_stage(server);
    while (is < to && !atomic_compare_exchange_weak_explicit(
                          &server->stopping, &is, to, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void *wake_idle(void *arg)
{
    struct weft__http_shard *shard = arg;
    struct weft_http_server *server = shard->server;
    weft__lock(&shard->lock);
    for (struct weft__http_conn *conn = shard->first; conn; conn = conn->next) {
        if (atomic_load_explicit(&conn->phase, memory_order_relaxed) == WEFT__HTTP_IDLE) {
            conn->woken = true;
            weft_fiber_interrupt(conn->fiber);
        }
    }
    weft__unlock(&shard->lock);
    weft_waitgroup_done(&server->live); /* the last access */
    return NULL;
}

/* Connections that become idle later see the stage. Without memory for the fiber, idle connections
 * stay until the deadline. */
static void close_idle(struct weft_http_server *server)
{
    for (unsigned i = 0; i < server->workers; i++) {
        struct weft__http_shard *shard = &server->shards[i];
        weft__lock(&shard->lock);
        bool some = shard->first != NULL;
        if (some) {
            weft_waitgroup_add(&server->live, 1); /* not from 0: the connection cannot leave now */
        }
        weft__unlock(&shard->lock);
        if (some && weft_pool_spawn(server->pool, NULL, wake_idle, shard,
                                    &(struct weft_fiber_opts){.name = server->opts.name,
                                                              .worker = (int)i,
                                                              .bound = true,
                                                              .detached = true}) != 0) {
            weft_waitgroup_done(&server->live);
        }
    }
}

static void count_aborted(struct weft_http_server *server, const struct weft__http_conn *conn)
{
    int phase = atomic_load_explicit(&conn->phase, memory_order_relaxed);
    if (phase == WEFT__HTTP_IDLE) {
        atomic_fetch_add_explicit(&server->stop_idle, 1, memory_order_relaxed);
    } else if (phase != WEFT__HTTP_LINGERING) {
        atomic_fetch_add_explicit(&server->stop_aborted, 1, memory_order_relaxed);
    }
}

static void abort_all(struct weft_http_server *server)
{
    for (unsigned i = 0; i < server->workers; i++) {
        struct weft__http_shard *shard = &server->shards[i];
        weft__lock(&shard->lock);
        for (struct weft__http_conn *conn = shard->first; conn; conn = conn->next) {
            if (!conn->aborted) {
                count_aborted(server, conn);
            }
            conn->aborted = true;
            shutdown(conn->fd, SHUT_RDWR);
            weft_cancel(conn->fiber);
        }
        weft__unlock(&shard->lock);
    }
}

int weft_http_server_stop(weft_http_server *server, int64_t deadline)
{
    WEFT__NONNULL(server);
    int64_t grace_end = weft_after(server->opts.limits.grace_ns);
    bool at_once = deadline <= weft_now();
    weft__lock(&server->lock); /* no acceptor is added after this */
    set_stage(server, at_once ? WEFT__HTTP_STOP_ABORT : WEFT__HTTP_STOP_DRAIN);
    weft__unlock(&server->lock);
    int accept_err = weft__http_accept_stop(server);
    if (accept_err && !at_once) {
        return accept_err;
    }
    int err = weft_waitgroup_wait(&server->live, deadline < grace_end ? deadline : grace_end);
    if (err == -ETIMEDOUT && grace_end < deadline) {
        set_stage(server, WEFT__HTTP_STOP_IDLE);
        close_idle(server);
        err = weft_waitgroup_wait(&server->live, deadline);
    }
    if (err == -ETIMEDOUT) {
        set_stage(server, WEFT__HTTP_STOP_ABORT);
        abort_all(server);
        err = weft_waitgroup_wait(&server->live, weft_after(CANCEL_WAIT_NS));
        err = err == -ETIMEDOUT ? -EBUSY : err;
    }
    return err ? err : accept_err; /* without connections, acceptors may still run */
}

bool weft_http_server_is_stopping(const weft_http_server *server)
{
    WEFT__NONNULL(server);
    return weft__http_is_stopping(server);
}
