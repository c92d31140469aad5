/* What could still wake a fiber when every worker is asleep and no timer is pending.
 *
 *  - Sources that Weft serves but that are no timers: a reference for as long as there is one that
 *    somebody may wait on (an open set of signals, a child process that is watched, a job until it
 *    has run).
 *  - Threads of the process that are not Weft's: whoever is listed in /proc/self/task and is
 *    neither a worker in its loop nor known here. A plain thread that waits inside Weft without a
 *    deadline is known for as long as nobody has fired it: until then it wakes nobody. With a
 *    deadline it goes on by itself, and counts.
 *  - Handlers of signals that come from elsewhere: they may end the program, or set what a thread
 *    looks at.
 * When in doubt there is something outside: a deadlock that is not reported hangs as it did before,
 * one that is reported wrongly ends a program that works.
 */
#ifndef WEFT_SCHED_OUTSIDE_H
#define WEFT_SCHED_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/report.h>

#include "base/atomic.h"

struct weft__wait_kind;

/* Taken before the fiber waits, given back after it was fired. Any thread. */
void weft__outside_ref(void);
void weft__outside_unref(void);
bool weft__outside_has_refs(void);

/* The calling thread is Weft's and wakes nobody unless a reference says so. -ENOMEM: it counts as
 * outside. */
int weft__outside_thread_enter(void);
void weft__outside_thread_leave(void);

/* This function (its address) is Weft's and wakes nobody, whichever signal it is the handler of. */
void weft__outside_own_handler(uintptr_t handler);

/* A wait of a plain thread without a deadline; on its stack, linked from begin to end. */
struct weft__outside_wait {
    struct weft__outside_wait *next, *prev;
    const _Atomic(uint32_t) *word; /* neither 0 nor `asleep`: the wait has ended */
    uint32_t asleep;
    int tid;
    const struct weft__wait_kind *kind; /* what it waits for, as in weft__waiter_park */
    uint64_t on;
};

/* The calling thread, which is no worker, does nothing from begin on until it is fired, and nothing
 * after that before end. `word`, `asleep`, `kind` and `on` are set. */
void weft__outside_wait_begin(struct weft__outside_wait *wait);
void weft__outside_wait_end(struct weft__outside_wait *wait);

/* Between the two no thread begins or ends such a wait: those that are in one do nothing at all. */
void weft__outside_freeze(void);
void weft__outside_thaw(void);
/* While frozen: the first, then the next of those that wait, whether fired or not; NULL: no more.
 */
const struct weft__outside_wait *weft__outside_next_wait(const struct weft__outside_wait *last);
/* Nobody has fired it yet. */
bool weft__outside_waits(const struct weft__outside_wait *wait);

/* While frozen: a thread that is neither in `own` nor known nor in a wait; `who` says which. */
bool weft__outside_has_thread(const int *own, size_t count, char *who, size_t size);
/* While frozen: a thread whose wait was ended, and that has not gone on yet. */
bool weft__outside_has_fired(char *who, size_t size);
/* A handler for a signal from elsewhere. */
bool weft__outside_has_handler(char *who, size_t size);

/* Around a fork; in the child one thread is left. */
void weft__outside_fork_prepare(void);
void weft__outside_fork_parent(void);
void weft__outside_fork_child(void);

#endif
