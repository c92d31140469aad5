/* Wait queues of fibers that wait for a mutex or a condition variable of the C library: found by
 * the object's address, in FIFO order.
 *
 *   waiter                              unlocker or signaller
 *   1. enter (count + 1, seq_cst)       1. the real call
 *   2. try                              2. count, seq_cst: no waiters?
 *   3. sleep                            3. wake the first
 *
 * One of the two sees the other, because the real unlock is an atomic exchange. An unlock without
 * the hooks, by the C library itself, is found by trying again.
 */
#ifndef WEFT_HOOK_WAIT_QUEUE_H
#define WEFT_HOOK_WAIT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/sync.h>

struct weft__hook_waiter {
    const void *object;
    struct weft__hook_waiter *next, *prev;
    bool queued; /* under the lock of its bucket */
    weft_event woken;
};

void weft__hook_queue_enter(struct weft__hook_waiter *entry, const void *object);
/* Queue again at the end, after a wake-up in vain. */
void weft__hook_queue_again(struct weft__hook_waiter *entry);
/* True: the waiter was woken. */
bool weft__hook_queue_leave(struct weft__hook_waiter *entry);
/* Wake the first `most` waiters of the object. */
void weft__hook_queue_wake(const void *object, unsigned most);

/* Reset in a forked child, which has none of the waiters. */
void weft__hook_queue_fork_child(void);

/* The owners of recursive and error-checking mutexes, which record their thread. To the C library
 * all fibers of a worker are the same thread. */

/* True: another fiber owns it. */
bool weft__hook_owner_is_other(const void *mutex, weft_fiber self);
/* `self` has locked the mutex once more. False: there is no memory to record it. */
bool weft__hook_owner_add(const void *mutex, weft_fiber self);
/* `self` has unlocked the mutex once. */
void weft__hook_owner_remove(const void *mutex, weft_fiber self);

#endif
