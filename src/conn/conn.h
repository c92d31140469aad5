/* Connections of a server for any protocol (weft/server.h). Files in reading order:
 *
 *   server.c    create, listen, stop, statistics
 *   turn.c      a turn of a connection: messages in, handlers, output, until it rests or ends
 *   framing.c   bytes to messages
 *   input.c     the read buffer; the wait for the client
 *   output.c    what handlers send
 *   id_table.c  connections by id
 *   sender.c    output from elsewhere: queued by id, written on the connection's worker
 */
#ifndef WEFT_CONN_CONN_H
#define WEFT_CONN_CONN_H

#include <weft/server.h>

#include "server/session.h"

enum {
    WEFT__CONN_INPUT_BYTES = 4096,   /* initial size of the read buffer */
    WEFT__CONN_OUTPUT_BYTES = 16384, /* output that is collected before it is written */
    WEFT__CONN_YIELD_BYTES = 1 << 20 /* bytes to write between two yields */
};

struct weft__listener {
    struct weft__listener *next;
    const struct weft_protocol *protocol;
    void *arg;
};

/* The record of a connection. What other threads change is under the lock of its worker's state,
 * struct weft__conn_shard; the rest belongs to the session's owner. */
struct weft__conn_session {
    struct weft__session base; /* first */
    weft_conn_id id;
    void *data;
    bool opened; /* `open` has returned 0 */
    bool said_goodbye;
    bool paused;
    bool outbox_begun; /* a part of the first buffer may be written; used on the worker's thread */

    /* Under the lock. */
    bool queued;           /* for the sender */
    bool over, over_asked; /* the protocol was told, or is to be told, that it is over budget */
    bool close_asked, resume_asked, goodbye_asked; /* of the owner */
    weft_bufs outbox;                              /* from elsewhere, not taken yet */
    size_t output_bytes;                           /* from elsewhere, not written yet */
    struct weft__conn_session *next_queued, *prev_queued;
};

struct weft__conn_entry {
    struct weft__conn_session *session; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1; 0: the last */
};

/* The state of one worker. */
struct weft__conn_shard {
    alignas(64) struct weft__lock lock;
    struct weft__conn_entry *entries; /* id_table.c */
    uint32_t entry_count, first_free;
    struct weft__conn_session *first_queued, *last_queued;
    struct weft_server *server;
    bool sends; /* there is a sender */
    /* Written by this worker; any thread may read them. */
    alignas(64) _Atomic(uint64_t) messages, bytes_in, bytes_out;
};

struct weft_server {
    struct weft__server base; /* first */
    struct weft_server_limits limits;
    struct weft__conn_shard *shards;
    struct weft__listener *listeners; /* under base.lock */
    _Atomic(uint64_t) output_bytes, output_refused;
};

/* A connection in a turn; on the stack of the turn's fiber. */
struct weft_conn {
    struct weft__turn turn;
    struct weft__conn_session *session;
    struct weft_server *server;
    struct weft__conn_shard *shard;
    const struct weft__listener *listener;
    struct weft_addr peer;

    /* Bytes [start, end) of `in` are not consumed yet. */
    weft_buf *in;
    size_t start, end;
    bool partial; /* the wait for the rest of a message has begun */
    int64_t partial_since;
    union {
        weft_line line;
        weft_length_prefix length_prefix;
        weft_resp resp;
    } decoder;
    size_t scanned; /* RESP: bytes of the value whose items were decoded */

    weft_bufs out;     /* from handlers, not written yet */
    int64_t deadline;  /* of the handler's call; WEFT_FOREVER outside of these */
    uint64_t yield_at; /* yield when `written` reaches this */
    unsigned since_yield;
    bool closing; /* asked for by the handler or from elsewhere */
    bool broken;  /* reading or writing has failed */
    bool ended;   /* by the client */
    bool failed;  /* a function of the protocol has returned an error */
    bool grace_expired;
    bool rests;
};

static inline size_t weft__message_max(const struct weft_protocol *protocol)
{
    return protocol->message_max ? protocol->message_max : (size_t)1 << 20;
}

static inline const struct weft_protocol *weft__conn_protocol(const weft_conn *conn)
{
    return conn->listener->protocol;
}

/* turn.c */
/* Takes what was asked of the connection from elsewhere: to close, to read again. */
void weft__conn_take_requests(weft_conn *conn);
extern const struct weft__server_protocol weft__conn_server_protocol;

/* framing.c */
void weft__framing_init(weft_conn *conn);
/* Finds the first message in the read buffer. Returns its bytes there, and the message in *out; 0:
 * more bytes are needed, and the buffer can hold them; a negative errno. */
ssize_t weft__framing_next(weft_conn *conn, struct weft_framed *out);

/* input.c */
enum weft__input {
    WEFT__INPUT_BYTES,  /* more bytes are in the buffer */
    WEFT__INPUT_CALLED, /* there is something else to do */
    WEFT__INPUT_OVER,   /* the connection is over, or rests */
};
/* Makes room for at least `bytes` from the first unconsumed byte on. Returns false without
 * memory. */
bool weft__conn_reserve(weft_conn *conn, size_t bytes);
/* Waits for the client. */
enum weft__input weft__conn_receive(weft_conn *conn);
/* Waits until the connection is called. */
void weft__conn_wait_paused(weft_conn *conn);

/* output.c */
/* Writes everything. Returns 0 or an error, after which the connection is broken. */
int weft__conn_flush(weft_conn *conn);

/* id_table.c */
/* Gives the session an id. Returns 0 or -ENOMEM. */
int weft__conn_id_take(struct weft__conn_shard *shard, struct weft__conn_session *session);
/* Nothing finds the session any more; what is queued for it is dropped. */
void weft__conn_id_drop(struct weft__conn_shard *shard, struct weft__conn_session *session);
/* Finds a connection. Returns NULL, or its session with the lock of *shard held. */
struct weft__conn_session *weft__conn_find_lock(struct weft_server *server,
                                                struct weft__conn_shard **shard, weft_conn_id id);

/* sender.c */
/* Queues the session for the sender, which finds what is asked of it after the caller has released
 * the lock. Returns 0, or an error of weft_pool_spawn. */
int weft__sender_queue_locked(struct weft__conn_shard *shard, struct weft__conn_session *session);
void weft__sender_unqueue_locked(struct weft__conn_shard *shard,
                                 struct weft__conn_session *session);
/* n bytes from elsewhere were written or dropped. Under the lock. Returns true if the protocol has
 * to be told that the connection is below its budget again. */
bool weft__sender_settle_locked(struct weft_server *server, struct weft__conn_session *session,
                                size_t n);

#endif
