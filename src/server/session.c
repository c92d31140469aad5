/* A connection's life: the record, its turns, its end (the table is in server/session.h).
 *
 * The count of the server's waitgroup is the session's last access to the server, which may be freed
 * after that.
 */
#include "server/session.h"

#include <errno.h>
#include <string.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/alloc.h"
#include "task/spawn.h"

/* --- the client's address --------------------------------------------------------------------- */

static bool set_peer(struct weft__peer *peer, const struct weft_addr *addr)
{
    if (addr->len <= sizeof peer->bytes) {
        peer->len = (uint8_t)addr->len;
        memcpy(peer->bytes, &addr->storage, addr->len);
        return true;
    }
    peer->long_name = weft__alloc_dirty(sizeof *peer->long_name);
    if (peer->long_name) {
        *peer->long_name = *addr;
    }
    return peer->long_name != NULL;
}

void weft__session_get_peer(const struct weft__session *session, struct weft_addr *out)
{
    const struct weft__peer *peer = &session->peer;
    if (peer->long_name) {
        *out = *peer->long_name;
        return;
    }
    memset(out, 0, sizeof *out);
    out->len = peer->len;
    memcpy(&out->storage, peer->bytes, peer->len);
}

/* --- the shard's list ------------------------------------------------------------------------- */

static void shard_add(struct weft__session *session)
{
    struct weft__shard *shard = weft__session_shard(session);
    weft__lock(&shard->lock);
    session->next = shard->first;
    if (session->next) {
        session->next->prev = session;
    }
    shard->first = session;
    weft__unlock(&shard->lock);
}

static void shard_remove(struct weft__session *session)
{
    struct weft__shard *shard = weft__session_shard(session);
    weft__lock(&shard->lock);
    if (session->prev) {
        session->prev->next = session->next;
    } else {
        shard->first = session->next;
    }
    if (session->next) {
        session->next->prev = session->prev;
    }
    weft__unlock(&shard->lock);
}

void weft__session_set_owner(struct weft__session *session, weft_fiber owner)
{
    struct weft__shard *shard = weft__session_shard(session);
    weft__lock(&shard->lock);
    atomic_store_explicit(&session->owner, owner, memory_order_relaxed);
    weft__unlock(&shard->lock);
}

void weft__session_begin_pause(struct weft__session *session)
{
    weft__session_enter(session, WEFT__PHASE_PAUSED, weft_now_cached());
}

/* Under the lock, so that an interrupt for the pause cannot hit a later wait. */
void weft__session_end_pause(struct weft__session *session)
{
    struct weft__shard *shard = weft__session_shard(session);
    weft__lock(&shard->lock);
    weft__session_enter_busy(session);
    weft__unlock(&shard->lock);
}

void weft__session_interrupt_pause(struct weft__session *session)
{
    struct weft__shard *shard = weft__session_shard(session);
    weft__lock(&shard->lock);
    if (weft__session_phase(session) == WEFT__PHASE_PAUSED) {
        weft_fiber_interrupt(atomic_load_explicit(&session->owner, memory_order_relaxed));
    }
    weft__unlock(&shard->lock);
}

void weft__session_call(struct weft__session *session)
{
    session->called = true;
    if (weft__session_is_waiting(session)) {
        weft_fiber_interrupt(atomic_load_explicit(&session->owner, memory_order_relaxed));
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

static void free_session(struct weft__session *session)
{
    weft__free(session->peer.long_name);
    weft__record_free(&session->server->sessions, session);
}

static void end(struct weft__session *session)
{
    struct weft__server *server = session->server;
    struct weft__shard *shard = weft__session_shard(session);
    shard_remove(session);
    weft__session_leave(session);
    weft_close(session->fd);
    if (!session->shed) {
        weft__capacity_release(server, session->address);
    }
    free_session(session);
    atomic_fetch_sub_explicit(&shard->open, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&server->open, 1, memory_order_relaxed);
    weft_waitgroup_done(&server->live); /* the last access */
}

/* Without memory for the rest task, the next turn waits with its fiber. */
static void run_turns(struct weft__session *session)
{
    const struct weft__server *server = session->server;
    session->may_rest = server->rests;
    while (server->protocol->turn(session)) {
        if (weft__session_rest(session)) {
            return; /* the session belongs to the rest task */
        }
        session->may_rest = false;
    }
    end(session);
}

static void *run_first_turn(void *arg)
{
    struct weft__session *session = arg;
    atomic_store_explicit(&session->owner, weft_self(), memory_order_relaxed);
    shard_add(session);
    atomic_fetch_sub_explicit(&session->server->arriving, 1, memory_order_relaxed);
    run_turns(session);
    return NULL;
}

static void *run_next_turn(void *arg)
{
    struct weft__session *session = arg;
    weft__session_set_owner(session, weft_self());
    run_turns(session);
    return NULL;
}

static int spawn(struct weft__session *session, weft_fn fn, bool is_successor)
{
    const struct weft__server *server = session->server;
    struct weft_fiber_opts opts = {.name = weft__session_name(session),
                                   .worker = session->worker,
                                   .bound = true,
                                   .detached = true};
    return weft__spawn(server->pool, NULL,
                       &(struct weft__spawn_request){
                           .fn = fn, .arg = session, .opts = &opts, .is_successor = is_successor});
}

int weft__session_start_turn(struct weft__session *session)
{
    return spawn(session, run_next_turn, true);
}

int weft__session_start(struct weft__server *server, int fd, unsigned worker,
                        const struct weft_addr *peer, weft__address address, void *listener)
{
    struct weft__session *session = weft__record_alloc(&server->sessions);
    if (!session) {
        return -ENOMEM;
    }
    session->server = server;
    if (!set_peer(&session->peer, peer)) {
        free_session(session);
        return -ENOMEM;
    }
    session->fd = fd;
    session->worker = (int)worker;
    session->address = address;
    session->listener = listener;
    weft__session_enter_busy(session);
    weft_waitgroup_add(&server->live, 1);
    atomic_fetch_add_explicit(&server->arriving, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&server->shards[worker].open, 1, memory_order_relaxed);
    int err = spawn(session, run_first_turn, false);
    if (err) {
        atomic_fetch_sub_explicit(&server->arriving, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&server->shards[worker].open, 1, memory_order_relaxed);
        weft_waitgroup_done(&server->live);
        free_session(session);
    }
    return err;
}
