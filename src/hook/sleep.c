/* sleep and its variants. The remaining time is written when an interrupt or a cancel ends the
 * sleep; an interrupt is EINTR, a cancel is ECANCELED, because a cancelled fiber that slept again
 * after EINTR would never end. */
#include <errno.h>

#include <weft/fiber.h>

#include "hook/real_calls.h"
#include "hook/wait.h"

/* 0, or a positive errno. */
static int sleep_until(int64_t deadline, struct timespec *left)
{
    int before = errno;
    int err = weft_sleep(deadline);
    errno = before;
    if (err && left) {
        *left = weft__hook_remaining(deadline);
    }
    return -err;
}

WEFT__HOOK unsigned sleep(unsigned seconds)
{
    if (!weft__hook_begin()) {
        return weft__real()->sleep(seconds);
    }
    struct timespec time = {.tv_sec = seconds}, left = {0};
    return sleep_until(weft__hook_after(&time), &left) ? (unsigned)left.tv_sec : 0;
}

WEFT__HOOK int usleep(useconds_t us)
{
    if (!weft__hook_begin()) {
        return weft__real()->usleep(us);
    }
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};
    int err = sleep_until(weft__hook_after(&time), NULL);
    return err ? weft__hook_fail(-err) : 0;
}

WEFT__HOOK int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!weft__hook_begin() || !weft__hook_is_valid_time(time)) {
        return weft__real()->nanosleep(time, left);
    }
    int err = sleep_until(weft__hook_after(time), left);
    return err ? weft__hook_fail(-err) : 0;
}

struct job {
    clockid_t clock;
    int flags, result;
    const struct timespec *time;
    struct timespec *left;
};

static void sleep_plain(void *arg)
{
    struct job *job = arg;
    job->result = weft__real()->clock_nanosleep(job->clock, job->flags, job->time, job->left);
}

/* Until a time of day: the clock may have been set meanwhile. */
static int sleep_to_time_of_day(const struct timespec *time)
{
    struct timespec now;
    int err = 0;
    do {
        err = sleep_until(weft__hook_at(CLOCK_REALTIME, time), NULL);
        clock_gettime(CLOCK_REALTIME, &now);
    } while (!err && (now.tv_sec < time->tv_sec ||
                      (now.tv_sec == time->tv_sec && now.tv_nsec < time->tv_nsec)));
    return err;
}

WEFT__HOOK int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                               struct timespec *left)
{
    if (!weft__hook_begin() || !weft__hook_is_valid_time(time) || (flags & ~TIMER_ABSTIME)) {
        return weft__real()->clock_nanosleep(clock, flags, time, left);
    }
    if (clock == CLOCK_MONOTONIC || (clock == CLOCK_REALTIME && !(flags & TIMER_ABSTIME))) {
        return sleep_until(flags & TIMER_ABSTIME ? weft__hook_at(clock, time)
                                                 : weft__hook_after(time),
                           flags & TIMER_ABSTIME ? NULL : left);
    }
    if (clock == CLOCK_REALTIME) {
        return sleep_to_time_of_day(time);
    }
    /* Clocks that libweft does not have: CPU time, or time that includes suspend. */
    struct job job = {.clock = clock, .flags = flags, .time = time, .left = left};
    bool use_real;
    int before = errno;
    if (!weft__hook_run_blocking(sleep_plain, &job, &use_real) && !use_real) {
        job.result = errno;
    } else if (use_real) {
        sleep_plain(&job);
    }
    errno = before;
    return job.result;
}
