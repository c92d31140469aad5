/* Monotonic time in nanoseconds. Reading the clock costs 24 ns: hot paths use the worker's cached
 * time. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEFT__NS_PER_S 1000000000

static inline int64_t weft__clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * WEFT__NS_PER_S + t.tv_nsec;
}

/* time + ns, ns >= 0, saturating at INT64_MAX, which means forever. */
static inline int64_t weft__clock_add(int64_t time, int64_t ns)
{
    int64_t then;
    return __builtin_add_overflow(time, ns, &then) ? INT64_MAX : then;
}

/* The remaining time until the deadline, for system calls with relative timeouts; never
 * negative. */
static inline struct timespec weft__clock_remaining(int64_t deadline)
{
    int64_t now = weft__clock_ns();
    int64_t left = deadline > now ? deadline - now : 0;
    return (struct timespec){.tv_sec = left / WEFT__NS_PER_S, .tv_nsec = left % WEFT__NS_PER_S};
}

/* Debug builds: checks that a caller's deadline is 0 or not before the program's start; an earlier
 * time is probably a duration passed by mistake. Called where a deadline takes effect. */
#if defined(WEFT_DEBUG) && WEFT_DEBUG && !defined(WEFT_EXPLORE)
void weft__deadline_check(int64_t deadline);
#else
static inline void weft__deadline_check(int64_t deadline)
{
    (void)deadline;
}
#endif

/* The same clock as of the last timer interrupt: a quarter of the cost, some milliseconds old. */
static inline int64_t weft__clock_coarse_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * WEFT__NS_PER_S + t.tv_nsec;
}

#endif
