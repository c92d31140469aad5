/* `weft serve`: serves files, or the built-in site, over HTTP.
 *
 * There are two pools. One serves. The other is the calling thread alone, for signals, the admin
 * listener and the stop, so that these respond whatever the serving threads do.
 */
#include "serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weft/weft.h>

#include "access_log.h"
#include "admin.h"
#include "builtin_site.h"
#include "options.h"
#include "visit_counter.h"

enum { EXIT_USAGE = 2 };

#define DEFAULT_ADDRESS "127.0.0.1:8080"
#define NS_PER_S INT64_C(1000000000)

struct serving {
    struct options options;
    int status;
    weft_pool *pool;
    weft_http_server *server, *admin_server;
    weft_http_files *files;
    struct visits visits; /* of the built-in site */
    struct log *log;
    struct admin admin;
    weft_signal_set *signals;
    weft_fiber waiter; /* waits for signals */
    bool stopped;
};

static int report_error(const char *what, const char *name, int err)
{
    bool refused = (err == -EINVAL || err == -EOPNOTSUPP) && weft_last_error()[0];
    fprintf(stderr, "weft serve: %s%s%s: %s\n", what, name ? " " : "", name ? name : "",
            refused ? weft_last_error() : weft_strerror(err));
    return err;
}

/* --- start ------------------------------------------------------------------------------------ */

static int open_signals(struct serving *s)
{
    /* If SIGINT is ignored, as in a shell's background job, it stays ignored. SIGTERM must end
     * us. */
    static const int both[] = {SIGTERM, SIGINT};
    int err = weft_signal_open(&s->signals, both, 2, NULL);
    if (err == -EPERM || (!err && !weft_signal_has(s->signals, SIGTERM))) {
        weft_signal_close(s->signals);
        s->signals = NULL;
        err = weft_signal_open(&s->signals, both, 1, &(struct weft_signal_opts){.force = true});
    }
    return err ? report_error("cannot wait for", "SIGTERM and SIGINT", err) : 0;
}

static void warn_of_root(void)
{
    if (geteuid() == 0) {
        fprintf(stderr,
                "weft serve: warning: running as root and staying root: files are served whatever "
                "their mode; start it as another user (a port below 1024 needs "
                "CAP_NET_BIND_SERVICE only)\n");
    }
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int start_pool(struct serving *s)
{
    const struct weft_pool_opts opts = {
        .name = "serve",
        .workers = (unsigned)s->options.workers,
        .driver = s->options.driver,
    };
    int err = weft_pool_create(&s->pool, &opts);
    err = err ? err : weft_pool_start(s->pool);
    return err ? report_error("cannot start the workers", NULL, err) : 0;
}

static int add_site(struct serving *s)
{
    int err = visit_counter_open(&s->visits, s->options.driver);
    err = err ? err : builtin_site_routes(s->server);
    err = err ? err : visit_counter_routes(s->server, &s->visits);
    return err ? report_error("cannot create the built-in site", NULL, err) : 0;
}

static int add_routes(struct serving *s)
{
    if (!s->options.root) {
        return add_site(s);
    }
    const struct weft_http_files_opts opts = {
        .index = s->options.index,
        .listing = s->options.listing,
        .follow_symlinks = s->options.follow_symlinks,
        .dotfiles = s->options.dotfiles,
        .revalidate_ns = s->options.revalidate_ns,
        .workers = weft_pool_workers(s->pool),
    };
    int err = weft_http_files_open(&s->files, s->options.root, &opts);
    err = err ? err
              : weft_http_server_route(s->server, NULL, "/", weft_http_files_serve, s->files, NULL);
    return err ? report_error("cannot serve", s->options.root, err) : 0;
}

static int make_server(struct serving *s)
{
    const struct weft_http_server_opts opts = {
        .pool = s->pool,
        .balance = s->options.balance,
        .limits = s->options.limits,
        .on_request = s->log ? access_log_request : NULL,
        .arg = s->log,
    };
    int err = weft_http_server_create(&s->server, &opts);
    return err ? report_error("cannot create the server", NULL, err) : add_routes(s);
}

static void print_address(const char *before, const struct weft_addr *addr)
{
    char text[WEFT_ADDR_STRLEN];
    weft_addr_format(addr, text, sizeof text);
    printf("%s%s%s\n", before, addr->storage.ss_family == AF_UNIX ? "" : "http://", text);
}

static int listen_on(weft_http_server *server, const char *address, const char *before)
{
    struct weft_addr bound;
    int err = weft_http_server_listen(server, &bound, address);
    if (err == -EINVAL) {
        fprintf(
            stderr,
            "weft serve: not an address: %s (such as 127.0.0.1:8080, [::1]:0, *:80, unix:/run/x.sock)\n",
            address);
        return err;
    }
    if (err) {
        return report_error("cannot listen on", address, err);
    }
    print_address(before, &bound);
    return 0;
}

/* No port was asked for, so another port is acceptable. */
static int listen_anywhere(struct serving *s)
{
    struct weft_addr bound;
    int err = weft_http_server_listen(s->server, &bound, DEFAULT_ADDRESS);
    if (err == -EADDRINUSE) {
        return listen_on(s->server, "127.0.0.1:0", "");
    }
    if (err) {
        return report_error("cannot listen on", DEFAULT_ADDRESS, err);
    }
    print_address("", &bound);
    return 0;
}

static int listen_all(struct serving *s)
{
    int err = s->options.listen_count ? 0 : listen_anywhere(s);
    for (int i = 0; i < s->options.listen_count && !err; i++) {
        err = listen_on(s->server, s->options.listen[i], "");
    }
    return err;
}

/* In the calling fiber's pool. */
static int start_admin(struct serving *s)
{
    if (!s->options.admin) {
        return 0;
    }
    s->admin = (struct admin){.served = s->server,
                              .pool = s->pool,
                              .log = s->log,
                              .hosts = s->options.admin_hosts,
                              .host_count = s->options.admin_host_count};
    /* If this is not an address, the listen fails too. */
    weft_addr_parse(&s->admin.at, s->options.admin);
    int err =
        weft_http_server_create(&s->admin_server, &(struct weft_http_server_opts){.name = "admin"});
    err = err ? err : admin_routes(s->admin_server, &s->admin);
    return err ? report_error("cannot create the admin server", NULL, err)
               : listen_on(s->admin_server, s->options.admin, "admin ");
}

static int start(struct serving *s)
{
    int err = open_signals(s);
    if (!err && s->options.log) {
        err = access_log_open(&s->log, s->options.log);
        err = err ? report_error("cannot write the log", s->options.log, err) : 0;
    }
    err = err ? err : start_pool(s);
    err = err ? err : make_server(s);
    err = err ? err : listen_all(s);
    err = err ? err : start_admin(s);
    if (!err) {
        unsigned workers = weft_pool_workers(s->pool);
        printf("serving %s with %u worker%s; SIGTERM finishes responses, %s\n",
               s->options.root ? s->options.root : "the built-in site", workers,
               workers == 1 ? "" : "s",
               weft_signal_has(s->signals, SIGINT) ? "SIGINT (Ctrl-C) stops at once"
                                                   : "SIGINT is ignored, as it was at the start");
        fflush(stdout);
    }
    return err;
}

/* --- stop ------------------------------------------------------------------------------------- */

static void *drain(void *arg)
{
    struct serving *s = arg;
    weft_http_server_stop(s->server, weft_after(s->options.drain_ns));
    s->stopped = true;
    weft_fiber_interrupt(s->waiter);
    return NULL;
}

/* Waits for the first signal, then stops the server; a second signal cuts the stop short. */
static void wait_for_end(struct serving *s)
{
    struct weft_signal_info info;
    weft_fiber drainer;
    s->waiter = weft_self();
    if (weft_signal_wait(s->signals, &info, WEFT_FOREVER) != 0 || info.signal == SIGINT ||
        weft_spawn(&drainer, drain, s, &(struct weft_fiber_opts){.name = "drain"}) != 0) {
        return;
    }
    /* Ended by the drain fiber, or by a signal. */
    weft_signal_wait(s->signals, &info, WEFT_FOREVER);
    if (!s->stopped) {
        weft_http_server_stop(s->server, 0);
    }
    weft_join(drainer, NULL, WEFT_FOREVER);
    weft_fiber_clear_interrupt();
}

static void report_aborted(const struct serving *s)
{
    struct weft_http_stats stats;
    weft_http_server_stats(s->server, &stats);
    if (stats.stop_idle || stats.stop_aborted) {
        fprintf(stderr,
                "weft serve: stop: %llu idle connections closed, %llu requests lost that crossed "
                "the close, %llu requests aborted at the end of --drain\n",
                (unsigned long long)stats.stop_idle, (unsigned long long)stats.stop_lost,
                (unsigned long long)stats.stop_aborted);
    }
}

static void end(struct serving *s)
{
    if (s->server) {
        int err = weft_http_server_stop(s->server, 0);
        if (err) {
            report_error("some handlers are still running", NULL, err);
        }
        report_aborted(s);
    }
    if (s->admin_server) {
        weft_http_server_stop(s->admin_server, 0);
        weft_http_server_destroy(s->admin_server);
    }
    if (s->pool) {
        weft_pool_stop(s->pool, WEFT_STOP_CANCEL, weft_after(5 * NS_PER_S));
    }
    weft_http_server_destroy(s->server);
    weft_http_files_close(s->files);
    visit_counter_close(&s->visits);
    weft_pool_destroy(s->pool);
    access_log_close(s->log);
    weft_signal_close(s->signals);
}

static void *control(void *arg)
{
    struct serving *s = arg;
    s->status = start(s) ? 1 : 0;
    if (s->status == 0) {
        wait_for_end(s);
    }
    end(s);
    return NULL;
}

int serve(int argc, char **argv)
{
    struct serving s = {.status = 1};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            options_help(stdout);
            return 0;
        }
    }
    if (!options_read(&s.options, argc, argv)) {
        options_free(&s.options);
        return EXIT_USAGE;
    }
    warn_of_root();
    raise_descriptor_limit();
    const struct weft_pool_opts opts = {
        .name = "control", .workers = 1, .caller = true, .driver = s.options.driver};
    int err = weft_run(NULL, control, &s, &opts, WEFT_FOREVER);
    if (err == -EOPNOTSUPP) {
        const char *why = weft_driver_unavailable(s.options.driver);
        fprintf(stderr, "weft serve: the I/O driver is not available: %s; use --driver epoll\n",
                why ? why : strerror(-err));
    } else if (err) {
        report_error("cannot start", NULL, err);
    }
    options_free(&s.options);
    return err ? 1 : s.status;
}
