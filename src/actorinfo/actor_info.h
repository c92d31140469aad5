/* Internals of actor info. The public contract is <weft/actor.h>. */
#ifndef WEFT_ACTORINFO_ACTOR_INFO_H
#define WEFT_ACTORINFO_ACTOR_INFO_H

#include <weft/actor.h>

#include "base/cpu.h"
#include "lock/lock.h"

/* Register the actors' task info with the scheduler: from now on dumps of fibers show actors. */
void weft__actor_info_register(void);

/* A lock attempt for inspection, which must not wait long: false if the lock was not obtained after
 * 100 tries. */
static inline bool weft__lock_try_spin(struct weft__lock *lock)
{
    int tries = 100;
    bool mine;
    while (!(mine = weft__lock_try(lock)) && tries-- > 0) {
        weft__cpu_pause();
    }
    return mine;
}

#endif
