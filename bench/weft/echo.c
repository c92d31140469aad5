/* The echo server: one fiber per connection, one worker. It serves until it is killed.
 * usage: echo epoll|uring|poll PORT
 */
#include "program.h"

#include <weft/net.h>

static const char *address;

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char bytes[4096];
    for (;;) {
        ssize_t n = weft_read(fd, bytes, sizeof bytes, WEFT_FOREVER);
        if (n <= 0 || weft_write_all(fd, bytes, (size_t)n, NULL, WEFT_FOREVER))
            break;
    }
    weft_close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = weft_listen(address, &(struct weft_listen_opts){.backlog = 4096});
    must(listener, "weft_listen");
    for (;;) {
        int fd = weft_accept(listener, NULL, WEFT_FOREVER);
        must(fd, "weft_accept");
        must(weft_set_nodelay(fd, true), "weft_set_nodelay");
        must(weft_spawn(NULL, serve, (void *)(intptr_t)fd, NULL), "weft_spawn");
    }
    return arg;
}

static enum weft_driver driver_of(const char *name)
{
    if (!strcmp(name, "uring"))
        return WEFT_DRIVER_URING;
    return strcmp(name, "poll") ? WEFT_DRIVER_EPOLL : WEFT_DRIVER_POLL;
}

int main(int argc, char **argv)
{
    static char text[32];
    if (argc < 3)
        return 2;
    snprintf(text, sizeof text, "127.0.0.1:%s", argv[2]);
    address = text;
    struct weft_pool_opts opts = {.workers = 1, .driver = driver_of(argv[1])};
    must(weft_run(NULL, accept_all, NULL, &opts, WEFT_FOREVER), "weft_run");
}
