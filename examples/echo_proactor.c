/* An echo server, one of three (echo_fiber.c, echo_reactor.c): a loop performs reads and writes and
 * passes the result to a handler. A connection has one operation in progress, and its handler
 * starts the next.
 *
 *     echo_proactor [ADDRESS]      serves there until it is killed; no address: serves a few
 *                                  clients of its own
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
    weft_op op;
    int fd;
    size_t from, to; /* buf[from, to) is not yet written */
    char buf[4096];
};

static void on_received(weft_op *op, int64_t n, void *arg);
static void on_sent(weft_op *op, int64_t n, void *arg);

static void finish(struct connection *c)
{
    weft_loop_close(loop, c->fd);
    free(c);
}

static void receive(struct connection *c)
{
    weft_op_init(&c->op, loop, on_received, c);
    if (weft_op_read(&c->op, c->fd, c->buf, sizeof c->buf, -1, 0) != 0) {
        finish(c);
    }
}

static void send_rest(struct connection *c)
{
    weft_op_init(&c->op, loop, on_sent, c);
    if (weft_op_write(&c->op, c->fd, c->buf + c->from, c->to - c->from, -1, 0) != 0) {
        finish(c);
    }
}

static void on_received(weft_op *op, int64_t n, void *arg)
{
    (void)op;
    struct connection *c = arg;
    if (n <= 0) { /* end of file or an error */
        finish(c);
        return;
    }
    c->from = 0;
    c->to = (size_t)n;
    send_rest(c);
}

static void on_sent(weft_op *op, int64_t n, void *arg)
{
    (void)op;
    struct connection *c = arg;
    if (n < 0) {
        finish(c);
        return;
    }
    c->from += (size_t)n;
    if (c->from < c->to) {
        send_rest(c);
    } else {
        receive(c);
    }
}

static int listener;
static weft_op accepts;
static weft_loop_timer later;

static void accept_again(weft_loop_timer *timer, void *arg)
{
    (void)timer, (void)arg;
    weft_op_accept(&accepts, listener, NULL);
}

static void on_accepted(weft_op *op, int64_t fd, void *arg)
{
    (void)arg;
    if (fd == -ECANCELED || fd == -EBADFD) {
        return;
    }
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
        weft_loop_timer_set(&later, weft_after(WEFT_MS(10))); /* a retry now would fail too */
        return;
    }
    struct connection *c = fd >= 0 ? calloc(1, sizeof *c) : NULL;
    if (c) {
        c->fd = (int)fd;
        receive(c);
    } else if (fd >= 0) {
        weft_loop_close(loop, (int)fd);
    }
    weft_op_accept(op, listener, NULL);
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
    listener = weft_listen(argc > 1 ? argv[1] : "127.0.0.1:0", NULL);
    int err = listener < 0 ? listener : weft_loop_create(&loop, NULL);
    if (!err) {
        weft_op_init(&accepts, loop, on_accepted, NULL);
        weft_loop_timer_init(&later, loop, accept_again, NULL);
        err = weft_addr_local(listener, &address);
        err = err ? err : weft_op_accept(&accepts, listener, NULL);
    }
    if (err) {
        fprintf(stderr, "echo_proactor: %s\n", weft_strerror(err));
        return 1;
    }
    if (argc < 2 && pthread_create(&thread, NULL, clients, &failed) != 0) {
        return 1;
    }
    weft_loop_run(loop);
    if (argc < 2) {
        pthread_join(thread, NULL);
    }
    weft_loop_timer_cancel(&later);
    weft_loop_close(loop, listener);
    while (weft_loop_pending(loop) > 0) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    weft_loop_destroy(loop);
    printf("%d clients, %d failed\n", CLIENTS, (int)failed);
    return failed != 0;
}
