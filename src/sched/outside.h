/* What could still wake a fiber when every worker is asleep and no timer is pending.
 *
 *  - Sources that Weft serves but that are no timers: a reference for as long as there is one that
 *    somebody may wait on (an open set of signals, a child process that is watched, a job until it
 *    has run).
 *  - Threads of the process that are not Weft's: whoever is listed in /proc/self/task and is
 *    neither a worker in its loop nor known here.
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

/* A thread that is neither in `own` nor known; `who` says which. */
bool weft__outside_has_thread(const int *own, size_t count, char *who, size_t size);
/* A handler for a signal from elsewhere. */
bool weft__outside_has_handler(char *who, size_t size);

/* Around a fork; in the child one thread is left. */
void weft__outside_fork_prepare(void);
void weft__outside_fork_parent(void);
void weft__outside_fork_child(void);

#endif
