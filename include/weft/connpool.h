/* A pool of client connections to one address. Acquire a connection, use it for one request,
 * release it.
 *
 *     int fd = weft_connpool_acquire(pool, deadline);
 *     ... one request and its complete response ...
 *     weft_connpool_release(pool, fd, ok);
 *
 * Idle connections are reused newest first, after a check that the peer has neither closed the
 * connection nor sent unexpected data. A timer closes connections that stay idle for too long. Both
 * fibers and plain threads may use a pool.
 */
#ifndef WEFT_CONNPOOL_H
#define WEFT_CONNPOOL_H

#include <weft/net.h>
#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_connpool weft_connpool;

struct weft_connpool_opts {
    const char *name; /* shown in dumps; copied; default: the address */
    unsigned min;     /* number of idle connections that are kept regardless of idle_ns;
                         weft_connpool_fill opens them in advance; default 0 */
    /* Most connections at a time, idle and in use together; up to 65536; default 64, or `min` if
     * that is greater. */
    unsigned max;
    int64_t idle_ns; /* idle connections beyond `min` are closed after this time; default 60 s;
                        negative: never */
    bool refuse;     /* when `max` connections are in use, acquire returns -EAGAIN instead of
                        waiting */
    weft_pool *pool; /* the pool whose timer closes idle connections; default: the calling
                        fiber's pool; a plain thread must set it, unless idle_ns is negative */
    struct weft_dial_opts dial;
    /* Opens a connection in place of weft_dial, for example to log in. Returns a descriptor or a
     * negative errno. */
    int (*connect)(void *arg, const char *address, int64_t deadline);
    void *arg;
};

/* Create a connection pool. No connection is opened yet.
 *
 * address: as for weft_dial; copied. opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned pool in *out; -EINVAL for a bad option (weft_last_error names it);
 * -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_connpool_create(weft_connpool **out, const char *address,
                                  const struct weft_connpool_opts *opts);
/* Destroy a pool and close its idle connections. A connection still in use, or a caller still
 * waiting in acquire, is a bug of the program. NULL is allowed.
 *
 * Context: a fiber or a plain thread; no other call on the pool may be running. */
WEFT_API void weft_connpool_destroy(weft_connpool *pool);

/* Open connections until the pool has `min` of them, idle and in use together, so that the first
 * requests do not wait for a connect. Also useful after the peer was restarted. Concurrent calls
 * share the work and do not exceed `min`.
 *
 * Returns 0, or the first connect error (-ECONNREFUSED, -ETIMEDOUT, -ECANCELED, -EINTR ...); the
 * connections opened before the error stay in the pool.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_connpool_fill(weft_connpool *pool, int64_t deadline);

/* Acquire a connection: reuse an idle one, open a new one, or wait until one is released. The
 * caller owns it until weft_connpool_release.
 *
 * Returns the descriptor; -EAGAIN if `max` connections are in use and opts.refuse is set;
 * -ETIMEDOUT, -ECANCELED, -EINTR; or the connect error.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_connpool_acquire(weft_connpool *pool, int64_t deadline);
/* Release a connection to the pool, which takes it. With `reusable` false the connection is closed,
 * because the caller saw an error on it.
 *
 * Context: a fiber or a plain thread. */
WEFT_API void weft_connpool_release(weft_connpool *pool, int fd, bool reusable);

struct weft_connpool_stats {
    unsigned idle, used;      /* current numbers */
    uint64_t hits, misses;    /* acquires that reused a connection, that opened a new one; also
                                 after a wait */
    uint64_t filled;          /* connections opened in advance */
    uint64_t waits, refusals; /* acquires that found `max` connections in use */
    uint64_t stale, retired;  /* closed because the peer had closed or sent data, because of
                                 idle_ns */
};
/* Read the statistics of a pool, all of the same moment.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_connpool_stats(weft_connpool *pool, struct weft_connpool_stats *out);

WEFT_END_DECLS
#endif
