/* A driver: the I/O engine of one worker or one loop. This is the interface that epoll, uring and
 * poll implement.
 *
 * `uring` completes operations (kind->completes): submit hands an operation to the kernel, and
 * dispatch reports its completion. `epoll` and `poll` report readiness (io/fd.h): their users try
 * the call, wait, and try again.
 *
 * A driver belongs to one thread: only that thread submits, waits and dispatches. With a driver
 * that does not complete operations, other threads may wait and dispatch in its place, one at a
 * time (weft__driver_enter). Any thread may link a readiness wait, request the cancellation of an
 * operation (weft__driver_request_cancel), forget a descriptor, and wake the driver.
 *
 * wait and dispatch are two steps because a worker that waits counts as asleep, and may make fibers
 * ready only after it counts as awake again.
 */
#ifndef WEFT_IO_DRIVER_H
#define WEFT_IO_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/pool.h>

#include "base/atomic.h"
#include "io/done.h"
#include "io/fd.h"
#include "io/op.h"
#include "lock/latch.h"
#include "lock/lock.h"

#ifndef WEFT_URING
#define WEFT_URING 0 /* set by the build: 1 if liburing was found */
#endif

struct weft__driver;

struct weft__driver_kind {
    const char *name;
    size_t bytes;   /* size of the driver's struct, which begins with a struct weft__driver */
    bool completes; /* true: completes operations; false: reports readiness */
    /* Called on the thread that will use the driver; with `any_thread` any thread may use it, one
     * at a time. Sets poll_fd. */
    int (*open)(struct weft__driver *driver, bool any_thread);
    void (*close)(struct weft__driver *driver);
    /* Register interest in both sides of a descriptor, for as long as it is open, and drop it. Any
     * thread; under the record's lock. */
    int (*watch)(struct weft__driver *driver, struct weft__fd *record);
    void (*forget)(struct weft__driver *driver, struct weft__fd *record);
    /* A wait was linked. Any thread; under the record's lock. NULL: the driver need not know. */
    void (*armed)(struct weft__driver *driver);
    /* Driver's thread. Takes the operation until a dispatch returns it in done->ops. False: not
     * taken, because the descriptor was closed in the meantime. */
    bool (*submit)(struct weft__driver *driver, struct weft__op *op);
    /* Wait for events, for submissions to be accepted, or for a wake, until the deadline; 0: do not
     * wait. */
    void (*wait)(struct weft__driver *driver, int64_t deadline);
    /* Return what the events that wait has found have finished. Returns the number of events.
     * `here`: the calling thread's driver, or NULL. */
    unsigned (*dispatch)(struct weft__driver *driver, struct weft__driver *here,
                         struct weft__io_done *done);
};

/* Counters that any thread may read, also after the driver is closed: they belong to the driver's
 * owner. */
struct weft__io_counters {
    /* Written by the driver's thread. */
    _Atomic(int64_t) linked; /* waits that began on this driver's thread minus waits that ended
                                there; only the sum over all drivers is meaningful */
    _Atomic(uint64_t) waits, events;
};

struct weft__driver {
    const struct weft__driver_kind *kind;
    int wake_fd;       /* an eventfd of the owner: a write to it ends a wait */
    int poll_fd;       /* readable when there is something to dispatch; -1: the kind has none */
    int64_t last_poll; /* time of the last poll */
    /* For a driver in a host's loop: when it must be polled even without an event, because the
     * kernel did not accept everything that it was given; INT64_MAX: never. */
    _Atomic(int64_t) repoll_at;
    struct weft__io_counters *counters;
    struct weft__latch poll_latch; /* held by the thread that waits and dispatches */
    struct weft__lock lock;
    struct weft__op
        *cancel_requests; /* operations whose cancellation is requested; under the lock */
};

/* Check a driver option. An explicitly chosen driver must be available: -EOPNOTSUPP. `auto` is
 * resolved at the first use, but WEFT_DRIVER must name a driver: -EINVAL, with a message on stderr,
 * because the caller of the API cannot know the cause. */
int weft__driver_check(enum weft_driver wanted);

/* Resolve a driver option to a driver on this machine; `why` (a static text) says how it was
 * chosen. -EOPNOTSUPP: that driver is not available, and `why` says the reason. */
int weft__driver_choose(enum weft_driver wanted, const struct weft__driver_kind **out,
                        const char **why);

/* The chosen driver failed to open with `err`. Returns true if `auto` falls back to another driver,
 * because io_uring has been forbidden since it was probed. */
bool weft__driver_fall_back(enum weft_driver wanted, int err, const struct weft__driver_kind **kind,
                            const char **why);

/* The caller keeps ownership of the eventfd: a late waker may still write to it after the driver is
 * closed, and the number must not have been reused. */
int weft__driver_open(struct weft__driver **out, const struct weft__driver_kind *kind,
                      bool any_thread, int wake_fd, struct weft__io_counters *counters);
void weft__driver_close(struct weft__driver *driver);

/* A system call of the driver on this descriptor has failed with `err` (positive) and will fail
 * again: terminate the program with a message. There is no safe way to continue: operations in
 * flight in a ring use the memory of the fibers that wait for them, and the number of a closed
 * descriptor may already be reused.
 */
void weft__driver_panic(const struct weft__driver *driver, const char *call, int fd, int err)
    __attribute__((noreturn, cold));

/* In a forked child: close the child's copies of the parent's descriptors, and do nothing else. */
void weft__driver_fork_child(const struct weft__driver *driver);

/* Any thread. */
void weft__driver_wake(struct weft__driver *driver);
/* Request the cancellation of a submitted operation. The caller guarantees that the operation's
 * memory is valid. A finished operation is left alone: its owner may find out only after this call,
 * and may be gone before the driver handles the request. */
void weft__driver_request_cancel(struct weft__driver *driver, struct weft__op *op);
/* Driver's thread: the next operation whose cancellation is requested, until
 * weft__driver_drop_cancel; NULL: none. */
struct weft__op *weft__driver_next_cancel(struct weft__driver *driver);
/* Driver's thread: the cancellation was submitted; drop the request. */
void weft__driver_drop_cancel(struct weft__driver *driver, struct weft__op *op);
/* Driver's thread: the operation is finished; drop its request, and refuse any later one. */
void weft__driver_op_finished(struct weft__driver *driver, struct weft__op *op);

/* Enclose wait and dispatch together if other threads may do the same: the events that a wait has
 * found are stored in the driver. */
static inline void weft__driver_enter(struct weft__driver *driver)
{
    if (!driver->kind->completes) {
        weft__latch_lock(&driver->poll_latch);
    }
}

static inline void weft__driver_leave(struct weft__driver *driver)
{
    if (!driver->kind->completes) {
        weft__latch_unlock(&driver->poll_latch);
    }
}

/* For another thread's driver. False: its thread is inside, or the driver does not allow it. */
static inline bool weft__driver_try_enter(struct weft__driver *driver)
{
    return !driver->kind->completes && weft__latch_try(&driver->poll_latch);
}

/* Waits ended by threads without a driver; part of the same sum. */
extern _Atomic(int64_t) weft__driver_threadless_waits;

/* Add n to the count of linked waits. `here`: the calling thread's driver, or NULL. Needs a
 * read-modify-write only for threads without a driver. */
static inline void weft__driver_count(struct weft__driver *here, int n)
{
    if (__builtin_expect(!here, 0)) {
        atomic_fetch_add_explicit(&weft__driver_threadless_waits, n, memory_order_relaxed);
    } else {
        _Atomic(int64_t) *linked = &here->counters->linked;
        atomic_store_explicit(linked, atomic_load_explicit(linked, memory_order_relaxed) + n,
                              memory_order_relaxed);
    }
}

extern const struct weft__driver_kind weft__driver_epoll, weft__driver_poll;
#if WEFT_URING
extern const struct weft__driver_kind weft__driver_uring;
/* Entries of each ring; tests reduce them before the first ring is created. */
extern struct weft__uring_sizes {
    unsigned submissions, completions;
} weft__uring_sizes;
/* NULL if a ring can be created and entered and supports every operation the driver needs; else the
 * reason why not. */
const char *weft__uring_probe(void);
#endif

#endif
