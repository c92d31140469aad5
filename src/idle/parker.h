/* The parker: puts one worker to sleep, and lets any thread wake it.
 *
 * Word: EMPTY, PARKED (the owner sleeps or is about to), NOTIFIED (a wake-up not consumed yet).
 *
 *   owner                                     waker
 *   1. look for work, find none               1. publish work
 *   2. EMPTY -> PARKED (NOTIFIED: return)     2. exchange NOTIFIED
 *   3. sleep while PARKED                     3. was PARKED: wake the sleeper
 *
 * A wake-up before the park is kept (NOTIFIED), two count as one, none is lost: the exchange and
 * the owner's step 2 act on the same word, so one of them sees the other. The owner sees, after
 * park returns (acquire), what the waker published before its exchange (release).
 *
 * A worker with an I/O driver sleeps in the driver, between begin and end; wakers then write to
 * the driver's eventfd. A worker embedded in a host's event loop does not sleep here:
 * weft__parker_enter_host leaves the word PARKED, and the waker writes to the eventfd that the
 * host polls. */
#ifndef WEFT_IDLE_PARKER_H
#define WEFT_IDLE_PARKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "lock/futex.h"

enum {
    WEFT__PARKER_EMPTY,
    WEFT__PARKER_PARKED,
    WEFT__PARKER_NOTIFIED,
};

struct weft__parker {
    _Atomic(uint32_t) word;
    _Atomic(int) host_fd;    /* >= 0: the owner is in a host's loop; wakers write to this
                              * descriptor */
    _Atomic(bool) in_driver; /* the owner sleeps in its driver; wakers write to wake_fd */
    _Atomic(int) wake_fd;    /* -1: there never was one; otherwise kept to the end */
};

static inline void weft__parker_init(struct weft__parker *parker)
{
    atomic_init(&parker->word, WEFT__PARKER_EMPTY);
    atomic_init(&parker->host_fd, -1);
    atomic_init(&parker->in_driver, false);
    atomic_init(&parker->wake_fd, -1);
}

/* Owner only. Sleeps until a wake-up or the deadline; true: a wake-up. */
bool weft__parker_park(struct weft__parker *parker, int64_t deadline);

/* Owner only, with a wake_fd: what the owner does between begin and end is interrupted by a write
 * to wake_fd. begin returns false if there was a wake-up already. end returns whether there was
 * one. */
bool weft__parker_begin(struct weft__parker *parker);
bool weft__parker_end(struct weft__parker *parker);

/* Any thread. Returns true if the owner was asleep or about to sleep. */
bool weft__parker_wake(struct weft__parker *parker);

/* Owner only: from now until leave_host, wake-ups are written to `fd`. False: there was a wake-up
 * already; look for work again. */
bool weft__parker_enter_host(struct weft__parker *parker, int fd);
void weft__parker_leave_host(struct weft__parker *parker);

#endif
