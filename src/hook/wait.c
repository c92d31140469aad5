#include "hook/wait.h"

#include <errno.h>
#include <sys/time.h>

#include <weft/blocking.h>
#include <weft/io.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"

#define NS_PER_MS 1000000
#define FIRST_PAUSE_NS INT64_C(50000)
#define LONGEST_PAUSE_NS INT64_C(10000000)

/* --- time ------------------------------------------------------------------------------------- */

bool weft__hook_is_valid_time(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < WEFT__NS_PER_S;
}

static int64_t ns_of(const struct timespec *time)
{
    return time->tv_sec < 0 ? 0
           : time->tv_sec >= INT64_MAX / WEFT__NS_PER_S
               ? INT64_MAX
               : (int64_t)time->tv_sec * WEFT__NS_PER_S + time->tv_nsec;
}

int64_t weft__hook_after(const struct timespec *time)
{
    return time ? weft_after(ns_of(time)) : WEFT_FOREVER;
}

int64_t weft__hook_after_ms(int ms)
{
    return ms < 0 ? WEFT_FOREVER : weft_after((int64_t)ms * NS_PER_MS);
}

int64_t weft__hook_at(clockid_t clock, const struct timespec *time)
{
    struct timespec now;
    if (clock == CLOCK_MONOTONIC || clock_gettime(clock, &now) != 0) {
        int64_t at = ns_of(time), moment = weft_now();
        return at > moment ? at : moment; /* any time is valid, also one long past */
    }
    return weft_after(ns_of(time) - ns_of(&now));
}

struct timespec weft__hook_remaining(int64_t deadline)
{
    int64_t now = weft_now();
    int64_t left = deadline > now ? deadline - now : 0;
    return (struct timespec){.tv_sec = left / WEFT__NS_PER_S, .tv_nsec = left % WEFT__NS_PER_S};
}

/* --- a descriptor ----------------------------------------------------------------------------- */

/* libweft would make a pipe or a terminal non-blocking, for all processes that share it. So the
 * fiber waits for an epoll set that contains the descriptor. */
static int wait_by_epoll(int fd, short events, int64_t deadline)
{
    int epoll = weft__real()->epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = (uint16_t)events};
    if (epoll < 0) {
        return -EOPNOTSUPP;
    }
    weft__hook_fd_forget(epoll);
    int err = -EOPNOTSUPP; /* EPERM: always ready */
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
        err = weft_fd_wait(epoll, WEFT_READABLE, deadline);
    }
    weft_close(epoll);
    return err > 0 ? 0 : err;
}

int weft__hook_wait(int fd, short events, int64_t deadline)
{
    int before = errno;
    if (!weft__hook_is_own_process()) {
        return -EOPNOTSUPP;
    }
    weft__hook_fd_verify(fd);
    bool socket = (weft__hook_fd_flags(fd) & WEFT__HOOK_KIND) == WEFT__HOOK_SOCKET;
    int err;
    if (socket && (events == POLLIN || events == POLLOUT)) {
        err = weft_fd_wait(fd, events == POLLIN ? WEFT_READABLE : WEFT_WRITABLE, deadline);
    } else {
        err = wait_by_epoll(fd, events, deadline);
    }
    errno = before;
    return err > 0 ? 0 : err;
}

int64_t weft__hook_deadline(int fd, short events)
{
    struct timeval time = {0};
    socklen_t len = sizeof time;
    if (getsockopt(fd, SOL_SOCKET, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &time, &len) !=
            0 ||
        (time.tv_sec == 0 && time.tv_usec == 0)) {
        return WEFT_FOREVER;
    }
    struct timespec after = {.tv_sec = time.tv_sec, .tv_nsec = time.tv_usec * 1000};
    return weft__hook_after(&after);
}

bool weft__hook_io_can_block(struct weft__hook_io *io)
{
    if (!io->has_deadline && !weft__hook_fd_is_nonblocking(io->fd)) {
        io->deadline = weft__hook_deadline(io->fd, io->events);
        io->has_deadline = true;
    }
    return io->has_deadline;
}

enum weft__hook_next weft__hook_io_wait(struct weft__hook_io *io)
{
    if (!weft__hook_io_can_block(io)) {
        errno = EAGAIN;
        return WEFT__HOOK_FAILED;
    }
    int err = weft__hook_wait(io->fd, io->events, io->deadline);
    io->ended = err == -EINTR;
    switch (err) {
    case 0:
        return WEFT__HOOK_AGAIN;
    case -ETIMEDOUT:
        errno = EAGAIN;
        return WEFT__HOOK_FAILED;
    case -ECANCELED:
    case -EINTR:
    case -EBADFD:
    case -EBADF:
        weft__hook_fail(err);
        return WEFT__HOOK_FAILED;
    default:
        return WEFT__HOOK_USE_REAL;
    }
}

void weft__hook_keep_interrupt(int err)
{
    if (err == -EINTR) {
        weft_fiber_interrupt(weft_self());
    }
}

ssize_t weft__hook_io_finish(struct weft__hook_io *io, size_t bytes)
{
    weft__hook_keep_interrupt(io->ended ? -EINTR : 0);
    io->ended = false;
    return (ssize_t)bytes;
}

int weft__hook_pause(unsigned tries, int64_t deadline)
{
    int64_t ns = tries < 8 ? FIRST_PAUSE_NS << tries : LONGEST_PAUSE_NS;
    int64_t until = weft_after(ns < LONGEST_PAUSE_NS ? ns : LONGEST_PAUSE_NS);
    return weft_sleep(until < deadline ? until : deadline);
}

/* --- another thread --------------------------------------------------------------------------- */

struct job {
    void (*run)(void *arg);
    void *arg;
    int error;
};

static void *run_job(void *arg)
{
    struct job *job = arg;
    errno = 0;
    job->run(job->arg);
    job->error = errno;
    return NULL;
}

bool weft__hook_run_blocking(void (*run)(void *arg), void *arg, bool *use_real)
{
    struct job job = {.run = run, .arg = arg};
    int before = errno;
    *use_real = !weft__hook_is_own_process();
    int err = *use_real ? 0 : weft_blocking_call(NULL, NULL, run_job, &job, WEFT_FOREVER);
    if (err == 0 && !*use_real) {
        errno = job.error ? job.error : before;
        return true;
    }
    *use_real = *use_real || (err != -ECANCELED && err != -EINTR);
    errno = before;
    if (!*use_real) {
        weft__hook_fail(err);
    }
    return false;
}
