/* Measures which io_uring features pay for a server: CPU time of its single thread, on CPU 0,
 * against clients in another process, on CPU 1. To run it by hand (bench/compare does not run it):
 *
 *     cc -O2 -o uring bench/limits/uring.c -luring && ./uring
 *
 *   accept            one submission per connection
 *   accept_multi      one submission for all connections
 *   recv              64 B echo over 50 connections: a receive and a send each
 *   recv_provided     the same, but the kernel chooses the buffer (a ring of buffers)
 *   recv_multi        the same, with one submission for all receives of a connection
 *   send_N, zc_N      N bytes at a time to a reader that drops them: with a copy, or SEND_ZC and
 *                     its notification
 */
#include "../measure.h"

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CONNECTIONS 50
#define BYTES 64
#define ACCEPTS 40000
#define ECHOES 200000
#define SENT (256ull << 20)
#define BUFFERS 128

static struct io_uring ring;
static struct sockaddr_in address;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int listen_any(void)
{
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 1024) != 0 || getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        fail("listen");
    return fd;
}

static int connect_here(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static pid_t start(void (*client)(size_t), size_t arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        pin_to(1);
        client(arg);
        _exit(0);
    }
    pin_to(0);
    return pid;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void open_ring(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                              IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                     .cq_entries = 4096};
    int err = io_uring_queue_init_params(512, &ring, &params);
    if (err) {
        errno = -err;
        fail("io_uring");
    }
}

/* --- accept ----------------------------------------------------------------------------------- */

static void connects(size_t unused)
{
    const struct linger reset = {.l_onoff = 1};
    (void)unused;
    for (;;) {
        int fds[32];
        for (int i = 0; i < 32; i++)
            fds[i] = connect_here();
        for (int i = 0; i < 32; i++) {
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(fds[i]);
        }
    }
}

static void ask_accept(int fd, int multi)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (multi)
        io_uring_prep_multishot_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    else
        io_uring_prep_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void accepts(const char *name, int multi)
{
    int fd = listen_any();
    pid_t pid = start(connects, 0);
    open_ring();
    ask_accept(fd, multi);
    double began = cpu_ns();
    for (int done = 0; done < ACCEPTS;) {
        struct io_uring_cqe *cqe;
        unsigned head, n = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            n++;
            if (cqe->res >= 0) {
                close(cqe->res);
                done++;
            }
            if (!(cqe->flags & IORING_CQE_F_MORE))
                ask_accept(fd, multi);
        }
        io_uring_cq_advance(&ring, n);
    }
    report("uring", name, "", (cpu_ns() - began) / ACCEPTS, "ns");
    io_uring_queue_exit(&ring);
    stop(pid);
    close(fd);
}

/* --- recv ------------------------------------------------------------------------------------- */

static void pings(size_t unused)
{
    int fds[CONNECTIONS];
    char buf[BYTES] = {0};
    (void)unused;
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = connect_here();
    for (;;) {
        for (int i = 0; i < CONNECTIONS; i++)
            if (send(fds[i], buf, BYTES, MSG_NOSIGNAL) < 0)
                return;
        for (int i = 0; i < CONNECTIONS; i++)
            if (recv(fds[i], buf, BYTES, MSG_WAITALL) <= 0)
                return;
    }
}

enum way { PLAIN, PROVIDED, MULTI };
static char buffers[BUFFERS][BYTES], own[CONNECTIONS][BYTES];
static struct io_uring_buf_ring *provided;
static int fds[CONNECTIONS];

static void provide(int id)
{
    io_uring_buf_ring_add(provided, buffers[id], BYTES, (unsigned short)id,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(provided, 1);
}

static void open_buffers(void)
{
    struct io_uring_buf_reg reg = {.ring_entries = BUFFERS, .bgid = 1};
    provided = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                    MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    reg.ring_addr = (uint64_t)(uintptr_t)provided;
    if (provided == MAP_FAILED || io_uring_register_buf_ring(&ring, &reg, 0) != 0)
        fail("buffers");
    io_uring_buf_ring_init(provided);
    for (int i = 0; i < BUFFERS; i++)
        provide(i);
}

/* user data: connection, buffer, and whether it is a send */
static uint64_t tag(int connection, int buffer, int send)
{
    return (uint64_t)connection << 32 | (uint64_t)buffer << 1 | (uint64_t)send;
}

static struct io_uring_sqe *entry(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    return sqe;
}

static void ask_recv(int i, enum way way)
{
    struct io_uring_sqe *sqe = entry();
    if (way == MULTI)
        io_uring_prep_recv_multishot(sqe, fds[i], NULL, 0, 0);
    else
        io_uring_prep_recv(sqe, fds[i], way == PLAIN ? own[i] : NULL, BYTES, 0);
    if (way != PLAIN) {
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = 1;
    }
    io_uring_sqe_set_data64(sqe, tag(i, 0, 0));
}

static int seen(struct io_uring_cqe *cqe, enum way way)
{
    int i = (int)(cqe->user_data >> 32), buffer = (int)(uint32_t)cqe->user_data >> 1;
    if (cqe->user_data & 1) {
        if (way != PLAIN)
            provide(buffer);
        if (way != MULTI)
            ask_recv(i, way);
        return 0;
    }
    if (cqe->res <= 0)
        return 0;
    buffer = way == PLAIN ? 0 : (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_send(sqe, fds[i], way == PLAIN ? own[i] : buffers[buffer], (size_t)cqe->res,
                       MSG_NOSIGNAL);
    io_uring_sqe_set_data64(sqe, tag(i, buffer, 1));
    if (way == MULTI && !(cqe->flags & IORING_CQE_F_MORE))
        ask_recv(i, way);
    return 1;
}

static void recvs(const char *name, enum way way)
{
    int fd = listen_any(), on = 1;
    pid_t pid = start(pings, 0);
    open_ring();
    if (way != PLAIN)
        open_buffers();
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = accept(fd, NULL, NULL);
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ask_recv(i, way);
    }
    double began = cpu_ns();
    for (int done = 0; done < ECHOES;) {
        struct io_uring_cqe *cqe;
        unsigned head, n = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            n++;
            done += seen(cqe, way);
        }
        io_uring_cq_advance(&ring, n);
    }
    report("uring", name, "", (cpu_ns() - began) / ECHOES, "ns");
    io_uring_queue_exit(&ring);
    stop(pid);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    close(fd);
}

/* --- send ------------------------------------------------------------------------------------- */

static void drops(size_t unused)
{
    int fd = connect_here();
    (void)unused;
    while (recv(fd, NULL, 1 << 20, MSG_TRUNC) > 0) {
    }
}

/* One at a time, as a fiber sends: the next send begins when the buffer may be reused. */
static void sends(size_t bytes, int zero_copy)
{
    char name[32];
    int fd = listen_any();
    pid_t pid = start(drops, 0);
    int to = accept(fd, NULL, NULL);
    char *buf = aligned_alloc(4096, bytes);
    memset(buf, 1, bytes);
    open_ring();
    double began = cpu_ns(), wall = (double)now_ns();
    for (uint64_t sent = 0; sent < SENT;) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
        struct io_uring_cqe *cqe;
        if (zero_copy)
            io_uring_prep_send_zc(sqe, to, buf, bytes, MSG_NOSIGNAL, 0);
        else
            io_uring_prep_send(sqe, to, buf, bytes, MSG_NOSIGNAL);
        io_uring_submit_and_wait(&ring, 1);
        for (int more = 1; more;) {
            if (io_uring_wait_cqe(&ring, &cqe) != 0)
                continue;
            if (cqe->res < 0) {
                errno = -cqe->res;
                fail("send");
            }
            sent += cqe->flags & IORING_CQE_F_NOTIF ? 0 : (uint64_t)cqe->res;
            more = cqe->flags & IORING_CQE_F_MORE;
            io_uring_cqe_seen(&ring, cqe);
        }
    }
    snprintf(name, sizeof name, "%s_%zu", zero_copy ? "zc" : "send", bytes);
    report("uring", name, "_cpu", (cpu_ns() - began) / ((double)SENT / 1024), "ns/KiB");
    report("uring", name, "_rate", (double)SENT / ((double)now_ns() - wall), "GB/s");
    io_uring_queue_exit(&ring);
    stop(pid);
    free(buf);
    close(to);
    close(fd);
}

int main(void)
{
    for (int run = 0; run < 3; run++) {
        accepts("accept", 0);
        accepts("accept_multi", 1);
        recvs("recv", PLAIN);
        recvs("recv_provided", PROVIDED);
        recvs("recv_multi", MULTI);
        for (size_t bytes = 4096; bytes <= 1 << 20; bytes *= 16) {
            sends(bytes, 0);
            sends(bytes, 1);
        }
    }
}
