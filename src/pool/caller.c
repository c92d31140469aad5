/* The thread that created a pool as its worker 0: for the duration of a run, or poll by poll inside
 * a host's event loop.
 */
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/nonnull.h"
#include "base/thread.h"
#include "sched/pool.h"
#include "sched/timer.h"

#define STOP_GRACE_NS 1000000000

static int check_caller(const weft_pool *pool)
{
    weft__pool_check_fork(pool);
    if (!pool->caller || !pthread_equal(pool->caller_thread, pthread_self())) {
        return -EINVAL;
    }
    /* Inside a fiber or another pool's loop this thread is in use. */
    return weft__worker_self() ? -EBUSY : 0;
}

/* seq_cst: a stop reads the state after the stop has begun; a caller that leaves checks for a stop
 * afterwards. */
static void set_caller_state(weft_pool *pool, enum weft_worker_state state)
{
    atomic_store_explicit(&pool->workers[0].state, state, memory_order_seq_cst);
}

void weft__pool_caller_enter(weft_pool *pool)
{
    set_caller_state(pool, WEFT_WORKER_RUNNING);
    weft__pool_leave_host(pool);
}

void weft__pool_caller_leave(weft_pool *pool)
{
    set_caller_state(pool, WEFT_WORKER_ABSENT);
    weft__worker_evict_io(&pool->workers[0]);
    weft__worker_hand_over(&pool->workers[0]);
    if (atomic_load_explicit(&pool->drain_awaited,
                             memory_order_seq_cst)) { /* pairs: wait_drained */
        weft__pool_check_drained(pool);
    }
}

static void set_runner(weft_pool *pool, struct weft__waiter *waiter)
{
    weft__lock(&pool->lock);
    pool->runner = waiter;
    weft__unlock(&pool->lock);
}

/* The work of worker 0 on the caller's thread. */
struct loop_args {
    struct weft__worker *w;
    const _Atomic(uint32_t) *until; /* NULL: until no work is left */
    uint64_t turns;
};

static void serve(void *arg)
{
    struct loop_args *loop_args = arg;
    if (loop_args->until) {
        weft__worker_loop(loop_args->w, loop_args->until);
    } else {
        loop_args->turns = weft__worker_run_ready(loop_args->w);
    }
}

static void thread_lost(void *arg)
{
    weft__worker_thread_lost(((struct loop_args *)arg)->w);
}

enum weft__reason weft__pool_lend_thread(weft_pool *pool, struct weft__waiter *waiter)
{
    struct weft__worker *w = &pool->workers[0];
    cpu_set_t before, mine;
    bool pinned =
        w->cpu >= 0 && pthread_getaffinity_np(pthread_self(), sizeof before, &before) == 0;
    if (pinned) {
        CPU_ZERO(&mine);
        CPU_SET(w->cpu, &mine);
        pthread_setaffinity_np(pthread_self(), sizeof mine, &mine);
    }
    set_runner(pool, waiter);
    weft__worker_enter_thread(w);
    weft__thread_guard(serve, &(struct loop_args){.w = w, .until = &waiter->word}, thread_lost);
    weft__worker_leave_thread(w, WEFT_WORKER_RUNNING);
    set_runner(pool, NULL);
    if (pinned) {
        pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    }
    return (enum weft__reason)atomic_load_explicit(&waiter->word, memory_order_acquire);
}

/* The deadline of a run: a timer of the pool, which ends the caller's wait. */
static void run_expired(weft_timer *timer, void *arg, uint64_t times)
{
    struct weft__waiter *waiter = arg;
    (void)timer, (void)times;
    if (!weft__waiter_fire_thread(waiter, WEFT__REASON_TIMEOUT)) {
        /* The fiber has just ended, or a deadlock was found. */
    }
}

static enum weft__reason lend_thread_until(weft_pool *pool, struct weft__waiter *waiter,
                                           int64_t deadline)
{
    if (deadline == WEFT_FOREVER) {
        return weft__pool_lend_thread(pool, waiter);
    }
    weft_timer timer;
    weft_timer_init(&timer, run_expired, waiter, &(struct weft_timer_opts){.pool = pool});
    weft_timer_set(&timer, deadline);
    enum weft__reason reason = weft__pool_lend_thread(pool, waiter);
    weft_timer_cancel_wait(&timer, WEFT_FOREVER);
    weft_timer_deinit(&timer);
    return reason;
}

int weft_pool_run(weft_pool *pool, void **result, weft_fn fn, void *arg, int64_t deadline)
{
    WEFT__NONNULL(pool);
    int err = pool->group_sched ? -EINVAL : check_caller(pool);
    if (err) {
        return err;
    }
    weft_fiber main_fiber;
    /* Before the spawn: otherwise a stop would conclude that no thread runs the main fiber. */
    weft__pool_caller_enter(pool);
    err = weft_pool_spawn(pool, &main_fiber, fn, arg, &(struct weft_fiber_opts){.name = "main"});
    if (err) {
        weft__pool_caller_leave(pool);
        return err;
    }
    struct weft__waiter waiter;
    struct weft__node node;
    weft__waiter_arm_worker(&waiter, &pool->workers[0].sleeper.parker, &pool->visitors);
    weft__node_init(&node, &waiter, 0);
    if (weft__join_arm(main_fiber, &node)) {
        enum weft__reason reason = lend_thread_until(pool, &waiter, deadline);
        err = reason == WEFT__REASON_CANCEL    ? -EDEADLK
              : reason == WEFT__REASON_TIMEOUT ? -ETIMEDOUT
                                               : 0;
        if (err) {
            weft__join_disarm(main_fiber, &node);
        }
    }
    weft__pool_caller_leave(pool);
    if (err) {
        return err;
    }
    if (result) {
        *result = node.value;
    }
    return 0;
}

/* --- inside a host's event loop ------------------------------------------------------------- */

static int host_add(const weft_pool *pool, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(pool->host_epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void weft__pool_host_close(const weft_pool *pool)
{
    if (pool->host_fd >= 0) {
        close(pool->host_fd);
    }
    if (pool->host_epoll >= 0) {
        close(pool->host_epoll);
    }
}

int weft__pool_host_open(weft_pool *pool)
{
    pool->host_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pool->host_epoll = epoll_create1(EPOLL_CLOEXEC);
    int err = pool->host_fd < 0 || pool->host_epoll < 0 ? -errno : host_add(pool, pool->host_fd);
    if (err) {
        weft__pool_host_close(pool);
    }
    return err;
}

int weft__pool_host_watch(weft_pool *pool, const struct weft__driver *driver)
{
    return driver->poll_fd >= 0 ? host_add(pool, driver->poll_fd) : 0;
}

/* Worker 0 may be listed as sleeping between two polls. */
void weft__pool_leave_host(weft_pool *pool)
{
    struct weft__worker *w = &pool->workers[0];
    if (atomic_load_explicit(&w->sleeper.parker.host_fd, memory_order_relaxed) < 0) {
        return;
    }
    uint64_t count;
    weft__parker_leave_host(&w->sleeper.parker);
    weft__idle_leave(&pool->idle, &w->sleeper);
    w->sleeper.host = false;
    if (read(pool->host_fd, &count, sizeof count) < 0) {
        /* Nothing had been written to it. */
    }
}

int weft_pool_poll(weft_pool *pool)
{
    WEFT__NONNULL(pool);
    return pool->group_sched ? -EINVAL : weft__pool_poll(pool);
}

int weft__pool_poll(weft_pool *pool)
{
    int err = check_caller(pool);
    if (err) {
        return err;
    }
    struct weft__worker *w = &pool->workers[0];
    uint64_t turns = 0;
    weft__worker_enter_thread(w);
    weft__pool_leave_host(pool);
    for (;;) {
        struct loop_args loop_args = {.w = w};
        weft__thread_guard(serve, &loop_args, thread_lost);
        turns += loop_args.turns;
        weft__worker_announce_timers(w);
        /* Like any worker that goes to sleep: enter, then check once more. */
        w->sleeper.host = true;
        weft__idle_enter(&pool->idle, &w->sleeper, false);
        weft__worker_check_cancelling(w);
        if (atomic_load_explicit(&pool->drain_awaited, memory_order_seq_cst)) {
            weft__pool_check_drained(pool);
        }
        bool left = weft__worker_has_work(w);
        if ((!left || w->group_sched) &&
            weft__parker_enter_host(&w->sleeper.parker, pool->host_fd)) {
            if (left) {
                weft__parker_wake(&w->sleeper.parker); /* the host polls again at once */
            }
            break;
        }
        weft__idle_leave(&pool->idle, &w->sleeper);
        w->sleeper.host = false;
    }
    weft__worker_leave_thread(w, WEFT_WORKER_PARKED);
    return turns < INT32_MAX ? (int)turns : INT32_MAX;
}

int weft_pool_fd(weft_pool *pool)
{
    WEFT__NONNULL(pool);
    return pool->caller ? pool->host_epoll : -EINVAL;
}

int64_t weft_pool_next_deadline(weft_pool *pool)
{
    WEFT__NONNULL(pool);
    const struct weft__driver *driver = weft__worker_peek_driver(&pool->workers[0]);
    int64_t timer = weft__worker_nearest_timer(&pool->workers[0]);
    int64_t again =
        driver ? atomic_load_explicit(&driver->repoll_at, memory_order_relaxed) : INT64_MAX;
    return again < timer ? again : timer;
}

/* --- weft_run --------------------------------------------------------------------------------- */

/* After a deadlock or the deadline: cancels the fibers, then aborts them. The pool is kept if some
 * still remain. */
static int end_unfinished(weft_pool *pool)
{
    int err = weft_pool_stop(pool, WEFT_STOP_CANCEL, weft_after(STOP_GRACE_NS));
    return err ? weft_pool_stop(pool, WEFT_STOP_ABORT, weft_after(STOP_GRACE_NS)) : 0;
}

static int run_all(void **result, weft_fn fn, void *arg, const struct weft_pool_opts *options,
                   int64_t deadline)
{
    struct weft_pool_opts opts = {0};
    if (options) {
        opts = *options;
    }
    opts.caller = true;
    weft_pool *pool = NULL;
    int err = weft_pool_create(&pool, &opts);
    if (err) {
        return err;
    }
    WEFT__ASSERT(pool);
    err = weft_pool_start(pool);
    if (!err) {
        err = weft_pool_run(pool, result, fn, arg, deadline);
        bool unfinished = err == -EDEADLK || err == -ETIMEDOUT;
        int stopped = unfinished ? err : weft_pool_stop(pool, WEFT_STOP_DRAIN, deadline);
        err = err ? err : stopped;
        if ((unfinished || stopped == -EDEADLK || stopped == -EBUSY) && end_unfinished(pool) != 0) {
            return err;
        }
    }
    weft_pool_destroy(pool);
    return err;
}

/* A cancellation of the calling thread is deferred: it would leave half a pool behind. */
int weft_run(void **result, weft_fn fn, void *arg, const struct weft_pool_opts *options,
             int64_t deadline)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    int err = run_all(result, fn, arg, options, deadline);
    pthread_setcancelstate(before, NULL);
    return err;
}
