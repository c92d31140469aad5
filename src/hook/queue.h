/* Fibers that wait for a mutex or a condition of the C library: by its address, in the order in
 * which they came.
 *
 *   waiter                              whoever unlocks or signals
 *   1. enter (count + 1, seq_cst)       1. the plain call
 *   2. try                              2. count, seq_cst: nobody is there?
 *   3. sleep                            3. wake the first
 *
 * One of the two sees the other, for the plain unlock is an atomic exchange. What is unlocked past
 * the hooks, by the C library itself, is found by trying again.
 */
#ifndef WEFT_HOOK_QUEUE_H
#define WEFT_HOOK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/event.h>

struct weft__hook_sleeper {
    const void *object;
    struct weft__hook_sleeper *next, *prev;
    bool queued; /* under the lock of its place */
    weft_event woken;
};

void weft__hook_queue_enter(struct weft__hook_sleeper *sleeper, const void *object);
/* Goes to the end once more, if it was woken in vain. */
void weft__hook_queue_again(struct weft__hook_sleeper *sleeper);
/* True: it was woken. */
bool weft__hook_queue_leave(struct weft__hook_sleeper *sleeper);
/* Wakes the first `most` who wait for the object. */
void weft__hook_queue_wake(const void *object, unsigned most);

/* In a forked child, where none of them is. */
void weft__hook_queue_fork_child(void);

/* Who has a mutex that knows its thread: one that may be locked again, or that checks. To the C
 * library all fibers of a worker are the same thread. */

/* Another fiber has it. */
bool weft__hook_owner_other(const void *mutex, weft_fiber self);
/* `self` has locked it once more. False: there is no room to note it. */
bool weft__hook_owner_add(const void *mutex, weft_fiber self);
/* `self` has unlocked it once. */
void weft__hook_owner_remove(const void *mutex, weft_fiber self);

#endif
