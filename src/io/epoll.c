/* Readiness by epoll: edge-triggered, both directions, added once for as long as the descriptor is
 * open. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "io/driver.h"
#include "io/edge.h"

#define EVENTS 256
#define PREFETCH_RECORD 8 /* distance, in events, at which records are prefetched */
#define PREFETCH_WAITER 4 /* and, once the records have arrived, the waiters */

struct epoll_driver {
    struct weft__driver base;
    int epoll;
    int count;    /* events not yet dispatched */
    bool only_ms; /* epoll_pwait2 is missing or denied by a seccomp filter: timeouts are in ms */
    struct epoll_event events[EVENTS];
};

/* The user data of an event: the address of the record in the low 48 bits, which hold every
 * user-space address, and the low 16 bits of its generation above. An event that is exactly 65,536
 * generations old is taken for a current one: a spurious edge, which is harmless. */
#define WAKE_ID UINT64_C(0)
#define ADDRESS_BITS 48
#define GENERATION_BITS 16

static uint64_t id_of(const struct weft__fd *record)
{
    uint64_t address = (uintptr_t)record;
    WEFT__REQUIRE(address >> ADDRESS_BITS == 0, "the address of a record needs more than %d bits",
                  ADDRESS_BITS);
    return (uint64_t)weft__fd_generation(record) << ADDRESS_BITS | address;
}

static inline struct weft__fd *record_of(uint64_t id)
{
    return (struct weft__fd *)(uintptr_t)(id & ((UINT64_C(1) << ADDRESS_BITS) - 1));
}

static struct epoll_driver *of(struct weft__driver *driver)
{
    return (struct epoll_driver *)(void *)driver;
}

static int epoll_open(struct weft__driver *driver, bool any_thread)
{
    (void)any_thread;
    struct epoll_driver *d = of(driver);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE_ID};
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll < 0) {
        return -errno;
    }
    if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, driver->wake_fd, &event) != 0) {
        int err = -errno;
        close(d->epoll);
        return err;
    }
    driver->poll_fd = d->epoll;
    return 0;
}

static void epoll_close(struct weft__driver *driver)
{
    close(of(driver)->epoll);
}

static int epoll_watch(struct weft__driver *driver, struct weft__fd *record)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET,
        .data.u64 = id_of(record),
    };
    if (epoll_ctl(of(driver)->epoll, EPOLL_CTL_ADD, record->number, &event) == 0) {
        return 0;
    }
    /* The number was in use before, was closed without our knowledge, and a duplicate descriptor
     * keeps the registration alive. */
    if (errno == EEXIST &&
        epoll_ctl(of(driver)->epoll, EPOLL_CTL_MOD, record->number, &event) == 0) {
        return 0;
    }
    return -errno;
}

/* Closing alone is not enough: a duplicate of the descriptor, for example in a child process, would
 * keep the registration. */
static void epoll_forget(struct weft__driver *driver, struct weft__fd *record)
{
    epoll_ctl(of(driver)->epoll, EPOLL_CTL_DEL, record->number, NULL);
}

/* The C library of Debian 12 has epoll_pwait2; kernels before 5.11 do not, and seccomp filters of
 * that age return EPERM. */
static int wait_until(struct epoll_driver *d, int64_t deadline)
{
    if (deadline == INT64_MAX) {
        return epoll_wait(d->epoll, d->events, EVENTS, -1);
    }
    struct timespec left = weft__clock_remaining(deadline);
    if (!d->only_ms) {
        int n = epoll_pwait2(d->epoll, d->events, EVENTS, &left, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return n;
        }
        d->only_ms = true;
    }
    int64_t ms = (int64_t)left.tv_sec * 1000 + left.tv_nsec / 1000000 + 1;
    return epoll_wait(d->epoll, d->events, EVENTS, ms < INT32_MAX ? (int)ms : INT32_MAX);
}

static void epoll_wait_events(struct weft__driver *driver, int64_t deadline)
{
    struct epoll_driver *d = of(driver);
    if (d->count == 0) {
        int n =
            deadline == 0 ? epoll_wait(d->epoll, d->events, EVENTS, 0) : wait_until(d, deadline);
        if (__builtin_expect(n < 0 && errno != EINTR, 0)) {
            weft__driver_panic(driver, "epoll_wait", d->epoll, errno);
        }
        d->count = n > 0 ? n : 0; /* EINTR: the caller checks the time and calls again */
    }
}

/* With many connections neither the records nor the waiting fibers are in a nearby cache: they are
 * loaded while earlier events are delivered. */
static inline void prefetch_record(const struct epoll_event *event)
{
    __builtin_prefetch(record_of(event->data.u64), 1);
}

static inline void prefetch_waiter(const struct epoll_event *event)
{
    const struct weft__fd *record = record_of(event->data.u64);
    const struct weft__io_waiter *waiter =
        record ? weft__fd_slot_waiter(&record->slot[WEFT__SIDE_IN]) : NULL;
    if (waiter) { /* prefetching a NULL pointer is slow */
        __builtin_prefetch(waiter, 1);
    }
}

static unsigned epoll_dispatch(struct weft__driver *driver, struct weft__driver *here,
                               struct weft__io_done *done)
{
    struct epoll_driver *d = of(driver);
    unsigned n = 0;
    for (int i = 0; i < d->count; i++) {
        uint64_t id = d->events[i].data.u64;
        uint32_t events = d->events[i].events;
        if (i + PREFETCH_RECORD < d->count) {
            prefetch_record(&d->events[i + PREFETCH_RECORD]);
        }
        if (i + PREFETCH_WAITER < d->count) {
            prefetch_waiter(&d->events[i + PREFETCH_WAITER]);
        }
        if (id == WAKE_ID) {
            continue; /* its edge is consumed; the eventfd's counter need not be read */
        }
        struct weft__fd *record = record_of(id);
        uint32_t generation = weft__fd_generation(record) >> GENERATION_BITS << GENERATION_BITS |
                              (uint32_t)(id >> ADDRESS_BITS);
        unsigned sides = (events & (EPOLLIN | EPOLLPRI) ? 1u << WEFT__SIDE_IN : 0) |
                         (events & EPOLLOUT ? 1u << WEFT__SIDE_OUT : 0);
        /* A read also stops at an urgent byte. */
        bool hung = events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLPRI);
        weft__fd_report(record, generation, sides, hung, here, done);
        n++;
    }
    d->count = 0;
    return n;
}

const struct weft__driver_kind weft__driver_epoll = {
    .name = "epoll",
    .bytes = sizeof(struct epoll_driver),
    .open = epoll_open,
    .close = epoll_close,
    .watch = epoll_watch,
    .forget = epoll_forget,
    .wait = epoll_wait_events,
    .dispatch = epoll_dispatch,
};
