/* Fetches a file over UDP, block by block, as TFTP does. The request goes to the server's known
 * port; each transfer then has a socket of its own on both sides, connected to the other, so that
 * the kernel keeps transfers apart and drops datagrams from strangers. A block is a header and data
 * from different places in memory, sent and received as one datagram. A side that gets no reply in
 * time sends again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/weft.h>

enum { BLOCK = 512, FILE_BYTES = 3000, TRIES = 60 };
#define RESEND_NS WEFT_SECONDS(1)

struct head {
    uint32_t number; /* of the block, from 1; an acknowledgement is only a head */
};

static char file[FILE_BYTES]; /* what the server has */

/* --- the server ------------------------------------------------------------------------- */

/* Sends one block until it is acknowledged. */
static int send_block(int fd, uint32_t number, char *data, size_t n)
{
    struct head head = {number}, ack;
    struct iovec parts[] = {{&head, sizeof head}, {data, n}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    for (int i = 0; i < TRIES; i++) {
        ssize_t got = weft_sendmsg(fd, &message, 0, WEFT_FOREVER);
        int64_t resend = weft_after(RESEND_NS);
        do {
            got = got < 0 ? got : weft_recv(fd, &ack, sizeof ack, 0, resend);
        } while (got >= 0 && (got != sizeof ack || ack.number != number)); /* an old one */
        if (got != -ETIMEDOUT) {
            return got < 0 ? (int)got : 0;
        }
    }
    return -ETIMEDOUT;
}

static int send_file_to(const struct weft_addr *client)
{
    int fd = weft_datagram_open("127.0.0.1:0", NULL);
    int err = fd < 0 ? fd : weft_datagram_set_peer(fd, client);
    /* A block that is not full is the last one. */
    for (size_t at = 0; !err && at <= FILE_BYTES; at += BLOCK) {
        size_t n = FILE_BYTES - at < BLOCK ? FILE_BYTES - at : BLOCK;
        err = send_block(fd, (uint32_t)(at / BLOCK + 1), file + at, n);
    }
    weft_close(fd);
    return err;
}

/* Serves one client after the other. */
static void *serve(void *arg)
{
    int fd = *(int *)arg;
    char name[64];
    struct weft_addr client;
    ssize_t n;
    while ((n = weft_recvfrom(fd, name, sizeof name, &client, WEFT_FOREVER)) >= 0) {
        /* -ECONNREFUSED: the client has all it wanted, and its last acknowledgement was lost, or
         * its request came twice. */
        int err = send_file_to(&client);
        printf("server: %.*s: %s\n", (int)n, name, err ? weft_strerror(err) : "sent");
    }
    return NULL; /* -EBADFD: the socket was closed */
}

/* --- the client ------------------------------------------------------------------------- */

/* Receives a datagram: its head, the data to its place, and the sender's address. */
static ssize_t receive(int fd, struct head *head, char *data, size_t n, struct weft_addr *from)
{
    struct iovec parts[] = {{head, sizeof *head}, {data, n}};
    struct msghdr message = {.msg_name = &from->storage,
                             .msg_namelen = sizeof from->storage,
                             .msg_iov = parts,
                             .msg_iovlen = 2};
    ssize_t got = weft_recvmsg(fd, &message, 0, weft_after(RESEND_NS));
    from->len = message.msg_namelen;
    if (got < 0) {
        return got;
    }
    bool whole = got >= (ssize_t)sizeof *head && !(message.msg_flags & MSG_TRUNC);
    return whole ? got - (ssize_t)sizeof *head : -EBADMSG;
}

/* Receives a file that is at least a block shorter than `size`. Returns its length. */
static ssize_t fetch(int fd, const struct weft_addr *server, const char *name, char *out,
                     size_t size)
{
    struct head head, ack = {0};
    struct weft_addr from;
    size_t at = 0;
    for (int tries = 0; tries < TRIES && at + BLOCK <= size;) {
        int64_t deadline = weft_after(RESEND_NS);
        ssize_t n = ack.number ? weft_write(fd, &ack, sizeof ack, deadline)
                               : weft_sendto(fd, name, strlen(name), server, deadline);
        n = n < 0 ? n : receive(fd, &head, out + at, BLOCK, &from);
        if (n == -ETIMEDOUT) {
            tries++;
            continue;
        }
        if (n < 0) {
            return n;
        }
        if (head.number != ack.number + 1) {
            continue; /* the server sent a block again: acknowledge it again */
        }
        if (ack.number++ == 0) { /* the first block: from now on only its sender counts */
            int err = weft_datagram_set_peer(fd, &from);
            if (err) {
                return err;
            }
        }
        at += (size_t)n;
        tries = 0;
        if (n < BLOCK) { /* the last one */
            weft_write(fd, &ack, sizeof ack, WEFT_FOREVER);
            return (ssize_t)at;
        }
    }
    return at + BLOCK <= size ? -ETIMEDOUT : -EFBIG;
}

static void *run(void *arg)
{
    static char copy[FILE_BYTES + BLOCK];
    struct weft_addr addr;
    weft_fiber server;
    int fd = weft_datagram_open("127.0.0.1:0", NULL);
    int client = weft_datagram_open("127.0.0.1:0", NULL);
    (void)arg;
    if (fd < 0 || client < 0 || weft_addr_local(fd, &addr) != 0 ||
        weft_spawn(&server, serve, &fd, NULL) != 0) {
        return (void *)(intptr_t)-EIO;
    }
    ssize_t n = fetch(client, &addr, "manual.txt", copy, sizeof copy);
    printf("client: got %zd bytes\n", n);
    weft_close(client);
    weft_close(fd);
    weft_join(server, NULL, WEFT_FOREVER);
    int err = n < 0                                                    ? (int)n
              : n == FILE_BYTES && memcmp(copy, file, FILE_BYTES) == 0 ? 0
                                                                       : -EBADMSG;
    return (void *)(intptr_t)err;
}

int main(void)
{
    void *failure = NULL;
    for (int i = 0; i < FILE_BYTES; i++) {
        file[i] = (char)('a' + i * i % 26);
    }
    int err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "tftp: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
