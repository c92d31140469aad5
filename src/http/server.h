/* The server as its own files see it. Files in reading order:
 *
 *   server.c   create, listen, statistics  accept.c   acceptors, caps, which worker
 *   stop.c     the stages of a stop        room.c     limits on connections, and who makes room
 *   conn.c     a connection's fiber        input.c    the read buffer, heads, deadlines of reading
 *   body.c     the request's body          output.c   the write buffer, writes, files to the socket
 *   answer.c   heads of answers            route.c    which handler
 *   patience.c the idle groups             pace.c     how fast a client must take what it gets
 *   shard.c    what each worker has for itself: counters, the date
 *   files.c    the handler for files       cache.c    files at hand
 *   open.c     names to descriptors        listing.c  a directory as a page
 */
#ifndef WEFT_HTTP_SERVER_H
#define WEFT_HTTP_SERVER_H

#include <weft/buf.h>
#include <weft/event.h>
#include <weft/http.h>
#include <weft/idle.h>
#include <weft/waitgroup.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "http/peers.h"
#include "http/route.h"
#include "http/shard.h"

struct weft__http_acceptor;

/* How far a stop has come (stop.c). It only grows. */
enum weft__http_stage_of_stop {
    WEFT__HTTP_STOP_NONE,
    WEFT__HTTP_STOP_DRAIN, /* the backlog is accepted; idle connections may send one more request */
    WEFT__HTTP_STOP_IDLE,  /* the grace is over: idle connections are closed */
    WEFT__HTTP_STOP_CUT,   /* the deadline is over: all connections are cut */
};

struct weft_http_server {
    struct weft_http_server_opts opts; /* with every default filled in */
    struct weft_http_limits parse;
    size_t input_most; /* bytes of the largest read buffer */
    weft_pool *pool;
    unsigned workers;
    struct weft__http_shard *shards; /* one per worker */
    struct weft__http_routes routes; /* not changed after the first listen */
    struct weft__http_peers peers;
    weft_idle_group patience[WEFT__HTTP_PATIENCES];
    unsigned patiences;              /* so many are initialised */
    int64_t notice_ns, allowance_ns; /* of pace.c */

    struct weft__lock lock;
    struct weft__http_acceptor *acceptors; /* under the lock */
    _Atomic(unsigned) turn;                /* round robin */
    _Atomic(uint32_t) open;                /* connections */
    _Atomic(uint32_t) held; /* ... that count for the limits: without those that gave their place */
    _Atomic(uint32_t) arriving;    /* ... whose fibers have not run yet */
    _Atomic(uint64_t) shed;        /* ... those */
    _Atomic(uint32_t) scarce_from; /* descriptors from this number on are the reserve */
    _Atomic(uint32_t) stopping;    /* enum weft__http_stage_of_stop */
    _Atomic(uint64_t) stop_idle, stop_crossed, stop_cut; /* of the statistics */
    _Atomic(uint32_t) listened;
    weft_waitgroup acceptors_live, live; /* fibers that have not ended */
};

static inline uint32_t weft__http_stop_stage(const struct weft_http_server *server)
{
    return atomic_load_explicit(&server->stopping, memory_order_relaxed);
}

static inline bool weft__http_stopping(const struct weft_http_server *server)
{
    return weft__http_stop_stage(server) != WEFT__HTTP_STOP_NONE;
}

/* accept.c */
int weft__http_accept_start(struct weft_http_server *server, const struct weft_addr *addr,
                            struct weft_addr *bound);
/* Ends the acceptors: they accept what has connected, unless the stop cuts, and close their
 * sockets. */
void weft__http_accept_stop(struct weft_http_server *server);
void weft__http_accept_free(struct weft_http_server *server);

/* room.c */
/* Limits on connections that were not set follow RLIMIT_NOFILE. */
void weft__http_room_limits(struct weft_http_server_limits *limits);
/* Would this descriptor be one of the reserve? */
bool weft__http_room_is_scarce(struct weft_http_server *server, int fd);
/* Closes some of the connections that have waited longest for their clients, of one address (0: of
 * all). How many; their places are free at once, their descriptors soon. */
unsigned weft__http_room_make(struct weft_http_server *server, weft__http_peer address);
/* The place of a connection in the limits. */
void weft__http_room_give_back(struct weft_http_server *server, weft__http_peer address);

/* patience.c */
int weft__http_patience_init(struct weft_http_server *server);
void weft__http_patience_deinit(struct weft_http_server *server);

/* pace.c */
void weft__http_pace_init(struct weft_http_server *server);

#endif
