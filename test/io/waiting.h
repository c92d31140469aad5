/* Fibers that wait in a call, and the call's result. */
#ifndef WEFT_TEST_IO_WAITING_H
#define WEFT_TEST_IO_WAITING_H

#include <weft/weft.h>

#include "check.h"

/* Spawns the fiber, and returns when it waits. */
__attribute__((unused)) static weft_fiber started(weft_fn fn, void *arg)
{
    weft_fiber fiber;
    enum weft_fiber_state state;
    CHECK_EQ(weft_spawn(&fiber, fn, arg, NULL), 0);
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
        CHECK(state != WEFT_FIBER_DONE);
    } while (state != WEFT_FIBER_WAITING);
    return fiber;
}

__attribute__((unused)) static int64_t joined(weft_fiber fiber)
{
    void *result;
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    return (intptr_t)result;
}

#endif
