/* The server as its own files see it. Files in reading order:
 *
 *   server.c   create, listen, stop        accept.c   acceptors, caps, which worker
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
    unsigned patiences; /* so many are initialised */
    int64_t notice_ns;  /* of pace.c */

    struct weft__lock lock;
    struct weft__http_acceptor *acceptors; /* under the lock */
    _Atomic(unsigned) turn;                /* round robin */
    _Atomic(uint32_t) open;                /* connections */
    _Atomic(uint32_t) stopping;
    _Atomic(uint32_t) listened;
    weft_waitgroup acceptors_live, live; /* fibers that have not ended */
};

static inline bool weft__http_stopping(const struct weft_http_server *server)
{
    return atomic_load_explicit(&server->stopping, memory_order_seq_cst) != 0;
}

/* accept.c */
int weft__http_accept_start(struct weft_http_server *server, const struct weft_addr *addr,
                            struct weft_addr *bound);
/* Ends the acceptors, and closes their sockets. */
void weft__http_accept_stop(struct weft_http_server *server);
void weft__http_accept_free(struct weft_http_server *server);

/* patience.c */
int weft__http_patience_init(struct weft_http_server *server);
void weft__http_patience_deinit(struct weft_http_server *server);

/* pace.c */
void weft__http_pace_init(struct weft_http_server *server);

#endif
