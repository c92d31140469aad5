/* Timeouts of connections, implemented by idle groups: one group for each timeout. The group of idle
 * connections first makes them rest, after rest_ns; the group of those at rest then has the rest of
 * the idle timeout.
 *
 * A connection joins a group when it first enters that phase, and stays a member. Entering the
 * phase again is a touch, which is one store. When the group reports the connection as idle, the
 * connection's own words say whether it is in that phase at all and since when; if it is not, it
 * goes back into the group, which costs one check per period.
 *
 * When a connection has timed out, its socket is shut down. That ends its read or write in the way
 * in which a client could; its owner checks `timed_out` and learns the reason. Waits of the
 * connection's handlers are not disturbed.
 *
 * A worker that lags may have a pending request from a connection that seems idle, and thousands of
 * connections may become idle at the same moment, as after a restart, when closing each takes about
 * 20 us. So a fiber on the connections' own worker closes them: after that worker has polled its
 * driver, and a few at a time. Each yield puts the fiber behind the connections that it has woken,
 * and the others are served in between.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/fiber.h>

#include "base/alloc.h"
#include "server/session.h"

#define NS_PER_S 1000000000
#define YIELD_EVERY 16u

static struct weft__turn *turn_of(weft_idle_member *member, int phase)
{
    char *at = (char *)(member - phase);
    return (struct weft__turn *)(void *)(at - offsetof(struct weft__turn, member));
}

static struct weft__session *session_of(weft_idle_member *member, int phase)
{
    if (phase != WEFT__PHASE_REST) {
        return turn_of(member, phase)->session;
    }
    char *at = (char *)member;
    return (struct weft__session *)(void *)(at - offsetof(struct weft__session, member));
}

/* How long a phase may last. */
static int64_t limit(const struct weft__server *server, int phase)
{
    const struct weft__server_opts *opts = &server->opts;
    switch (phase) {
    case WEFT__PHASE_HEADER:
        return opts->header_ns;
    case WEFT__PHASE_BODY:
        return opts->body_ns;
    case WEFT__PHASE_WRITE:
        return opts->write_ns;
    default: /* at rest or not: the client sees one idle timeout */
        return opts->idle_ns;
    }
}

/* After which time the group reports a member. */
static int64_t period(const struct weft__server *server, int phase)
{
    const struct weft__server_opts *opts = &server->opts;
    bool rests = server->rests && opts->rest_ns > 0;
    if (phase == WEFT__PHASE_IDLE && rests) {
        return opts->rest_ns;
    }
    return phase == WEFT__PHASE_REST && rests ? opts->idle_ns - opts->rest_ns
                                              : limit(server, phase);
}

/* How long the session has been in this phase; -1: it is in another. */
static int64_t age(const struct weft__session *session, int phase, int64_t now)
{
    return weft__session_phase(session) == phase
               ? now - atomic_load_explicit(&session->since, memory_order_relaxed)
               : -1;
}

/* Reports whether the client has done its part and the worker is late to see it, for example
 * because the worker lost its CPU after its last poll: the session's owner is about to run, or what
 * it waits for has arrived. Checked after the time was checked: what arrives later is late. The
 * header timeout covers the whole header, whatever has arrived. */
static bool has_activity(const struct weft__session *session, int phase)
{
    enum weft_fiber_state state;
    weft_fiber owner = atomic_load_explicit(&session->owner, memory_order_relaxed);
    if (phase == WEFT__PHASE_HEADER) {
        return false;
    }
    if (weft_fiber_state(owner, &state) != 0 || state != WEFT_FIBER_WAITING) {
        return true;
    }
    short events = phase == WEFT__PHASE_WRITE ? POLLOUT : POLLIN;
    return poll(&(struct pollfd){.fd = session->fd, .events = events}, 1, 0) == 1;
}

/* The client reads, if slowly: what it was sent is still on its way, or its receive buffer is
 * full. */
static bool is_reading(struct weft__turn *turn, int phase, int64_t now)
{
    return (phase == WEFT__PHASE_WRITE ||
            (phase == WEFT__PHASE_IDLE && weft__unacked_bytes(turn->fd) > 0)) &&
           weft__min_rate_settle(turn, now);
}

/* The owner's read is interrupted, and finds out why; unless it has bytes already: both run on one
 * thread. A client that has not read all of its responses keeps its turn, which knows how long it
 * may take. */
static void ask_to_rest(struct weft__session *session)
{
    if (session->may_rest && weft__unacked_bytes(session->fd) == 0) {
        session->rest_due = true;
        weft_fiber_interrupt(atomic_load_explicit(&session->owner, memory_order_relaxed));
    }
}

static void end_by_timeout(struct weft__session *session, int phase, _Atomic(int) *left_group)
{
    /* One idle timeout, at rest or not. pairs: weft__turn_timed_out */
    int which = phase == WEFT__PHASE_REST ? WEFT__PHASE_IDLE : phase;
    atomic_store_explicit(&session->timed_out, 1 + which, memory_order_release);
    shutdown(session->fd, phase == WEFT__PHASE_WRITE ? SHUT_RDWR : SHUT_RD);
    /* The last access. pairs: leave */
    atomic_store_explicit(left_group, 1, memory_order_release);
}

/* Handles a member that left the group: ends the connection, or puts it back into the group. */
static void check_expired(weft_idle_group *group, weft_idle_member *member, int phase)
{
    struct weft__session *session = session_of(member, phase);
    struct weft__turn *turn = phase == WEFT__PHASE_REST ? NULL : turn_of(member, phase);
    const struct weft__server *server = session->server;
    int64_t now = weft_now(), lasted = age(session, phase, now);
    bool reported = lasted >= period(server, phase) && !has_activity(session, phase);
    bool over = reported && lasted >= limit(server, phase);
    if (over && !(turn && is_reading(turn, phase, now))) {
        end_by_timeout(session, phase, turn ? &turn->left_group[phase] : &session->left_group);
        return;
    }
    if (reported && !over && phase == WEFT__PHASE_IDLE) {
        ask_to_rest(session);
    }
    weft_idle_add(group, member);
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
    struct weft__server *server;
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
static bool hand_to_worker(struct weft__server *server, unsigned worker, weft_idle_member *first,
                           int phase)
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
    struct weft__server *server = arg;
    int phase = (int)(group - server->timeouts);
    for (weft_idle_member *next, *member = first; member; member = next) {
        struct weft__shard *shard = weft__session_shard(session_of(member, phase));
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

int weft__timeout_init(struct weft__server *server)
{
    for (int i = 0; i < WEFT__TIMEOUTS; i++) {
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

void weft__timeout_deinit(struct weft__server *server)
{
    while (server->timeout_count) {
        weft_idle_deinit(&server->timeouts[--server->timeout_count]);
    }
}

void weft__turn_init(struct weft__turn *turn, struct weft__session *session)
{
    memset(turn, 0, sizeof *turn);
    turn->session = session;
    turn->server = session->server;
    turn->fd = session->fd;
}

void weft__turn_enter(struct weft__turn *turn, enum weft__phase phase)
{
    weft_idle_group *group = &turn->server->timeouts[phase];
    weft__session_enter(turn->session, phase, weft_now_cached());
    if (turn->joined[phase]) {
        weft_idle_touch(group, &turn->member[phase]);
    } else {
        turn->joined[phase] = true;
        weft_idle_add(group, &turn->member[phase]);
    }
}

/* The time since the last bytes counts on. */
void weft__session_enter_rest(struct weft__session *session)
{
    weft_idle_group *group = &session->server->timeouts[WEFT__PHASE_REST];
    weft__session_enter(session, WEFT__PHASE_REST,
                        atomic_load_explicit(&session->since, memory_order_relaxed));
    if (session->joined) {
        weft_idle_touch(group, &session->member);
    } else {
        session->joined = true;
        weft_idle_add(group, &session->member);
    }
}

bool weft__turn_timed_out(struct weft__turn *turn, enum weft__phase phase)
{
    struct weft__session *session = turn->session;
    /* pairs: end_by_timeout, weft__min_rate_check */
    if (atomic_load_explicit(&session->timed_out, memory_order_acquire) != 1 + (int)phase) {
        return false;
    }
    if (!session->timeout_counted) {
        session->timeout_counted = true;
        weft__shard_count(&weft__session_shard(session)->timeouts[phase], 1);
    }
    return true;
}

/* A member that has left the group is either put back or marked as left for good in a moment. */
static void leave(weft_idle_group *group, weft_idle_member *member, _Atomic(int) *left_group)
{
    /* pairs: end_by_timeout */
    while (!weft_idle_remove(group, member) &&
           !atomic_load_explicit(left_group, memory_order_acquire)) {
        weft_yield();
    }
}

void weft__turn_leave(struct weft__turn *turn)
{
    weft__turn_enter_busy(turn);
    for (int i = 0; i < WEFT__TURN_TIMEOUTS; i++) {
        if (turn->joined[i]) {
            leave(&turn->server->timeouts[i], &turn->member[i], &turn->left_group[i]);
        }
    }
}

void weft__session_leave(struct weft__session *session)
{
    weft__session_enter_busy(session);
    if (session->joined) {
        leave(&session->server->timeouts[WEFT__PHASE_REST], &session->member, &session->left_group);
    }
}
