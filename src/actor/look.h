#ifndef WEFT_ACTOR_LOOK_INTERNAL_H
#define WEFT_ACTOR_LOOK_INTERNAL_H

#include <weft/actor_look.h>

#include "base/cpu.h"
#include "base/lock.h"

/* From now on actors are seen as such in dumps of fibers. */
void weft__look_register(void);

/* For who waits for nobody for long. False: it could not be had. */
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
