/* The echo server: a fiber for each connection, one worker. It serves until it is ended.
 * usage: echo epoll|uring|poll PORT */
#include "program.h"

#if __has_include(<weft/net.h>)
#include <weft/io.h>
#include <weft/net.h>

static const char *address;

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char bytes[4096];
    for (;;) {
        ssize_t n = weft_read(fd, bytes, sizeof bytes, WEFT_FOREVER);
        if (n <= 0 || weft_write(fd, bytes, (size_t)n, WEFT_FOREVER) != n)
            break;
    }
    weft_close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = weft_listen(address, NULL);
    must(listener, "weft_listen");
    for (;;) {
        int fd = weft_accept(listener, WEFT_FOREVER);
        must(fd, "weft_accept");
        must(weft_spawn(NULL, serve, (void *)(intptr_t)fd, NULL), "weft_spawn");
    }
    return arg;
}

int main(int argc, char **argv)
{
    static char text[32];
    if (argc < 3)
        return 2;
    snprintf(text, sizeof text, "127.0.0.1:%s", argv[2]);
    address = text;
    setenv("WEFT_DRIVER", argv[1],
           1); /* what `auto` obeys, so that one binary serves by all of them */
    run_main_fiber("1", accept_all);
}

#else

int main(void)
{
    fprintf(stderr, "echo: this Weft has no <weft/net.h>\n");
    return 1;
}

#endif
