/* One script of operations runs on every driver: the reported results and their order are the
 * same. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define SLOTS 6

static weft_loop *loop;
static weft_op ops[SLOTS];
static char bufs[SLOTS][65536];
static char trace[8192];
static size_t used;
static int ends[2], started;

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    used += (size_t)vsnprintf(trace + used, sizeof trace - used, format, args);
    va_end(args);
    CHECK(used < sizeof trace - 1);
}

static void ended(weft_op *op, int64_t result, void *arg)
{
    (void)arg;
    int i = (int)(op - ops);
    started--;
    line(" %d:%lld", i, (long long)result);
    if (result > 0 && result <= 8) {
        line("=%.*s", (int)result, bufs[i]);
    }
}

static void step(const char *name, int64_t answer)
{
    line("\n%s %lld ->", name, (long long)answer);
}

static void begin(int64_t answer)
{
    started += answer == 0;
}

/* Waits for all results of the events so far: no other time passes in this script. */
static void settle(int left)
{
    while (started > left) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    for (int i = 0; i < 3; i++) {
        weft_loop_turn(loop, 0);
    }
}

static void recv_on(int i, int fd, size_t n)
{
    int answer = weft_op_read(&ops[i], fd, bufs[i], n, -1, 0);
    begin(answer);
    step("recv", answer);
}

static void send_on(int i, int fd, size_t n)
{
    memset(bufs[i], 'a' + i, sizeof bufs[i]);
    int answer = weft_op_write(&ops[i], fd, bufs[i], n, -1, 0);
    begin(answer);
    step("send", answer);
}

static void cancel(int i)
{
    step("cancel", weft_op_cancel(&ops[i]));
}

static void script(void)
{
    char sink[4096];
    /* Data before, data after, short reads, three in a row. */
    recv_on(0, ends[0], 4);
    settle(1);
    step("write", write(ends[1], "abcdef", 6));
    settle(0);
    recv_on(0, ends[0], 8);
    settle(0);
    for (int i = 0; i < 3; i++) {
        recv_on(i, ends[0], 2);
    }
    settle(3);
    step("write", write(ends[1], "112", 3));
    settle(1);
    step("write", write(ends[1], "33", 2));
    settle(0);
    /* Cancel: a waiting operation, an untried one, one with data that arrived meanwhile, a
     * completed one. */
    recv_on(0, ends[0], 4);
    settle(1);
    cancel(0);
    settle(0);
    recv_on(1, ends[0], 4);
    cancel(1);
    cancel(1);
    settle(0);
    recv_on(2, ends[0], 4);
    settle(1);
    step("write", write(ends[1], "x", 1));
    cancel(2);
    settle(0);
    cancel(2);
    recv_on(0, ends[0], 4);
    recv_on(1, ends[0], 4);
    settle(2);
    cancel(0);
    settle(1);
    step("write", write(ends[1], "y", 1)); /* the second operation takes it */
    settle(0);
    /* Both directions at once. */
    recv_on(0, ends[0], 4);
    send_on(1, ends[0], 4);
    settle(1);
    step("read", read(ends[1], sink, 4));
    step("ready", weft_op_poll(&ops[2], ends[0], WEFT_WRITABLE));
    started++;
    settle(1);
    step("ready", weft_op_poll(&ops[2], ends[0], WEFT_READABLE));
    started++;
    settle(2);
    cancel(0);
    settle(1);
    step("write", write(ends[1], "z", 1));
    settle(0);
    recv_on(0, ends[0], 4);
    settle(0);
    /* A full socket: the send waits until there is space, the next one is cancelled. */
    while (send(ends[0], sink, sizeof sink, MSG_DONTWAIT) > 0) {
    }
    send_on(0, ends[0], 8);
    send_on(1, ends[0], 8);
    settle(2);
    cancel(1);
    settle(1);
    while (recv(ends[1], sink, sizeof sink, MSG_DONTWAIT) > 0) {
    }
    settle(0);
    while (recv(ends[1], sink, sizeof sink, MSG_DONTWAIT) > 0) {
    }
    /* Half-close, the end, a reset. */
    step("shutdown", shutdown(ends[1], SHUT_WR));
    recv_on(0, ends[0], 4);
    settle(0);
    recv_on(0, ends[0], 4);
    settle(0);
    send_on(1, ends[0], 8);
    settle(0);
    step("close", weft_loop_close(loop, ends[1]));
    send_on(1, ends[0], 8);
    settle(0);
    recv_on(0, ends[0], 4);
    settle(0);
    step("close", weft_loop_close(loop, ends[0]));
    recv_on(0, ends[0], 4);
    /* Close in flight. */
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    recv_on(0, ends[0], 4);
    settle(1);
    recv_on(1, ends[0], 4);
    step("close", weft_loop_close(loop, ends[0]));
    settle(0);
    recv_on(0, ends[1], 4);
    settle(0);
    /* Not a socket; not connected; not there. */
    int pipes[2], lone = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    step("recv", weft_op_read(&ops[0], pipes[0], bufs[0], 4, -1, MSG_PEEK));
    recv_on(0, lone, 4);
    settle(0);
    step("accept", weft_op_accept(&ops[1], lone, NULL));
    started++;
    settle(0);
    recv_on(0, -1, 4);
    step("read", weft_op_read(&ops[2], pipes[0], bufs[2], 8, -1, 0));
    started++;
    settle(1);
    step("write", weft_op_write(&ops[3], pipes[1], "pipe", 4, -1, 0));
    started++;
    settle(0);
    step("read", weft_op_read(&ops[2], pipes[0], bufs[2], 8, -1, 0));
    started++;
    settle(1);
    step("close", weft_loop_close(loop, pipes[1]));
    settle(0);
    CHECK_EQ(weft_loop_close(loop, pipes[0]), 0);
    CHECK_EQ(weft_loop_close(loop, lone), 0);
    CHECK_EQ(weft_loop_close(loop, ends[1]), 0);
}

static char *traced(enum weft_driver driver)
{
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    for (int i = 0; i < SLOTS; i++) {
        weft_op_init(&ops[i], loop, ended, NULL);
    }
    memset(bufs, 0, sizeof bufs);
    used = 0;
    started = 0;
    script();
    weft_loop_destroy(loop);
    return strdup(trace);
}

TEST(every_driver_reports_same_completions_in_same_order)
{
    char *first = traced(WEFT_DRIVER_EPOLL);
    int lines = 0;
    for (const char *at = first; *at; at++) {
        lines += *at == '\n';
    }
    printf("  %d lines\n", lines);
    CHECK(lines > 50);
    CHECK(strstr(first, "write 6 -> 0:4=abcd\nrecv 0 -> 0:2=ef"));
    CHECK(strstr(first, "cancel 0 -> 2:1=x\ncancel -2 ->"));
    for (int i = WEFT_DRIVER_URING; i <= WEFT_DRIVER_POLL; i++) {
        if (!drivers_have((enum weft_driver)i)) {
            continue;
        }
        char *other = traced((enum weft_driver)i);
        if (strcmp(first, other) != 0) {
            fprintf(stderr, "epoll:%s\n%s:%s\n", first, drivers_names[i], other);
        }
        CHECK_STR(other, first);
        free(other);
    }
    free(first);
}
