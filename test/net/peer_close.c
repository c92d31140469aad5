/* Peers that close or reset after every number of bytes, and writes that no peer reads: no SIGPIPE
 * is raised. */
/* labels: valgrind */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "io/drivers.h"

#define BYTES 40

static void on(enum weft_driver driver, unsigned workers, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

static void tcp_pair(int pair[2])
{
    struct weft_addr addr;
    int fd = weft_listen("127.0.0.1:0", NULL);
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    pair[0] = weft_connect(&addr, WEFT_FOREVER);
    pair[1] = weft_accept(fd, NULL, WEFT_FOREVER);
    CHECK(pair[0] >= 0 && pair[1] >= 0);
    CHECK_EQ(weft_close(fd), 0);
}

struct half {
    int fd, bytes;
    bool reset;
};

/* Writes this many bytes, one by one, then closes. */
static void *ends_after(void *arg)
{
    struct half *h = arg;
    for (int i = 0; i < h->bytes; i++) {
        char byte = (char)i;
        CHECK_EQ(weft_write(h->fd, &byte, 1, WEFT_FOREVER), 1);
    }
    if (h->reset) {
        CHECK_EQ(weft_set_linger(h->fd, 0), 0);
    }
    CHECK_EQ(weft_close(h->fd), 0);
    return NULL;
}

static void *at_every_byte(void *arg)
{
    for (int bytes = 0; bytes <= BYTES; bytes++) {
        for (int kind = 0; kind < 3; kind++) { /* Unix, TCP, TCP with a reset */
            int pair[2];
            char buf[BYTES];
            size_t done;
            weft_fiber fiber;
            if (kind == 0) {
                CHECK_EQ(weft_socketpair(SOCK_STREAM, pair), 0);
            } else {
                tcp_pair(pair);
            }
            struct half h = {.fd = pair[0], .bytes = bytes, .reset = kind == 2};
            CHECK_EQ(weft_spawn(&fiber, ends_after, &h, NULL), 0);
            int err = weft_read_full(pair[1], buf, BYTES, &done, weft_after(60000000000));
            for (size_t i = 0; i < done; i++) {
                CHECK_EQ(buf[i], i);
            }
            if (kind == 2) { /* a reset may overtake unread data */
                CHECK(err == -ECONNRESET || (err == 0 && bytes == BYTES));
            } else {
                CHECK_EQ(done, bytes);
                CHECK_EQ(err, bytes == BYTES ? 0 : -ENODATA);
            }
            CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
            CHECK_EQ(weft_close(pair[1]), 0);
        }
    }
    return arg;
}

EACH_DRIVER(peer_closing_after_any_byte_count_is_handled)
{
    on(driver, 1, at_every_byte);
    on(driver, 2, at_every_byte);
}

/* Reads this many bytes, then closes; the other side writes more than any buffer holds. */
static void *stops_reading(void *arg)
{
    struct half *h = arg;
    char byte;
    for (int i = 0; i < h->bytes; i++) {
        CHECK_EQ(weft_read(h->fd, &byte, 1, WEFT_FOREVER), 1);
    }
    CHECK_EQ(weft_close(h->fd), 0);
    return NULL;
}

static void *writes_to_leaver(void *arg)
{
    static char large[8 << 20];
    for (int bytes = 0; bytes <= BYTES; bytes += 5) {
        for (int kind = 0; kind < 3; kind++) { /* Unix, TCP, a pipe */
            int pair[2];
            weft_fiber fiber;
            if (kind == 0) {
                CHECK_EQ(weft_socketpair(SOCK_STREAM, pair), 0);
            } else if (kind == 1) {
                tcp_pair(pair);
            } else {
                int ends[2];
                CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
                pair[0] = ends[0];
                pair[1] = ends[1];
            }
            struct half h = {.fd = pair[0], .bytes = bytes};
            CHECK_EQ(weft_spawn(&fiber, stops_reading, &h, NULL), 0);
            int err = weft_write_all(pair[1], large, sizeof large, NULL, weft_after(60000000000));
            CHECK(err == -EPIPE || (err == -ECONNRESET && kind == 1));
            CHECK_EQ(weft_write(pair[1], large, 1, WEFT_FOREVER), -EPIPE);
            CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
            CHECK_EQ(weft_close(pair[1]), 0);
        }
    }
    return arg;
}

EACH_DRIVER(write_to_closed_peer_returns_epipe_without_signal)
{
    on(driver, 1, writes_to_leaver); /* on the program's own thread, where SIGPIPE would kill the
                                      * process */
    on(driver, 2, writes_to_leaver);
}

/* --- SIGPIPE ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static void broken_write(void)
{
    int ends[2];
    char byte = 0;
    struct iovec iov[2] = {{&byte, 1}, {&byte, 1}};
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_write(ends[1], &byte, 1, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_writev(ends[1], iov, 2, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_close(ends[1]), 0);
}

static bool is_pending(void)
{
    sigset_t set;
    CHECK_EQ(sigpending(&set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

/* The program's handler stays installed; Weft's writes do not trigger it, other writes do. */
static void *with_handler(void *arg)
{
    sigset_t pipe, old;
    broken_write();
    CHECK_EQ(signals, 0);
    CHECK_EQ(raise(SIGPIPE), 0);
    CHECK_EQ(signals, 1);
    /* Blocked by the program: Weft leaves no SIGPIPE pending, and consumes none of the
     * program's. */
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &pipe, &old), 0);
    broken_write();
    CHECK(!is_pending());
    CHECK_EQ(raise(SIGPIPE), 0);
    broken_write();
    CHECK(is_pending());
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
    CHECK_EQ(signals, 2);
    return arg;
}

EACH_DRIVER(sigpipe_handler_of_program_is_kept)
{
    struct sigaction action = {.sa_handler = count}, old, now;
    signals = 0;
    CHECK_EQ(sigaction(SIGPIPE, &action, &old), 0);
    on(driver, 1, with_handler);
    CHECK_EQ(sigaction(SIGPIPE, &old, &now), 0);
    CHECK(now.sa_handler == count);
}

/* As on a kernel before 6.18, whose pwritev2 has no flag against SIGPIPE. Returns false if this
 * kernel cannot be made to behave so. */
static bool forget_flag(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwritev2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void with_old_kernel(void *arg)
{
    struct sigaction action = {.sa_handler = count};
    enum weft_driver driver = *(enum weft_driver *)arg;
    if (!forget_flag()) {
        return;
    }
    signals = 0;
    CHECK_EQ(sigaction(SIGPIPE, &action, NULL), 0);
    on(driver, 1, with_handler);
    on(driver, 2, writes_to_leaver);
    CHECK_EQ(signals, 2);
}

EACH_DRIVER(write_to_closed_peer_on_old_kernel_raises_no_sigpipe)
{
    char err[CHECK_ERR];
    int status = check_child(with_old_kernel, &driver, err, sizeof err);
    if (status != 0) {
        check_fail(__FILE__, __LINE__, "%s", err);
    }
}

TEST(write_to_closed_peer_in_plain_thread_raises_no_sigpipe)
{
    broken_write();
}
