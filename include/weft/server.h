/* A server for any protocol: listeners, connections that rest without a fiber, limits, and a stop
 * that loses nothing. HTTP has a header of its own, <weft/http.h>.
 *
 *     static int answer(weft_conn *conn, const char *line, size_t n, void *arg)
 *     {
 *         weft_conn_send(conn, line, n, WEFT_FOREVER);
 *         return weft_conn_send(conn, "\n", 1, WEFT_FOREVER);
 *     }
 *     static const struct weft_protocol echo = {.framing = WEFT_FRAMING_LINE, .handle = answer};
 *
 *     weft_server_create(&server, &(struct weft_server_opts){.pool = pool});
 *     weft_server_listen(server, NULL, "127.0.0.1:0", &echo, NULL);
 *     ...
 *     weft_server_stop(server, weft_after(WEFT_SECONDS(10)));
 *     weft_server_destroy(server);
 *
 * A connection stays on one worker. While it has something to do, a fiber serves it: receives bytes,
 * cuts them into messages, and calls the protocol's functions, which may wait in any way. A
 * connection that is idle for a while rests: it has no fiber, no stack and no buffers until its
 * client sends the next byte. So what a protocol keeps per connection is in the memory that
 * weft_conn_set_data remembers, never in fiber-local values.
 *
 * Output. What a handler sends is collected, and written when a good part has come together or the
 * handlers have nothing more to do; a slow client makes its handler wait. Any fiber or thread may
 * send to a connection by its id (weft_server_send): such output is queued within a budget of bytes
 * per connection and per server, and refused beyond that. A server never uses an id again.
 */
#ifndef WEFT_SERVER_H
#define WEFT_SERVER_H

#include <weft/buf.h>
#include <weft/net.h>
#include <weft/pool.h>
#include <weft/stream.h>

WEFT_BEGIN_DECLS

typedef struct weft_server weft_server;
/* A connection in a call of its protocol. Borrowed until the call returns. */
typedef struct weft_conn weft_conn;
/* Unique for the server's life; never 0. */
typedef uint64_t weft_conn_id;

/* --- protocols -------------------------------------------------------------------------- */

/* How the bytes of a connection become messages. */
enum weft_framing {
    WEFT_FRAMING_CUSTOM,        /* by the protocol's own `frame` */
    WEFT_FRAMING_LINE,          /* lines, without their ends */
    WEFT_FRAMING_LENGTH_PREFIX, /* frames that begin with their length; the body */
    WEFT_FRAMING_RESP,          /* values of the Redis protocol, as they were sent */
    WEFT_FRAMING_STREAM,        /* none: `serve` reads the bytes itself */
};

/* Why a connection has ended. */
enum weft_conn_end {
    WEFT_CONN_END_PEER,    /* the client has closed it */
    WEFT_CONN_END_CLOSED,  /* weft_conn_close or weft_server_close */
    WEFT_CONN_END_ERROR,   /* a function of the protocol, reading or writing has failed */
    WEFT_CONN_END_TIMEOUT, /* the client was idle or too slow */
    WEFT_CONN_END_EVICTED, /* closed to make room for a new connection */
    WEFT_CONN_END_STOPPED, /* the server stops */
};

/* A protocol. Must stay valid as long as the server; every function but one of `handle` and `serve`
 * may be NULL. All are called on the connection's worker, with the `arg` of weft_server_listen; and
 * one at a time for each connection, except `pressure`, which may be called while another waits. */
struct weft_protocol {
    const char *name; /* of the fibers in dumps; default: that of the server */
    enum weft_framing framing;
    struct weft_line_opts line;                   /* options of the framing */
    struct weft_length_prefix_opts length_prefix; /* ... */
    struct weft_resp_opts resp;                   /* ... */
    /* Bytes of a message with CUSTOM or RESP framing (resp.value_max overrides it), or that `serve`
     * leaves unread; default 1 MiB. The other framings have limits in their options. */
    size_t message_max;

    /* A client has connected. Returns 0, or a negative errno: the connection is closed. May wait. */
    int (*open)(weft_conn *conn, void *arg);
    /* With CUSTOM framing: find the first message in bytes[0 .. n). Returns its number of bytes; 0
     * if more bytes are needed; a negative errno to end the connection. Does not wait. */
    ssize_t (*frame)(weft_conn *conn, const char *bytes, size_t n, void *arg);
    /* Handle a message, which is borrowed for the call. Returns 0, or a negative errno: the
     * connection is closed. May wait. */
    int (*handle)(weft_conn *conn, const char *message, size_t n, void *arg);
    /* With STREAM framing, instead of `handle`: serve the connection by weft_conn_read and
     * weft_conn_send. Called when bytes have arrived. Returns 0 to be called again when more bytes
     * arrive (the connection may rest until then), or a negative errno: the connection is closed.
     * May wait. */
    int (*serve)(weft_conn *conn, void *arg);
    /* The server has begun to stop: say goodbye, if the protocol has a word for it. The connection
     * is served until it is idle at the end of the grace period. Not called while another function
     * runs (`serve` learns of the stop by weft_conn_read), nor in a stop at once. Returns as
     * `handle`. May wait. */
    int (*goodbye)(weft_conn *conn, void *arg);
    /* The connection's budget for output queued by weft_server_send is used up (over): a send was
     * refused. Or the queued output has fallen to half of the budget again (not over); not called
     * if the connection ends before. Does not wait. */
    void (*pressure)(weft_conn_id id, bool over, void *arg);
    /* The connection has ended; nothing can be sent. Called once for each connection whose `open`
     * returned 0. May wait. */
    void (*close)(weft_conn *conn, enum weft_conn_end why, void *arg);
};

/* --- the server ------------------------------------------------------------------------- */

/* How connections are distributed over the workers. */
enum weft_balance {
    /* An acceptor hands the connection to the worker with the fewest connections. */
    WEFT_BALANCE_LEAST,
    WEFT_BALANCE_ROUND_ROBIN,
    WEFT_BALANCE_HASH, /* by client address: all connections of one client go to one worker */
    /* Each worker has its own listening socket and the kernel chooses (SO_REUSEPORT). There is no
     * acceptor in between, but the distribution is random. Unix sockets have no SO_REUSEPORT: they
     * use LEAST instead. */
    WEFT_BALANCE_REUSEPORT,
};

/* Limits. 0 selects the default. */
struct weft_server_limits {
    /* Open connections, in all and per client address; as in struct weft_http_server_limits. */
    uint32_t connections, per_address;
    int64_t idle_ns;    /* no message from the client: 60 s; WEFT_FOREVER: no limit */
    int64_t rest_ns;    /* idle time after which a connection rests: 1 s; below 1 ms: at once */
    int64_t message_ns; /* from the first byte of a message to its last: 10 s */
    int64_t write_ns;   /* a client that reads nothing: 30 s */
    uint32_t write_rate, write_burst; /* as in struct weft_http_server_limits */
    int64_t linger_ns;                /* how long to read after the last output: 2 s */
    int64_t grace_ns;                 /* during a stop: 1 s */
    size_t output_bytes;              /* queued by weft_server_send for a connection: 1 MiB */
    size_t output_bytes_all;          /* ... for all connections of the server: 64 MiB */
};

struct weft_server_opts {
    const char *name; /* of the fibers in dumps; borrowed until destroy; default "server" */
    /* Default: the calling fiber's pool; required outside a fiber; not a compute pool. */
    weft_pool *pool;
    enum weft_balance balance; /* default WEFT_BALANCE_LEAST */
    struct weft_server_limits limits;
};

/* Create a server.
 *
 * opts: NULL for defaults; copied.
 * Returns 0 and an owned server in *out; -EINVAL for bad options (weft_last_error says which);
 * -ENOMEM.
 * Context: any fiber or thread; does not wait. */
WEFT_API int weft_server_create(weft_server **out, const struct weft_server_opts *opts);
/* Destroy a server that was stopped. Stops the program if connections are open. NULL is allowed.
 * Context: any fiber or thread; does not wait. */
WEFT_API void weft_server_destroy(weft_server *server);
/* Listen on an address and serve its connections by a protocol. May be called several times, with
 * different protocols.
 *
 * bound, address: as for weft_http_server_listen. protocol: borrowed until destroy. arg: passed to
 * its functions.
 * Returns 0; -EINVAL for a bad address or a protocol without its function (weft_last_error says
 * which); -ESHUTDOWN if the server is stopping; otherwise the errors of weft_listen.
 * Context: any fiber or thread; may wait up to 1 s while the address is in use; cancellation point
 * if it waits. */
WEFT_API int weft_server_listen(weft_server *server, struct weft_addr *bound, const char *address,
                                const struct weft_protocol *protocol, void *arg);
/* Stop the server: the steps of weft_http_server_stop, with the protocols' `goodbye` instead of
 * "Connection: close". A connection that is idle at the end of the grace period is closed; one that
 * is paused is not idle.
 *
 * Returns as weft_http_server_stop.
 * Context: any fiber or thread; may wait; cancellation point. */
WEFT_API int weft_server_stop(weft_server *server, int64_t deadline);

struct weft_server_stats {
    uint64_t accepted, refused; /* connections */
    uint64_t open;              /* connections open now */
    uint64_t at_rest;           /* ... of these: without a fiber */
    uint64_t wakes;             /* times that a connection at rest got a fiber again */
    uint64_t messages;          /* handled */
    uint64_t bytes_in, bytes_out;
    uint64_t output_bytes;   /* queued by weft_server_send now */
    uint64_t output_refused; /* sends refused over a budget */
    uint64_t idle_timeouts, message_timeouts, write_timeouts, evicted; /* connections closed */
    uint64_t stop_idle, stop_lost, stop_aborted; /* as in struct weft_http_stats */
};
/* Read the statistics into *out: sums over the workers, not one consistent snapshot. Context: any
 * thread; does not wait. */
WEFT_API void weft_server_stats(const weft_server *server, struct weft_server_stats *out);

/* --- connections by id ------------------------------------------------------------------ */

/* Send a buffer to a connection. Takes buf on success. Buffers of one sender arrive in order;
 * between them and what the connection's own handler sends there is no order.
 *
 * Returns 0; -ENOTCONN if the connection has ended; -EAGAIN if a budget of queued output is used up:
 * the client does not keep up; -EMSGSIZE if the buffer is larger than a budget; an error of
 * weft_pool_spawn if the pool has no fiber to write it (also -EAGAIN).
 * Context: any thread; does not wait. */
WEFT_API int weft_server_send(weft_server *server, weft_conn_id id, weft_buf *buf);
/* Close a connection: after the queued output, or, if `now`, at once and with a reset.
 *
 * Returns 0; -ENOTCONN if it has ended; an error of weft_pool_spawn unless `now`.
 * Context: any thread; does not wait. */
WEFT_API int weft_server_close(weft_server *server, weft_conn_id id, bool now);
/* Continue to read from a connection that weft_conn_pause has paused.
 *
 * Returns 0; -ENOTCONN if it has ended; an error of weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_server_resume(weft_server *server, weft_conn_id id);

struct weft_conn_info {
    weft_conn_id id;
    struct weft_addr peer;
    size_t output_bytes; /* queued */
};
/* List the connections with the most queued output, the largest first, up to max.
 *
 * Returns their number; connections without queued output are not listed.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_server_slowest(weft_server *server, struct weft_conn_info *out, size_t max);

/* --- a connection, in the functions of its protocol ---------------------------------------- */

/* Return the connection's id. Context: a function of the protocol; does not wait. */
WEFT_API weft_conn_id weft_conn_get_id(const weft_conn *conn);
/* Return the client's address, borrowed until the function returns. Context: as above. */
WEFT_API const struct weft_addr *weft_conn_peer(const weft_conn *conn);
/* Remember a pointer for the connection. Context: as above. */
WEFT_API void weft_conn_set_data(weft_conn *conn, void *data);
/* Return the pointer of weft_conn_set_data; NULL at first. Context: as above. */
WEFT_API void *weft_conn_data(const weft_conn *conn);

/* Send bytes. Small pieces are collected and written together.
 *
 * deadline: for this call, if it waits for the client to read; the server's limits for slow readers
 * hold as well.
 * Returns 0; -EPIPE, -ECONNRESET: the client is gone; -ETIMEDOUT: the deadline came, or the client
 * is too slow; -ECANCELED, -ENOMEM. The connection is unusable after an error.
 * Context: a function of the protocol; may wait; cancellation point if it waits. */
WEFT_API int weft_conn_send(weft_conn *conn, const void *bytes, size_t n, int64_t deadline);
/* Send a buffer. Takes buf, also on an error. Returns as weft_conn_send. Context: as
 * weft_conn_send. */
WEFT_API int weft_conn_send_buf(weft_conn *conn, weft_buf *buf, int64_t deadline);
/* Send n bytes of a file, starting at `offset`. fd: an open regular file; borrowed for the call.
 * Returns as weft_conn_send; -ENODATA if the file is shorter.
 * Context: as weft_conn_send. */
WEFT_API int weft_conn_send_file(weft_conn *conn, int fd, uint64_t offset, uint64_t n,
                                 int64_t deadline);
/* Write now what was sent before and is still collected. For a handler that waits long after it: the
 * bytes are written without it when the function returns.
 *
 * deadline: as for weft_conn_send. Returns as weft_conn_send. Context: as weft_conn_send. */
WEFT_API int weft_conn_flush(weft_conn *conn, int64_t deadline);
/* Read up to n bytes; with STREAM framing only. Writes first what was sent before; only the server's
 * limits for slow readers bound that.
 *
 * Returns the number of bytes; 0 at the end of the stream; -ETIMEDOUT at the deadline or if the
 * client is idle for too long; -ESHUTDOWN if weft_server_close was called, or if a stop's grace
 * period is over and nothing has arrived; another error of weft_read.
 * Context: the protocol's `serve`; may wait; cancellation point. */
WEFT_API ssize_t weft_conn_read(weft_conn *conn, void *buf, size_t n, int64_t deadline);
/* Close the connection when the function returns, after what was sent. Context: a function of the
 * protocol; does not wait. */
WEFT_API void weft_conn_close(weft_conn *conn);
/* Read nothing more from the client until weft_server_resume: further messages stay in its socket.
 * A paused connection keeps its fiber, and has no timeout: it does not learn that its client has
 * gone.
 * Context: a function of the protocol; does not wait. */
WEFT_API void weft_conn_pause(weft_conn *conn);

WEFT_END_DECLS
#endif
