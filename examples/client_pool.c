/* Many fibers share a few connections to a server. The pool opens connections with a function of
 * the program, which sets the options of a long-lived connection: small requests are sent at once,
 * and a server that died without closing the connection is detected within seconds. The pool's
 * counters show how well the connections are used. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CALLERS = 6, CALLS = 5, CONNECTIONS = 2 };

static weft_connpool *pool;

/* --- opening a connection --------------------------------------------------------------- */

static int tune(int fd)
{
    /* Send small requests at once instead of waiting for more bytes. */
    int err = weft_set_nodelay(fd, true);
    /* Detect a dead server: on an idle connection after 10 + 3 * 5 s, with a request in flight
     * after 20 s. The system's own times are hours and minutes. */
    const struct weft_keepalive often = {.idle = 10, .interval = 5, .count = 3};
    err = err ? err : weft_set_keepalive(fd, &often);
    err = err ? err : weft_set_user_timeout(fd, 20 * 1000);
    /* Replies are small: many idle connections should not hold much kernel memory. */
    err = err ? err : weft_set_buffers(fd, 16 * 1024, 16 * 1024);
    if (!err) {
        /* Only an optimisation: not every system has it, and more than the default is a
         * privilege. */
        int refused = weft_set_busy_poll(fd, 50);
        err = refused == -EPERM || refused == -EOPNOTSUPP ? 0 : refused;
    }
    return err;
}

static int open_connection(void *arg, const char *address, int64_t deadline)
{
    struct weft_addr addr;
    (void)arg;
    int err = weft_addr_parse(&addr, address);
    int fd = err ? err : weft_connect(&addr, deadline);
    err = fd < 0 ? fd : tune(fd);
    if (err && fd >= 0) {
        weft_close(fd);
    }
    return err ? err : fd;
}

/* --- calls ------------------------------------------------------------------------------ */

static int square(int number, int *out, int64_t deadline)
{
    int fd = weft_connpool_acquire(pool, deadline);
    if (fd < 0) {
        return fd;
    }
    int err = weft_write_all(fd, &number, sizeof number, NULL, deadline);
    err = err ? err : weft_read_full(fd, out, sizeof *out, NULL, deadline);
    weft_connpool_release(pool, fd, err == 0);
    return err;
}

static int call_often(void *arg)
{
    int first = *(int *)arg, result, err = 0;
    for (int i = first; !err && i < first + CALLS; i++) {
        err = square(i, &result, weft_after(WEFT_MINUTES(5)));
        err = err || result == i * i ? err : -EBADMSG;
    }
    return err;
}

static int call_from_many_fibers(const char *address)
{
    const struct weft_connpool_opts opts = {
        .min = 1, .max = CONNECTIONS, .connect = open_connection};
    int first[CALLERS], err = weft_connpool_create(&pool, address, &opts);
    struct weft_connpool_stats stats;
    weft_scope scope;
    if (err) {
        return err;
    }
    err = weft_connpool_fill(pool, weft_after(WEFT_MINUTES(5)));
    weft_scope_open(&scope, &(struct weft_scope_opts){.fail_fast = true});
    for (int i = 0; !err && i < CALLERS; i++) {
        first[i] = i * CALLS;
        err = weft_scope_spawn(&scope, NULL, call_often, &first[i], NULL);
    }
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    weft_connpool_stats(pool, &stats);
    printf("%d calls: %llu on an open connection, %llu on a new one; %llu waited; %u connections\n",
           CALLERS * CALLS, (unsigned long long)stats.hits, (unsigned long long)stats.misses,
           (unsigned long long)stats.waits, stats.idle);
    bool plausible = stats.hits + stats.misses == CALLERS * CALLS && stats.filled == 1 &&
                     stats.misses < CONNECTIONS && stats.used == 0 && stats.idle <= CONNECTIONS;
    weft_connpool_destroy(pool);
    return err ? err : failed ? failed : plausible ? 0 : -EBADMSG;
}

/* --- a server that squares numbers ------------------------------------------------------ */

static void *serve_client(void *arg)
{
    int number, fd = (int)(intptr_t)arg;
    while (weft_read_full(fd, &number, sizeof number, NULL, WEFT_FOREVER) == 0) {
        number *= number;
        if (weft_write_all(fd, &number, sizeof number, NULL, WEFT_FOREVER) != 0) {
            break;
        }
    }
    weft_close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    int fd, listener = *(int *)arg;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        const struct weft_fiber_opts detached = {.detached = true};
        if (weft_spawn(NULL, serve_client, (void *)(intptr_t)fd, &detached) != 0) {
            weft_close(fd);
        }
    }
    return NULL; /* -EBADFD: the listener was closed */
}

static void *run(void *arg)
{
    weft_fiber server;
    struct weft_addr addr;
    char text[WEFT_ADDR_STRLEN];
    int listener = weft_listen("127.0.0.1:0", NULL);
    int err = listener < 0 ? listener : weft_addr_local(listener, &addr);
    (void)arg;
    if (err || weft_spawn(&server, serve, &listener, NULL) != 0) {
        return (void *)(intptr_t)(err ? err : -ENOMEM);
    }
    weft_addr_format(&addr, text, sizeof text);
    err = call_from_many_fibers(text);
    weft_close(listener);
    weft_join(server, NULL, WEFT_FOREVER);
    return (void *)(intptr_t)err;
}

int main(void)
{
    void *failure = NULL;
    int err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "client_pool: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
