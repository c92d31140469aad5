/* Fiber functions shared by the tests of waits and their completion. */
#ifndef WEFT_TEST_FIBER_FIBERS_H
#define WEFT_TEST_FIBER_FIBERS_H

#include "pool/fixture.h"

__attribute__((unused)) static weft_fiber spawn(weft_fn fn, void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, fn, arg, NULL), 0);
    return fiber;
}

__attribute__((unused)) static void *parks(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

__attribute__((unused)) static void *nothing(void *arg)
{
    return arg;
}

#endif
