/* Operations: their results, who owns the buffer, cancel and close. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "io/drivers.h"

static weft_loop *loop;
static int ends[2];

static void setup(enum weft_driver driver)
{
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void teardown(void)
{
    for (int i = 0; i < 2; i++) {
        CHECK(ends[i] < 0 || weft_loop_close(loop, ends[i]) == 0);
    }
    CHECK_EQ(weft_loop_pending(loop), 0);
    weft_loop_destroy(loop);
}

/* Polls for the completion of an operation. */
static int64_t wait_for(weft_op *op)
{
    weft_op *taken;
    while (!(taken = weft_loop_poll_completion(loop))) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    CHECK(taken == op);
    return op->result;
}

static int delivered;
static int64_t results[8];

static void notes(weft_op *op, int64_t result, void *arg)
{
    CHECK(op->arg == arg);
    CHECK_EQ(op->result, result);
    results[(intptr_t)arg] = result;
    delivered++;
}

static void deliver(int n)
{
    while (delivered < n) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    CHECK_EQ(delivered, n);
    delivered = 0;
}

EACH_DRIVER(operations_send_and_receive_bytes)
{
    char out[] = "hello", in[16] = "";
    weft_op reads, writes;
    setup(driver);
    weft_op_init(&reads, loop, notes, (void *)0);
    weft_op_init(&writes, loop, notes, (void *)1);
    CHECK_EQ(weft_op_read(&reads, ends[0], in, sizeof in, -1, 0), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0); /* waits */
    CHECK_EQ(weft_op_write(&writes, ends[1], out, 5, -1, 0), 0);
    CHECK_EQ(delivered, 0); /* never inside the start */
    deliver(2);
    CHECK_EQ(results[0], 5);
    CHECK_EQ(results[1], 5);
    CHECK_STR(in, "hello");
    CHECK_EQ(shutdown(ends[1], SHUT_WR), 0);
    CHECK_EQ(weft_op_read(&reads, ends[0], in, sizeof in, -1, 0), 0);
    deliver(1);
    CHECK_EQ(results[0], 0);
    CHECK_EQ(weft_loop_close(loop, ends[0]), 0);
    ends[0] = -1;
    weft_loop_turn(loop, 0);
    CHECK_EQ(weft_op_write(&writes, ends[1], out, 5, -1, 0), 0);
    deliver(1);
    CHECK_EQ(results[1], -EPIPE); /* and no signal */
    teardown();
}

EACH_DRIVER(operation_completions_can_be_polled)
{
    char in[4];
    weft_op op;
    setup(driver);
    weft_op_init(&op, loop, NULL, &op);
    CHECK(weft_loop_poll_completion(loop) == NULL);
    CHECK_EQ(weft_op_cancel(&op), -ENOENT);
    CHECK_EQ(weft_op_read(&op, ends[0], in, sizeof in, -1, 0), 0);
    CHECK_EQ(write(ends[1], "abcdef", 6), 6);
    CHECK_EQ(weft_loop_turn(loop, WEFT_FOREVER), 1);
    CHECK_EQ(weft_loop_pending(loop), 1);
    CHECK_EQ(weft_op_cancel(&op), -EALREADY);
    CHECK(weft_loop_poll_completion(loop) == &op);
    CHECK_EQ(op.result, 4);
    CHECK(op.arg == &op);
    CHECK_EQ(weft_op_cancel(&op), -ENOENT);
    CHECK_EQ(weft_op_read(&op, ends[0], in, sizeof in, -1, 0), 0); /* the rest: a short read */
    CHECK_EQ(wait_for(&op), 2);
    teardown();
}

EACH_DRIVER(reads_complete_in_start_order)
{
    char in[3][2];
    weft_op ops[3];
    setup(driver);
    for (intptr_t i = 0; i < 3; i++) {
        weft_op_init(&ops[i], loop, notes, (void *)i);
        CHECK_EQ(weft_op_read(&ops[i], ends[0], in[i], 2, -1, 0), 0);
        weft_loop_turn(loop, 0);
    }
    CHECK_EQ(write(ends[1], "112233", 6), 6);
    deliver(3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(results[i], 2);
        CHECK_EQ(in[i][0], '1' + i);
    }
    teardown();
}

/* The first operation, one in the middle and the last are cancelled; those in between keep their
 * order, and a later one is queued after them. */
EACH_DRIVER(cancel_keeps_order_of_other_operations)
{
    char in[6][2];
    weft_op ops[6];
    setup(driver);
    for (intptr_t i = 0; i < 5; i++) {
        weft_op_init(&ops[i], loop, notes, (void *)i);
        CHECK_EQ(weft_op_read(&ops[i], ends[0], in[i], 2, -1, 0), 0);
        weft_loop_turn(loop, 0);
    }
    for (int i = 0; i < 5; i += 2) {
        CHECK_EQ(weft_op_cancel(&ops[i]), 0);
    }
    weft_op_init(&ops[5], loop, notes, (void *)5);
    CHECK_EQ(weft_op_read(&ops[5], ends[0], in[5], 2, -1, 0), 0);
    deliver(3);
    CHECK_EQ(write(ends[1], "112233", 6), 6);
    deliver(3);
    for (int i = 0; i < 5; i += 2) {
        CHECK_EQ(results[i], -ECANCELED);
    }
    for (int i = 1; i <= 5; i += 2) {
        CHECK_EQ(results[i], 2);
        CHECK_EQ(in[i][0], '1' + i / 2);
    }
    teardown();
}

EACH_DRIVER(send_to_full_socket_completes_partially_and_resumes)
{
    enum { BIG = 4 << 20 };
    char *big = calloc(1, BIG), *sink = malloc(65536);
    weft_op op;
    setup(driver);
    CHECK(big && sink);
    weft_op_init(&op, loop, notes, (void *)0);
    size_t put = 0, got = 0;
    while (put < BIG) {
        CHECK_EQ(weft_op_write(&op, ends[0], big + put, BIG - put, -1, 0), 0);
        while (delivered == 0) {
            weft_loop_turn(loop, 0);
            ssize_t n = recv(ends[1], sink, 65536, MSG_DONTWAIT);
            got += n > 0 ? (size_t)n : 0;
        }
        delivered = 0;
        CHECK(results[0] > 0);
        put += (size_t)results[0]; /* short writes */
    }
    ssize_t n;
    while ((n = recv(ends[1], sink, 65536, MSG_DONTWAIT)) > 0) {
        got += (size_t)n;
    }
    CHECK_EQ(got, BIG);
    free(big);
    free(sink);
    teardown();
}

EACH_DRIVER(cancel_ends_waiting_operation)
{
    char in[4] = "";
    weft_op op;
    setup(driver);
    weft_op_init(&op, loop, notes, (void *)0);
    for (int settled = 0; settled < 2; settled++) {
        CHECK_EQ(weft_op_read(&op, ends[0], in, sizeof in, -1, 0), 0);
        if (settled) {
            CHECK_EQ(weft_loop_turn(loop, 0), 0);
        }
        CHECK_EQ(weft_op_cancel(&op), 0);
        CHECK_EQ(weft_op_cancel(&op), 0); /* a second cancel changes nothing */
        CHECK_EQ(delivered, 0);
        deliver(1);
        CHECK_EQ(results[0], -ECANCELED);
    }
    /* Data that arrived before the cancel counts. */
    for (int settled = 0; settled < 2; settled++) {
        CHECK_EQ(weft_op_read(&op, ends[0], in, sizeof in, -1, 0), 0);
        if (settled) {
            CHECK_EQ(weft_loop_turn(loop, 0), 0);
        }
        CHECK_EQ(write(ends[1], "ab", 2), 2);
        CHECK_EQ(weft_op_cancel(&op), 0);
        deliver(1);
        CHECK_EQ(results[0], 2);
    }
    teardown();
}

EACH_DRIVER(close_ends_operations_in_flight)
{
    char in[3][4], out[4] = "";
    weft_op ops[4];
    setup(driver);
    for (intptr_t i = 0; i < 4; i++) {
        weft_op_init(&ops[i], loop, notes, (void *)i);
    }
    CHECK_EQ(weft_op_read(&ops[0], ends[0], in[0], 4, -1, 0), 0);
    CHECK_EQ(weft_op_read(&ops[1], ends[0], in[1], 4, -1, 0), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(weft_op_read(&ops[2], ends[0], in[2], 4, -1, 0), 0); /* not tried yet */
    CHECK_EQ(weft_loop_close(loop, ends[0]), 0);
    CHECK_EQ(weft_op_write(&ops[3], ends[0], out, 4, -1, 0), -EBADF);
    CHECK_EQ(weft_loop_close(loop, ends[0]), -EBADF);
    deliver(3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(results[i], -EBADFD);
    }
    CHECK_EQ(read(ends[1], out, 4), 0); /* the peer sees the shutdown */
    ends[0] = -1;
    teardown();
}

static void *closes(void *arg)
{
    CHECK_EQ(weft_close(*(int *)arg), 0);
    return NULL;
}

EACH_DRIVER(close_by_other_thread_ends_operation)
{
    char in[4];
    weft_op op;
    pthread_t thread;
    setup(driver);
    weft_op_init(&op, loop, notes, (void *)0);
    CHECK_EQ(weft_op_read(&op, ends[0], in, sizeof in, -1, 0), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, closes, &ends[0]), 0);
    deliver(1);
    CHECK_EQ(results[0], -EBADFD);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    ends[0] = -1;
    teardown();
}

static int bound(struct weft_addr *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(weft_addr_parse(addr, "127.0.0.1:0"), 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&addr->storage, addr->len), 0);
    CHECK_EQ(weft_addr_local(fd, addr), 0);
    return fd;
}

/* An ordinary blocking listener, as code that does not know Weft creates it. */
static int listener(struct weft_addr *addr)
{
    int fd = bound(addr);
    CHECK_EQ(listen(fd, 16), 0);
    return fd;
}

EACH_DRIVER(operations_connect_and_accept)
{
    struct weft_addr addr, peer = {0}, mine;
    weft_op accepts, connects;
    char byte;
    setup(driver);
    int server = listener(&addr);
    weft_op_init(&accepts, loop, notes, (void *)0);
    weft_op_init(&connects, loop, notes, (void *)1);
    CHECK_EQ(weft_op_accept(&accepts, server, &peer), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    int client = weft_op_socket(&addr);
    CHECK(client >= 0);
    CHECK_EQ(weft_op_connect(&connects, client, &addr), 0);
    deliver(2);
    int accepted = (int)results[0];
    CHECK(accepted >= 0);
    CHECK_EQ(results[1], 0);
    CHECK_EQ(weft_addr_local(client, &mine), 0);
    CHECK_EQ(weft_addr_port(&peer), weft_addr_port(&mine));
    CHECK_EQ(fcntl(accepted, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    CHECK_EQ(send(client, "x", 1, 0), 1);
    CHECK_EQ(weft_op_read(&accepts, accepted, &byte, 1, -1, 0), 0);
    deliver(1);
    CHECK_EQ(results[0], 1);
    CHECK_EQ(weft_op_accept(&accepts, server, NULL), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(weft_op_cancel(&accepts), 0);
    deliver(1);
    CHECK_EQ(results[0], -ECANCELED);
    CHECK_EQ(weft_loop_close(loop, server), 0);
    CHECK_EQ(weft_loop_close(loop, client), 0);
    CHECK_EQ(weft_loop_close(loop, accepted), 0);
    int silent = bound(&addr); /* and does not listen; a closed port could be reused elsewhere */
    client = weft_op_socket(&addr);
    CHECK_EQ(weft_op_connect(&connects, client, &addr), 0);
    deliver(1);
    CHECK_EQ(results[1], -ECONNREFUSED);
    CHECK_EQ(weft_loop_close(loop, client), 0);
    CHECK_EQ(close(silent), 0);
    teardown();
}

EACH_DRIVER(readiness_wait_is_an_operation)
{
    weft_op op;
    setup(driver);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(weft_op_poll(&op, ends[0], WEFT_WRITABLE), 0);
    CHECK_EQ(wait_for(&op), WEFT_WRITABLE);
    CHECK_EQ(weft_op_poll(&op, ends[0], WEFT_READABLE), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(wait_for(&op), WEFT_READABLE);
    CHECK_EQ(weft_op_poll(&op, ends[0], 3), -EINVAL);
    CHECK_EQ(weft_op_poll(&op, ends[0], 0), -EINVAL);
    CHECK_EQ(weft_op_poll(&op, -1, WEFT_READABLE), -EBADF);
    teardown();
}

EACH_DRIVER(operations_work_on_pipes_and_files)
{
    char in[8] = "", name[] = "/tmp/weft-op-XXXXXX";
    int pipes[2], file = mkstemp(name);
    weft_op op;
    setup(driver);
    CHECK(file >= 0);
    unlink(name);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_EQ(weft_op_read(&op, pipes[0], in, sizeof in, -1, 0), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(write(pipes[1], "pipe", 4), 4);
    CHECK_EQ(wait_for(&op), 4);
    CHECK_EQ(weft_op_write(&op, file, "0123456789", 10, 0, 0), 0);
    CHECK_EQ(wait_for(&op), 10);
    CHECK_EQ(weft_op_read(&op, file, in, 4, 6, 0), 0);
    CHECK_EQ(wait_for(&op), 4);
    CHECK(memcmp(in, "6789", 4) == 0);
    CHECK_EQ(weft_loop_close(loop, pipes[0]), 0);
    CHECK_EQ(weft_loop_close(loop, pipes[1]), 0);
    CHECK_EQ(weft_loop_close(loop, file), 0);
    teardown();
}

/* Nothing blocks the signal and nothing handles it: one SIGPIPE would kill the program. */
static void expect_sigpipe_to_kill(void)
{
    sigset_t set;
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
}

static void expect_no_sigpipe(void)
{
    sigset_t set;
    CHECK_EQ(sigpending(&set), 0);
    CHECK(!sigismember(&set, SIGPIPE));
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    CHECK(!sigismember(&set, SIGPIPE)); /* unchanged */
    CHECK(signal(SIGPIPE, SIG_DFL) == SIG_DFL);
}

EACH_DRIVER(write_to_pipe_without_reader_raises_no_sigpipe)
{
    int pipes[2];
    weft_op op;
    expect_sigpipe_to_kill();
    setup(driver);
    weft_op_init(&op, loop, NULL, NULL);
    for (int flags = 0; flags <= O_NONBLOCK; flags += O_NONBLOCK) {
        CHECK_EQ(pipe2(pipes, O_CLOEXEC | flags), 0);
        CHECK_EQ(weft_loop_close(loop, pipes[0]), 0);
        weft_loop_turn(loop, 0);
        for (int again = 0; again < 2; again++) {
            CHECK_EQ(weft_op_write(&op, pipes[1], "x", 1, -1, 0), 0);
            CHECK_EQ(wait_for(&op), -EPIPE);
            expect_no_sigpipe();
        }
        CHECK_EQ(weft_loop_close(loop, pipes[1]), 0);
        weft_loop_turn(loop, 0);
    }
    teardown();
}

/* The reader closes while a write waits for space. */
EACH_DRIVER(waiting_write_fails_when_reader_closes)
{
    char bytes[4096] = "";
    int pipes[2];
    weft_op op;
    expect_sigpipe_to_kill();
    setup(driver);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(pipes[1], bytes, sizeof bytes) > 0) {
    }
    CHECK_EQ(weft_op_write(&op, pipes[1], bytes, sizeof bytes, -1, 0), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(close(pipes[0]), 0);
    CHECK_EQ(wait_for(&op), -EPIPE);
    expect_no_sigpipe();
    CHECK_EQ(weft_loop_close(loop, pipes[1]), 0);
    teardown();
}

/* The handler owns the operation again, and may free it. */
struct message {
    weft_op op;
    char bytes[64];
};

static void frees(weft_op *op, int64_t result, void *arg)
{
    (void)op;
    CHECK_EQ(result, 1);
    free(arg);
    delivered++;
}

EACH_DRIVER(handler_can_free_its_operation)
{
    setup(driver);
    for (int i = 0; i < 100; i++) {
        struct message *message = calloc(1, sizeof *message);
        weft_op_init(&message->op, loop, frees, message);
        CHECK_EQ(weft_op_read(&message->op, ends[0], message->bytes, 1, -1, 0), 0);
    }
    weft_loop_turn(loop, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(write(ends[1], "x", 1), 1);
    }
    deliver(100);
    teardown();
}

static void starts_twice(void *arg)
{
    char in[2];
    weft_op op;
    (void)arg;
    setup(WEFT_DRIVER_EPOLL);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(weft_op_read(&op, ends[0], in, 1, -1, 0), 0);
    weft_op_read(&op, ends[0], in, 1, -1, 0);
}

/* Only -1 stands for the file's current position. */
EACH_DRIVER(negative_offset_is_rejected)
{
    char in[4];
    weft_op op;
    setup(driver);
    int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK_EQ(write(file, "abc", 3), 3);
    weft_op_init(&op, loop, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_op_write(&op, file, "xyz", 3, i ? -2 : INT64_MIN, 0), -EINVAL);
        CHECK_EQ(weft_op_read(&op, file, in, sizeof in, i ? -2 : INT64_MIN, 0), -EINVAL);
    }
    CHECK_EQ(weft_op_read(&op, file, in, sizeof in, 0, 0), 0);
    CHECK_EQ(wait_for(&op), 3);
    CHECK(memcmp(in, "abc", 3) == 0);
    CHECK_EQ(weft_op_write(&op, file, "d", 1, -1, 0), 0);
    CHECK_EQ(wait_for(&op), 1);
    CHECK_EQ(weft_op_read(&op, file, in, sizeof in, 0, 0), 0);
    CHECK_EQ(wait_for(&op), 4);
    CHECK(memcmp(in, "abcd", 4) == 0);
    CHECK_EQ(weft_loop_close(loop, file), 0);
    teardown();
}

EACH_DRIVER(offset_with_socket_and_flags_without_are_rejected)
{
    weft_op op;
    char byte;
    int pipes[2];
    setup(driver);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(weft_op_read(&op, ends[0], &byte, 1, 0, 0), -ESPIPE);
    CHECK_EQ(weft_op_write(&op, ends[0], "x", 1, 7, 0), -ESPIPE);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_EQ(weft_op_read(&op, pipes[0], &byte, 1, -1, MSG_PEEK), -EINVAL);
    CHECK_EQ(weft_op_write(&op, pipes[1], "x", 1, -1, MSG_MORE), -EINVAL);
    close(pipes[0]);
    close(pipes[1]);
    CHECK_EQ(write(ends[1], "ab", 2), 2);
    CHECK_EQ(weft_op_read(&op, ends[0], &byte, 1, -1, MSG_PEEK), 0);
    CHECK_EQ(wait_for(&op), 1);
    CHECK_EQ(weft_op_read(&op, ends[0], &byte, 1, -1, 0), 0);
    CHECK_EQ(wait_for(&op), 1);
    CHECK_EQ(byte, 'a');
    teardown();
}

TEST(second_start_of_operation_aborts)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(starts_twice, NULL, err, sizeof err)));
    CHECK(strstr(err, "an operation is started again before it was delivered"));
}

/* The thread that submitted operations to the kernel has ended: the operations continue. */
static void *turns_once(void *arg)
{
    CHECK_EQ(weft_op_read(arg, ends[0], results, 8, -1, 0), 0);
    weft_loop_turn(loop, 0);
    return NULL;
}

EACH_DRIVER(loop_outlives_thread_that_used_loop)
{
    weft_op op;
    pthread_t thread;
    setup(driver);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, turns_once, &op), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    weft_loop_turn(loop, weft_after(10000000));
    CHECK(weft_loop_poll_completion(loop) == NULL);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(wait_for(&op), 1);
    teardown();
}
