/* connect and accept: the calls that have no flag to make them non-blocking. The socket is made
 * non-blocking for them, invisibly to the user: for a connect until the connect has started, for a
 * listener from the first accept by a fiber on. A plain thread that accepts on such a listener
 * waits in poll. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"
#include "hook/wait.h"

/* --- connect ---------------------------------------------------------------------------------- */

struct limits {
    int64_t socket;  /* SO_SNDTIMEO */
    int64_t process; /* weft_hook_connect_timeout */
};

static int64_t nearer(const struct limits *limits)
{
    return limits->socket < limits->process ? limits->socket : limits->process;
}

/* Returns -1; errno is `mine` for the socket's own timeout, as the kernel sets it. */
static int timed_out(const struct limits *limits, int mine)
{
    errno = limits->socket < limits->process ? mine : ETIMEDOUT;
    return -1;
}

/* The connect is in progress. When it is over, the same call returns its result and ends the
 * connecting state of the socket. */
static int finish(int fd, const struct sockaddr *addr, socklen_t len, const struct limits *limits)
{
    int err = weft__hook_wait(fd, POLLOUT, nearer(limits));
    if (err == -ETIMEDOUT) {
        return timed_out(limits, EINPROGRESS);
    }
    if (err == -ECANCELED || err == -EINTR || err == -EBADFD || err == -EBADF) {
        return weft__hook_fail(err);
    }
    /* Another error: the call cannot wait as a fiber, and blocks the thread. */
    int result;
    do {
        result = weft__real()->connect(fd, addr, len);
    } while (result < 0 && errno == EINTR);
    return result;
}

static int begin(int fd, const struct sockaddr *addr, socklen_t len)
{
    if (!weft__hook_fd_force_nonblocking(fd)) {
        return weft__real()->connect(fd, addr, len);
    }
    int result = weft__real()->connect(fd, addr, len);
    int err = errno;
    weft__hook_fd_restore_blocking(fd);
    errno = err == EINTR ? EINPROGRESS : err;
    return result;
}

WEFT__HOOK int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
    if (!weft__hook_begin() || weft__hook_fd_is_nonblocking(fd)) {
        return weft__real()->connect(fd, addr, len);
    }
    int64_t most = weft_hook_connect_timeout(-1);
    struct limits limits = {.socket = weft__hook_deadline(fd, POLLOUT),
                            .process = most ? weft_after(most) : WEFT_FOREVER};
    for (unsigned tries = 0;; tries++) {
        int result = begin(fd, addr.__sockaddr__, len);
        if (result == 0 || (errno != EINPROGRESS && errno != EAGAIN)) {
            return result;
        }
        if (errno == EINPROGRESS) {
            return finish(fd, addr.__sockaddr__, len, &limits);
        }
        /* A Unix socket whose listener's backlog is full: no event reports when there is space. */
        int err = weft__hook_pause(tries, nearer(&limits));
        if (err) {
            return weft__hook_fail(err);
        }
        if (weft_now() >= nearer(&limits)) {
            return timed_out(&limits, EAGAIN);
        }
    }
}

/* --- accept ----------------------------------------------------------------------------------- */

/* True: try again. */
static bool accept_wait(struct weft__hook_io *io)
{
    if (weft__hook_begin()) {
        enum weft__hook_next next = weft__hook_io_wait(io);
        if (next != WEFT__HOOK_USE_REAL) {
            return next == WEFT__HOOK_AGAIN;
        }
    } else if (!weft__hook_fd_if_forced(io->fd) || weft__hook_fd_is_nonblocking(io->fd)) {
        return false; /* the real call's result: no connection, or its timeout has passed */
    }
    /* A plain thread, on a listener that fibers use too. */
    weft__hook_io_can_block(io);
    struct timespec left = weft__hook_remaining(io->deadline);
    struct pollfd pfd = {.fd = io->fd, .events = POLLIN};
    int n = weft__real()->ppoll(&pfd, 1, io->deadline == WEFT_FOREVER ? NULL : &left, NULL);
    if (n == 0) {
        errno = EAGAIN;
    }
    return n > 0;
}

static bool is_listener(int fd)
{
    int is = 0;
    socklen_t len = sizeof is;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) == 0 && is;
}

static int accept_as(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    struct weft__hook_io io = {.fd = fd, .events = POLLIN};
    int result;
    if (weft__hook_begin() && is_listener(fd)) {
        weft__hook_fd_force_nonblocking(fd);
    }
    do {
        result = weft__real()->accept4(fd, addr, len, flags);
    } while (result < 0 &&
             ((errno == EINTR && weft__hook_begin()) || (errno == EAGAIN && accept_wait(&io))));
    if (result >= 0) {
        int before = errno;
        weft__hook_fd_forget(result);
        errno = before;
    }
    return result;
}

WEFT__HOOK int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags)
{
    return accept_as(fd, addr.__sockaddr__, len, flags);
}

WEFT__HOOK int accept(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
    return accept_as(fd, addr.__sockaddr__, len, 0);
}
