/* Output from elsewhere, and other requests by id: queued under the lock of the connection's worker,
 * and carried out by a fiber of that worker, the sender. It exists while something is queued.
 *
 * The sender writes to a connection that waits for its client, at rest or not, without waiting: so
 * a message to ten thousand connections at rest wakes none of them. What the socket does not accept
 * goes back to the front of the queue, and the connection is called: its turn writes the rest before
 * anything else, and the limits for slow readers hold for it. A connection that is busy is only
 * called: its turn takes the queue before it waits for its client, and does not begin to wait if it
 * was called after that.
 *
 * Nothing is lost: a request is queued, and a sender started if there is none, under the lock under
 * which a sender that finds nothing ends. The sender and the owners of its connections run on one
 * thread, so a connection cannot begin to write while the sender does, nor end.
 */
#include <errno.h>
#include <sys/socket.h>

#include <weft/fiber.h>

#include "base/nonnull.h"
#include "conn/conn.h"

#define YIELD_EVERY 16u
#define PARTS 64

/* --- the queue ------------------------------------------------------------------------------- */

static void *run(void *arg);

/* Not from 0: the session that is queued cannot end now. */
static int start_locked(struct weft__conn_shard *shard)
{
    struct weft_server *server = shard->server;
    weft_waitgroup_add(&server->base.live, 1);
    int err = weft_pool_spawn(server->base.pool, NULL, run, shard,
                              &(struct weft_fiber_opts){.name = server->base.opts.name,
                                                        .worker = (int)(shard - server->shards),
                                                        .bound = true,
                                                        .detached = true});
    if (err) {
        weft_waitgroup_done(&server->base.live);
    }
    return err;
}

int weft__sender_queue_locked(struct weft__conn_shard *shard, struct weft__conn_session *session)
{
    int err = shard->sends ? 0 : start_locked(shard);
    shard->sends = !err;
    if (err || session->queued) {
        return err;
    }
    session->queued = true;
    session->next_queued = NULL;
    session->prev_queued = shard->last_queued;
    *(shard->last_queued ? &shard->last_queued->next_queued : &shard->first_queued) = session;
    shard->last_queued = session;
    return 0;
}

void weft__sender_unqueue_locked(struct weft__conn_shard *shard, struct weft__conn_session *session)
{
    if (!session->queued) {
        return;
    }
    session->queued = false;
    *(session->prev_queued ? &session->prev_queued->next_queued : &shard->first_queued) =
        session->next_queued;
    *(session->next_queued ? &session->next_queued->prev_queued : &shard->last_queued) =
        session->prev_queued;
}

bool weft__sender_settle_locked(struct weft_server *server, struct weft__conn_session *session,
                                size_t n)
{
    session->output_bytes -= n;
    atomic_fetch_sub_explicit(&server->output_bytes, n, memory_order_relaxed);
    if (!session->over || session->output_bytes > server->limits.output_bytes / 2) {
        return false;
    }
    session->over = false;
    return true;
}

/* --- delivering ------------------------------------------------------------------------------ */

/* Writes as much as the socket accepts. Returns the number of bytes. */
static size_t write_now(int fd, weft_bufs *chain)
{
    struct iovec iov[PARTS];
    size_t total = 0;
    while (chain->bytes) {
        struct msghdr msg = {.msg_iov = iov,
                             .msg_iovlen = (size_t)weft_bufs_iovec(chain, iov, PARTS)};
        ssize_t n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) { /* full, or broken: the turn finds out */
            break;
        }
        total += (size_t)n;
        weft_bufs_consume(chain, (size_t)n);
    }
    return total;
}

static void tell_pressure(struct weft__conn_session *session, bool over)
{
    const struct weft__listener *listener = session->base.listener;
    if (listener->protocol->pressure) {
        listener->protocol->pressure(session->id, over, listener->arg);
    }
}

static void deliver(struct weft__conn_shard *shard, struct weft__conn_session *session)
{
    weft__lock(&shard->lock);
    bool call = session->close_asked || session->resume_asked || session->goodbye_asked;
    bool over = session->over_asked;
    session->over_asked = false;
    session->over |= over;
    weft_bufs chain = {0};
    bool waits = weft__session_is_waiting(&session->base);
    if (waits) {
        chain = session->outbox;
        session->outbox = (weft_bufs){0};
    } else {
        call |= session->outbox.bytes > 0;
    }
    weft__unlock(&shard->lock);
    if (over) {
        tell_pressure(session, true);
    }
    size_t written = write_now(session->base.fd, &chain);
    weft__shard_count(&shard->bytes_out, written);
    weft__lock(&shard->lock);
    bool below = weft__sender_settle_locked(shard->server, session, written);
    if (chain.bytes) {
        weft_bufs_join(&chain, &session->outbox);
        session->outbox = chain;
        call = true;
    }
    if (waits) { /* a busy connection may have a buffer to finish, too */
        session->outbox_begun = chain.bytes > 0 && (session->outbox_begun || written > 0);
    }
    weft__unlock(&shard->lock);
    if (below) {
        tell_pressure(session, false);
    }
    if (call) {
        weft__session_call(&session->base);
    }
}

static struct weft__conn_session *take(struct weft__conn_shard *shard)
{
    weft__lock(&shard->lock);
    struct weft__conn_session *session = shard->first_queued;
    if (session) {
        weft__sender_unqueue_locked(shard, session);
    }
    shard->sends = session != NULL;
    weft__unlock(&shard->lock);
    return session;
}

static void *run(void *arg)
{
    struct weft__conn_shard *shard = arg;
    struct weft_server *server = shard->server;
    struct weft__conn_session *session;
    for (unsigned count = 1; (session = take(shard)); count++) {
        deliver(shard, session);
        if (count % YIELD_EVERY == 0) {
            weft_yield();
        }
    }
    weft_waitgroup_done(&server->base.live); /* the last access */
    return NULL;
}

/* --- requests by id -------------------------------------------------------------------------- */

static int check_budget_locked(struct weft_server *server, struct weft__conn_session *session,
                               size_t n)
{
    const struct weft_server_limits *limits = &server->limits;
    if (n > limits->output_bytes || n > limits->output_bytes_all) {
        return -EMSGSIZE;
    }
    if (n > limits->output_bytes - session->output_bytes) {
        session->over_asked |= !session->over;
        return -EAGAIN;
    }
    uint64_t all = atomic_load_explicit(&server->output_bytes, memory_order_relaxed);
    do {
        if (all > limits->output_bytes_all || n > limits->output_bytes_all - all) {
            return -EAGAIN;
        }
    } while (!atomic_compare_exchange_weak_explicit(&server->output_bytes, &all, all + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    session->output_bytes += n;
    return 0;
}

static int send_locked(struct weft__conn_shard *shard, struct weft__conn_session *session,
                       weft_buf *buf)
{
    struct weft_server *server = shard->server;
    if (session->close_asked) {
        return -ENOTCONN;
    }
    if (buf->len == 0) { /* not queued: an outbox is done when its bytes are */
        return 0;
    }
    int err = check_budget_locked(server, session, buf->len);
    if (err) {
        atomic_fetch_add_explicit(&server->output_refused, err == -EAGAIN, memory_order_relaxed);
        if (session->over_asked) {
            weft__sender_queue_locked(shard, session); /* or told with the next request */
        }
        return err;
    }
    err = weft__sender_queue_locked(shard, session);
    if (err) {
        weft__sender_settle_locked(server, session, buf->len);
        return err;
    }
    weft_bufs_append(&session->outbox, buf);
    return 0;
}

int weft_server_send(weft_server *server, weft_conn_id id, weft_buf *buf)
{
    WEFT__NONNULL(server);
    WEFT__NONNULL(buf);
    struct weft__conn_shard *shard;
    struct weft__conn_session *session = weft__conn_find_lock(server, &shard, id);
    if (!session) {
        return -ENOTCONN;
    }
    bool is_empty = buf->len == 0;
    int err = send_locked(shard, session, buf);
    weft__unlock(&shard->lock);
    if (!err && is_empty) {
        weft_buf_free(buf);
    }
    return err;
}

/* Its turn finds out, also without a sender: a read or write ends; and a pause, which does neither,
 * is interrupted. */
static void cut_locked(struct weft__conn_session *session)
{
    setsockopt(session->base.fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
               sizeof(struct linger));
    shutdown(session->base.fd, SHUT_RDWR);
    weft__session_interrupt_pause(&session->base);
}

int weft_server_close(weft_server *server, weft_conn_id id, bool now)
{
    WEFT__NONNULL(server);
    struct weft__conn_shard *shard;
    struct weft__conn_session *session = weft__conn_find_lock(server, &shard, id);
    if (!session) {
        return -ENOTCONN;
    }
    int err = weft__sender_queue_locked(shard, session);
    session->close_asked |= now || !err;
    if (now) {
        cut_locked(session);
        err = 0;
    }
    weft__unlock(&shard->lock);
    return err;
}

int weft_server_resume(weft_server *server, weft_conn_id id)
{
    WEFT__NONNULL(server);
    struct weft__conn_shard *shard;
    struct weft__conn_session *session = weft__conn_find_lock(server, &shard, id);
    if (!session) {
        return -ENOTCONN;
    }
    int err = weft__sender_queue_locked(shard, session);
    session->resume_asked |= !err;
    weft__unlock(&shard->lock);
    return err;
}
