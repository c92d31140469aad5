/* Acceptors: fibers that take connections and start a fiber for each on the worker where it stays.
 *
 * One acceptor per listening socket. With SO_REUSEPORT every worker has one of each address and
 * keeps what it accepts; else the acceptor chooses. A connection that comes to another worker costs
 * one wake-up of that worker if it sleeps, and nothing else does: whoever accepts takes all that is
 * there before it waits again. In a storm of connections it yields now and then, because its worker
 * has others to serve.
 */
#include <errno.h>
#include <sys/socket.h>

#include <weft/net.h>

#include "base/alloc.h"
#include "http/conn.h"
#include "net/socket.h"

#define PAUSE_NS 20000000 /* when descriptors or memory have run out */
#define AT_ONCE 16u       /* connections */

struct weft__http_acceptor {
    struct weft__http_acceptor *next;
    struct weft_http_server *server;
    enum weft_http_spread spread;
    int fd;
    int worker;
    weft_fiber fiber;
    struct weft_addr at;
    struct weft__socket_file file; /* of a Unix socket */
};

/* --- which worker ---------------------------------------------------------------------------- */

static unsigned least_loaded(struct weft_http_server *server)
{
    unsigned best = 0;
    uint32_t fewest = UINT32_MAX;
    for (unsigned i = 0; i < server->workers; i++) {
        uint32_t open = atomic_load_explicit(&server->shards[i].open, memory_order_relaxed);
        if (open < fewest) {
            fewest = open;
            best = i;
        }
    }
    return best;
}

static unsigned choose(struct weft__http_acceptor *acceptor, weft__http_peer address)
{
    struct weft_http_server *server = acceptor->server;
    switch (acceptor->spread) {
    case WEFT_HTTP_REUSEPORT:
        return (unsigned)acceptor->worker;
    case WEFT_HTTP_ROUND_ROBIN:
        return atomic_fetch_add_explicit(&server->turn, 1, memory_order_relaxed) % server->workers;
    case WEFT_HTTP_HASH:
        return (unsigned)(weft__http_peer_hash(address) % server->workers);
    case WEFT_HTTP_LEAST:
        break;
    }
    return least_loaded(server);
}

/* --- one connection --------------------------------------------------------------------------- */

/* As well as it goes without waiting. */
static void turn_away(int fd)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                                 "Retry-After: 1\r\nConnection: close\r\n\r\n";
    char scrap[4096];
    if (send(fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        weft_shutdown(fd, SHUT_WR);
        while (recv(fd, scrap, sizeof scrap, MSG_DONTWAIT) == sizeof scrap) {
        }
    }
    weft_close(fd);
}

static int start(struct weft__http_acceptor *acceptor, int fd, const struct weft_addr *peer,
                 weft__http_peer address)
{
    struct weft_http_server *server = acceptor->server;
    struct weft__http_arrival *arrival = weft__alloc_dirty(sizeof *arrival);
    if (!arrival) {
        return -ENOMEM;
    }
    unsigned worker = choose(acceptor, address);
    *arrival = (struct weft__http_arrival){
        .server = server, .fd = fd, .worker = (int)worker, .address = address, .peer = *peer};
    weft_waitgroup_add(&server->live, 1);
    atomic_fetch_add_explicit(&server->shards[worker].open, 1, memory_order_relaxed);
    int err = weft_pool_spawn(
        server->pool, NULL, weft__http_conn_run, arrival,
        &(struct weft_fiber_opts){
            .name = server->opts.name, .worker = (int)worker, .bound = true, .detached = true});
    if (err) {
        atomic_fetch_sub_explicit(&server->shards[worker].open, 1, memory_order_relaxed);
        weft_waitgroup_done(&server->live);
        weft__free(arrival);
    }
    return err;
}

static void admit(struct weft__http_acceptor *acceptor, int fd, const struct weft_addr *peer)
{
    struct weft_http_server *server = acceptor->server;
    struct weft__http_shard *shard = &server->shards[acceptor->worker];
    const struct weft_http_server_limits *limits = &server->opts.limits;
    weft__http_peer address = weft__http_peer_of(peer);
    bool counted = false;
    int err = -EUSERS;
    if (atomic_fetch_add_explicit(&server->open, 1, memory_order_relaxed) < limits->connections) {
        counted = weft__http_peers_enter(&server->peers, address, limits->per_address);
        err = counted ? start(acceptor, fd, peer, address) : -EUSERS;
    }
    if (!err) {
        atomic_fetch_add_explicit(&shard->accepted, 1, memory_order_relaxed);
        return;
    }
    if (counted) {
        weft__http_peers_leave(&server->peers, address);
    }
    atomic_fetch_sub_explicit(&server->open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&shard->refused, 1, memory_order_relaxed);
    turn_away(fd);
}

/* --- the fiber -------------------------------------------------------------------------------- */

/* Waits only if nothing is there, and counts that. */
static int next(struct weft__http_acceptor *acceptor, struct weft_addr *peer)
{
    struct weft__http_shard *shard = &acceptor->server->shards[acceptor->worker];
    int fd = weft_accept_from(acceptor->fd, peer, 0);
    if (fd != -ETIMEDOUT) {
        return fd;
    }
    fd = weft_accept_from(acceptor->fd, peer, WEFT_FOREVER);
    atomic_fetch_add_explicit(&shard->accept_wakes, 1, memory_order_relaxed);
    return fd;
}

static void *accept_all(void *arg)
{
    struct weft__http_acceptor *acceptor = arg;
    struct weft_http_server *server = acceptor->server;
    struct weft__http_shard *shard = &server->shards[acceptor->worker];
    unsigned taken = 0;
    while (!weft__http_stopping(server)) {
        struct weft_addr peer;
        int fd = next(acceptor, &peer);
        if (fd >= 0) {
            admit(acceptor, fd, &peer);
            if (++taken % AT_ONCE == 0) {
                weft_yield();
            }
        } else if (fd == -ECANCELED || fd == -EBADF || fd == -EBADFD) {
            break;
        } else if (fd != -EINTR) {
            atomic_fetch_add_explicit(&shard->accept_errors, 1, memory_order_relaxed);
            weft_sleep(PAUSE_NS);
        }
    }
    weft__socket_file_remove(&acceptor->file, &acceptor->at);
    weft_close(acceptor->fd);
    weft_waitgroup_done(&server->acceptors_live);
    return NULL;
}

/* --- start and stop --------------------------------------------------------------------------- */

/* Takes the descriptor, which is bound there. */
static int add(struct weft_http_server *server, int fd, const struct weft_addr *at,
               enum weft_http_spread spread, int worker)
{
    struct weft__socket_file file;
    weft__socket_file_note(&file, at);
    struct weft__http_acceptor *acceptor = weft__alloc(sizeof *acceptor);
    int err = acceptor ? 0 : -ENOMEM;
    if (!err) {
        *acceptor = (struct weft__http_acceptor){.server = server,
                                                 .spread = spread,
                                                 .fd = fd,
                                                 .worker = worker,
                                                 .at = *at,
                                                 .file = file};
        weft_waitgroup_add(&server->acceptors_live, 1);
        weft__lock(&server->lock);
        err = weft__http_stopping(server) ? -ESHUTDOWN : 0;
        if (!err) {
            err = weft_pool_spawn(
                server->pool, &acceptor->fiber, accept_all, acceptor,
                &(struct weft_fiber_opts){
                    .name = "accept", .worker = worker, .bound = true, .detached = true});
        }
        if (!err) {
            acceptor->next = server->acceptors;
            server->acceptors = acceptor;
        }
        weft__unlock(&server->lock);
    }
    if (err) {
        if (acceptor) {
            weft_waitgroup_done(&server->acceptors_live);
        }
        weft__free(acceptor);
        weft__socket_file_remove(&file, at);
        weft_close(fd);
    }
    return err;
}

/* A new listener. What is accepted inherits that it does not delay. */
static int listen_on(const struct weft_addr *addr, const struct weft_listen_opts *opts)
{
    int fd = weft_listen_addr(addr, opts);
    if (fd >= 0 && addr->storage.ss_family != AF_UNIX) {
        weft_set_nodelay(fd, true);
    }
    return fd;
}

/* All of the sockets are there before the first of them accepts: an error leaves none. Takes the
 * first. */
static int listen_everywhere(struct weft_http_server *server, int first,
                             const struct weft_addr *bound)
{
    int *fds = weft__alloc_dirty(server->workers * sizeof *fds), err = 0;
    unsigned opened = 1, added = 0;
    if (!fds) {
        weft_close(first);
        return -ENOMEM;
    }
    fds[0] = first;
    while (!err && opened < server->workers) {
        int fd = listen_on(bound, &(struct weft_listen_opts){.reuseport = true});
        err = fd < 0 ? fd : 0;
        if (!err) {
            fds[opened++] = fd;
        }
    }
    for (; !err && added < opened; added++) { /* fails at a stop, which ends those before too */
        err = add(server, fds[added], bound, WEFT_HTTP_REUSEPORT, (int)added);
    }
    for (; added < opened; added++) {
        weft_close(fds[added]);
    }
    weft__free(fds);
    return err;
}

/* An address that somebody else listens on is taken, also if both would share it. */
int weft__http_accept_start(struct weft_http_server *server, const struct weft_addr *addr,
                            struct weft_addr *bound)
{
    enum weft_http_spread spread = server->opts.spread;
    bool everywhere = spread == WEFT_HTTP_REUSEPORT && addr->storage.ss_family != AF_UNIX;
    int fd = listen_on(addr, &(struct weft_listen_opts){.reuseport_first = everywhere});
    if (fd < 0) {
        return fd;
    }
    int err = weft_addr_local(fd, bound);
    if (err) {
        weft_close(fd);
        return err;
    }
    if (everywhere) {
        return listen_everywhere(server, fd, bound);
    }
    unsigned turn = atomic_fetch_add_explicit(&server->turn, 1, memory_order_relaxed);
    return add(server, fd, bound, spread == WEFT_HTTP_REUSEPORT ? WEFT_HTTP_LEAST : spread,
               (int)(turn % server->workers));
}

void weft__http_accept_stop(struct weft_http_server *server)
{
    weft__lock(&server->lock);
    for (struct weft__http_acceptor *a = server->acceptors; a; a = a->next) {
        weft_cancel(a->fiber);
    }
    weft__unlock(&server->lock);
    weft_waitgroup_wait(&server->acceptors_live, WEFT_FOREVER);
}

void weft__http_accept_free(struct weft_http_server *server)
{
    struct weft__http_acceptor *a;
    while ((a = server->acceptors)) {
        server->acceptors = a->next;
        weft__free(a);
    }
}
