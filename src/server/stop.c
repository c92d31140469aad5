/* A stop, in stages (enum weft__stop_stage):
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

#include "server/session.h"

#define CANCEL_WAIT_NS INT64_C(5000000000) /* time for cancelled handlers to return */

static void set_stage(struct weft__server *server, uint32_t to)
{
    uint32_t is = weft__stop_stage(server);
    while (is < to && !atomic_compare_exchange_weak_explicit(
                          &server->stopping, &is, to, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static weft_fiber owner(const struct weft__session *session)
{
    return atomic_load_explicit(&session->owner, memory_order_relaxed);
}

static bool is_idle(int phase)
{
    return phase == WEFT__PHASE_IDLE || phase == WEFT__PHASE_REST;
}

static void *wake_idle(void *arg)
{
    struct weft__shard *shard = arg;
    struct weft__server *server = shard->server;
    weft__lock(&shard->lock);
    for (struct weft__session *session = shard->first; session; session = session->next) {
        int phase = weft__session_phase(session);
        if (is_idle(phase)) {
            session->woken = true;
            weft_fiber_interrupt(owner(session));
        }
    }
    weft__unlock(&shard->lock);
    weft_waitgroup_done(&server->live); /* the last access */
    return NULL;
}

/* Connections that become idle later see the stage. Without memory for the fiber, idle connections
 * stay until the deadline. */
static void close_idle(struct weft__server *server)
{
    for (unsigned i = 0; i < server->workers; i++) {
        struct weft__shard *shard = &server->shards[i];
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

static void count_aborted(struct weft__server *server, const struct weft__session *session)
{
    int phase = weft__session_phase(session);
    if (is_idle(phase)) {
        atomic_fetch_add_explicit(&server->stop_idle, 1, memory_order_relaxed);
    } else if (phase != WEFT__PHASE_LINGERING) {
        atomic_fetch_add_explicit(&server->stop_aborted, 1, memory_order_relaxed);
    }
}

void weft__session_count_cut(struct weft__session *session)
{
    struct weft__shard *shard = weft__session_shard(session);
    weft__lock(&shard->lock);
    if (!session->aborted) {
        session->aborted = true;
        atomic_fetch_add_explicit(&session->server->stop_aborted, 1, memory_order_relaxed);
    }
    weft__unlock(&shard->lock);
}

static void abort_all(struct weft__server *server)
{
    for (unsigned i = 0; i < server->workers; i++) {
        struct weft__shard *shard = &server->shards[i];
        weft__lock(&shard->lock);
        for (struct weft__session *session = shard->first; session; session = session->next) {
            if (!session->aborted) {
                count_aborted(server, session);
            }
            session->aborted = true;
            shutdown(session->fd, SHUT_RDWR);
            weft_cancel(owner(session));
        }
        weft__unlock(&shard->lock);
    }
}

int weft__server_stop(struct weft__server *server, int64_t deadline)
{
    int64_t grace_end = weft_after(server->opts.grace_ns);
    bool at_once = deadline <= weft_now();
    weft__lock(&server->lock); /* no acceptor is added after this */
    set_stage(server, at_once ? WEFT__STOP_ABORT : WEFT__STOP_DRAIN);
    weft__unlock(&server->lock);
    if (!at_once && server->protocol->draining) {
        server->protocol->draining(server);
    }
    int accept_err = weft__accept_stop(server);
    if (accept_err && !at_once) {
        return accept_err;
    }
    int err = weft_waitgroup_wait(&server->live, deadline < grace_end ? deadline : grace_end);
    if (err == -ETIMEDOUT && grace_end < deadline) {
        set_stage(server, WEFT__STOP_IDLE);
        close_idle(server);
        err = weft_waitgroup_wait(&server->live, deadline);
    }
    if (err == -ETIMEDOUT) {
        set_stage(server, WEFT__STOP_ABORT);
        abort_all(server);
        err = weft_waitgroup_wait(&server->live, weft_after(CANCEL_WAIT_NS));
        err = err == -ETIMEDOUT ? -EBUSY : err;
    }
    return err ? err : accept_err; /* without connections, acceptors may still run */
}
