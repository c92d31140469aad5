/* A connection. Its *session* is a small record that lives as long as the connection. A *turn* is
 * what it needs to serve requests: a fiber, with buffers and parser on its stack or in its
 * protocol's memory. A session alternates between the two:
 *
 *   from   to     when                                             by
 *   -      TURN   accepted                                         the acceptor, by a spawn
 *   TURN   REST   nothing was received for rest_ns, nothing is     the turn's fiber, its last act
 *                 buffered, all that was sent is acknowledged
 *   REST   TURN   bytes or a hang-up arrive; a timeout, an         the rest task, its last act
 *                 eviction or a stop ends the rest
 *   TURN   -      either side ends the connection                  the turn's fiber
 *
 * At rest the session is owned by a task without a stack (rest.c), in a turn by a fiber; both are
 * bound to the session's worker, so that the two never run at the same time and hand the session
 * over without a lock. Other code reaches a session through its shard's list and the idle groups,
 * which it leaves before it ends. There it reads the phase, shuts the socket down, and interrupts or
 * cancels the owner; the owner then looks up why. So the table needs no word of its own: the phase,
 * which only the owner writes, is REST exactly while the rest task owns the session.
 *
 * `owner` is published under the shard's lock: an abort sets the stage, then walks the list under
 * that lock. Either it finds the new owner and cancels it, or the new owner sees the stage.
 */
#ifndef WEFT_SERVER_SESSION_H
#define WEFT_SERVER_SESSION_H

#include "server/server.h"

struct weft__op;
struct weft__turn;

/* The client's address, without the space that only names of Unix sockets need. */
struct weft__peer {
    struct weft_addr *long_name; /* owned; NULL: the address is in `bytes` */
    uint8_t len;
    char bytes[28]; /* a struct sockaddr_in6 */
};

struct weft__session {
    struct weft__server *server;
    void *listener;                    /* the protocol's; constant */
    struct weft__session *next, *prev; /* in the shard; under the shard's lock */
    _Atomic(weft_fiber) owner;         /* the turn's fiber or the rest task */
    weft_idle_member member;           /* in the REST group */
    weft__address address;
    int fd;
    int worker;
    uint32_t served; /* number of requests */
    bool may_rest;   /* written by the turn's fiber */
    /* Why the owner was interrupted; written and read on the session's own worker only. */
    bool rest_due; /* nothing was received for rest_ns */
    bool woken;    /* the grace period of a stop is over */
    bool called;   /* the protocol has something to do for it */
    bool timeout_counted;
    bool joined;        /* the REST group; used by the owner only */
    uint8_t rest_state; /* rest.c */
    bool aborted;       /* by a stop; under the shard's lock */
    bool shed;          /* evicted: counts for no limit; under the shard's lock */

    /* Any thread. */
    _Atomic(int) phase;      /* enum weft__phase; written by the owner */
    _Atomic(int) timed_out;  /* 1 + the phase that timed out; 0: none */
    _Atomic(int) left_group; /* has left the REST group for good */
    _Atomic(int64_t) since;  /* when the phase began */

    struct weft__peer peer;
    struct weft__op *op; /* at rest, with a driver that completes operations (rest.c) */
};

static inline struct weft__shard *weft__session_shard(const struct weft__session *session)
{
    return &session->server->shards[session->worker];
}

static inline int weft__session_phase(const struct weft__session *session)
{
    /* pairs: weft__session_enter */
    return atomic_load_explicit(&session->phase, memory_order_acquire);
}

/* Reports whether the owner waits for the client to send, or is paused: it does not write. */
static inline bool weft__session_is_waiting(const struct weft__session *session)
{
    int phase = weft__session_phase(session);
    return phase == WEFT__PHASE_IDLE || phase == WEFT__PHASE_REST || phase == WEFT__PHASE_HEADER ||
           phase == WEFT__PHASE_PAUSED;
}

/* Enters a phase that began at `since`. */
static inline void weft__session_enter(struct weft__session *session, enum weft__phase phase,
                                       int64_t since)
{
    atomic_store_explicit(&session->since, since, memory_order_relaxed);
    atomic_store_explicit(&session->phase, phase, memory_order_release);
}

static inline void weft__session_enter_busy(struct weft__session *session)
{
    atomic_store_explicit(&session->phase, WEFT__PHASE_BUSY, memory_order_relaxed);
}

/* The name of its fibers. */
static inline const char *weft__session_name(const struct weft__session *session)
{
    const struct weft__server *server = session->server;
    const char *name = server->protocol->name ? server->protocol->name(session) : NULL;
    return name ? name : server->opts.name;
}

/* Creates the session of an accepted connection, which counts for the limits already, and starts
 * its first turn. Takes the descriptor. Returns 0, -ENOMEM, or an error of weft_pool_spawn: then
 * nothing was taken. */
int weft__session_start(struct weft__server *server, int fd, unsigned worker,
                        const struct weft_addr *peer, weft__address address, void *listener);
/* On the session's own worker: the owner stops waiting for its client, or will not begin to. */
void weft__session_call(struct weft__session *session);
/* The phase PAUSED, by the owner. */
void weft__session_begin_pause(struct weft__session *session);
void weft__session_end_pause(struct weft__session *session);
/* From any thread that keeps the session alive: ends the sleep of a paused session. */
void weft__session_interrupt_pause(struct weft__session *session);
void weft__session_get_peer(const struct weft__session *session, struct weft_addr *out);
/* By the rest task, which ends after it: starts a turn. Returns 0, or an error of
 * weft_pool_spawn. */
int weft__session_start_turn(struct weft__session *session);
/* Publishes the owner. */
void weft__session_set_owner(struct weft__session *session, weft_fiber owner);

/* stop.c */
/* By a turn that has seen the stage ABORT by itself, and leaves something undone. */
void weft__session_count_cut(struct weft__session *session);

/* rest.c */
/* The turn is over: leaves the session to a rest task. Returns false if there is no memory, or the
 * pool accepts no more tasks: the caller still owns the session. */
bool weft__session_rest(struct weft__session *session);

/* --- timeout.c -------------------------------------------------------------------------------- */

/* What the timeouts need while a connection is in a turn; part of the protocol's connection. */
struct weft__turn {
    struct weft__session *session;
    struct weft__server *server;
    int fd;
    /* min_rate.c */
    uint64_t window_start; /* `written` at the start of the window */
    int64_t waited_ns;     /* time spent waiting for buffer space in this window */
    int64_t unsettled_ns;  /* ... part of it that is not subtracted from credit_ns yet */
    int64_t slow_wait_ns;  /* a wait this long is slow; 0: watched, or not begun */
    /* Changed by the fiber, or on its behalf while the fiber waits. */
    _Atomic(uint64_t) written; /* bytes */
    /* Bytes that the client had acknowledged when credit_ns was last settled. */
    _Atomic(uint64_t) acked_at;
    _Atomic(int64_t) credit_ns; /* how much longer the client may let this connection wait */

    weft_idle_member member[WEFT__TURN_TIMEOUTS];
    bool joined[WEFT__TURN_TIMEOUTS];             /* used by the fiber only */
    _Atomic(int) left_group[WEFT__TURN_TIMEOUTS]; /* has left the group for good */
};

void weft__turn_init(struct weft__turn *turn, struct weft__session *session);
/* Enters a phase: its timeout starts now. */
void weft__turn_enter(struct weft__turn *turn, enum weft__phase phase);
static inline void weft__turn_enter_busy(struct weft__turn *turn)
{
    weft__session_enter_busy(turn->session);
}
/* Reports whether this phase's timeout broke off the read or write, and counts it once. */
bool weft__turn_timed_out(struct weft__turn *turn, enum weft__phase phase);
/* Leaves all idle groups. After it, no group contains the turn and no group's callback accesses
 * it. */
void weft__turn_leave(struct weft__turn *turn);
/* The same for the group of the session. */
void weft__session_leave(struct weft__session *session);
/* Begins the timeout of a session at rest. */
void weft__session_enter_rest(struct weft__session *session);

/* --- min_rate.c ------------------------------------------------------------------------------- */

/* The slow path of weft__write_begin: the connection is watched, or writes for the first time. */
bool weft__min_rate_begin(struct weft__turn *turn);
/* Accounts for a slow wait and the bytes written after it. Returns true if the client is too
 * slow. */
bool weft__min_rate_check(struct weft__turn *turn, int64_t waited_ns);
/* Settles the credit of a client for which this connection has waited since `since`. Returns true
 * if credit is left; then the wait counts from now. Only while the fiber waits. */
bool weft__min_rate_settle(struct weft__turn *turn, int64_t now);
/* Returns the bytes written that the client's TCP stack has not acknowledged. */
uint64_t weft__unacked_bytes(int fd);

static inline uint64_t weft__turn_written(const struct weft__turn *turn)
{
    return atomic_load_explicit(&turn->written, memory_order_relaxed);
}

static inline void weft__turn_add_written(struct weft__turn *turn, size_t n)
{
    atomic_store_explicit(&turn->written, weft__turn_written(turn) + n, memory_order_relaxed);
}

/* Enters the write phase. Returns true if the connection is watched: then a write that finds buffer
 * space should not wait for anything else. */
static inline bool weft__write_begin(struct weft__turn *turn)
{
    if (__builtin_expect(!turn->slow_wait_ns, 0)) {
        return weft__min_rate_begin(turn);
    }
    weft__session_enter(turn->session, WEFT__PHASE_WRITE, weft_now_cached());
    weft_idle_touch(&turn->server->timeouts[WEFT__PHASE_WRITE], &turn->member[WEFT__PHASE_WRITE]);
    return false;
}

/* Leaves the write phase after n bytes were written. Returns false if the client is too slow. */
static inline bool weft__write_end(struct weft__turn *turn, size_t n)
{
    int64_t waited =
        weft_now_cached() - atomic_load_explicit(&turn->session->since, memory_order_relaxed);
    weft__turn_add_written(turn, n);
    return __builtin_expect(waited < turn->slow_wait_ns, 1) || !weft__min_rate_check(turn, waited);
}

/* --- linger.c --------------------------------------------------------------------------------- */

/* The server has written its last byte. Shuts the write side down, then discards what the client
 * still sends, until the client closes: for linger_ns, and longer while it reads a large response.
 * buf: scratch memory. after_grace: the grace period of a stop has ended this connection, and what
 * arrives now is lost and counted. */
void weft__turn_linger(struct weft__turn *turn, void *buf, size_t space, bool after_grace);
/* Reports whether the client has yet to receive a part of a response that is too large for any
 * receive buffer. */
bool weft__turn_may_read_slowly(const struct weft__turn *turn);

#endif
