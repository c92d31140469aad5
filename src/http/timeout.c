/* Timeouts of connections, implemented by idle groups: one group for each timeout.
 *
 * A connection joins a group when it first enters that phase, and stays a member. Entering the
 * phase again is a touch, which is one store. When the group reports the connection as idle, the
 * connection's own words say whether it is in that phase at all and since when; if it is not, it
 * goes back into the group, which costs one check per period.
 *
 * When a connection has timed out, its socket is shut down. That ends its read or write in the way
 * in which a client could; its fiber checks `timed_out` and learns the reason. Waits of the
 * connection's handlers are not disturbed.
 *
 * A worker that lags may have a pending request from a connection that seems idle, and thousands of
 * connections may become idle at the same moment, as after a restart, when closing each takes about
 * 20 us. So a fiber on the connections' own worker closes them: after that worker has polled its
 * driver, and a few at a time. Each yield puts the fiber behind the connections that it has woken,
 * and the others are served in between.
 */
#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "http/conn.h"

#define NS_PER_S 1000000000
#define YIELD_EVERY 16u

static struct weft__http_conn *conn_of(weft_idle_member *member, int phase)
{
    char *at = (char *)(member - phase);
    return (struct weft__http_conn *)(void *)(at - offsetof(struct weft__http_conn, member));
}

static int64_t period(const struct weft_http_server *server, int phase)
{
    const struct weft_http_server_limits *limits = &server->opts.limits;
    switch (phase) {
    case WEFT__HTTP_IDLE:
        return limits->idle_ns;
    case WEFT__HTTP_HEADER:
        return limits->header_ns;
    case WEFT__HTTP_BODY:
        return limits->body_ns;
    default:
        return limits->write_ns;
    }
}

static bool is_over(struct weft__http_conn *conn, int phase, int64_t now)
{
    /* pairs: weft__http_phase_begin, weft__http_write_begin */
    return atomic_load_explicit(&conn->phase, memory_order_acquire) == phase &&
           now - atomic_load_explicit(&conn->since, memory_order_relaxed) >=
               period(conn->server, phase);
}

/* Reports whether the client has done its part and the worker is late to see it, for example
 * because the worker lost its CPU after its last poll: the connection's fiber is about to run, or
 * what it waits for has arrived. Checked after the time was checked: what arrives later is late.
 * The header timeout covers the whole header, whatever has arrived. */
static bool has_activity(const struct weft__http_conn *conn, int phase)
{
    enum weft_fiber_state state;
    char byte;
    if (phase == WEFT__HTTP_HEADER) {
        return false;
    }
    if (weft_fiber_state(conn->fiber, &state) != 0 || state != WEFT_FIBER_WAITING) {
        return true;
    }
    return phase == WEFT__HTTP_WRITE
               ? poll(&(struct pollfd){.fd = conn->fd, .events = POLLOUT}, 1, 0) == 1
               : recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The client reads, if slowly: what it was sent is still on its way, or its receive buffer is
 * full. */
static bool is_reading(struct weft__http_conn *conn, int phase, int64_t now)
{
    return (phase == WEFT__HTTP_WRITE ||
            (phase == WEFT__HTTP_IDLE && weft__http_unacked_bytes(conn) > 0)) &&
           weft__http_min_rate_settle(conn, now);
}

/* Handles a member that left the group: ends the connection, or puts it back into the group. */
static void check_expired(weft_idle_group *group, weft_idle_member *member, int phase)
{
    struct weft__http_conn *conn = conn_of(member, phase);
    int64_t now = weft_now();
    if (!is_over(conn, phase, now) || has_activity(conn, phase) || is_reading(conn, phase, now)) {
        weft_idle_add(group, member);
        return;
    }
    /* pairs: weft__http_phase_timed_out */
    atomic_store_explicit(&conn->timed_out, 1 + phase, memory_order_release);
    shutdown(conn->fd, phase == WEFT__HTTP_WRITE ? SHUT_RDWR : SHUT_RD);
    /* The last access. pairs: weft__http_timeout_leave */
    atomic_store_explicit(&conn->left_group[phase], 1, memory_order_release);
}

/* Checks up to `most` members. Returns the rest. */
static weft_idle_member *check_some(weft_idle_group *group, weft_idle_member *member, int phase,
                                    size_t most)
{
    for (weft_idle_member *next; member && most > 0; member = next, most--) {
        next = weft_idle_next(member);
        check_expired(group, member, phase);
    }
    return member;
}

/* The expired members of one worker. */
struct batch {
    struct weft_http_server *server;
    weft_idle_member *first;
    int phase;
};

static void *check_batch(void *arg)
{
    struct batch batch = *(struct batch *)arg;
    weft__free(arg);
    weft_idle_group *group = &batch.server->timeouts[batch.phase];
    weft_sleep(weft_after(1)); /* the worker polls its driver before this sleep is over */
    do {
        weft_yield(); /* fibers that have something to read, or were woken, run first */
    } while ((batch.first = check_some(group, batch.first, batch.phase, YIELD_EVERY)));
    weft_waitgroup_done(&batch.server->live); /* the last access */
    return NULL;
}

/* Returns false if there is no memory, or the pool accepts no more fibers. */
static bool hand_to_worker(struct weft_http_server *server, unsigned worker,
                           weft_idle_member *first, int phase)
{
    struct batch *batch = weft__alloc_dirty(sizeof *batch);
    if (!batch) {
        return false;
    }
    *batch = (struct batch){server, first, phase};
    weft_waitgroup_add(&server->live, 1); /* not from 0: the batch's connections are alive */
    int err = weft_pool_spawn(
        server->pool, NULL, check_batch, batch,
        &(struct weft_fiber_opts){
            .name = server->opts.name, .worker = (int)worker, .bound = true, .detached = true});
    if (err) {
        weft_waitgroup_done(&server->live);
        weft__free(batch);
    }
    return !err;
}

static void on_idle(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg)
{
    struct weft_http_server *server = arg;
    int phase = (int)(group - server->timeouts);
    for (weft_idle_member *next, *member = first; member; member = next) {
        struct weft__http_shard *shard = conn_of(member, phase)->shard;
        next = weft_idle_next(member);
        member->weft_next = shard->expired[phase];
        shard->expired[phase] = member;
    }
    for (unsigned i = 0; i < server->workers; i++) {
        weft_idle_member *batch = server->shards[i].expired[phase];
        server->shards[i].expired[phase] = NULL;
        if (batch && !hand_to_worker(server, i, batch, phase)) {
            check_some(group, batch, phase, n);
        }
    }
}

/* A sixteenth, but at most one second; for very long periods the finest step that a group
 * supports. */
static int64_t precision_of(int64_t ns)
{
    int64_t precision = ns / 16 < NS_PER_S ? ns / 16 : NS_PER_S, least = ns / 32768 + 1;
    return precision > least ? precision : least;
}

int weft__http_timeout_init(struct weft_http_server *server)
{
    for (int i = 0; i < WEFT__HTTP_TIMEOUTS; i++) {
        int64_t ns = period(server, i);
        struct weft_idle_opts opts = {
            .name = server->opts.name,
            .pool = server->pool,
            .period_ns = ns,
            .precision_ns = precision_of(ns),
            .on_idle = on_idle,
            .arg = server,
        };
        int err = weft_idle_init(&server->timeouts[i], &opts);
        if (err) {
            return err;
        }
        server->timeout_count++;
    }
    return 0;
}

void weft__http_timeout_deinit(struct weft_http_server *server)
{
    while (server->timeout_count) {
        weft_idle_deinit(&server->timeouts[--server->timeout_count]);
    }
}

void weft__http_phase_begin(struct weft__http_conn *conn, enum weft__http_phase phase)
{
    weft_idle_group *group = &conn->server->timeouts[phase];
    atomic_store_explicit(&conn->since, weft_now_cached(), memory_order_relaxed);
    atomic_store_explicit(&conn->phase, phase, memory_order_release); /* pairs: is_over */
    if (conn->joined[phase]) {
        weft_idle_touch(group, &conn->member[phase]);
    } else {
        conn->joined[phase] = true;
        weft_idle_add(group, &conn->member[phase]);
    }
}

bool weft__http_phase_timed_out(struct weft__http_conn *conn, enum weft__http_phase phase)
{
    /* pairs: check_expired, weft__http_min_rate_check */
    if (atomic_load_explicit(&conn->timed_out, memory_order_acquire) != 1 + (int)phase) {
        return false;
    }
    if (!conn->timeout_counted) {
        conn->timeout_counted = true;
        weft__http_count(conn->shard, WEFT__HTTP_N_TIMEOUTS + (int)phase, 1);
    }
    return true;
}

void weft__http_timeout_leave(struct weft__http_conn *conn)
{
    weft__http_phase_end(conn);
    for (int i = 0; i < WEFT__HTTP_TIMEOUTS; i++) {
        /* A member that has left the group is either put back or marked as left for good in a
         * moment. pairs: check_expired */
        while (conn->joined[i] && !weft_idle_remove(&conn->server->timeouts[i], &conn->member[i]) &&
               !atomic_load_explicit(&conn->left_group[i], memory_order_acquire)) {
            weft_yield();
        }
    }
}
