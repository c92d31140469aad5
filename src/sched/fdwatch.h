/* Descriptors that are watched for readability by one thread of the process: signals and child
 * processes need no more. Not by the drivers, because both are the process's and not a pool's: they
 * are heard of by plain threads and by pools for computing, which have no driver, and while every
 * worker is held up.
 *
 * The thread starts with the first watch, sleeps in epoll_wait, and ends when nothing has been
 * watched for a moment. It has no periodic wake-ups.
 */
#ifndef WEFT_SCHED_FDWATCH_H
#define WEFT_SCHED_FDWATCH_H

#include <stdbool.h>
#include <stdint.h>

struct weft__fdwatch {
    /* Called by the watcher's thread, under its lock, as long as the descriptor is readable: short,
     * and no call of this module. False: it is watched no more, the watcher closes it, and the
     * memory is the callee's again. */
    bool (*ready)(struct weft__fdwatch *watch);
    int fd;
    /* private */
    uint64_t id; /* {generation:32, index:32} */
};

/* Watches `fd`, until `ready` answers false or remove. The memory is the caller's; the descriptor
 * stays open meanwhile. -EAGAIN: no thread. -EMFILE, -ENFILE, -ENOMEM, -ENOSPC from the kernel. */
int weft__fdwatch_add(struct weft__fdwatch *watch, int fd, bool (*ready)(struct weft__fdwatch *));

/* When this returns, `ready` is not running and will not run any more. Not from within `ready`, nor
 * with a lock that it takes. A watch that `ready` has ended is none: a caller's bug. */
void weft__fdwatch_remove(struct weft__fdwatch *watch);

/* Around a fork; the child watches nothing. For sched/fork.c. */
void weft__fdwatch_fork_prepare(void);
void weft__fdwatch_fork_parent(void);
void weft__fdwatch_fork_child(void);

#endif
