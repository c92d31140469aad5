/* Readiness by poll: the simplest driver. Every wait passes all descriptors that have waiters to
 * the kernel again. It also tests the driver interface: code that works with this driver does not
 * depend on a peculiarity of epoll. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/driver.h"
#include "io/edge.h"

#define INITIAL_CAPACITY 64
#define NO_MEMORY_RETRY_NS 10000000 /* retry interval when there is no memory for all of them */

struct poll_driver {
    struct weft__driver base;
    struct weft__fd *records; /* the records that this driver serves; under the base's lock */
    size_t count;
    /* Used by the driver's thread: the arguments of the last poll. */
    struct pollfd *pollfds;
    uint32_t *generations;
    size_t used, capacity;
    int poll_result;       /* the result of that poll; 0: nothing to dispatch */
    _Atomic(bool) waiting; /* from before the descriptors are collected until the poll returns */
    /* For a driver in a host's loop: an epoll that becomes readable when anything may change the
     * result of a poll. No other use is made of its events; -1: none. */
    int mirror;
    _Atomic(pthread_t) thread; /* the thread that waited last */
};

static struct poll_driver *of(struct weft__driver *driver)
{
    return (struct poll_driver *)(void *)driver;
}

static void grow(struct poll_driver *d, size_t capacity)
{
    struct pollfd *pollfds = realloc(d->pollfds, capacity * sizeof *pollfds);
    d->pollfds = pollfds ? pollfds : d->pollfds;
    uint32_t *generations = realloc(d->generations, capacity * sizeof *generations);
    d->generations = generations ? generations : d->generations;
    d->capacity = pollfds && generations ? capacity : d->capacity;
}

/* --- the mirror epoll ------------------------------------------------------------------ */

static int mirror_add(const struct poll_driver *d, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLET};
    if (d->mirror < 0 || epoll_ctl(d->mirror, EPOLL_CTL_ADD, fd, &event) == 0 ||
        (errno == EEXIST && epoll_ctl(d->mirror, EPOLL_CTL_MOD, fd, &event) == 0)) {
        return 0;
    }
    return -errno;
}

/* Called before the poll: anything that happens after it makes the mirror readable again. */
static void mirror_clear(const struct poll_driver *d)
{
    struct epoll_event events[64];
    while (d->mirror >= 0 && epoll_wait(d->mirror, events, 64, 0) == 64) {
    }
}

static int mirror_open(struct poll_driver *d)
{
    d->mirror = epoll_create1(EPOLL_CLOEXEC);
    int err = d->mirror < 0 ? -errno : mirror_add(d, d->base.wake_fd, EPOLLIN);
    if (err && d->mirror >= 0) {
        close(d->mirror);
    }
    d->base.poll_fd = err ? -1 : d->mirror;
    return err;
}

/* --- the driver interface -------------------------------------------------------------- */

static int poll_open(struct weft__driver *driver, bool any_thread)
{
    struct poll_driver *d = of(driver);
    d->mirror = -1;
    grow(d, INITIAL_CAPACITY);
    int err = !d->capacity ? -ENOMEM : any_thread ? mirror_open(d) : 0;
    if (err) {
        free(d->pollfds);
        free(d->generations);
    }
    return err;
}

static void poll_close(struct weft__driver *driver)
{
    struct poll_driver *d = of(driver);
    if (d->mirror >= 0) {
        close(d->mirror);
    }
    free(d->pollfds);
    free(d->generations);
}

static int poll_watch(struct weft__driver *driver, struct weft__fd *record)
{
    struct poll_driver *d = of(driver);
    int err = mirror_add(d, record->number, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    if (err) {
        return err;
    }
    weft__lock(&driver->lock);
    record->next_watched = d->records;
    record->at_watched = &d->records;
    if (d->records) {
        d->records->at_watched = &record->next_watched;
    }
    d->records = record;
    d->count++;
    weft__unlock(&driver->lock);
    return 0;
}

static void poll_forget(struct weft__driver *driver, struct weft__fd *record)
{
    struct poll_driver *d = of(driver);
    if (d->mirror >= 0) {
        epoll_ctl(d->mirror, EPOLL_CTL_DEL, record->number, NULL);
    }
    weft__lock(&driver->lock);
    *record->at_watched = record->next_watched;
    if (record->next_watched) {
        record->next_watched->at_watched = record->at_watched;
    }
    d->count--;
    weft__unlock(&driver->lock);
}

/* A poll in progress covers only the waits that were linked when it began. Both accesses are
 * seq_cst, and the wait was linked under a lock that collect takes: either collect finds the new
 * wait, or this load finds `waiting` set. A host waits on the mirror, whose edge for this wait may
 * have come and been cleared already: so a wait linked by another thread always wakes the host. */
static void poll_armed(struct weft__driver *driver)
{
    struct poll_driver *d = of(driver);
    if (atomic_load_explicit(&d->waiting, memory_order_seq_cst) ||
        (d->mirror >= 0 &&
         !pthread_equal(atomic_load_explicit(&d->thread, memory_order_relaxed), pthread_self()))) {
        weft__driver_wake(driver);
    }
}

static bool has_waiter(const struct weft__fd *record, enum weft__side side)
{
    return weft__fd_is_waited_locked(record, side) || record->list[side].first;
}

/* False: there was no memory for all of them. */
static bool collect(struct poll_driver *d)
{
    weft__lock(&d->base.lock);
    if (d->capacity < d->count + 1) {
        grow(d, 2 * (d->count + 1));
    }
    d->used = 0;
    d->pollfds[d->used++] = (struct pollfd){.fd = d->base.wake_fd, .events = POLLIN};
    struct weft__fd *record = d->records;
    for (; record && d->used < d->capacity; record = record->next_watched) {
        if (!weft__latch_try(&record->lock)) {
            weft__driver_wake(&d->base); /* another thread holds the lock: collect again at once */
            continue;
        }
        short events = (short)((has_waiter(record, WEFT__SIDE_IN) ? POLLIN | POLLRDHUP : 0) |
                               (has_waiter(record, WEFT__SIDE_OUT) ? POLLOUT : 0));
        if (events) {
            d->generations[d->used] = weft__fd_generation(record);
            d->pollfds[d->used++] = (struct pollfd){.fd = record->number, .events = events};
        }
        weft__latch_unlock(&record->lock);
    }
    weft__unlock(&d->base.lock);
    return !record;
}

/* EINVAL: there are more descriptors than the process's limit now allows (setrlimit). ENOMEM: the
 * kernel has no memory for so many. Both may pass; until then the driver polls rarely instead of
 * spinning. */
static void handle_poll_error(const struct poll_driver *d, int err, int64_t deadline)
{
    struct pollfd wake = {.fd = d->base.wake_fd, .events = POLLIN};
    if (err != EINVAL && err != ENOMEM && err != EAGAIN) {
        weft__driver_panic(&d->base, "poll", d->base.wake_fd, err);
    }
    if (deadline != 0) {
        poll(&wake, 1, NO_MEMORY_RETRY_NS / 1000000);
    }
}

static void poll_wait(struct weft__driver *driver, int64_t deadline)
{
    struct poll_driver *d = of(driver);
    atomic_store_explicit(&d->thread, pthread_self(), memory_order_relaxed);
    mirror_clear(d);
    atomic_store_explicit(&d->waiting, true, memory_order_seq_cst); /* pairs: poll_armed */
    if (!collect(d) && deadline != 0) {
        int64_t soon = weft__clock_ns() + NO_MEMORY_RETRY_NS;
        deadline = soon < deadline ? soon : deadline;
    }
    struct timespec left = weft__clock_remaining(deadline);
    d->poll_result = ppoll(d->pollfds, d->used, deadline == INT64_MAX ? NULL : &left, NULL);
    int err = d->poll_result < 0 ? errno : 0;
    atomic_store_explicit(&d->waiting, false, memory_order_relaxed);
    if (__builtin_expect(d->poll_result > 0 && (d->pollfds[0].revents & POLLNVAL), 0)) {
        weft__driver_panic(driver, "poll", driver->wake_fd, EBADF);
    }
    if (__builtin_expect(err && err != EINTR, 0)) {
        handle_poll_error(d, err, deadline);
    }
}

static unsigned poll_dispatch(struct weft__driver *driver, struct weft__driver *here,
                              struct weft__io_done *done)
{
    struct poll_driver *d = of(driver);
    unsigned n = 0;
    uint64_t count;
    if (d->poll_result <= 0) {
        return 0;
    }
    if (d->pollfds[0].revents && read(driver->wake_fd, &count, sizeof count) < 0) {
        /* Another thread has consumed the wake. */
    }
    for (size_t i = 1; i < d->used; i++) {
        short events = d->pollfds[i].revents;
        if (!events) {
            continue;
        }
        struct weft__fd *record = weft__fd_record(d->pollfds[i].fd);
        unsigned sides = (events & POLLIN ? 1u << WEFT__SIDE_IN : 0) |
                         (events & POLLOUT ? 1u << WEFT__SIDE_OUT : 0);
        weft__fd_report(record, d->generations[i], sides,
                        (events & (POLLERR | POLLHUP | POLLNVAL | POLLRDHUP)) != 0, here, done);
        n++;
    }
    d->poll_result = 0;
    return n;
}

const struct weft__driver_kind weft__driver_poll = {
    .name = "poll",
    .bytes = sizeof(struct poll_driver),
    .open = poll_open,
    .close = poll_close,
    .watch = poll_watch,
    .forget = poll_forget,
    .armed = poll_armed,
    .wait = poll_wait,
    .dispatch = poll_dispatch,
};
