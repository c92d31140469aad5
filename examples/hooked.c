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

/* An initialiser that must not be preempted: another fiber of this worker could otherwise enter it
 * a second time while it waits. With hooks off its calls block the worker. */
static void library_init(void)
{
    usleep(100);
}

/* Runs the initialiser with hooks off for this fiber, then for all that runs on this thread. */
static bool init_unhooked(void)
{
    bool on = weft_hook_is_active();
    bool fiber_was = weft_hook_enable(false);
    bool off = !weft_hook_is_active();
    library_init();
    weft_hook_enable(fiber_was);
    bool thread_was = weft_hook_enable_thread(false);
    off = off && !weft_hook_is_active();
    library_init();
    weft_hook_enable_thread(thread_was);
    return on && off && weft_hook_is_active();
}

static void *all(void *arg)
{
    static int ends[CLIENTS][2];
    static weft_fiber fibers[2 * CLIENTS];
    const struct weft_fiber_opts hooked = {.hooked = true};
    int64_t start = weft_now();
    *(bool *)arg = init_unhooked();
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
    bool switched = false;
    if (!weft_hook_is_loaded()) { /* a client would block the worker that its server needs */
        fprintf(stderr, "the hooks are not there\n");
        return 1;
    }
    weft_hook_connect_timeout(WEFT_SECONDS(5)); /* libraries often set no limit of their own */
    int err = weft_run(NULL, all, &switched, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER);
    return err == 0 && switched ? 0 : 1;
}
