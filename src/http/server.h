/* The server's internal state. Files in reading order:
 *
 *   server.c             create, listen, statistics
 *   accept.c             acceptors: accept connections and choose their worker
 *   capacity.c           limits on connections, and which to evict
 *   address_limit.c      number of connections per client address
 *   shard.c              state of each worker: counters, the Date line
 *   conn.c               a connection's life: its fiber, its place in the shard, lingering close
 *   input.c              the read buffer
 *   request_read.c       reads the head of the next request
 *   request_serve.c      serves a request: handler, response, access record, counters
 *   route.c              which handler
 *   request.c            the request as its handler sees it; decodes the path
 *   request_body.c       the request body
 *   response.c           response header and framing
 *   output.c             the write buffer; writes, files to the socket
 *   timeout.c            timeouts: the idle groups
 *   min_rate.c           how fast a client must read
 *   stop.c               the stages of a stop
 *   files.c              the handler for files
 *   file_cache.c         cached files of each worker
 *   open_beneath.c       file names to descriptors
 *   content_type.c       content types by file extension
 *   directory_listing.c  a directory as a page
 */
#ifndef WEFT_HTTP_SERVER_H
#define WEFT_HTTP_SERVER_H

#include <weft/buf.h>
#include <weft/http.h>
#include <weft/sync.h>
#include <weft/timer.h>

#include "base/atomic.h"
#include "http/address_limit.h"
#include "http/route.h"
#include "http/shard.h"
#include "lock/lock.h"

struct weft__http_acceptor;

/* The stage of a stop (stop.c). It only increases. */
enum weft__http_shutdown_stage {
    WEFT__HTTP_STOP_NONE,
    WEFT__HTTP_STOP_DRAIN, /* the backlog is accepted; idle connections may send one more request */
    WEFT__HTTP_STOP_IDLE,  /* the grace period is over: idle connections are closed */
    WEFT__HTTP_STOP_ABORT, /* the deadline is over: all connections are aborted */
};

struct weft_http_server {
    struct weft_http_server_opts opts; /* with all defaults filled in */
    struct weft_http_limits parse;
    size_t input_max; /* size of the largest read buffer */
    weft_pool *pool;
    unsigned workers;
    struct weft__http_shard *shards; /* one per worker */
    struct weft__http_routes routes; /* immutable after the first listen */
    struct weft__http_address_table peers;
    weft_idle_group timeouts[WEFT__HTTP_TIMEOUTS];
    unsigned timeout_count;              /* number of initialised timeouts */
    int64_t slow_wait_ns, credit_max_ns; /* min_rate.c */

    struct weft__lock lock;
    struct weft__http_acceptor *acceptors; /* under the lock */
    _Atomic(unsigned) next_worker;         /* round robin */
    _Atomic(uint32_t) open;                /* connections */
    _Atomic(uint32_t) admitted;            /* ... that count for the limits: without evicted ones */
    _Atomic(uint32_t) arriving;            /* ... whose fibers have not run yet */
    _Atomic(uint64_t) shed;                /* ... evicted */
    _Atomic(uint32_t) reserve_from;        /* descriptors from this number on are the reserve */
    _Atomic(uint32_t) stopping;            /* enum weft__http_shutdown_stage */
    _Atomic(uint64_t) stop_idle, stop_lost, stop_aborted; /* for the statistics */
    _Atomic(uint32_t) listened;
    weft_waitgroup acceptors_live, live; /* fibers that have not ended */
};

static inline uint32_t weft__http_stop_stage(const struct weft_http_server *server)
{
    return atomic_load_explicit(&server->stopping, memory_order_relaxed);
}

static inline bool weft__http_is_stopping(const struct weft_http_server *server)
{
    return weft__http_stop_stage(server) != WEFT__HTTP_STOP_NONE;
}

/* accept.c */
int weft__http_accept_start(struct weft_http_server *server, const struct weft_addr *addr,
                            struct weft_addr *bound);
/* Ends the acceptors: they accept the established connections, unless the stop aborts, and close
 * their sockets. Returns 0 when all have ended; -ECANCELED or -EINTR if the wait for them was
 * ended. */
int weft__http_accept_stop(struct weft_http_server *server);
void weft__http_accept_free(struct weft_http_server *server);

/* capacity.c */
/* Sets the limits on connections that are 0 from RLIMIT_NOFILE. */
void weft__http_capacity_defaults(struct weft_http_server_limits *limits);
/* Reports whether this descriptor belongs to the reserve. */
bool weft__http_capacity_fd_is_reserved(struct weft_http_server *server, int fd);
/* Evicts some of the connections that have waited longest for their clients, of one address (0: of
 * all). Returns how many; they stop counting for the limits at once, and close their descriptors
 * soon. */
unsigned weft__http_capacity_evict(struct weft_http_server *server, weft__http_address address);
/* A connection stops counting for the limits. */
void weft__http_capacity_release(struct weft_http_server *server, weft__http_address address);

/* timeout.c */
int weft__http_timeout_init(struct weft_http_server *server);
void weft__http_timeout_deinit(struct weft_http_server *server);

/* min_rate.c */
void weft__http_min_rate_init(struct weft_http_server *server);

#endif
