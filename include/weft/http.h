/* An HTTP/1.1 server on fibers: listeners, routes, and handlers written as blocking code.
 *
 *     static int hello(weft_http *req, void *arg)
 *     {
 *         return weft_http_respond(req, 200, "text/plain", "hello\n", 6);
 *     }
 *
 *     weft_http_server_create(&server, &(struct weft_http_server_opts){.pool = pool});
 *     weft_http_server_route(server, "GET", "/hello", hello, NULL, NULL);
 *     weft_http_server_listen(server, NULL, "127.0.0.1:0");
 *     ...
 *     weft_http_server_stop(server, weft_after(WEFT_SECONDS(10)));
 *     weft_http_server_destroy(server);
 *
 * Each connection is served by one fiber, on one worker of the pool for the connection's whole life.
 * The fiber reads the requests one after the other and calls their handlers. Responses to pipelined
 * requests are buffered and written together. A connection that is silent for a while rests: it has
 * no fiber until its client sends the next byte. Only a connection between two requests rests; a
 * handler that waits, for example in a long poll, keeps its fiber. A handler may wait in any way. A handler that migrates to
 * another worker (weft/fiber.h) must return to its own worker before its next call into this
 * header.
 *
 * The parser is strict (weft/http_parse.h). The server itself responds to a malformed request and
 * then closes the connection with a lingering close: it keeps reading for a while, so that the
 * client can read the response instead of getting a reset.
 *
 * Idle clients, slow headers, slow bodies and slow readers are disconnected. Timeouts use idle
 * groups (weft/timer.h): a timeout fires at most 1/16 late, and never more than 1 s late (timeouts
 * longer than nine hours: at most 1/32768 late).
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <weft/http_parse.h>
#include <weft/net.h>
#include <weft/server.h>

WEFT_BEGIN_DECLS

typedef struct weft_http_server weft_http_server;
/* One request and its response. The handler borrows the request until the handler returns. */
typedef struct weft_http weft_http;

/* Handle one request: read the request, send the response.
 *
 * req: borrowed until the handler returns. arg: the pointer given to weft_http_server_route.
 * Returns 0, or a negative errno. After an error: if no byte of the response has been sent, the
 * server responds instead (413 for -EMSGSIZE, 408 for -ETIMEDOUT, 400 for -EBADMSG, 503 for
 * -ENOMEM, -EMFILE and -ENFILE, otherwise 500); if a part has been sent, the server aborts the
 * connection, so that the client sees that the response is incomplete. A handler that returns 0
 * without a response counts as failed (500).
 * Context: runs on the fiber of the connection; may wait. */
typedef int (*weft_http_fn)(weft_http *req, void *arg);

/* --- the server ------------------------------------------------------------------------ */

/* Limits of a server. 0 selects the default. When a request exceeds a limit, the server responds
 * with the status in parentheses and closes the connection. */
struct weft_http_server_limits {
    uint32_t line_bytes;   /* request line: 8 KiB (414); at least 64 */
    uint32_t header_bytes; /* all header fields together: 16 KiB (431) */
    uint32_t fields;       /* number of header fields: 100 (431) */
    uint64_t body_bytes;   /* request body: 1 MiB (413); a route may override it */
    /* Requests per connection: 1000; the response to the last one closes the connection. */
    uint32_t requests;
    uint32_t pipelined; /* responses buffered before they are written: 64 */
    /* Open connections. When the limit is reached, or file descriptors run short, the server closes
     * the connections that have waited longest for their clients (idle, or with an incomplete
     * header for more than a second) to admit new ones. If there is none to close, the new
     * connection is rejected (503). Default: RLIMIT_NOFILE minus a quarter (and minus at least 32),
     * at most 131072. */
    uint32_t connections;
    /* Open connections per IPv4 address or per IPv6 /64, with the same policy. Default: half of the
     * default of `connections`, at most 16384. */
    uint32_t per_address;
    int64_t idle_ns; /* idle timeout between two requests: 60 s */
    /* Idle time between two requests after which a connection rests: it gives its fiber, stack and
     * buffers back, and costs a few hundred bytes until its client sends the next byte. 1 s; below
     * 1 ms: as soon as nothing is there to do; idle_ns or longer: never. */
    int64_t rest_ns;
    int64_t header_ns; /* from the first byte of a request to the end of its header: 10 s (408) */
    int64_t body_ns;   /* one wait for more of a body: 10 s (408) */
    /* Minimum rate in bytes per second once body_ns have been spent waiting: 500 (408). */
    uint32_t body_rate;
    /* Slow readers. The server aborts a connection whose client reads nothing for write_ns (30 s),
     * or less than write_rate bytes per second (500) on average. Each byte that the client's TCP
     * stack acknowledges allows 1/write_rate s of waiting, in addition to write_ns. A TCP stack
     * acknowledges data before the program reads it, and then nothing until the program has read a
     * large part of the receive buffer. So up to write_burst acknowledged bytes (256 KiB) count as
     * credit for the time after them.
     * With the defaults, a client that reads at the minimum rate is never disconnected unless its
     * TCP stack accepts more than 256 KiB at a time. A client that accepts nothing is disconnected
     * after 30 s. A client that stops reading after its TCP stack has acknowledged N bytes is
     * disconnected after 30 s + N/500 s, at most 554 s. Each of these may take up to write_ns
     * longer. Only time spent waiting for buffer space counts, not the time that a handler takes to
     * produce the response. All responses of a connection share one credit. */
    int64_t write_ns;
    uint32_t write_rate;
    uint32_t write_burst;
    int64_t linger_ns; /* how long to read after the last response: 2 s, and at most 4 MiB */
    int64_t grace_ns; /* during a stop: how long an idle connection may still send a request: 1 s */
};

/* Record of one finished request, for an access log. Pointers are valid during the call only. */
struct weft_http_record {
    const char *method, *target; /* as sent; "-" if no complete request line arrived */
    int method_len, target_len;
    int minor; /* HTTP/1.minor */
    int status;
    uint64_t sent; /* body bytes of the response; for an aborted file, the bytes that were sent */
    /* From the complete header to the end of the handler; 0: rejected before the handler. */
    int64_t duration_ns;
    const struct weft_addr *peer;
    const char *referer, *agent; /* as sent; NULL: no such field */
    int referer_len, agent_len;
};

struct weft_http_server_opts {
    const char *name; /* name of the fibers in dumps; borrowed until destroy; default "http" */
    /* Default: the calling fiber's pool; required outside a fiber; not a compute pool. */
    weft_pool *pool;
    enum weft_balance balance;
    struct weft_http_server_limits limits;
    /* Called for each finished request, by the connection's fiber on its worker. Should not
     * wait. */
    void (*on_request)(const struct weft_http_record *record, void *arg);
    void *arg;
};

/* Create a server that does not listen yet.
 *
 * opts: NULL for defaults; copied, except that opts->name and opts->pool are borrowed until
 * destroy.
 * Returns 0 and an owned server in *out; -EINVAL for a bad option or a missing pool
 * (weft_last_error names it); -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_http_server_create(weft_http_server **out,
                                     const struct weft_http_server_opts *opts);
/* Destroy a server and free its memory. NULL is allowed.
 * The server must never have listened, or weft_http_server_stop must have returned 0; anything else
 * is a caller's bug and stops the program.
 * Context: any thread, not concurrently with other calls; may wait briefly for a timeout callback
 * that is running. */
WEFT_API void weft_http_server_destroy(weft_http_server *server);

struct weft_http_route_opts {
    uint64_t body_bytes; /* overrides the server's limit; 0: no override */
};
/* Add a route: requests with this method and path go to fn.
 *
 * method: NULL matches every method; "GET" matches HEAD too. path: in the form that
 * weft_uri_path_normalize produces, or "*"; copied. A path that ends in '/' matches everything
 * below it, and the longest matching path wins. Of two routes with the same path and method the
 * later one wins. arg is borrowed until the server is destroyed. opts: NULL for defaults.
 * A request that matches no route gets 404; a request whose path matches only with other methods
 * gets 405.
 * Returns 0; -EBUSY after the first listen; -EINVAL for a missing path or fn, or a path that does
 * not begin with '/'; -ENOMEM.
 * Context: any thread, one call at a time; does not wait. */
WEFT_API int weft_http_server_route(weft_http_server *server, const char *method, const char *path,
                                    weft_http_fn fn, void *arg,
                                    const struct weft_http_route_opts *opts);

/* Listen on an address and serve. May be called several times.
 *
 * address: as for weft_listen. bound: if not NULL, receives the actual address (port 0 is replaced
 * by the port that the kernel chose).
 * Returns 0; -ESHUTDOWN if the server is stopping; -EINVAL for a bad address; otherwise the errors
 * of weft_listen. -EADDRINUSE also if another server listens there with SO_REUSEPORT.
 * Context: any fiber or thread; may wait up to 1 s while the address is in use; cancellation point
 * if it waits. */
WEFT_API int weft_http_server_listen(weft_http_server *server, struct weft_addr *bound,
                                     const char *address);

/* Stop the server gracefully. No request is lost if its client pauses for less than grace_ns
 * between requests.
 *
 *   1. Connections that are already established are accepted and served. Then the listeners are
 *      closed, and the files of Unix sockets are removed if they still belong to this server. (TCP:
 *      new connections are held off meanwhile; their clients retry after a second and are refused.)
 *   2. Idle connections stay open for grace_ns. Every response now says "Connection: close"; after
 *      it the server sends nothing more and reads until the client closes, for up to linger_ns.
 *   3. After grace_ns idle connections are closed. A request that crosses this close on the wire is
 *      lost; the statistics count it (stop_lost).
 *   4. At the deadline the remaining connections are aborted, which the statistics count
 *      (stop_aborted), and their fibers are cancelled. Then the call waits up to 5 s for the
 *      handlers to return.
 *
 * deadline: 0 or a time in the past skips steps 1 to 3.
 * Returns 0 when every connection has ended; -EBUSY if some handlers still run: call stop again;
 * -ECANCELED or -EINTR if the calling fiber's wait was ended: call stop again.
 * Context: any fiber or thread; may wait; cancellation point. Several calls at once are allowed:
 * the nearest deadline wins. */
WEFT_API int weft_http_server_stop(weft_http_server *server, int64_t deadline);
/* Report whether a stop has begun.
 * Returns true from the moment that the first call of weft_http_server_stop begins.
 * Context: any thread; does not wait. */
WEFT_API bool weft_http_server_is_stopping(const weft_http_server *server);

/* Upper bounds of the histogram buckets in ns; the last one is WEFT_FOREVER. */
#define WEFT_HTTP_BUCKETS 18
WEFT_API extern const int64_t weft_http_buckets[WEFT_HTTP_BUCKETS];

struct weft_http_stats {
    uint64_t requests; /* responses sent */
    /* [2]: 2xx and so on; [0]: connection aborted before there was a status */
    uint64_t by_class[6];
    uint64_t bytes_in;  /* read from clients */
    uint64_t bytes_out; /* written to clients */
    uint64_t accepted;  /* connections accepted */
    uint64_t open;      /* connections open now */
    uint64_t at_rest;   /* ... of these: without a fiber (rest_ns) */
    uint64_t wakes;     /* times that a connection at rest got a fiber again */
    uint64_t refused;   /* connections rejected because of a limit */
    /* Failed accepts: no descriptor or no memory; the acceptor pauses after one. */
    uint64_t accept_errors;
    uint64_t accept_wakes;    /* times an acceptor had to wait and was woken */
    uint64_t bad;             /* requests that the parser rejected */
    uint64_t idle_shed;       /* idle connections closed to make room for new ones */
    uint64_t idle_timeouts;   /* connections closed by a timeout: idle */
    uint64_t header_timeouts; /* ... slow header */
    uint64_t body_timeouts;   /* ... slow body */
    uint64_t write_timeouts;  /* ... slow reader */
    uint64_t flushes;         /* writes of buffered responses */
    /* Idle connections that a stop closed, after its grace period or at its deadline. */
    uint64_t stop_idle;
    uint64_t stop_lost; /* ... of these: a request arrived after the close and was lost */
    /* Connections with a request in progress that a stop aborted at its deadline. */
    uint64_t stop_aborted;
    /* Sum over all requests, from the arrival of the bytes until the response is written. */
    int64_t duration_ns;
    uint64_t took[WEFT_HTTP_BUCKETS]; /* requests per bucket, not cumulative */
};
/* Read the statistics: sums over the workers, into *out. Each counter is read on its own, so the
 * counters are not one consistent snapshot. Context: any thread; does not wait. */
WEFT_API void weft_http_server_stats(const weft_http_server *server, struct weft_http_stats *out);

/* --- the request ------------------------------------------------------------------------- */

/* Bytes of the request, without a terminating zero. data is NULL if there are none. Valid until the
 * handler returns. */
struct weft_http_text {
    const char *data;
    size_t len;
};

/* Return the request method. Context: the handler's fiber; does not wait. */
WEFT_API enum weft_http_method weft_http_method(const weft_http *req);
/* Return the path, decoded once and normalised (weft_uri_path_normalize), zero-terminated, valid
 * until the handler returns. "*" for "OPTIONS *". Context: the handler's fiber; does not wait. */
WEFT_API const char *weft_http_path(const weft_http *req);
/* Return the part of the target after '?', as sent. Context: as above. */
WEFT_API struct weft_http_text weft_http_query(const weft_http *req);
/* Return the value of the first header field with this name (case-insensitive). Context: as
 * above. */
WEFT_API struct weft_http_text weft_http_get_header(const weft_http *req, const char *name);
/* Return the parsed header, and in *data the bytes that its spans refer to. Both valid until the
 * handler returns. Context: as above. */
WEFT_API const weft_http_head *weft_http_request_head(const weft_http *req, const char **data);
/* Return the client's address, borrowed until the handler returns. Context: the handler's fiber;
 * does not wait. */
WEFT_API const struct weft_addr *weft_http_peer(const weft_http *req);

/* Read up to n bytes of the request body into buf.
 *
 * The first call sends "100 Continue" if the client waits for it. The server discards what a
 * handler leaves unread.
 * deadline: for this call; the server's own limits for slow bodies hold as well.
 * Returns the number of bytes; 0 at the end of the body; -ETIMEDOUT at the deadline, or if the
 * client is too slow; -EMSGSIZE beyond the limit; -EBADMSG for malformed chunks; -ECONNRESET if the
 * client closed before the end; -ECANCELED, -EINTR, and -ETIMEDOUT before the server's own limit:
 * may be called again. The other errors are final: return them from the handler.
 * Context: the handler's fiber; may wait; cancellation point. */
WEFT_API ssize_t weft_http_read(weft_http *req, void *buf, size_t n, int64_t deadline);

/* --- the response ---------------------------------------------------------------------------- */

/* Send a complete response: status, header, body.
 *
 * type: the Content-Type; NULL for none. body: borrowed for the call. Not after
 * weft_http_begin_response.
 * Returns 0; -EINVAL for a type with control bytes (nothing was sent); -EPIPE, -ECONNRESET,
 * -ETIMEDOUT: the client is gone, and the handler may return.
 * Context: the handler's fiber, on its own worker; may wait; cancellation point if it waits. */
WEFT_API int weft_http_respond(weft_http *req, int status, const char *type, const void *body,
                               size_t n);

/* Begin a response that is sent in parts: begin, header fields, the length if known, the body.
 *
 * The response ends when the handler returns. Without a length the body is sent in chunks, or
 * (HTTP/1.0) until the connection closes. Responses to HEAD, 204 and 304 have no body: what the
 * handler writes is dropped. The server itself sets Date, Connection and the framing fields. A
 * status outside 200..599, a second response, or any call of this group out of order is a caller's
 * bug and stops the program.
 * Returns 0, or -EPIPE if the client is gone; the handler may return.
 * Context: the handler's fiber, on its own worker; may wait if the buffer is full; cancellation
 * point if it waits. */
WEFT_API int weft_http_begin_response(weft_http *req, int status);
/* Add a header field to the response. name and value are copied.
 * Returns 0; -EINVAL if name is not a token or belongs to the server (Connection, Content-Length,
 * Date, Transfer-Encoding), if value contains control bytes, or if both exceed 8 KiB (nothing was
 * added); -EPIPE if the client is gone: the handler may return.
 * Context: as weft_http_begin_response. */
WEFT_API int weft_http_set_header(weft_http *req, const char *name, const char *value);
/* Set the Content-Length. Writing more bytes is a caller's bug; writing fewer aborts the
 * connection.
 * Returns 0.
 * Context: the handler's fiber, on its own worker; does not wait. */
WEFT_API int weft_http_set_content_length(weft_http *req, uint64_t n);
/* Write a part of the body. Small parts are buffered; weft_http_flush sends the buffer now.
 * deadline: for this call; the server's own limits for slow readers hold as well.
 * Returns 0, or a negative errno: the client is gone (-EPIPE, -ECONNRESET), the deadline came or
 * the client is too slow (-ETIMEDOUT), or the fiber was cancelled (-ECANCELED). The connection is
 * unusable after an error; the handler may return.
 * Context: as weft_http_begin_response. */
WEFT_API int weft_http_write(weft_http *req, const void *buf, size_t n, int64_t deadline);
/* Send the buffered bytes.
 * Returns as weft_http_write.
 * Context: the handler's fiber, on its own worker; may wait; cancellation point if it waits. */
WEFT_API int weft_http_flush(weft_http *req, int64_t deadline);
/* Send n bytes of a file, starting at `offset`, as a part of the body. fd: an open regular file;
 * borrowed for the call. weft_http_set_content_length must have been called.
 * Returns 0; -ENODATA if the file is shorter; otherwise as weft_http_write. An error aborts the
 * connection.
 * Context: the handler's fiber, on its own worker; may wait; cancellation point if it waits. */
WEFT_API int weft_http_send_file(weft_http *req, int fd, uint64_t offset, uint64_t n,
                                 int64_t deadline);

/* --- files ----------------------------------------------------------------------------------- */

/* A directory served over HTTP: GET and HEAD, ranges, conditional requests, index.html. Never
 * serves anything outside the directory, follows no symbolic link unless asked to, and serves
 * regular files only, without names that begin with a dot unless asked to. */
typedef struct weft_http_files weft_http_files;

struct weft_http_files_opts {
    const char *index; /* default "index.html"; "": none */
    /* Prefix of the request path that is not part of the file name; default "/". */
    const char *prefix;
    bool listing;         /* generate a listing for a directory without an index */
    bool follow_symlinks; /* only links that stay below the directory */
    bool dotfiles;
    /* How long a cached file is served without checking it again; default 1 s; < 0: no cache, each
     * request opens and reads its file. While descriptors or memory for the check are lacking, the
     * cached file is served unchanged. */
    int64_t revalidate_ns;
    /* Number of workers that have a cache; default: that of the calling fiber's pool, else 64. */
    unsigned workers;
};

/* Open a directory for serving.
 *
 * dir: borrowed for the call. opts: NULL for defaults; strings are copied.
 * Returns 0 and an owned object in *out; -ENOENT, -ENOTDIR, -EACCES or another error of open(2);
 * -EOPNOTSUPP if follow_symlinks is set and the kernel has no openat2; -EINVAL for a prefix that
 * does not begin and end with '/' (weft_last_error says so); -ENOMEM.
 * Context: any thread; makes file system calls that may block the thread. */
WEFT_API int weft_http_files_open(weft_http_files **out, const char *dir,
                                  const struct weft_http_files_opts *opts);
/* Close the directory and free its caches. No request may be using it. NULL is allowed. Context:
 * any thread; does not wait. */
WEFT_API void weft_http_files_close(weft_http_files *files);
/* Handle a request for a file: a weft_http_fn whose arg is the weft_http_files (borrowed). Several
 * servers may share one object. The caches belong to the pool that serves from the object first;
 * servers on other pools open each file again. Returns and Context: as weft_http_fn. */
WEFT_API int weft_http_files_serve(weft_http *req, void *files);

WEFT_END_DECLS
#endif
