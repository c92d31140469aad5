/* Queries an actor's state from outside, and waits until it reaches a given state. */
#ifndef WEFT_TEST_HOST_STATE_H
#define WEFT_TEST_HOST_STATE_H

#include <weft/weft.h>

#include "check.h"

static inline struct weft_actor_info info_of(weft_pid pid)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(pid, &info), 0);
    return info;
}

static inline void until(weft_pid pid, enum weft_actor_state state)
{
    while (info_of(pid).state != state) {
        weft_yield();
    }
}

#endif
