/* The watchdog: one thread for all pools that checks workers which do not report by themselves.
 *
 * The count of awake workers (idle/awake_count.h) tells whether any worker is awake. The first
 * worker that wakes up while the watchdog sleeps wakes it; as long as any worker is awake, the
 * watchdog ticks every 10 ms; when none was awake for a whole tick, it determines once what the
 * fibers wait for, and sleeps. So an idle process has no ticks, a busy one pays for two
 * read-modify-writes around each sleep of a worker, and a switch costs nothing.
 *
 * Hogs. A worker has not looked for another task, whether it found one or not, if the values that
 * it writes in doing so are the same at two ticks: the turns it counts down, and `executed`, to
 * which they are added. From then on, tick by tick, sleeping workers are woken to steal from it and
 * to serve its timers and its I/O (except for io_uring's), and busy workers do so at their own
 * ticks (weft_pool.hogged). After five ticks the tasks that are still in its queues move to the
 * global queue, for workers that are too busy to steal. After hog_ns the fiber is reported, once.
 *
 * Deadlock. The watchdog reads the count of awake workers as zero. Plain threads that wait inside
 * Weft are frozen there (wait/wake_source.h), so that what is found out about them stays true. It
 * finds no other thread outside; then no reference of wait/wake_source.h and no timer, no frozen
 * thread that has been fired, and every worker in its loop PARKED; and the count word is still the
 * same. Then nothing will ever run again. No worker is about to (idle/awake_count.h). Nor was a
 * worker notified by a thread from outside: such a thread is gone by the time threads are listed,
 * and it notified before that, as it fired what it fired. Threads are created by threads that run,
 * and timers are added by them. A thread that fires another does so before it sleeps (a worker: the
 * first read of the count has seen that), before it begins to wait (a plain thread: by the lock of
 * the waits) or before it releases its reference (one of Weft's own threads).
 *
 * Cycles of waits are stable too. They are found by walking all fibers (obs/wait_cycle.c) whenever
 * a worker was awake since the last walk, but with at most about a hundredth of one CPU.
 *
 * Rejected: a check by the last worker that goes to sleep (listing threads takes 30 us, and this
 * worker is the one that is woken next); a check at each lock or join that has to wait (two that
 * close a cycle together both miss it, and joins are a hot path); a signal that preempts the hog
 * (it may hold any lock).
 */
#ifndef WEFT_WATCHDOG_WATCHDOG_H
#define WEFT_WATCHDOG_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>
#include <weft/inspect.h>

#include "base/atomic.h"
#include "idle/awake_count.h"

struct weft__task;

#define WEFT__WATCH_TICK_NS 10000000 /* unless a test has set another */
#define WEFT__HOG_NS 100000000       /* the default of the pool option */

/* Called after a pool was added to weft__pools, and after one was removed: the thread exists while
 * there are pools. If the thread cannot be started, nothing is watched. */
void weft__watchdog_start(void);
void weft__watchdog_stop(void);

/* For tests: sets the length of a tick. */
void weft__watchdog_set_tick(int64_t ns);

/* task/fork.h */
void weft__watchdog_fork_prepare(void);
void weft__watchdog_fork_parent(void);
void weft__watchdog_fork_child(void);

/* All statistics except those of the cycles. */
void weft__watchdog_stats(struct weft_watchdog_stats *out);

/* --- in src/obs: the reports, and the walk for cycles --------------------------- */

struct weft__hog {
    weft_fiber fiber;
    int worker, tid;
    int64_t held_ns;
    uint64_t bound; /* fibers that only this worker may run, perhaps including the hog */
    char pool[32];
};

void weft__report_hog(const struct weft__hog *hog);
void weft__report_deadlock(void);
/* Called by the thread that destroys a pool: `count` of its fibers were never joined. */
void weft__report_unjoined(const char *pool, uint64_t count, weft_fiber first);
/* Reports every cycle that has not been reported before. */
void weft__report_cycles(void);

void weft__report_fork_prepare(void);
void weft__report_fork_parent(void);
void weft__report_fork_child(void);

#endif
