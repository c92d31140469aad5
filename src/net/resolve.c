/* Resolve names with c-ares. Each call has its own channel, on the calling fiber's stack: nothing
 * is shared, and a cancel ends the query. */
#include <weft/net.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "net/epoll_set.h"

/* Parse a host that is a numeric address, without a port. */
static int parse_numeric(const char *host, unsigned port, struct weft_addr *out)
{
    char text[WEFT_ADDR_STRLEN];
    bool v6 = strchr(host, ':') != NULL;
    size_t len = strlen(host);
    if (len == 0 || len > sizeof text - 16 || strcmp(host, "*") == 0) {
        return -EINVAL;
    }
    snprintf(text, sizeof text, v6 && host[0] != '[' ? "[%s]:%u" : "%s:%u", host, port);
    return weft_addr_parse(out, text);
}

#ifndef WEFT_CARES
#define WEFT_CARES 0 /* set by the build: 1 if c-ares was found */
#endif

#if WEFT_CARES
#include <ares.h>
#include <netdb.h>

#include "lock/lock.h"
#include "worker/worker.h"

#define TRY_NS 2000000000
#define TRY_MAX_MS 3600000 /* c-ares doubles it with each try */
#define TRIES_MAX 30       /* days in total; c-ares multiplies it by the servers, in an int */
#define EVENTS 8

struct query {
    struct weft__epoll_set group;
    bool done;
    int status;
    struct ares_addrinfo *found;
};

/* c-ares must be initialised once per process, before anything else. */
static int library_init(void)
{
    static struct weft__lock lock;
    static bool ready;
    weft__lock(&lock);
    ready = ready || ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS;
    bool ok = ready;
    weft__unlock(&lock);
    return ok ? 0 : -ENOMEM;
}

static void on_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct query *query = arg;
    weft__epoll_set_update(&query->group, fd, (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0));
}

static void on_result(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    (void)timeouts;
    struct query *query = arg;
    query->done = true;
    query->status = status;
    query->found = found;
}

static int as_errno(int status)
{
    switch (status) {
    case ARES_SUCCESS:
        return 0;
    case ARES_ENOMEM:
        return -ENOMEM;
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_ENONAME:
        return -ENOENT;
    case ARES_EBADNAME:
    case ARES_EBADSTR:
    case ARES_EBADFAMILY:
    case ARES_EBADQUERY:
        return -EINVAL;
    default:
        return -EREMOTEIO;
    }
}

/* c-ares takes whole milliseconds, and 0 would mean immediately. */
static int try_ms(int64_t ns)
{
    int64_t ms = ns > 0 ? (ns - 1) / 1000000 + 1 : TRY_NS / 1000000;
    return ms < TRY_MAX_MS ? (int)ms : TRY_MAX_MS;
}

static int channel_open(ares_channel *out, struct query *query,
                        const struct weft_resolve_opts *opts)
{
    struct ares_options options = {
        .timeout = try_ms(opts->try_timeout_ns),
        .tries = opts->tries == 0          ? 3
                 : opts->tries < TRIES_MAX ? opts->tries
                                           : TRIES_MAX,
        .lookups = (char[]){"fb"}, /* the hosts file, then the servers */
        .sock_state_cb = on_socket,
        .sock_state_cb_data = query,
    };
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
    int status = ares_init_options(out, &options, mask);
    if (status != ARES_SUCCESS) {
        return status == ARES_ENOMEM ? -ENOMEM : -EREMOTEIO;
    }
    if (opts->servers && ares_set_servers_ports_csv(*out, opts->servers) != ARES_SUCCESS) {
        ares_destroy(*out);
        return -EINVAL;
    }
    return 0;
}

/* When c-ares must be called even if no event arrives. */
static int64_t next_call(ares_channel channel, int64_t deadline)
{
    struct timeval left;
    if (!ares_timeout(channel, NULL, &left)) {
        return deadline;
    }
    int64_t at = weft_after((int64_t)left.tv_sec * 1000000000 + (int64_t)left.tv_usec * 1000);
    return at < deadline ? at : deadline;
}

static int run(ares_channel channel, struct query *query, int64_t deadline)
{
    struct epoll_event events[EVENTS];
    while (!query->done) {
        int n = weft__epoll_set_wait(&query->group, events, EVENTS, next_call(channel, deadline));
        if (n < 0) {
            return n;
        }
        if (n == 0 && deadline != WEFT_FOREVER && deadline <= weft_now()) {
            return -ETIMEDOUT;
        }
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            bool in = (events[i].events & ~(uint32_t)EPOLLOUT) != 0;
            bool out = (events[i].events & EPOLLOUT) != 0;
            ares_process_fd(channel, in ? fd : ARES_SOCKET_BAD, out ? fd : ARES_SOCKET_BAD);
        }
        if (n == 0) {
            ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        }
    }
    return as_errno(query->status);
}

static int copy_addrs(const struct ares_addrinfo *found, unsigned port, struct weft_addr *out,
                      size_t max)
{
    size_t n = 0;
    for (const struct ares_addrinfo_node *node = found->nodes; node && n < max;
         node = node->ai_next) {
        if (node->ai_addrlen <= sizeof out[n].storage) {
            memset(&out[n], 0, sizeof out[n]);
            memcpy(&out[n].storage, node->ai_addr, node->ai_addrlen);
            out[n].len = node->ai_addrlen;
            n += weft_addr_set_port(&out[n], port) == 0;
        }
    }
    return n ? (int)n : -ENOENT;
}

static int query_servers(const char *host, unsigned port, struct weft_addr *out, size_t max,
                         const struct weft_resolve_opts *opts, int64_t deadline)
{
    ares_channel channel;
    struct query query = {0};
    const struct ares_addrinfo_hints hints = {
        .ai_family = opts->family ? opts->family : AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
    };
    int err = library_init();
    err = err ? err : weft__epoll_set_open(&query.group);
    if (err) {
        return err;
    }
    err = channel_open(&channel, &query, opts);
    if (!err) {
        ares_getaddrinfo(channel, host, NULL, &hints, on_result, &query);
        err = run(channel, &query, deadline);
        ares_destroy(channel); /* calls on_result if it was not called yet */
    }
    if (!err) {
        err = copy_addrs(query.found, port, out, max);
    }
    if (query.found) {
        ares_freeaddrinfo(query.found);
    }
    weft__epoll_set_close(&query.group);
    return err;
}
#else
static int query_servers(const char *host, unsigned port, struct weft_addr *out, size_t max,
                         const struct weft_resolve_opts *opts, int64_t deadline)
{
    (void)host, (void)port, (void)out, (void)max, (void)opts, (void)deadline;
    return -ENOSYS;
}
#endif

int weft_resolve(struct weft_addr *out, size_t max, const char *host, unsigned port,
                 const struct weft_resolve_opts *options, int64_t deadline)
{
    struct weft_resolve_opts opts = {0};
    if (options) {
        opts = *options;
    }
    if (max == 0 || port > 65535 || !host[0] ||
        (opts.family && opts.family != AF_INET && opts.family != AF_INET6) || opts.tries < 0 ||
        opts.try_timeout_ns < 0) {
        return -EINVAL;
    }
    if (parse_numeric(host, port, out) == 0) {
        return opts.family && out->storage.ss_family != opts.family ? -ENOENT : 1;
    }
    return query_servers(host, port, out, max, &opts, deadline);
}
