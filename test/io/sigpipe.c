/* The fallback for older kernels: SIGPIPE is blocked around a call, and nothing else changes. */
/* labels: valgrind */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "check.h"
#include "io/sigpipe.h"

static volatile sig_atomic_t signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static bool is_pending(void)
{
    sigset_t set;
    CHECK_EQ(sigpending(&set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static bool is_blocked(void)
{
    sigset_t set;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static void block(int how)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    CHECK_EQ(pthread_sigmask(how, &pipe, NULL), 0);
}

static void broken_write(void)
{
    int ends[2];
    struct weft__sigpipe_guard quiet;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQ(close(ends[0]), 0);
    weft__sigpipe_block(&quiet);
    ssize_t n = write(ends[1], "x", 1);
    weft__sigpipe_restore(&quiet, n < 0 && errno == EPIPE);
    CHECK(n < 0 && errno == EPIPE);
    CHECK_EQ(close(ends[1]), 0);
}

TEST(write_to_closed_pipe_raises_no_sigpipe)
{
    broken_write(); /* it would have killed the process */
    CHECK(!is_blocked());
    CHECK(!is_pending());
}

TEST(sigpipe_pending_before_write_stays_pending)
{
    struct sigaction action = {.sa_handler = count}, old;
    CHECK_EQ(sigaction(SIGPIPE, &action, &old), 0);
    block(SIG_BLOCK);
    broken_write();
    CHECK(!is_pending());
    CHECK_EQ(raise(SIGPIPE), 0);
    broken_write();
    CHECK(is_pending());
    CHECK(is_blocked());
    CHECK_EQ(signals, 0);
    block(SIG_UNBLOCK);
    CHECK_EQ(signals, 1);
    CHECK_EQ(sigaction(SIGPIPE, &old, NULL), 0);
}

TEST(successful_call_restores_signal_mask)
{
    struct weft__sigpipe_guard quiet;
    errno = 77;
    weft__sigpipe_block(&quiet);
    CHECK(is_blocked());
    weft__sigpipe_restore(&quiet, false);
    CHECK(!is_blocked());
}
