/* Stopping a pool: refuse spawns from outside, wait until no fiber is left, join the threads.
 *
 * A worker that runs out of work ends the wait: after the last fiber's counter was written it
 * enters the idle word (a seq_cst RMW) and then checks whether a stop is waiting (`drain_awaited`).
 * The stop first sets `drain_awaited`, then reads the idle word and the counters. One of the two
 * sees the other, and the end of a fiber costs no barrier.
 */
#include <errno.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/nonnull.h"
#include "fiber/cancel.h"
#include "sched/pool.h"
#include "task/handle.h"

#define MIN_GRACE_NS 1000000000

/* Is there work that only worker 0 can do, while its thread is absent? */
static bool needs_absent_caller(weft_pool *pool)
{
    struct weft__worker *w = &pool->workers[0];
    if (!pool->caller || /* pairs: weft__pool_caller_leave */
        atomic_load_explicit(&w->state, memory_order_seq_cst) != WEFT_WORKER_ABSENT) {
        return false;
    }
    return pool->worker_count == 1 || atomic_load_explicit(&w->bound, memory_order_relaxed) > 0;
}

void weft__pool_check_drained(weft_pool *pool)
{
    if (weft__pool_live(pool) != 0 && !needs_absent_caller(pool)) {
        return;
    }
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&pool->lock);
    struct weft__node *node = pool->stoppers;
    pool->stoppers = NULL;
    while (node) {
        struct weft__node *next = node->next;
        weft__node_notify(node, 0, &ready);
        node = next;
    }
    weft__unlock(&pool->lock);
    weft__place_all(&ready, WEFT__FRONT);
}

static void unlink_stopper(weft_pool *pool, struct weft__node *node)
{
    weft__lock(&pool->lock);
    for (struct weft__node **at = &pool->stoppers; *at; at = &(*at)->next) {
        if (*at == node) {
            *at = node->next;
            break;
        }
    }
    weft__unlock(&pool->lock);
}

/* A stop on worker 0's own thread serves the pool while it waits; its deadline is a timer of its
 * own wheel. */
struct served_wait {
    struct weft__timer timer; /* first */
    struct weft__waiter *waiter;
};

static void served_wait_expired(struct weft__timer *timer, void *arg)
{
    struct served_wait *wait = (struct served_wait *)(void *)timer;
    weft__waiter_fire(wait->waiter, WEFT__REASON_TIMEOUT, arg);
}

enum weft__reason weft__pool_serve(weft_pool *pool, struct weft__waiter *waiter, int64_t deadline)
{
    struct weft__wheel *wheel = &pool->workers[0].wheel;
    struct served_wait wait = {.waiter = waiter};
    weft__timer_init(&wait.timer, served_wait_expired);
    weft__deadline_check(deadline);
    if (deadline != WEFT_FOREVER) {
        weft__wheel_add(wheel, &wait.timer, deadline);
    }
    enum weft__reason reason = weft__pool_lend_thread(pool, waiter);
    if (deadline != WEFT_FOREVER) {
        weft__wheel_cancel(wheel, &wait.timer);
    }
    return reason;
}

static const struct weft__wait_kind stop_kind = {.name = "stop"};

/* 0: drained. -EDEADLK, -ETIMEDOUT, -ECANCELED (the stopping fiber was cancelled). */
static int wait_drained(weft_pool *pool, int64_t deadline, bool as_worker)
{
    for (;;) {
        struct weft__waiter waiter;
        struct weft__node node;
        if (as_worker) {
            weft__waiter_arm_worker(&waiter, &pool->workers[0].sleeper.parker, &pool->visitors);
        } else {
            weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
        }
        weft__node_init(&node, &waiter, 0);
        weft__lock(&pool->lock);
        node.next = pool->stoppers;
        pool->stoppers = &node;
        weft__unlock(&pool->lock);
        atomic_store_explicit(&pool->drain_awaited, 1,
                              memory_order_seq_cst); /* pairs: sleep_once */
        (void)atomic_load_explicit(&pool->idle.word, memory_order_seq_cst);
        weft__pool_check_drained(pool);

        enum weft__reason reason = as_worker ? weft__pool_serve(pool, &waiter, deadline)
                                             : weft__waiter_park(&waiter, deadline, &stop_kind, 0);
        if (reason != WEFT__REASON_DONE) {
            unlink_stopper(pool, &node);
            return as_worker && reason == WEFT__REASON_CANCEL ? -EDEADLK
                                                              : weft__reason_errno(reason);
        }
        if (weft__pool_live(pool) == 0) {
            return 0;
        }
        if (needs_absent_caller(pool)) { /* checked again: the caller may have come back
                                            meanwhile */
            return -EDEADLK;
        }
    }
}

/* Under the ident lock: is the fiber in a scoped migration away from this pool? */
static bool will_return(const struct weft__task *task, const weft_pool *pool)
{
    enum weft__task_state state = weft__task_state(task);
    if (weft__task_is_stackless(task) || state == WEFT__TASK_CREATED || state == WEFT__TASK_FRESH ||
        state == WEFT__TASK_DONE) {
        return false; /* no stack */
    }
    return weft__migration_will_return_to(weft__task_rare(task), pool);
}

void weft__pool_cancel_all(weft_pool *pool, uint32_t flags)
{
    atomic_fetch_or_explicit(&pool->cancelling, flags, memory_order_seq_cst);
    weft__pool_cancel_walk(pool);
}

void weft__pool_cancel_walk(weft_pool *pool)
{
    uint32_t slots = weft__slab_slots();
    uint32_t flags = atomic_load_explicit(&pool->cancelling, memory_order_seq_cst);
    for (uint32_t slot = 1; slot <= slots; slot++) {
        struct weft__task *task = weft__slab_find(slot);
        /* pairs: pending_cancel_flags */
        uint64_t ident = atomic_load_explicit(&task->ident, memory_order_seq_cst);
        if (!(ident & WEFT__IDENT_LIVE) || (ident & WEFT__IDENT_DONE) || (ident & flags) == flags) {
            continue;
        }
        if (weft__ident_lock(task, weft__ident_generation(ident), 0, &ident)) {
            bool ours = task->home == pool || will_return(task, pool);
            weft_fiber fiber = weft__ident_generation(ident) << 32 | slot;
            weft__ident_unlock(task, ident);
            if (ours) {
                weft__cancel(fiber, flags, NULL);
            }
        }
    }
}

static int64_t extended_deadline(int64_t began, int64_t deadline)
{
    int64_t grace = deadline > began ? deadline - began : 0;
    return weft_after(grace > MIN_GRACE_NS ? grace : MIN_GRACE_NS);
}

static uint32_t cancel_flags(enum weft_stop_mode mode)
{
    return mode == WEFT_STOP_ABORT ? WEFT__IDENT_CANCEL | WEFT__IDENT_ABORT : WEFT__IDENT_CANCEL;
}

static int drain(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline, bool as_worker)
{
    int64_t began = weft__clock_ns();
    int err;
    if (mode == WEFT_STOP_DRAIN) {
        err = wait_drained(pool, deadline, as_worker);
        if (err != -ETIMEDOUT) {
            return err;
        }
        deadline = extended_deadline(began, deadline);
    }
    weft__pool_cancel_all(pool, cancel_flags(mode));
    err = wait_drained(pool, deadline, as_worker);
    if (err == -ETIMEDOUT) {
        fprintf(stderr, "weft: pool %s: fibers have not ended although they were cancelled\n",
                pool->name);
        weft_pool_dump(pool, stderr, 100);
        return -EBUSY;
    }
    return err;
}

/* Refuses spawns from outside from now on. */
static int begin_stop(weft_pool *pool)
{
    weft__lock(&pool->phase_lock);
    int phase = atomic_load_explicit(&pool->phase, memory_order_relaxed);
    int err = 0;
    if (phase != WEFT__POOL_STOPPED) {
        atomic_store_explicit(&pool->phase, WEFT__POOL_STOPPING, memory_order_seq_cst);
    }
    if (phase == WEFT__POOL_CREATED && weft__pool_live(pool)) {
        err = weft__pool_create_threads(pool);
        if (err) { /* what was submitted before the start can neither run nor be dropped */
            atomic_store_explicit(&pool->phase, WEFT__POOL_CREATED, memory_order_seq_cst);
        }
    }
    weft__unlock(&pool->phase_lock);
    return err;
}

int weft_pool_stop(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline)
{
    WEFT__NONNULL(pool);
    return pool->group_sched ? -EINVAL : weft__pool_stop(pool, mode, deadline);
}

int weft__pool_stop(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline)
{
    if (mode != WEFT_STOP_DRAIN && mode != WEFT_STOP_CANCEL && mode != WEFT_STOP_ABORT) {
        return -EINVAL;
    }
    weft__pool_check_fork(pool);
    if (atomic_load_explicit(&pool->phase, memory_order_acquire) == WEFT__POOL_STOPPED) {
        return 0;
    }
    int err = begin_stop(pool);
    if (err) {
        return err;
    }
    struct weft__worker *w = weft__worker_self();
    if (w && weft__running(w) && w->pool == pool) {
        if (mode != WEFT_STOP_DRAIN) {
            weft__pool_cancel_all(pool, cancel_flags(mode));
        }
        return -EINPROGRESS;
    }
    if (pool->caller && pthread_equal(pool->caller_thread, pthread_self())) {
        weft__pool_caller_enter(pool);
        err = drain(pool, mode, deadline, true);
        weft__pool_caller_leave(pool);
    } else {
        err = drain(pool, mode, deadline, false);
    }
    if (err) {
        return err;
    }
    weft__lock(&pool->phase_lock);
    if (atomic_load_explicit(&pool->phase, memory_order_relaxed) == WEFT__POOL_STOPPING) {
        weft__pool_join_threads(pool);
        atomic_store_explicit(&pool->drain_awaited, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->phase, WEFT__POOL_STOPPED, memory_order_release);
    }
    weft__unlock(&pool->phase_lock);
    return 0;
}
