/* sylar: the demo project "paramquery", a service that looks up parameters in Redis.
 *
 *   GET /param/NAME   the value, or 404        PUT /param/NAME   sets it to the body
 *
 * Each request is one blocking-looking function: take a connection from the pool, write a command,
 * read the reply, return the connection.
 *
 *   query 127.0.0.1:8080 127.0.0.1:6379   serves until it is interrupted
 *   query                                 starts its own Redis, sends itself requests, and ends
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

enum { VALUE_MAX = 64 * 1024, SKIPPED = 77 };
#define SECOND INT64_C(1000000000)

static weft_connpool *redis;

/* --- Redis --------------------------------------------------------------------------------- */

static int append_bulk(weft_writer *writer, const void *bytes, size_t n, int64_t deadline)
{
    int err = weft_writer_printf(writer, deadline, "$%zu\r\n", n);
    err = err ? err : weft_writer_append(writer, bytes, n, deadline);
    return err ? err : weft_writer_append(writer, "\r\n", 2, deadline);
}

/* Sends GET, or SET with a value. Returns the length of the reply's text, which is in `reply`
 * (VALUE_MAX bytes); -ENOENT: no such parameter; -EPROTO: Redis rejected the command. */
static ssize_t exchange(int fd, const char *name, const void *value, size_t n, char *reply,
                        int64_t deadline)
{
    struct weft_resp_item item;
    const unsigned char *bytes;
    weft_writer writer;
    weft_reader reader;
    weft_resp resp;
    ssize_t used = 0, have = 0;

    weft_writer_init(&writer, fd, NULL);
    int err = weft_writer_printf(&writer, deadline, "*%d\r\n", value ? 3 : 2);
    err = err ? err : append_bulk(&writer, value ? "SET" : "GET", 3, deadline);
    err = err ? err : append_bulk(&writer, name, strlen(name), deadline);
    if (value) {
        err = err ? err : append_bulk(&writer, value, n, deadline);
    }
    err = err ? err : weft_writer_flush(&writer, deadline);
    weft_writer_deinit(&writer);
    if (err) {
        return err;
    }
    weft_reader_init(&reader, fd, &(struct weft_reader_opts){.limit = VALUE_MAX + 64});
    weft_resp_init(&resp, &(struct weft_resp_opts){.bulk_max = VALUE_MAX, .line_max = 1024});
    do {
        size_t need = resp.need > (size_t)have ? resp.need : (size_t)have + 1;
        have = weft_reader_peek(&reader, &bytes, need, deadline);
        used = have < 0              ? have
               : (size_t)have < need ? -ECONNRESET
                                     : weft_resp_next(&resp, &item, bytes, (size_t)have);
    } while (used == 0);
    if (used > 0) {
        if (!item.null) {
            memcpy(reply, item.bytes, item.len);
        }
        used = item.null                             ? -ENOENT
               : item.type == WEFT_RESP_SIMPLE_ERROR ? -EPROTO
                                                     : (ssize_t)item.len;
    }
    weft_reader_deinit(&reader);
    return used;
}

static ssize_t ask_redis(const char *name, const void *value, size_t n, char *reply)
{
    int64_t deadline = weft_after(2 * SECOND);
    int fd = weft_connpool_acquire(redis, deadline);
    if (fd < 0) {
        return fd;
    }
    ssize_t len = exchange(fd, name, value, n, reply, deadline);
    weft_connpool_release(redis, fd, len >= 0 || len == -ENOENT || len == -EPROTO);
    return len;
}

/* --- HTTP ---------------------------------------------------------------------------------- */

static int respond(weft_http *req, ssize_t len, const char *text)
{
    if (len == -ENOENT) {
        return weft_http_respond(req, 404, "text/plain", "no such parameter\n", 18);
    }
    if (len < 0) {
        return weft_http_respond(req, 502, "text/plain", "Redis does not answer\n", 22);
    }
    return weft_http_respond(req, 200, "text/plain", text, (size_t)len);
}

static int get_param(weft_http *req, void *arg)
{
    (void)arg;
    char *reply = malloc(VALUE_MAX);
    if (!reply) {
        return -ENOMEM;
    }
    ssize_t len = ask_redis(weft_http_path(req) + strlen("/param/"), NULL, 0, reply);
    int err = respond(req, len, reply);
    free(reply);
    return err;
}

static int put_param(weft_http *req, void *arg)
{
    (void)arg;
    char *value = malloc(VALUE_MAX);
    size_t n = 0;
    ssize_t got = 1;
    if (!value) {
        return -ENOMEM;
    }
    /* Longer bodies do not reach this handler: the route's limit is VALUE_MAX. */
    while (n < VALUE_MAX &&
           (got = weft_http_read(req, value + n, VALUE_MAX - n, WEFT_FOREVER)) > 0) {
        n += (size_t)got;
    }
    int err = got < 0 ? (int)got : 0;
    if (!err) {
        char *reply = malloc(VALUE_MAX);
        ssize_t len =
            reply ? ask_redis(weft_http_path(req) + strlen("/param/"), value, n, reply) : -ENOMEM;
        err = respond(req, len, reply);
        free(reply);
    }
    free(value);
    return err;
}

/* --- the program --------------------------------------------------------------------------- */

static char redis_address[128];
static const char *http_address; /* NULL: self-test */

/* Sends the request and prints the response. Returns -EPROTO if it is not the expected response. */
static int print_response(const char *address, const char *request, const char *status,
                          const char *body)
{
    char response[512];
    size_t n = 0;
    int fd = weft_dial(address, NULL, weft_after(2 * SECOND));
    int err = fd < 0 ? fd : weft_write_all(fd, request, strlen(request), NULL, WEFT_FOREVER);
    if (!err) {
        weft_read_full(fd, response, sizeof response - 1, &n, WEFT_FOREVER); /* to the end */
        response[n] = '\0';
        const char *got = strstr(response, "\r\n\r\n");
        printf("%.12s %s\n", response, got ? got + 4 : "");
        err = got && strstr(response, status) && strstr(got, body) ? 0 : -EPROTO;
    }
    if (fd >= 0) {
        weft_close(fd);
    }
    return err;
}

static int ask_itself(const char *address)
{
    int err = print_response(address,
                             "PUT /param/colour HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                             "Content-Length: 4\r\n\r\nblue",
                             "200", "OK");
    err = err ? err
              : print_response(address,
                               "GET /param/colour HTTP/1.1\r\nHost: x\r\n"
                               "Connection: close\r\n\r\n",
                               "200", "blue");
    return err ? err
               : print_response(address,
                                "GET /param/shape HTTP/1.1\r\nHost: x\r\n"
                                "Connection: close\r\n\r\n",
                                "404", "no such parameter");
}

static int serve_on(weft_http_server *server)
{
    struct weft_addr bound;
    char text[WEFT_ADDR_STRLEN];
    weft_signal_set *signals;
    int err = weft_http_server_listen(server, &bound, http_address ? http_address : "127.0.0.1:0");
    if (err) {
        return err;
    }
    weft_addr_format(&bound, text, sizeof text);
    if (!http_address) {
        err = ask_itself(text);
    } else if ((err = weft_signal_open(&signals, (int[]){SIGINT, SIGTERM}, 2, NULL)) == 0) {
        printf("http://%s/param/NAME\n", text);
        fflush(stdout);
        weft_signal_wait(signals, NULL, WEFT_FOREVER);
        weft_signal_close(signals);
    }
    weft_http_server_stop(server, weft_after(5 * SECOND));
    return err;
}

static void *serve(void *arg)
{
    weft_http_server *server;
    const struct weft_http_route_opts small = {.body_bytes = VALUE_MAX};
    int err = weft_connpool_create(&redis, redis_address, &(struct weft_connpool_opts){.min = 4});
    if (err) {
        fprintf(stderr, "query: cannot use %s: %s\n", redis_address, strerror(-err));
        return arg;
    }
    /* Connections are open before the first request; a newly started Redis may take a moment to
     * listen. */
    for (int tries = 0; (err = weft_connpool_fill(redis, weft_after(SECOND))) && tries < 500;
         tries++) {
        weft_sleep(weft_after(SECOND / 50));
    }
    if (!err && (err = weft_http_server_create(&server, NULL)) == 0) {
        weft_http_server_route(server, "GET", "/param/", get_param, NULL, NULL);
        weft_http_server_route(server, "PUT", "/param/", put_param, NULL, &small);
        err = serve_on(server);
        weft_http_server_destroy(server);
    }
    weft_connpool_destroy(redis);
    if (err) {
        fprintf(stderr, "query: %s\n", strerror(-err));
        return arg;
    }
    return NULL;
}

/* Starts Redis in a temporary folder, on a Unix socket. */
static int with_own_redis(void)
{
    char folder[] = "/tmp/weft-query-XXXXXX", path[64];
    const char *const argv[] = {"redis-server", "--port", "0", "--unixsocket",
                                path,           "--save", "",  NULL};
    void *failed = NULL;
    weft_process *child;
    if (!mkdtemp(folder)) {
        perror("query: mkdtemp");
        return 1;
    }
    snprintf(path, sizeof path, "%s/redis", folder);
    snprintf(redis_address, sizeof redis_address, "unix:%s", path);
    int err = weft_process_spawn(
        &child, argv,
        &(struct weft_process_opts){.cwd = folder, .out = WEFT_STDIO_NULL, .err = WEFT_STDIO_OUT});
    if (!err) {
        err = weft_run(&failed, serve, &redis, NULL, WEFT_FOREVER);
        weft_process_kill(child, SIGTERM);
        weft_process_wait(child, NULL, WEFT_FOREVER);
        weft_process_close(child);
    }
    unlink(path);
    rmdir(folder);
    if (err == -ENOENT) {
        fprintf(stderr, "query: no redis-server here (Debian: redis-server); give me an address\n");
        return SKIPPED;
    }
    return err || failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return with_own_redis();
    }
    void *failed = NULL;
    http_address = argv[1];
    snprintf(redis_address, sizeof redis_address, "%s", argv[2]);
    int err = weft_run(&failed, serve, &redis, NULL, WEFT_FOREVER);
    return err || failed ? 1 : 0;
}
