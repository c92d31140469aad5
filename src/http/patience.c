/* Time limits of connections, by idle groups: one group for each limit.
 *
 * A connection joins a group when it first comes into that phase, and stays. Going into the phase again is a touch, which is
 * a store. When the group finds it silent, the connection's own words say whether it is in that phase at all and since
 * when; if not it goes back into the group, which costs one look per period.
 *
 * One whose time is over has its socket shut down. That ends its read or write in the way in which a client could; its fiber asks
 * `ended` and knows better. Its own waits in handlers are not disturbed.
 */
#include <sys/socket.h>

#include "http/conn.h"

#define NS_PER_S 1000000000

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

static void on_silent(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg)
{
    struct weft_http_server *server = arg;
    int phase = (int)(group - server->patience);
    int64_t now = weft_now();
    (void)n;
    for (weft_idle_member *next, *member = first; member; member = next) {
        struct weft__http_conn *conn = conn_of(member, phase);
        next = weft_idle_next(member);
        if (!is_over(conn, phase, now)) {
            weft_idle_add(group, member);
            continue;
        }
        atomic_store_explicit(&conn->ended, 1 + phase,
                              memory_order_release); /* pairs: phase_ended */
        shutdown(conn->fd, phase == WEFT__HTTP_WRITE ? SHUT_RDWR : SHUT_RD);
        /* The last touch. pairs: weft__http_phase_leave */
        atomic_store_explicit(&conn->out_of[phase], 1, memory_order_release);
    }
}

int weft__http_patience_init(struct weft_http_server *server)
{
    for (int i = 0; i < WEFT__HTTP_PATIENCES; i++) {
        int64_t ns = period(server, i), precision = ns / 16 < NS_PER_S ? ns / 16 : NS_PER_S;
        struct weft_idle_opts opts = {
            .name = server->opts.name,
            .pool = server->pool,
            .period_ns = ns,
            .precision_ns = precision > 0 ? precision : 1,
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
    /* Whoever goes idle looks whether there is a stop behind this store, and a stop sets its word before it looks at
     * phases: one of them sees the other's. Hence the exchange. pairs: weft__http_stop_quiet, is_over */
    if (phase == WEFT__HTTP_IDLE) {
        atomic_store_explicit(&conn->phase, phase, memory_order_seq_cst);
    } else {
        atomic_store_explicit(&conn->phase, phase, memory_order_release);
    }
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
