/* A minimal stackless task: it arms a wait on an object, returns, and is notified when the wait has
 * ended. This is how frame fibers and actors look to the objects they wait on.
 *
 *     struct body body;
 *     body_arm(&body);
 *     if (!weft__event_arm(event, &body.node)) { body_disarm(&body); ... already set ... }
 *     ... another thread sets the event ...
 *     CHECK(body_told(&body));
 *     weft__event_finish(event, &body.node);
 */
#ifndef WEFT_TEST_SYNC_STACKLESS_H
#define WEFT_TEST_SYNC_STACKLESS_H

#include "check.h"
#include "wait/waiter.h"
#include "worker/worker.h"

struct body {
    struct weft__waiter waiter; /* first: the waiter is the stackless task */
    struct weft__node node;
    _Atomic(int) told; /* number of notifications */
};

__attribute__((unused)) static void body_notify(struct weft__waiter *waiter)
{
    struct body *body = (struct body *)(void *)waiter;
    atomic_fetch_add(&body->told, 1);
}

__attribute__((unused)) static void body_arm(struct body *body)
{
    atomic_store(&body->told, 0);
    weft__waiter_arm_notify(&body->waiter, body_notify);
    weft__node_init(&body->node, &body->waiter, 0);
}

/* The wait ended before it began: there must be no notification. */
__attribute__((unused)) static void body_disarm(struct body *body)
{
    CHECK_EQ(weft__waiter_disarm(&body->waiter), WEFT__REASON_NONE);
    CHECK_EQ(atomic_load(&body->told), 0);
}

/* Returns whether the task was notified exactly once, by its node. */
__attribute__((unused)) static bool body_told(struct body *body)
{
    int told = atomic_load(&body->told);
    CHECK(told <= 1);
    CHECK(!told || weft__waiter_reason(&body->waiter) == WEFT__REASON_DONE);
    return told == 1;
}

/* Ends the wait by its deadline or a cancel. Returns false if the wait had already ended. */
__attribute__((unused)) static bool body_end(struct body *body, enum weft__reason reason)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    bool won = weft__waiter_fire(&body->waiter, reason, &ready);
    CHECK(!ready.head);
    return won;
}

#endif
