/* A server, whatever its protocol: listeners, connections, limits, timeouts, rest, stop. Files in
 * reading order:
 *
 *   server.c         create and destroy, statistics
 *   accept.c         acceptors: accept connections and choose their worker
 *   capacity.c       limits on connections, and which to evict
 *   address_limit.c  number of connections per client address
 *   session.c        a connection's life: its record, its turns, its end
 *   record_slab.c    memory of the records
 *   rest.c           a connection at rest, without a fiber
 *   timeout.c        timeouts: the idle groups
 *   min_rate.c       how fast a client must read
 *   linger.c         the end of a connection whose client may still send or read
 *   stop.c           the stages of a stop
 *
 * A protocol (src/http) embeds a struct weft__server and gives it a struct weft__server_protocol.
 */
#ifndef WEFT_SERVER_SERVER_H
#define WEFT_SERVER_SERVER_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/server.h>
#include <weft/sync.h>
#include <weft/timer.h>

#include "base/atomic.h"
#include "lock/lock.h"
#include "server/address_limit.h"
#include "server/record_slab.h"

struct weft__acceptor;
struct weft__server;
struct weft__session;

/* What a connection is doing, which selects its timeout. Each of the first five has an idle
 * group. */
enum weft__phase {
    WEFT__PHASE_IDLE,   /* its fiber waits for a request */
    WEFT__PHASE_HEADER, /* has received a part of a request's header */
    WEFT__PHASE_BODY,   /* waits for more of a body */
    WEFT__PHASE_WRITE,  /* waits for the client to read */
    WEFT__TURN_TIMEOUTS,
    WEFT__PHASE_REST = WEFT__TURN_TIMEOUTS, /* waits for a request, and has no fiber */
    WEFT__TIMEOUTS,
    WEFT__PHASE_BUSY = WEFT__TIMEOUTS, /* its handler runs */
    WEFT__PHASE_PAUSED,                /* does not read from its client for a while */
    WEFT__PHASE_LINGERING,             /* the last response is written; reads to the end */
};

/* The stage of a stop (stop.c). It only increases. */
enum weft__stop_stage {
    WEFT__STOP_NONE,
    WEFT__STOP_DRAIN, /* the backlog is accepted; idle connections may send one more request */
    WEFT__STOP_IDLE,  /* the grace period is over: idle connections are closed */
    WEFT__STOP_ABORT, /* the deadline is over: all connections are aborted */
};

struct weft__server_protocol {
    /* Serves the connection. Returns true if the connection may rest: it waits for a request, and
     * nothing of it is buffered. Runs on a fiber that is bound to the session's worker. */
    bool (*turn)(struct weft__session *session);
    /* Tells the client that there is no capacity, as far as that is possible without waiting. */
    void (*refuse)(int fd);
    /* The name of a session's fibers; NULL: the server's. May be NULL itself. */
    const char *(*name)(const struct weft__session *session);
    /* A stop has begun; connections are still served. NULL: nothing to do. Any thread. */
    void (*draining)(struct weft__server *server);
};

struct weft__server_opts {
    const char *name; /* of its fibers; borrowed */
    weft_pool *pool;
    enum weft_balance balance;
    uint32_t connections, per_address;
    int64_t idle_ns, header_ns, body_ns, write_ns;
    int64_t rest_ns; /* idle time after which a connection rests; at least idle_ns: never */
    uint32_t write_rate, write_burst;
    int64_t linger_ns, grace_ns;
    size_t session_bytes; /* of a protocol's record, which begins with a session; 0: no more */
};

/* The state of one worker. */
struct weft__shard {
    alignas(64) struct weft__lock lock;
    struct weft__session *first; /* list of sessions; under the lock */
    struct weft__server *server;
    /* Connections, including those on their way to this worker. */
    _Atomic(uint32_t) open;
    _Atomic(uint64_t) accepted, refused, accept_errors, accept_wakes; /* by any acceptor */
    /* Written by this worker; any thread may read them. */
    alignas(64) _Atomic(uint64_t) timeouts[WEFT__TURN_TIMEOUTS];
    _Atomic(uint64_t) rests, wakes;

    /* For the idle group's callback: the members of its batch that belong to this worker. */
    struct weft_idle_member *expired[WEFT__TIMEOUTS];
};

struct weft__server {
    struct weft__server_opts opts;
    const struct weft__server_protocol *protocol;
    weft_pool *pool;
    unsigned workers;
    struct weft__shard *shards;             /* one per worker */
    struct weft__record_slab sessions, ops; /* ops: rest.c */
    struct weft__address_table peers;
    weft_idle_group timeouts[WEFT__TIMEOUTS];
    unsigned timeout_count;              /* number of initialised timeouts */
    int64_t slow_wait_ns, credit_max_ns; /* min_rate.c */
    bool rests;                          /* connections may rest */

    struct weft__lock lock;
    struct weft__acceptor *acceptors; /* under the lock */
    _Atomic(unsigned) next_worker;    /* round robin */
    _Atomic(uint32_t) open;           /* connections */
    _Atomic(uint32_t) admitted;       /* ... that count for the limits: without evicted ones */
    _Atomic(uint32_t) arriving;       /* ... whose fibers have not run yet */
    _Atomic(uint64_t) shed;           /* ... evicted */
    _Atomic(uint32_t) reserve_from;   /* descriptors from this number on are the reserve */
    _Atomic(uint32_t) stopping;       /* enum weft__stop_stage */
    _Atomic(uint64_t) stop_idle, stop_lost, stop_aborted; /* for the statistics */
    weft_waitgroup acceptors_live;                        /* acceptors that have not ended */
    weft_waitgroup live; /* sessions that have not ended, and fibers that look after sessions */
};

/* A counter that only this worker changes. */
static inline void weft__shard_count(_Atomic(uint64_t) *counter, uint64_t by)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + by, memory_order_relaxed);
}

static inline uint32_t weft__stop_stage(const struct weft__server *server)
{
    return atomic_load_explicit(&server->stopping, memory_order_relaxed);
}

static inline bool weft__is_stopping(const struct weft__server *server)
{
    return weft__stop_stage(server) != WEFT__STOP_NONE;
}

/* server.c */
/* Initialises a zeroed server. protocol: static. Returns 0 or -ENOMEM; then deinit was called. */
int weft__server_init(struct weft__server *server, const struct weft__server_protocol *protocol,
                      const struct weft__server_opts *opts);
/* All acceptors and sessions have ended. */
void weft__server_deinit(struct weft__server *server);
bool weft__server_is_idle(struct weft__server *server);

/* accept.c */
/* Opens the listeners of an address. listener: for the sessions. Returns 0, or an error of
 * weft_listen. */
int weft__accept_start(struct weft__server *server, const struct weft_addr *addr,
                       struct weft_addr *bound, void *listener);
/* Ends the acceptors: they accept the established connections, unless the stop aborts, and close
 * their sockets. Returns 0 when all have ended; -ECANCELED or -EINTR if the wait for them was
 * ended. */
int weft__accept_stop(struct weft__server *server);
void weft__accept_free(struct weft__server *server);

/* capacity.c */
/* Sets the limits on connections that are 0 from RLIMIT_NOFILE. */
void weft__capacity_defaults(uint32_t *connections, uint32_t *per_address);
/* Reports whether this descriptor belongs to the reserve. */
bool weft__capacity_fd_is_reserved(struct weft__server *server, int fd);
/* Evicts some of the connections that have waited longest for their clients, of one address (0: of
 * all). Returns how many; they stop counting for the limits at once, and close their descriptors
 * soon. */
unsigned weft__capacity_evict(struct weft__server *server, weft__address address);
/* A connection stops counting for the limits. */
void weft__capacity_release(struct weft__server *server, weft__address address);

/* timeout.c */
int weft__timeout_init(struct weft__server *server);
void weft__timeout_deinit(struct weft__server *server);

/* min_rate.c */
void weft__min_rate_init(struct weft__server *server);

/* stop.c */
/* As weft_http_server_stop. */
int weft__server_stop(struct weft__server *server, int64_t deadline);

#endif
