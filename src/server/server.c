/* The parts of a server that are made once. */
#include <errno.h>

#include "base/alloc.h"
#include "io/op.h"
#include "server/session.h"

int weft__server_init(struct weft__server *server, const struct weft__server_protocol *protocol,
                      const struct weft__server_opts *opts)
{
    server->opts = *opts;
    server->protocol = protocol;
    server->pool = opts->pool;
    server->workers = weft_pool_workers(opts->pool);
    server->rests = opts->rest_ns < opts->idle_ns;
    size_t bytes = opts->session_bytes ? opts->session_bytes : sizeof(struct weft__session);
    weft__record_slab_init(&server->sessions, bytes);
    weft__record_slab_init(&server->ops, sizeof(struct weft__op));
    weft__min_rate_init(server);
    weft_waitgroup_init(&server->live, NULL);
    weft_waitgroup_init(&server->acceptors_live, NULL);
    server->shards = weft__alloc(server->workers * sizeof *server->shards);
    int err = server->shards ? weft__timeout_init(server) : -ENOMEM;
    if (err) {
        weft__server_deinit(server);
        return err;
    }
    for (unsigned i = 0; i < server->workers; i++) {
        server->shards[i].server = server;
    }
    return 0;
}

bool weft__server_is_idle(struct weft__server *server)
{
    return weft_waitgroup_count(&server->live) == 0 &&
           weft_waitgroup_count(&server->acceptors_live) == 0;
}

void weft__server_deinit(struct weft__server *server)
{
    weft__timeout_deinit(server);
    weft__accept_free(server);
    weft_waitgroup_deinit(&server->live);
    weft_waitgroup_deinit(&server->acceptors_live);
    weft__record_slab_deinit(&server->sessions);
    weft__record_slab_deinit(&server->ops);
    weft__free(server->shards);
}
