/* Capacity for connections: limits, a reserve of descriptors, and which connections to evict when
 * the capacity is used up.
 *
 * An idle client pays nothing for its connection, so a plain limit would let a few idle clients
 * keep everybody else out. Hence the limit is one on active connections: a connection that waits
 * for its client gives way to a new one, and the connection that has waited longest goes first. It
 * is found by a scan over all connections, which evicts a few at a time; keeping the connections in
 * order would cost every request a lock.
 *
 * Some descriptors are reserved for everything that is not a connection, files above all. The
 * kernel allocates the lowest free number, so a high number means that few are left.
 */
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "server/session.h"

#define PARTIAL_HEAD_NS                                                                            \
    INT64_C(1000000000) /* an incomplete header younger than this is not evicted */

enum {
    CONNECTIONS_MAX = 131072,
    PER_ADDRESS_MAX = 16384,
    SPARE_MIN = 32, /* descriptors that are not for connections */
    EVICT_MAX = 64, /* connections evicted after one scan, at most */
};

static uint32_t descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) {
        return INT32_MAX;
    }
    return (uint32_t)limit.rlim_cur;
}

void weft__capacity_defaults(uint32_t *connections, uint32_t *per_address)
{
    uint32_t all = descriptors();
    uint32_t spare = all / 4 > SPARE_MIN ? all / 4 : SPARE_MIN;
    uint32_t most = all > spare + 8 ? all - spare : 8;
    most = most < CONNECTIONS_MAX ? most : CONNECTIONS_MAX;
    if (!*connections) {
        *connections = most;
    }
    if (!*per_address) { /* a proxy in front of the server is one address too */
        *per_address = most / 2 < PER_ADDRESS_MAX ? most / 2 : PER_ADDRESS_MAX;
    }
}

void weft__capacity_release(struct weft__server *server, weft__address address)
{
    weft__address_release(&server->peers, address);
    atomic_fetch_sub_explicit(&server->admitted, 1, memory_order_relaxed);
}

/* The descriptor limit may change: it is read again when the number seems high. */
bool weft__capacity_fd_is_reserved(struct weft__server *server, int fd)
{
    uint32_t number = (uint32_t)fd;
    if (number < atomic_load_explicit(&server->reserve_from, memory_order_relaxed)) {
        return false;
    }
    uint32_t all = descriptors();
    uint32_t reserve = all / 16 < 4 ? 4 : all / 16 > 64 ? 64 : all / 16;
    uint32_t from = all > 2 * reserve ? all - reserve : all;
    atomic_store_explicit(&server->reserve_from, from, memory_order_relaxed);
    return number >= from;
}

/* --- eviction --------------------------------------------------------------------------------- */

/* Times, the earliest first. */
struct earliest {
    int64_t since[EVICT_MAX];
    unsigned count, most;
};

static void earliest_add(struct earliest *list, int64_t since)
{
    unsigned at = list->count;
    if (at == list->most && since >= list->since[at - 1]) {
        return;
    }
    at -= at == list->most;
    for (; at > 0 && list->since[at - 1] > since; at--) {
        list->since[at] = list->since[at - 1];
    }
    list->since[at] = since;
    list->count += list->count < list->most;
}

/* Returns since when the connection waits for its client; WEFT_FOREVER if it does not wait. The
 * caller holds the shard's lock. */
static int64_t waiting_since(const struct weft__session *session, weft__address address,
                             int64_t now)
{
    int phase = weft__session_phase(session);
    int64_t since = atomic_load_explicit(&session->since, memory_order_relaxed);
    bool waits = phase == WEFT__PHASE_IDLE || phase == WEFT__PHASE_REST ||
                 (phase == WEFT__PHASE_HEADER && now - since > PARTIAL_HEAD_NS);
    return waits && !session->shed && (!address || session->address == address) ? since
                                                                                : WEFT_FOREVER;
}

static bool has_input(const struct weft__session *session)
{
    return poll(&(struct pollfd){.fd = session->fd, .events = POLLIN}, 1, 0) == 1;
}

static void collect_earliest(struct weft__shard *shard, weft__address address, int64_t now,
                             struct earliest *list)
{
    weft__lock(&shard->lock);
    for (struct weft__session *session = shard->first; session; session = session->next) {
        int64_t since = waiting_since(session, address, now);
        if (since != WEFT_FOREVER) {
            earliest_add(list, since);
        }
    }
    weft__unlock(&shard->lock);
}

/* Its owner finds the end of its input, or after all a request, which it serves. */
static void shed(struct weft__server *server, struct weft__session *session)
{
    session->shed = true;
    weft__capacity_release(server, session->address);
    atomic_fetch_add_explicit(&server->shed, 1, memory_order_relaxed);
    shutdown(session->fd, SHUT_RD);
}

static unsigned evict_some(struct weft__shard *shard, weft__address address, int64_t now,
                           int64_t until, unsigned most)
{
    unsigned count = 0;
    weft__lock(&shard->lock);
    for (struct weft__session *session = shard->first; session && count < most;
         session = session->next) {
        if (waiting_since(session, address, now) <= until && !has_input(session)) {
            shed(shard->server, session);
            count++;
        }
    }
    weft__unlock(&shard->lock);
    return count;
}

unsigned weft__capacity_evict(struct weft__server *server, weft__address address)
{
    const struct weft__server_opts *limits = &server->opts;
    uint32_t share = (address ? limits->per_address : limits->connections) / 16;
    struct earliest list = {.most = share < 1 ? 1 : share < EVICT_MAX ? share : EVICT_MAX};
    int64_t now = weft_now();
    for (unsigned i = 0; i < server->workers; i++) {
        collect_earliest(&server->shards[i], address, now, &list);
    }
    unsigned count = 0;
    for (unsigned i = 0; i < server->workers && count < list.count; i++) {
        count += evict_some(&server->shards[i], address, now, list.since[list.count - 1],
                            list.count - count);
    }
    return count;
}
