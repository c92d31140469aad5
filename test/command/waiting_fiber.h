/* A fiber in its own pool that calls or sends and is known to wait in that call, so that its
 * message is in the mailbox. The mailbox count cannot prove this: it includes messages that are
 * admitted but not linked yet. */
#ifndef WEFT_TEST_COMMAND_WAITING_FIBER_H
#define WEFT_TEST_COMMAND_WAITING_FIBER_H

#include <weft/weft.h>

#include "check.h"

__attribute__((unused)) static void await_waiting(weft_fiber fiber)
{
    enum weft_fiber_state state;
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
}

__attribute__((unused)) static weft_pool *start_waiting(weft_fiber *fiber, weft_fn fn, void *arg)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, fiber, fn, arg, NULL), 0);
    await_waiting(*fiber);
    return pool;
}

__attribute__((unused)) static void *join_waiting(weft_pool *pool, weft_fiber fiber)
{
    void *result;
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    return result;
}

#endif
