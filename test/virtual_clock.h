/* A clock that stands still until the test moves it. It replaces the C library's clock_gettime for
 * the whole program and the runtime in it, so that a test can say to the nanosecond when something
 * is due.
 *
 * For code that runs on the test's own thread: a pool or a dispatcher with `caller`, which is
 * polled. A thread that sleeps uses the kernel's clock, and must not be relied on while this clock
 * stands still; until virtual_clock_stop is called, the clock is the real one.
 */
#ifndef WEFT_TEST_VIRTUAL_CLOCK_H
#define WEFT_TEST_VIRTUAL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic(int64_t) virtual_clock_ns; /* 0: the real clock */

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int64_t now = atomic_load(&virtual_clock_ns);
    if (now == 0 || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)) {
        return (int)syscall(SYS_clock_gettime, clock, time);
    }
    time->tv_sec = now / 1000000000;
    time->tv_nsec = now % 1000000000;
    return 0;
}

/* From here on the clock stands at this time, until it is set again. Never moves back. */
__attribute__((unused)) static void virtual_clock_set(int64_t ns)
{
    atomic_store(&virtual_clock_ns, ns);
}

/* Stops the clock at the next multiple of `unit` after the real time. Returns that time. */
__attribute__((unused)) static int64_t virtual_clock_stop(int64_t unit)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    int64_t now = ((int64_t)time.tv_sec * 1000000000 + time.tv_nsec) / unit * unit + unit;
    virtual_clock_set(now);
    return now;
}

/* Returns to the real clock. */
__attribute__((unused)) static void virtual_clock_go(void)
{
    atomic_store(&virtual_clock_ns, 0);
}

#endif
