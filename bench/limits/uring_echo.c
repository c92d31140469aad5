/* The echo server directly on io_uring: one thread, a receive and a send for each message; the call
 * that waits for completions also submits all new operations. usage: limit-uring echo PORT */
#include "tcp.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

enum { ENTRIES = 4096, READ_BYTES = 4096 };
enum { RECEIVE = 1, SEND = 2 }; /* in the low bits of a connection's address */

struct connection {
    int fd;
    char bytes[READ_BYTES];
};

static struct io_uring ring;

static struct io_uring_sqe *next_entry(void)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    if (!entry) {
        io_uring_submit(&ring);
        entry = io_uring_get_sqe(&ring);
    }
    return entry;
}

static void receive(struct connection *connection)
{
    struct io_uring_sqe *entry = next_entry();
    io_uring_prep_recv(entry, connection->fd, connection->bytes, READ_BYTES, 0);
    io_uring_sqe_set_data64(entry, (uintptr_t)connection | RECEIVE);
}

static void answer(struct connection *connection, int bytes)
{
    struct io_uring_sqe *entry = next_entry();
    io_uring_prep_send(entry, connection->fd, connection->bytes, (size_t)bytes,
                       MSG_NOSIGNAL | MSG_WAITALL);
    io_uring_sqe_set_data64(entry, (uintptr_t)connection | SEND);
}

static void accept_many(int listener)
{
    struct io_uring_sqe *entry = next_entry();
    io_uring_prep_multishot_accept(entry, listener, NULL, NULL, 0);
    io_uring_sqe_set_data64(entry, 0);
}

static void on_accept(int listener, const struct io_uring_cqe *done)
{
    if (!(done->flags & IORING_CQE_F_MORE))
        accept_many(listener);
    if (done->res < 0)
        return;
    struct connection *connection = malloc(sizeof *connection);
    connection->fd = done->res;
    no_delay(connection->fd);
    receive(connection);
}

static void on_done(const struct io_uring_cqe *done)
{
    struct connection *connection =
        (struct connection *)(uintptr_t)(done->user_data & ~UINT64_C(3));
    if (done->res <= 0) {
        close(connection->fd);
        free(connection);
    } else if (done->user_data & RECEIVE) {
        answer(connection, done->res);
    } else {
        receive(connection);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int listener = listen_on(argv[2], 0);
    int error = io_uring_queue_init(ENTRIES, &ring,
                                    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (error) {
        errno = -error;
        die("io_uring");
    }
    accept_many(listener);
    for (;;) {
        struct io_uring_cqe *done;
        unsigned head, count = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, done)
        {
            count++;
            if (done->user_data)
                on_done(done);
            else
                on_accept(listener, done);
        }
        io_uring_cq_advance(&ring, count);
    }
}
