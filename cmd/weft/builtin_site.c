#include "builtin_site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char page[] =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>Weft</title>\n"
    "<link rel=\"stylesheet\" href=\"/style.css\">\n"
    "<h1>Weft serves this</h1>\n"
    "<p>Each connection is a fiber: code that reads and writes as if it blocked, on a few threads.</p>\n"
    "<ul>\n"
    "<li><a href=\"/hello\">/hello</a>: a short answer, for load generators</li>\n"
    "<li><a href=\"/count\">/count</a>: ten lines in one second, sent as they are made (chunked)</li>\n"
    "<li><code>curl --data-binary @FILE ADDRESS/echo</code>: your bytes, streamed back as they come</li>\n"
    "<li><a href=\"/visits\">/visits</a>: counted by an actor; <code>curl -d '' ADDRESS/visits/crash</code> ends it, and its supervisor starts it again</li>\n"
    "<li><a href=\"/you\">/you</a>: what the server knows of your request</li>\n"
    "</ul>\n"
    "<p>To serve files: <code>weft serve DIR</code>. All options: <code>weft serve --help</code>.</p>\n"
    "</html>\n";

static const char style[] =
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 44em; margin: 3em auto; padding: 0 1em;\n"
    "       color: #222; background: #fdfdfb }\n"
    "h1 { font-weight: 600 }\n"
    "code { background: #eee; padding: 0 .2em }\n"
    "@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1a } code { background: #333 } a { color: #8bf } }\n";

static int show_page(weft_http *req, void *arg)
{
    (void)arg;
    return strcmp(weft_http_path(req), "/") == 0
               ? weft_http_respond(req, 200, "text/html; charset=utf-8", page, sizeof page - 1)
               : weft_http_respond(req, 404, "text/plain", "404 Not Found\n", 14);
}

static int show_style(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/css; charset=utf-8", style, sizeof style - 1);
}

static int say_hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", "Hello, world!\n", 14);
}

static int count(weft_http *req, void *arg)
{
    char line[32];
    (void)arg;
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_header(req, "Content-Type", "text/plain");
    for (int i = 1; i <= 10 && !err; i++) {
        int n = snprintf(line, sizeof line, "%d of 10\n", i);
        err = weft_http_write(req, line, (size_t)n, WEFT_FOREVER);
        err = err ? err : weft_http_flush(req, WEFT_FOREVER);
        err = err ? err : weft_sleep(weft_after(100000000));
    }
    return err;
}

static int echo(weft_http *req, void *arg)
{
    char buf[4096];
    ssize_t n = 0;
    (void)arg;
    int err = 0;
    bool begun = false;
    while (!err && (n = weft_http_read(req, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        if (!begun) {
            begun = true;
            err = weft_http_begin_response(req, 200);
            err = err ? err : weft_http_set_header(req, "Content-Type", "application/octet-stream");
        }
        err = err ? err : weft_http_write(req, buf, (size_t)n, WEFT_FOREVER);
    }
    if (!err && n == 0 && !begun) {
        err = weft_http_respond(req, 200, "application/octet-stream", "", 0);
    }
    return err ? err : (int)n;
}

static int show_you(weft_http *req, void *arg)
{
    char peer[WEFT_ADDR_STRLEN], text[2048];
    const char *data;
    const weft_http_head *head = weft_http_request_head(req, &data);
    (void)arg;
    weft_addr_format(weft_http_peer(req), peer, sizeof peer);
    size_t used = 0;
    int n = snprintf(text, sizeof text, "you are %s\nworker %d\n", peer, weft_worker_self());
    for (uint32_t i = 0; i < head->field_count && n >= 0 && used + (size_t)n < sizeof text; i++) {
        const struct weft_http_field *field = &head->fields[i];
        used += (size_t)n;
        n = snprintf(text + used, sizeof text - used, "%.*s: %.*s\n", (int)field->name.len,
                     data + field->name.at, (int)field->value.len, data + field->value.at);
    }
    used = used + (size_t)n < sizeof text ? used + (size_t)n : sizeof text - 1;
    return weft_http_respond(req, 200, "text/plain; charset=utf-8", text, used);
}

int builtin_site_routes(weft_http_server *server)
{
    static const struct {
        const char *method, *path;
        weft_http_fn fn;
    } routes[] = {
        {"GET", "/", show_page},   {"GET", "/style.css", show_style}, {"GET", "/hello", say_hello},
        {"GET", "/count", count},  {"POST", "/echo", echo},           {"PUT", "/echo", echo},
        {"GET", "/you", show_you},
    };
    int err = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes && !err; i++) {
        err = weft_http_server_route(server, routes[i].method, routes[i].path, routes[i].fn, NULL,
                                     NULL);
    }
    return err;
}
