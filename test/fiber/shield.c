/* Shields: between enter and leave neither cancel nor interrupt ends a wait; they take effect in
 * the next wait after the leave. */
/* labels: valgrind */
#include "pool/fixture.h"

#define MS INT64_C(1000000)

static weft_event event;
static atomic_int inside;

/* Waits for the event inside as many shields as the argument says, then outside of them. */
static void *waits_shielded(void *arg)
{
    int depth = (int)(intptr_t)arg;
    for (int i = 0; i < depth; i++) {
        weft_fiber_shield_enter();
    }
    atomic_fetch_add(&inside, 1);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), 0);
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    for (int i = 0; i < depth; i++) {
        CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
        weft_fiber_shield_leave();
    }
    return (void *)(intptr_t)weft_fiber_park(WEFT_FOREVER);
}

static void *ends_in_a_shield(void *arg)
{
    bool cancel = arg != NULL;
    for (intptr_t depth = 1; depth <= 3; depth++) {
        weft_fiber fiber;
        void *result;
        atomic_store(&inside, 0);
        weft_event_reset(&event);
        CHECK_EQ(weft_spawn(&fiber, waits_shielded, (void *)depth, NULL), 0);
        await_count(&inside, 1);
        await_state(fiber, WEFT_FIBER_WAITING);
        CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
        for (int i = 0; i < 20; i++) {
            weft_yield();
        }
        enum weft_fiber_state state;
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
        CHECK_EQ(state, WEFT_FIBER_WAITING); /* the fiber still waits */
        weft_event_set(&event);
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, cancel ? -ECANCELED : -EINTR);
    }
    return NULL;
}

TEST(cancel_or_interrupt_in_shield_takes_effect_after_last_leave)
{
    weft_event_init(&event, NULL);
    run_in_fiber(1, ends_in_a_shield, NULL);
    run_in_fiber(2, ends_in_a_shield, &event);
    weft_event_deinit(&event);
}

static void *pending_before_enter(void *arg)
{
    CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
    weft_fiber_shield_enter();
    CHECK(weft_fiber_is_interrupted()); /* a pending interrupt can be queried */
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK(weft_fiber_is_cancelled());
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    weft_fiber_shield_leave();
    CHECK_EQ(weft_sleep(weft_after(1000)), -ECANCELED);
    CHECK(weft_fiber_is_interrupted());
    weft_fiber_shield_enter(); /* for the cleanups of a cancelled fiber */
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    weft_fiber_shield_leave();
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    return arg;
}

TEST(cancel_pending_before_shield_is_delivered_after_leave)
{
    run_in_fiber(1, pending_before_enter, NULL);
}

static void cleans_up(void *arg)
{
    weft_fiber_shield_enter();
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    weft_fiber_shield_leave();
    CHECK_EQ(weft_sleep(weft_after(MS)), -ECANCELED);
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void *leaves_when_cancelled(void *arg)
{
    struct weft_fiber_cleanup node;
    weft_fiber_cleanup_push(&node, cleans_up, arg);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    weft_fiber_exit(NULL);
}

static void *cancels_it(void *arg)
{
    weft_fiber fiber;
    atomic_store(&inside, 0);
    CHECK_EQ(weft_spawn(&fiber, leaves_when_cancelled, &inside, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&inside), 1);
    return arg;
}

TEST(cleanup_of_cancelled_fiber_can_wait_in_shield)
{
    run_in_fiber(1, cancels_it, NULL);
}

/* A recycled control block starts without shields. */
static void *ends_in_a_shield_of_its_own(void *arg)
{
    weft_fiber_shield_enter();
    return arg;
}

static void *is_cancelled(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED);
    return arg;
}

static void *recycles_slots(void *arg)
{
    for (int i = 0; i < 20; i++) {
        weft_fiber fiber;
        CHECK_EQ(weft_spawn(&fiber, i % 2 ? is_cancelled : ends_in_a_shield_of_its_own, NULL, NULL),
                 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(shield_ends_with_its_fiber)
{
    run_in_fiber(1, recycles_slots, NULL);
}

/* A shield does not hold back an unpark or an event. */
static void *parks_shielded(void *arg)
{
    weft_fiber_shield_enter();
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    weft_fiber_shield_leave();
    return arg;
}

static void *unparks_it(void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, parks_shielded, NULL, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(wake_up_reaches_fiber_in_shield)
{
    run_in_fiber(1, unparks_it, NULL);
    run_in_fiber(2, unparks_it, NULL);
}

/* --- misuse ----------------------------------------------------------------------------------- */

static void *leaves_twice(void *arg)
{
    weft_fiber_shield_enter();
    weft_fiber_shield_leave();
    weft_fiber_shield_leave();
    return arg;
}

static void one_too_many(void *arg)
{
    run_in_fiber(1, leaves_twice, arg);
}

static void outside(void *arg)
{
    (void)arg;
    weft_fiber_shield_enter();
}

TEST(shield_leave_without_enter_or_outside_fiber_aborts)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(one_too_many, NULL, err, sizeof err)));
    CHECK(strstr(err, "weft_fiber_shield_leave without weft_fiber_shield_enter"));
    CHECK(WIFSIGNALED(check_child(outside, NULL, err, sizeof err)));
    CHECK(strstr(err, "weft_fiber_shield_enter was called outside of a fiber"));
}
