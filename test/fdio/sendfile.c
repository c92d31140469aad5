/* sendfile from a file to a socket, and splice through a pipe. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io/drivers.h"

#define BYTES 300000
#define FAR ((int64_t)5 << 30) /* an offset beyond 4 GiB */

static unsigned char content[BYTES];

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

/* An unnamed file with `content` at an offset. */
static int file_at(int64_t offset)
{
    char name[] = "/tmp/weft-sendfile-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(name), 0);
    for (int i = 0; i < BYTES; i++) {
        content[i] = (unsigned char)(i * 7 + i / 251);
    }
    CHECK_EQ(pwrite(fd, content, BYTES, offset), BYTES);
    return fd;
}

struct reader {
    int fd;
    size_t got;
    bool wrong;
};

/* Reads until the end of stream, and compares. */
static void *reads(void *arg)
{
    struct reader *r = arg;
    static unsigned char buf[7001];
    ssize_t n;
    while ((n = weft_read(r->fd, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        r->wrong |= r->got + (size_t)n > BYTES || memcmp(buf, content + r->got, (size_t)n) != 0;
        r->got += (size_t)n;
    }
    CHECK_EQ(n, 0);
    return NULL;
}

static void *sends(void *arg)
{
    static const int64_t offsets[] = {0, 4097, FAR};
    for (int i = 0; i < 3; i++) {
        int ends[2], file = file_at(offsets[i]);
        size_t done;
        weft_fiber fiber;
        CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
        struct reader r = {.fd = ends[1]};
        CHECK_EQ(weft_spawn(&fiber, reads, &r, NULL), 0);
        CHECK_EQ(lseek(file, 11, SEEK_SET), 11);
        CHECK_EQ(weft_sendfile_all(ends[0], file, offsets[i], BYTES, &done, WEFT_FOREVER), 0);
        CHECK_EQ(done, BYTES);
        CHECK_EQ(lseek(file, 0, SEEK_CUR), 11); /* sendfile leaves the file position alone */
        CHECK_EQ(weft_sendfile(ends[0], file, offsets[i] + BYTES, 1, WEFT_FOREVER), 0);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(r.got, BYTES);
        CHECK(!r.wrong);
        CHECK_EQ(weft_close(ends[1]), 0);
        CHECK_EQ(weft_close(file), 0);
    }
    return arg;
}

EACH_DRIVER(sendfile_sends_from_any_offset)
{
    on(driver, sends);
}

/* The request is larger than the file, by more than one system call could move. */
static void *asks_too_much(void *arg)
{
    int ends[2], file = file_at(0);
    size_t done;
    weft_fiber fiber;
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    struct reader r = {.fd = ends[1]};
    CHECK_EQ(weft_spawn(&fiber, reads, &r, NULL), 0);
    CHECK_EQ(weft_sendfile_all(ends[0], file, 0, (size_t)3 << 30, &done, WEFT_FOREVER), -ENODATA);
    CHECK_EQ(done, BYTES);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(r.got, BYTES);
    CHECK(!r.wrong);
    CHECK_EQ(weft_sendfile(ends[1], file, -1, 1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_close(file), 0);
    return arg;
}

EACH_DRIVER(sendfile_of_short_file_reports_end)
{
    on(driver, asks_too_much);
}

static int cut_socket, cut_file;
static size_t cut_done;

static void *sends_all(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_sendfile_all(cut_socket, cut_file, 0, BYTES, &cut_done,
                                               WEFT_FOREVER);
}

/* The file is truncated while the receiver keeps the sender waiting. */
static void *cuts(void *arg)
{
    int ends[2];
    enum weft_fiber_state state;
    weft_fiber fiber;
    void *result;
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    CHECK_EQ(weft_set_buffers(ends[0], 0, 20000), 0);
    cut_socket = ends[0];
    cut_file = file_at(0);
    CHECK_EQ(weft_spawn(&fiber, sends_all, NULL, NULL), 0);
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    CHECK_EQ(ftruncate(cut_file, BYTES / 2), 0);
    struct reader r = {.fd = ends[1]};
    weft_fiber reader;
    CHECK_EQ(weft_spawn(&reader, reads, &r, NULL), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ENODATA);
    CHECK_EQ(cut_done, BYTES / 2);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_join(reader, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(r.got, BYTES / 2);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_close(cut_file), 0);
    return arg;
}

EACH_DRIVER(sendfile_of_truncated_file_reports_end)
{
    on(driver, cuts);
}

/* No SIGPIPE, on any thread; also for a pipe. */
static void *peer_is_gone(void *arg)
{
    int ends[2], file = file_at(0), pipes[2];
    CHECK_EQ(weft_socketpair(SOCK_STREAM, ends), 0);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_sendfile(ends[0], file, 0, BYTES, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_sendfile(pipes[1], file, 0, BYTES, WEFT_FOREVER), -EPIPE);
    int64_t at = 0;
    CHECK_EQ(weft_splice(file, &at, pipes[1], NULL, BYTES, false, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(at, 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    CHECK_EQ(weft_close(file), 0);
    return arg;
}

EACH_DRIVER(sendfile_to_closed_peer_raises_no_sigpipe)
{
    on(driver, peer_is_gone);
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, peer_is_gone, NULL, &opts, WEFT_FOREVER),
             0); /* on the program's own thread */
}

/* File to pipe to socket to pipe to file. */
struct stage {
    int from, to;
    int64_t *from_at, *to_at;
};

static void *pumps(void *arg)
{
    struct stage *s = arg;
    ssize_t n;
    while ((n = weft_splice(s->from, s->from_at, s->to, s->to_at, 65536, false, WEFT_FOREVER)) >
           0) {
    }
    CHECK_EQ(n, 0);
    if (!s->to_at) {
        CHECK_EQ(weft_close(s->to), 0); /* the next stage sees the end of stream */
    }
    return NULL;
}

static void *splices(void *arg)
{
    int first[2], second[2], ends[2], from = file_at(100), to = file_at(0);
    int64_t from_at = 100, to_at = 50;
    static unsigned char back[BYTES];
    weft_fiber fibers[4];
    CHECK_EQ(ftruncate(to, 0), 0);
    CHECK_EQ(pipe2(first, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(second, O_CLOEXEC), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); /* it would block */
    struct stage stages[4] = {
        {.from = from, .from_at = &from_at, .to = first[1]},
        {.from = first[0], .to = ends[0]},
        {.from = ends[1], .to = second[1]},
        {.from = second[0], .to = to, .to_at = &to_at},
    };
    for (int i = 3; i >= 0; i--) {
        CHECK_EQ(weft_spawn(&fibers[i], pumps, &stages[i], NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(from_at, 100 + BYTES);
    CHECK_EQ(to_at, 50 + BYTES);
    CHECK_EQ(pread(to, back, BYTES, 50), BYTES);
    CHECK(memcmp(back, content, BYTES) == 0);
    CHECK_EQ(weft_close(first[0]), 0);
    CHECK_EQ(weft_close(second[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_splice(from, NULL, to, NULL, 1, false, WEFT_FOREVER), -EINVAL); /* not a pipe */
    CHECK_EQ(weft_splice(-1, NULL, to, NULL, 1, false, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_close(from), 0);
    CHECK_EQ(weft_close(to), 0);
    return arg;
}

EACH_DRIVER(splice_moves_bytes_through_pipe)
{
    on(driver, splices);
}
