/* poll, select and epoll_wait: waits for several descriptors.
 *
 * The real call with timeout 0 finds the ready descriptors. If none is ready, a single descriptor
 * is waited for directly; several are added to an epoll set of the call's own, which is waited for.
 * Then the real call is made again, so that the reported result is always the kernel's.
 *
 * A call with a signal mask runs on a thread of the blocking pool: a signal that the mask lets
 * through ends it there, as it would here.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"
#include "hook/socket.h"
#include "hook/wait.h"

/* The epoll set to wait for between two checks. */
struct poll_set {
    int epoll; /* -1: it could not be created */
    unsigned tries;
};

static void poll_set_open(struct poll_set *poll_set)
{
    poll_set->tries = 0;
    poll_set->epoll = weft__real()->epoll_create1(EPOLL_CLOEXEC);
    if (poll_set->epoll >= 0) {
        weft__hook_fd_forget(poll_set->epoll);
    }
}

static void poll_set_close(const struct poll_set *poll_set)
{
    int before = errno;
    if (poll_set->epoll >= 0) {
        weft_close(poll_set->epoll);
    }
    errno = before;
}

/* Add a descriptor; if it is in the set already, the set gets all its events. A descriptor that
 * cannot be added is a file, which is always ready, or closed: the check finds both. */
static void poll_set_add(const struct poll_set *poll_set, int fd, uint32_t events, uint32_t all)
{
    struct epoll_event event = {.events = events};
    if (poll_set->epoll >= 0 && epoll_ctl(poll_set->epoll, EPOLL_CTL_ADD, fd, &event) != 0 &&
        errno == EEXIST) {
        event.events = all;
        epoll_ctl(poll_set->epoll, EPOLL_CTL_MOD, fd, &event);
    }
}

/* Returns 0: check again; -ETIMEDOUT, -ECANCELED, -EINTR; other errors: the call cannot wait as a
 * fiber. */
static int poll_set_wait(struct poll_set *poll_set, int64_t deadline)
{
    if (poll_set->epoll < 0) {
        int err = weft__hook_pause(poll_set->tries++, deadline);
        return err ? err : weft_now() >= deadline ? -ETIMEDOUT : 0;
    }
    int err = weft_fd_wait(poll_set->epoll, WEFT_READABLE, deadline);
    return err > 0 ? 0 : err;
}

static bool is_interrupted(int err)
{
    return err == -ECANCELED || err == -EINTR;
}

/* --- poll ------------------------------------------------------------------------------------- */

static uint32_t events_of(const struct pollfd *fds, nfds_t count, int fd)
{
    uint32_t events = 0;
    for (nfds_t i = 0; i < count; i++) {
        events |= fds[i].fd == fd ? (uint16_t)fds[i].events : 0;
    }
    return events;
}

static int poll_now(struct pollfd *fds, nfds_t count)
{
    int n;
    do {
        n = weft__real()->poll(fds, count, 0);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* The real call with the remaining time; blocks the thread. */
static int poll_blocking(struct pollfd *fds, nfds_t count, int64_t deadline)
{
    struct timespec left = weft__hook_remaining(deadline);
    return weft__real()->ppoll(fds, count, deadline == WEFT_FOREVER ? NULL : &left, NULL);
}

/* The usual case of a library with one connection: no epoll set is needed. */
static int poll_one(struct pollfd *one, int64_t deadline)
{
    for (;;) {
        int err = weft__hook_wait(one->fd, one->events, deadline);
        int n = poll_now(one, 1);
        if (n != 0 || err == -ETIMEDOUT) {
            weft__hook_keep_interrupt(err);
            return n;
        }
        if (is_interrupted(err)) {
            return weft__hook_fail(err);
        }
        if (err && err != -EBADFD) {
            return poll_blocking(one, 1, deadline);
        }
    }
}

static int poll_many(struct pollfd *fds, nfds_t count, int64_t deadline)
{
    struct poll_set poll_set;
    poll_set_open(&poll_set);
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].fd >= 0) {
            poll_set_add(&poll_set, fds[i].fd, (uint16_t)fds[i].events,
                         events_of(fds, count, fds[i].fd));
        }
    }
    int n, err;
    do {
        err = poll_set_wait(&poll_set, deadline);
        n = poll_now(fds, count);
    } while (n == 0 && err == 0);
    poll_set_close(&poll_set);
    if (n == 0 && is_interrupted(err)) {
        return weft__hook_fail(err);
    }
    weft__hook_keep_interrupt(err);
    return n == 0 && err != -ETIMEDOUT ? poll_blocking(fds, count, deadline) : n;
}

static int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline)
{
    int n = poll_now(fds, count);
    if (n != 0 || weft_now() >= deadline) {
        return n;
    }
    if (count == 1 && fds[0].fd >= 0) {
        return poll_one(fds, deadline);
    }
    return poll_many(fds, count, deadline);
}

WEFT__HOOK int poll(struct pollfd *fds, nfds_t count, int ms)
{
    if (ms == 0 || !weft__hook_begin() || !weft__hook_is_own_process()) {
        return weft__real()->poll(fds, count, ms);
    }
    return poll_until(fds, count, weft__hook_after_ms(ms));
}

struct ppoll_job {
    struct pollfd *fds;
    nfds_t count;
    const struct timespec *timeout;
    const sigset_t *mask;
    int result;
};

static void ppoll_plain(void *arg)
{
    struct ppoll_job *job = arg;
    job->result = weft__real()->ppoll(job->fds, job->count, job->timeout, job->mask);
}

WEFT__HOOK int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                     const sigset_t *mask)
{
    struct ppoll_job job = {
        .fds = fds, .count = count, .timeout = timeout, .mask = mask, .result = -1};
    bool use_real = !weft__hook_begin() || !weft__hook_is_own_process() ||
                    (timeout && !weft__hook_is_valid_time(timeout));
    if (!use_real && !mask) {
        return poll_until(fds, count, weft__hook_after(timeout));
    }
    if (!use_real && weft__hook_run_blocking(ppoll_plain, &job, &use_real)) {
        return job.result;
    }
    if (use_real) {
        ppoll_plain(&job);
    }
    return job.result;
}

WEFT__HOOK int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size)
{
    weft__hook_check_size(count, size / sizeof *fds);
    return poll(fds, count, ms);
}

WEFT__HOOK int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                           const sigset_t *mask, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t size)
{
    weft__hook_check_size(count, size / sizeof *fds);
    return ppoll(fds, count, timeout, mask);
}

/* --- select ----------------------------------------------------------------------------------- */

#define LONG_BITS (8 * sizeof(long))
#define SETS 3

/* The user's sets, and copies of them from the beginning of the call. */
struct sets {
    int count;    /* number of descriptors */
    size_t bytes; /* bytes of each set */
    long *set[SETS];
    long *requested[SETS];
    long few[SETS][FD_SETSIZE / LONG_BITS]; /* memory of the copies, unless they are larger */
};

static bool has(const long *set, int fd)
{
    return set && ((unsigned long)set[(unsigned)fd / LONG_BITS] >> (unsigned)fd % LONG_BITS & 1);
}

static void restore(const struct sets *sets)
{
    for (int i = 0; i < SETS; i++) {
        if (sets->set[i]) {
            memcpy(sets->set[i], sets->requested[i], sets->bytes);
        }
    }
}

static int poll_sets(const struct sets *sets)
{
    int n;
    do {
        struct timeval none = {0};
        restore(sets);
        n = weft__real()->select(sets->count, (void *)sets->set[0], (void *)sets->set[1],
                                 (void *)sets->set[2], &none);
    } while (n < 0 && errno == EINTR);
    return n;
}

static int select_blocking(const struct sets *sets, int64_t deadline)
{
    struct timespec left = weft__hook_remaining(deadline);
    restore(sets);
    return weft__real()->pselect(sets->count, (void *)sets->set[0], (void *)sets->set[1],
                                 (void *)sets->set[2], deadline == WEFT_FOREVER ? NULL : &left,
                                 NULL);
}

static int select_until(const struct sets *sets, int64_t deadline)
{
    static const uint32_t events[SETS] = {EPOLLIN, EPOLLOUT, EPOLLPRI};
    int n = poll_sets(sets);
    if (n != 0 || weft_now() >= deadline) {
        return n;
    }
    struct poll_set poll_set;
    poll_set_open(&poll_set);
    for (int fd = 0; fd < sets->count; fd++) {
        uint32_t wanted = 0;
        for (int i = 0; i < SETS; i++) {
            wanted |= has(sets->requested[i], fd) ? events[i] : 0;
        }
        if (wanted) {
            poll_set_add(&poll_set, fd, wanted, wanted);
        }
    }
    int err;
    do {
        err = poll_set_wait(&poll_set, deadline);
        n = poll_sets(sets);
        if (n == 0 && err == 0) {
            /* The event that ends an epoll wait, an error, may be none that select was asked
             * for. */
            err = weft__hook_pause(poll_set.tries++, deadline);
        }
    } while (n == 0 && err == 0);
    poll_set_close(&poll_set);
    if (n == 0 && is_interrupted(err)) {
        restore(sets);
        return weft__hook_fail(err);
    }
    weft__hook_keep_interrupt(err);
    return n == 0 && err != -ETIMEDOUT && weft_now() < deadline ? select_blocking(sets, deadline)
                                                                : n;
}

static int select_copied(struct sets *sets, int64_t deadline)
{
    long *many = NULL;
    sets->bytes = ((size_t)sets->count + LONG_BITS - 1) / LONG_BITS * sizeof(long);
    if (sets->bytes > sizeof sets->few[0]) {
        many = malloc(SETS * sets->bytes);
        if (!many) {
            errno = ENOMEM;
            return -1;
        }
    }
    for (size_t i = 0; i < SETS; i++) {
        long *copy = many ? many + i * (sets->bytes / sizeof(long)) : sets->few[i];
        sets->requested[i] = sets->set[i] ? copy : NULL;
        if (sets->set[i]) {
            memcpy(copy, sets->set[i], sets->bytes);
        }
    }
    int n = select_until(sets, deadline);
    int before = errno;
    free(many);
    errno = before;
    return n;
}

/* The size of the process's descriptor table, as the kernel reports it; INT_MAX: unknown. */
static int table_size(void)
{
    char text[1024];
    int before = errno, size = INT_MAX;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? weft__real()->read(fd, text, sizeof text - 1) : -1;
    if (n > 0) {
        text[n] = 0;
        const char *line = strstr(text, "\nFDSize:");
        size = line ? atoi(line + sizeof "\nFDSize:" - 1) : INT_MAX;
    }
    if (fd >= 0) {
        weft__real()->close(fd);
    }
    errno = before;
    return size > 0 ? size : INT_MAX;
}

/* Some programs pass the descriptor limit as the count, however small their sets are. The kernel
 * reads no more numbers than its table has, and the memory after them must not be touched. */
static int clamped(int count)
{
    int most = count > FD_SETSIZE ? table_size() : count;
    return count < most ? count : most;
}

static int select_of(int count, fd_set *in, fd_set *out, fd_set *except, int64_t deadline)
{
    struct sets sets;
    sets.count = clamped(count);
    sets.set[0] = (void *)in;
    sets.set[1] = (void *)out;
    sets.set[2] = (void *)except;
    return select_copied(&sets, deadline);
}

/* Linux writes the remaining time. */
WEFT__HOOK int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
    bool use_real = count < 0 || !weft__hook_begin() || !weft__hook_is_own_process() ||
                    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0));
    if (use_real || (timeout && timeout->tv_sec == 0 && timeout->tv_usec == 0)) {
        return weft__real()->select(count, in, out, except, timeout);
    }
    int64_t deadline = WEFT_FOREVER;
    if (timeout) {
        struct timespec time = {.tv_sec =
                                    weft__clock_add(timeout->tv_sec, timeout->tv_usec / 1000000),
                                .tv_nsec = timeout->tv_usec % 1000000 * 1000};
        deadline = weft__hook_after(&time);
    }
    int n = select_of(count, in, out, except, deadline);
    if (timeout) {
        struct timespec left = weft__hook_remaining(deadline);
        *timeout = (struct timeval){.tv_sec = left.tv_sec, .tv_usec = left.tv_nsec / 1000};
    }
    return n;
}

struct pselect_job {
    int count, result;
    fd_set *in, *out, *except;
    const struct timespec *timeout;
    const sigset_t *mask;
};

static void pselect_plain(void *arg)
{
    struct pselect_job *job = arg;
    job->result =
        weft__real()->pselect(job->count, job->in, job->out, job->except, job->timeout, job->mask);
}

WEFT__HOOK int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
                       const struct timespec *timeout, const sigset_t *mask)
{
    struct pselect_job job = {.count = count,
                              .result = -1,
                              .in = in,
                              .out = out,
                              .except = except,
                              .timeout = timeout,
                              .mask = mask};
    bool use_real = count < 0 || !weft__hook_begin() || !weft__hook_is_own_process() ||
                    (timeout && !weft__hook_is_valid_time(timeout));
    if (!use_real && !mask) {
        return select_of(count, in, out, except, weft__hook_after(timeout));
    }
    if (!use_real && weft__hook_run_blocking(pselect_plain, &job, &use_real)) {
        return job.result;
    }
    if (use_real) {
        pselect_plain(&job);
    }
    return job.result;
}

/* --- epoll ------------------------------------------------------------------------------------ */

static int epoll_until(int fd, struct epoll_event *events, int count, int64_t deadline)
{
    for (;;) {
        int n = weft__real()->epoll_wait(fd, events, count, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n != 0 || weft_now() >= deadline) {
            return n;
        }
        weft__hook_fd_verify(fd);
        int err = weft_fd_wait(fd, WEFT_READABLE, deadline);
        if (err == -ETIMEDOUT) {
            return 0;
        }
        if (is_interrupted(err) || err == -EBADFD) {
            return weft__hook_fail(err);
        }
        if (err < 0) {
            struct timespec left = weft__hook_remaining(deadline);
            return weft__real()->epoll_pwait2(fd, events, count,
                                              deadline == WEFT_FOREVER ? NULL : &left, NULL);
        }
    }
}

WEFT__HOOK int epoll_wait(int fd, struct epoll_event *events, int count, int ms)
{
    if (ms == 0 || !weft__hook_begin() || !weft__hook_is_own_process()) {
        return weft__real()->epoll_wait(fd, events, count, ms);
    }
    return epoll_until(fd, events, count, weft__hook_after_ms(ms));
}

struct epoll_job {
    int fd, count, ms, result;
    const struct timespec *timeout; /* instead of ms, if not NULL */
    struct epoll_event *events;
    const sigset_t *mask;
};

static void epoll_plain(void *arg)
{
    struct epoll_job *job = arg;
    job->result =
        job->timeout
            ? weft__real()->epoll_pwait2(job->fd, job->events, job->count, job->timeout, job->mask)
            : weft__real()->epoll_pwait(job->fd, job->events, job->count, job->ms, job->mask);
}

static int epoll_masked(struct epoll_job *job)
{
    bool use_real = !weft__hook_begin() || !weft__hook_is_own_process();
    if (!use_real && weft__hook_run_blocking(epoll_plain, job, &use_real)) {
        return job->result;
    }
    if (use_real) {
        epoll_plain(job);
    }
    return job->result;
}

WEFT__HOOK int epoll_pwait(int fd, struct epoll_event *events, int count, int ms,
                           const sigset_t *mask)
{
    struct epoll_job job = {
        .fd = fd, .count = count, .ms = ms, .result = -1, .events = events, .mask = mask};
    return mask ? epoll_masked(&job) : epoll_wait(fd, events, count, ms);
}

WEFT__HOOK int epoll_pwait2(int fd, struct epoll_event *events, int count,
                            const struct timespec *timeout, const sigset_t *mask)
{
    struct epoll_job job = {.fd = fd,
                            .count = count,
                            .ms = -1,
                            .result = -1,
                            .timeout = timeout,
                            .events = events,
                            .mask = mask};
    bool wrong = timeout && !weft__hook_is_valid_time(timeout);
    if (mask || wrong || !weft__hook_begin() || !weft__hook_is_own_process()) {
        return epoll_masked(&job);
    }
    return epoll_until(fd, events, count, weft__hook_after(timeout));
}
