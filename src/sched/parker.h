/* The parker: how one worker sleeps, and how any thread wakes it.
 *
 * Word: EMPTY, PARKED (the owner sleeps or is about to), NOTIFIED (a wake that was not used yet).
 *
 *   owner                                     waker
 *   1. look for work, find none               1. publish work
 *   2. EMPTY -> PARKED (NOTIFIED: return)     2. exchange NOTIFIED
 *   3. sleep while PARKED                     3. was PARKED: wake the sleeper
 *
 * A wake before the park is kept (NOTIFIED), two count once, none is lost: the exchange and the
 * owner's step 2 hit the same word, so one of them sees the other. What the waker published before
 * its exchange (release) is seen by the owner after park returned (acquire).
 *
 * A worker that has an I/O driver sleeps in that, between begin and end; wakers then write to the
 * driver's eventfd. A worker that lives in a host's loop does not sleep here:
 * weft__parker_enter_host leaves PARKED standing and the waker writes to the eventfd that the host
 * waits for.
 */
#ifndef WEFT_SCHED_PARKER_H
#define WEFT_SCHED_PARKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/futex.h"

enum {
    WEFT__PARKER_EMPTY,
    WEFT__PARKER_PARKED,
    WEFT__PARKER_NOTIFIED,
};

struct weft__parker {
    _Atomic(uint32_t) word;
    _Atomic(int) host_fd;    /* >= 0: the owner is in a host's loop; wakers write here */
    _Atomic(bool) in_driver; /* the owner sleeps in its driver; wakers write to the next */
    _Atomic(int) wake_fd;    /* -1: it never had one; kept to the end */
};

static inline void weft__parker_init(struct weft__parker *parker)
{
    atomic_init(&parker->word, WEFT__PARKER_EMPTY);
    atomic_init(&parker->host_fd, -1);
    atomic_init(&parker->in_driver, false);
    atomic_init(&parker->wake_fd, -1);
}

/* Owner only. Sleeps until a wake or the deadline; true: a wake. */
bool weft__parker_park(struct weft__parker *parker, int64_t deadline);

/* Owner only, with a wake_fd: what it does between is ended by a write to that. False: a wake came
 * already. End says whether one came. */
bool weft__parker_begin(struct weft__parker *parker);
bool weft__parker_end(struct weft__parker *parker);

/* Any thread. True if the owner was asleep, or about to be. */
bool weft__parker_wake(struct weft__parker *parker);

/* Owner only: from now until leave_host, wakes go to `fd`. False: a wake came already; look
 * again. */
bool weft__parker_enter_host(struct weft__parker *parker, int fd);
void weft__parker_leave_host(struct weft__parker *parker);

#endif
