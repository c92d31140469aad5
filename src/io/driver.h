/* A driver: the I/O engine under one worker or one loop. The seam that epoll, uring and poll
 * implement.
 *
 * `uring` completes operations by itself (kind->completes): submit hands one over, poll tells when
 * it is over. `epoll` and `poll` report readiness (io/fd.h): who uses them tries the call, waits,
 * and tries again.
 *
 * A driver belongs to a thread: only that one submits, waits and dispatches; but where it does not
 * complete operations, others may wait and dispatch in its stead, one at a time
 * (weft__driver_enter). Any thread may link a readiness wait, ask for an operation to be cancelled
 * (weft__driver_ask), forget a descriptor, and wake.
 *
 * wait and dispatch are two steps because a worker that waits counts as asleep, and may make fibers
 * ready only when it no longer does.
 */
#ifndef WEFT_IO_DRIVER_H
#define WEFT_IO_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/pool.h>

#include "base/atomic.h"
#include "base/latch.h"
#include "base/lock.h"
#include "io/fd.h"
#include "io/op.h"

#ifndef WEFT_URING
#define WEFT_URING 0 /* whether liburing was found; the build says */
#endif

struct weft__driver;

struct weft__driver_kind {
    const char *name;
    size_t bytes;   /* of the driver's struct, which begins with a struct weft__driver */
    bool completes; /* operations, not readiness */
    /* On the thread that will use it; `roams`: on any thread, one at a time. Fills in the pollable
     * descriptor. */
    int (*open)(struct weft__driver *driver, bool roams);
    void (*close)(struct weft__driver *driver);
    /* Interest in both sides of a descriptor, for as long as it is open; under the record's lock,
     * any thread. */
    int (*watch)(struct weft__driver *driver, struct weft__fd *record);
    void (*forget)(struct weft__driver *driver, struct weft__fd *record);
    /* A wait was linked, under the record's lock, any thread; NULL: needs not know. */
    void (*armed)(struct weft__driver *driver);
    /* The thread's. Takes the operation; it ends by its `complete`. */
    void (*submit)(struct weft__driver *driver, struct weft__op *op);
    /* Waits for events, for submissions to be taken, or for a wake, until the deadline; 0: does not
     * wait. */
    void (*wait)(struct weft__driver *driver, int64_t deadline);
    /* Tells whoever is concerned by what wait has found; how many events there were. `here`: the
     * calling thread's driver, or NULL. */
    unsigned (*dispatch)(struct weft__driver *driver, struct weft__driver *here, void *ready);
};

/* What anybody may look at, also when the driver is gone: its owner's. */
struct weft__io_counters {
    /* Written by the driver's thread. */
    _Atomic(int64_t) linked; /* waits that began there less those that ended there: of all drivers
                                the sum counts */
    _Atomic(uint64_t) waits, events;
};

struct weft__driver {
    const struct weft__driver_kind *kind;
    int wake_fd;    /* an eventfd, its owner's: whoever writes to it ends a wait */
    int poll_fd;    /* readable when there is something to dispatch; -1: the kind has none */
    int64_t looked; /* when it was last polled */
    /* In a host's loop: when it is to be polled without an event, because the kernel did not take
     * all that it was given; INT64_MAX: never. */
    _Atomic(int64_t) again;
    struct weft__io_counters *counters;
    struct weft__latch turn; /* whose turn it is to wait and dispatch */
    struct weft__lock lock;
    struct weft__op *asked; /* to be cancelled; under the lock */
};

/* For who takes the option: a driver that was asked for must be one that can run here, -EOPNOTSUPP;
 * what `auto` comes to is found out by its first use, but WEFT_DRIVER must name a driver, -EINVAL,
 * which stderr is told, as the caller cannot know the cause. */
int weft__driver_check(enum weft_driver wanted);

/* Which driver the choice comes to on this machine; `why` (a static text) says how. -EOPNOTSUPP:
 * that one cannot run here. */
int weft__driver_choose(enum weft_driver wanted, const struct weft__driver_kind **out,
                        const char **why);

/* What was chosen cannot be opened, by this error. True: `auto` comes to another one, because
 * io_uring was forbidden since it was asked for first. */
bool weft__driver_choose_again(enum weft_driver wanted, int err,
                               const struct weft__driver_kind **kind, const char **why);

/* The eventfd stays the caller's: those who wake may be late, and must not meet another's
 * descriptor. */
int weft__driver_open(struct weft__driver **out, const struct weft__driver_kind *kind, bool roams,
                      int wake_fd, struct weft__io_counters *counters);
void weft__driver_close(struct weft__driver *driver);

/* The driver's call on this descriptor has failed with `err` (positive), and will fail again: ends
 * the program, and says why. Nothing else would be honest: what is in flight in a ring has the
 * memory of those who wait for it, and the number of a closed descriptor may be another's by now.
 */
void weft__driver_failed(const struct weft__driver *driver, const char *call, int fd, int err)
    __attribute__((noreturn, cold));

/* In a forked child: lets go of the parent's descriptors, and nothing else. */
void weft__driver_fork_child(const struct weft__driver *driver);

/* Any thread. */
void weft__driver_wake(struct weft__driver *driver);
/* Asks for the end of an operation that was submitted, and whose memory the caller knows to be
 * there. One that is over is left alone: its owner may find out only after this, and be gone before
 * the driver looks. */
void weft__driver_ask(struct weft__driver *driver, struct weft__op *op);
/* The driver's thread: one that was asked for, until unask; or NULL. */
struct weft__op *weft__driver_asked(struct weft__driver *driver);
/* The same: its end is under way. */
void weft__driver_unask(struct weft__driver *driver, struct weft__op *op);
/* The same: it is over; nobody's request names it, from now on either. */
void weft__driver_over(struct weft__driver *driver, struct weft__op *op);

/* Around wait and dispatch, both, if others may come: what a wait has found is in the driver. */
static inline void weft__driver_enter(struct weft__driver *driver)
{
    if (!driver->kind->completes) {
        weft__latch_take(&driver->turn);
    }
}

static inline void weft__driver_leave(struct weft__driver *driver)
{
    if (!driver->kind->completes) {
        weft__latch_drop(&driver->turn);
    }
}

/* Somebody else's. False: it is there itself, or does not let anybody. */
static inline bool weft__driver_try_enter(struct weft__driver *driver)
{
    return !driver->kind->completes && weft__latch_try(&driver->turn);
}

/* Waits that were ended by a thread without a driver; the same sum. */
extern _Atomic(int64_t) weft__driver_foreign;

/* The calling thread's driver, or NULL: one wait more, or less. No atomic operation, but for those
 * without. */
static inline void weft__driver_count(struct weft__driver *here, int n)
{
    if (__builtin_expect(!here, 0)) {
        atomic_fetch_add_explicit(&weft__driver_foreign, n, memory_order_relaxed);
    } else {
        _Atomic(int64_t) *linked = &here->counters->linked;
        atomic_store_explicit(linked, atomic_load_explicit(linked, memory_order_relaxed) + n,
                              memory_order_relaxed);
    }
}

extern const struct weft__driver_kind weft__driver_epoll, weft__driver_poll;
#if WEFT_URING
extern const struct weft__driver_kind weft__driver_uring;
/* Entries of each ring; tests make them few before the first. */
extern struct weft__uring_sizes {
    unsigned submissions, completions;
} weft__uring_sizes;
/* NULL: a ring can be had and entered, with all that the driver needs; else why not. */
const char *weft__uring_probe(void);
#endif

#endif
