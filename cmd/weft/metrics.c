#include "metrics.h"

#include "worker_probe.h"

#define NS_PER_S 1e9

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
    write_metric(out, "weft_http_connections_at_rest", "gauge",
                 "Open connections that have no fiber until their clients send.", s->at_rest);
    write_metric(out, "weft_http_connection_wakes_total", "counter",
                 "Times that a connection at rest got a fiber again.", s->wakes);
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
    struct worker_probe *probe = worker_probe_run(pool);
    if (!probe) {
        return;
    }
    write_header(out, "weft_run_queue_delay_seconds", "gauge",
                 "Time that a probe fiber waited for its turn just now; 1 if it waited longer.");
    for (unsigned i = 0; i < probe->workers; i++) {
        int64_t ns = atomic_load(&probe->delay_ns[i]);
        fprintf(out, "weft_run_queue_delay_seconds{worker=\"%u\"} %.9f\n", i,
                (double)(ns < 0 ? WORKER_PROBE_NS : ns) / NS_PER_S);
    }
    worker_probe_unref(probe);
}

void metrics_write(FILE *out, weft_http_server *server, weft_pool *pool, struct log *log)
{
    struct weft_http_stats stats;
    weft_http_server_stats(server, &stats);
    write_server(out, &stats);
    write_latency(out, &stats);
    write_pool(out, pool);
    write_delays(out, pool);
    write_metric(out, "weft_access_log_lines_dropped_total", "counter",
                 "Access log lines that could not be written.", access_log_dropped(log));
}
