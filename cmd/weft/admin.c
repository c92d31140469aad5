#include "admin.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin_host.h"

#define PROBE_NS 1000000000
#define NS_PER_S 1e9

/* --- a probe of the workers ------------------------------------------------------------------- */

/* A fiber on each worker records when it ran: that is how long work waits on that worker now.
 * Shared by the fibers and the request that asks, which may have ended before a worker answers. */
struct probe {
    _Atomic(int) refs;
    int64_t began;
    weft_waitgroup waiting;
    unsigned workers;
    _Atomic(int64_t) delay_ns[]; /* -1: not yet */
};

static void drop(struct probe *probe)
{
    if (atomic_fetch_sub(&probe->refs, 1) == 1) {
        weft_waitgroup_deinit(&probe->waiting);
        free(probe);
    }
}

static void *run_probe(void *arg)
{
    struct probe *probe = arg;
    atomic_store(&probe->delay_ns[weft_worker_self()], weft_now() - probe->began);
    weft_waitgroup_done(&probe->waiting);
    drop(probe);
    return NULL;
}

/* Returns a probe with a reference for the caller; NULL if there is no memory. */
static struct probe *probe_workers(weft_pool *pool)
{
    unsigned workers = weft_pool_workers(pool);
    struct probe *probe = calloc(1, sizeof *probe + workers * sizeof *probe->delay_ns);
    if (!probe) {
        return NULL;
    }
    weft_waitgroup_init(&probe->waiting, NULL);
    atomic_init(&probe->refs, 1);
    probe->workers = workers;
    probe->began = weft_now();
    for (unsigned i = 0; i < workers; i++) {
        struct weft_fiber_opts opts = {
            .name = "probe", .worker = (int)i, .bound = true, .stack_bytes = 16384};
        atomic_init(&probe->delay_ns[i], -1);
        atomic_fetch_add(&probe->refs, 1);
        weft_waitgroup_add(&probe->waiting, 1);
        if (weft_pool_spawn(pool, NULL, run_probe, probe, &opts) != 0) {
            weft_waitgroup_done(&probe->waiting);
            atomic_fetch_sub(&probe->refs, 1); /* the caller's reference is left */
        }
    }
    weft_waitgroup_wait(&probe->waiting, weft_after(PROBE_NS));
    return probe;
}

/* --- /healthz --------------------------------------------------------------------------------- */

static int respond_text(weft_http *req, int status, const char *text)
{
    return weft_http_respond(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

static int show_health(weft_http *req, void *arg)
{
    const struct admin *admin = arg;
    char text[64];
    if (weft_http_server_is_stopping(admin->served)) {
        return respond_text(req, 503, "stopping\n");
    }
    struct probe *probe = probe_workers(admin->pool);
    if (!probe) {
        return -ENOMEM;
    }
    int stuck = -1;
    for (unsigned i = 0; i < probe->workers && stuck < 0; i++) {
        stuck = atomic_load(&probe->delay_ns[i]) < 0 ? (int)i : -1;
    }
    drop(probe);
    snprintf(text, sizeof text, "worker %d did not respond within 1 s\n", stuck);
    return stuck < 0 ? respond_text(req, 200, "ok\n") : respond_text(req, 503, text);
}

/* --- /metrics: Prometheus text format --------------------------------------------------------- */

static void write_header(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_metric(FILE *out, const char *name, const char *type, const char *help,
                         uint64_t value)
{
    write_header(out, name, type, help);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void write_server(FILE *out, const struct weft_http_stats *s)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    write_header(out, "weft_http_requests_total", "counter",
                 "HTTP requests answered, by status class.");
    for (int i = 0; i < 6; i++) {
        if (i != 1) {
            fprintf(out, "weft_http_requests_total{class=\"%s\"} %llu\n", classes[i],
                    (unsigned long long)s->by_class[i]);
        }
    }
    write_metric(out, "weft_http_received_bytes_total", "counter", "Bytes read from clients.",
                 s->bytes_in);
    write_metric(out, "weft_http_sent_bytes_total", "counter", "Bytes written to clients.",
                 s->bytes_out);
    write_metric(out, "weft_http_flushes_total", "counter", "Writes of buffered responses.",
                 s->flushes);
    write_metric(out, "weft_http_connections_accepted_total", "counter", "Connections accepted.",
                 s->accepted);
    write_metric(out, "weft_http_connections_open", "gauge", "Connections open now.", s->open);
    write_metric(out, "weft_http_connections_rejected_total", "counter",
                 "Connections rejected because of a limit.", s->refused);
    write_metric(out, "weft_http_connections_evicted_total", "counter",
                 "Idle connections closed to make room for new ones.", s->idle_shed);
    write_metric(out, "weft_http_accept_errors_total", "counter",
                 "Failed accepts: no descriptor or no memory.", s->accept_errors);
    write_metric(out, "weft_http_accept_wakeups_total", "counter",
                 "Wake-ups of acceptors that waited for a connection.", s->accept_wakes);
    write_metric(out, "weft_http_bad_requests_total", "counter", "Requests rejected by the parser.",
                 s->bad);
    write_header(out, "weft_http_stop_connections_closed_total", "counter",
                 "Connections closed by a stop: idle, or at its deadline.");
    fprintf(out, "weft_http_stop_connections_closed_total{reason=\"idle\"} %llu\n",
            (unsigned long long)s->stop_idle);
    fprintf(out, "weft_http_stop_connections_closed_total{reason=\"deadline\"} %llu\n",
            (unsigned long long)s->stop_aborted);
    write_metric(out, "weft_http_stop_requests_lost_total", "counter",
                 "Requests that arrived after a stop had closed their idle connection.",
                 s->stop_lost);
    write_header(out, "weft_http_timeouts_total", "counter", "Connections closed by a timeout.");
    fprintf(out, "weft_http_timeouts_total{limit=\"idle\"} %llu\n",
            (unsigned long long)s->idle_timeouts);
    fprintf(out, "weft_http_timeouts_total{limit=\"header\"} %llu\n",
            (unsigned long long)s->header_timeouts);
    fprintf(out, "weft_http_timeouts_total{limit=\"body\"} %llu\n",
            (unsigned long long)s->body_timeouts);
    fprintf(out, "weft_http_timeouts_total{limit=\"write\"} %llu\n",
            (unsigned long long)s->write_timeouts);
}

static void write_latency(FILE *out, const struct weft_http_stats *s)
{
    uint64_t below = 0;
    write_header(out, "weft_http_request_duration_seconds", "histogram",
                 "Time from the arrival of a request until its response is written.");
    for (int i = 0; i < WEFT_HTTP_BUCKETS; i++) {
        below += s->took[i];
        if (i + 1 < WEFT_HTTP_BUCKETS) {
            fprintf(out, "weft_http_request_duration_seconds_bucket{le=\"%g\"} %llu\n",
                    (double)weft_http_buckets[i] / NS_PER_S, (unsigned long long)below);
        }
    }
    fprintf(out, "weft_http_request_duration_seconds_bucket{le=\"+Inf\"} %llu\n",
            (unsigned long long)below);
    fprintf(out, "weft_http_request_duration_seconds_sum %.9f\n",
            (double)s->duration_ns / NS_PER_S);
    fprintf(out, "weft_http_request_duration_seconds_count %llu\n", (unsigned long long)below);
}

static void write_pool(FILE *out, weft_pool *pool)
{
    struct weft_pool_stats s;
    weft_pool_stats(pool, &s);
    write_metric(out, "weft_fibers", "gauge", "Fibers alive.", s.live);
    write_metric(out, "weft_workers", "gauge", "Worker threads.", s.workers);
    write_metric(out, "weft_workers_active", "gauge",
                 "Worker threads that run fibers or search for work.", s.active);
    write_metric(out, "weft_fiber_switches_total", "counter", "Switches to a fiber.",
                 s.total.executed);
    write_metric(out, "weft_fibers_spawned_total", "counter", "Fibers spawned.",
                 s.total.spawned + s.submitted);
    write_metric(out, "weft_steals_total", "counter", "Successful steals by idle workers.",
                 s.total.steals);
    write_metric(out, "weft_fibers_stolen_total", "counter", "Fibers moved by steals.",
                 s.total.stolen);
    write_metric(out, "weft_worker_sleeps_total", "counter", "Times a worker thread went to sleep.",
                 s.total.parks);
    write_metric(out, "weft_worker_wakeups_total", "counter",
                 "Times a worker thread was woken by another thread.", s.total.wakes);
    write_metric(out, "weft_hogs_total", "counter",
                 "Times a fiber ran longer than the hog limit without yielding.", s.total.hogs);
    write_metric(out, "weft_io_operations_pending", "gauge",
                 "I/O operations that wait for completion.", s.total.io_waiting);
    write_metric(out, "weft_io_polls_total", "counter", "Polls of the I/O drivers.",
                 s.total.io_polls);
    write_metric(out, "weft_io_events_total", "counter", "Events reported by the I/O drivers.",
                 s.total.io_events);
    write_metric(out, "weft_run_queue_length", "gauge", "Fibers in the run queues.",
                 s.total.ring + s.total.fresh + s.global);
    write_header(out, "weft_io_driver_info", "gauge",
                 "The I/O driver in use and the reason for the choice.");
    fprintf(out, "weft_io_driver_info{driver=\"%s\",reason=\"%s\"} 1\n",
            s.driver ? s.driver : "none", s.driver_why ? s.driver_why : "");
}

static void write_delays(FILE *out, weft_pool *pool)
{
    struct probe *probe = probe_workers(pool);
    if (!probe) {
        return;
    }
    write_header(out, "weft_run_queue_delay_seconds", "gauge",
                 "Time that a probe fiber waited for its turn just now; 1 if it waited longer.");
    for (unsigned i = 0; i < probe->workers; i++) {
        int64_t ns = atomic_load(&probe->delay_ns[i]);
        fprintf(out, "weft_run_queue_delay_seconds{worker=\"%u\"} %.9f\n", i,
                (double)(ns < 0 ? PROBE_NS : ns) / NS_PER_S);
    }
    drop(probe);
}

/* Responds with a page that was written to a stream. Takes the stream and its text. */
static int respond_page(weft_http *req, const char *type, FILE *page, char **text, size_t *len,
                        int err)
{
    if (fclose(page) != 0) {
        err = err ? err : -ENOMEM;
    }
    err = err ? err : weft_http_respond(req, 200, type, *text, *len);
    free(*text);
    return err;
}

static int show_metrics(weft_http *req, void *arg)
{
    const struct admin *admin = arg;
    struct weft_http_stats stats;
    char *text = NULL;
    size_t len = 0;
    FILE *page = open_memstream(&text, &len);
    if (!page) {
        return -ENOMEM;
    }
    weft_http_server_stats(admin->served, &stats);
    write_server(page, &stats);
    write_latency(page, &stats);
    write_pool(page, admin->pool);
    write_delays(page, admin->pool);
    write_metric(page, "weft_access_log_lines_dropped_total", "counter",
                 "Access log lines that could not be written.", access_log_dropped(admin->log));
    return respond_page(req, "text/plain; version=0.0.4; charset=utf-8", page, &text, &len, 0);
}

/* --- /debug/fibers, /debug/actors ------------------------------------------------------------- */

#define MOST_ACTORS 10000

/* A dump takes time proportional to the number of fibers. So a separate thread makes it, one dump
 * at a time, and the admin thread can still answer whether the server is healthy. */
struct dump {
    FILE *page;
    weft_pool *pool; /* dump the fibers of this pool; NULL: dump actors */
    enum weft_dump_format format;
    int err;
};

static void *make_dump(void *arg)
{
    struct dump *dump = arg;
    if (dump->pool) {
        dump->err = weft_dump(dump->page,
                              &(struct weft_dump_opts){.format = dump->format, .pool = dump->pool});
    } else {
        dump->err = weft_actor_dump(dump->page, NULL, dump->format, MOST_ACTORS);
    }
    return NULL;
}

static int refuse_dump(weft_http *req)
{
    static const char text[] = "another dump is in progress; try again\n";
    int err = weft_http_begin_response(req, 429);
    err = err ? err : weft_http_set_header(req, "Content-Type", "text/plain; charset=utf-8");
    err = err ? err : weft_http_set_header(req, "Retry-After", "1");
    err = err ? err : weft_http_set_content_length(req, sizeof text - 1);
    return err ? err : weft_http_write(req, text, sizeof text - 1);
}

static int show_dump(weft_http *req, struct admin *admin, weft_pool *pool)
{
    struct weft_http_text query = weft_http_query(req);
    bool json = query.len == 11 && memcmp(query.data, "format=json", 11) == 0;
    struct dump dump = {.pool = pool, .format = json ? WEFT_DUMP_JSON : WEFT_DUMP_TEXT};
    char *text = NULL;
    size_t len = 0;
    if (admin->dumping) {
        return refuse_dump(req);
    }
    dump.page = open_memstream(&text, &len);
    if (!dump.page) {
        return -ENOMEM;
    }
    admin->dumping = true;
    int err = weft_blocking_call(NULL, make_dump, &dump, NULL, WEFT_FOREVER);
    admin->dumping = false;
    return respond_page(req, json ? "application/json" : "text/plain; charset=utf-8", dump.page,
                        &text, &len, err ? err : dump.err);
}

static int show_fibers(weft_http *req, void *arg)
{
    struct admin *admin = arg;
    return show_dump(req, admin, admin->pool);
}

static int show_actors(weft_http *req, void *arg)
{
    return show_dump(req, arg, NULL);
}

/* --- access by Host name ---------------------------------------------------------------------- */

static const struct {
    const char *path;
    weft_http_fn show;
} pages[] = {
    {"/healthz", show_health},
    {"/metrics", show_metrics},
    {"/debug/fibers", show_fibers},
    {"/debug/actors", show_actors},
};
enum { PAGES = sizeof pages / sizeof *pages };

static int respond_misdirected(weft_http *req)
{
    return respond_text(req, 421,
                        "the admin listener does not accept this Host: use its address, or "
                        "localhost, or allow the name with --admin-host\n");
}

static int check_host_and_respond(weft_http *req, void *arg)
{
    struct admin *admin = arg;
    const char *data, *path = weft_http_path(req);
    const weft_http_head *head = weft_http_request_head(req, &data);
    if (!admin_host_is_allowed(data + head->host.at, head->host.len, &admin->at, admin->hosts,
                               admin->host_count)) {
        return respond_misdirected(req);
    }
    for (int i = 0; i < PAGES; i++) {
        if (strcmp(path, pages[i].path) == 0) {
            return pages[i].show(req, admin);
        }
    }
    return -ENOENT;
}

int admin_routes(weft_http_server *server, struct admin *admin)
{
    int err = 0;
    for (int i = 0; i < PAGES && !err; i++) {
        err = weft_http_server_route(server, "GET", pages[i].path, check_host_and_respond, admin,
                                     NULL);
    }
    return err;
}
