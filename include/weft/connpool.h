/* A pool of client connections to one address: whoever needs one takes an idle one or makes a new
 * one, and gives it back.
 *
 *     int fd = weft_connpool_take(pool, deadline);
 *     ... one request and its whole answer ...
 *     weft_connpool_give(pool, fd, ok);
 *
 * Idle connections are handed out newest first, after a look whether the peer has closed them or
 * sent something that nobody asked for; those that were idle for too long are closed by a timer.
 * Fibers and plain threads may use it.
 */
#ifndef WEFT_CONNPOOL_H
#define WEFT_CONNPOOL_H

#include <weft/resolve.h>
#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_connpool weft_connpool;

struct weft_connpool_opts {
    const char *name; /* for dumps; copied; default: the address */
    unsigned min;     /* so many idle ones are kept however long; weft_connpool_fill makes them
                         in advance; default 0 */
    /* Connections at once, idle and in use; at most 65536; default 64, or `min` if that is more. */
    unsigned max;
    int64_t idle_ns; /* the others are closed after so long; default 60 s; < 0: never */
    bool refuse;     /* with `max` in use, take answers -EAGAIN instead of waiting */
    weft_pool *pool; /* whose timer closes idle ones; default: the calling fiber's; a plain thread
                        must name it */
    struct weft_dial_opts dial;
    /* Makes a connection instead of weft_dial: a login, say. A descriptor or a negative errno. */
    int (*connect)(void *arg, const char *address, int64_t deadline);
    void *arg;
};

/* The address as weft_dial takes it. -EINVAL, -ENOMEM. Connects nothing yet. */
WEFT_API int weft_connpool_create(weft_connpool **out, const char *address,
                                  const struct weft_connpool_opts *opts);
/* Closes the idle ones. One in use, or somebody who waits, is a caller's bug. NULL is fine. */
WEFT_API void weft_connpool_destroy(weft_connpool *pool);

/* Connects until the pool has `min` connections, idle and in use, so that the first requests need
 * not wait for a connect. Also after the peer was restarted.
 * Returns 0, or the first error of connecting (-ECONNREFUSED, -ETIMEDOUT, -ECANCELED, -EINTR ...);
 * the connections made until then stay in the pool.
 * Context: a fiber or a plain thread; waits; *cancellable*. Several may call it at once. */
WEFT_API int weft_connpool_fill(weft_connpool *pool, int64_t deadline);

/* A connection. *Cancellable*. -EAGAIN: all are in use and it does not wait; -ETIMEDOUT,
 * -ECANCELED, -EINTR; or the error of connecting. */
WEFT_API int weft_connpool_take(weft_connpool *pool, int64_t deadline);
/* Gives one back; `reusable` false: it is closed, because something went wrong on it. */
WEFT_API void weft_connpool_give(weft_connpool *pool, int fd, bool reusable);

struct weft_connpool_stats {
    unsigned idle, used;      /* now */
    uint64_t hits, misses;    /* takes that found one, that made one */
    uint64_t filled;          /* made in advance */
    uint64_t waits, refusals; /* takes that found `max` in use */
    uint64_t stale, retired;  /* closed because the peer had, because idle for too long */
};
WEFT_API void weft_connpool_stats(weft_connpool *pool, struct weft_connpool_stats *out);

WEFT_END_DECLS
#endif
