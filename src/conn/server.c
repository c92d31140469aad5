/* The server: options, create and destroy, listen, stop, statistics. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "conn/conn.h"

#define S(n) ((n)*INT64_C(1000000000))
#define REST_MIN_NS 1000000 /* shorter: without any wait */

/* --- options ---------------------------------------------------------------------------------- */

static void set_ns(int64_t *value, int64_t standard)
{
    *value = *value ? *value : standard;
}

static void set_defaults(struct weft_server_limits *limits)
{
    weft__capacity_defaults(&limits->connections, &limits->per_address);
    set_ns(&limits->idle_ns, S(60));
    set_ns(&limits->rest_ns, S(1));
    set_ns(&limits->message_ns, S(10));
    set_ns(&limits->write_ns, S(30));
    set_ns(&limits->linger_ns, S(2));
    set_ns(&limits->grace_ns, S(1));
    limits->write_rate = limits->write_rate ? limits->write_rate : 500;
    limits->write_burst = limits->write_burst ? limits->write_burst : 256 << 10;
    limits->output_bytes = limits->output_bytes ? limits->output_bytes : 1 << 20;
    limits->output_bytes_all = limits->output_bytes_all ? limits->output_bytes_all : 64 << 20;
}

static bool has_negative_time(const struct weft_server_limits *limits)
{
    return limits->idle_ns < 0 || limits->rest_ns < 0 || limits->message_ns < 0 ||
           limits->write_ns < 0 || limits->linger_ns < 0 || limits->grace_ns < 0;
}

/* Returns an error message; NULL if the protocol is complete. */
static const char *check_protocol(const struct weft_protocol *protocol)
{
    weft_length_prefix decoder;
    switch (protocol->framing) {
    case WEFT_FRAMING_CUSTOM:
        if (!protocol->frame) {
            return "protocol: CUSTOM framing needs the function `frame`";
        }
        break;
    case WEFT_FRAMING_LENGTH_PREFIX:
        if (weft_length_prefix_init(&decoder, &protocol->length_prefix) != 0) {
            return "protocol: length_prefix does not describe a frame";
        }
        break;
    case WEFT_FRAMING_STREAM:
        return protocol->serve ? NULL : "protocol: STREAM framing needs the function `serve`";
    case WEFT_FRAMING_LINE:
    case WEFT_FRAMING_RESP:
        break;
    default:
        return "protocol: framing: must be one of enum weft_framing";
    }
    return protocol->handle ? NULL : "protocol: `handle` is missing";
}

/* --- create and destroy ----------------------------------------------------------------------- */

static int init_base(struct weft_server *server, const struct weft_server_opts *opts)
{
    const struct weft_server_limits *limits = &server->limits;
    return weft__server_init(&server->base, &weft__conn_server_protocol,
                             &(struct weft__server_opts){
                                 .name = opts->name,
                                 .pool = opts->pool,
                                 .balance = opts->balance,
                                 .connections = limits->connections,
                                 .per_address = limits->per_address,
                                 .idle_ns = limits->idle_ns,
                                 .rest_ns = limits->rest_ns < REST_MIN_NS ? 0 : limits->rest_ns,
                                 .header_ns = limits->message_ns,
                                 .body_ns = limits->idle_ns, /* no phase of these protocols */
                                 .write_ns = limits->write_ns,
                                 .write_rate = limits->write_rate,
                                 .write_burst = limits->write_burst,
                                 .linger_ns = limits->linger_ns,
                                 .grace_ns = limits->grace_ns,
                                 .session_bytes = sizeof(struct weft__conn_session),
                             });
}

static int create_shards(struct weft_server *server)
{
    unsigned workers = server->base.workers;
    server->shards = weft__alloc(workers * sizeof *server->shards);
    for (unsigned i = 0; server->shards && i < workers; i++) {
        server->shards[i].server = server;
    }
    return server->shards ? 0 : -ENOMEM;
}

static void free_server(struct weft_server *server)
{
    for (unsigned i = 0; server->shards && i < server->base.workers; i++) {
        weft__free(server->shards[i].entries);
    }
    struct weft__listener *listener;
    while ((listener = server->listeners)) {
        server->listeners = listener->next;
        weft__free(listener);
    }
    weft__free(server->shards);
    weft__free(server);
}

int weft_server_create(weft_server **out, const struct weft_server_opts *options)
{
    struct weft_server_opts opts = {0};
    if (options) {
        opts = *options;
    }
    set_defaults(&opts.limits);
    opts.name = opts.name ? opts.name : "server";
    opts.pool = opts.pool ? opts.pool : weft_pool_self();
    const char *error = !opts.pool ? "pool: must be given outside of a fiber"
                        : opts.balance > WEFT_BALANCE_REUSEPORT
                            ? "balance: must be one of enum weft_balance"
                        : has_negative_time(&opts.limits) ? "limits: a time must not be negative"
                                                          : NULL;
    if (error) {
        return weft__refuse(-EINVAL, error);
    }
    struct weft_server *server = weft__alloc(sizeof *server);
    if (!server) {
        return -ENOMEM;
    }
    server->limits = opts.limits;
    int err = init_base(server, &opts);
    if (err) {
        free_server(server);
        return err;
    }
    err = create_shards(server);
    if (err) {
        weft__server_deinit(&server->base);
        free_server(server);
        return err;
    }
    *out = server;
    return 0;
}

void weft_server_destroy(weft_server *server)
{
    if (!server) {
        return;
    }
    WEFT__REQUIRE(weft__server_is_idle(&server->base),
                  "server destroyed before weft_server_stop returned 0");
    weft__server_deinit(&server->base);
    free_server(server);
}

int weft_server_listen(weft_server *server, struct weft_addr *bound, const char *address,
                       const struct weft_protocol *protocol, void *arg)
{
    WEFT__NONNULL(server);
    WEFT__NONNULL(protocol);
    struct weft_addr addr, at;
    const char *error = check_protocol(protocol);
    if (error) {
        return weft__refuse(-EINVAL, error);
    }
    int err = weft_addr_parse(&addr, address);
    if (err) {
        return err;
    }
    struct weft__listener *listener = weft__alloc(sizeof *listener);
    if (!listener) {
        return -ENOMEM;
    }
    *listener = (struct weft__listener){.protocol = protocol, .arg = arg};
    weft__lock(&server->base.lock);
    listener->next = server->listeners; /* freed with the server: connections may be left */
    server->listeners = listener;
    weft__unlock(&server->base.lock);
    err = weft__accept_start(&server->base, &addr, &at, listener);
    if (!err && bound) {
        *bound = at;
    }
    return err;
}

int weft_server_stop(weft_server *server, int64_t deadline)
{
    WEFT__NONNULL(server);
    return weft__server_stop(&server->base, deadline);
}

/* --- statistics ------------------------------------------------------------------------------- */

static uint64_t read_counter(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_shard(struct weft_server_stats *out, const struct weft__shard *shard,
                      const struct weft__conn_shard *conns)
{
    uint64_t wakes = read_counter(&shard->wakes); /* before the rests: never more of these */
    out->accepted += read_counter(&shard->accepted);
    out->refused += read_counter(&shard->refused);
    out->idle_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_IDLE]);
    out->message_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_HEADER]);
    out->write_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_WRITE]);
    out->wakes += wakes;
    out->at_rest += read_counter(&shard->rests) - wakes;
    out->messages += read_counter(&conns->messages);
    out->bytes_in += read_counter(&conns->bytes_in);
    out->bytes_out += read_counter(&conns->bytes_out);
}

void weft_server_stats(const weft_server *server, struct weft_server_stats *out)
{
    WEFT__NONNULL(server);
    const struct weft__server *base = &server->base;
    *out = (struct weft_server_stats){
        .open = atomic_load_explicit(&base->open, memory_order_relaxed),
        .output_bytes = read_counter(&server->output_bytes),
        .output_refused = read_counter(&server->output_refused),
        .evicted = read_counter(&base->shed),
        .stop_idle = read_counter(&base->stop_idle),
        .stop_lost = read_counter(&base->stop_lost),
        .stop_aborted = read_counter(&base->stop_aborted),
    };
    for (unsigned i = 0; i < base->workers; i++) {
        add_shard(out, &base->shards[i], &server->shards[i]);
    }
}

static size_t insert(struct weft_conn_info *list, size_t count, size_t max,
                     const struct weft__conn_session *session)
{
    size_t at = count < max ? count : max;
    while (at > 0 && list[at - 1].output_bytes < session->output_bytes) {
        at--;
    }
    if (at >= max) {
        return count;
    }
    size_t kept = count < max ? count : max - 1;
    memmove(&list[at + 1], &list[at], (kept - at) * sizeof *list);
    list[at].id = session->id;
    list[at].output_bytes = session->output_bytes;
    weft__session_get_peer(&session->base, &list[at].peer);
    return kept + 1;
}

size_t weft_server_slowest(weft_server *server, struct weft_conn_info *out, size_t max)
{
    WEFT__NONNULL(server);
    size_t count = 0;
    for (unsigned i = 0; i < server->base.workers; i++) {
        struct weft__conn_shard *shard = &server->shards[i];
        weft__lock(&shard->lock);
        for (uint32_t k = 0; k < shard->entry_count; k++) {
            const struct weft__conn_session *session = shard->entries[k].session;
            if (session && session->output_bytes) {
                count = insert(out, count, max, session);
            }
        }
        weft__unlock(&shard->lock);
    }
    return count;
}
