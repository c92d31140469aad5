/* Time limits of connections, by idle groups: one group for each limit.
 *
 * A connection joins a group when it first comes into that phase, and stays. Going into the phase
 * again is a touch, which is a store. When the group finds it silent, the connection's own words
 * say whether it is in that phase at all and since when; if not it goes back into the group, which
 * costs one look per period.
 *
 * One whose time is over has its socket shut down. That ends its read or write in the way in which
 * a client could; its fiber asks `ended` and knows better. Its own waits in handlers are not
 * disturbed.
 *
 * A worker that is behind may have a request at hand from one that seems silent, and thousands may
 * fall silent in the same moment, as after a restart, when to close each takes some 20 us. So a
 * fiber of the connections' own worker ends them: after that has looked at its driver, and by a few
 * at a time. Each yield puts it behind those that it has woken, and the others are served in
 * between.
 */
#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "http/conn.h"

#define NS_PER_S 1000000000
#define AT_ONCE 16u

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
    return atomic_load_explicit(&conn->phase, memory_order_acquire) == phase && /* pairs: begin */
           now - atomic_load_explicit(&conn->since, memory_order_relaxed) >=
               period(conn->server, phase);
}

/* The client has done its part, and the worker is late to see it, as one is from which the CPU was
 * taken away after its last look: its fiber is about to run, or what it waits for is there. Asked
 * after the time was: what comes later is late. The time of a head is for all of it, whatever is
 * there. */
static bool has_stirred(const struct weft__http_conn *conn, int phase)
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

/* It reads, if slowly: what it was sent is still on its way to it, or its system is full. */
static bool is_reading(struct weft__http_conn *conn, int phase, int64_t now)
{
    return (phase == WEFT__HTTP_WRITE ||
            (phase == WEFT__HTTP_IDLE && weft__http_pace_untaken(conn) > 0)) &&
           weft__http_pace_spares(conn, now);
}

/* It came out of the group: its end, or back into it. */
static void judge(weft_idle_group *group, weft_idle_member *member, int phase)
{
    struct weft__http_conn *conn = conn_of(member, phase);
    int64_t now = weft_now();
    if (!is_over(conn, phase, now) || has_stirred(conn, phase) || is_reading(conn, phase, now)) {
        weft_idle_add(group, member);
        return;
    }
    atomic_store_explicit(&conn->ended, 1 + phase, memory_order_release); /* pairs: phase_ended */
    shutdown(conn->fd, phase == WEFT__HTTP_WRITE ? SHUT_RDWR : SHUT_RD);
    /* The last touch. pairs: weft__http_phase_leave */
    atomic_store_explicit(&conn->out_of[phase], 1, memory_order_release);
}

/* Up to `most` of them; the rest. */
static weft_idle_member *judge_some(weft_idle_group *group, weft_idle_member *member, int phase,
                                    size_t most)
{
    for (weft_idle_member *next; member && most > 0; member = next, most--) {
        next = weft_idle_next(member);
        judge(group, member, phase);
    }
    return member;
}

/* Of one worker. */
struct crowd {
    struct weft_http_server *server;
    weft_idle_member *first;
    int phase;
};

static void *judge_crowd(void *arg)
{
    struct crowd crowd = *(struct crowd *)arg;
    weft__free(arg);
    weft_idle_group *group = &crowd.server->patience[crowd.phase];
    weft_sleep(1); /* the worker looks at its driver before this is over */
    do {
        weft_yield(); /* those who have something to read, or were ended, run first */
    } while ((crowd.first = judge_some(group, crowd.first, crowd.phase, AT_ONCE)));
    weft_waitgroup_done(&crowd.server->live); /* the last touch */
    return NULL;
}

/* False: no memory, or the pool takes no more fibers. */
static bool hand_over(struct weft_http_server *server, unsigned worker, weft_idle_member *first,
                      int phase)
{
    struct crowd *crowd = weft__alloc_dirty(sizeof *crowd);
    if (!crowd) {
        return false;
    }
    *crowd = (struct crowd){server, first, phase};
    weft_waitgroup_add(&server->live, 1); /* not from 0: the crowd is there */
    int err = weft_pool_spawn(
        server->pool, NULL, judge_crowd, crowd,
        &(struct weft_fiber_opts){
            .name = server->opts.name, .worker = (int)worker, .bound = true, .detached = true});
    if (err) {
        weft_waitgroup_done(&server->live);
        weft__free(crowd);
    }
    return !err;
}

static void on_silent(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg)
{
    struct weft_http_server *server = arg;
    int phase = (int)(group - server->patience);
    for (weft_idle_member *next, *member = first; member; member = next) {
        struct weft__http_shard *shard = conn_of(member, phase)->shard;
        next = weft_idle_next(member);
        member->weft_next = shard->silent[phase];
        shard->silent[phase] = member;
    }
    for (unsigned i = 0; i < server->workers; i++) {
        weft_idle_member *crowd = server->shards[i].silent[phase];
        server->shards[i].silent[phase] = NULL;
        if (crowd && !hand_over(server, i, crowd, phase)) {
            judge_some(group, crowd, phase, n);
        }
    }
}

/* A sixteenth, and no more than a second; of very long periods what a group can tell apart. */
static int64_t precision_of(int64_t ns)
{
    int64_t precision = ns / 16 < NS_PER_S ? ns / 16 : NS_PER_S, least = ns / 32768 + 1;
    return precision > least ? precision : least;
}

int weft__http_patience_init(struct weft_http_server *server)
{
    for (int i = 0; i < WEFT__HTTP_PATIENCES; i++) {
        int64_t ns = period(server, i);
        struct weft_idle_opts opts = {
            .name = server->opts.name,
            .pool = server->pool,
            .period_ns = ns,
            .precision_ns = precision_of(ns),
            .on_silent = on_silent,
            .arg = server,
        };
        int err = weft_idle_init(&server->patience[i], &opts);
        if (err) {
            return err;
        }
        server->patiences++;
    }
    return 0;
}

void weft__http_patience_deinit(struct weft_http_server *server)
{
    while (server->patiences) {
        weft_idle_deinit(&server->patience[--server->patiences]);
    }
}

void weft__http_phase_begin(struct weft__http_conn *conn, enum weft__http_phase phase)
{
    weft_idle_group *group = &conn->server->patience[phase];
    atomic_store_explicit(&conn->since, weft_now_cached(), memory_order_relaxed);
    atomic_store_explicit(&conn->phase, phase, memory_order_release); /* pairs: is_over */
    if (conn->joined[phase]) {
        weft_idle_touch(group, &conn->member[phase]);
    } else {
        conn->joined[phase] = true;
        weft_idle_add(group, &conn->member[phase]);
    }
}

bool weft__http_phase_ended(struct weft__http_conn *conn, enum weft__http_phase phase)
{
    /* pairs: on_silent */
    if (atomic_load_explicit(&conn->ended, memory_order_acquire) != 1 + (int)phase) {
        return false;
    }
    if (!conn->ended_counted) {
        conn->ended_counted = true;
        weft__http_count(conn->shard, WEFT__HTTP_N_ENDED + (int)phase, 1);
    }
    return true;
}

void weft__http_phase_leave(struct weft__http_conn *conn)
{
    weft__http_phase_end(conn);
    for (int i = 0; i < WEFT__HTTP_PATIENCES; i++) {
        /* One that has come out is either put back or out for good in a moment. pairs: on_silent */
        while (conn->joined[i] && !weft_idle_remove(&conn->server->patience[i], &conn->member[i]) &&
               !atomic_load_explicit(&conn->out_of[i], memory_order_acquire)) {
            weft_yield();
        }
    }
}
