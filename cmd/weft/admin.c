#include "admin.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

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

static void *answer_probe(void *arg)
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
        if (weft_pool_spawn(pool, NULL, answer_probe, probe, &opts) != 0) {
            weft_waitgroup_done(&probe->waiting);
            atomic_fetch_sub(&probe->refs, 1); /* the caller's reference is left */
        }
    }
    weft_waitgroup_wait(&probe->waiting, weft_after(PROBE_NS));
    return probe;
}

/* --- /healthz --------------------------------------------------------------------------------- */

static int answer_text(weft_http *x, int status, const char *text)
{
    return weft_http_answer(x, status, "text/plain; charset=utf-8", text, strlen(text));
}

static int show_health(weft_http *x, void *arg)
{
    const struct admin *admin = arg;
    char text[64];
    if (weft_http_server_stopping(admin->served)) {
        return answer_text(x, 503, "stopping\n");
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
    snprintf(text, sizeof text, "worker %d does not answer\n", stuck);
    return stuck < 0 ? answer_text(x, 200, "ok\n") : answer_text(x, 503, text);
}

/* --- /metrics: Prometheus text format --------------------------------------------------------- */

static void describe(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
    describe(out, name, type, help);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void write_server(FILE *out, const struct weft_http_stats *s)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    describe(out, "weft_http_requests_total", "counter", "Requests answered, by class of status.");
    for (int i = 0; i < 6; i++) {
        if (i != 1) {
            fprintf(out, "weft_http_requests_total{class=\"%s\"} %llu\n", classes[i],
                    (unsigned long long)s->by_class[i]);
        }
    }
    one(out, "weft_http_received_bytes_total", "counter", "Bytes read from clients.", s->bytes_in);
    one(out, "weft_http_sent_bytes_total", "counter", "Bytes written to clients.", s->bytes_out);
    one(out, "weft_http_writes_total", "counter", "Times gathered answers were written.",
        s->flushes);
    one(out, "weft_http_connections_total", "counter", "Connections accepted.", s->accepted);
    one(out, "weft_http_connections_open", "gauge", "Connections open.", s->open);
    one(out, "weft_http_connections_refused_total", "counter", "Beyond a limit on connections.",
        s->refused);
    one(out, "weft_http_connections_shed_total", "counter",
        "Silent connections closed to make room for others.", s->idle_shed);
    one(out, "weft_http_accept_errors_total", "counter", "No descriptors or memory to accept with.",
        s->accept_errors);
    one(out, "weft_http_accept_wakes_total", "counter", "Times an acceptor was woken.",
        s->accept_wakes);
    one(out, "weft_http_bad_requests_total", "counter", "Requests refused by the parser.", s->bad);
    describe(out, "weft_http_stop_ended_total", "counter", "Connections that a stop has ended.");
    fprintf(out, "weft_http_stop_ended_total{what=\"idle\"} %llu\n",
            (unsigned long long)s->stop_idle);
    fprintf(out, "weft_http_stop_ended_total{what=\"cut\"} %llu\n",
            (unsigned long long)s->stop_cut);
    one(out, "weft_http_stop_lost_total", "counter",
        "Requests that came after a stop had closed their connection.", s->stop_crossed);
    describe(out, "weft_http_timeouts_total", "counter", "Connections ended by a time limit.");
    fprintf(out, "weft_http_timeouts_total{limit=\"idle\"} %llu\n",
            (unsigned long long)s->idle_ended);
    fprintf(out, "weft_http_timeouts_total{limit=\"header\"} %llu\n",
            (unsigned long long)s->header_ended);
    fprintf(out, "weft_http_timeouts_total{limit=\"body\"} %llu\n",
            (unsigned long long)s->body_ended);
    fprintf(out, "weft_http_timeouts_total{limit=\"write\"} %llu\n",
            (unsigned long long)s->write_ended);
}

static void write_latency(FILE *out, const struct weft_http_stats *s)
{
    uint64_t below = 0;
    describe(out, "weft_http_request_seconds", "histogram",
             "From a request being there to its answer being written.");
    for (int i = 0; i < WEFT_HTTP_BUCKETS; i++) {
        below += s->took[i];
        if (i + 1 < WEFT_HTTP_BUCKETS) {
            fprintf(out, "weft_http_request_seconds_bucket{le=\"%g\"} %llu\n",
                    (double)weft_http_buckets[i] / NS_PER_S, (unsigned long long)below);
        }
    }
    fprintf(out, "weft_http_request_seconds_bucket{le=\"+Inf\"} %llu\n", (unsigned long long)below);
    fprintf(out, "weft_http_request_seconds_sum %.9f\n", (double)s->took_ns / NS_PER_S);
    fprintf(out, "weft_http_request_seconds_count %llu\n", (unsigned long long)below);
}

static void write_pool(FILE *out, weft_pool *pool)
{
    struct weft_pool_stats s;
    weft_pool_stats(pool, &s);
    one(out, "weft_fibers", "gauge", "Fibers that have not ended.", s.live);
    one(out, "weft_workers", "gauge", "Threads that run fibers.", s.workers);
    one(out, "weft_workers_active", "gauge", "Of them running or searching.", s.active);
    one(out, "weft_turns_total", "counter", "Times a fiber was switched to.", s.total.executed);
    one(out, "weft_fibers_started_total", "counter", "Fibers made.", s.total.spawned + s.submitted);
    one(out, "weft_steals_total", "counter", "Successful steals.", s.total.steals);
    one(out, "weft_stolen_fibers_total", "counter", "Fibers they brought.", s.total.stolen);
    one(out, "weft_parks_total", "counter", "Times a thread blocked.", s.total.parks);
    one(out, "weft_wakes_total", "counter", "Times one was unblocked by another.", s.total.wakes);
    one(out, "weft_hogs_total", "counter", "Fibers that kept a worker too long.", s.total.hogs);
    one(out, "weft_io_waiting", "gauge", "Waits on descriptors.", s.total.io_waiting);
    one(out, "weft_io_looks_total", "counter", "Times a driver was asked.", s.total.io_looks);
    one(out, "weft_io_events_total", "counter", "What they reported.", s.total.io_events);
    one(out, "weft_queue_length", "gauge", "Fibers ready to run.",
        s.total.ring + s.total.fresh + s.global);
    describe(out, "weft_driver_info", "gauge", "The I/O driver, and why it is that.");
    fprintf(out, "weft_driver_info{driver=\"%s\",why=\"%s\"} 1\n", s.driver ? s.driver : "none",
            s.driver_why ? s.driver_why : "");
}

static void write_delays(FILE *out, weft_pool *pool)
{
    struct probe *probe = probe_workers(pool);
    if (!probe) {
        return;
    }
    describe(out, "weft_queue_delay_seconds", "gauge",
             "How long a fiber waited for its turn, tried just now; 1 if that was not enough.");
    for (unsigned i = 0; i < probe->workers; i++) {
        int64_t ns = atomic_load(&probe->delay_ns[i]);
        fprintf(out, "weft_queue_delay_seconds{worker=\"%u\"} %.9f\n", i,
                (double)(ns < 0 ? PROBE_NS : ns) / NS_PER_S);
    }
    drop(probe);
}

/* Responds with a page that was written to a stream. Takes the stream and its text. */
static int answer_page(weft_http *x, const char *type, FILE *page, char **text, size_t *len,
                       int err)
{
    if (fclose(page) != 0) {
        err = err ? err : -ENOMEM;
    }
    err = err ? err : weft_http_answer(x, 200, type, *text, *len);
    free(*text);
    return err;
}

static int show_metrics(weft_http *x, void *arg)
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
    one(page, "weft_log_dropped_total", "counter", "Lines that did not get into the access log.",
        log_dropped(admin->log));
    return answer_page(x, "text/plain; version=0.0.4; charset=utf-8", page, &text, &len, 0);
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

static int refuse_dump(weft_http *x)
{
    static const char text[] = "another dump is being made; try again\n";
    int err = weft_http_begin(x, 429);
    err = err ? err : weft_http_set(x, "Content-Type", "text/plain; charset=utf-8");
    err = err ? err : weft_http_set(x, "Retry-After", "1");
    err = err ? err : weft_http_set_length(x, sizeof text - 1);
    return err ? err : weft_http_write(x, text, sizeof text - 1);
}

static int show_dump(weft_http *x, struct admin *admin, weft_pool *pool)
{
    struct weft_http_text query = weft_http_query(x);
    bool json = query.len == 11 && memcmp(query.data, "format=json", 11) == 0;
    struct dump dump = {.pool = pool, .format = json ? WEFT_DUMP_JSON : WEFT_DUMP_TEXT};
    char *text = NULL;
    size_t len = 0;
    if (admin->dumping) {
        return refuse_dump(x);
    }
    dump.page = open_memstream(&text, &len);
    if (!dump.page) {
        return -ENOMEM;
    }
    admin->dumping = true;
    int err = weft_blocking_call(NULL, make_dump, &dump, NULL, WEFT_FOREVER);
    admin->dumping = false;
    return answer_page(x, json ? "application/json" : "text/plain; charset=utf-8", dump.page, &text,
                       &len, err ? err : dump.err);
}

static int show_fibers(weft_http *x, void *arg)
{
    struct admin *admin = arg;
    return show_dump(x, admin, admin->pool);
}

static int show_actors(weft_http *x, void *arg)
{
    return show_dump(x, arg, NULL);
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

static int answer_stranger(weft_http *x)
{
    return answer_text(x, 421,
                       "this is not a host that the admin listener answers to: use its address, or "
                       "localhost, or name the host by --admin-host\n");
}

static int answer_known(weft_http *x, void *arg)
{
    struct admin *admin = arg;
    const char *data, *path = weft_http_path(x);
    const weft_http_head *head = weft_http_parsed(x, &data);
    if (!host_is_known(data + head->host.at, head->host.len, &admin->at, admin->hosts,
                       admin->host_count)) {
        return answer_stranger(x);
    }
    for (int i = 0; i < PAGES; i++) {
        if (strcmp(path, pages[i].path) == 0) {
            return pages[i].show(x, admin);
        }
    }
    return -ENOENT;
}

int admin_routes(weft_http_server *server, struct admin *admin)
{
    int err = 0;
    for (int i = 0; i < PAGES && !err; i++) {
        err = weft_http_server_route(server, "GET", pages[i].path, answer_known, admin, NULL);
    }
    return err;
}
