/* Connects to whichever replica of a service is up. The replicas have one host name and different
 * ports: the name is resolved once, each replica's address is that address with its own port, and
 * one call tries them in order. If a replica refuses, the next one is tried at once; if it does not
 * answer, the next one is tried in parallel after a short delay. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

enum { REPLICAS = 3 };

/* Resolves the name. Without c-ares (-ENOSYS) there are only numeric addresses. */
static int resolve(struct weft_addr *out, const char *host)
{
    const struct weft_resolve_opts opts = {.family = AF_INET, .try_timeout_ns = WEFT_SECONDS(1)};
    int n = weft_resolve(out, 1, host, 0, &opts, weft_after(WEFT_MINUTES(5)));
    return n == -ENOSYS ? weft_addr_parse(out, "127.0.0.1:0") : n < 0 ? n : 0;
}

static int connect_to_any(const struct weft_addr *host, const int *ports, size_t n)
{
    struct weft_addr addrs[REPLICAS];
    for (size_t i = 0; i < n; i++) {
        addrs[i] = *host;
        int err = weft_addr_set_port(&addrs[i], (unsigned)ports[i]);
        if (err) {
            return err;
        }
    }
    return weft_dial_addrs(addrs, n, WEFT_MS(100), weft_after(WEFT_MINUTES(5)));
}

/* --- usage ------------------------------------------------------------------------------ */

/* A replica that is down: it has a port, so that no other program gets it, but does not listen. */
static int open_down(const struct weft_addr *host)
{
    int fd = socket(host->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&host->storage, host->len) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int open_up(const struct weft_addr *host)
{
    char text[WEFT_ADDR_STRLEN];
    weft_addr_format(host, text, sizeof text);
    return weft_listen(text, NULL);
}

static int try_all(const struct weft_addr *host, const int *fds)
{
    int ports[REPLICAS];
    struct weft_addr addr;
    for (int i = 0; i < REPLICAS; i++) {
        int err = weft_addr_local(fds[i], &addr);
        ports[i] = err ? err : weft_addr_port(&addr);
        if (ports[i] < 0) {
            return ports[i];
        }
    }
    int fd = connect_to_any(host, ports, REPLICAS);
    if (fd < 0) {
        return fd;
    }
    int err = weft_addr_peer(fd, &addr), reached = -1;
    for (int i = 0; !err && i < REPLICAS; i++) {
        reached = ports[i] == weft_addr_port(&addr) ? i : reached;
    }
    weft_close(fd);
    printf("replicas 0 and 1 are down: connected to replica %d\n", reached);

    fd = connect_to_any(host, ports, REPLICAS - 1); /* without the one that is up */
    printf("without replica 2: %s\n", weft_strerror(fd));
    if (fd >= 0) {
        weft_close(fd);
    }
    return reached == REPLICAS - 1 && fd == -ECONNREFUSED ? 0 : -EIO;
}

static void *run(void *arg)
{
    struct weft_addr host;
    char text[WEFT_ADDR_STRLEN];
    (void)arg;
    int err = resolve(&host, "localhost");
    if (err) {
        return (void *)(intptr_t)err;
    }
    weft_addr_format(&host, text, sizeof text);
    printf("localhost is %s\n", text);
    const int fds[REPLICAS] = {open_down(&host), open_down(&host), open_up(&host)};
    err = try_all(&host, fds);
    for (int i = 0; i < REPLICAS; i++) {
        weft_close(fds[i]);
    }
    return (void *)(intptr_t)err;
}

int main(void)
{
    void *failure = NULL;
    int err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "failover: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
