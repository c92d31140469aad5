/* An echo server, one of three (echo_fiber.c, echo_proactor.c): a loop reports when a connection is
 * readable or writable, and a callback reads or writes. Unwritten bytes are kept, and the watch
 * asks for writability until they are written.
 *
 *     echo_reactor [ADDRESS]      serves there until it is killed; without an address: serves a few
 *                                 clients of its own
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

static weft_loop *loop;

struct connection {
    size_t from, to; /* buf[from, to) is not yet written */
    char buf[4096];
};

static bool write_rest(struct connection *c, int fd)
{
    while (c->from < c->to) {
        ssize_t n = send(fd, c->buf + c->from, c->to - c->from, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        c->from += (size_t)n;
    }
    return true;
}

static bool read_more(struct connection *c, int fd)
{
    ssize_t n = recv(fd, c->buf, sizeof c->buf, MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    c->from = 0;
    c->to = (size_t)n;
    return n > 0;
}

static void on_ready(weft_watch *watch, int fd, int events, void *arg)
{
    struct connection *c = arg;
    if (events < 0) { /* the watch has ended: this is the last call */
        free(c);
        return;
    }
    bool open = (c->from < c->to || read_more(c, fd)) && write_rest(c, fd);
    if (!open) {
        weft_loop_close(loop, fd); /* the callback gets a last call */
        return;
    }
    weft_watch_modify(watch, c->from < c->to ? WEFT_WRITABLE : WEFT_READABLE);
}

static void serve(int fd)
{
    weft_watch *added;
    struct connection *c = calloc(1, sizeof *c);
    if (!c || weft_watch_add(loop, &added, fd, WEFT_READABLE, on_ready, c) != 0) {
        weft_loop_close(loop, fd);
        free(c);
    }
}

static weft_watch *listening;
static weft_loop_timer later;

static void accept_again(weft_loop_timer *timer, void *arg)
{
    (void)timer, (void)arg;
    weft_watch_modify(listening, WEFT_READABLE);
}

static void on_connection(weft_watch *watch, int fd, int events, void *arg)
{
    (void)arg;
    if (events < 0) {
        return;
    }
    int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) {
        serve(accepted);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        weft_watch_modify(watch, 0); /* it stays readable: watching on would spin */
        weft_loop_timer_set(&later, weft_after(WEFT_MS(10)));
    }
}

/* --- a self-test: several clients, each on a blocking thread ------------------------------ */

#define CLIENTS 8

static struct weft_addr address;

static void *client(void *arg)
{
    char text[32], back[32];
    struct weft_addr to = address;
    intptr_t *wrong = arg;
    int fd = socket(to.storage.ss_family, SOCK_STREAM, 0);
    *wrong = 1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to.storage, to.len) == 0) {
        *wrong = 0;
        for (int i = 0; i < 100; i++) {
            int n = snprintf(text, sizeof text, "line %d of %d\n", i, fd);
            *wrong |= send(fd, text, (size_t)n, 0) != n ||
                      recv(fd, back, (size_t)n, MSG_WAITALL) != n ||
                      memcmp(text, back, (size_t)n) != 0;
        }
    }
    close(fd);
    return NULL;
}

static void *clients(void *arg)
{
    pthread_t threads[CLIENTS];
    intptr_t wrong[CLIENTS], *failed = arg;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&threads[i], NULL, client, &wrong[i]);
    }
    *failed = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        *failed += wrong[i];
    }
    weft_loop_stop(loop);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    intptr_t failed = 0;
    int listener = weft_listen(argc > 1 ? argv[1] : "127.0.0.1:0", NULL);
    int err = listener < 0 ? listener : weft_loop_create(&loop, NULL);
    err = err ? err : weft_addr_local(listener, &address);
    err =
        err ? err : weft_watch_add(loop, &listening, listener, WEFT_READABLE, on_connection, NULL);
    if (err) {
        fprintf(stderr, "echo_reactor: %s\n", weft_strerror(err));
        return 1;
    }
    weft_loop_timer_init(&later, loop, accept_again, NULL);
    if (argc < 2 && pthread_create(&thread, NULL, clients, &failed) != 0) {
        return 1;
    }
    weft_loop_run(loop);
    if (argc < 2) {
        pthread_join(thread, NULL);
    }
    weft_loop_timer_cancel(&later);
    weft_loop_close(loop, listener);
    while (weft_loop_pending(loop) > 0) { /* connections without their last call */
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    weft_loop_destroy(loop);
    printf("%d clients, %d failed\n", CLIENTS, (int)failed);
    return failed != 0;
}
