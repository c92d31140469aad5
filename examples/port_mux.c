/* One port for two protocols: a proxy peeks at the first byte of a connection without consuming it,
 * connects to the matching backend, and relays the bytes in both directions. The kernel moves them
 * from socket to socket through a pipe, so they are never copied to the program's memory. A client
 * that speaks neither protocol gets a reset. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { CLIENTS = 3, CHUNK = 64 * 1024 };

struct backend {
    const char *name;
    int listener;
    struct weft_addr addr;
};
static struct backend text = {.name = "text", .listener = -1},
                      binary = {.name = "binary", .listener = -1};
static int proxy = -1;
static struct weft_addr proxy_addr;

/* --- the proxy -------------------------------------------------------------------------- */

/* Passes everything from one socket to another, then tells the other that nothing follows. */
static int relay(int from, int to)
{
    int in = -1, out = -1, err = weft_pipe(&in, &out);
    ssize_t n = 0;
    while (!err && (n = weft_splice(from, NULL, out, NULL, CHUNK, false, WEFT_FOREVER)) > 0) {
        while (!err && n > 0) {
            ssize_t passed = weft_splice(in, NULL, to, NULL, (size_t)n, false, WEFT_FOREVER);
            err = passed < 0 ? (int)passed : 0;
            n -= err ? 0 : passed;
        }
    }
    weft_close(in);
    weft_close(out);
    weft_shutdown(to, SHUT_WR);
    return err ? err : (int)n;
}

struct pair {
    int client, server;
};

static int relay_reply(void *arg)
{
    const struct pair *pair = arg;
    return relay(pair->server, pair->client);
}

static int relay_both_ways(int client, int server)
{
    weft_scope scope;
    struct pair pair = {client, server};
    weft_scope_open(&scope, NULL);
    int err = weft_scope_spawn(&scope, NULL, relay_reply, &pair, NULL);
    err = err ? err : relay(client, server);
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    return err ? err : failed;
}

static const struct backend *choose(unsigned char first)
{
    return isalpha(first) ? &text : first == 0x16 ? &binary : NULL;
}

static int handle(void *arg)
{
    int server, err = -EIO, client = (int)(intptr_t)arg;
    unsigned char first;
    char name[WEFT_ADDR_STRLEN] = "?";
    struct weft_addr peer;
    if (weft_addr_peer(client, &peer) == 0) {
        weft_addr_format(&peer, name, sizeof name);
    }
    ssize_t n = weft_recv(client, &first, 1, MSG_PEEK, weft_after(WEFT_MINUTES(5)));
    const struct backend *backend = n == 1 ? choose(first) : NULL;
    printf("%s: %s\n", name, backend ? backend->name : "unknown protocol");
    if (!backend) {
        err = weft_set_linger(client, 0); /* close resets the connection */
    } else if ((server = weft_connect(&backend->addr, weft_after(WEFT_MINUTES(5)))) >= 0) {
        err = relay_both_ways(client, server);
        weft_close(server);
    }
    weft_close(client);
    return err;
}

static int serve_proxy(void *arg)
{
    int err = 0;
    weft_scope scope;
    (void)arg;
    weft_scope_open(&scope, NULL);
    for (int i = 0; !err && i < CLIENTS; i++) {
        int fd = weft_accept(proxy, NULL, WEFT_FOREVER);
        err = fd < 0 ? fd : weft_scope_spawn(&scope, NULL, handle, (void *)(intptr_t)fd, NULL);
        if (err) {
            weft_close(fd);
        }
    }
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    return err ? err : failed;
}

/* --- a backend: reads a request to its end, and replies with a line -------------------------- */

static int serve_backend(void *arg)
{
    const struct backend *self = arg;
    char buf[256];
    size_t bytes = 0;
    ssize_t n;
    int fd = weft_accept(self->listener, NULL, WEFT_FOREVER);
    if (fd < 0) {
        return fd;
    }
    while ((n = weft_read(fd, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        bytes += (size_t)n;
    }
    int len = snprintf(buf, sizeof buf, "%s backend got %zu bytes", self->name, bytes);
    int err = n < 0 ? (int)n : weft_write_all(fd, buf, (size_t)len, NULL, WEFT_FOREVER);
    weft_close(fd);
    return err;
}

/* --- clients ---------------------------------------------------------------------------- */

/* Sends a request and reads the whole reply. Returns its length or an error. */
static ssize_t ask(const char *request, size_t n, char *reply, size_t size)
{
    size_t got = 0;
    int fd = weft_connect(&proxy_addr, WEFT_FOREVER);
    int err = fd < 0 ? fd : weft_write_all(fd, request, n, NULL, WEFT_FOREVER);
    if (!err) {
        weft_shutdown(fd, SHUT_WR); /* fails if the proxy was faster to reset the connection */
        err = weft_read_full(fd, reply, size, &got, WEFT_FOREVER);
    }
    weft_close(fd);
    return err && err != -ENODATA ? err : (ssize_t)got;
}

static bool expect(const char *request, size_t n, const char *expected)
{
    char reply[100];
    ssize_t got = ask(request, n, reply, sizeof reply);
    printf("%.*s\n", got > 0 ? (int)got : 0, reply);
    return got == (ssize_t)strlen(expected) && memcmp(reply, expected, (size_t)got) == 0;
}

static int serve_clients(void)
{
    char reply[100];
    weft_scope scope;
    weft_scope_open(&scope, NULL);
    int err = weft_scope_spawn(&scope, NULL, serve_proxy, NULL, NULL);
    err = err ? err : weft_scope_spawn(&scope, NULL, serve_backend, &text, NULL);
    err = err ? err : weft_scope_spawn(&scope, NULL, serve_backend, &binary, NULL);
    bool well = !err && expect("GET /", 5, "text backend got 5 bytes") &&
                expect("\x16\x03\x01", 3, "binary backend got 3 bytes") &&
                ask("?", 1, reply, sizeof reply) == -ECONNRESET;
    if (!well) {
        weft_scope_cancel(&scope);
    }
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    return err ? err : failed ? failed : well ? 0 : -EBADMSG;
}

static int listen_on_loopback(int *listener, struct weft_addr *addr)
{
    *listener = weft_listen("127.0.0.1:0", NULL);
    return *listener < 0 ? *listener : weft_addr_local(*listener, addr);
}

static void *run(void *arg)
{
    (void)arg;
    int err = listen_on_loopback(&proxy, &proxy_addr);
    err = err ? err : listen_on_loopback(&text.listener, &text.addr);
    err = err ? err : listen_on_loopback(&binary.listener, &binary.addr);
    err = err ? err : serve_clients();
    weft_close(proxy);
    weft_close(text.listener);
    weft_close(binary.listener);
    return (void *)(intptr_t)err;
}

int main(void)
{
    void *failure = NULL;
    int err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "port_mux: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
