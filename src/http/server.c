/* The server: options, create and destroy, listen, statistics. */
#include "http/server.h"

#include <errno.h>
#include <string.h>

#include <weft/net.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "http/conn.h"

#define S(n) ((n)*INT64_C(1000000000))
#define REST_MIN_NS 1000000 /* shorter: without any wait */

/* --- options -------------------------------------------------------------------------------- */

static void set_u32(uint32_t *value, uint32_t standard)
{
    *value = *value ? *value : standard;
}

static void set_ns(int64_t *value, int64_t standard)
{
    *value = *value ? *value : standard;
}

static void set_defaults(struct weft_http_server_limits *limits)
{
    set_u32(&limits->line_bytes, 8 << 10);
    set_u32(&limits->header_bytes, 16 << 10);
    set_u32(&limits->fields, WEFT_HTTP_FIELDS);
    limits->body_bytes = limits->body_bytes ? limits->body_bytes : 1 << 20;
    set_u32(&limits->requests, 1000);
    set_u32(&limits->pipelined, 64);
    weft__capacity_defaults(&limits->connections, &limits->per_address);
    set_ns(&limits->idle_ns, S(60));
    set_ns(&limits->rest_ns, S(1));
    set_ns(&limits->header_ns, S(10));
    set_ns(&limits->body_ns, S(10));
    set_u32(&limits->body_rate, 500);
    set_ns(&limits->write_ns, S(30));
    set_u32(&limits->write_rate, 500);
    set_u32(&limits->write_burst, 256 << 10);
    set_ns(&limits->linger_ns, S(2));
    set_ns(&limits->grace_ns, S(1));
}

/* Returns an error message; NULL if the limits are valid. */
static const char *check_limits(const struct weft_http_server_limits *limits)
{
    const uint32_t most = 16 << 20; /* bytes of a line, and of a header */
    if (limits->line_bytes < 64 || limits->line_bytes > most) {
        return "limits.line_bytes: must be from 64 bytes to 16 MiB";
    }
    if (limits->header_bytes > most) {
        return "limits.header_bytes: must be at most 16 MiB";
    }
    if (limits->fields >= UINT16_MAX) {
        return "limits.fields: must be less than 65535";
    }
    if (limits->idle_ns < 0 || limits->rest_ns < 0 || limits->header_ns < 0 ||
        limits->body_ns < 0 || limits->write_ns < 0 || limits->linger_ns < 0 ||
        limits->grace_ns < 0) {
        return "limits: a time must not be negative";
    }
    return NULL;
}

/* --- create and destroy ----------------------------------------------------------------------- */

static int create_shards(struct weft_http_server *server)
{
    unsigned workers = weft_pool_workers(server->opts.pool);
    server->shards = weft__alloc(workers * sizeof *server->shards);
    if (!server->shards) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < workers; i++) {
        weft__http_shard_init(&server->shards[i]);
    }
    return 0;
}

static int init_base(struct weft_http_server *server)
{
    const struct weft_http_server_limits *limits = &server->opts.limits;
    return weft__server_init(&server->base, &weft__http_protocol,
                             &(struct weft__server_opts){
                                 .name = server->opts.name,
                                 .pool = server->opts.pool,
                                 .balance = server->opts.balance,
                                 .connections = limits->connections,
                                 .per_address = limits->per_address,
                                 .idle_ns = limits->idle_ns,
                                 .rest_ns = limits->rest_ns < REST_MIN_NS ? 0 : limits->rest_ns,
                                 .header_ns = limits->header_ns,
                                 .body_ns = limits->body_ns,
                                 .write_ns = limits->write_ns,
                                 .write_rate = limits->write_rate,
                                 .write_burst = limits->write_burst,
                                 .linger_ns = limits->linger_ns,
                                 .grace_ns = limits->grace_ns,
                             });
}

int weft_http_server_create(weft_http_server **out, const struct weft_http_server_opts *options)
{
    struct weft_http_server_opts opts = {0};
    if (options) {
        opts = *options;
    }
    set_defaults(&opts.limits);
    opts.name = opts.name ? opts.name : "http";
    opts.pool = opts.pool ? opts.pool : weft_pool_self();
    const char *error = check_limits(&opts.limits);
    if (!opts.pool) {
        error = "pool: must be given outside of a fiber";
    } else if (opts.balance > WEFT_BALANCE_REUSEPORT) {
        error = "balance: must be one of enum weft_balance";
    }
    if (error) {
        return weft__refuse(-EINVAL, error);
    }
    struct weft_http_server *server = weft__alloc(sizeof *server);
    if (!server) {
        return -ENOMEM;
    }
    server->opts = opts;
    server->parse = (struct weft_http_limits){
        .line_bytes = opts.limits.line_bytes,
        .header_bytes = opts.limits.header_bytes,
    };
    /* An empty line before the header, and its line end, are not part of the limits. */
    server->input_max = opts.limits.line_bytes + opts.limits.header_bytes + 64;
    int err = create_shards(server);
    if (err) {
        weft__free(server);
        return err;
    }
    err = init_base(server);
    if (err) {
        weft__free(server->shards);
        weft__free(server);
        return err;
    }
    *out = server;
    return 0;
}

void weft_http_server_destroy(weft_http_server *server)
{
    if (!server) {
        return;
    }
    WEFT__REQUIRE(weft__server_is_idle(&server->base),
                  "HTTP server destroyed before weft_http_server_stop returned 0");
    weft__server_deinit(&server->base);
    weft__http_route_free(&server->routes);
    weft__free(server->shards);
    weft__free(server);
}

int weft_http_server_route(weft_http_server *server, const char *method, const char *path,
                           weft_http_fn fn, void *arg, const struct weft_http_route_opts *opts)
{
    WEFT__NONNULL(server);
    if (atomic_load_explicit(&server->listened, memory_order_relaxed)) {
        return -EBUSY;
    }
    return weft__http_route_add(&server->routes, method, path, fn, arg,
                                opts ? opts->body_bytes : 0);
}

int weft_http_server_listen(weft_http_server *server, struct weft_addr *bound, const char *address)
{
    WEFT__NONNULL(server);
    struct weft_addr addr, at;
    int err = weft_addr_parse(&addr, address);
    if (err) {
        return err;
    }
    atomic_store_explicit(&server->listened, 1, memory_order_relaxed);
    err = weft__accept_start(&server->base, &addr, &at, NULL);
    if (!err && bound) {
        *bound = at;
    }
    return err;
}

int weft_http_server_stop(weft_http_server *server, int64_t deadline)
{
    WEFT__NONNULL(server);
    return weft__server_stop(&server->base, deadline);
}

bool weft_http_server_is_stopping(const weft_http_server *server)
{
    WEFT__NONNULL(server);
    return weft__is_stopping(&server->base);
}

/* --- statistics ------------------------------------------------------------------------------- */

static uint64_t read_counter(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t sum(const struct weft_http_server *server, int counter)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->base.workers; i++) {
        total += read_counter(&server->shards[i].n[counter]);
    }
    return total;
}

static void sum_shards(const struct weft__server *server, struct weft_http_stats *out)
{
    for (unsigned i = 0; i < server->workers; i++) {
        const struct weft__shard *shard = &server->shards[i];
        out->accepted += read_counter(&shard->accepted);
        out->refused += read_counter(&shard->refused);
        out->accept_errors += read_counter(&shard->accept_errors);
        out->accept_wakes += read_counter(&shard->accept_wakes);
        out->idle_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_IDLE]);
        out->header_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_HEADER]);
        out->body_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_BODY]);
        out->write_timeouts += read_counter(&shard->timeouts[WEFT__PHASE_WRITE]);
        uint64_t wakes = read_counter(&shard->wakes); /* before the rests: never more of these */
        out->wakes += wakes;
        out->at_rest += read_counter(&shard->rests) - wakes;
    }
}

void weft_http_server_stats(const weft_http_server *server, struct weft_http_stats *out)
{
    WEFT__NONNULL(server);
    const struct weft__server *base = &server->base;
    *out = (struct weft_http_stats){
        .requests = sum(server, WEFT__HTTP_N_REQUESTS),
        .bytes_in = sum(server, WEFT__HTTP_N_BYTES_IN),
        .bytes_out = sum(server, WEFT__HTTP_N_BYTES_OUT),
        .bad = sum(server, WEFT__HTTP_N_BAD_REQUESTS),
        .flushes = sum(server, WEFT__HTTP_N_FLUSHES),
        .idle_shed = read_counter(&base->shed),
        .stop_idle = read_counter(&base->stop_idle),
        .stop_lost = read_counter(&base->stop_lost),
        .stop_aborted = read_counter(&base->stop_aborted),
        .duration_ns = (int64_t)sum(server, WEFT__HTTP_N_DURATION_NS),
        .open = atomic_load_explicit(&base->open, memory_order_relaxed),
    };
    for (int i = 0; i < 6; i++) {
        out->by_class[i] = sum(server, WEFT__HTTP_N_CLASS + i);
    }
    for (int i = 0; i < WEFT_HTTP_BUCKETS; i++) {
        out->took[i] = sum(server, WEFT__HTTP_N_DURATION + i);
    }
    sum_shards(base, out);
}
