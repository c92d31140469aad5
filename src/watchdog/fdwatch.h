/* Descriptors that one thread of the process watches for readability: signals and child processes
 * need no more. The drivers do not watch them, because both belong to the process and not to a
 * pool: plain threads and compute pools, which have no driver, wait for them too, and so must be
 * notified while every worker is held up.
 *
 * The thread starts with the first watch, sleeps in epoll_wait, and ends shortly after the last
 * watch was removed. It has no periodic wake-ups.
 */
#ifndef WEFT_WATCHDOG_FDWATCH_H
#define WEFT_WATCHDOG_FDWATCH_H

#include <stdbool.h>
#include <stdint.h>

struct weft__fdwatch {
    /* Called by the watcher's thread, under its lock, as long as the descriptor is readable. It
     * must be short and must not call this module. Returning false ends the watch: the watcher
     * closes the descriptor, and the memory belongs to the callee again. */
    bool (*ready)(struct weft__fdwatch *watch);
    int fd;
    /* private */
    uint64_t id; /* {generation:32, index:32} */
};

/* Watches `fd` until `ready` returns false or the watch is removed. The caller keeps the memory,
 * and keeps the descriptor open meanwhile. -EAGAIN: no thread. -EMFILE, -ENFILE, -ENOMEM, -ENOSPC
 * from the kernel. */
int weft__fdwatch_add(struct weft__fdwatch *watch, int fd, bool (*ready)(struct weft__fdwatch *));

/* Ends a watch. When this returns, `ready` is not running and will not run again. Not to be called
 * from `ready`, nor with a lock held that `ready` takes. Removing a watch that `ready` has ended is
 * a caller's bug. */
void weft__fdwatch_remove(struct weft__fdwatch *watch);

/* Around a fork; the child watches nothing. For pool/fork.c. */
void weft__fdwatch_fork_prepare(void);
void weft__fdwatch_fork_parent(void);
void weft__fdwatch_fork_child(void);

#endif
