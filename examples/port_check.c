/* Which of these ports answer, and how do they greet? All probes run at the same time on one
 * thread, without callbacks: operations without a handler are collected with
 * weft_loop_poll_completion, so the program stays one loop with a switch in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

static weft_loop *loop;

struct probe {
    weft_op op;
    const char *name;
    struct weft_addr addr;
    int fd, listener; /* -1: none */
    enum { CONNECTING, WAITING, READING, DONE } phase;
    bool given_up;
    int64_t result;
    char greeting[32];
};

static void finish(struct probe *probe, int64_t result)
{
    probe->phase = DONE;
    probe->result = result;
    weft_loop_close(loop, probe->fd);
}

/* Starts the next operation after one has been completed with this result. */
static void advance(struct probe *probe, int64_t result)
{
    int err = 0;
    if (result < 0 || probe->given_up) { /* a cancelled operation may have succeeded all the same */
        finish(probe, result < 0 ? result : -ECANCELED);
        return;
    }
    switch (probe->phase) {
    case CONNECTING: /* a probe that waits for long needs no buffer: first wait, then read */
        probe->phase = WAITING;
        err = weft_op_poll(&probe->op, probe->fd, WEFT_READABLE);
        break;
    case WAITING:
        probe->phase = READING;
        err =
            weft_op_read(&probe->op, probe->fd, probe->greeting, sizeof probe->greeting - 1, -1, 0);
        break;
    case READING:
    case DONE:
        finish(probe, result);
        break;
    }
    if (err) {
        finish(probe, err);
    }
}

static int start(struct probe *probe)
{
    probe->fd = weft_op_socket(&probe->addr);
    weft_op_init(&probe->op, loop, NULL, probe); /* no handler */
    return probe->fd < 0 ? probe->fd : weft_op_connect(&probe->op, probe->fd, &probe->addr);
}

/* Runs turns until at most `left` probes are not done. */
static void run(struct probe *probes, int count, int left)
{
    int waiting = count + 1;
    while (waiting > left) {
        weft_op *op;
        while ((op = weft_loop_poll_completion(loop))) {
            advance(op->arg, op->result);
        }
        waiting = 0;
        for (int i = 0; i < count; i++) {
            waiting += probes[i].phase != DONE;
        }
        if (waiting > left) {
            weft_loop_turn(loop, WEFT_FOREVER);
        }
    }
}

/* --- the ports to check --------------------------------------------------------------------- */

/* A server that greets. Its operation has a handler; the loop has both kinds. */
static void greet(weft_op *op, int64_t client, void *arg)
{
    (void)op, (void)arg;
    if (client >= 0) {
        if (send((int)client, "220 hello\r\n", 11, MSG_NOSIGNAL) != 11) {
            fprintf(stderr, "port_check: the greeting was not sent\n");
        }
        weft_loop_close(loop, (int)client);
    }
}

int main(void)
{
    struct probe probes[3] = {{.name = "open"}, {.name = "silent"}, {.name = "closed"}};
    weft_op server;
    if (weft_loop_create(&loop, NULL)) {
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        probes[i].listener = weft_listen("127.0.0.1:0", NULL);
        if (probes[i].listener < 0 || weft_addr_local(probes[i].listener, &probes[i].addr)) {
            return 1;
        }
    }
    /* A closed port that nobody else can get: bound, and not listening. */
    struct weft_addr any;
    weft_addr_parse(&any, "127.0.0.1:0");
    probes[2].listener = weft_op_socket(&any);
    if (bind(probes[2].listener, (struct sockaddr *)&any.storage, any.len) ||
        weft_addr_local(probes[2].listener, &probes[2].addr)) {
        return 1;
    }
    weft_op_init(&server, loop, greet, NULL);
    int err = weft_op_accept(&server, probes[0].listener, NULL);
    for (int i = 0; i < 3; i++) {
        err = err ? err : start(&probes[i]);
    }
    if (err) {
        fprintf(stderr, "port_check: %s\n", weft_strerror(err));
        return 1;
    }

    run(probes, 3, 1); /* the others are done: do not wait for the silent one */
    for (int i = 0; i < 3; i++) {
        if (probes[i].phase != DONE) {
            probes[i].given_up = true;
            weft_op_cancel(&probes[i].op); /* the outcome is delivered as usual */
        }
    }
    run(probes, 3, 0);

    for (int i = 0; i < 3; i++) {
        struct probe *probe = &probes[i];
        printf("%s: %s\n", probe->name,
               probe->result < 0 ? weft_strerror((int)probe->result)
                                 : strtok(probe->greeting, "\r\n"));
        weft_loop_close(loop, probe->listener);
    }
    while (weft_loop_pending(loop) > 0) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    weft_loop_destroy(loop);
    if (probes[0].result != 11 || strcmp(probes[0].greeting, "220 hello") != 0 ||
        probes[1].result != -ECANCELED || probes[2].result != -ECONNREFUSED) {
        fprintf(stderr, "port_check: a probe has the wrong result\n");
        return 1;
    }
    return 0;
}
