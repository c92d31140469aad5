#include "admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin_host.h"
#include "metrics.h"
#include "worker_probe.h"

/* --- /healthz, /readyz ------------------------------------------------------------------------ */

static int respond_text(weft_http *req, int status, const char *text)
{
    return weft_http_respond(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* Also during a stop: a server that finishes its requests must not be killed for it. */
static int show_health(weft_http *req, void *arg)
{
    const struct admin *admin = arg;
    char text[64];
    struct worker_probe *probe = worker_probe_run(admin->pool);
    if (!probe) {
        return -ENOMEM;
    }
    int stuck = -1;
    for (unsigned i = 0; i < probe->workers && stuck < 0; i++) {
        stuck = atomic_load(&probe->delay_ns[i]) < 0 ? (int)i : -1;
    }
    worker_probe_unref(probe);
    snprintf(text, sizeof text, "worker %d did not respond within 1 s\n", stuck);
    return stuck < 0 ? respond_text(req, 200, "ok\n") : respond_text(req, 503, text);
}

static int show_readiness(weft_http *req, void *arg)
{
    const struct admin *admin = arg;
    return weft_http_server_is_stopping(admin->served) ? respond_text(req, 503, "stopping\n")
                                                       : show_health(req, arg);
}

/* --- /metrics --------------------------------------------------------------------------------- */

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
    char *text = NULL;
    size_t len = 0;
    FILE *page = open_memstream(&text, &len);
    if (!page) {
        return -ENOMEM;
    }
    metrics_write(page, admin->served, admin->pool, admin->log);
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
        dump->err = weft_actor_dump(NULL, dump->page, dump->format, MOST_ACTORS);
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
    return err ? err : weft_http_write(req, text, sizeof text - 1, WEFT_FOREVER);
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
    int err = weft_blocking_call(NULL, NULL, make_dump, &dump, WEFT_FOREVER);
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
    {"/healthz", show_health},      {"/readyz", show_readiness},    {"/metrics", show_metrics},
    {"/debug/fibers", show_fibers}, {"/debug/actors", show_actors},
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
