/* The watchdog: one thread for all pools that looks at workers which do not come to it themselves.
 *
 * The pulse (sched/pulse.h) tells whether any worker is awake. The first to awake while the
 * watchdog rests rouses it; as long as any is awake it ticks every 10 ms; when none was for a whole
 * tick it looks once at where that leaves the fibers, and rests. So an idle process has no ticks, a
 * busy one pays for two read-modify-writes around each sleep of a worker, and a switch costs
 * nothing.
 *
 * Hogs. A worker has not looked for another task, whether it found one or not, if what it writes
 * then anyway is the same at two ticks: the turns it counts down, and `executed`, to which they are
 * added. From then on, tick by tick, sleepers are woken to steal and to see to its timers and its
 * I/O (but for io_uring's), and workers that are busy do so at their own ticks (weft_pool.hogged).
 * After five ticks what is still in its queues goes to the global queue, for those who are too busy
 * to steal. After hog_ns it is reported, once.
 *
 * Deadlock. The pulse is read with nobody awake; plain threads that wait inside Weft are frozen
 * there (sched/outside.h), so that what is found of them holds; no other thread is found outside;
 * then the references of sched/outside.h and the timers are found to be none, no thread in its wait
 * has been fired, every worker in its loop is seen PARKED; and the pulse is still the same. Then
 * nothing runs any more, for ever: no worker is about to (sched/pulse.h), nor was one told by a
 * thread from outside, which is gone by the time threads are listed and told it before, as it fired
 * whom it fired; threads are made by threads that run, and timers are added by them. Whoever fires
 * a thread does it before it sleeps (a worker: the first read of the pulse has seen that), before
 * it begins to wait (a plain thread: by the lock of the waits) or gives its reference back (a
 * thread of Weft's own).
 *
 * Cycles of waits are stable too, and are found by walking all fibers (obs/cycle.c) whenever
 * somebody was awake since the last walk, but spending no more than a hundredth of one CPU on it.
 *
 * Rejected: a look by the last worker that goes to sleep (listing threads takes 30 us, and it is
 * the one that is woken next); a look at each lock or join that has to wait (two that close a cycle
 * together both miss it, and joins are a hot path); a signal that preempts the hog (it may hold any
 * lock).
 */
#ifndef WEFT_SCHED_WATCHDOG_H
#define WEFT_SCHED_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>
#include <weft/report.h>

#include "base/atomic.h"
#include "sched/pulse.h"

struct weft__task;

#define WEFT__WATCH_TICK_NS 10000000 /* while no test has asked for another */
#define WEFT__HOG_NS 100000000       /* the default of the pool option */

/* What the watchdog remembers of a worker. The watchdog only, but for the counter. */
struct weft__vigil {
    const struct weft__task *task; /* as it was when the worker last moved, seen at `since` */
    uint64_t executed;
    int turns;
    int64_t since;
    int64_t offered; /* the timer that sleepers were last told of */
    bool reported;
    _Atomic(uint64_t) hogs;
};

extern struct weft__pulse weft__pulse;

/* After a pool was added to weft__pools, and after one was removed: the thread lives while there
 * are any. If it cannot be started nothing is watched. */
void weft__watchdog_start(void);
void weft__watchdog_stop(void);

/* What was found when all were last asleep may have changed. Any thread. */
void weft__watchdog_look_again(void);

/* Tests: how long a tick is from now on. */
void weft__watchdog_set_tick(int64_t ns);

/* sched/fork.h */
void weft__watchdog_fork_prepare(void);
void weft__watchdog_fork_parent(void);
void weft__watchdog_fork_child(void);

/* All but the cycles. */
void weft__watch_stats(struct weft_watch_stats *out);

/* --- in src/obs: what is said, and the walk for cycles ----------------------- */

struct weft__hog {
    weft_fiber fiber;
    int worker, tid;
    int64_t held_ns;
    uint64_t bound; /* fibers that only this worker may run, the hog perhaps among them */
    char pool[32];
};

void weft__report_hog(const struct weft__hog *hog);
void weft__report_deadlock(void);
/* A pool ends, by the thread that destroys it: so many of its fibers nobody has joined. */
void weft__report_unjoined(const char *pool, uint64_t count, weft_fiber first);
/* Reports every cycle that it has not reported before. */
void weft__report_cycles(void);

void weft__report_fork_prepare(void);
void weft__report_fork_parent(void);
void weft__report_fork_child(void);

#endif
