/* Unchanged blocking code in fibers: link with weft-hook, or use LD_PRELOAD=libweft-hook.so. */
/* not under: tsan */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

enum { CLIENTS = 200 };

/* Code as in a library that knows no fibers: it sleeps, writes, and blocks in read. */
static void *client(void *arg)
{
    int fd = *(int *)arg;
    char answer[8];
    usleep(50 * 1000);
    if (write(fd, "ping", 4) != 4 || read(fd, answer, sizeof answer) != 4) {
        perror("client");
    }
    close(fd);
    return NULL;
}

static void *server(void *arg)
{
    int fd = *(int *)arg;
    char question[8];
    if (read(fd, question, sizeof question) == 4) {
        usleep(50 * 1000);
        if (write(fd, "pong", 4) != 4) {
            perror("server");
        }
    }
    close(fd);
    return NULL;
}

static void *all(void *arg)
{
    static int ends[CLIENTS][2];
    static weft_fiber fibers[2 * CLIENTS];
    const struct weft_fiber_opts hooked = {.hooked = true};
    int64_t start = weft_now();
    for (int i = 0; i < CLIENTS; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) != 0 ||
            weft_spawn(&fibers[2 * i], client, &ends[i][0], &hooked) != 0 ||
            weft_spawn(&fibers[2 * i + 1], server, &ends[i][1], &hooked) != 0) {
            perror("start");
            return arg;
        }
    }
    for (int i = 0; i < 2 * CLIENTS; i++) {
        weft_join(fibers[i], NULL, WEFT_FOREVER);
    }
    printf("%d clients and servers on one worker, 0.1 s each: %.2f s together\n", CLIENTS,
           (double)(weft_now() - start) / 1e9);
    return arg;
}

int main(void)
{
    if (!weft_hook_is_loaded()) { /* a client would block the worker that its server needs */
        fprintf(stderr, "the hooks are not there\n");
        return 1;
    }
    return weft_run(NULL, all, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER) == 0 ? 0
                                                                                                : 1;
}
