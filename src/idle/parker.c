#include "idle/parker.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

/* EMPTY -> PARKED. Returns false if there was a wake-up, which is consumed. */
static bool prepare(struct weft__parker *parker)
{
    uint32_t empty = WEFT__PARKER_EMPTY;
    if (atomic_compare_exchange_strong_explicit(&parker->word, &empty, WEFT__PARKER_PARKED,
                                                memory_order_seq_cst, memory_order_relaxed)) {
        return true;
    }
    /* pairs: weft__parker_wake */
    atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_acquire);
    return false;
}

bool weft__parker_park(struct weft__parker *parker, int64_t deadline)
{
    atomic_store_explicit(&parker->in_driver, false, memory_order_relaxed);
    if (!prepare(parker)) {
        return true;
    }
    int rc = 0;
    while (rc == 0 &&
           atomic_load_explicit(&parker->word, memory_order_relaxed) == WEFT__PARKER_PARKED) {
        WEFT__STEP();
        rc = weft__futex_wait(&parker->word, WEFT__PARKER_PARKED, deadline);
    }
    return weft__parker_end(parker);
}

bool weft__parker_begin(struct weft__parker *parker)
{
    /* Before PARKED, as in enter_host. */
    atomic_store_explicit(&parker->in_driver, true, memory_order_relaxed);
    return prepare(parker);
}

bool weft__parker_end(struct weft__parker *parker)
{
    /* pairs: weft__parker_wake */
    return atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_acquire) ==
           WEFT__PARKER_NOTIFIED;
}

/* Preserves errno, and is never inlined, for the reasons given in lock/futex.c. */
static __attribute__((noinline)) void write_wake(int fd)
{
    int before = errno;
    uint64_t one = 1;
    /* EAGAIN: the counter is full, so the reader is woken anyway. */
    while (write(fd, &one, sizeof one) < 0 && errno != EAGAIN) {
        WEFT__REQUIRE(
            errno == EINTR,
            "cannot wake a worker by writing to descriptor %d: %s: the program has "
            "closed this descriptor, which belongs to Weft: by close_range, closefrom, or "
            "close on a descriptor it does not own",
            fd, strerrorname_np(errno));
    }
    errno = before;
}

bool weft__parker_wake(struct weft__parker *parker)
{
    /* Release: the owner sees what was published before. pairs: prepare, park */
    if (atomic_exchange_explicit(&parker->word, WEFT__PARKER_NOTIFIED, memory_order_seq_cst) !=
        WEFT__PARKER_PARKED) {
        return false;
    }
    WEFT__STEP();
    int fd = atomic_load_explicit(&parker->host_fd, memory_order_relaxed);
    if (fd < 0 && atomic_load_explicit(&parker->in_driver, memory_order_relaxed)) {
        /* pairs: weft__worker_open_driver */
        fd = atomic_load_explicit(&parker->wake_fd, memory_order_acquire);
    }
    if (fd >= 0) {
        write_wake(fd);
    } else {
        weft__futex_wake(&parker->word, 1);
    }
    return true;
}

bool weft__parker_enter_host(struct weft__parker *parker, int fd)
{
    /* Before PARKED: a waker that sees PARKED sees the descriptor too (both by the same CAS). */
    atomic_store_explicit(&parker->host_fd, fd, memory_order_relaxed);
    if (!prepare(parker)) {
        atomic_store_explicit(&parker->host_fd, -1, memory_order_relaxed);
        return false;
    }
    return true;
}

void weft__parker_leave_host(struct weft__parker *parker)
{
    atomic_exchange_explicit(&parker->word, WEFT__PARKER_EMPTY, memory_order_acquire);
    atomic_store_explicit(&parker->host_fd, -1, memory_order_relaxed);
}
