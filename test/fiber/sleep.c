/* labels: valgrind */
/* A sleep never ends early, a cancel ends it, and it costs the worker no CPU time. */
#include "pool/fixture.h"

enum { MS = 1000000 };

static void *sleep_a_little(void *arg)
{
    int64_t began = weft_now();
    CHECK_EQ(weft_sleep(weft_after(2 * MS)), 0);
    CHECK(weft_now() - began >= 2 * MS);
    int64_t deadline = weft_after(MS);
    CHECK_EQ(weft_sleep(deadline), 0);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_sleep(weft_after(0)), 0);
    CHECK_EQ(weft_sleep(weft_now() - 1), 0);
    return arg;
}

TEST(sleep_never_ends_early)
{
    run_in_fiber(1, sleep_a_little, NULL);
    sleep_a_little(NULL); /* on a plain thread, too */
}

static void *sleep_for_ever(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_sleep(WEFT_FOREVER);
}

static void *cancel_a_sleeper(void *arg)
{
    weft_fiber sleeper;
    void *result;
    CHECK_EQ(weft_spawn(&sleeper, sleep_for_ever, NULL, NULL), 0);
    await_state(sleeper, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark(sleeper), 0); /* a permit does not end a sleep */
    CHECK_EQ(weft_cancel(sleeper), 0);
    CHECK_EQ(weft_join(sleeper, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    return arg;
}

TEST(cancel_ends_sleep)
{
    run_in_fiber(2, cancel_a_sleeper, NULL);
}

static void *sleep_once(void *order)
{
    _Atomic(int) *turn = order;
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    atomic_fetch_add(turn, 1);
    return NULL;
}

static void *many_sleepers(void *arg)
{
    enum { SLEEPERS = 1000 };
    weft_fiber sleepers[SLEEPERS];
    _Atomic(int) woken = 0;
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(weft_spawn(&sleepers[i], sleep_once, &woken, NULL), 0);
    }
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(weft_join(sleepers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(woken, SLEEPERS);
    return arg;
}

TEST(thousand_sleepers_share_one_thread)
{
    run_in_fiber(1, many_sleepers, NULL);
}
