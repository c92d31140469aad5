#include "watchdog/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/objname.h"
#include "base/thread.h"
#include "lock/lock.h"
#include "sched/pool.h"
#include "wait/wake_source.h"
#include "worker/worker.h"

#define STACK_BYTES ((size_t)1 << 20)
#define MOVE_TICKS 5   /* stalled ticks before tasks move: a thread preempted for less keeps them */
#define MOVE_MAX 1024u /* tasks taken from one worker at one tick */
#define SCRATCH_SLOTS 256u
#define WALK_SHARE                                                                                 \
    400 /* after a walk, no other one for this many times the CPU time that the walk took */
#define WALK_PAUSE_NS 100000000
#define MAX_CHECKS 4 /* at outside threads, each ten times as long after the one before */

/* The thread exists as long as there are pools. */
static struct weft__lock life_lock;
static bool started; /* under `life_lock`, as is the next */
static pthread_t thread;

static _Atomic(bool) quitting;
static _Atomic(int64_t) tick_ns = WEFT__WATCH_TICK_NS;
static _Atomic(uint64_t) ticks, deadlocks, hogs;
static _Atomic(int) wake_source;
static char source_name[32];  /* under the lock of weft__pools, as is the next */
static bool source_is_thread; /* not named: its number is found when somebody asks */

/* Used by the watchdog thread only. */
static struct weft__ring scratch_ring; /* receives the tasks that are taken from a ring */
static uint64_t walked;                /* the awake count when the last walk for cycles began */
static int64_t walk_due;
static unsigned checks; /* checks of outside threads since a worker was last awake */

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
    if (!scratch_ring.slots && weft__ring_init(&scratch_ring, SCRATCH_SLOTS, 0) != 0) {
        return false;
    }
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    atomic_store_explicit(&quitting, false, memory_order_relaxed);
    int err = weft__thread_create(&thread, &attr, watch, NULL);
    pthread_attr_destroy(&attr);
    return err == 0;
}

void weft__watchdog_start(void)
{
    weft__lock(&life_lock);
    started = started || start();
    weft__unlock(&life_lock);
}

void weft__watchdog_stop(void)
{
    weft__lock(&life_lock);
    weft__lock(&weft__pools.lock);
    bool last = !weft__pools.first;
    weft__unlock(&weft__pools.lock);
    if (last && started) { /* so that a program that forks then has no extra thread */
        atomic_store_explicit(&quitting, true, memory_order_relaxed);
        weft__awake_count_ring(&weft__awake_count);
        pthread_join(thread, NULL);
        started = false;
    }
    weft__unlock(&life_lock);
}

/* --- hogs --------------------------------------------------------------------------- */

/* Is the worker in the same state as at an earlier tick? If not, the measurement starts again. */
static bool check_stalled(struct weft__worker *w, int64_t now)
{
    struct weft__watch_state *watch_state = &w->watch_state;
    const struct weft__task *task = weft__running(w);
    uint64_t executed = relaxed(&w->counters.executed);
    int turns = weft__turns(&w->turns_left) + weft__turns(&w->fast_turns) +
                (int)atomic_load_explicit(&w->slice_left, memory_order_relaxed);
    bool parked = atomic_load_explicit(&w->state, memory_order_relaxed) == WEFT_WORKER_PARKED ||
                  atomic_load_explicit(&w->tid, memory_order_relaxed) == 0;
    bool same = !parked && watch_state->since && task == watch_state->task &&
                executed == watch_state->executed && turns == watch_state->turns;
    if (!same) {
        watch_state->task = task;
        watch_state->executed = executed;
        watch_state->turns = turns;
        watch_state->since = parked ? 0 : now;
        watch_state->offered = INT64_MAX;
        watch_state->reported = false;
    }
    return same && now - watch_state->since >= tick_length() / 2;
}

/* Takes all tasks that may run elsewhere, up to MOVE_MAX. */
static void take_all(struct weft__worker *w, struct weft__chain *out)
{
    struct weft__task *next = atomic_exchange_explicit(&w->next, NULL, memory_order_acquire);
    struct weft__link *item;
    uint64_t n;
    bool lost = true;
    if (next) {
        weft__chain_push(out, &next->link);
    }
    while (out->count < MOVE_MAX && (item = weft__ring_steal(&w->ring, &scratch_ring, &n))) {
        do {
            weft__chain_push(out, item);
        } while ((item = weft__ring_pop_local(&scratch_ring)));
    }
    while (out->count < MOVE_MAX && ((item = weft__fresh_take_oldest(&w->fresh, &lost)) || lost)) {
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
    if (now - w->watch_state.since >= MOVE_TICKS * tick_length()) {
        take_all(w, &moved);
    }
    int64_t timer = weft__wheel_next(&w->wheel);
    bool offer = timer != INT64_MAX && (timer <= now || timer != w->watch_state.offered);
    w->watch_state.offered = timer;
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
static bool check_hog(struct weft__worker *w, int64_t now, struct weft__hog *out)
{
    struct weft__watch_state *watch_state = &w->watch_state;
    weft_pool *pool = w->pool;
    if (!watch_state->task || watch_state->reported || pool->hog_ns <= 0 ||
        now - watch_state->since < pool->hog_ns) {
        return false;
    }
    watch_state->reported = true;
    *out = (struct weft__hog){
        .fiber = weft__task_handle(watch_state->task),
        .worker = w->index,
        .tid = atomic_load_explicit(&w->tid, memory_order_relaxed),
        .held_ns = now - watch_state->since,
        .bound = relaxed(&w->bound),
    };
    weft__objname_truncate(out->pool, sizeof out->pool, pool->name);
    if (weft__running(w) != watch_state->task) { /* the block may belong to another fiber by now */
        return false;
    }
    weft__count(&watch_state->hogs, 1);
    return true;
}

/* True: *hog is to be reported. One per tick; `found`: another pool has one already. */
static bool check_workers_locked(weft_pool *pool, int64_t now, struct weft__hog *hog, bool found)
{
    uint32_t to_serve = 0;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft__worker *w = &pool->workers[i];
        if (check_stalled(w, now)) {
            to_serve += relieve(w, now);
            found = found || check_hog(w, now, hog);
        }
    }
    if (atomic_load_explicit(&pool->stalled_workers, memory_order_relaxed) != to_serve) {
        atomic_store_explicit(&pool->stalled_workers, to_serve, memory_order_relaxed);
    }
    return found;
}

static void check_workers(int64_t now)
{
    struct weft__hog hog;
    bool found = false;
    weft__lock(&weft__pools.lock);
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        found = check_workers_locked(pool, now, &hog, found);
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
static bool has_io_waits_locked(void)
{
    int64_t sum = atomic_load_explicit(&weft__driver_threadless_waits, memory_order_relaxed);
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
    if (weft__wake_source_has_refs()) {
        snprintf(who, size, "an event source");
        return true;
    }
    if (has_io_waits_locked()) {
        snprintf(who, size, "a descriptor");
        return true;
    }
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        if (pool->deadlock_off && weft__pool_live(pool)) {
            snprintf(who, size, "pool ");
            weft__objname_truncate(who + 5, size - 5, pool->name);
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

/* Is there a thread or handler outside that could wake a fiber? `who` names a handler. While
 * frozen. */
static bool has_external_source_locked(char *who, size_t size)
{
    size_t count;
    int *tids = list_workers_locked(&count);
    source_is_thread = !tids || weft__wake_source_has_thread(tids, count);
    free(tids);
    return source_is_thread || weft__wake_source_has_handler(who, size);
}

static enum weft_wake_source check_parkers_locked(void)
{
    for (const weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        for (unsigned i = 0; i < pool->worker_count; i++) {
            const struct weft__worker *w = &pool->workers[i];
            if (atomic_load_explicit(&w->tid, memory_order_relaxed) &&
                !weft__awake_count_is_parked(&w->sleeper.parker)) {
                return WEFT_WAKE_SOURCE_RUNNING;
            }
        }
    }
    return WEFT_WAKE_SOURCE_DEADLOCK;
}

/* Does a fiber, or a thread inside Weft, wait at all? While frozen. */
static bool has_waiters_locked(void)
{
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        if (weft__pool_live(pool)) {
            return true;
        }
    }
    return weft__thread_wait_next(NULL) != NULL;
}

/* The banner has the argument. While frozen. */
static enum weft_wake_source check_frozen_locked(uint64_t awake)
{
    source_is_thread = false;
    if (!has_waiters_locked()) {
        return WEFT_WAKE_SOURCE_NO_FIBERS;
    }
    if (has_timer_locked()) {
        return WEFT_WAKE_SOURCE_TIMER;
    }
    if (has_source_locked(source_name, sizeof source_name) ||
        has_external_source_locked(source_name, sizeof source_name) ||
        /* Again: for sources left by a thread that ended before the threads were counted. */
        has_source_locked(source_name, sizeof source_name) ||
        weft__wake_source_has_fired(source_name, sizeof source_name)) {
        return WEFT_WAKE_SOURCE_EXTERNAL;
    }
    enum weft_wake_source found =
        has_timer_locked() ? WEFT_WAKE_SOURCE_TIMER : check_parkers_locked();
    return weft__awake_count_read(&weft__awake_count) == awake ? found : WEFT_WAKE_SOURCE_RUNNING;
}

static enum weft_wake_source check_fibers_locked(uint64_t awake)
{
    weft__thread_wait_freeze();
    enum weft_wake_source found = check_frozen_locked(awake);
    weft__thread_wait_thaw();
    return found;
}

static enum weft_wake_source check_fibers(uint64_t awake)
{
    weft__lock(&weft__pools.lock);
    enum weft_wake_source found = check_fibers_locked(awake);
    atomic_store_explicit(&wake_source, found, memory_order_relaxed);
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
static void report_deadlock(uint64_t awake)
{
    weft__count(&deadlocks, 1);
    if (walked != awake) { /* the end of the runs may break up cycles that no walk has seen */
        weft__report_cycles();
        walked = awake;
    }
    weft__report_deadlock();
    weft__lock(&weft__pools.lock);
    if (check_fibers_locked(awake) == WEFT_WAKE_SOURCE_DEADLOCK) {
        end_runs_locked();
    }
    weft__unlock(&weft__pools.lock);
}

/* --- the thread ------------------------------------------------------------------------- */

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
static void walk_if_due(uint64_t awake, int64_t now, int64_t *wait)
{
    if (awake == walked && weft__awake_count_is_zero(awake)) {
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
    walked = awake;
}

/* When to check the outside threads again: they may have been about to end. */
static int64_t next_check(int64_t now)
{
    int64_t wait = tick_length();
    for (unsigned i = 0; i < checks; i++) {
        wait *= 10;
    }
    return checks++ < MAX_CHECKS ? now + wait : INT64_MAX;
}

/* Performs one tick. Returns until when to sleep if no worker wakes up; 0: tick again. */
static int64_t tick(uint64_t awake, bool still)
{
    int64_t now = weft__clock_ns(), until = INT64_MAX;
    weft__count(&ticks, 1);
    check_workers(now);
    walk_if_due(awake, now, &until);
    if (!still) {
        checks = 0;
        return 0;
    }
    enum weft_wake_source found = check_fibers(awake);
    if (found == WEFT_WAKE_SOURCE_DEADLOCK) {
        report_deadlock(awake);
    } else if (found == WEFT_WAKE_SOURCE_NO_FIBERS) {
        until = INT64_MAX; /* nor is there anything to walk */
    } else if (found == WEFT_WAKE_SOURCE_EXTERNAL) {
        int64_t look = next_check(now);
        until = look < until ? look : until;
    }
    return found == WEFT_WAKE_SOURCE_RUNNING ? 0 : until;
}

static void *watch(void *arg)
{
    uint64_t last = WEFT__AWAKE_COUNT_WAITING; /* differs from every value read */
    weft__wake_source_ignore_thread();
    pthread_setname_np(pthread_self(), "weft_watchdog");
    for (;;) {
        uint32_t doorbell = weft__awake_count_doorbell(&weft__awake_count);
        if (atomic_load_explicit(&quitting, memory_order_relaxed)) {
            break;
        }
        uint64_t awake = weft__awake_count_read(&weft__awake_count);
        int64_t until = tick(awake, weft__awake_count_is_zero(awake) && awake == last);
        last = awake;
        if (until) {
            weft__awake_count_wait(&weft__awake_count, awake, doorbell, until);
        } else {
            weft__futex_wait(&weft__awake_count.doorbell, doorbell,
                             weft__clock_ns() + tick_length());
        }
    }
    weft__wake_source_unignore_thread();
    return arg;
}

/* --- statistics ------------------------------------------------------------------------------- */

static void name_thread_locked(char *who, size_t size)
{
    size_t count;
    int *tids = list_workers_locked(&count);
    snprintf(who, size, "a thread");
    if (tids) {
        weft__thread_wait_freeze();
        weft__wake_source_name_thread(tids, count, who, size);
        weft__thread_wait_thaw();
    }
    free(tids);
}

void weft__watchdog_stats(struct weft_watchdog_stats *out)
{
    weft__lock(&weft__pools.lock);
    out->deadlocks = relaxed(&deadlocks);
    out->hogs = relaxed(&hogs);
    out->ticks = relaxed(&ticks);
    out->wake_source =
        (enum weft_wake_source)atomic_load_explicit(&wake_source, memory_order_relaxed);
    memcpy(out->source_name, source_name, sizeof out->source_name);
    if (out->wake_source == WEFT_WAKE_SOURCE_EXTERNAL && source_is_thread) {
        name_thread_locked(out->source_name, sizeof out->source_name);
    }
    weft__unlock(&weft__pools.lock);
}

/* --- forks ---------------------------------------------------------------------------------- */

void weft__watchdog_fork_prepare(void)
{
    weft__report_fork_prepare();
    weft__wake_source_fork_prepare();
}

void weft__watchdog_fork_parent(void)
{
    weft__wake_source_fork_parent();
    weft__report_fork_parent();
}

/* The child has neither the thread nor the pools: the state is as before the first pool.
 * `life_lock` is not taken before the fork, because it is held as long as the thread takes to
 * end. */
void weft__watchdog_fork_child(void)
{
    source_name[0] = 0;
    atomic_store_explicit(&wake_source, WEFT_WAKE_SOURCE_NO_FIBERS, memory_order_relaxed);
    life_lock = (struct weft__lock){0};
    started = false;
    atomic_store_explicit(&weft__awake_count.word, 0, memory_order_relaxed);
    atomic_store_explicit(&scratch_ring.head, relaxed(&scratch_ring.tail), memory_order_relaxed);
    walked = 0;
    walk_due = 0;
    checks = 0;
    weft__wake_source_fork_child();
    weft__report_fork_child();
}
