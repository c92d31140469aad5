#include "sched/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/thread.h"
#include "sched/outside.h"
#include "sched/pool.h"
#include "sched/worker.h"

#define STACK_BYTES ((size_t)1 << 20)
#define MOVE_TICKS 5 /* stalled ticks before tasks move: a thread preempted for less keeps them */
#define MOVE_MOST 1024u /* tasks taken from one worker at one tick */
#define BASKET_SLOTS 256u
#define WALK_SHARE                                                                                 \
    400 /* after a walk, no other one for this many times the CPU time that the walk took */
#define WALK_PAUSE_NS 100000000
#define LOOKS 4 /* at outside threads, each ten times as long after the one before */

struct weft__pulse weft__pulse;

/* The thread exists as long as there are pools. */
static struct weft__lock life;
static bool started; /* under `life`, as is the next */
static pthread_t thread;

static _Atomic(bool) quits;
static _Atomic(int64_t) tick_ns = WEFT__WATCH_TICK_NS;
static _Atomic(uint64_t) ticks, deadlocks, hogs;
static _Atomic(int) outlook;
static char outside[32]; /* under the lock of weft__pools */

/* Used by the watchdog thread only. */
static struct weft__ring basket; /* receives the tasks that are taken from a ring */
static uint64_t walked;          /* the awake count when the last walk for cycles began */
static int64_t walk_due;
static unsigned looks; /* checks of outside threads since a worker was last awake */

static void *watch(void *arg);

static uint64_t relaxed(const _Atomic(uint64_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static int64_t tick_length(void)
{
    return atomic_load_explicit(&tick_ns, memory_order_relaxed);
}

void weft__watchdog_set_tick(int64_t ns)
{
    atomic_store_explicit(&tick_ns, ns, memory_order_relaxed);
}

/* --- start and stop with the pools -------------------------------------------------- */

static bool start(void)
{
    pthread_attr_t attr;
    if (!basket.slots && weft__ring_init(&basket, BASKET_SLOTS, 0) != 0) {
        return false;
    }
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    atomic_store_explicit(&quits, false, memory_order_relaxed);
    int err = weft__thread_create(&thread, &attr, watch, NULL);
    pthread_attr_destroy(&attr);
    return err == 0;
}

void weft__watchdog_start(void)
{
    weft__lock(&life);
    started = started || start();
    weft__unlock(&life);
}

void weft__watchdog_stop(void)
{
    weft__lock(&life);
    weft__lock(&weft__pools.lock);
    bool last = !weft__pools.first;
    weft__unlock(&weft__pools.lock);
    if (last && started) { /* so that a program that forks then has no extra thread */
        atomic_store_explicit(&quits, true, memory_order_relaxed);
        weft__pulse_call(&weft__pulse);
        pthread_join(thread, NULL);
        started = false;
    }
    weft__unlock(&life);
}

/* --- hogs --------------------------------------------------------------------------- */

/* Is the worker in the same state as at an earlier tick? If not, the measurement starts again. */
static bool stands_still(struct weft__worker *w, int64_t now)
{
    struct weft__vigil *vigil = &w->vigil;
    const struct weft__task *task = weft__running(w);
    uint64_t executed = relaxed(&w->counters.executed);
    int turns = weft__turns(&w->turns_left) + weft__turns(&w->plain) +
                (int)atomic_load_explicit(&w->slice_left, memory_order_relaxed);
    bool parked = atomic_load_explicit(&w->state, memory_order_relaxed) == WEFT_WORKER_PARKED ||
                  atomic_load_explicit(&w->tid, memory_order_relaxed) == 0;
    bool same = !parked && vigil->since && task == vigil->task && executed == vigil->executed &&
                turns == vigil->turns;
    if (!same) {
        vigil->task = task;
        vigil->executed = executed;
        vigil->turns = turns;
        vigil->since = parked ? 0 : now;
        vigil->offered = INT64_MAX;
        vigil->reported = false;
    }
    return same && now - vigil->since >= tick_length() / 2;
}

/* Takes all tasks that may run elsewhere, up to MOVE_MOST. */
static void take_all(struct weft__worker *w, struct weft__chain *out)
{
    struct weft__task *next = atomic_exchange_explicit(&w->next, NULL, memory_order_acquire);
    struct weft__link *item;
    uint64_t n;
    bool lost = true;
    if (next) {
        weft__chain_push(out, &next->link);
    }
    while (out->count < MOVE_MOST && (item = weft__ring_steal(&w->ring, &basket, &n))) {
        do {
            weft__chain_push(out, item);
        } while ((item = weft__ring_pop_local(&basket)));
    }
    while (out->count < MOVE_MOST && ((item = weft__fresh_take_oldest(&w->fresh, &lost)) || lost)) {
        if (item) {
            weft__chain_push(out, item);
        }
    }
}

/* True: the worker has timers or I/O that busy workers have to serve. */
static bool relieve(struct weft__worker *w, int64_t now)
{
    weft_pool *pool = w->pool;
    struct weft__chain moved;
    if (pool->worker_count == 1) {
        return false; /* no other thread may touch its queues */
    }
    weft__chain_init(&moved);
    if (now - w->vigil.since >= MOVE_TICKS * tick_length()) {
        take_all(w, &moved);
    }
    int64_t timer = weft__wheel_next(&w->wheel);
    bool offer = timer != INT64_MAX && (timer <= now || timer != w->vigil.offered);
    w->vigil.offered = timer;
    bool any = moved.count > 0; /* because the push empties the chain */
    weft__global_push_chain(&pool->global, &moved);
    const struct weft__driver_kind *kind =
        atomic_load_explicit(&pool->driver, memory_order_acquire); /* pairs: open_driver */
    bool io = kind && !kind->completes && atomic_load_explicit(&w->driver, memory_order_relaxed);
    if (any || offer || io || atomic_load_explicit(&w->next, memory_order_relaxed) ||
        weft__ring_length(&w->ring) || weft__fresh_length(&w->fresh)) {
        weft__idle_notify(&pool->idle);
    }
    return timer != INT64_MAX || io;
}

/* Fills in the report if one is due. */
static bool is_hog(struct weft__worker *w, int64_t now, struct weft__hog *out)
{
    struct weft__vigil *vigil = &w->vigil;
    weft_pool *pool = w->pool;
    if (!vigil->task || vigil->reported || pool->hog_ns <= 0 || now - vigil->since < pool->hog_ns) {
        return false;
    }
    vigil->reported = true;
    *out = (struct weft__hog){
        .fiber = weft__task_handle(vigil->task),
        .worker = w->index,
        .tid = atomic_load_explicit(&w->tid, memory_order_relaxed),
        .held_ns = now - vigil->since,
        .bound = relaxed(&w->bound),
    };
    weft__text_cut(out->pool, sizeof out->pool, pool->name);
    if (weft__running(w) != vigil->task) { /* the block may belong to another fiber by now */
        return false;
    }
    weft__count(&vigil->hogs, 1);
    return true;
}

/* True: *hog is to be reported. One per tick; `found`: another pool has one already. */
static bool look_at_workers_locked(weft_pool *pool, int64_t now, struct weft__hog *hog, bool found)
{
    uint32_t to_serve = 0;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft__worker *w = &pool->workers[i];
        if (stands_still(w, now)) {
            to_serve += relieve(w, now);
            found = found || is_hog(w, now, hog);
        }
    }
    if (atomic_load_explicit(&pool->hogged, memory_order_relaxed) != to_serve) {
        atomic_store_explicit(&pool->hogged, to_serve, memory_order_relaxed);
    }
    return found;
}

static void look_at_workers(int64_t now)
{
    struct weft__hog hog;
    bool found = false;
    weft__lock(&weft__pools.lock);
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        found = look_at_workers_locked(pool, now, &hog, found);
    }
    weft__unlock(&weft__pools.lock);
    if (found) {
        weft__count(&hogs, 1);
        weft__report_hog(&hog);
    }
}

/* --- no worker is awake ------------------------------------------------------------------- */

/* Threads in their loops; NULL: no memory. */
static int *list_workers_locked(size_t *count)
{
    size_t most = 1;
    for (const weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        most += pool->worker_count;
    }
    int *tids = malloc(most * sizeof *tids);
    *count = 0;
    for (const weft_pool *pool = weft__pools.first; tids && pool; pool = pool->next) {
        for (unsigned i = 0; i < pool->worker_count; i++) {
            int tid = atomic_load_explicit(&pool->workers[i].tid, memory_order_relaxed);
            if (tid) {
                tids[(*count)++] = tid;
            }
        }
    }
    return tids;
}

/* Does a fiber wait for a descriptor? While all workers are asleep the sum does not change. */
static bool awaits_io_locked(void)
{
    int64_t sum = atomic_load_explicit(&weft__driver_foreign, memory_order_relaxed);
    for (const weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        for (unsigned i = 0; i < pool->worker_count; i++) {
            sum += atomic_load_explicit(&pool->workers[i].io.linked, memory_order_relaxed);
        }
    }
    return sum > 0;
}

/* Is there a source that Weft serves itself and that could wake a fiber? `who` names it. */
static bool has_source_locked(char *who, size_t size)
{
    if (weft__outside_has_refs()) {
        snprintf(who, size, "a source of events");
        return true;
    }
    if (awaits_io_locked()) {
        snprintf(who, size, "a descriptor");
        return true;
    }
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        if (pool->deadlock_off && weft__pool_live(pool)) {
            snprintf(who, size, "pool ");
            weft__text_cut(who + 5, size - 5, pool->name);
            return true;
        }
    }
    return false;
}

static bool has_timer_locked(void)
{
    for (const weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        for (unsigned i = 0; i < pool->worker_count; i++) {
            if (weft__wheel_next(&pool->workers[i].wheel) != INT64_MAX) {
                return true;
            }
        }
    }
    return false;
}

/* Is there a thread or handler outside that could wake a fiber? `who` names it. While frozen. */
static bool has_outsider_locked(char *who, size_t size)
{
    size_t count;
    int *tids = list_workers_locked(&count);
    bool found = !tids || weft__outside_has_thread(tids, count, who, size) ||
                 weft__outside_has_handler(who, size);
    free(tids);
    return found;
}

static enum weft_outlook look_at_parkers_locked(void)
{
    for (const weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        for (unsigned i = 0; i < pool->worker_count; i++) {
            const struct weft__worker *w = &pool->workers[i];
            if (atomic_load_explicit(&w->tid, memory_order_relaxed) &&
                !weft__pulse_parked(&w->sleeper.parker)) {
                return WEFT_OUTLOOK_RUNS;
            }
        }
    }
    return WEFT_OUTLOOK_DEADLOCK;
}

/* Does a fiber, or a thread inside Weft, wait at all? While frozen. */
static bool has_waiters_locked(void)
{
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        if (weft__pool_live(pool)) {
            return true;
        }
    }
    return weft__outside_next_wait(NULL) != NULL;
}

/* The banner has the argument. While frozen. */
static enum weft_outlook look_frozen_locked(uint64_t pulse)
{
    if (!has_waiters_locked()) {
        return WEFT_OUTLOOK_EMPTY;
    }
    if (has_timer_locked()) {
        return WEFT_OUTLOOK_TIMER;
    }
    if (has_source_locked(outside, sizeof outside) ||
        has_outsider_locked(outside, sizeof outside) ||
        /* Again: for sources left by a thread that ended before the threads were listed. */
        has_source_locked(outside, sizeof outside) ||
        weft__outside_has_fired(outside, sizeof outside)) {
        return WEFT_OUTLOOK_OUTSIDE;
    }
    enum weft_outlook found = has_timer_locked() ? WEFT_OUTLOOK_TIMER : look_at_parkers_locked();
    return weft__pulse_read(&weft__pulse) == pulse ? found : WEFT_OUTLOOK_RUNS;
}

static enum weft_outlook look_at_fibers_locked(uint64_t pulse)
{
    weft__outside_freeze();
    enum weft_outlook found = look_frozen_locked(pulse);
    weft__outside_thaw();
    return found;
}

static enum weft_outlook look_at_fibers(uint64_t pulse)
{
    weft__lock(&weft__pools.lock);
    enum weft_outlook found = look_at_fibers_locked(pulse);
    atomic_store_explicit(&outlook, found, memory_order_relaxed);
    weft__unlock(&weft__pools.lock);
    return found;
}

/* A thread that waits as a worker for one fiber, or for all of them, returns with an error. */
static void end_runs_locked(void)
{
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        struct weft__chain none; /* it stays empty: a thread waits, not a fiber to be queued */
        weft__chain_init(&none);
        weft__lock(&pool->lock);
        if (pool->runner) {
            weft__waiter_fire(pool->runner, WEFT__REASON_CANCEL, &none);
        }
        weft__unlock(&pool->lock);
    }
}

/* The report comes first, because its handler may resolve the deadlock. */
static void report_deadlock(uint64_t pulse)
{
    weft__count(&deadlocks, 1);
    if (walked != pulse) { /* the end of the runs may break up cycles that no walk has seen */
        weft__report_cycles();
        walked = pulse;
    }
    weft__report_deadlock();
    weft__lock(&weft__pools.lock);
    if (look_at_fibers_locked(pulse) == WEFT_OUTLOOK_DEADLOCK) {
        end_runs_locked();
    }
    weft__unlock(&weft__pools.lock);
}

/* --- the thread ------------------------------------------------------------------------- */

void weft__watchdog_look_again(void)
{
    weft__pulse_changed(&weft__pulse);
}

/* The CPU time of this thread, not the elapsed time: when the CPU is busy with other threads a walk
 * takes longer without costing more. */
static int64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Walks if that is due and a worker was awake since the last walk; else *wait is when it will be
 * due. */
static void walk_if_due(uint64_t pulse, int64_t now, int64_t *wait)
{
    if (pulse == walked && weft__pulse_all_asleep(pulse)) {
        return;
    }
    if (now < walk_due) {
        *wait = walk_due;
        return;
    }
    int64_t began = cpu_ns();
    weft__report_cycles();
    int64_t pause = (cpu_ns() - began) * WALK_SHARE;
    walk_due = weft__clock_ns() + (pause > WALK_PAUSE_NS ? pause : WALK_PAUSE_NS);
    walked = pulse;
}

/* When to check the outside threads again: they may have been about to end. */
static int64_t next_look(int64_t now)
{
    int64_t wait = tick_length();
    for (unsigned i = 0; i < looks; i++) {
        wait *= 10;
    }
    return looks++ < LOOKS ? now + wait : INT64_MAX;
}

/* Performs one tick. Returns until when to sleep if no worker wakes up; 0: tick again. */
static int64_t tick(uint64_t pulse, bool still)
{
    int64_t now = weft__clock_ns(), until = INT64_MAX;
    weft__count(&ticks, 1);
    look_at_workers(now);
    walk_if_due(pulse, now, &until);
    if (!still) {
        looks = 0;
        return 0;
    }
    enum weft_outlook found = look_at_fibers(pulse);
    if (found == WEFT_OUTLOOK_DEADLOCK) {
        report_deadlock(pulse);
    } else if (found == WEFT_OUTLOOK_EMPTY) {
        until = INT64_MAX; /* nor is there anything to walk */
    } else if (found == WEFT_OUTLOOK_OUTSIDE) {
        int64_t look = next_look(now);
        until = look < until ? look : until;
    }
    return found == WEFT_OUTLOOK_RUNS ? 0 : until;
}

static void *watch(void *arg)
{
    uint64_t last = WEFT__PULSE_RESTING; /* differs from every value read */
    weft__outside_thread_enter();
    pthread_setname_np(pthread_self(), "weft_watchdog");
    for (;;) {
        uint32_t bell = weft__pulse_bell(&weft__pulse);
        if (atomic_load_explicit(&quits, memory_order_relaxed)) {
            break;
        }
        uint64_t pulse = weft__pulse_read(&weft__pulse);
        int64_t until = tick(pulse, weft__pulse_all_asleep(pulse) && pulse == last);
        last = pulse;
        if (until) {
            weft__pulse_rest(&weft__pulse, pulse, bell, until);
        } else {
            weft__futex_wait(&weft__pulse.bell, bell, weft__clock_ns() + tick_length());
        }
    }
    weft__outside_thread_leave();
    return arg;
}

/* --- statistics
 * --------------------------------------------------------------------------------- */

void weft__watch_stats(struct weft_watch_stats *out)
{
    weft__lock(&weft__pools.lock);
    out->deadlocks = relaxed(&deadlocks);
    out->hogs = relaxed(&hogs);
    out->ticks = relaxed(&ticks);
    out->outlook = (enum weft_outlook)atomic_load_explicit(&outlook, memory_order_relaxed);
    memcpy(out->outside, outside, sizeof out->outside);
    weft__unlock(&weft__pools.lock);
}

/* --- forks ---------------------------------------------------------------------------------- */

void weft__watchdog_fork_prepare(void)
{
    weft__report_fork_prepare();
    weft__outside_fork_prepare();
}

void weft__watchdog_fork_parent(void)
{
    weft__outside_fork_parent();
    weft__report_fork_parent();
}

/* The child has neither the thread nor the pools: the state is as before the first pool. `life` is
 * not taken before the fork, because it is held as long as the thread takes to end. */
void weft__watchdog_fork_child(void)
{
    outside[0] = 0;
    atomic_store_explicit(&outlook, WEFT_OUTLOOK_EMPTY, memory_order_relaxed);
    life = (struct weft__lock){0};
    started = false;
    atomic_store_explicit(&weft__pulse.word, 0, memory_order_relaxed);
    atomic_store_explicit(&basket.head, relaxed(&basket.tail), memory_order_relaxed);
    walked = 0;
    walk_due = 0;
    looks = 0;
    weft__outside_fork_child();
    weft__report_fork_child();
}
