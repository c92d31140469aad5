/* sleep, usleep, nanosleep, clock_nanosleep. */
/* alike without hooks */
#include <time.h>

#include "hook/hooked.h"

#define MS 1000000L

IN_FIBER(hooked_sleeps_last_requested_time)
{
    struct timespec time = {.tv_nsec = 30 * MS};
    int64_t start = weft_now();
    CHECK_EQ(nanosleep(&time, NULL), 0);
    CHECK(weft_now() - start >= 30 * MS);
    start = weft_now();
    CHECK_EQ(usleep(500), 0); /* also below a millisecond */
    CHECK(weft_now() - start >= 500000);
    start = weft_now();
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), 0);
    CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, 0, &time, NULL), 0);
    CHECK(weft_now() - start >= 60 * MS);
    CHECK_EQ(sleep(0), 0);
}

IN_FIBER(hooked_absolute_sleeps_end_at_their_time)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};
    for (unsigned i = 0; i < 3; i++) {
        struct timespec now, at;
        clock_gettime(clocks[i], &at);
        at.tv_nsec += 20 * MS;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        CHECK_EQ(clock_nanosleep(clocks[i], TIMER_ABSTIME, &at, NULL), 0);
        clock_gettime(clocks[i], &now);
        CHECK(now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec));
    }
    struct timespec past = {.tv_sec = 1};
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL), 0);
    CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, NULL), 0);
}

IN_FIBER(hooked_sleep_with_bad_time_is_einval)
{
    struct timespec wide = {.tv_nsec = 1000000000}, negative = {.tv_sec = -1};
    CHECK_FAILS(nanosleep(&wide, NULL), EINVAL);
    CHECK_FAILS(nanosleep(&negative, NULL), EINVAL);
    errno = 0;
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &wide, NULL), EINVAL);
    CHECK_EQ(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &wide, NULL), EINVAL);
    CHECK_EQ(errno, 0);
}

static void interrupt(void *arg)
{
    weft_fiber_interrupt(*(weft_fiber *)arg);
}

/* Only a fiber's sleep can be interrupted by weft_fiber_interrupt. */
IN_FIBER(interrupted_hooked_sleep_returns_remaining_time)
{
    if (!weft_hook_is_active()) {
        return;
    }
    weft_fiber self = weft_self();
    struct hooked_peer peer;
    struct timespec time = {.tv_sec = 1000}, left = {0};
    hooked_peer_start(&peer, interrupt, &self);
    CHECK_FAILS(nanosleep(&time, &left), EINTR);
    CHECK(left.tv_sec >= 800 && left.tv_sec < 1000);
    hooked_peer_join(&peer);
    hooked_peer_start(&peer, interrupt, &self);
    CHECK(sleep(1000) >= 800);
    hooked_peer_join(&peer);
    hooked_peer_start(&peer, interrupt, &self);
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left), EINTR);
    CHECK(left.tv_sec >= 800);
    hooked_peer_join(&peer);
}

static void *sleeps_for_ever(void *arg)
{
    struct timespec time = {.tv_sec = 1000}, left = {0};
    CHECK_FAILS(nanosleep(&time, &left), ECANCELED);
    CHECK(left.tv_sec > 900);
    CHECK(sleep(1000) > 900);
    return arg;
}

IN_FIBER(cancel_ends_hooked_sleeps)
{
    weft_fiber fiber;
    if (weft_hook_is_active()) {
        CHECK_EQ(weft_spawn(&fiber, sleeps_for_ever, NULL, NULL), 0);
        weft_yield();
        CHECK_EQ(weft_cancel(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
}

static void *sleeps(void *arg)
{
    struct timespec time = {.tv_nsec = 300 * MS};
    CHECK_EQ(nanosleep(&time, NULL), 0);
    return arg;
}

IN_FIBER(fibers_sleep_concurrently_in_hooked_calls)
{
    weft_fiber fibers[100];
    if (!weft_hook_is_active()) {
        return;
    }
    int64_t start = weft_now();
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], sleeps, NULL, NULL), 0);
    }
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK(hooked_since(start) < 30); /* sequentially it would be 30 s */
}
