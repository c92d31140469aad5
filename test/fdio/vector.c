/* Complete vectors, in whatever parts they are transferred; and reads with MSG_PEEK. */
/* labels: valgrind */
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define BUFFERS 37
#define TOTAL 200000

static unsigned char out[TOTAL], in[TOTAL];

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

/* Cuts memory into buffers of many sizes, some of them empty. */
static void cut(struct iovec *iov, unsigned char *memory, unsigned seed)
{
    size_t at = 0;
    for (int i = 0; i < BUFFERS; i++) {
        size_t n = i == BUFFERS - 1 ? TOTAL - at : (seed * 2654435761u + (unsigned)i * 977) % 9000;
        n = i % 5 == 2 ? 0 : n < TOTAL - at ? n : TOTAL - at;
        if (i == BUFFERS - 1) {
            n = TOTAL - at;
        }
        iov[i] = (struct iovec){memory + at, n};
        at += n;
    }
}

static int ends[2];

/* Transfers a whole vector, in whatever parts; changes it. Returns 0 or the error. */
static int whole(ssize_t (*call)(int fd, const struct iovec *iov, int count, int64_t deadline),
                 int fd, struct iovec *iov, int count)
{
    while (count > 0) {
        ssize_t n = iov->iov_len ? call(fd, iov, count, WEFT_FOREVER) : 0;
        if (n < 0) {
            return (int)n;
        }
        for (; count > 0 && (size_t)n >= iov->iov_len; iov++, count--) {
            n -= (ssize_t)iov->iov_len;
        }
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static void *writes(void *arg)
{
    struct iovec iov[BUFFERS];
    cut(iov, out, (unsigned)(uintptr_t)arg);
    CHECK_EQ(whole(weft_writev, ends[0], iov, BUFFERS), 0);
    return NULL;
}

static void through(int first, int second)
{
    for (unsigned seed = 0; seed < 5; seed++) {
        struct iovec iov[BUFFERS];
        weft_fiber fiber;
        ends[0] = first;
        ends[1] = second;
        for (int i = 0; i < TOTAL; i++) {
            out[i] = (unsigned char)((unsigned)i * 31 + seed);
        }
        memset(in, 0, sizeof in);
        CHECK_EQ(weft_spawn(&fiber, writes, (void *)(uintptr_t)seed, NULL), 0);
        cut(iov, in, seed + 100);
        CHECK_EQ(whole(weft_readv, ends[1], iov, BUFFERS), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK(memcmp(in, out, TOTAL) == 0);
    }
}

static void *vectors(void *arg)
{
    int pair[2], pipes[2];
    CHECK_EQ(weft_socketpair(SOCK_STREAM, pair), 0);
    CHECK_EQ(weft_set_buffers(pair[0], 0, 5000), 0);
    through(pair[0], pair[1]);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    through(pipes[1], pipes[0]);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_close(pair[i]), 0);
        CHECK_EQ(weft_close(pipes[i]), 0);
    }
    return arg;
}

EACH_DRIVER(whole_vectors_pass_through_small_buffers)
{
    on(driver, vectors);
}

/* The end of stream or an error in the middle: the transferred count is returned. */
static void *ends_early(void *arg)
{
    int pair[2];
    size_t done = 77;
    struct iovec iov[3] = {{in, 2}, {in + 2, 0}, {in + 2, 5}};
    CHECK_EQ(weft_socketpair(SOCK_STREAM, pair), 0);
    CHECK_EQ(weft_write(pair[0], "abcd", 4, WEFT_FOREVER), 4);
    CHECK_EQ(weft_read_full(pair[1], in, 7, &done, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(done, 4);
    CHECK(memcmp(in, "abcd", 4) == 0);
    CHECK_EQ(weft_write(pair[0], "efg", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_close(pair[0]), 0);
    CHECK_EQ(weft_readv(pair[1], iov, 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_readv(pair[1], iov, 3, WEFT_FOREVER), 0);
    CHECK_EQ(weft_writev(pair[1], iov, 3, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_readv(pair[1], iov, -1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_writev(pair[1], iov, IOV_MAX + 1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_close(pair[1]), 0);
    return arg;
}

EACH_DRIVER(bytes_transferred_before_error_are_reported)
{
    on(driver, ends_early);
}

static void connect_pair(int pair[2])
{
    struct weft_addr addr;
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    pair[0] = weft_connect(&addr, WEFT_FOREVER);
    pair[1] = weft_accept(listener, NULL, WEFT_FOREVER);
    CHECK(pair[0] >= 0 && pair[1] >= 0);
    CHECK_EQ(weft_close(listener), 0);
}

/* A short MSG_PEEK must not be taken to mean that the socket is empty, as a short read of TCP
 * is. */
static void *peeks(void *arg)
{
    int pair[2];
    char buf[64];
    connect_pair(pair);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_write(pair[0], "abc", 3, WEFT_FOREVER), 3);
        CHECK_EQ(weft_recv(pair[1], buf, sizeof buf, MSG_PEEK, weft_after(60000000000)), 3);
        CHECK_EQ(weft_recv(pair[1], buf, sizeof buf, MSG_PEEK, weft_after(60000000000)), 3);
        CHECK_EQ(weft_read(pair[1], buf, sizeof buf, weft_after(60000000000)), 3);
        CHECK_EQ(weft_recv(pair[1], buf, sizeof buf, MSG_PEEK, weft_after(1000000)), -ETIMEDOUT);
    }
    CHECK_EQ(weft_recv(pair[1], buf, 1, MSG_WAITALL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_send(pair[1], buf, 1, MSG_OOB, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_recv(-1, buf, 1, 0, WEFT_FOREVER), -EBADF);
    int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_EQ(weft_send(file, buf, 1, 0, WEFT_FOREVER), -ENOTSOCK);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_close(pair[0]), 0);
    CHECK_EQ(weft_close(pair[1]), 0);
    return arg;
}

EACH_DRIVER(peek_leaves_bytes_unread)
{
    on(driver, peeks);
}

/* --- more than 32 bits of length -------------------------------------------------------------- */

#define HUGE_BYTES ((size_t)1 << 32)

/* The kernel transfers 2 GiB at most per call; a ring counts in 32 bits, and would take 4 GiB for
 * 0. */
static void *asks_for_much(void *arg)
{
    int pair[2];
    char byte;
    char *huge = mmap(NULL, HUGE_BYTES + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (huge == MAP_FAILED) {
        printf("  no address space for it\n");
        return arg;
    }
    connect_pair(pair);
    CHECK_EQ(weft_write(pair[0], "abc", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_read(pair[1], huge, HUGE_BYTES, WEFT_FOREVER), 3);
    CHECK_EQ(weft_write(pair[0], "de", 2, WEFT_FOREVER), 2);
    CHECK_EQ(weft_read(pair[1], huge, HUGE_BYTES + 1, WEFT_FOREVER), 2);
    CHECK_EQ(memcmp(huge, "dec", 3), 0);
    ssize_t n = weft_write(pair[0], huge, HUGE_BYTES, WEFT_FOREVER);
    CHECK(n > 0);
    CHECK_EQ(weft_read(pair[1], &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(byte, 'd');
    CHECK_EQ(weft_close(pair[0]), 0);
    CHECK_EQ(weft_close(pair[1]), 0);
    CHECK_EQ(munmap(huge, HUGE_BYTES + 1), 0);
    return arg;
}

EACH_DRIVER(read_count_beyond_32_bits_is_accepted)
{
    if (!drivers_under_valgrind()) { /* it checks every byte that might be written */
        on(driver, asks_for_much);
    }
}
