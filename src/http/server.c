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
    weft__http_capacity_defaults(limits);
    set_ns(&limits->idle_ns, S(60));
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
    if (limits->idle_ns < 0 || limits->header_ns < 0 || limits->body_ns < 0 ||
        limits->write_ns < 0 || limits->linger_ns < 0 || limits->grace_ns < 0) {
        return "limits: a time must not be negative";
    }
    return NULL;
}

/* --- create and destroy ----------------------------------------------------------------------- */

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
    } else if (opts.balance > WEFT_HTTP_BALANCE_REUSEPORT) {
        error = "balance: must be one of enum weft_http_balance";
    }
    if (error) {
        return weft__refuse(-EINVAL, error);
    }
    struct weft_http_server *server = weft__alloc(sizeof *server);
    if (!server) {
        return -ENOMEM;
    }
    server->opts = opts;
    server->pool = opts.pool;
    server->workers = weft_pool_workers(opts.pool);
    server->parse = (struct weft_http_limits){
        .line_bytes = opts.limits.line_bytes,
        .header_bytes = opts.limits.header_bytes,
    };
    /* An empty line before the header, and its line end, are not part of the limits. */
    server->input_max = opts.limits.line_bytes + opts.limits.header_bytes + 64;
    weft__http_min_rate_init(server);
    weft_waitgroup_init(&server->live, NULL);
    weft_waitgroup_init(&server->acceptors_live, NULL);
    server->shards = weft__alloc(server->workers * sizeof *server->shards);
    int err = server->shards ? weft__http_timeout_init(server) : -ENOMEM;
    if (err) {
        weft_http_server_destroy(server);
        return err;
    }
    for (unsigned i = 0; i < server->workers; i++) {
        weft__http_shard_init(&server->shards[i]);
        server->shards[i].server = server;
    }
    *out = server;
    return 0;
}

void weft_http_server_destroy(weft_http_server *server)
{
    if (!server) {
        return;
    }
    WEFT__REQUIRE(weft_waitgroup_count(&server->live) == 0 &&
                      weft_waitgroup_count(&server->acceptors_live) == 0,
                  "HTTP server destroyed before weft_http_server_stop returned 0");
    weft__http_timeout_deinit(server);
    weft__http_accept_free(server);
    weft__http_route_free(&server->routes);
    weft_waitgroup_deinit(&server->live);
    weft_waitgroup_deinit(&server->acceptors_live);
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
    err = weft__http_accept_start(server, &addr, &at);
    if (!err && bound) {
        *bound = at;
    }
    return err;
}

/* --- statistics ------------------------------------------------------------------------------- */

static uint64_t sum(const struct weft_http_server *server, int counter)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->workers; i++) {
        total += atomic_load_explicit(&server->shards[i].n[counter], memory_order_relaxed);
    }
    return total;
}

static void sum_acceptors(const struct weft_http_server *server, struct weft_http_stats *out)
{
    for (unsigned i = 0; i < server->workers; i++) {
        const struct weft__http_shard *shard = &server->shards[i];
        out->accepted += atomic_load_explicit(&shard->accepted, memory_order_relaxed);
        out->refused += atomic_load_explicit(&shard->refused, memory_order_relaxed);
        out->accept_errors += atomic_load_explicit(&shard->accept_errors, memory_order_relaxed);
        out->accept_wakes += atomic_load_explicit(&shard->accept_wakes, memory_order_relaxed);
    }
}

void weft_http_server_stats(const weft_http_server *server, struct weft_http_stats *out)
{
    WEFT__NONNULL(server);
    *out = (struct weft_http_stats){
        .requests = sum(server, WEFT__HTTP_N_REQUESTS),
        .bytes_in = sum(server, WEFT__HTTP_N_BYTES_IN),
        .bytes_out = sum(server, WEFT__HTTP_N_BYTES_OUT),
        .bad = sum(server, WEFT__HTTP_N_BAD_REQUESTS),
        .idle_timeouts = sum(server, WEFT__HTTP_N_TIMEOUTS + WEFT__HTTP_IDLE),
        .header_timeouts = sum(server, WEFT__HTTP_N_TIMEOUTS + WEFT__HTTP_HEADER),
        .body_timeouts = sum(server, WEFT__HTTP_N_TIMEOUTS + WEFT__HTTP_BODY),
        .write_timeouts = sum(server, WEFT__HTTP_N_TIMEOUTS + WEFT__HTTP_WRITE),
        .flushes = sum(server, WEFT__HTTP_N_FLUSHES),
        .idle_shed = atomic_load_explicit(&server->shed, memory_order_relaxed),
        .stop_idle = atomic_load_explicit(&server->stop_idle, memory_order_relaxed),
        .stop_lost = atomic_load_explicit(&server->stop_lost, memory_order_relaxed),
        .stop_aborted = atomic_load_explicit(&server->stop_aborted, memory_order_relaxed),
        .duration_ns = (int64_t)sum(server, WEFT__HTTP_N_DURATION_NS),
        .open = atomic_load_explicit(&server->open, memory_order_relaxed),
    };
    for (int i = 0; i < 6; i++) {
        out->by_class[i] = sum(server, WEFT__HTTP_N_CLASS + i);
    }
    for (int i = 0; i < WEFT_HTTP_BUCKETS; i++) {
        out->took[i] = sum(server, WEFT__HTTP_N_DURATION + i);
    }
    sum_acceptors(server, out);
}
