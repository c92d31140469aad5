/* Internals of actor info. The public contract is <weft/actor_look.h>. */
#ifndef WEFT_ACTOR_LOOK_INTERNAL_H
#define WEFT_ACTOR_LOOK_INTERNAL_H

#include <weft/actor_look.h>

#include "base/cpu.h"
#include "base/lock.h"

/* Register the actors' task info with the scheduler: from now on dumps of fibers show actors. */
void weft__look_register(void);

/* A lock attempt for inspection, which must not wait long: false if the lock was not obtained after
 * 100 tries. */
static inline bool weft__lock_soon(struct weft__lock *lock)
{
    int tries = 100;
    bool mine;
    while (!(mine = weft__lock_try(lock)) && tries-- > 0) {
        weft__cpu_pause();
    }
    return mine;
}

#endif
