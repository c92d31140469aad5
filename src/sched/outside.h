/* What could still wake a fiber when every worker is asleep and no timer is pending.
 *
 *  - Sources that Weft serves but that are no timers: a reference for as long as somebody waits on one (a descriptor, a
 *    signal, a child process, a job on a thread of the blocking pool).
 *  - Threads of the process that are not Weft's: whoever is listed in /proc/self/task and is neither a worker in its
 *    loop nor known here.
 *  - Handlers of signals that come from elsewhere: they may end the program, or set what a thread looks at.
 * When in doubt there is something outside: a deadlock that is not reported hangs as it did before, one that is
 * reported wrongly ends a program that works.
 */
#ifndef WEFT_SCHED_OUTSIDE_H
#define WEFT_SCHED_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/report.h>

/* Taken before the fiber waits, given back after it was fired. Any thread. */
void weft__outside_ref(void);
void weft__outside_unref(void);
bool weft__outside_has_refs(void);

/* The calling thread is Weft's and wakes nobody unless a reference says so. -ENOMEM: it counts as outside. */
int weft__outside_thread_enter(void);
void weft__outside_thread_leave(void);

/* The handler of this signal is Weft's and wakes nobody. */
void weft__outside_own_signal(int signo);

/* A thread that is neither in `own` nor known; `who` says which. */
bool weft__outside_has_thread(const int *own, size_t count, char *who, size_t size);
/* A handler for a signal from elsewhere. */
bool weft__outside_has_handler(char *who, size_t size);

/* Around a fork; in the child one thread is left. */
void weft__outside_fork_prepare(void);
void weft__outside_fork_parent(void);
void weft__outside_fork_child(void);

#endif
