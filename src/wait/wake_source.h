/* Wake sources: what could still wake a fiber when every worker is asleep and no timer is pending.
 *
 * - Sources that Weft serves but that are not timers: each holds a reference while a fiber may wait
 *   for it (an open signal set, a watched child process, a job until it has run).
 * - Threads of the process that do not belong to Weft: every thread in /proc/self/task that is
 *   neither a worker in its loop nor known here. A plain thread that waits inside Weft without a
 *   deadline is known until it is fired: until then it cannot wake a fiber. With a deadline it
 *   continues by itself, and counts as a wake source.
 * - Handlers for signals from other processes: they may end the program, or set a variable that a
 *   thread checks.
 *
 * When in doubt there is a wake source: a deadlock that is not reported hangs as it would without
 * the watchdog; one that is reported wrongly ends a program that works.
 */
#ifndef WEFT_WAIT_WAKE_SOURCE_H
#define WEFT_WAIT_WAKE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/inspect.h>

#include "base/atomic.h"

struct weft__wait_kind;

/* Taken before the fiber waits, released after it was fired. Any thread. */
void weft__wake_source_ref(void);
void weft__wake_source_unref(void);
bool weft__wake_source_has_refs(void);

/* The calling thread belongs to Weft and wakes no fiber unless a reference says so. -ENOMEM: it
 * counts as a wake source. */
int weft__wake_source_ignore_thread(void);
void weft__wake_source_unignore_thread(void);

/* The function at this address belongs to Weft and wakes no fiber, whichever signal it handles. */
void weft__wake_source_ignore_handler(uintptr_t handler);

/* A wait of a plain thread without a deadline; on its stack, linked from begin to end. */
struct weft__thread_wait {
    struct weft__thread_wait *next, *prev;
    const _Atomic(uint32_t) *word; /* neither 0 nor `asleep`: the wait has ended */
    uint32_t asleep;
    int tid;
    const struct weft__wait_kind *kind; /* what it waits for, as in weft__waiter_park */
    uint64_t on;
};

/* The calling thread, which is not a worker, does nothing between begin and being fired, and
 * nothing after that before end. `word`, `asleep`, `kind` and `on` are set. */
void weft__thread_wait_begin(struct weft__thread_wait *wait);
void weft__thread_wait_end(struct weft__thread_wait *wait);

/* Between the two calls no thread begins or ends such a wait: the threads that are in one do
 * nothing at all. */
void weft__thread_wait_freeze(void);
void weft__thread_wait_thaw(void);
/* While frozen: the first, then the next of the waits, whether fired or not; NULL: no more. */
const struct weft__thread_wait *weft__thread_wait_next(const struct weft__thread_wait *last);
/* Has the wait not been fired yet? */
bool weft__thread_wait_is_pending(const struct weft__thread_wait *wait);

/* While frozen: is there a thread that is neither in `own` nor known nor in a wait? Opens no
 * descriptor. */
bool weft__wake_source_has_thread(const int *own, size_t count);
/* While frozen: name the first such thread. Opens a descriptor for a moment. */
void weft__wake_source_name_thread(const int *own, size_t count, char *who, size_t size);
/* While frozen: is there a thread whose wait was ended and that has not continued yet? */
bool weft__wake_source_has_fired(char *who, size_t size);
/* Is there a handler for a signal from other processes? */
bool weft__wake_source_has_handler(char *who, size_t size);

/* Around a fork; the child has one thread. */
void weft__wake_source_fork_prepare(void);
void weft__wake_source_fork_parent(void);
void weft__wake_source_fork_child(void);

#endif
