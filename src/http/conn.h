/* A connection: its fiber, its two buffers, and the exchange it is at.
 *
 * It lives on its fiber's stack. Others reach it through its worker's list (a stop) and through the
 * idle groups: it leaves both before it ends. They look at the phase and shut the socket down; the
 * fiber finds its read or write ended and asks why.
 */
#ifndef WEFT_HTTP_CONN_H
#define WEFT_HTTP_CONN_H

#include "http/server.h"

enum {
    WEFT__HTTP_INPUT = 4096,     /* first size of a read buffer */
    WEFT__HTTP_OUTPUT = 16384,   /* size of a write buffer */
    WEFT__HTTP_PATH = 256,       /* longer ones take memory */
    WEFT__HTTP_DROPPED = 65536,  /* bytes of a body that nobody read, for the next request */
    WEFT__HTTP_LINGER = 4 << 20, /* bytes behind a last answer */
    WEFT__HTTP_LITTLE = 65536,   /* bytes that a client's system takes before its program reads */
    WEFT__HTTP_TURN = 1 << 20    /* bytes to write before others have a turn */
};

enum weft__http_stage {
    WEFT__HTTP_UNANSWERED,
    WEFT__HTTP_FIELDS, /* begun; fields may follow */
    WEFT__HTTP_CONTENT,
};

enum weft__http_framing {
    WEFT__HTTP_NO_CONTENT, /* what is written is dropped */
    WEFT__HTTP_COUNTED,
    WEFT__HTTP_CHUNKS,
    WEFT__HTTP_TO_THE_END,
};

struct weft_http {
    struct weft__http_conn *conn;
    weft_http_head head;
    const char *data; /* what its spans are of */
    const char *path;
    size_t path_len;
    weft_buf *path_buf; /* of a long one */

    /* The body that is read. */
    uint64_t body_left; /* with a length */
    uint64_t body_seen, body_most;
    const char *piece; /* of a chunk, read and not yet taken */
    size_t piece_len;
    size_t body_at; /* where in the buffer it began */
    int64_t waited_ns;
    int body_err; /* sticks */
    bool body_over, continue_due;
    weft_http_chunked chunked;

    /* The answer. */
    enum weft__http_stage stage;
    enum weft__http_framing framing;
    int status;
    bool length_set;
    bool begun_on_wire; /* a part of it has left the buffer */
    size_t mark;        /* where in the write buffer it begins, unless so */
    uint64_t length_left, sent;
    char path_room[WEFT__HTTP_PATH];
};

struct weft__http_conn {
    struct weft_http x;
    struct weft_http_server *server;
    struct weft__http_shard *shard;
    int fd;
    int worker;
    weft_fiber fiber;
    struct weft_addr peer;
    weft__http_peer address;

    /* Bytes [start, end) of `in` were not used yet. */
    weft_buf *in;
    size_t start, end;
    weft_buf *out; /* NULL while there is nothing to write */

    int64_t now;        /* when the last bytes came */
    uint32_t served;    /* requests */
    uint32_t gathered;  /* answers that were not written yet */
    uint32_t unyielded; /* requests */
    /* pace.c */
    uint64_t turn_at;     /* bytes written, and others have their turn */
    uint64_t window_at;   /* ... when the window began */
    int64_t waited_ns;    /* for room, in this window */
    int64_t uncounted_ns; /* of them not subtracted from left_ns yet */
    int64_t notice_ns;    /* a wait of so long is noticed; 0: watched, or not begun */
    bool close;           /* after this answer */
    bool unread;          /* the client may still send: linger */
    bool broken;          /* writing has failed */
    bool turned_away;     /* ... for want of memory, and the client was told */
    bool ended_counted;
    bool woken;      /* the stop has interrupted its idle wait; written on its own worker only */
    bool grace_over; /* closed because the grace of a stop is over */

    /* Any thread. */
    _Atomic(int) phase; /* enum weft__http_phase */
    _Atomic(int) ended; /* 1 + the phase whose time was over; 0 */
    _Atomic(int64_t) since;
    /* pace.c; changed by the fiber, or for it while it waits */
    _Atomic(uint64_t) written;  /* bytes */
    _Atomic(uint64_t) taken_at; /* of them the client had taken when left_ns was last settled */
    _Atomic(int64_t) left_ns;   /* time that the client may still make this wait */
    weft_idle_member member[WEFT__HTTP_PATIENCES];
    bool joined[WEFT__HTTP_PATIENCES];         /* the fiber's */
    _Atomic(int) out_of[WEFT__HTTP_PATIENCES]; /* came out of the group for good */
    struct weft__http_conn *next, *prev;       /* in the shard, under its lock */
    bool cut;                                  /* by a stop, under the same lock */
    bool shed;                                 /* has given its place, under the same lock */

    struct weft_http_field *fields;
    struct weft_http_field fields_room[WEFT_HTTP_FIELDS];
};

/* An accepted connection on its way to its worker. */
struct weft__http_arrival {
    struct weft_http_server *server;
    int fd;
    int worker;
    weft__http_peer address;
    struct weft_addr peer;
};
/* The fiber's function; takes an arrival. */
void *weft__http_conn_run(void *arg);

/* --- patience.c ------------------------------------------------------------------------- */

/* The phase begins now. */
void weft__http_phase_begin(struct weft__http_conn *conn, enum weft__http_phase phase);
static inline void weft__http_phase_end(struct weft__http_conn *conn)
{
    atomic_store_explicit(&conn->phase, WEFT__HTTP_BUSY, memory_order_relaxed);
}
/* Was it this phase's time that ended it? Counted once. */
bool weft__http_phase_ended(struct weft__http_conn *conn, enum weft__http_phase phase);
/* No group has it any more, and nobody who came from one looks at it. */
void weft__http_phase_leave(struct weft__http_conn *conn);

/* --- pace.c ------------------------------------------------------------------------------ */

/* As weft__http_write_begin, for one that is watched, or writes for the first time. */
bool weft__http_pace_begin(struct weft__http_conn *conn);
/* A wait of so long was noticed, and what was written after it is counted. True: the client is too
 * slow. */
bool weft__http_pace_judge(struct weft__http_conn *conn, int64_t waited_ns);

/* Has the client, which keeps this connection waiting since `since`, time left? Then it counts from
 * now. Only while the fiber waits. */
bool weft__http_pace_spares(struct weft__http_conn *conn, int64_t now);
/* Bytes written that the client's system has not acknowledged. */
uint64_t weft__http_pace_untaken(const struct weft__http_conn *conn);

static inline uint64_t weft__http_written(const struct weft__http_conn *conn)
{
    return atomic_load_explicit(&conn->written, memory_order_relaxed);
}
static inline void weft__http_add_written(struct weft__http_conn *conn, size_t n)
{
    atomic_store_explicit(&conn->written, weft__http_written(conn) + n, memory_order_relaxed);
}

/* The phase of writing begins. True: it is watched, so what has room should not wait for anything
 * else. */
static inline bool weft__http_write_begin(struct weft__http_conn *conn)
{
    if (__builtin_expect(!conn->notice_ns, 0)) {
        return weft__http_pace_begin(conn);
    }
    atomic_store_explicit(&conn->since, weft_now_cached(), memory_order_relaxed);
    atomic_store_explicit(&conn->phase, WEFT__HTTP_WRITE,
                          memory_order_release); /* pairs: is_over */
    weft_idle_touch(&conn->server->patience[WEFT__HTTP_WRITE], &conn->member[WEFT__HTTP_WRITE]);
    return false;
}

/* It has ended, and has written n bytes. False: the client is too slow. */
static inline bool weft__http_write_end(struct weft__http_conn *conn, size_t n)
{
    int64_t waited = weft_now_cached() - atomic_load_explicit(&conn->since, memory_order_relaxed);
    weft__http_add_written(conn, n);
    return __builtin_expect(waited < conn->notice_ns, 1) || !weft__http_pace_judge(conn, waited);
}

/* --- input.c ------------------------------------------------------------------------------ */

static inline char *weft__http_input(const struct weft__http_conn *conn)
{
    return (char *)conn->in->data;
}
/* Reads the next head: its length; 0: there is none, the connection is over; -EBADMSG: refused, as
 * head says; -ETIMEDOUT: too slow; -ENOMEM. */
ssize_t weft__http_input_head(struct weft__http_conn *conn);
/* Room for more behind a head that must stay where it is. False: no memory. */
bool weft__http_input_room(struct weft__http_conn *conn, size_t room);
/* What weft_read gives, with the phase around it and after what was to be written is. */
ssize_t weft__http_input_read(struct weft__http_conn *conn, enum weft__http_phase phase, void *to,
                              size_t n);

/* --- body.c ------------------------------------------------------------------------------- */

void weft__http_body_begin(struct weft_http *x, uint64_t most);
/* Throws away what was not read. */
void weft__http_body_finish(struct weft_http *x);

/* --- output.c ------------------------------------------------------------------------------ */

/* All of these: 0 or an error, after which the connection is broken. */
int weft__http_out_flush(struct weft__http_conn *conn);
/* If everything is written: how long it took is counted. */
void weft__http_out_settle(struct weft__http_conn *conn);
int weft__http_out_put(struct weft__http_conn *conn, const void *bytes, size_t n);
/* Room for n bytes (up to WEFT__HTTP_OUTPUT) in a row; NULL: broken. To be followed by used. */
char *weft__http_out_room(struct weft__http_conn *conn, size_t n);
static inline void weft__http_out_used(struct weft__http_conn *conn, size_t n)
{
    weft_buf_put(conn->out, n);
}
/* What is to be written, then the file's bytes. -ENODATA: it is shorter. */
int weft__http_out_file(struct weft__http_conn *conn, int fd, uint64_t offset, uint64_t n);
/* Answers 503 without any memory. The connection is broken after it. */
void weft__http_out_turn_away(struct weft__http_conn *conn);
/* Takes the unwritten part of this answer back. */
void weft__http_out_rewind(struct weft_http *x);

/* --- answer.c ------------------------------------------------------------------------------ */

/* A head that was made before, up to and without its Date and Connection fields and the empty line;
 * then a body. */
int weft__http_answer_made(struct weft_http *x, int status, const char *head, size_t head_len,
                           const void *body, size_t n);
/* The server's own, with a short text. */
int weft__http_answer_error(struct weft_http *x, int status, const char *why);
/* The handler has returned: ends the answer, or makes one. */
void weft__http_answer_finish(struct weft_http *x, int err);
const char *weft__http_reason(int status);

#endif
