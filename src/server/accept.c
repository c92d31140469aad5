/* Acceptors: fibers that accept connections and start one fiber per connection on the worker where
 * the connection stays.
 *
 * There is one acceptor per listening socket. With SO_REUSEPORT every worker has a listening socket
 * of each address and keeps what it accepts; otherwise the acceptor chooses a worker. A connection
 * that goes to another worker costs one wake-up if that worker sleeps, and nothing else: an
 * acceptor accepts every pending connection before it waits again. In a burst of connections the
 * acceptor yields from time to time, because its worker has other fibers to run.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <weft/io.h>
#include <weft/net.h>

#include "base/alloc.h"
#include "fdio/fd_exhaustion.h"
#include "net/socket.h"
#include "server/session.h"

#define PAUSE_NS 20000000 /* after descriptors or memory have run out */
#define YIELD_EVERY 16u   /* connections between two yields */
#define ARRIVALS_NS 1000000
#define ARRIVALS_MAX 100
#define BACKLOG_IDLE_NS 10000000 /* during a stop: no connection has arrived for this long */
#define DRAIN_NS 1000000000      /* ... and draining the backlog takes at most this long */

struct weft__acceptor {
    struct weft__acceptor *next;
    struct weft__server *server;
    enum weft_balance balance;
    void *listener;
    int fd;
    int worker;
    bool has_min_hops; /* during a stop: a minimum hop count drops the packets of its clients */
    weft_fiber fiber;
    struct weft_addr at;
    struct weft__socket_file file; /* file of a Unix socket */
};

/* --- choosing a worker ------------------------------------------------------------------------ */

static unsigned least_loaded(struct weft__server *server)
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

static unsigned choose(struct weft__acceptor *acceptor, weft__address address)
{
    struct weft__server *server = acceptor->server;
    switch (acceptor->balance) {
    case WEFT_BALANCE_REUSEPORT:
        return (unsigned)acceptor->worker;
    case WEFT_BALANCE_ROUND_ROBIN:
        return atomic_fetch_add_explicit(&server->next_worker, 1, memory_order_relaxed) %
               server->workers;
    case WEFT_BALANCE_HASH:
        return (unsigned)(weft__address_hash(address) % server->workers);
    case WEFT_BALANCE_LEAST:
        break;
    }
    return least_loaded(server);
}

/* --- admitting one connection ----------------------------------------------------------------- */

/* In a burst, connections that were just accepted cannot be evicted before their fibers have run.
 * So this waits for them, for a short time. */
static bool evict(struct weft__server *server, weft__address address)
{
    for (int i = 0; i < ARRIVALS_MAX; i++) {
        if (weft__capacity_evict(server, address)) {
            return true;
        }
        if (atomic_load_explicit(&server->arriving, memory_order_relaxed) == 0) {
            break;
        }
        weft_sleep(weft_after(ARRIVALS_NS));
    }
    return false;
}

/* Evicted connections have closed their descriptors when this returns, so that the reserve of
 * descriptors is complete again. */
static void wait_for_descriptors(const struct weft__server *server)
{
    for (int i = 0; i < ARRIVALS_MAX; i++) {
        uint32_t admitted = atomic_load_explicit(&server->admitted, memory_order_relaxed);
        uint32_t open = atomic_load_explicit(&server->open, memory_order_relaxed);
        if (open <= admitted + 1) { /* the new connection is open, but not admitted yet */
            break;
        }
        weft_sleep(weft_after(ARRIVALS_NS));
    }
}

/* Admits the connection within the limits, if necessary by evicting a connection that waits for its
 * client. */
static bool acquire_capacity(struct weft__server *server, int fd, weft__address address)
{
    const struct weft__server_opts *limits = &server->opts;
    if (weft__capacity_fd_is_reserved(server, fd)) {
        if (!evict(server, 0)) {
            return false;
        }
        wait_for_descriptors(server);
    }
    while (atomic_fetch_add_explicit(&server->admitted, 1, memory_order_relaxed) >=
           limits->connections) {
        atomic_fetch_sub_explicit(&server->admitted, 1, memory_order_relaxed);
        if (!evict(server, 0)) {
            return false;
        }
    }
    while (!weft__address_acquire(&server->peers, address, limits->per_address)) {
        if (!evict(server, address)) {
            atomic_fetch_sub_explicit(&server->admitted, 1, memory_order_relaxed);
            return false;
        }
    }
    return true;
}

static void admit(struct weft__acceptor *acceptor, int fd, const struct weft_addr *peer)
{
    struct weft__server *server = acceptor->server;
    struct weft__shard *shard = &server->shards[acceptor->worker];
    weft__address address = weft__address_of(peer);
    atomic_fetch_add_explicit(&server->open, 1, memory_order_relaxed);
    bool acquired = acquire_capacity(server, fd, address);
    if (acquired && weft__session_start(server, fd, choose(acceptor, address), peer, address,
                                        acceptor->listener) == 0) {
        atomic_fetch_add_explicit(&shard->accepted, 1, memory_order_relaxed);
        return;
    }
    if (acquired) {
        weft__capacity_release(server, address);
    }
    atomic_fetch_sub_explicit(&server->open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&shard->refused, 1, memory_order_relaxed);
    server->protocol->refuse(fd);
    weft_close(fd);
}

/* --- the acceptor's fiber --------------------------------------------------------------------- */

/* Waits only if no connection is pending, and counts these waits. */
static int next(struct weft__acceptor *acceptor, struct weft_addr *peer)
{
    struct weft__shard *shard = &acceptor->server->shards[acceptor->worker];
    int fd = weft__accept_or_exhausted(acceptor->fd, peer, 0);
    if (fd != -ETIMEDOUT) {
        return fd;
    }
    fd = weft__accept_or_exhausted(acceptor->fd, peer, WEFT_FOREVER);
    atomic_fetch_add_explicit(&shard->accept_wakes, 1, memory_order_relaxed);
    return fd;
}

/* Descriptors have run out: evicts connections that wait for their clients. */
static int accept_after_eviction(struct weft__acceptor *acceptor, struct weft_addr *peer)
{
    struct weft__shard *shard = &acceptor->server->shards[acceptor->worker];
    atomic_fetch_add_explicit(&shard->accept_errors, 1, memory_order_relaxed);
    weft__capacity_evict(acceptor->server, 0);
    return weft_accept(acceptor->fd, peer,
                       weft_after(PAUSE_NS)); /* wakes when a descriptor is closed */
}

/* Attaches a filter that drops packets with SYN and without ACK. Some kernels require a privilege
 * for it. */
static bool filter_syns(int fd)
{
    static const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offsetof(struct tcphdr, th_flags)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TH_SYN | TH_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TH_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)(uintptr_t)code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/* Drops all packets to this socket that have crossed a router, or that come from this machine with
 * the usual hop count; hops 0 drops none. Packets of a handshake in progress do not go to the
 * listener, but the new connection inherits the setting: the caller resets it after accept, and the
 * client's TCP stack retransmits what was dropped until then. */
static void set_min_hops(int fd, int family, int hops)
{
    /* Also set for IPv6, because of mapped addresses. */
    setsockopt(fd, IPPROTO_IP, IP_MINTTL, &hops, sizeof hops);
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_MINHOPCOUNT, &hops, sizeof hops);
    }
}

/* No new connection is established from here on, but a handshake in progress may finish: a client
 * retransmits a dropped SYN after a second and finds the listener closed, or a new one. A Unix
 * socket that is shut down refuses new connections and keeps its backlog. */
static void hold_off_clients(struct weft__acceptor *acceptor)
{
    int family = acceptor->at.storage.ss_family;
    if (family == AF_UNIX) {
        shutdown(acceptor->fd, SHUT_RD);
    } else if (!filter_syns(acceptor->fd)) {
        set_min_hops(acceptor->fd, family, 255);
        acceptor->has_min_hops = true;
    }
}

/* Accepts the connections that were established before the stop: until none has arrived for a
 * while, which a handshake in progress may need. */
static void drain(struct weft__acceptor *acceptor)
{
    int64_t until = weft_after(DRAIN_NS), now;
    hold_off_clients(acceptor);
    weft_fiber_shield_enter(); /* the fiber was cancelled */
    while (weft__stop_stage(acceptor->server) < WEFT__STOP_ABORT && (now = weft_now()) < until) {
        struct weft_addr peer;
        int64_t idle_deadline = now + BACKLOG_IDLE_NS;
        int fd = weft__accept_or_exhausted(acceptor->fd, &peer,
                                           idle_deadline < until ? idle_deadline : until);
        if (weft__is_fd_exhaustion(fd)) {
            fd = accept_after_eviction(acceptor, &peer);
        }
        if (fd >= 0) {
            if (acceptor->has_min_hops) {
                set_min_hops(fd, acceptor->at.storage.ss_family, 0);
            }
            admit(acceptor, fd, &peer);
        } else if (!weft__is_fd_exhaustion(fd)) {
            break;
        }
    }
    weft_fiber_shield_leave();
}

static void *accept_all(void *arg)
{
    struct weft__acceptor *acceptor = arg;
    struct weft__server *server = acceptor->server;
    struct weft__shard *shard = &server->shards[acceptor->worker];
    unsigned taken = 0;
    while (!weft__is_stopping(server)) {
        struct weft_addr peer;
        int fd = next(acceptor, &peer);
        if (weft__is_fd_exhaustion(fd)) {
            fd = accept_after_eviction(acceptor, &peer);
        }
        if (fd >= 0) {
            admit(acceptor, fd, &peer);
            if (++taken % YIELD_EVERY == 0) {
                weft_yield();
            }
        } else if (fd == -ECANCELED || fd == -EBADF || fd == -EBADFD) {
            break;
        } else if (fd != -EINTR && fd != -ETIMEDOUT && !weft__is_fd_exhaustion(fd)) {
            atomic_fetch_add_explicit(&shard->accept_errors, 1, memory_order_relaxed);
            weft_sleep(weft_after(PAUSE_NS));
        }
    }
    drain(acceptor);
    weft__socket_file_remove(&acceptor->file, &acceptor->at);
    weft_close(acceptor->fd);
    weft_waitgroup_done(&server->acceptors_live);
    return NULL;
}

/* --- start and stop --------------------------------------------------------------------------- */

/* Starts an acceptor for a bound socket. Takes the descriptor. */
static int add(struct weft__server *server, int fd, const struct weft_addr *at,
               enum weft_balance balance, int worker, void *listener)
{
    struct weft__socket_file file;
    weft__socket_file_record(&file, at);
    struct weft__acceptor *acceptor = weft__alloc(sizeof *acceptor);
    int err = acceptor ? 0 : -ENOMEM;
    if (!err) {
        *acceptor = (struct weft__acceptor){.server = server,
                                            .balance = balance,
                                            .listener = listener,
                                            .fd = fd,
                                            .worker = worker,
                                            .at = *at,
                                            .file = file};
        weft_waitgroup_add(&server->acceptors_live, 1);
        weft__lock(&server->lock);
        err = weft__is_stopping(server) ? -ESHUTDOWN : 0;
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

/* Opens a listener. Accepted connections inherit TCP_NODELAY. */
static int listen_on(const struct weft_addr *addr, const struct weft_listen_opts *opts)
{
    int fd = weft__listen_addr(addr, opts);
    if (fd >= 0 && addr->storage.ss_family != AF_UNIX) {
        weft_set_nodelay(fd, true);
    }
    return fd;
}

/* Opens all sockets before the first of them accepts, so that an error leaves none behind. Takes
 * the first. */
static int listen_per_worker(struct weft__server *server, int first, const struct weft_addr *bound,
                             void *listener)
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
    /* Fails during a stop, which also ends the acceptors started before. */
    for (; !err && added < opened; added++) {
        err = add(server, fds[added], bound, WEFT_BALANCE_REUSEPORT, (int)added, listener);
    }
    for (; added < opened; added++) {
        weft_close(fds[added]);
    }
    weft__free(fds);
    return err;
}

/* An address on which another process listens is in use, even if both would share it. */
int weft__accept_start(struct weft__server *server, const struct weft_addr *addr,
                       struct weft_addr *bound, void *listener)
{
    enum weft_balance balance = server->opts.balance;
    bool per_worker = balance == WEFT_BALANCE_REUSEPORT && addr->storage.ss_family != AF_UNIX;
    int fd = listen_on(addr, &(struct weft_listen_opts){.reuseport_first = per_worker});
    if (fd < 0) {
        return fd;
    }
    int err = weft_addr_local(fd, bound);
    if (err) {
        weft_close(fd);
        return err;
    }
    if (per_worker) {
        return listen_per_worker(server, fd, bound, listener);
    }
    unsigned next_worker = atomic_fetch_add_explicit(&server->next_worker, 1, memory_order_relaxed);
    return add(server, fd, bound, balance == WEFT_BALANCE_REUSEPORT ? WEFT_BALANCE_LEAST : balance,
               (int)(next_worker % server->workers), listener);
}

int weft__accept_stop(struct weft__server *server)
{
    weft__lock(&server->lock);
    for (struct weft__acceptor *a = server->acceptors; a; a = a->next) {
        weft_cancel(a->fiber);
    }
    weft__unlock(&server->lock);
    return weft_waitgroup_wait(&server->acceptors_live, WEFT_FOREVER);
}

void weft__accept_free(struct weft__server *server)
{
    struct weft__acceptor *a;
    while ((a = server->acceptors)) {
        server->acceptors = a->next;
        weft__free(a);
    }
}
