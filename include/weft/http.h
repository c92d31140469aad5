/* An HTTP/1.1 server on fibers: listeners, routes, and handlers that read and write as if they
 * blocked.
 *
 *     static int hello(weft_http *x, void *arg)
 *     {
 *         return weft_http_answer(x, 200, "text/plain", "hello\n", 6);
 *     }
 *
 *     weft_http_server_create(&server, &(struct weft_http_server_opts){.pool = pool});
 *     weft_http_server_route(server, "GET", "/hello", hello, NULL, NULL);
 *     weft_http_server_listen(server, "127.0.0.1:0", NULL);
 *     ...
 *     weft_http_server_stop(server, weft_after(WEFT_SECONDS(10)));
 *     weft_http_server_destroy(server);
 *
 * Each connection is one fiber, bound to one worker of the pool for its life; it reads requests one
 * after the other and calls their handlers. What the handlers of pipelined requests answer is
 * gathered and written at once. A handler may wait in any way; it must not leave its worker
 * (weft/hop.h) without coming back before the next call here.
 *
 * Requests are parsed strictly (weft/http_parse.h). Whatever is wrong with one is answered by the
 * server itself, and the connection is closed behind it, gently: what the client still sends is
 * read for a while, so that it sees the answer.
 *
 * Nobody can keep a connection for nothing: silent ones, slow heads, slow bodies and readers that
 * do not read, or a byte now and then, are ended, by idle groups (weft/idle.h), late by a sixteenth
 * of their time at most, and by no more than a second (of more than nine hours: a 32768th).
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <weft/addr.h>
#include <weft/http_parse.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_http_server weft_http_server;
/* One request and the answer to it; the handler's, until it returns. */
typedef struct weft_http weft_http;

/* Answers the request. 0, or a negative errno: if nothing of the answer was sent yet it becomes one
 * of the server's own (413 for -EMSGSIZE, 408 for -ETIMEDOUT, 400 for -EBADMSG, 503 for -ENOMEM and
 * -EMFILE, else 500), if something was the connection is cut, so that the client sees that it is
 * not whole. One that has answered nothing has failed too. */
typedef int (*weft_http_fn)(weft_http *x, void *arg);

/* --- the server ------------------------------------------------------------------------ */

/* Which worker a connection goes to. */
enum weft_http_spread {
    WEFT_HTTP_LEAST, /* an acceptor gives it to the one with the fewest connections */
    WEFT_HTTP_ROUND_ROBIN,
    WEFT_HTTP_HASH, /* by the client's address: one client's are together */
    /* Each worker has a listening socket of its own and the system chooses (SO_REUSEPORT). No
     * acceptor between, but the spread is by chance. Not for Unix sockets, which get an acceptor
     * (least). */
    WEFT_HTTP_REUSEPORT,
};

/* 0: the default. What is beyond a limit is answered with the status in brackets, and the
 * connection closed. */
struct weft_http_server_limits {
    uint32_t line_bytes;   /* request line: 8 KiB (414); at least 64 */
    uint32_t header_bytes; /* all fields: 16 KiB (431) */
    uint32_t fields;       /* their number: 100 (431) */
    uint64_t body_bytes;   /* 1 MiB (413); a route may say otherwise */
    uint32_t requests;  /* on one connection: 1000; the last one is answered, then it is closed */
    uint32_t pipelined; /* answers that are gathered before they are written: 64 */
    /* Connections of the server. When there are as many, or descriptors run short, those that have
     * waited longest for their clients (silent, or with a part of a head for more than a second)
     * are closed to make room; if there is none, the new one is refused (503). Default: what
     * RLIMIT_NOFILE allows, less a quarter (and 32 at least), at most 131072. */
    uint32_t connections;
    /* The same, of one IPv4 address or one IPv6 /64. Default: half of that default, at most
     * 16384. */
    uint32_t per_address;
    int64_t idle_ns;    /* silence between requests: 60 s */
    int64_t header_ns;  /* from the first byte of a request to the end of its head: 10 s (408) */
    int64_t body_ns;    /* one wait for more of a body: 10 s (408) */
    uint32_t body_rate; /* bytes a second, once body_ns have been spent waiting: 500 (408) */
    /* A client that takes nothing, or less than write_rate bytes a second (500), is cut. Each byte
     * that its system acknowledges allows 1/write_rate s of waiting, on top of write_ns (30 s). A
     * client's system acknowledges ahead of the program that reads, and then nothing until much of
     * its buffer was read: so up to write_ahead bytes (256 KiB) count for the time after them. By
     * default a client that reads at the least rate is never cut unless its system takes more than
     * 256 KiB at a time, one that takes nothing at all is cut after 30 s, and one that stops to
     * read after its system has taken N bytes after 30 s and N/500 s, at most 554 s; each up to
     * write_ns later. Only waiting for room counts, not what a handler takes to make the answer,
     * and a connection's answers count together. */
    int64_t write_ns;
    uint32_t write_rate;
    uint32_t write_ahead;
    int64_t linger_ns; /* how long is read after a last answer: 2 s, and 4 MiB at most */
    int64_t grace_ns;  /* in a stop: how long an idle connection may still send a request: 1 s */
};

/* A request that was answered, for a log. Spans are gone after the call. */
struct weft_http_record {
    const char *method, *target; /* as sent; "-" if there was no whole request line */
    int method_len, target_len;
    int minor; /* HTTP/1.minor */
    int status;
    uint64_t sent;   /* bytes of the answer's body; of a file's that was cut, those that left */
    int64_t took_ns; /* from the whole head to the end of the handler; 0: it was refused before */
    const struct weft_addr *peer;
    const char *referer, *agent; /* as sent; NULL: none */
    int referer_len, agent_len;
};

struct weft_http_server_opts {
    const char *name; /* of its fibers in dumps; borrowed; default "http" */
    weft_pool *pool; /* default: the calling fiber's; must be given elsewhere. Not a compute pool */
    enum weft_http_spread spread;
    struct weft_http_server_limits limits;
    /* Told of each request, on the connection's worker, by its fiber: should not wait. */
    void (*on_request)(const struct weft_http_record *record, void *arg);
    void *arg;
};

/* -EINVAL: bad options, no pool. -ENOMEM. */
WEFT_API int weft_http_server_create(weft_http_server **out,
                                     const struct weft_http_server_opts *opts);
/* Stopped, or never listened. NULL is fine. */
WEFT_API void weft_http_server_destroy(weft_http_server *server);

struct weft_http_route_opts {
    uint64_t body_bytes; /* instead of the server's limit; 0: the server's */
};
/* Requests with this method (NULL: any; GET stands for HEAD too) and path (as weft_uri_path makes
 * it) go to fn. A path that ends in '/' stands for all below it, and the longest that fits is
 * taken. Later routes win over earlier ones that say the same. Paths are copied. Before the first
 * listen: else -EBUSY. -EINVAL: no path. -ENOMEM. What no route takes is answered with 404, what
 * only another method's does with 405. */
WEFT_API int weft_http_server_route(weft_http_server *server, const char *method, const char *path,
                                    weft_http_fn fn, void *arg,
                                    const struct weft_http_route_opts *opts);

/* Listens there and serves. *bound, unless NULL, is where: a port 0 has become a real one. Errors
 * as weft_listen: -EADDRINUSE also where only SO_REUSEPORT would let two servers share the port.
 * -ESHUTDOWN: it is stopping. */
WEFT_API int weft_http_server_listen(weft_http_server *server, const char *address,
                                     struct weft_addr *bound);

/* Stops the server. No request is lost whose client pauses for less than grace_ns between requests:
 *
 *   1. Whoever has connected by now is accepted and served; then the listeners are closed and the
 *      files of Unix sockets removed, if they are still this server's own. (TCP: new connections
 * are held off meanwhile; their clients try again after a second, and are refused.)
 *   2. Idle connections are kept for grace_ns. Each response now says "Connection: close"; then the
 *      server sends no more, and reads until the client has closed, for up to linger_ns.
 *   3. After grace_ns idle connections are closed. A request that crosses this close is lost
 *      (stats.stop_crossed counts those).
 *   4. At the deadline (0: at once, without the steps before) the rest is cut, which stats.stop_cut
 *      counts, and their fibers are cancelled; then the call waits for handlers to notice, for up
 * to 5 s.
 *
 * Returns 0 when every connection has ended; -EBUSY: some handlers have not, stop again.
 * Context: any thread or fiber, several at once: the nearest deadline holds. */
WEFT_API int weft_http_server_stop(weft_http_server *server, int64_t deadline);
/* Has a stop begun? */
WEFT_API bool weft_http_server_stopping(const weft_http_server *server);

/* Upper bounds of the histogram's buckets, in ns; the last is WEFT_FOREVER. */
#define WEFT_HTTP_BUCKETS 18
WEFT_API extern const int64_t weft_http_buckets[WEFT_HTTP_BUCKETS];

struct weft_http_stats {
    uint64_t requests;      /* answered */
    uint64_t by_class[6];   /* [2]: 2xx ...; [0]: cut before there was a status */
    uint64_t bytes_in;      /* read from connections */
    uint64_t bytes_out;     /* written to them */
    uint64_t accepted;      /* connections */
    uint64_t open;          /* of them now */
    uint64_t refused;       /* for a limit on connections */
    uint64_t accept_errors; /* of descriptors or memory, after which the acceptor pauses */
    uint64_t accept_wakes;  /* times an acceptor had waited */
    uint64_t bad;           /* requests that the parser refused */
    uint64_t idle_shed;     /* silent connections that were closed to make room for others */
    uint64_t idle_ended;    /* by their time limits: silent */
    uint64_t header_ended;  /* ... slow heads */
    uint64_t body_ended;    /* ... slow bodies */
    uint64_t write_ended;   /* ... clients that did not read, or too slowly */
    uint64_t flushes;       /* times answers were written */
    uint64_t stop_idle;     /* idle connections that a stop closed: its grace, or time, was over */
    uint64_t stop_crossed;  /* ... of them: a request came after that, and was lost */
    uint64_t stop_cut;      /* connections that the deadline of a stop cut, with a request begun */
    int64_t took_ns; /* sum over requests, from the bytes being there to the answer being written */
    uint64_t took[WEFT_HTTP_BUCKETS]; /* how many, in each bucket alone */
};
/* Sums over the workers; each number is true of its own moment. */
WEFT_API void weft_http_server_stats(const weft_http_server *server, struct weft_http_stats *out);

/* --- the request ------------------------------------------------------------------------- */

/* Bytes of the request; no zero behind them. data NULL: there are none. Good until the handler
 * returns. */
struct weft_http_text {
    const char *data;
    size_t len;
};

WEFT_API enum weft_http_method weft_http_method(const weft_http *x);
/* Decoded once and normalised (weft_uri_path); with a zero behind it. "*" for OPTIONS *. */
WEFT_API const char *weft_http_path(const weft_http *x);
/* Behind the '?', as sent. */
WEFT_API struct weft_http_text weft_http_query(const weft_http *x);
/* The first field of this name. */
WEFT_API struct weft_http_text weft_http_get(const weft_http *x, const char *name);
/* All of it, as parsed, and the bytes that its spans are of. */
WEFT_API const weft_http_head *weft_http_parsed(const weft_http *x, const char **data);
WEFT_API const struct weft_addr *weft_http_peer(const weft_http *x);
WEFT_API weft_http_server *weft_http_server_of(const weft_http *x);

/* Up to n bytes of the body; 0: its end. The first call says "100 Continue" to a client that waits
 * for that. -ETIMEDOUT: too slow. -EMSGSIZE: beyond the limit. -EBADMSG: bad chunks. -ECONNRESET:
 * the client is gone before the end. -ECANCELED, -EINTR. What a handler leaves unread is thrown
 * away. */
WEFT_API ssize_t weft_http_read(weft_http *x, void *buf, size_t n);

/* --- the answer ------------------------------------------------------------------------------ */

/* The whole answer: fields, body, end. type NULL: none. Not after begin. -EINVAL: a type with
 * control bytes, and nothing was answered. */
WEFT_API int weft_http_answer(weft_http *x, int status, const char *type, const void *body,
                              size_t n);

/* Or piece by piece: begin, fields, the length if it is known, the body. It ends when the handler
 * returns. Without a length the body goes in chunks, or (HTTP/1.0) until the connection is closed.
 * An answer to HEAD, a 204 and a 304 have no body: what is written is dropped. Date, Connection and
 * the framing are the server's to set. A status outside of 200 .. 599, and a call out of turn, is a
 * caller's bug. All: 0, or -EPIPE, -ECONNRESET, -ETIMEDOUT ...: the client is gone, and the handler
 * may as well return. */
WEFT_API int weft_http_begin(weft_http *x, int status);
/* -EINVAL: a name that is no token or is the server's to set, a value with control bytes, more than
 * 8 KiB: nothing was set. */
WEFT_API int weft_http_set(weft_http *x, const char *name, const char *value);
/* Writing another number of bytes is a caller's bug; fewer cuts the connection. */
WEFT_API int weft_http_set_length(weft_http *x, uint64_t n);
/* Bytes are gathered; weft_http_flush sends them now. */
WEFT_API int weft_http_write(weft_http *x, const void *buf, size_t n);
WEFT_API int weft_http_flush(weft_http *x);
/* n bytes of a file of a disk, from `offset`. A length must be set. -ENODATA: the file is
 * shorter. */
WEFT_API int weft_http_send_file(weft_http *x, int fd, uint64_t offset, uint64_t n);
/* Has begin been called (or answer)? */
WEFT_API bool weft_http_begun(const weft_http *x);

/* --- files ----------------------------------------------------------------------------------- */

/* A directory that is served: GET and HEAD, ranges, conditional requests, index.html. Never
 * anything outside of it, and nothing through a symbolic link unless that is asked for; only
 * regular files; no name that begins with a dot. */
typedef struct weft_http_files weft_http_files;

struct weft_http_files_opts {
    const char *index; /* default "index.html"; "": none */
    /* What a path begins with that is not part of the files' names; default "/". */
    const char *prefix;
    bool listing;         /* a directory without an index is shown */
    bool follow_symlinks; /* those that stay below the directory */
    bool dotfiles;
    /* How long before a cached file is checked again; default 1 s; < 0: nothing is cached, each
     * request opens and reads its file. While descriptors or memory for the check are lacking, a
     * cached file is served as it was. */
    int64_t revalidate_ns;
    /* How many have a cache each; default: of the calling fiber's pool, else 64. */
    unsigned workers;
};

/* -ENOENT, -ENOTDIR, -EACCES; -EOPNOTSUPP: links are to be followed, and the system has no openat2.
 * -EINVAL: a prefix that does not begin and end with a slash. -ENOMEM. */
WEFT_API int weft_http_files_open(weft_http_files **out, const char *dir,
                                  const struct weft_http_files_opts *opts);
/* Nobody serves from it any more. NULL is fine. */
WEFT_API void weft_http_files_close(weft_http_files *files);
/* The handler: arg is the weft_http_files. Several servers may have it; the caches are for those of
 * the pool that serves from it first, and others open each file anew. */
WEFT_API int weft_http_files_serve(weft_http *x, void *files);

/* The content type for a name, by its ending. */
WEFT_API const char *weft_http_type(const char *name);

WEFT_END_DECLS
#endif
